"""The store of reports of mistakes: what was stopped, by which rule of which version of a list, and who said so.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     book = ReportBook(Path(folder) / "state.sqlite", lambda: 6000.0)
...     report = Report("10.0.0.7", "10.0.0.7", None, "a.example", "http://a.example/", "a.example/", 3, "Ads")
...     [book.file(report).times for _ in range(2)], [row.id for row in book.rows()], book.settle(1, by="jo").by
([1, 2], [1], 'jo')
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path

from hushlist.core.errors import one_line
from hushlist.core.routes import MissingError
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.databases.sql import SqlConnection, keep_newest
from hushlist.extensions.databases.store import open_store
from hushlist.extensions.journal.log_keys import LoggedClients
from hushlist.extensions.journal.masked_clients import SOMEBODY
from hushlist.extensions.unblock.access_requests import LONGEST_REASON, AskedTooOftenError
from hushlist.extensions.unblock.grant_events import GrantEvent, record_event
from hushlist.extensions.unblock.overrides import UNBLOCKS

_DAY = 86400.0
#: reports that are kept, and seconds for which they are; of one client within a day, and of all that are open
MOST_KEPT, KEPT = 1000, 90 * _DAY
MOST_OF_CLIENT, MOST_OPEN = 20, 200
#: characters of a URL
LONGEST_URL = 8192


@dataclass(frozen=True, slots=True)
class Report:
    """A report. Times are seconds since the epoch."""

    client: str
    address: str
    in_group: str | None
    host: str
    #: what was stopped first, as far as the log may have it; the report for a publisher has less of it
    url: str
    #: as the list has it: of a hash, the hash
    rule: str
    line: int
    #: the list's name for people; and the name of its file, or its URL; empty: the rule is of no list
    list: str
    source: str = ""
    #: what its head says
    version: str = ""
    publisher: str = ""
    #: SHA-256 of its file, in hexadecimal
    digest: str = ""
    #: of the URL, what its publisher has to know: one of ``publisher_report.SHAPES``
    shape: str = ""
    #: the person's own words, as one line; may be empty
    words: str = ""
    #: how the page has said that the person is shown: as the log's ``clients``
    seen: str = LoggedClients.KEEP.value
    asked: float = 0.0
    #: how often it was made
    times: int = 1
    #: when somebody has settled it, and who
    settled: float | None = None
    by: str | None = None
    #: never used again
    id: int = 0

    @property
    def user(self) -> str | None:
        """The user's name, if the proxy knows one."""
        return self.client.removeprefix("user:") if self.client.startswith("user:") else None


_NAMES = [column.name for column in fields(Report)]
_SELECT = f"SELECT {', '.join(_NAMES)} FROM reports"  # noqa: S608 - names of columns
_INSERT = f"INSERT INTO reports ({', '.join(_NAMES[:-1])}) VALUES ({', '.join('?' * (len(_NAMES) - 1))}) RETURNING id"  # noqa: S608
_SAME = "rule = ? AND source = ? AND host = ? AND coalesce(in_group, '') = ? AND settled IS NULL"


class ReportBook:
    """A file, or a database; the methods wait for it, and raise ``StoreError`` if it cannot be read or written."""

    def __init__(self, place: Path | PostgresAddress, clock: Callable[[], float]) -> None:
        """``clock`` returns seconds since the epoch."""
        self.place, self._clock = place, clock
        self._store = open_store(place, UNBLOCKS, "reports")

    def close(self) -> None:
        self._store.close()

    def check(self, client: str) -> None:
        """Raise ``AskedTooOftenError`` if a client has reported too often."""
        with self._store.reading() as database:
            _check(database, client, self._clock())

    def file(self, wanted: Report) -> Report:
        """Store a report, or add it to an open one of the same rule, host and group; then it is made more than once.

        Where too many are open, the oldest of whoever has most of them gives way.

        Raises:
            AskedTooOftenError: the client has reported too often.
        """
        with self._store.writing() as database:
            now, words = self._clock(), one_line(wanted.words, LONGEST_REASON)
            database.execute("DELETE FROM reports WHERE asked <= ? OR asked > ?", (now - KEPT, now + _DAY))
            same = (wanted.rule, wanted.source, wanted.host, wanted.in_group or "")
            row = database.execute(f"{_SELECT} WHERE {_SAME} ORDER BY id DESC LIMIT 1", same).fetchone()
            if row is not None:
                both = replace(Report(*row), words=Report(*row).words or words, times=Report(*row).times + 1)
                query = "UPDATE reports SET words = ?, times = ? WHERE id = ?"
                database.execute(query, (both.words, both.times, both.id))
                return both
            _check(database, wanted.client, now)
            filed = replace(wanted, words=words, url=wanted.url[:LONGEST_URL], asked=now)
            _make_room(database)
            (number,) = database.execute(_INSERT, astuple(filed)[:-1]).fetchone()
            keep_newest(database, "reports", MOST_KEPT)
            how = f"report {number}: {words}" if words else f"report {number}"
            who = filed.client if filed.seen == LoggedClients.KEEP else None
            record_event(database, GrantEvent(now, "reported", who, "host", filed.host, how, who or SOMEBODY))
            return replace(filed, id=number)

    def rows(self, *, is_all: bool = False) -> list[Report]:
        """The reports that are open, or all that are kept; the newest first."""
        which = "" if is_all else " WHERE settled IS NULL"
        with self._store.reading() as database:
            return [Report(*row) for row in database.execute(f"{_SELECT}{which} ORDER BY id DESC").fetchall()]

    def report(self, number: int) -> Report:
        """A report; ``MissingError`` if there is none of that number."""
        with self._store.reading() as database:
            return _of(database, number)

    def settle(self, number: int, *, by: str) -> Report:
        """Note that nothing is left to do; ``MissingError`` if there is none of that number, or it is settled."""
        with self._store.writing() as database:
            report, now = _of(database, number), self._clock()
            if report.settled is not None:
                raise MissingError(f"{number}: {report.by} has settled it before")
            database.execute("UPDATE reports SET settled = ?, by = ? WHERE id = ?", (now, by, number))
            record_event(database, GrantEvent(now, "settled", None, "host", report.host, f"report {number}", by))
            return replace(report, settled=now, by=by)


def _check(database: SqlConnection, client: str, now: float) -> None:
    query = "SELECT count(*) FROM reports WHERE client = ? AND asked > ?"
    (number,) = database.execute(query, (client, now - _DAY)).fetchone()
    if number >= MOST_OF_CLIENT:
        raise AskedTooOftenError(f"there are {number} reports, and {MOST_OF_CLIENT} are the most")


def _make_room(database: SqlConnection) -> None:
    """Remove an open report if there are as many as may be."""
    (number,) = database.execute("SELECT count(*) FROM reports WHERE settled IS NULL").fetchone()
    if number >= MOST_OPEN:
        loudest = "GROUP BY client ORDER BY count(*) DESC, min(id) LIMIT 1"
        database.execute(
            "DELETE FROM reports WHERE id = (SELECT min(id) FROM reports WHERE settled IS NULL AND client ="  # noqa: S608
            f" (SELECT client FROM reports WHERE settled IS NULL {loudest}))"
        )


def _of(database: SqlConnection, number: int) -> Report:
    is_number = 0 < number < 1 << 63  # of SQLite
    row = database.execute(f"{_SELECT} WHERE id = ?", (number if is_number else 0,)).fetchone()
    if row is None:
        raise MissingError(f"{number}: there is no such report")
    return Report(*row)
