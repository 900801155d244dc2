"""The same records in SQLite, to ask questions: written in batches, and bounded by rows and by days.

Spec: https://www.sqlite.org/wal.html
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from hushlist.journal.filters import Filters, host_of
from hushlist.journal.folder import DATABASE, PRIVATE_FILE, SAFELY, make_folder
from hushlist.journal.record import Fields, time_text
from hushlist.policy.log import Settings

_VERSION = 1
#: seconds for which a lock is waited
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
# Auto-vacuum: the file gets smaller where rows are removed. Write-ahead: who reads does not keep anybody from writing;
# a batch that a power cut takes is missing, and nothing is broken.
_FIRST = "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;"
_ALWAYS = "PRAGMA synchronous = NORMAL; PRAGMA secure_delete = FAST;"
#: what there is besides the file
_BESIDE = ("", "-wal", "-shm", "-journal")
#: where a file goes that SQLite cannot read
BROKEN = ".broken"


class Database:
    """Writes records; for one thread, in which the connection is made and closed."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._path = folder / DATABASE
        self.name = str(self._path)
        self._settings = settings
        self._connection: sqlite3.Connection | None = None
        #: which file it is connected to
        self._inode = 0

    def append(self, records: list[tuple[Fields, bytes]]) -> None:
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
            OSError: the file cannot be removed, where there shall be none.
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
        """Close the connection; the next batch makes another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _connect(self) -> sqlite3.Connection:
        """A connection to the file that is there now: somebody may have removed the one that was."""
        if self._connection is not None and self._inode == _inode(self._path):
            return self._connection
        self.close()
        make_folder(self._path.parent)
        # SQLite would make it readable for others, as the user's mask says; the files beside it get its permissions
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
        """After a failure: a new connection, and, where the file is damaged, a new file."""
        self.close()
        # "SQLITE_CORRUPT" and "SQLITE_NOTADB" alone come as the very class, all others as kinds of it
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


def _row(fields: Fields, line: bytes) -> list[str | None]:
    return [*(_text(fields.get(name)) for name in _NAMED), _text(host_of(fields)), line.decode("ascii")]


def _text(value: object) -> str | None:
    """Text as SQLite has it: without surrogates."""
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


def select_newest(folder: Path, filters: Filters, number: int) -> list[str]:
    """The lines of the last records, the newest first.

    Raises:
        sqlite3.Error: the file cannot be read.
    """
    condition, values = filters.condition()
    question = f"SELECT record, number FROM decisions WHERE {condition} ORDER BY number DESC LIMIT ?"  # noqa: S608
    return [line for line, _ in _ask(folder, question, [*values, number])]


def select_counts(folder: Path, by: str, filters: Filters, number: int) -> list[tuple[str, int]]:
    """What records are counted as, and how often, the most frequent first; ``by`` is a column's name.

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
