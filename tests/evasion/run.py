"""Prints what becomes of the evasion corpus, family by family; ends with 1 if anything leaks or a neighbour is stopped.

    python tests/evasion/run.py

tried: what was sent, each spelling in one way or in several. blocked: what was stopped, by the filter's own answer or
by mitmproxy, which refuses what it cannot read. leaked: what arrived at the origin. unfiltered: how many of the
spellings reach an origin, in one of the ways at least, where the filter is off.
"""

from __future__ import annotations

import logging
import sys
from contextlib import ExitStack, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.origin import Origin
from e2e.proxy import Proxy
from evasion.corpus import ENTRIES, NEIGHBOURS, families, ways
from evasion.driver import arrives_unfiltered, ask, filtering, passes, sweep
from evasion.entries import Entry

_ROW = "{:<39} {:>9} {:>6} {:>8} {:>7} {:>11}"
_NEIGHBOUR = "{:<39} {:>9} {:>6} {:>8}"


def main() -> int:
    """Run all of it. The exit code is 1 where something leaked or a neighbour was stopped, else 0."""
    logging.getLogger("asyncio").addHandler(logging.NullHandler())  # the origin's complaints of what it is sent
    with ExitStack() as running:
        folder = Path(running.enter_context(TemporaryDirectory()))
        origins = [running.enter_context(Origin(_made(folder / name))) for name in ("origin", "unfiltered")]
        proxy = running.enter_context(filtering(folder, origins[0]))
        unfiltered = running.enter_context(filtering(folder, origins[1], mode="off"))
        leaked = _spellings((proxy, origins[0]), (unfiltered, origins[1]))
        stopped = _neighbours(proxy, origins[0])
        with redirect_stdout(StringIO()):  # what mitmdump has printed is shown when it ends, for tests
            running.close()
    for verdict, entries in (("leaked", leaked), ("stopped", stopped)):
        for entry in entries:
            print(f"{verdict}: {entry.family}: {entry.spelling}" + (f", for {entry.blocked}" if entry.blocked else ""))
    print(f"spellings: tried {len(ENTRIES)}, blocked {len(ENTRIES) - len(leaked)}, leaked {len(leaked)}")
    print(f"neighbours: tried {len(NEIGHBOURS)}, passed {len(NEIGHBOURS) - len(stopped)}, blocked {len(stopped)}")
    return 1 if leaked or stopped else 0


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _spellings(filtered: tuple[Proxy, Origin], unfiltered: tuple[Proxy, Origin]) -> list[Entry]:
    """Print what becomes of what must not arrive; what of it leaked."""
    print(_ROW.format("spellings of what is blocked", "spellings", "tried", "blocked", "leaked", "unfiltered"))
    rows, leaked, answered = [], [], 0
    for name, family in families(ENTRIES).items():
        result, spellings = sweep(*filtered, family), ways(family)
        leaked += result.leaked
        answered += result.answered
        lost = len(result.leaked)
        harmful = sum(arrives_unfiltered(*unfiltered, same) for same in spellings)
        rows.append((len(spellings), len(family), len(family) - lost, lost, harmful))
        print(_ROW.format(name, *rows[-1]), flush=True)
    print(_ROW.format("all", *map(sum, zip(*rows, strict=True))))
    refused = len(ENTRIES) - len(leaked) - answered
    print(f"of those blocked, {answered} answered in the origin's place, {refused} refused by mitmproxy itself\n")
    return leaked


def _neighbours(proxy: Proxy, origin: Origin) -> list[Entry]:
    """Print what becomes of what has to arrive; what of it was stopped."""
    print(_NEIGHBOUR.format("harmless neighbours", "tried", "passed", "blocked"))
    stopped = []
    for name, family in families(NEIGHBOURS).items():
        lost = [entry for entry in family if not passes(entry, ask(proxy, origin, entry)[0])]
        stopped += lost
        print(_NEIGHBOUR.format(name, len(family), len(family) - len(lost), len(lost)), flush=True)
    print(_NEIGHBOUR.format("all", len(NEIGHBOURS), len(NEIGHBOURS) - len(stopped), len(stopped)), end="\n\n")
    return stopped


if __name__ == "__main__":
    sys.exit(main())
