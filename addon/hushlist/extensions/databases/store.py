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
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from errno import ELOOP
from functools import cache
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar
from weakref import finalize

from hushlist.core.system.files import PRIVATE_FILE, SAFELY, check_closed, make_private, reason_of
from hushlist.extensions.databases.kept_files import DatabaseKind
from hushlist.extensions.databases.postgres import PostgresStore
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.databases.sql import BadRowError, SqlConnection, StoreError

#: the version of every schema
_VERSION = 1
#: seconds that a writer waits for another; transactions take milliseconds
_PATIENCE = 5.0

_T = TypeVar("_T")


class _GlancedAnswer(Generic[_T]):
    """The answer to a question, asked again after a change."""

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

    def __init__(self, path: Path, kind: DatabaseKind) -> None:
        """Creates a missing file and its folder, readable for the owner alone.

        Raises:
            StoreError: it cannot be made or read, or is another program's, or a newer Hushlist's.
        """
        self.path = path
        self._patient = SqliteFile(path, kind, _PATIENCE)
        self._hasty = SqliteFile(path, kind, 0.0)
        with self._hasty.held():
            pass

    def reading(self) -> AbstractContextManager[SqlConnection]:
        """A transaction that reads the last committed state."""
        return self._patient.transaction("BEGIN")

    def writing(self) -> AbstractContextManager[SqlConnection]:
        """An exclusive write transaction; undone after an exception."""
        return self._patient.transaction("BEGIN IMMEDIATE")

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


Store = SqliteStore | PostgresStore


def open_store(place: Path | PostgresAddress, kind: DatabaseKind, channel: str) -> Store:
    """The store at a path or an address; ``kind`` says what a file has, and ``channel`` who hears of changes.

    Raises:
        StoreError: a file cannot be used; a database is asked later.
    """
    return PostgresStore(place, channel) if isinstance(place, PostgresAddress) else SqliteStore(place, kind)


class SqliteFile:
    """A connection that several threads use in turn; if its path leads to another file, it opens that."""

    def __init__(self, path: Path, kind: DatabaseKind, patience: float) -> None:
        self.path, self._kind, self._patience = path, kind, patience
        self._lock = Lock()
        self._database: sqlite3.Connection | None = None
        #: of the file that is open
        self.identity: tuple[int, int] | None = None

    @contextmanager
    def held(self) -> Iterator[sqlite3.Connection]:
        """The connection; ``StoreError`` if SQLite fails, and ``BlockingIOError`` if it is busy and has no patience."""
        with self._lock:
            try:
                yield self._current()
            except (sqlite3.Error, BadRowError) as error:
                if not self._patience and _is_busy(error):
                    raise BlockingIOError(str(error)) from error
                raise StoreError(self.path, str(error)) from error

    @contextmanager
    def transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        """A transaction that is undone after an exception."""
        with self.held() as database, _transaction(database, begin):
            yield database

    def close(self) -> None:
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        if self._database is not None:
            self._database.close()
        self._database = None

    def _current(self) -> sqlite3.Connection:
        if self._database is None or identity_of(self.path) != self.identity:
            self._let_go()
            try:
                _make(self.path, self._kind)
            except (OSError, ValueError) as error:  # ValueError: the name is not valid for a file
                raise StoreError(self.path, reason_of(error)) from error
            self.identity = identity_of(self.path)
            self._database = _connect(self.path, self._kind, self._patience)
            finalize(self, self._database.close)  # in case nobody closes it
        return self._database


def identity_of(path: Path) -> tuple[int, int] | None:
    """What tells a file from another that takes its place; ``None`` if there is none."""
    try:
        stat = path.stat()
    except (OSError, ValueError):
        return None
    return stat.st_dev, stat.st_ino


def _make(path: Path, kind: DatabaseKind) -> None:
    make_private(path.parent)
    if not kind.is_harmless:
        check_closed(path.parent)  # anybody could put a store there that lets pass what they like
    # SQLite's own files beside it get the same mode. An existing file keeps its mode: it may be shared on purpose.
    # A link is not followed: it could lead to a file that is not ours to change.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | SAFELY, PRIVATE_FILE))
    if path.is_symlink():
        raise OSError(ELOOP, "it is a link, which is not followed", str(path))


def _connect(path: Path, kind: DatabaseKind, patience: float) -> sqlite3.Connection:
    timeout = patience or _PATIENCE
    database = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
    try:
        _check_version(path, kind, database)
        # a used code stays used after a power failure
        database.executescript(f"PRAGMA synchronous = FULL; {kind.always}")
        database.execute(f"PRAGMA busy_timeout = {int(1000 * patience)}")
    except BaseException:
        database.close()
        raise
    return database


def _check_version(path: Path, kind: DatabaseKind, database: sqlite3.Connection) -> None:
    if not _number(database, "SELECT count(*) FROM sqlite_master") and not _number(database, "PRAGMA user_version"):
        database.executescript(kind.first)
        _write_ahead(database)
        _create(database, kind)
    if _number(database, "PRAGMA application_id") != kind.application:
        raise StoreError(path, "a database of another program")
    version = _number(database, "PRAGMA user_version")
    if version != _VERSION:
        raise StoreError(path, f"its version is {version}, and this Hushlist knows {_VERSION} only")
    if not schema_of(kind.package).keys() <= {name for (name,) in database.execute("SELECT name FROM sqlite_master")}:
        _create(database, kind)  # an older Hushlist made it


#: the name of a table or an index in the schema
_MADE = re.compile(r"^CREATE [A-Z]+ IF NOT EXISTS (\w+)", re.MULTILINE)


@cache
def schema_of(package: str) -> dict[str, str]:
    """What a package's schema makes, by name."""
    schema = files(package).joinpath("store_schema.sql").read_text(encoding="utf-8")
    return {name: statement for statement in schema.split(";") for name in _MADE.findall(statement)}


def _create(database: sqlite3.Connection, kind: DatabaseKind) -> None:
    """Make what is missing; another process may be faster."""
    with _transaction(database, "BEGIN IMMEDIATE"):
        is_new = not _number(database, "SELECT count(*) FROM sqlite_master")
        for statement in schema_of(kind.package).values():
            database.execute(statement)
        if is_new:
            database.execute(f"PRAGMA application_id = {kind.application}")
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


def _is_busy(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY  # the other bits give details


def _number(database: sqlite3.Connection, query: str) -> int:
    return int(database.execute(query).fetchone()[0])
