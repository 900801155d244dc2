"""The store: one SQLite file, shared by all proxies of the machine and the command line, or a database of PostgreSQL,
shared by all machines.

The file uses write-ahead logging (WAL): readers never wait for a writer, and a finished transaction is on the disk. A
file that was removed or replaced is opened again: removing it revokes everything. A database that is away leaves what
is known of it in force.
"""

from __future__ import annotations

import os
import re
import sqlite3
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from errno import ELOOP
from functools import cache
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import finalize

from hushlist.core.errors import HushlistError
from hushlist.core.system.files import check_closed, make_private, reason_of
from hushlist.core.system.kept_databases import DatabaseKind
from hushlist.extensions.databases.postgres import (
    ChangeListener,
    DatabaseError,
    FollowedAnswer,
    PostgresDatabase,
    SqlConnection,
)
from hushlist.extensions.databases.postgres_address import PostgresAddress

#: the application ID in the file's header, "Hush"; another program's database must not be changed
APPLICATION = 0x48757368
#: what becomes of a damaged file: what was unblocked or used since is in no copy, so grants and codes do not come back
UNBLOCKS = DatabaseKind(
    anew="it has no good copy, and all blocks of administrators are lost",
    restored="the blocks of {made} hold, but no grant and no code",
    copied_for="SELECT * FROM admin_blocks ORDER BY id",
    not_given_back=("grants", "codes"),
    tables=frozenset({"grants", "admin_blocks", "codes"}),
    application=APPLICATION,
)
_VERSION = 1
#: seconds that a writer waits for another; transactions take milliseconds
_PATIENCE = 5.0
#: whether a row is for a client, or for everybody: takes the client or ``None``, and whether it is ``None``. SQLite's
#: ``IS`` is no SQL elsewhere, and its ``IS NOT DISTINCT FROM`` is new
SAME_CLIENT = "coalesce(client, '') = coalesce(?, '') AND (client IS NULL) = ?"


_T = TypeVar("_T")


class StoreError(HushlistError):
    """The store cannot be read or written.

    >>> str(StoreError(Path("state.sqlite"), "file is not a database"))
    'state.sqlite: file is not a database'
    """

    def __init__(self, path: Path | PostgresAddress, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


#: where SQLite locks the file beside a database in WAL mode for as long as a connection is open (unixShmSystemLock)
_DEAD_MAN_SWITCH = 128
#: ``struct flock`` of Linux: type, whence, start, length, process
_FLOCK = struct.Struct("@hhqqi")


def is_open_elsewhere(path: Path) -> bool | None:
    """Whether another process has the store open, as every proxy does that uses it; ``None`` if nothing tells that.

    For a process that has it closed: the system takes back all locks of a process when it closes the file that it asks.
    """
    if sys.platform != "linux":
        return None
    import fcntl

    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _DEAD_MAN_SWITCH, 1, 0)
    try:
        number = os.open(f"{path}-shm", os.O_RDONLY)
    except FileNotFoundError:
        return False  # the last connection removes the file
    except OSError:
        return None
    try:
        kind, *_ = _FLOCK.unpack(fcntl.fcntl(number, fcntl.F_GETLK, asked))
    finally:
        os.close(number)
    return bool(kind != fcntl.F_UNLCK)


class _GlancedAnswer(Generic[_T]):
    """What a question found, asked again after a change."""

    def __init__(self, store: SqliteStore, ask: Callable[[SqlConnection], _T], nothing: _T) -> None:
        self._store, self._ask = store, ask
        self._answer = self._nothing = nothing
        self._version: object = None

    def look(self) -> tuple[_T, str | None]:
        """The answer, or ``nothing`` and why the file cannot be read; ``BlockingIOError`` if it is busy now."""
        try:
            with self._store.glancing() as (database, version):
                if version != self._version:
                    self._answer, self._version = self._ask(database), version
        except StoreError as error:
            self._answer, self._version = self._nothing, None
            return self._nothing, str(error)
        return self._answer, None


