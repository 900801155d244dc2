"""Long random histories of a large list: after every update, each client's list is the server's, bit by bit.

    .venv/bin/python tests/bench/list_histories.py [--versions 300] [--prefixes 100000] [--seed 1]

Clients of v4 and v5 come now and then, Rice coded and raw, some with a limit; so they are up to some versions behind.
Of each version, up to one prefix in a hundred is gone and as many are new; one in fifty is another list altogether.
Times are of processor.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from unit.tools.publish.list_clients import follow, service_of


def main() -> None:
    """Print how much was compared, and how long that took; an ``AssertionError`` where a list is another."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--versions", type=int, default=300, metavar="N", help="default: %(default)s")
    parser.add_argument("--prefixes", type=int, default=100_000, metavar="N", help="of the list (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: %(default)s")
    asked = parser.parse_args()
    start = time.process_time()
    with TemporaryDirectory() as folder:
        service = service_of(Path(folder))
        count = follow(service, random.Random(asked.seed), asked.versions, asked.prefixes, asked.prefixes // 100)
    spent = time.process_time() - start
    told = f"{asked.versions:,} versions of {asked.prefixes:,} prefixes, {count:,} updates of 5 clients"
    print(f"{told}: every list as the server's; {spent:.0f} s")


if __name__ == "__main__":
    main()
