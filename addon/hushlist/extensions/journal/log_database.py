"""The log in SQLite: written in batches, limited in rows and days; and questions to the log.

A question is SQL, whatever it is put to: the SQLite file, PostgreSQL, or each of the lines where there is no such file
or it cannot be read. Filters use the rule that decided, not tags. Every question raises ``OSError`` if the log cannot
be read.

Spec: https://www.sqlite.org/wal.html
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice, repeat, takewhile
from math import inf, isfinite
from pathlib import Path
from typing import BinaryIO, NamedTuple

from hushlist.core.errors import logger_of, to_json
from hushlist.core.system.files import open_regular
from hushlist.core.url.hrn import Hrn
from hushlist.extensions.databases.kept_files import BESIDE, DatabaseKind, is_of_damage, opened, remove_aside, rescue
from hushlist.extensions.databases.postgres import PostgresStore
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.databases.sql import SqlResult, StoreError
from hushlist.extensions.databases.store import SqliteFile, identity_of, schema_of
from hushlist.extensions.journal.log_entry import COLUMNS, NULL, LogEntry, accepted, row_of
from hushlist.extensions.journal.log_figures import LogFigures, figures_of
from hushlist.extensions.journal.log_files import CURRENT, DATABASE, older_files, read_newest_first
from hushlist.extensions.journal.log_keys import LogSettings
from hushlist.extensions.journal.log_record import (
    LogFields,
    Privacy,
    logged_name,
    time_text,
    to_line,
)
from hushlist.extensions.journal.request_counts import INSERT, QUARTER, TOO_MANY, TOO_OLD, rows_of

logger = logger_of(__name__)

#: seconds to wait for a lock
PATIENCE = 0.3
_SECONDS_A_DAY = 24 * 60 * 60
#: rows that are written between two removals, rows that are removed at once, and pages that are given back then
_SLICE, MOST_REMOVED, _MOST_PAGES = 1000, 5000, 20_000
#: lines that are read where there is no SQLite
_MOST_LINES = 1 << 19
_TOO_OLD = "DELETE FROM decisions WHERE number IN (SELECT number FROM decisions WHERE time < ? ORDER BY time LIMIT ?)"
_FIRST_NUMBER, _LAST_NUMBER = "(SELECT min(number) FROM decisions)", "(SELECT max(number) FROM decisions)"
_TOO_MANY = f"DELETE FROM decisions WHERE number <= min({_LAST_NUMBER} - ?, {_FIRST_NUMBER} + ? - 1)"  # noqa: S608
_IS_LEFT = f"SELECT coalesce({_FIRST_NUMBER} <= {_LAST_NUMBER} - ?, 0)"
#: what becomes of a damaged file
LOG = DatabaseKind(
    package="hushlist.extensions.journal",
    anew="a new one is begun, and the files of lines beside it have what is newest",
    is_harmless=True,
    first="PRAGMA auto_vacuum = INCREMENTAL",  # removing rows makes the file smaller
    always="PRAGMA synchronous = NORMAL; PRAGMA secure_delete = FAST",  # a power cut may cost the last batch
)


def insert_into(more: str = "", columns: Sequence[str] = COLUMNS, mark: str = "?") -> str:
    """The query that inserts what ``row_of`` gives, with a column before it; what is there stays as it is."""
    names = [f'"{name}"' for name in (*filter(None, [more]), *columns)]
    marks = ", ".join([mark] * len(names))
    return f"INSERT INTO decisions ({', '.join(names)}) VALUES ({marks}) ON CONFLICT DO NOTHING"  # noqa: S608


#: of the columns of an entry
_INSERT_ENTRY = insert_into(mark=f"nullif(?, {NULL})")


class Database:
    """Writes records; for one thread. If SQLite or the disk fails, methods raise ``StoreError`` or ``OSError``."""

    def __init__(self, folder: Path, settings: LogSettings) -> None:
        self._path = folder / DATABASE
        self.name = str(self._path)
        self._settings = settings
        self._file = SqliteFile(self._path, LOG, PATIENCE)
        #: whether its pages have been looked at
        self._is_checked = False
        #: rows since the last check of their number
        self._written = 0
        #: how large the log is, and what of it ends first, since it was last tidied
        self.figures: LogFigures | None = None

    def append(self, entries: list[LogEntry], moment: float) -> None:
        """Append records, all or none; remove old rows after as many as could exceed the limit."""
        if not self._settings.rows:
            return
        with self._connected() as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_INSERT_ENTRY, entries)
        self._written += len(entries)
        if self._written > min(self._settings.rows // 10, _SLICE):
            self._written = 0
            self.tidy(moment)

    def count(self, counts: Mapping[tuple[int, str, str, str, str], int]) -> None:
        """Add to the numbers of requests."""
        if self._settings.rows and counts:
            with self._connected() as connection, connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany(INSERT, rows_of(counts))

    def tidy(self, moment: float) -> bool:
        """Remove rows that are too old or too many, or the file if the settings want none; and what was set aside then.

        So many rows at once that new ones do not wait for it; whether none is left to remove. ``moment`` is in seconds
        since 1970.
        """
        kept_since = moment - self._settings.days * _SECONDS_A_DAY
        remove_aside(self._path, kept_since if self._settings.rows else inf)
        if not self._settings.rows:
            for ending in ("", *BESIDE):
                self._path.with_name(self._path.name + ending).unlink(missing_ok=True)
            self.figures = figures_of(self._path.parent, self._settings, moment, None)
            return True
        if not self._path.exists():
            return True
        with self._connected() as connection:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                too_old = connection.execute(_TOO_OLD, (time_text(kept_since), MOST_REMOVED)).rowcount
                connection.execute(_TOO_MANY, (self._settings.rows, MOST_REMOVED))
                connection.execute(TOO_OLD, (int(kept_since) // QUARTER,))
                connection.execute(TOO_MANY, (self._settings.rows,))
            connection.execute(f"PRAGMA incremental_vacuum({_MOST_PAGES})").fetchall()
            ((is_left,),) = connection.execute(_IS_LEFT, (self._settings.rows,)).fetchall()
            self.figures = figures_of(self._path.parent, self._settings, moment, connection)
        return too_old < MOST_REMOVED and not is_left

    def close(self) -> None:
        """Close the connection; the next batch opens another."""
        self._file.close()

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """A connection to the current file; a failure closes it, and sets a damaged file aside."""
        if not self._is_checked:
            self._set_aside()
            self._is_checked = True
        try:
            with self._file.held() as connection:
                yield connection
        except StoreError as error:
            self._file.close()
            # another process may have set it aside since, and begun a new one
            if is_of_damage(error.__cause__) and self._file.identity == identity_of(self._path):
                with suppress(OSError):
                    self._set_aside(error.reason)
            raise

    def _set_aside(self, why: str | None = None) -> None:
        """Begin a new file in the place of a damaged one; of those that were set aside before, none is kept."""
        message = rescue(self._path, LOG, why=why)
        if message is not None:
            logger.warning("hushlist: %s", message)
            remove_aside(self._path, inf, kept=1)


# -- questions ---------------------------------------------------------------------------------------------------------

#: the fields that ``top_values`` can count by
COUNTED = ("list", "category", "client", "rule", "host", "action", "file", "media_type", "file_name")
_OF_FILE = "lower(file || ' ' || coalesce(media_type, '') || ' ' || coalesce(file_name, ''))"
#: a filter -> what it asks of a record; each question mark is its value, or all of its values
_CONDITIONS = {
    "reference": "reference = ?",
    "actions": "action IN (?)",
    "clients": "client IN (?)",
    "users": '"user" IN (?)',
    "category": "category = ? OR substr(category, 1, 1 + length(?)) = ? || '/'",
    "list_name": "list = ? OR title = ?",
    # not from the end, which PostgreSQL does not count from
    "host": "host = ? OR substr(host, length(host) - length(?)) = '.' || ?",
    # within a text of a record, a quotation mark has a backslash before it
    "group": "replace(record, ?, '') <> record",
    "since": "time >= ?",
    "until": "time < ?",
    "file": f"file IS NOT NULL AND (? = '' OR replace({_OF_FILE}, lower(?), '') <> {_OF_FILE})",
}
#: records that are looked at together
_BATCH = 500


@dataclass(frozen=True, slots=True)
class LogFilters:
    """A record has to fit every filter that is not empty."""

    #: any of these
    actions: Sequence[str] = ()
    #: any of these: an address and its pseudonym
    clients: Sequence[str] = ()
    users: Sequence[str] = ()
    #: this category and its subordinates
    category: Hrn | None = None
    #: name or title
    list_name: str | None = None
    #: this host and its subdomains; canonical
    host: str | None = None
    group: str | None = None
    #: as ``time_text`` writes them; from the first on, and before the second
    since: str | None = None
    until: str | None = None
    reference: str | None = None
    #: a text in what a file is, in its media type or in its name, whatever its case; empty: it is about some file
    file: str | None = None

    def condition(self) -> tuple[str, list[str | None]]:
        """An SQL condition for the columns of the log's table, with the values of its question marks."""
        parts, values = ["TRUE"], list[str | None]()
        for name, part in _CONDITIONS.items():
            value = getattr(self, name)
            if part.endswith("IN (?)"):
                if value:
                    parts.append(part.replace("?", ", ".join("?" * len(value))))
                    values += map(accepted, value)
            elif value is not None:
                value = f'"group": {to_json(value)}' if name == "group" else value
                parts.append(part)
                values += [accepted(value)] * part.count("?")
        return " AND ".join(f"({part})" for part in parts), values

    def fitting(self, records: Iterable[LogFields], what: str = "0") -> Iterator[tuple[LogFields, str | None]]:
        """The records that fit, and of each what SQL finds in its columns."""
        condition, values = self.condition()
        question = f"SELECT number, {what} FROM decisions WHERE {condition} ORDER BY number"  # noqa: S608
        columns, rest = [name for name in COLUMNS if name in question], iter(records)
        with closing(sqlite3.connect(":memory:")) as database:
            database.execute(schema_of(LOG.package)["decisions"])
            while batch := list(islice(rest, _BATCH)):
                database.execute("DELETE FROM decisions")
                lines = map(to_line, batch) if "record" in columns else repeat(b"")
                rows = (
                    (place, *row_of(fields, line, columns))
                    for place, (fields, line) in enumerate(zip(batch, lines, strict=False))
                )
                database.executemany(insert_into("number", columns), rows)
                for place, value in database.execute(question, values).fetchall():
                    yield batch[place], value


