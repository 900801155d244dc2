"""The log in SQLite, for questions: written in batches, limited in rows and days.

Spec: https://www.sqlite.org/wal.html
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from hushlist.journal.log_files import DATABASE, PRIVATE_FILE, SAFELY
from hushlist.journal.log_record import LogEntry, LogFields, host_of_record, time_text
from hushlist.policy.proxy_settings import LogSettings
from hushlist.system.files import make_private

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
        #: rows since the last check of their number
        self._written = 0

    def append(self, entries: list[LogEntry], moment: float) -> None:
        """Append records, all or none; remove old rows after as many as could exceed the limit.

        Raises:
            OSError: the file cannot be made.
            sqlite3.Error: they could not be written.
        """
        if not self._settings.rows:
            return
        connection = self._connect()
        try:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany(_INSERT, (_row(fields, line) for fields, line in entries))
        except sqlite3.Error as error:
            self._give_up(error)
            raise
        self._written += len(entries)
        if self._written > self._settings.rows // 10:
            self._written = 0
            self.tidy(moment)

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
        make_private(self._path.parent)
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


def ask_database(folder: Path, question: str, values: Sequence[str | int]) -> list[tuple[str, int]] | None:
    """Rows of text and number; ``None`` if there is no file, or none that can be read."""
    if not (folder / DATABASE).exists():
        return None
    address = (folder / DATABASE).absolute().as_uri() + "?mode=rw"
    with suppress(sqlite3.Error), closing(sqlite3.connect(address, uri=True, timeout=_PATIENCE)) as connection:
        connection.execute("PRAGMA query_only = 1")
        if connection.execute("PRAGMA user_version").fetchone() == (_VERSION,):
            return connection.execute(question, values).fetchall()
    return None
