"""Prints what becomes of the evasion corpus, family by family; ends with 1 if anything leaks or a neighbour is stopped.

    python tests/evasion/run.py
    python tests/evasion/run.py --corpus                                  without real servers
    python tests/evasion/run.py --targets 50000 --seed 7 --servers        real servers alone
    python tests/evasion/run.py --targets 50000 --seed 7 --servers nginx node    and of those, some programs

tried: what was sent, each spelling in one way or in several. blocked: what was stopped, by the filter's own answer or
by mitmproxy, which refuses what it cannot read. leaked: what arrived at the origin. unfiltered: how many of the
spellings reach an origin, in one of the ways at least, where the filter is off.

Real servers are asked for what people have thought of, and for random targets, of a seed. harmful: what they served
that is blocked: something in /secret/, or outside of the folder that is allowed. missed: what of that the filter would
let pass. sent: how much of it went through mitmdump; leaked, unfiltered: what arrived, with the filter and without.
"""

from __future__ import annotations

import logging
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.origin import Origin
from e2e.proxy import Proxy
from evasion.corpus import ENTRIES, FRONTED, NEIGHBOURS, families, ways
from evasion.driver import arrives_unfiltered, filtering, stopped, sweep
from evasion.entries import OPAQUE, Entry
from evasion.servers.asking import ask_all
from evasion.servers.judge import Judge, Miss
from evasion.servers.lab import running
from evasion.servers.proof import arrives, available, hostile, sample

_ROW = "{:<39} {:>9} {:>6} {:>8} {:>7} {:>11}"
_NEIGHBOUR = "{:<39} {:>9} {:>6} {:>8}"
#: how many of a server's harmful targets go through mitmdump, at least
_SAMPLE = 5
#: how many of a server's misses are shown
_SHOWN = 5
_SERVER = "{:<46} {:>7} {:>7} {:>6} {:>5} {:>6} {:>10}"


def main() -> int:
    """Run all of it. The exit code is 1 where something leaked or a neighbour was stopped, else 0."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what runs is ended, too
    logging.getLogger("asyncio").addHandler(logging.NullHandler())  # the origin's complaints of what it is sent
    with TemporaryDirectory() as folder:
        is_good = options.servers is not None or all([_corpus(Path(folder)), _where_needed(Path(folder))])
        return 0 if (options.corpus or _servers(Path(folder), options)) and is_good else 1


def _options() -> Namespace:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--corpus", action="store_true", help="the corpus alone")
    parser.add_argument("--targets", type=int, default=1000, help="random targets for each real server")
    parser.add_argument("--seed", type=int, default=1, help="what they are made from")
    parser.add_argument("--servers", nargs="*", metavar="PROGRAM", help="real servers alone, all or these programs")
    return parser.parse_args()


def _corpus(folder: Path) -> bool:
    """Print what becomes of the corpus; whether nothing leaked and no neighbour was stopped."""
    with ExitStack() as running_now:
        origins = [running_now.enter_context(Origin(_made(folder / name))) for name in ("origin", "unfiltered")]
        proxy = running_now.enter_context(filtering(folder, origins[0]))
        unfiltered = running_now.enter_context(filtering(folder, origins[1], mode="off"))
        leaked = _spellings((proxy, origins[0]), (unfiltered, origins[1]))
        lost = _neighbours(proxy, origins[0])
        with redirect_stdout(StringIO()):  # what mitmdump has printed is shown when it ends, for tests
            running_now.close()
    return _print_totals(leaked, lost, len(ENTRIES))


def _where_needed(folder: Path) -> bool:
    """Print what leaks, and what is stopped, where only what a rule could need is decrypted.

    Whether to decrypt is asked in tunnels alone. What the inside of TLS alone tells is stopped for hosts that are
    always decrypted.
    """
    home = _made(folder / "where-needed")
    seen = [entry for entry in ENTRIES if entry.tunnel and not (entry.is_fronted or entry.blocked in OPAQUE)]
    lost: list[Entry] = []
    with Origin(_made(home / "origin")) as origin, redirect_stdout(StringIO()):
        with filtering(home, origin, settings={"decrypt": "where-needed"}) as proxy:
            leaked = [*sweep(proxy, origin, seen).leaked]
            lost += stopped(proxy, origin, NEIGHBOURS)
        more = {"decrypt": "where-needed", "always-decrypt": ["good.test"]}
        with filtering(_made(home / "always"), origin, settings=more) as proxy:
            leaked += sweep(proxy, origin, FRONTED).leaked
    return _print_totals(leaked, lost, len(seen) + len(FRONTED), "where only what a rule could need is decrypted: ")


def _print_totals(leaked: Sequence[Entry], lost: Sequence[Entry], tried: int, where: str = "") -> bool:
    """Print the totals; whether nothing leaked and no neighbour was stopped."""
    for verdict, entries in (("leaked", leaked), ("stopped", lost)):
        for entry in entries:
            print(f"{verdict}: {entry.family}: {entry.spelling}" + (f", for {entry.blocked}" if entry.blocked else ""))
    print(f"{where}spellings: tried {tried}, blocked {tried - len(leaked)}, leaked {len(leaked)}")
    print(f"{where}neighbours: tried {len(NEIGHBOURS)}, passed {len(NEIGHBOURS) - len(lost)}, blocked {len(lost)}\n")
    return not leaked and not lost


def _servers(folder: Path, options: Namespace) -> bool:
    """Print what real servers serve of hostile targets; whether the filter would have blocked all that is blocked."""
    programs, missing = available(options.servers or ())
    judge, asked = Judge(_made(folder / "judge")), hostile(options.targets, options.seed)
    print(_SERVER.format("real servers", "asked", "harmful", "missed", "sent", "leaked", "unfiltered"))
    misses: list[tuple[str, Miss]] = []
    rows = []
    home = _made(folder / "servers")
    with ExitStack() as running_now:
        servers = running_now.enter_context(running(programs))
        origin = running_now.enter_context(Origin(_made(home / "origin")))
        proxies = [
            running_now.enter_context(filtering(home, origin, mode=mode, options={"upstream_others": "true"}))
            for mode in ("block", "off")
        ]
        for server in servers:
            judged = judge.judge(asked, ask_all(server, asked))
            some = sample(judged, _SAMPLE)
            leaked, unfiltered = (sum(arrives(proxy, server, *one) for one in some) for proxy in proxies)
            rows.append((len(asked), len(judged.harmful), len(judged.misses), len(some), leaked, unfiltered))
            print(_SERVER.format(server.name, *rows[-1]), flush=True)
            misses += [(server.name, miss) for miss in judged.misses[:_SHOWN]]
        with redirect_stdout(StringIO()):
            running_now.close()
    print(_SERVER.format("all", *map(sum, zip(*rows, strict=True))))
    for name, miss in misses:
        hosts = b", ".join(miss.hosts).decode()
        print(f"missed: {name} ({miss.reading}): {miss.target!r} served {miss.served!r} of {hosts}")
    for program in missing:
        print(f"not installed: {program}")
    return not misses and not any(leaked for *_, leaked, _ in rows)


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
    found = []
    for name, family in families(NEIGHBOURS).items():
        lost = stopped(proxy, origin, family)
        found += lost
        print(_NEIGHBOUR.format(name, len(family), len(family) - len(lost), len(lost)), flush=True)
    print(_NEIGHBOUR.format("all", len(NEIGHBOURS), len(NEIGHBOURS) - len(found), len(found)), end="\n\n")
    return found


if __name__ == "__main__":
    sys.exit(main())
