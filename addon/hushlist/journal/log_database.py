"""The log in SQLite, for questions: written in batches, limited in rows and days; and the filters of questions.

A filter is a test of one record, and also a condition in SQL; both mean the same. A missing filter fits everything.
Filters use the rule that decided, not tags.

Spec: https://www.sqlite.org/wal.html
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from hushlist.journal.log_files import DATABASE, PRIVATE_FILE, SAFELY, make_folder
from hushlist.journal.log_record import LogFields, time_text
from hushlist.policy.log_settings import LogSettings
from hushlist.url.hrn import Hrn

_HOST = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)")
_PORT = re.compile(r":[0-9]*\Z")
#: the fields that ``top`` can count by
COUNTED = ("list", "category", "client", "rule", "host", "action")


def host_of_record(fields: LogFields) -> str | None:
    """The host of a record's URL.

    >>> host_of_record({"url": "http://h.example:81/x"}), host_of_record({"url": "http://[::1]/"})
    ('h.example', '[::1]')
    """
    found = _HOST.match(str(fields.get("url", "")))
    return _PORT.sub("", found[1]) or None if found else None


def counted_value(fields: LogFields, by: str) -> str | None:
    """The value that ``top`` counts a record under."""
    value = host_of_record(fields) if by == "host" else fields.get(by)
    return None if value is None else str(value)


@dataclass(frozen=True, slots=True)
class LogFilters:
    """A record has to fit every given filter."""

    action: str | None = None
    #: any of these: an address and its pseudonym
    clients: Sequence[str] = ()
    users: Sequence[str] = ()
    #: this category and its subordinates
    category: Hrn | None = None
    #: name or title
    list_name: str | None = None
    #: this host and its subdomains; canonical
    host: str | None = None
    #: as ``time_text`` writes them; from the first on, and before the second
    since: str | None = None
    until: str | None = None

    def fits(self, fields: LogFields) -> bool:
        """Whether a record fits."""
        host, time = host_of_record(fields) or "", str(fields.get("time", ""))
        category = str(fields.get("category", ""))
        return all(
            (
                self.action is None or fields.get("action") == self.action,
                not self.clients or fields.get("client") in self.clients,
                not self.users or fields.get("user") in self.users,
                self.category is None or category == str(self.category) or category.startswith(f"{self.category}/"),
                self.list_name is None or self.list_name in (fields.get("list"), fields.get("title")),
                self.host is None or host == self.host or host.endswith(f".{self.host}"),
                self.since is None or time >= self.since,
                self.until is None or time < self.until,
            )
        )

    def condition(self) -> tuple[str, list[str]]:
        """The same as an SQL condition for this module's columns, with the values of its question marks."""
        parts = list(self._parts())
        text = " AND ".join(f"({part})" for part, _ in parts) or "TRUE"
        return text, [value for _, values in parts for value in values]

    def _parts(self) -> Iterator[tuple[str, Sequence[str]]]:
        if self.action is not None:
            yield "action = ?", [self.action]
        for column, names in (("client", self.clients), ("user", self.users)):
            if names:
                yield f"{column} IN ({', '.join('?' * len(names))})", names
        if self.category is not None:
            name = str(self.category)
            yield "category = ? OR substr(category, 1, length(?)) = ?", [name, f"{name}/", f"{name}/"]
        if self.list_name is not None:
            yield "list = ? OR title = ?", [self.list_name, self.list_name]
        if self.host is not None:
            yield "host = ? OR substr(host, -length(?)) = ?", [self.host, f".{self.host}", f".{self.host}"]
        if self.since is not None:
            yield "time >= ?", [self.since]
        if self.until is not None:
            yield "time < ?", [self.until]


_VERSION = 1
#: seconds to wait for a lock
_PATIENCE = 0.3
_SECONDS_A_DAY = 24 * 60 * 60
_NAMED = ("reference", "time", "client", "user", "action", "category", "list", "title", "rule")
_COLUMNS = (*_NAMED, "host", "record")
_INSERT = f"INSERT INTO decisions ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608
_SCHEMA = f"""
    CREATE TABLE IF NOT EXISTS decisions (number INTEGER PRIMARY KEY, {", ".join(f"{name} TEXT" for name in _COLUMNS)});
    CREATE INDEX IF NOT EXISTS by_reference ON decisions (reference);
    CREATE INDEX IF NOT EXISTS by_time ON decisions (time);
    PRAGMA user_version = {_VERSION};
"""
# Auto-vacuum: removing rows makes the file smaller. Write-ahead: readers do not delay writers; a power cut may
# cost the last batch, but damages nothing.
_FIRST = "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;"
_ALWAYS = "PRAGMA synchronous = NORMAL; PRAGMA secure_delete = FAST;"
#: other files of the database
_BESIDE = ("", "-wal", "-shm", "-journal")
#: the name that a file gets if SQLite cannot read it
BROKEN = ".broken"