#: where a log is: its folder, or a database
LogPlace = Path | PostgresAddress


def _ask(folder: LogPlace, question: str, values: Sequence[str | int | None]) -> list[tuple[str, int]] | None:
    """Rows of text and number, and no others; ``None`` if there is no file, or none that can be read."""
    if isinstance(folder, PostgresAddress):
        return _ask_server(folder, question, values)
    with suppress(sqlite3.Error), closing(opened(folder / DATABASE, PATIENCE)) as connection:
        connection.execute("PRAGMA query_only = 1")
        if connection.execute("PRAGMA user_version").fetchone() == (1,):
            return _textual(connection.execute(question, values))
    return None


def _textual(rows: SqlResult) -> list[tuple[str, int]]:
    """No proxy writes NULL or octets, but whoever has the database may."""
    return [row for row in rows if isinstance(row[0], str)]


def _ask_server(address: PostgresAddress, question: str, values: Sequence[str | int | None]) -> list[tuple[str, int]]:
    try:
        with closing(PostgresStore(address, "log")) as database, database.asking() as connection:
            return _textual(connection.execute(question, values))
    except StoreError as error:
        raise OSError(str(error)) from error


def has_log(folder: LogPlace) -> bool:
    if isinstance(folder, PostgresAddress):
        return bool(_ask_server(folder, "SELECT 'all', number FROM decisions LIMIT 1", []))
    return any((folder / name).exists() for name in (CURRENT, DATABASE)) or bool(older_files(folder))


