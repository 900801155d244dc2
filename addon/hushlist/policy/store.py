"""The state: one SQLite file, shared by all proxies on the machine and the command line.

It is written ahead (WAL), so that readers never wait for a writer, and a transaction is on the disk when it is over. A
file that somebody removed or replaced is opened anew: removing it revokes everything.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import ELOOP
from pathlib import Path
from threading import Lock
from weakref import finalize

from hushlist.errors import HushlistError
from hushlist.policy.folders import make_private, state_folder

#: of the file's header: "Hush"; another program's database is not ours to change
_APPLICATION = 0x48757368
_VERSION = 1
#: seconds that a writer waits for another; transactions take milliseconds
_PATIENCE = 5.0

_SCHEMA = """
CREATE TABLE keys (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE grants (
    id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, target TEXT NOT NULL, client TEXT, until REAL NOT NULL,
    how TEXT NOT NULL, by TEXT NOT NULL, made REAL NOT NULL);
CREATE INDEX grants_by_client ON grants (client, until);
CREATE TABLE codes (
    hash BLOB PRIMARY KEY, scope TEXT NOT NULL, target TEXT, client TEXT, seconds REAL NOT NULL, until REAL NOT NULL,
    by TEXT NOT NULL, used REAL);
CREATE TABLE tries (id INTEGER PRIMARY KEY, at REAL NOT NULL, client TEXT);
CREATE TABLE locks (client TEXT PRIMARY KEY, until REAL NOT NULL, seconds REAL NOT NULL);
CREATE TABLE nonces (nonce BLOB PRIMARY KEY, until REAL NOT NULL);
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, what TEXT NOT NULL, client TEXT, scope TEXT, target TEXT,
    how TEXT NOT NULL, by TEXT NOT NULL, grant_id INTEGER);
CREATE INDEX events_by_client ON events (client, id);
"""


class StoreError(HushlistError):
    """The state cannot be read or written.

    >>> str(StoreError(Path("state.sqlite"), "file is not a database"))
    'state.sqlite: file is not a database'
    """

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


def default_path() -> Path:
    """The file that proxies and the command line share where they are told no other."""
    return state_folder() / "overrides.sqlite"


class Store:
    """Two connections to the file: one for whoever may wait, in any thread, and one that never waits."""

    def __init__(self, path: Path) -> None:
        """The file is made where it is missing, for its owner alone, and so is its folder.

        Raises:
            StoreError: it cannot be made or read, is another program's, or a newer Hushlist's.
        """
        self.path = path
        self._patient = _Connection(path, _PATIENCE)
        self._hasty = _Connection(path, 0.0)
        with self._hasty.held():
            pass

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that nobody else writes in; undone where anything is raised.

        Raises:
            StoreError: the file cannot be written.
        """
        with self._patient.held() as database, _transaction(database, "BEGIN IMMEDIATE"):
            yield database

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """What was last committed, as it was at one moment.

        Raises:
            StoreError: the file cannot be read.
        """
        with self._patient.held() as database, _transaction(database, "BEGIN"):
            yield database

    @contextmanager
    def glancing(self) -> Iterator[tuple[sqlite3.Connection, object]]:
        """The connection that never waits, and a value that is another one once anybody has written.

        Raises:
            StoreError: the file cannot be read.
            BlockingIOError: not now, but soon.
        """
        with self._hasty.held() as database:
            (version,) = database.execute("PRAGMA data_version").fetchone()
            yield database, (self._hasty.identity, version)

    def close(self) -> None:
        """Let go of the file."""
        self._patient.close()
        self._hasty.close()


class _Connection:
    """A connection that several threads use in turn; it follows its path to another file."""

    def __init__(self, path: Path, patience: float) -> None:
        self._path, self._patience = path, patience
        self._lock = Lock()
        self._database: sqlite3.Connection | None = None
        self.identity: tuple[int, int] | None = None

    @contextmanager
    def held(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._current()
            except sqlite3.Error as error:
                if not self._patience and _is_busy(error):
                    raise BlockingIOError(str(error)) from error
                raise StoreError(self._path, str(error)) from error

    def close(self) -> None:
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        if self._database is not None:
            self._database.close()
        self._database = None

    def _current(self) -> sqlite3.Connection:
        if self._database is None or _identity(self._path) != self.identity:
            self._let_go()
            try:
                _make(self._path)
            except (OSError, ValueError) as error:  # ValueError: no file can have that name
                raise StoreError(self._path, getattr(error, "strerror", None) or str(error)) from error
            self.identity = _identity(self._path)
            self._database = _connect(self._path, self._patience)
            finalize(self, self._database.close)  # for whoever forgets to
        return self._database


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except (OSError, ValueError):
        return None
    return stat.st_dev, stat.st_ino


def _make(path: Path) -> None:
    make_private(path.parent)
    # SQLite's own files beside it get the same mode. An existing file keeps its mode: it may be shared on purpose.
    # A link is not followed: it could lead to a file that is not ours to change.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    if path.is_symlink():
        raise OSError(ELOOP, "it is a link, which is not followed", str(path))


def _connect(path: Path, patience: float) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        _check_version(path, database)
        database.execute("PRAGMA synchronous = FULL")  # a used code stays used when the power fails
        database.execute(f"PRAGMA busy_timeout = {int(1000 * patience)}")
    except BaseException:
        database.close()
        raise
    return database


def _check_version(path: Path, database: sqlite3.Connection) -> None:
    if not _number(database, "SELECT count(*) FROM sqlite_master"):
        _write_ahead(database)
        _create(database)
    if _number(database, "PRAGMA application_id") != _APPLICATION:
        raise StoreError(path, "a database of another program")
    version = _number(database, "PRAGMA user_version")
    if version != _VERSION:
        raise StoreError(path, f"its version is {version}, and this Hushlist knows {_VERSION} only")


def _create(database: sqlite3.Connection) -> None:
    with _transaction(database, "BEGIN IMMEDIATE"):
        if not _number(database, "SELECT count(*) FROM sqlite_master"):  # another process may have been quicker
            for statement in filter(str.strip, _SCHEMA.split(";")):
                database.execute(statement)
            database.execute(f"PRAGMA application_id = {_APPLICATION}")
            database.execute(f"PRAGMA user_version = {_VERSION}")


@contextmanager
def _transaction(database: sqlite3.Connection, begin: str) -> Iterator[None]:
    """Undone where anything is raised."""
    database.execute(begin)
    try:
        yield
        database.execute("COMMIT")
    finally:
        if database.in_transaction:
            database.execute("ROLLBACK")


def _write_ahead(database: sqlite3.Connection) -> None:
    """The mode stays with the file. SQLite does not always wait where two processes change it at once."""
    for _ in range(100):
        try:
            database.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
            time.sleep(0.02)
        else:
            return


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY  # the rest says at what


def _number(database: sqlite3.Connection, query: str) -> int:
    return int(database.execute(query).fetchone()[0])
