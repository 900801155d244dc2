"""Minutes of use: in which minutes a client used a category. Quotas go by their number.

They are counted in memory. A thread writes them into the store of temporary unblocks, at most once a minute, and reads
what other proxies wrote there. A minute that two proxies count is one row, hence one minute.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     minutes = UseMinutes(Path(folder) / "state.sqlite", lambda: 6000.0)
...     minutes.note("user:jo", "hrn://c.example/games", 100), minutes.note("user:jo", "hrn://c.example/games", 100)
...     minutes.exchange()
...     restarted = UseMinutes(Path(folder) / "state.sqlite", lambda: 6000.0)
...     restarted.exchange()
...     restarted.used("user:jo", "hrn://c.example/games", 0, 1440)
(None, None)
1
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass
from operator import itemgetter
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic

from hushlist.core.errors import logger_of
from hushlist.core.url.hrn import category_levels
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.databases.sql import SAME_CLIENT, SqlConnection, StoreError, keep_newest
from hushlist.extensions.databases.store import Store, open_store
from hushlist.extensions.quotas.shared_minutes import SharedMinutes
from hushlist.extensions.unblock.grant_events import GrantEvent, record_event
from hushlist.extensions.unblock.overrides import UNBLOCKS

logger = logger_of(__name__)

#: counters in memory, and rows in the file: a client may have any number of addresses, and where mitmproxy takes every
#: name and password, of users, too
MOST_COUNTERS = 1 << 16
MOST_ROWS = 1_000_000
#: seconds between two writes, and between two looks for what another process wrote
WRITING, LOOKING = 60.0, 1.0
#: minutes that wait to be written, while a store is away for long; later ones count here alone
_MOST_WAITING = 1_000_000
#: seconds that the end waits for a database
_LEAVE = 5.0
#: minutes that are kept: a week, and a change of the clock or the time of a reset
KEPT = 9 * 1440
LONGEST_EXTENSION = 7 * 1440

_INSERT = "INSERT INTO use_minutes (client, category, minute) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
# not by the greatest number: in PostgreSQL, a row that is there before uses one up
_TOO_MANY = (
    "DELETE FROM use_minutes WHERE id <= (SELECT id FROM use_minutes ORDER BY id DESC LIMIT 1 OFFSET ?)"
    " AND client NOT LIKE 'user:%' AND client NOT LIKE 'group:%'"
)
_Key = tuple[str, str]
_USER, _GROUP = "user:", "group:"


@dataclass(frozen=True, slots=True)
class Extension:
    """More minutes, in the period in which they were given."""

    #: as of a grant, or ``group:NAME``; ``None`` for everybody
    client: str | None
    #: an ``hrn:`` name; it is for the quotas of this category and of what is subordinate to it
    category: str
    minutes: int
    #: the minute in which it was given, since the epoch
    minute: int


class UseMinutes:
    """The counters. Only ``exchange`` and ``extend`` wait for the disk; the others may be called for each request."""

    def __init__(
        self, place: Path | PostgresAddress | None, clock: Callable[[], float], shared: SharedMinutes | None = None
    ) -> None:
        """``clock`` returns seconds since the epoch; nothing is opened yet. Without a place, nothing is kept.

        ``shared``: what the workers of this machine tell each other.
        """
        self.place, self._clock, self._shared = place, clock, shared
        self._store: Store | None = None
        #: client and category -> minutes since the epoch, in order
        self._counters: dict[_Key, list[int]] = {}
        self._extensions: tuple[Extension, ...] = ()
        #: what is not in the file yet
        self._waiting: set[tuple[str, str, int]] = set()
        self._lock = Lock()
        self._last = 0
        self._version: object = None
        self._written = -WRITING
        self._stopped = Event()
        self._thread: Thread | None = None
        #: why the file is not used, if so; counting goes on in memory
        self.fault: str | None = None

    def start(self) -> None:
        """Begin to write and read in a thread; what a file has is read at once, and what a database has soon."""
        if not isinstance(self.place, PostgresAddress):
            self._exchange_or_say()
        self._thread = Thread(target=self._run, name="hushlist: minutes of use", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop that, and write what is left."""
        if self._shared is not None:
            self._shared.close()
            self._shared = None
        if self._thread is not None:
            self._stopped.set()
            self._thread.join(_LEAVE)
            self._thread = None
        elif self._store is not None:
            self._store.close()
            self._store = None

    # -- counting ------------------------------------------------------------------------------------------------------

    def note(self, client: str, category: str, minute: int) -> None:
        """Count a minute, given in minutes since the epoch, once."""
        counted = self._counters.get((client, category))
        if counted is not None and counted[-1] == minute:
            return
        with self._lock:
            if self._add(client, category, minute):
                if self._shared is not None:
                    self._shared.tell(client, category, minute)
                self._keep(client, category, minute)

    def _keep(self, client: str, category: str, minute: int) -> None:
        """Have a minute written soon."""
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.add((client, category, minute))

    def _hear(self, shared: SharedMinutes) -> None:
        """Count what other workers have told, and keep it: one that was killed cannot."""
        with self._lock:
            for row in shared.heard(int(self._clock() // 60)):
                if self._add(*row):
                    self._keep(*row)

    def _add(self, client: str, category: str, minute: int) -> bool:
        """Whether the minute is new."""
        counted = self._counters.get((client, category))
        if counted is None:
            if len(self._counters) >= MOST_COUNTERS:
                self._make_room()
            # whole at once: another thread may look at it
            self._counters[client, category] = [minute]
            return True
        place = bisect_left(counted, minute)
        if counted[place : place + 1] == [minute]:
            return False
        insort(counted, minute)
        return True

    def _make_room(self) -> None:
        """Forget half of the addresses, those used longest ago; if they are few, of the users, but never a group."""
        counted = [key for key in self._counters if not key[0].startswith(_GROUP)]
        by_address = [key for key in counted if not key[0].startswith(_USER)]
        least = by_address if 2 * len(by_address) >= len(counted) else counted
        for key in sorted(least, key=lambda key: self._counters[key][-1])[: len(least) // 2 + 1]:
            del self._counters[key]

    def used(self, client: str, category: str, first: int, end: int) -> int:
        """How many minutes were counted, from ``first`` to before ``end``."""
        if self._shared is not None:
            self._hear(self._shared)
        counted = self._counters.get((client, category), ())
        return bisect_left(counted, end) - bisect_left(counted, first)

    def extended(self, clients: Iterable[str], category: str, first: int, end: int) -> int:
        """How many minutes were added from ``first`` to before ``end``, for any of a client's names or everybody."""
        if not self._extensions:
            return 0
        names, levels = {None, *clients}, category_levels(category)
        return sum(
            extension.minutes
            for extension in self._extensions
            if extension.client in names
            and first <= extension.minute < end
            and extension.category.encode("ascii", "replace") in levels
        )

    # -- the file ------------------------------------------------------------------------------------------------------

    def extend(self, category: str, minutes: int, *, client: str | None = None, by: str) -> Extension:
        """Add minutes to the quotas of a category in their present periods; all proxies see it within a second or two.

        ``client``: an address, ``user:NAME``, ``group:NAME`` for what a group shares; ``None`` for everybody.

        Raises:
            ValueError: the number of minutes is not from 1 to 10080.
            StoreError: the file cannot be read or written.
        """
        if not 0 < minutes <= LONGEST_EXTENSION:
            raise ValueError(f"{minutes} minutes: expected 1 to {LONGEST_EXTENSION}")
        now = self._clock()
        extension = Extension(client, category, minutes, int(now // 60))
        with self._opened().writing() as database:
            _prepare(database, now)
            database.execute(
                "INSERT INTO extensions (client, category, minutes, minute, by) VALUES (?, ?, ?, ?, ?)",
                (*astuple(extension), by),
            )
            event = GrantEvent(now, "extended", client, "category", category, f"{minutes} more minutes", by)
            record_event(database, event)
            self._know_extensions(database)  # here, it holds at once
        return extension

    def shorten(self, extension: Extension, *, by: str) -> bool:
        """Take an extension back; whether it was there."""
        with self._opened().writing() as database:
            client, category, minutes, minute = astuple(extension)
            query = (
                f"DELETE FROM extensions WHERE id = (SELECT max(id) FROM extensions WHERE {SAME_CLIENT}"  # noqa: S608
                " AND category = ? AND minutes = ? AND minute = ?)"
            )
            is_there = database.execute(query, (client, client is None, category, minutes, minute)).rowcount == 1
            if is_there:
                event = GrantEvent(self._clock(), "taken back", client, "category", category, f"{minutes} minutes", by)
                record_event(database, event)
            self._know_extensions(database)
        return is_there

    def _know_extensions(self, database: SqlConnection) -> None:
        """Note what a writer finds: one after the other, so that nothing older replaces it."""
        rows = database.execute("SELECT client, category, minutes, minute FROM extensions").fetchall()
        self._extensions = tuple(Extension(*row) for row in rows)

    def exchange(self) -> None:
        """Write what was counted here, and read what others wrote.

        Raises:
            StoreError: the file cannot be read or written; what was counted here is kept.
        """
        with self._lock:
            waiting, self._waiting = self._waiting, set()
        try:
            self._is_changed()  # what is written from now on will be read the next time
            with self._opened().writing() as database:
                _prepare(database, self._clock())
                database.executemany(_INSERT, sorted(waiting, key=itemgetter(2)))
                database.execute(_TOO_MANY, (MOST_ROWS,))
                keep_newest(database, "use_minutes", MOST_ROWS, "client LIKE 'user:%'")
                (newest,) = database.execute("SELECT coalesce(max(id), 0) FROM use_minutes").fetchone()
                since = self._last if newest >= self._last else 0  # the file is another one
                rows = database.execute(
                    "SELECT client, category, minute FROM use_minutes WHERE id > ?", (since,)
                ).fetchall()
                self._know_extensions(database)
        except BaseException:
            with self._lock:
                self._waiting |= waiting
            raise
        self._last, self._written = newest, monotonic()
        for place in range(0, len(rows), 1000):  # the event loop may count between two of them
            with self._lock:
                for row in rows[place : place + 1000]:
                    self._add(*row)
        self._forget()

    def _forget(self) -> None:
        """Let go of minutes that no period has any more."""
        oldest = int(self._clock() // 60) - KEPT
        with self._lock:
            for key, counted in list(self._counters.items()):
                if counted[-1] < oldest:
                    del self._counters[key]
                elif counted[0] < oldest:
                    self._counters[key] = counted[bisect_left(counted, oldest) :]

    def _opened(self) -> Store:
        if self.place is None:
            raise StoreError(Path("overrides.sqlite"), "there is no folder for it")
        if self._store is None:
            self._store = open_store(self.place, UNBLOCKS, "minutes")
        return self._store

    def _run(self) -> None:
        if isinstance(self.place, PostgresAddress):
            self._exchange_or_say()
        while not self._stopped.wait(LOOKING):
            if (self._waiting and monotonic() - self._written >= WRITING) or self._is_changed():
                self._exchange_or_say()
        self._exchange_or_say()
        if self._store is not None:
            self._store.close()
            self._store = None

    def _is_changed(self) -> bool:
        """Whether another connection has written to the file."""
        try:
            before, self._version = self._version, self._opened().version()
        except BlockingIOError:
            return False
        except StoreError:
            return monotonic() - self._written >= WRITING  # who reads it then says why it cannot be read
        return before != self._version

    def _exchange_or_say(self) -> None:
        try:
            self.exchange()
        except StoreError as error:
            self._written = monotonic()
            if self.fault is None:
                logger.warning("hushlist: minutes of use are counted, but not kept over a restart: %s", error)
            self.fault = str(error)
        else:
            self.fault = None


def _prepare(database: SqlConnection, now: float) -> None:
    """Remove what is old."""
    for name in ("use_minutes", "extensions"):
        database.execute(f"DELETE FROM {name} WHERE minute < ?", (int(now // 60) - KEPT,))  # noqa: S608