def newest_records(folder: LogPlace, filters: LogFilters, number: int, *, only_lines: bool = False) -> list[LogFields]:
    """The last records that fit, the oldest of them first; ``only_lines``: do not ask SQLite."""
    condition, values = filters.condition()
    question = f"SELECT record, number FROM decisions WHERE {condition} ORDER BY number DESC LIMIT ?"  # noqa: S608
    rows = None if only_lines and isinstance(folder, Path) else _ask(folder, question, [*values, number])
    if rows is not None:
        return _of_rows(reversed(rows))
    return [fields for fields, _ in islice(filters.fitting(_newest_first(folder)), number)][::-1]


def top_values(folder: LogPlace, by: str, filters: LogFilters, number: int) -> list[tuple[str, int]]:
    """The most frequent values of ``by``, one of ``COUNTED``, in the records that fit, each with its count.

    A list is named by its file, and by its title in a line of its own: see ``named``.
    """
    condition, values = filters.condition()
    what = "CASE WHEN title IS NULL THEN list ELSE list || '\n' || title END" if by == "list" else by
    question = (
        f"SELECT {what}, count(*) FROM decisions WHERE {what} IS NOT NULL AND {condition} "  # noqa: S608
        "GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ?"
    )
    rows = _ask(folder, question, [*values, number])
    if rows is not None:
        return rows
    counts = Counter(name for _, name in filters.fitting(_newest_first(folder), what) if name is not None)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:number]


