"""PostgreSQL: connections that open themselves again, what is followed there, and the schema with its version.

Queries are written as for SQLite, with question marks; what both databases read alike is written once. A write
transaction excludes all others of its channel, as in SQLite, and its end is told to all who listen there. The driver,
psycopg, is the extra ``fleet``; nothing imports it before there is an address.

Spec: https://www.postgresql.org/docs/15/sql-notify.html
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache, lru_cache
from importlib.resources import files
from itertools import count
from math import inf
from threading import Event, Lock, Thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.databases.sql import APPLICATION, BadRowError, SqlConnection, SqlResult, StoreError

if TYPE_CHECKING:
    import psycopg

_T = TypeVar("_T")

#: seconds until a connection counts as failed, until an answer or a whole transaction does, and that a writer waits for
#: another
CONNECT, ANSWER, _LOCK = 5, 20.0, 10
#: seconds in which a server that is there acknowledges octets, and in which a writer goes on, or loses its lock
_LOST, _IDLE = 5, 5
#: seconds after a failed connection in which no other is tried, and between tries to open one that was lost
_PAUSE, _STEP = 1.0, 0.1
#: seconds after which what is followed is read again though nothing was told, which finds dead connections; and those
#: after which a thread sees that it is to end
_HEARTBEAT, _SLICE = 5.0, 0.25
#: characters of a reason; of several servers, each has its own
_LONGEST = 300


# -- connections -------------------------------------------------------------------------------------------------------


@lru_cache
def _translated(query: str) -> str:
    return query.replace("%", "%%").replace("?", "%s")


class _Translating:
    """A connection of psycopg that takes question marks."""

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self._raw = raw

    def execute(self, query: str, values: Sequence[Any] = (), /) -> SqlResult:
        return self._raw.execute(_translated(query).encode(), values)

    def executemany(self, query: str, rows: Iterable[Sequence[Any]], /) -> None:
        with self._raw.cursor() as cursor:
            cursor.executemany(_translated(query).encode(), rows)


def _limited(steps: Generator[Any, Any, _T], end: float, is_left: Callable[[], bool]) -> Generator[Any, Any, _T]:
    """psycopg's way to an answer, given up at some time, or when it is left: what was cut off never answers."""
    import psycopg

    try:
        wanted = next(steps)
        while True:
            ready = yield wanted
            if monotonic() > end:
                raise psycopg.OperationalError(f"it was not done after {ANSWER:g} seconds")
            if is_left():
                raise psycopg.OperationalError("it gave no answer, and is left")
            wanted = steps.send(ready)
    except StopIteration as done:
        answer: _T = done.value
        return answer


@cache
def _connection_class() -> type[psycopg.Connection[Any]]:
    import psycopg

    class Connection(psycopg.Connection[Any]):
        #: whether nobody waits for its answers any more
        is_left = False
        #: when its transaction has to be done
        end = inf

        def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
            end = min(self.end, monotonic() + ANSWER)
            return super().wait(_limited(gen, end, lambda: self.is_left), *args, **kwargs)

    return Connection


def _reason(error: Exception) -> str:
    """Why, in one line: what the server says of values is left out."""
    said = getattr(getattr(error, "diag", None), "message_primary", None) or str(error)
    return " ".join(said.split())[:_LONGEST] or type(error).__name__


@contextmanager
def _said(address: PostgresAddress) -> Iterator[None]:
    """Turn the driver's errors into ours."""
    try:
        import psycopg
    except ImportError as error:  # also if it does not find libpq
        why = f"PostgreSQL needs the extra 'fleet': pip install 'hushlist[fleet]' ({error})"
        raise StoreError(address, why) from error
    try:
        yield
    except psycopg.Error as error:
        raise StoreError(address, _reason(error), error.sqlstate or "") from error
    except UnicodeEncodeError as error:
        raise StoreError(address, "a text cannot be encoded") from error
    except BadRowError as error:
        raise StoreError(address, str(error)) from error


