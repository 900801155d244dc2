"""The store of alerts: how often something happened, what became an alert, who was told, and who has seen it.

All proxies count in it together, each in a transaction that excludes the others: of several, one sends a notice.

>>> import tempfile
>>> from datetime import UTC
>>> from hushlist.extensions.alerts.alert_keys import Conditions
>>> alert = Alert("games", Conditions(search=True), times=2, within=600.0)
>>> with tempfile.TemporaryDirectory() as folder:
...     book = AlertBook(Path(folder) / "state.sqlite", lambda: 6000.0)
...     for _ in range(2): book.note({("games", "user:jo"): Hit(1)}, [alert])
...     now = datetime.fromtimestamp(6000.0, UTC)
...     [(row.whom, row.number) for row, _ in book.take_due([alert], now)], book.take_due([alert], now)
([('user:jo', 2)], [])
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path

from hushlist.core.routes import MissingError
from hushlist.extensions.alerts.alert_keys import Alert
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.databases.sql import SqlConnection, keep_newest
from hushlist.extensions.databases.store import open_store
from hushlist.extensions.unblock.grant_events import GrantEvent, record_event
from hushlist.extensions.unblock.overrides import UNBLOCKS
from hushlist.extensions.unblock.taps import Tap, follow_tap, make_taps

_DAY = 86400.0
#: alerts that are kept, and seconds for which they are; counters and devices that are kept
MOST_ALERTS, KEPT = 5000, 30 * _DAY
MOST_COUNTERS, MOST_DEVICES = 50_000, 20_000
#: slots of a window, by which its beginning is counted
_SLOTS = 60
#: seconds from the first device on in which devices are learned, and none is new
LEARNING = _DAY
#: seconds for which a tap can say that somebody has seen an alert
TAPS_HOLD = 7 * _DAY


@dataclass(frozen=True, slots=True)
class Hit:
    """Something that happened, some times."""

    number: int
    #: what there is to tell of the last of them, as far as the log may have it
    about: Mapping[str, str] = field(default_factory=dict)
    #: whether it happens once: another hit that is about the same is no news
    is_state: bool = False


@dataclass(frozen=True, slots=True)
class AlertRow:
    """An alert that was raised. Times are seconds since the epoch."""

    id: int
    alert: str
    #: as the log may name who did it
    whom: str
    first: float
    last: float
    #: how often it has happened
    number: int
    about: Mapping[str, str]
    #: when a notice goes out; ``None``: none does
    due: float | None
    told: float | None
    #: notices that went out
    times: int
    seen: float | None
    seen_by: str | None


_NAMES = ", ".join(column.name for column in fields(AlertRow))
_SELECT = f"SELECT {_NAMES} FROM alerts"  # noqa: S608 - names of columns
_HIT = (
    "INSERT INTO alert_hits (alert, whom, slot, number) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (alert, whom, slot) DO UPDATE SET number = alert_hits.number + ?"
)
_IS_DUE = "due <= ? AND seen IS NULL"


class AlertBook:
    """A file, or a database; the methods wait for it, and raise ``StoreError`` if it cannot be read or written."""

    def __init__(self, place: Path | PostgresAddress, clock: Callable[[], float]) -> None:
        """``clock`` returns seconds since the epoch."""
        self.place, self._clock = place, clock
        self._store = open_store(place, UNBLOCKS, "alerts")

    def close(self) -> None:
        self._store.close()

    @contextmanager
    def _writing(self) -> Iterator[tuple[SqlConnection, float]]:
        with self._store.writing() as database:
            yield database, self._clock()

    @contextmanager
    def _looking(self) -> Iterator[tuple[SqlConnection, float]]:
        with self._store.reading() as database:
            yield database, self._clock()

    # -- counting ------------------------------------------------------------------------------------------------------

    def note(self, hits: Mapping[tuple[str, str], Hit], alerts: Iterable[Alert]) -> None:
        """Count what happened, by alert and by whom it was."""
        by_name = {alert.name: alert for alert in alerts}
        with self._writing() as (database, now):
            for (name, whom), hit in hits.items():
                if (alert := by_name.get(name)) is not None:
                    _count(database, alert, whom, hit, now)
            longest = max((alert.within for alert in by_name.values()), default=0.0)
            database.execute("DELETE FROM alert_hits WHERE slot <= ? OR slot > ?", (int(now - longest), int(now + 60)))
            keep_newest(database, "alert_hits", MOST_COUNTERS)
            database.execute("DELETE FROM alerts WHERE last <= ?", (now - KEPT,))
            keep_newest(database, "alerts", MOST_ALERTS)

    def new_devices(self, names: Iterable[str]) -> set[str]:
        """Those that nobody had seen, and that are not among the first."""
        new = set[str]()
        with self._writing() as (database, now):
            (first,) = database.execute("SELECT min(at) FROM alert_devices").fetchone()
            query = "INSERT INTO alert_devices (name, at) VALUES (?, ?) ON CONFLICT DO NOTHING"
            new = {name for name in names if database.execute(query, (name, now)).rowcount == 1}
            keep_newest(database, "alert_devices", MOST_DEVICES)
        return new if first is not None and now - first > LEARNING else set()

    # -- telling -------------------------------------------------------------------------------------------------------

    def take_due(self, alerts: Iterable[Alert], now: datetime) -> list[tuple[AlertRow, Alert]]:
        """The alerts of which people are to be told now; whoever takes them tells."""
        moment = now.timestamp()
        with self._store.reading() as database:  # as mostly
            if database.execute(f"SELECT 1 FROM alerts WHERE {_IS_DUE} LIMIT 1", (moment,)).fetchone() is None:  # noqa: S608
                return []
        by_name, taken = {alert.name: alert for alert in alerts}, []
        with self._store.writing() as database:
            for row in map(_row, database.execute(f"{_SELECT} WHERE {_IS_DUE} ORDER BY id", (moment,)).fetchall()):
                alert = by_name.get(row.alert)
                if alert is not None and alert.quiet is not None and alert.quiet.is_on(now):
                    continue
                due = None if alert is None else _next(alert, row.times + 1, moment)
                query = "UPDATE alerts SET due = ?, told = ?, times = times + 1 WHERE id = ?"
                database.execute(query, (due, moment, row.id))
                if alert is not None:  # else the policy has it no longer
                    taken.append((row, alert))
        return taken

    # -- seen ----------------------------------------------------------------------------------------------------------

    def seen(self, number: int, *, by: str) -> AlertRow:
        """Note that somebody has seen an alert; ``MissingError`` if there is none, or somebody has before."""
        with self._writing() as (database, now):
            return _see(database, number, now, by)

    def taps_of(self, number: int, recipient: str) -> dict[str, str]:
        """The token by which who gets a notice says that they have seen it."""
        with self._writing() as (database, now):
            return make_taps(database, f"alert:{number}", ("seen",), recipient, now, now + TAPS_HOLD)

    def tapped(self, token: str, *, acts: bool) -> AlertRow:
        """The alert that a token is about; with ``acts``, somebody has seen it.

        Raises:
            TapError: nothing was done; where it was to be, the history says so.
        """

        def answer(database: SqlConnection, tap: Tap, number: int, now: float) -> AlertRow:
            return _see(database, number, now, tap.by) if acts else _unseen(database, number)

        return follow_tap(self._writing() if acts else self._looking(), token, "alert", answer, acts=acts)[1]

    def rows(self, *, unseen: bool = False, limit: int = 200) -> list[AlertRow]:
        """The alerts that are kept, the newest first."""
        which = " WHERE seen IS NULL" if unseen else ""
        with self._store.reading() as database:
            rows = database.execute(f"{_SELECT}{which} ORDER BY id DESC LIMIT ?", (limit,)).fetchall()
        return list(map(_row, rows))


def _row(row: tuple[object, ...]) -> AlertRow:
    """A row, which another version may have written: what cannot be understood is left out."""
    values = list(row)
    place = [column.name for column in fields(AlertRow)].index("about")
    try:
        about = json.loads(str(values[place]))
    except ValueError:
        about = {}
    values[place] = {str(key): str(value) for key, value in about.items()} if isinstance(about, dict) else {}
    return AlertRow(*values)  # type: ignore[arg-type]  # the table's own types


def _last(database: SqlConnection, alert: str, whom: str) -> AlertRow | None:
    query = f"{_SELECT} WHERE alert = ? AND whom = ? ORDER BY id DESC LIMIT 1"
    row = database.execute(query, (alert, whom)).fetchone()
    return None if row is None else _row(row)


def _count(database: SqlConnection, alert: Alert, whom: str, hit: Hit, now: float) -> None:
    before = _last(database, alert.name, whom)
    if hit.is_state and before is not None and before.about == dict(hit.about):
        return
    width = max(1, int(alert.within // _SLOTS))
    database.execute(_HIT, (alert.name, whom, int(now // width * width), hit.number, hit.number))
    query = "SELECT coalesce(sum(number), 0) FROM alert_hits WHERE alert = ? AND whom = ? AND slot > ?"
    (number,) = database.execute(query, (alert.name, whom, int(now - alert.within))).fetchone()
    if number < alert.times:
        return
    about = json.dumps(dict(hit.about))
    # a time farther ahead comes from a clock that was set back
    is_recent = before is not None and not hit.is_state and abs(now - (before.told or before.first)) < alert.within
    if before is None or (before.seen is not None and not is_recent):
        query = (
            "INSERT INTO alerts (alert, whom, first, last, number, about, due, times) VALUES (?, ?, ?, ?, ?, ?, ?, 0)"
        )
        database.execute(query, (alert.name, whom, now, now, int(number), about, now))
        return
    is_again = before.seen is None and before.due is None and not is_recent
    query = "UPDATE alerts SET last = ?, number = number + ?, about = ?, due = ? WHERE id = ?"
    database.execute(query, (now, hit.number, about, now if is_again else before.due, before.id))


def _next(alert: Alert, times: int, now: float) -> float | None:
    """When the next notice goes out, after so many."""
    again = alert.escalate
    return None if again is None or times > again.times else now + again.after


def _unseen(database: SqlConnection, number: int) -> AlertRow:
    is_number = 0 < number < 1 << 63  # of SQLite
    row = database.execute(f"{_SELECT} WHERE id = ?", (number if is_number else 0,)).fetchone()
    if row is None:
        raise MissingError(f"{number}: there is no such alert")
    alert = _row(row)
    if alert.seen is not None:
        raise MissingError(f"{number}: {alert.seen_by} has seen it before")
    return alert


def _see(database: SqlConnection, number: int, now: float, by: str) -> AlertRow:
    alert = _unseen(database, number)
    database.execute("UPDATE alerts SET seen = ?, seen_by = ?, due = NULL WHERE id = ?", (now, by, number))
    record_event(database, GrantEvent(now, "seen", None, None, None, f"alert {number}: {alert.alert}", by))
    return alert