class SqliteStore:
    """Two connections to the file: one that may wait, for any thread, and one that never waits.

    All methods raise ``StoreError`` if the file cannot be read or written.
    """

    def __init__(self, path: Path, package: str) -> None:
        """Creates a missing file and its folder, readable for the owner alone; ``package`` has its tables.

        Raises:
            StoreError: it cannot be made or read, or is another program's, or a newer Hushlist's.
        """
        self.path = path
        self._patient = _Connection(path, package, _PATIENCE)
        self._hasty = _Connection(path, package, 0.0)
        with self._hasty.held():
            pass

    @contextmanager
    def reading(self, begin: str = "BEGIN") -> Iterator[SqlConnection]:
        """A transaction that reads the last committed state."""
        with self._patient.held() as database, _transaction(database, begin):
            yield database

    def writing(self) -> AbstractContextManager[SqlConnection]:
        """An exclusive write transaction; undone after an exception."""
        return self.reading("BEGIN IMMEDIATE")

    @contextmanager
    def glancing(self) -> Iterator[tuple[SqlConnection, object]]:
        """The connection that never waits, and a value that differs after any write.

        Raises:
            BlockingIOError: the file is busy; try again soon.
        """
        with self._hasty.held() as database:
            (version,) = database.execute("PRAGMA data_version").fetchone()
            yield database, (self._hasty.identity, version)

    def version(self) -> object:
        """The value of ``glancing`` alone."""
        with self.glancing() as (_, version):
            return version

    def follow(self, ask: Callable[[SqlConnection], _T], nothing: _T) -> _GlancedAnswer[_T]:
        """A question whose answer can be looked at without waiting."""
        return _GlancedAnswer(self, ask, nothing)

    def wait(self, seconds: float) -> None:
        """Wait for nothing: a file is read when it is looked at."""

    def close(self) -> None:
        self._patient.close()
        self._hasty.close()


class _FollowedAnswer(NamedTuple, Generic[_T]):
    """What a thread found last."""

    listener: ChangeListener
    followed: FollowedAnswer[_T]

    def look(self) -> tuple[_T, str | None]:
        """The answer, and why it may be old, if the database is away."""
        self.listener.start()
        return self.followed.answer, self.listener.fault


class PostgresStore:
    """A connection that may wait, for any thread, and another on which a thread hears of changes.

    All methods raise ``StoreError`` if the database cannot be asked; nothing is opened before it is needed.
    """

    def __init__(self, address: PostgresAddress, channel: str) -> None:
        self.path = address
        self._database = PostgresDatabase(address, channel)
        self._listener = ChangeListener(address, channel)

    @contextmanager
    def reading(self) -> Iterator[SqlConnection]:
        """A transaction that reads the last committed state."""
        with self._said(), self._database.transaction(writes=False) as database:
            yield database

    @contextmanager
    def writing(self) -> Iterator[SqlConnection]:
        """A transaction that excludes all others; undone after an exception. At its end, what is followed is new."""
        with self._said(), self._database.transaction(writes=True) as database:
            yield database
        with suppress(DatabaseError), self._database.asking() as database:  # it is written; who listens tries again
            self._listener.read(database)

    def version(self) -> object:
        """A value that differs after another connection wrote; waits for the database."""
        with self._said():
            return self._database.changes()

    def follow(self, ask: Callable[[SqlConnection], _T], nothing: _T) -> _FollowedAnswer[_T]:
        """A question whose answer can be looked at without waiting."""
        return _FollowedAnswer(self._listener, self._listener.follow(ask, nothing))

    def wait(self, seconds: float) -> None:
        """Wait at most so long until what is followed is first known, or the database cannot be asked."""
        self._listener.wait(seconds)

    def close(self) -> None:
        self._listener.close()
        self._database.close()

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except DatabaseError as error:
            raise StoreError(self.path, str(error)) from error


Store = SqliteStore | PostgresStore


def read_text(database: SqlConnection, name: str) -> str | None:
    """A text of the table of keys; ``None`` if there is none of that name."""
    row = database.execute("SELECT value FROM keys WHERE name = ?", (name,)).fetchone()
    if row is None:
        return None
    (value,) = row
    return value if isinstance(value, str) else bytes(value).decode()  # PostgreSQL gives octets


