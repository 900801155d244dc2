"""How large a log is on the disk, how fast it grows, how far it reaches back, and what of its settings ends it first.

All of it takes milliseconds, whatever the log has: SQLite looks numbers up in its indexes, and counts no row. Rows have
consecutive numbers, but for some that were removed.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hushlist.core.errors import number_of
from hushlist.extensions.databases.kept_files import BESIDE, opened
from hushlist.extensions.journal.log_files import CURRENT, DATABASE, older_files
from hushlist.extensions.journal.log_keys import LogSettings
from hushlist.extensions.journal.log_record import time_text

_A_DAY = 86400.0
#: seconds to wait for a lock
_PATIENCE = 0.3
#: of the rows or files that are kept: with so many, old ones are removed for new ones
_FULL = 0.95
_NUMBERS = "SELECT (SELECT min(number) FROM decisions), (SELECT max(number) FROM decisions)"
_OLDEST = "SELECT time FROM decisions ORDER BY number LIMIT 1"
_OF_LAST_DAY = "SELECT number FROM decisions WHERE time >= ? ORDER BY time LIMIT 1"
_LINE = "SELECT avg(length(record)) FROM (SELECT record FROM decisions ORDER BY number DESC LIMIT 200)"


@dataclass(frozen=True, slots=True)
class LogFigures:
    """About a log in files.

    >>> print(LogFigures(1 << 30, 80_000, 1_798_151_400.25, "rows", 2.5, 30))
    1.1 GB; 80,000 records in the last day; back to 2026-12-24 22:30 UTC; 'rows' keeps 2.5 days, 'days' says 30
    >>> print(LogFigures(2_000_000, 10, None, "days", None, 7))
    2 MB; 10 records in the last day; 'days' ends it: 7 days
    """

    #: on the disk
    octets: int
    #: rows of the last day; ``None`` without SQLite
    a_day: int | None
    #: when the oldest record was made, in seconds since 1970
    since: float | None
    #: which setting ends it first: ``days``, ``rows`` or ``files``; empty where that cannot be told yet
    ends: str
    #: how many days that setting keeps, if fewer than ``days`` says
    keeps: float | None
    days: int

    @property
    def ends_early(self) -> bool:
        """Whether records go before they are as old as ``days`` says."""
        return self.keeps is not None

    def __str__(self) -> str:
        parts = [_size_text(self.octets)]
        if self.a_day is not None:
            parts.append(f"{number_of(self.a_day, 'record', 'records')} in the last day")
        if self.since is not None:
            parts.append(f"back to {datetime.fromtimestamp(self.since, UTC):%Y-%m-%d %H:%M} UTC")
        if self.keeps is not None:
            parts.append(f"'{self.ends}' keeps {self.keeps:.2g} days, 'days' says {self.days}")
        elif self.ends:
            parts.append(f"'days' ends it: {number_of(self.days, 'day', 'days')}")
        return "; ".join(parts)


def read_figures(folder: Path, settings: LogSettings, moment: float) -> LogFigures | None:
    """Those of a log that another process may write; ``None``: there is none, or its SQLite file cannot be read now."""
    if not (folder / DATABASE).exists():
        return figures_of(folder, settings, moment, None) if (folder / CURRENT).exists() else None
    with suppress(sqlite3.Error), closing(opened(folder / DATABASE, _PATIENCE)) as connection:
        connection.execute("PRAGMA query_only = 1")
        return figures_of(folder, settings, moment, connection)
    return None


def figures_of(folder: Path, settings: LogSettings, moment: float, rows: sqlite3.Connection | None) -> LogFigures:
    """The figures at a moment, in seconds since 1970; ``rows``: the log in SQLite, if it has one."""
    files = older_files(folder)
    databases = (folder / f"{DATABASE}{ending}" for ending in ("", *BESIDE))
    octets = sum(map(_octets, (*files, folder / CURRENT, *databases)))
    first, last = (None, None) if rows is None else rows.execute(_NUMBERS).fetchone()
    times = [_modified(files[0])] if files else []
    full = {"files": _days_since(times[0], moment)} if times and len(files) >= _FULL * settings.files else {}
    if rows is None or first is None:
        return _as_figures(octets, 0 if rows else None, times[0] if times else None, full, settings)
    number = last - first + 1
    since = _moment(rows.execute(_OLDEST).fetchone())
    of_last_day = rows.execute(_OF_LAST_DAY, (time_text(moment - _A_DAY),)).fetchone()
    age = 0.0 if since is None else _days_since(since, moment)
    if number >= _FULL * settings.rows:
        full["rows"] = age
    if age >= 1:
        (line,) = rows.execute(_LINE).fetchone()
        lines = settings.size * (settings.files + 1) / max(line, 1)
        full = {"rows": settings.rows * age / number, "files": lines * age / number} | full
    return _as_figures(octets, 0 if of_last_day is None else last - of_last_day[0] + 1, since, full, settings)


def _as_figures(
    octets: int, a_day: int | None, since: float | None, keeps: dict[str, float], settings: LogSettings
) -> LogFigures:
    """``keeps``: how many days each setting keeps, as far as that is known."""
    ends = min(keeps, key=lambda name: keeps[name], default="")
    if ends and keeps[ends] < settings.days:
        return LogFigures(octets, a_day, since, ends, keeps[ends], settings.days)
    return LogFigures(octets, a_day, since, "days" if keeps else "", None, settings.days)


def _size_text(octets: int) -> str:
    """A size for people.

    >>> [_size_text(octets) for octets in (512, 4_300_000, 100_000_000, 25_000_000_000)]
    ['0.51 kB', '4.3 MB', '100 MB', '25 GB']
    """
    unit, name = next((scale for scale in ((1e9, "GB"), (1e6, "MB")) if octets >= scale[0]), (1e3, "kB"))
    number = octets / unit
    return f"{number:.0f} {name}" if number >= 100 else f"{number:.2g} {name}"


def _days_since(moment: float, now: float) -> float:
    return max(0.0, now - moment) / _A_DAY


def _octets(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _modified(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _moment(row: tuple[object] | None) -> float | None:
    with suppress(ValueError):
        return None if row is None else datetime.fromisoformat(str(row[0])).timestamp()
    return None