def named(by: str, value: str) -> tuple[str, str | None]:
    """What to call a value that was counted, and the file of a list that has a title.

    >>> named("list", "/etc/ads.yaml\\nAds"), named("list", "/etc/ads.yaml"), named("host", "a.example")
    (('Ads', '/etc/ads.yaml'), ('/etc/ads.yaml', None), ('a.example', None))
    """
    file, _, title = value.partition("\n") if by == "list" else (value, "", "")
    return (title, file) if title else (file or "(none)", None)


def shown_values(counts: Iterable[tuple[str, int]], by: str, privacy: Privacy) -> list[tuple[str, int]]:
    """What ``top_values`` gives, as it may be shown, the most frequent first."""
    if by != "client":
        return list(counts)
    shown = Counter[str]()
    for name, number in counts:
        shown[logged_name("client", name, privacy) or ""] += number
    del shown[""]
    return shown.most_common()


def last_name(place: LogPlace, client: str, group: str | None = None) -> str:
    """The name of the device, or of the user, that had an address last, perhaps in a group; or else the address."""
    newest = next(iter(newest_records(place, LogFilters(clients=[client], group=group), 1)), {})
    name = newest.get("device") or newest.get("user")
    return client if name is None else f"{name} ({client})"


def sampled_records(folder: LogPlace, since: str, most: int) -> list[LogFields]:
    """At most so many of the records since a moment, spread evenly over all of them."""
    counted = _ask(folder, "SELECT 'all', count(*) FROM decisions WHERE time >= ?", [since])
    if counted is not None:
        step = max(1, -(-counted[0][1] // most))
        question = "SELECT record, number FROM decisions WHERE time >= ? AND number % ? = 0 ORDER BY number LIMIT ?"
        return _of_rows(_ask(folder, question, [since, step, most]) or ())
    sample, step = list[LogFields](), 1
    records = takewhile(lambda fields: str(fields.get("time", "")) >= since, _newest_first(folder))
    for at, fields in enumerate(islice(records, _MOST_LINES)):
        if at % step == 0:
            sample.append(fields)
        if len(sample) > most:
            sample, step = sample[::2], step * 2
    return sample[::-1]


def counts_over_time(folder: LogPlace, since: str) -> list[tuple[str, int]] | None:
    """How many records each minute since a time has: the minute (in UTC), a space and the action, with their number.

    ``None`` if SQLite cannot answer: to read all lines for it would take too long.
    """
    question = (
        "SELECT substr(time, 1, 16) || ' ' || action, count(*) FROM decisions "
        "WHERE time >= ? AND action != 'lost' GROUP BY 1 ORDER BY 1"
    )
    return _ask(folder, question, [since])


def counted_requests(
    folder: LogPlace,
    since: int,
    *,
    clients: Sequence[str] = (),
    users: Sequence[str] = (),
    group: str | None = None,
) -> list[tuple[int, str, str, int]] | None:
    """How many requests there were since a quarter of an hour, of all or of somebody: quarter, group, action, number.

    ``None``: they are not counted.
    """
    wanted = {"client": clients, '"user"': users, "of_group": () if group is None else (group,)}
    conditions = [f"{name} IN ({', '.join('?' * len(values))})" for name, values in wanted.items() if values]
    question = (
        "SELECT quarter || ' ' || action || ' ' || of_group, sum(number) FROM counts "  # noqa: S608
        f"WHERE {' AND '.join(['quarter >= ?', *conditions])} GROUP BY quarter, action, of_group"
    )
    if isinstance(folder, PostgresAddress):
        return None
    rows = _ask(folder, question, [since, *(value for values in wanted.values() for value in values)])
    if rows is None:
        return None
    parts = ((key.split(" ", 2), number) for key, number in rows)
    return [(int(quarter), group, action, number) for (quarter, action, group), number in parts]


def of_minutes(counted: Iterable[tuple[str, int]] | None) -> Iterator[tuple[int, str, str, int]]:
    """What the log has of each minute, as ``counted_requests`` has it, where requests are not counted."""
    for key, number in counted or ():
        minute, _, action = key.partition(" ")
        try:
            moment = datetime.fromisoformat(minute).replace(tzinfo=UTC).timestamp()
        except (ValueError, OverflowError):  # no proxy writes such a time, but whoever has the database may
            continue
        yield int(moment) // QUARTER, "", action, number


class CountedRequests(NamedTuple):
    #: as ``counted_requests`` has them
    rows: list[tuple[int, str, str, int]]
    #: whether these are all requests, and not only those of which the log has a record
    is_all: bool


def requests_over_time(folder: LogPlace, since: float) -> CountedRequests | None:
    """How many requests there were since a moment; ``None`` if SQLite cannot answer."""
    rows = counted_requests(folder, int(since) // QUARTER)
    if rows is not None:
        return CountedRequests(rows, is_all=True)
    minutes = counts_over_time(folder, time_text(since))
    return None if minutes is None else CountedRequests(list(of_minutes(minutes)), is_all=False)


def find_records(folder: LogPlace, reference: str) -> list[LogFields]:
    """The records with a reference: nearly always one."""
    filters = LogFilters(reference=reference)
    records = newest_records(folder, filters, _MOST_LINES)
    if records or isinstance(folder, PostgresAddress):
        return records
    # SQLite may not have it yet, or not any more
    return newest_records(folder, filters, _MOST_LINES, only_lines=True)


def _of_rows(rows: Iterable[tuple[str, int]]) -> list[LogFields]:
    return list(parse_lines(line.encode() for line, _ in rows))


def _finite(text: str) -> float:
    if isfinite(number := float(text)):
        return number
    raise ValueError(text)


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)


def parse_lines(lines: Iterable[bytes]) -> Iterator[LogFields]:
    """The records of lines; invalid lines, such as half a line after a power cut, are skipped.

    Numbers that JSON has not, such as NaN, are invalid: whoever prints a record would print them.
    """
    for line in lines:
        with suppress(ValueError, RecursionError):
            fields = _DECODER.decode(line.decode())
            if isinstance(fields, dict):
                yield fields


def _newest_first(folder: LogPlace) -> Iterator[LogFields]:
    assert isinstance(folder, Path)
    for lines in read_newest_first(folder):
        yield from parse_lines(reversed(lines))


def follow(folder: LogPlace) -> Generator[list[LogFields], None, None]:
    """New records as they are written, across new files: each step gives those since the last, the first none."""
    return _follow_server(folder) if isinstance(folder, PostgresAddress) else _follow_lines(folder)


#: records that are asked for again: a number may be taken before a lower one can be seen
_OVERLAP = 10_000


def _follow_server(address: PostgresAddress) -> Generator[list[LogFields], None, None]:
    seen = _ask_server(address, "SELECT 'all', number FROM decisions ORDER BY number DESC LIMIT ?", [_OVERLAP])
    last = seen[0][1] if seen else 0
    numbers = {number for _, number in seen}
    yield []
    while True:
        question = "SELECT record, number FROM decisions WHERE number > ? ORDER BY number"
        rows = [row for row in _ask_server(address, question, [last - _OVERLAP]) if row[1] not in numbers]
        numbers |= {number for _, number in rows}
        last = max((last, *(number for _, number in rows)))
        numbers = {number for number in numbers if number > last - _OVERLAP}
        yield _of_rows(rows)


def _follow_lines(folder: Path) -> Generator[list[LogFields], None, None]:
    path = folder / CURRENT
    file, rest = _opened(path), b""
    if file is not None:
        file.seek(0, os.SEEK_END)
    try:
        yield []
        while True:
            records: list[LogFields] = []
            while True:
                # checked before the rest is read: a file that was set aside by then gets no more lines
                is_aside = file is None or not _is_at(file, path)
                if file is not None:
                    *lines, rest = (rest + file.read()).split(b"\n")
                    records += parse_lines(lines)
                if not is_aside:
                    break
                if file is not None:
                    file.close()
                file, rest = _opened(path), b""
                if file is None:
                    break
            yield records
    finally:
        if file is not None:
            file.close()


def _opened(path: Path) -> BinaryIO | None:
    with suppress(FileNotFoundError):
        return open_regular(path)
    return None


def _is_at(file: BinaryIO, path: Path) -> bool:
    """Whether the path still leads to the open file."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