def write_text(database: SqlConnection, name: str, text: str) -> None:
    """Put a text into the table of keys, in the place of the one that has that name."""
    query = "INSERT INTO keys VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = ?"
    database.execute(query, (name, text, text))


def open_store(
    place: Path | PostgresAddress, channel: str = "unblock", package: str = "hushlist.extensions.unblock"
) -> Store:
    """The store at a path or an address; ``package`` has the tables of a file, and ``channel`` tells who reads it.

    Raises:
        StoreError: a file cannot be used; a database is asked later.
    """
    return PostgresStore(place, channel) if isinstance(place, PostgresAddress) else SqliteStore(place, package)


class _Connection:
    """A connection that several threads use in turn; if its path leads to another file, it opens that."""

    def __init__(self, path: Path, package: str, patience: float) -> None:
        self._path, self._package, self._patience = path, package, patience
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
                raise StoreError(self._path, reason_of(error)) from error
            self.identity = _identity(self._path)
            self._database = _connect(self._path, self._package, self._patience)
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
    check_closed(path.parent)  # anybody could put a store there that lets pass what they like
    # SQLite's own files beside it get the same mode. An existing file keeps its mode: it may be shared on purpose.
    # A link is not followed: it could lead to a file that is not ours to change.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    if path.is_symlink():
        raise OSError(ELOOP, "it is a link, which is not followed", str(path))


def _connect(path: Path, package: str, patience: float) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        _check_version(path, package, database)
        database.execute("PRAGMA synchronous = FULL")  # a used code stays used after a power failure
        database.execute(f"PRAGMA busy_timeout = {int(1000 * patience)}")
    except BaseException:
        database.close()
        raise
    return database


def _check_version(path: Path, package: str, database: sqlite3.Connection) -> None:
    if not _number(database, "SELECT count(*) FROM sqlite_master"):
        _write_ahead(database)
        _create(database, package)
    if _number(database, "PRAGMA application_id") != APPLICATION:
        raise StoreError(path, "a database of another program")
    version = _number(database, "PRAGMA user_version")
    if version != _VERSION:
        raise StoreError(path, f"its version is {version}, and this Hushlist knows {_VERSION} only")
    if not _statements(package).keys() <= {name for (name,) in database.execute("SELECT name FROM sqlite_master")}:
        _create(database, package)  # an older Hushlist made it


#: the name of a table or an index in the schema
_MADE = re.compile(r"^CREATE [A-Z]+ IF NOT EXISTS (\w+)", re.MULTILINE)


@cache
def _statements(package: str) -> dict[str, str]:
    """What a package's schema makes, by name."""
    schema = files(package).joinpath("store_schema.sql").read_text(encoding="utf-8")
    return {name: statement for statement in schema.split(";") for name in _MADE.findall(statement)}


def _create(database: sqlite3.Connection, package: str) -> None:
    """Make what is missing; another process may be faster."""
    with _transaction(database, "BEGIN IMMEDIATE"):
        is_new = not _number(database, "SELECT count(*) FROM sqlite_master")
        for statement in _statements(package).values():
            database.execute(statement)
        if is_new:
            database.execute(f"PRAGMA application_id = {APPLICATION}")
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


def rows_of(found: Iterable[tuple[Any, ...]], kinds: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Rows of which each value is of its kind: of a file that is damaged, they may be anything, which is an error."""
    for row in found:
        if not all(map(isinstance, row, kinds)):
            raise sqlite3.DatabaseError("a row has values that no Hushlist writes")
        yield row


def keep_newest(database: SqlConnection, table: str, most: int, which: str = "TRUE", *values: object) -> None:
    """Remove the oldest rows of a table, of those that a condition fits, until there are ``most`` of them."""
    newest = f"SELECT id FROM {table} WHERE {which} ORDER BY id DESC LIMIT 1 OFFSET ?"  # noqa: S608
    database.execute(f"DELETE FROM {table} WHERE {which} AND id <= ({newest})", (*values, *values, most))  # noqa: S608


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY  # the other bits give details


def _number(database: sqlite3.Connection, query: str) -> int:
    return int(database.execute(query).fetchone()[0])
