"""The hour of ``soak.py --steady``: how much memory has a proxy after each minute, whose lists change all the time?

Its lists are long and real, all is logged, and a list is another one every few seconds. Nothing else happens: no
mistake, nobody who breaks off; so what grows is neither.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import data
import pupils

PROBE = Path(__file__).with_name("memory_probe.py")
#: clients of each kind
CLIENTS: dict[pupils.Client, int] = {pupils.plain: 12, pupils.tls: 3, pupils.http2: 1}
#: hosts that are asked over TLS: more than mitmproxy keeps certificates
TLS_HOSTS = 300
#: a part of the time in which caches fill; MB by which memory may grow and shrink behind it
WARM_UP, FLAT = 0.2, 10.0
#: versions of the list that changes, lines of each, and how many of them the next one has not; no gate holds that back
_VERSIONS, _LINES, _OTHERS = 8, 2000, 50
_POLICY = """\
log: {{what: all, folder: log}}
layers:
- name: own
  lists:
  - {{file: changing.domains, format: domains}}
- name: lists
  lists:
{lists}
"""
_MB = 1e6


@dataclass(slots=True)
class Lists:
    """UT1, EasyList, and a list of which one version replaces the other, over and over: each is compiled once."""

    folder: Path

    def begin(self) -> Path:
        """Write the files; the policy's path."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "easylist.txt").write_text(data.filter_lists()[0])
        entries = [
            {"file": str(path), "format": "squidguard", "category": f"hrn://soak.example/{path.name}"}
            for path in sorted((data.DATA / "ut1").iterdir())
            if path.is_dir()
        ]
        entries.append({"file": "easylist.txt", "format": "adblock"})
        self._use(0)
        policy = self.folder / "policy.yaml"
        policy.write_text(_POLICY.format(lists="\n".join(f"  - {json.dumps(entry)}" for entry in entries)))
        return policy

    async def keep_changing(self, seconds: float) -> None:
        """Use another version every few seconds; never, if there are none."""
        for version in cycle((*range(1, _VERSIONS), 0)):
            if not seconds:
                return
            await asyncio.sleep(seconds)
            self._use(version)

    def _use(self, version: int) -> None:
        names = (f"h{number}.changing.example\n" for number in range(_OTHERS * version, _OTHERS * version + _LINES))
        draft = self.folder / "changing.draft"
        draft.write_text("".join(names))
        draft.replace(self.folder / "changing.domains")


@dataclass(frozen=True, slots=True)
class Row:
    """The proxy's memory after some minutes, in octets."""

    minutes: float
    answered: int
    #: policies that came into use, and those that are still in memory
    policies: int
    held: int
    #: resident; its share of what other processes have, too; neither a file's nor shared; of malloc, and in use there
    rss: int
    pss: int
    anonymous: int
    heap: int
    used: int
    #: of Python's allocator, each at most 512 octets
    blocks: int


HEAD = "minutes  requests  reloads  policies in memory  RSS, MB  PSS, MB  anonymous, MB  malloc, MB  in use, MB  blocks"


def line(row: Row) -> str:
    """A row for people, below ``HEAD``."""
    octets = [
        f"{own / _MB:{width}.1f}"
        for own, width in zip((row.rss, row.pss, row.anonymous, row.heap, row.used), (7, 7, 13, 10, 10), strict=True)
    ]
    numbers = f"{row.minutes:7.0f}  {row.answered:8}  {row.policies - 1:7}  {row.held:18}"
    return "  ".join((numbers, *octets, f"{row.blocks:6}"))


async def watch(process: int, school: pupils.School, figures: Path, seconds: float, rows: list[Row]) -> None:
    """Add a row every so many seconds, and print it."""
    start = time.monotonic()
    print(HEAD, flush=True)
    while True:
        await asyncio.sleep(seconds)
        lines = figures.read_text().splitlines()
        told = json.loads(lines[-1]) if lines else {}
        own = _rollup(process)
        rows.append(
            Row(
                (time.monotonic() - start) / 60,
                school.counts["from the origin"] + school.counts["blocked"],
                *(told.get(name, 0) for name in ("policies", "held")),
                *(own[name] for name in ("Rss", "Pss", "Anonymous")),
                *(told.get(name, 0) for name in ("heap", "used", "blocks")),
            )
        )
        print(line(rows[-1]), flush=True)


def _rollup(process: int) -> dict[str, int]:
    """The figures of proc_pid_smaps(5) of all of a process's memory, in octets."""
    _, *lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return {name.rstrip(":"): int(number) << 10 for name, number, _ in map(str.split, lines)}


def unsteady(rows: Sequence[Row]) -> float:
    """MB between the least and the most resident memory behind the warm-up."""
    resident = [row.rss for row in rows if row.minutes >= WARM_UP * rows[-1].minutes]
    return (max(resident) - min(resident)) / _MB