class Database:
    """Writes records; for one thread, which opens and closes the connection."""

    def __init__(self, folder: Path, settings: LogSettings) -> None:
        self._path = folder / DATABASE
        self.name = str(self._path)
        self._settings = settings
        self._connection: sqlite3.Connection | None = None
        #: identity of the file that it is connected to
        self._inode = 0

    def append(self, records: list[tuple[LogFields, bytes]]) -> None:
        """Append records with their lines, all or none.

        Raises:
            OSError: the file cannot be made.
                sqlite3.Error: they could not be written.
        """
        connection = self._connect()
        try:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany(_INSERT, (_row(fields, line) for fields, line in records))
        except sqlite3.Error as error:
            self._give_up(error)
            raise

    def tidy(self, moment: float) -> None:
        """Remove rows that are too old or too many; ``moment`` is in seconds since 1970.

        Raises:
                OSError: the file cannot be removed, though the settings want none.
            sqlite3.Error: they could not be removed.
        """
        if not self._settings.rows:
            for ending in _BESIDE:
                self._path.with_name(self._path.name + ending).unlink(missing_ok=True)
            return
        if not self._path.exists():
            return
        connection = self._connect()
        oldest = time_text(moment - self._settings.days * _SECONDS_A_DAY)
        try:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("DELETE FROM decisions WHERE time < ?", (oldest,))
                connection.execute(
                    "DELETE FROM decisions WHERE number <= (SELECT max(number) FROM decisions) - ?",
                    (self._settings.rows,),
                )
            connection.execute("PRAGMA incremental_vacuum").fetchall()
        except sqlite3.Error as error:
            self._give_up(error)
            raise

    def close(self) -> None:
        """Close the connection; the next batch opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _connect(self) -> sqlite3.Connection:
        """A connection to the current file; the old file may have been removed."""
        if self._connection is not None and self._inode == _inode(self._path):
            return self._connection
        self.close()
        make_folder(self._path.parent)
        # SQLite would use the umask, which may let others read it; the files beside it get its permissions
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | SAFELY, PRIVATE_FILE))
        connection = sqlite3.connect(self._path, timeout=_PATIENCE, isolation_level=None)
        try:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version == 0:
                connection.executescript(_FIRST + _SCHEMA)
            elif version != _VERSION:
                raise sqlite3.NotSupportedError(f"its version is {version}, not {_VERSION}")
            connection.executescript(_ALWAYS)
        except sqlite3.Error as error:
            connection.close()
            self._give_up(error)
            raise
        self._connection, self._inode = connection, _inode(self._path)
        return connection

    def _give_up(self, error: sqlite3.Error) -> None:
        """After a failure: drop the connection, and set a damaged file aside."""
        self.close()
        # only "SQLITE_CORRUPT" and "SQLITE_NOTADB" have exactly this class; others have subclasses
        if type(error) is sqlite3.DatabaseError:
            with suppress(OSError):
                self._path.replace(self._path.with_name(DATABASE + BROKEN))
                for ending in _BESIDE[1:]:
                    self._path.with_name(DATABASE + ending).unlink(missing_ok=True)


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _row(fields: LogFields, line: bytes) -> list[str | None]:
    return [*(_text(fields.get(name)) for name in _NAMED), _text(host_of_record(fields)), line.decode("ascii")]


def _text(value: object) -> str | None:
    """Text that SQLite accepts: without surrogates."""
    return None if value is None else str(value).encode("utf-8", "backslashreplace").decode()


# -- questions ---------------------------------------------------------------------------------------------------------


def _ask(folder: Path, question: str, values: list[str | int]) -> list[tuple[str, int]]:
    """Rows of text and number.

    Raises:
        sqlite3.Error: the file cannot be read.
    """
    address = (folder / DATABASE).absolute().as_uri() + "?mode=rw"
    with closing(sqlite3.connect(address, uri=True, timeout=_PATIENCE)) as connection:
        connection.execute("PRAGMA query_only = 1")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version != _VERSION:
            raise sqlite3.NotSupportedError(f"its version is {version}, not {_VERSION}")
        return connection.execute(question, values).fetchall()


def select_newest(folder: Path, filters: LogFilters, number: int) -> list[str]:
    """The lines of the last records, the newest first.

    Raises:
        sqlite3.Error: the file cannot be read.
    """
    condition, values = filters.condition()
    question = f"SELECT record, number FROM decisions WHERE {condition} ORDER BY number DESC LIMIT ?"  # noqa: S608
    return [line for line, _ in _ask(folder, question, [*values, number])]


def select_counts(folder: Path, by: str, filters: LogFilters, number: int) -> list[tuple[str, int]]:
    """The most frequent values of the column ``by``, with their counts, the most frequent first.

    Raises:
        sqlite3.Error: the file cannot be read.
    """
    condition, values = filters.condition()
    question = (
        f"SELECT {by}, count(*) FROM decisions WHERE {by} IS NOT NULL AND {condition} "  # noqa: S608
        f"GROUP BY {by} ORDER BY 2 DESC, 1 LIMIT ?"
    )
    return _ask(folder, question, [*values, number])


def select_reference(folder: Path, reference: str) -> list[str]:
    """The lines of the records with a reference.

    Raises:
        sqlite3.Error: the file cannot be read.
    """
    question = "SELECT record, number FROM decisions WHERE reference = ? ORDER BY number"
    return [line for line, _ in _ask(folder, question, [reference])]
