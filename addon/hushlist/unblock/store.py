"""The store: one SQLite file, shared by all proxies on the machine and the command line; and its table of events.

The file uses write-ahead logging (WAL): readers never wait for a writer, and a finished transaction is on the disk. A
file that was removed or replaced is opened again: removing it revokes everything.

The table records grants, refusals, revocations and locks; its functions work within the caller's transaction.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from errno import ELOOP
from pathlib import Path
from threading import Lock
from weakref import finalize

from hushlist.errors import HushlistError
from hushlist.system.files import make_private, state_folder

#: the application ID in the file's header, "Hush"; another program's database must not be changed
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
    """The store cannot be read or written.

    >>> str(StoreError(Path("state.sqlite"), "file is not a database"))
    'state.sqlite: file is not a database'
    """

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


def default_path() -> Path:
    """The default file of proxies and the command line."""
    return state_folder() / "overrides.sqlite"


class Store:
    """Two connections to the file: one that may wait, for any thread, and one that never waits.

    All methods raise ``StoreError`` if the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        """Creates a missing file and its folder, readable for the owner alone.

        Raises:
            StoreError: it cannot be made or read, or is another program's, or a newer Hushlist's.
        """
        self.path = path
        self._patient = _Connection(path, _PATIENCE)
        self._hasty = _Connection(path, 0.0)
        with self._hasty.held():
            pass

    @contextmanager
    def reading(self, begin: str = "BEGIN") -> Iterator[sqlite3.Connection]:
        """A transaction that reads the last committed state."""
        with self._patient.held() as database, _transaction(database, begin):
            yield database

    def writing(self) -> AbstractContextManager[sqlite3.Connection]:
        """An exclusive write transaction; undone after an exception."""
        return self.reading("BEGIN IMMEDIATE")

    @contextmanager
    def glancing(self) -> Iterator[tuple[sqlite3.Connection, object]]:
        """The connection that never waits, and a value that differs after any write.

        Raises:
            BlockingIOError: the file is busy; try again soon.
        """
        with self._hasty.held() as database:
            (version,) = database.execute("PRAGMA data_version").fetchone()
            yield database, (self._hasty.identity, version)

    def close(self) -> None:
        """Close the file."""
        self._patient.close()
        self._hasty.close()


class _Connection:
    """A connection that several threads use in turn; if its path leads to another file, it opens that."""

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
            except (OSError, ValueError) as error:  # ValueError: the name is not valid for a file
                raise StoreError(self._path, getattr(error, "strerror", None) or str(error)) from error
            self.identity = _identity(self._path)
            self._database = _connect(self._path, self._patience)
            finalize(self, self._database.close)  # in case nobody closes it
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
        database.execute("PRAGMA synchronous = FULL")  # a used code stays used after a power failure
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
        if not _number(database, "SELECT count(*) FROM sqlite_master"):  # another process may have been faster
            for statement in filter(str.strip, _SCHEMA.split(";")):
                database.execute(statement)
            database.execute(f"PRAGMA application_id = {_APPLICATION}")
            database.execute(f"PRAGMA user_version = {_VERSION}")


@contextmanager
def _transaction(database: sqlite3.Connection, begin: str) -> Iterator[None]:
    """A transaction that is undone after an exception."""
    database.execute(begin)
    try:
        yield
        database.execute("COMMIT")
    finally:
        if database.in_transaction:
            database.execute("ROLLBACK")


def _write_ahead(database: sqlite3.Connection) -> None:
    """Set the mode, which the file keeps. SQLite does not always wait if two processes set it at once."""
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
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY  # the other bits give details


def _number(database: sqlite3.Connection, query: str) -> int:
    return int(database.execute(query).fetchone()[0])


#: events that are kept; fewer of one client, so that it cannot push out those of others
MOST_EVENTS = 10_000
MOST_EVENTS_OF_CLIENT = 1000
#: characters of a target that are kept
_SHOWN = 500


@dataclass(frozen=True, slots=True)
class GrantEvent:
    """One event."""

    #: seconds since the epoch
    at: float
    #: ``granted``, ``refused``, ``revoked``, ``locked``, ``code made``, ``code withdrawn``
    what: str
    #: ``None`` for everybody
    client: str | None
    scope: str | None
    target: str | None
    #: the means; for a refusal, the reason
    how: str
    #: the person or client that did it
    by: str
    #: the grant's number, if there is one
    id: int | None = None


_COLUMNS = "at, what, client, scope, target, how, by, grant_id"
_INSERT = f"INSERT INTO events ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - names of columns
#: what ``GrantEvent`` is made of
NEWEST_EVENTS = f"SELECT {_COLUMNS} FROM events ORDER BY id DESC LIMIT ?"  # noqa: S608


def record_event(database: sqlite3.Connection, event: GrantEvent) -> None:
    """Add an event, and remove the oldest if there are too many."""
    target = None if event.target is None else event.target[:_SHOWN]
    row = (event.at, event.what, event.client, event.scope, target, event.how, event.by, event.id)
    database.execute(_INSERT, row)
    database.execute(
        "DELETE FROM events WHERE client = ? AND id <="
        " (SELECT id FROM events WHERE client = ? ORDER BY id DESC LIMIT 1 OFFSET ?)",
        (event.client, event.client, MOST_EVENTS_OF_CLIENT),
    )
    database.execute(
        "DELETE FROM events WHERE id <= (SELECT id FROM events ORDER BY id DESC LIMIT 1 OFFSET ?)", (MOST_EVENTS,)
    )
