"""The log in SQLite, for questions: written in batches, limited in rows and days.

Spec: https://www.sqlite.org/wal.html
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
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
    """Writes records; for one thread, which opens and closes the connection.

    If SQLite or the disk fails, methods raise ``sqlite3.Error`` or ``OSError``.
    """

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
        """Append records, all or none; remove old rows after as many as could exceed the limit."""
        if not self._settings.rows:
            return
        with self._connected() as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_INSERT, (_row(fields, line) for fields, line in entries))
        self._written += len(entries)
        if self._written > self._settings.rows // 10:
            self._written = 0
            self.tidy(moment)

    def tidy(self, moment: float) -> None:
        """Remove rows that are too old or too many, or the file if the settings want none.

        ``moment`` is in seconds since 1970.
        """
        if not self._settings.rows:
            for ending in _BESIDE:
                self._path.with_name(self._path.name + ending).unlink(missing_ok=True)
            return
        if not self._path.exists():
            return
        oldest = time_text(moment - self._settings.days * _SECONDS_A_DAY)
        too_many = "DELETE FROM decisions WHERE number <= (SELECT max(number) FROM decisions) - ?"
        with self._connected() as connection:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("DELETE FROM decisions WHERE time < ?", (oldest,))
                connection.execute(too_many, (self._settings.rows,))
            connection.execute("PRAGMA incremental_vacuum").fetchall()

    def close(self) -> None:
        """Close the connection; the next batch opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """A connection to the current file; a failure closes it, and sets a damaged file aside."""
        try:
            if self._connection is None or self._inode != _inode(self._path):  # the old file may have been removed
                self.close()
                self._connect()
            assert self._connection is not None
            yield self._connection
        except sqlite3.Error as error:
            self.close()
            # only "SQLITE_CORRUPT" and "SQLITE_NOTADB" have exactly this class; others have subclasses
            if type(error) is sqlite3.DatabaseError:
                with suppress(OSError):
                    self._path.replace(self._path.with_name(DATABASE + BROKEN))
                    for ending in _BESIDE[1:]:
                        self._path.with_name(DATABASE + ending).unlink(missing_ok=True)
            raise

    def _connect(self) -> None:
        make_private(self._path.parent)
        # SQLite would use the umask, which may let others read it; the files beside it get its permissions
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | SAFELY, PRIVATE_FILE))
        self._connection = sqlite3.connect(self._path, timeout=_PATIENCE, isolation_level=None)
        self._inode = _inode(self._path)
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            self._connection.executescript(_FIRST + _SCHEMA)
        elif version != _VERSION:
            raise sqlite3.NotSupportedError(f"its version is {version}, not {_VERSION}")
        self._connection.executescript(_ALWAYS)


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
