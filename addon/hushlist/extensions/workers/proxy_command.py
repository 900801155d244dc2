"""``hushlist proxy``: several mitmdumps with the filter on one machine, which serve the same ports."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from hushlist.cli.common import BAD, GOOD, Commands, add_command, checked, complain, parse_number
from hushlist.core.system.platform import number_of_cores

#: workers: each has two sockets for a port, and a message has 250 at most
MOST_WORKERS = 64


def add_to(commands: Commands) -> None:
    text = "run the proxy with the filter, by several workers that serve the same ports"
    more = (
        "What stands after -- goes to each worker's mitmdump, but -s addon/filter.py, which they load anyway. SIGHUP "
        "restarts the workers one by one, and no request is lost. Exit codes: 0 a signal ended it; 2 it could not "
        "start."
    )
    parser = add_command(commands, "proxy", run_proxy, text, more)
    number = checked(_number_of_workers)
    parser.add_argument(
        "--workers",
        type=number,
        metavar="N",
        default=number_of_cores(),
        help="how many (default: one a core)",
    )
    parser.add_argument("arguments", nargs="*", metavar="OPTION", help="mitmdump's options, after --")


def _number_of_workers(text: str) -> int:
    number = parse_number(text)
    if number > MOST_WORKERS:
        raise ValueError(f"{text}: there are {MOST_WORKERS} workers at most")
    return number


def run_proxy(arguments: argparse.Namespace) -> int:
    """Run the workers until a signal ends them."""
    if sys.platform == "linux":
        from hushlist.extensions.workers.supervisor import Supervisor  # it imports mitmproxy

        with tempfile.TemporaryDirectory(prefix="hushlist-") as folder:

            async def run() -> bool:
                return await Supervisor(arguments.workers, arguments.arguments, Path(folder), complain).run()

            return GOOD if asyncio.run(run()) else BAD
    else:
        return complain("several workers need Linux: start mitmdump for one")