def _opened(address: PostgresAddress, channel: str = "") -> psycopg.Connection[Any]:
    """A connection without regard to the schema's version; it hears of changes in a channel."""
    kind = _connection_class()
    import psycopg

    wanted = {"connect_timeout": CONNECT, "target_session_attrs": "primary"}  # no other can tell of changes
    more: dict[str, Any] = {name: value for name, value in wanted.items() if f"{name}=" not in address.url}
    more |= {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": _LOST * 1000}
    try:
        raw = kind.connect(
            address.url, autocommit=True, prepare_threshold=None, fallback_application_name="hushlist", **more
        )
    except psycopg.ProgrammingError as error:  # it may quote a part of the password
        raise StoreError(address, "PostgreSQL cannot read this address") from error.with_traceback(None)
    with _closed_after_error(raw):
        raw.execute(
            f"SET search_path = hushlist_{channel}, hushlist; SET standard_conforming_strings = on;"
            f" SET lock_timeout = '{_LOCK}s'; SET idle_in_transaction_session_timeout = '{_IDLE}s';"
            # a machine that is cut off leaves nothing open for long
            " SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"
            + (f"; LISTEN hushlist_{channel}" if channel else "")
        )
    return raw


@contextmanager
def _closed_after_error(raw: psycopg.Connection[Any]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        raw.close()
        raise


def _checked(raw: psycopg.Connection[Any], address: PostgresAddress) -> psycopg.Connection[Any]:
    """The connection, if its database has the schema that this Hushlist knows."""
    with _closed_after_error(raw):
        number = _version(raw)
        if number == 0:
            raise StoreError(address, "it has no tables of Hushlist: 'hushlist store migrate' makes them")
        if number < SCHEMA_VERSION:
            why = f"its schema has version {number}, and this Hushlist needs {SCHEMA_VERSION}"
            raise StoreError(address, f"{why}: 'hushlist store migrate' changes it")
        if number > SCHEMA_VERSION:
            why = f"its schema has version {number}, and this Hushlist knows {SCHEMA_VERSION} at most"
            raise StoreError(address, f"{why}: use a newer Hushlist")
    return raw


class PostgresStore:
    """A connection that several threads use in turn, opened again when it is lost: for five seconds, it is tried until
    a server that restarts is back, and nobody notices. And a thread that hears of changes.


    All methods wait for the server, and raise ``StoreError`` if it cannot be asked; nothing is opened before it is
    needed.
    """

    def __init__(self, address: PostgresAddress, channel: str) -> None:
        """``channel``, a word, is whom a write transaction excludes and tells of its end."""
        self.path, self._channel = address, channel
        self._listener = ChangeListener(address, channel)
        self._lock = Lock()
        self._raw: psycopg.Connection[Any] | None = None
        self._changes = 0
        self._failed, self._lost = -inf, -inf
        self._why = ""

    @contextmanager
    def reading(self) -> Iterator[SqlConnection]:
        """A transaction that reads a single state, the last one."""
        with self._held("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", "COMMIT", ANSWER) as database:
            yield database

    @contextmanager
    def writing(self) -> Iterator[SqlConnection]:
        """A transaction that excludes all others; undone after an exception. At its end, what is followed is new.

        It has to be done as soon as a single answer: on a slow line, a writer would keep out all others of its channel.
        """
        # each query sees what was written before the lock was free, whatever the server's default is
        lock = f"SELECT pg_advisory_xact_lock({APPLICATION}, hashtext('{self._channel}'))"
        # what has changed nothing has no number
        notify = f"SELECT pg_notify('hushlist_{self._channel}', '') WHERE pg_current_xact_id_if_assigned() IS NOT NULL"
        with self._held(f"BEGIN ISOLATION LEVEL READ COMMITTED; {lock}", f"{notify}; COMMIT", ANSWER) as database:
            yield database
        if self._listener.followed:
            with suppress(StoreError), self.asking() as database:  # it is written; who listens tries again
                self._listener.read(database)

    def asking(self) -> AbstractContextManager[SqlConnection]:
        """Without a transaction: each query finds the last state."""
        return self._held("SELECT")

    def version(self) -> object:
        """A value that differs after another connection wrote."""
        with self.asking():
            return id(self._raw), self._changes

    def follow(self, ask: Callable[[SqlConnection], _T], nothing: _T) -> FollowedAnswer[_T]:
        """A question whose answer can be looked at without waiting; until it is first answered, it is ``nothing``."""
        return self._listener.follow(ask, nothing)

    def wait(self, seconds: float) -> None:
        """Wait at most so long until what is followed is first known, or the database cannot be asked."""
        self._listener.wait(seconds)

    def close(self) -> None:
        """Close the connection; a thread that waits for an answer gives it up. Who uses it then opens another."""
        self._lost = -inf
        self._listener.close()
        if self._lock.acquire(timeout=_PAUSE):
            try:
                self._let_go()
            finally:
                self._lock.release()
        elif (raw := self._raw) is not None:
            raw.is_left = True  # type: ignore[attr-defined]  # a subclass, which is made when there is an address

    @contextmanager
    def _held(self, begin: str, end: str = "", seconds: float = inf) -> Iterator[SqlConnection]:
        with self._lock, _said(self.path):
            if self._raw is None and monotonic() - self._failed < _PAUSE:
                raise StoreError(self.path, self._why)
            if self._raw is None:
                self._open()
            raw = self._begun(begin.encode(), seconds)
            try:
                yield _Translating(raw)
                if end:
                    raw.execute(end.encode())
            finally:
                self._undo(raw)

    def _open(self) -> None:
        while True:
            try:
                with _said(self.path):
                    self._raw = _checked(_opened(self.path, self._channel), self.path)
            except StoreError as error:
                if monotonic() - self._lost < CONNECT:
                    sleep(_STEP)
                    continue
                self._failed, self._why = monotonic(), error.reason
                raise
            self._raw.add_notify_handler(self._note)
            self._changes += 1
            return

    def _begun(self, begin: bytes, seconds: float) -> psycopg.Connection[Any]:
        import psycopg

        raw = self._bounded(seconds)
        try:
            raw.execute(begin)
        except psycopg.Error:
            if self._undo(raw):
                raise
            self._open()  # the server was restarted since, and nothing was asked yet
            raw = self._bounded(seconds)
            raw.execute(begin)
        return raw

    def _bounded(self, seconds: float) -> psycopg.Connection[Any]:
        """The connection, which gives up what is not done after so many seconds."""
        assert self._raw is not None
        self._raw.end = monotonic() + seconds  # type: ignore[attr-defined]  # a subclass, made when there is an address
        return self._raw

    def _note(self, notify: psycopg.Notify) -> None:
        assert self._raw is not None
        if notify.pid != self._raw.info.backend_pid:
            self._changes += 1

    def _undo(self, raw: psycopg.Connection[Any]) -> bool:
        """Leave no transaction behind, and no connection that is lost; whether the connection is kept."""
        import psycopg
        from psycopg.pq import TransactionStatus

        raw.end = inf  # type: ignore[attr-defined]
        status = raw.info.transaction_status
        if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            with suppress(psycopg.Error):
                raw.execute("ROLLBACK")
        is_kept: bool = raw.info.transaction_status == TransactionStatus.IDLE
        if not is_kept:
            self._let_go()
            self._lost = monotonic()
        return is_kept

    def _let_go(self) -> None:
        raw, self._raw = self._raw, None
        if raw is not None:
            raw.close()


# -- what is followed --------------------------------------------------------------------------------------------------


class FollowedAnswer(Generic[_T]):
    """The last answer to a question."""

    def __init__(self, listener: ChangeListener, ask: Callable[[SqlConnection], _T], nothing: _T) -> None:
        self._listener, self.ask, self.answer = listener, ask, nothing

    def look(self) -> tuple[_T, str | None]:
        """The answer, and why it may be old, if the database is away."""
        self._listener.start()
        return self.answer, self._listener.fault


class ChangeListener:
    """Asks some questions again after each change, in a thread: who needs the answers never waits.

    While the database is away, the last answers stay, and ``fault`` says why.
    """

    def __init__(self, address: PostgresAddress, channel: str) -> None:
        self._address, self._channel = address, channel
        self.followed: list[FollowedAnswer[Any]] = []
        self._lock, self._starting = Lock(), Lock()
        #: the readings that have begun, and the last one that was used
        self._readings, self._used = count(1), 0
        self._has_tried, self._stopped = Event(), Event()
        self._thread: Thread | None = None
        #: why the answers may be old, if so
        self.fault: str | None = None

    def follow(self, ask: Callable[[SqlConnection], _T], nothing: _T) -> FollowedAnswer[_T]:
        """Add a question; until it is first answered, its answer is ``nothing``."""
        self.followed.append(FollowedAnswer(self, ask, nothing))
        return self.followed[-1]

    def start(self) -> None:
        """Begin, if it has not begun."""
        if self._thread is None and not self._stopped.is_set():
            with self._starting:
                if self._thread is None:
                    thread = Thread(target=self._run, name="hushlist: changes of the store", daemon=True)
                    thread.start()
                    self._thread = thread

    def wait(self, seconds: float) -> None:
        """Wait at most so long until the questions are first answered, or cannot be asked."""
        self.start()
        self._has_tried.wait(seconds)

    def close(self) -> None:
        """Let the thread end, within a moment."""
        self._stopped.set()

    def read(self, database: SqlConnection) -> None:
        """Ask all questions; what a later call has found stays, so that nobody waits for a connection that is dead."""
        number = next(self._readings)
        answers = [question.ask(database) for question in self.followed]
        with self._lock:
            if number > self._used:
                self._used, self.fault = number, None
                for question, answer in zip(self.followed, answers, strict=True):
                    question.answer = answer
        self._has_tried.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                with _said(self._address), _checked(_opened(self._address, self._channel), self._address) as raw:
                    self._listen(raw)
            except Exception as error:  # whatever it is, the thread goes on
                self.fault = str(error) if isinstance(error, StoreError) else f"{self._address}: {_reason(error)}"
                self._has_tried.set()
            self._stopped.wait(_PAUSE)

    def _listen(self, raw: psycopg.Connection[Any]) -> None:
        latest = -_HEARTBEAT
        while not self._stopped.is_set():
            is_notified = latest < 0 or any(True for _ in raw.notifies(timeout=_SLICE, stop_after=1))
            if is_notified or monotonic() - latest >= _HEARTBEAT:
                latest = monotonic()
                self.read(_Translating(raw))


# -- the schema --------------------------------------------------------------------------------------------------------

#: the version that this Hushlist knows: that of the last file of ``migrations``
SCHEMA_VERSION = 1


def _version(raw: psycopg.Connection[Any]) -> int:
    """The version of the schema; 0 if there is none."""
    answer = raw.execute("SELECT to_regclass('hushlist.versions') IS NOT NULL").fetchone()
    if answer is None or not answer[0]:
        return 0
    row = raw.execute("SELECT coalesce(max(number), 0) FROM hushlist.versions").fetchone()
    return 0 if row is None else int(row[0])


def migrate(address: PostgresAddress) -> tuple[int, int]:
    """Bring the schema to the version that this Hushlist knows, all or nothing; the versions before and after.

    Raises:
        StoreError: the server cannot be asked, or refuses; the schema is newer.
    """
    with _said(address), _opened(address) as raw:
        raw.execute(f"BEGIN; SELECT pg_advisory_xact_lock({APPLICATION}, 0)".encode())
        before = _version(raw)
        if before > SCHEMA_VERSION:
            _checked(raw, address)
        raw.execute(
            "CREATE SCHEMA IF NOT EXISTS hushlist;"
            " CREATE TABLE IF NOT EXISTS hushlist.versions (number BIGINT PRIMARY KEY, at TIMESTAMPTZ DEFAULT now())"
        )
        for number in range(before + 1, SCHEMA_VERSION + 1):
            migration = files("hushlist.extensions.databases").joinpath("migrations", f"{number}.sql")
            raw.execute(migration.read_bytes())
            raw.execute("INSERT INTO versions (number) VALUES (%s)", (number,))
        raw.execute("INSERT INTO keys VALUES ('key', %s) ON CONFLICT DO NOTHING", (secrets.token_bytes(32),))
        raw.execute("COMMIT")
    return before, SCHEMA_VERSION
