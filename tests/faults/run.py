"""Inject every fault, with ``on-failure: closed`` and ``open``, and print what became of requests; then those of
servers of Safe Browsing, with ``no-answer: pass`` and ``block``, and of several workers, under load.

    python tests/faults/run.py [WORDS]

Where there are words, only the faults that have them in their names are tried.
The exit code is 0 where all is as it has to be, and 1 where it is not.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "addon")]

from e2e.haproxy import HAPROXY  # noqa: E402
from e2e.origin import Origin  # noqa: E402
from faults.fleet_lab import FleetLab  # noqa: E402
from faults.fleet_table import FLEET_FAULTS, FleetFault, try_fleet  # noqa: E402
from faults.lab import Lab  # noqa: E402
from faults.table import FAULTS, Fault, NotHereError, try_running, try_start  # noqa: E402
from faults.threat_lab import CHOICES, ThreatLab  # noqa: E402
from faults.threat_table import THREAT_FAULTS, try_threat  # noqa: E402
from faults.workers_lab import WORKER_FAULTS, WorkersLab  # noqa: E402

_CHOICES = ("closed", "open")
_NOT_HERE = "not here"


def main() -> int:
    """Print a line for each fault, and the totals."""
    faults = [fault for fault in FAULTS if " ".join(sys.argv[1:]) in fault.name]
    results: dict[tuple[str, str], str] = {}
    with tempfile.TemporaryDirectory() as name, Origin(Path(name)) as origin:
        for choice in _CHOICES:
            for fault, result in _try_all(faults, Path(name) / choice, origin, choice):
                results[fault.name, choice] = result
                print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    counts = Counter[str]()
    print(f"{'injected':<40} {'closed':<10} {'open':<10} ok")
    for fault in faults:
        got = [results[fault.name, choice] for choice in _CHOICES]
        is_ok = all(one in (_NOT_HERE, fault.expected(choice)) for one, choice in zip(got, _CHOICES, strict=True))
        counts.update(["not here" if _NOT_HERE in got else "ok" if is_ok else "WRONG"])
        print(f"{fault.name:<40} {got[0]:<10} {got[1]:<10} {'yes' if is_ok else 'NO'}")
    print(f"{len(faults)} faults: {', '.join(f'{number} {what}' for what, number in counts.items())}")
    return 1 if counts["WRONG"] + _print_threats() + _print_fleet() else 0


def _print_threats() -> int:
    """Print a line for each fault of a server of Safe Browsing; how many are not as they have to be."""
    faults = [fault for fault in THREAT_FAULTS if " ".join(sys.argv[1:]) in fault.name]
    if not faults:
        return 0
    wrong, rows = 0, []
    with tempfile.TemporaryDirectory() as name, Origin(Path(name)) as origin, ExitStack() as stack:
        stack.enter_context(redirect_stdout(sys.stderr))
        names = [fault.name for fault in faults]
        lab = stack.enter_context(ThreatLab(Path(name) / "lab", origin, names).running())
        for fault in faults:
            try:
                found = try_threat(fault, lab)
                is_ok = all(found[choice] == fault.expected(choice) for choice in CHOICES)
                rows.append(f"{fault.name:<42} {found['pass']:<10} {found['block']:<10} {'yes' if is_ok else 'NO'}")
            except Exception as error:  # whatever it is, the others are tried
                is_ok = False
                rows.append(f"{fault.name:<42} WRONG: {error!r}"[:200])
            wrong += not is_ok
    print(f"\n{'injected into a server of Safe Browsing':<42} {'pass':<10} {'block':<10} ok")
    print("\n".join(rows))
    return wrong


def _print_fleet() -> int:
    """Print a line for each fault of several workers; how many are not as they have to be."""
    wrong = _print_loaded("two workers of hushlist proxy", WORKER_FAULTS, WorkersLab)
    if not HAPROXY:
        print("the fleet: there is no haproxy")
        return wrong
    return wrong + _print_loaded("two workers behind HAProxy", FLEET_FAULTS, FleetLab)


def _print_loaded(
    what: str, table: Sequence[FleetFault[Any]], lab_of: Callable[[Path, Origin], FleetLab | WorkersLab]
) -> int:
    faults = [fault for fault in table if " ".join(sys.argv[1:]) in fault.name]
    wrong, rows = 0, []
    with tempfile.TemporaryDirectory() as name, Origin(Path(name)) as origin, ExitStack() as stack:
        stack.enter_context(redirect_stdout(sys.stderr))
        lab = stack.enter_context(lab_of(Path(name) / "lab", origin).running()) if faults else None
        for fault in faults:
            try:
                traffic = try_fleet(fault, lab)
                figures = f"{traffic.answered:>8} {len(traffic.lost):>4} {traffic.longest:>6.2f} s"
                rows.append(f"{fault.name:<62} {figures}  {fault.notice}")
            except Exception as error:  # whatever it is, the others are tried
                wrong += 1
                rows.append(f"{fault.name:<62} WRONG: {error!r}"[:200])
    print(f"\n{f'injected into {what}':<62} answered lost  longest  what users notice")
    print("\n".join(rows))
    return wrong


def _try_all(faults: Sequence[Fault], folder: Path, origin: Origin, choice: str) -> Iterator[tuple[Fault, str]]:
    running = [fault for fault in faults if not fault.at_start]
    lab = Lab(folder / "running", origin, choice)
    with lab.running() if running else nullcontext() as proxy:
        assert proxy is not None or not running, lab.said
        yield from ((fault, _try(fault, lab)) for fault in running)
    for number, fault in enumerate(fault for fault in faults if fault.at_start):
        yield fault, _try(fault, Lab(folder / f"start{number}", origin, choice))


def _try(fault: Fault, lab: Lab) -> str:
    try:
        return try_start(fault, lab) if fault.at_start else try_running(fault, lab)
    except NotHereError:
        return _NOT_HERE
    except Exception as error:  # whatever it is, the others are tried
        print(f"\n{fault.name} ({lab.choice}): {error!r}", file=sys.stderr)
        return "WRONG"


if __name__ == "__main__":
    sys.exit(main())
