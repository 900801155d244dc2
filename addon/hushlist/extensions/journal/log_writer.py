"""The log's writer: takes a record in a few microseconds, and writes it in a thread.

A problem of the disk never delays the caller, raises an exception there, or ends the thread. A failure is logged once.
Records that cannot be written wait in bounded memory. Lost records are counted, and the log itself reports the number
when it can be written again.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from logging import INFO, WARNING
from pathlib import Path

from hushlist.core.decide.decision import LogRecord
from hushlist.core.errors import logger_of, number_of
from hushlist.core.policy.group_table import DeviceNames
from hushlist.core.system.files import state_folder
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.journal.log_copies import CopySink
from hushlist.extensions.journal.log_database import Database, LogPlace
from hushlist.extensions.journal.log_entry import LogEntry, entry_of, entry_of_fields
from hushlist.extensions.journal.log_figures import LogFigures
from hushlist.extensions.journal.log_files import LineFiles
from hushlist.extensions.journal.log_identifiers import References, keep_key, new_key, pseudonyms
from hushlist.extensions.journal.log_keys import LoggedClients, LogSettings
from hushlist.extensions.journal.log_record import Privacy, hiding_of, is_wanted, lost_record
from hushlist.extensions.journal.log_sender import DatabaseSender, Spool
from hushlist.extensions.journal.request_counts import RequestCounts

logger = logger_of(__name__)

#: most records that wait in memory, and about how many octets of them
MOST_WAITING = 4096
MOST_OCTETS = 16 << 20
#: records in one write
_BATCH = 256
#: seconds to wait for more records after the first
GATHER = 0.1
#: seconds between two additions to the numbers of requests, of which many are of the same client
COUNT = 2.0
#: seconds until a failed write is tried again, at first and at most
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 5.0
#: seconds between two removals of old records
_TIDY = 60 * 60.0


class _Outlet:
    """The records that wait for one sink, and its state; they may be taken in one thread and pushed in another."""

    def __init__(self, sink: LineFiles | Database | Spool | CopySink, lost: Callable[[int], LogEntry]) -> None:
        self._sink = sink
        self._lost_entry = lost
        self._lock = threading.Lock()
        self._waiting: deque[LogEntry] = deque()
        self._octets = 0
        self._lost = 0
        self._pause = 0.0
        #: why it cannot be written, if so
        self.fault: str | None = None
        self._retry_at = self._tidy_at = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def unwritten(self) -> int:
        """How many records it has not written, with those that are lost and not yet told of."""
        return len(self._waiting) + self._lost

    @property
    def is_done(self) -> bool:
        return not self._waiting and not self._lost

    def due_in(self, now: float) -> float:
        """Seconds until there is work without a new record."""
        return max(0.0, (self._tidy_at if self.is_done else self._retry_at) - now)

    def take(self, entries: list[LogEntry], lost: int) -> None:
        """Add records to those that wait; ``lost`` is how many were lost before."""
        with self._lock:
            self._lost += lost
            for entry in entries:
                if len(self._waiting) < MOST_WAITING and self._octets < MOST_OCTETS:
                    self._waiting.append(entry)
                    self._octets += len(entry[-1])
                else:
                    self._lost += 1

    def push(self, now: float, moment: float, *, at_once: bool) -> None:
        """Write the waiting records, unless that failed a moment ago; never raises."""
        if now < self._retry_at and not at_once:
            return
        try:
            self._write(moment)
            if now >= self._tidy_at:
                self._tidy_at = now + (_TIDY if self._sink.tidy(moment) else 0.0)
        except Exception as error:  # after any error, the thread goes on
            self._fail(error, now)
        else:
            if self._pause:
                logger.warning("hushlist: the log can be written again: %s", self._sink.name)
            self._pause, self.fault = 0.0, None

    def close(self) -> None:
        self._sink.close()

    def _write(self, moment: float) -> None:
        while not self.is_done:
            with self._lock:
                batch = list(islice(self._waiting, _BATCH))
                lost = self._lost if len(batch) == len(self._waiting) else 0
            self._sink.append([*batch, self._lost_entry(lost)] if lost else batch, moment)
            with self._lock:
                self._lost -= lost
                for _ in batch:
                    self._octets -= len(self._waiting.popleft()[-1])

    def _fail(self, error: Exception, now: float) -> None:
        if not self._pause:
            logger.error("hushlist: the log cannot be written, and is tried again: %s: %r", self._sink.name, error)
        self.fault = f"{self._sink.name}: {str(error).removeprefix(f'{self._sink.name}: ')}"
        self._pause = min(max(FIRST_PAUSE, 2 * self._pause), LONGEST_PAUSE)
        self._retry_at = now + self._pause
        self._tidy_at = max(self._tidy_at, self._retry_at)


class _CopyThread:
    """Pushes the records of one copy of the log, so that nothing else waits for whoever takes them."""

    def __init__(self, outlet: _Outlet, clock: Callable[[], float]) -> None:
        self._outlet, self._clock = outlet, clock
        self._wake, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="hushlist: copy of the log", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Push what waits."""
        self._wake.set()

    def end(self) -> None:
        """Try once more, and end."""
        self._closing.set()
        self._wake.set()

    def join(self, seconds: float) -> None:
        """Wait at most so long for the end."""
        self._thread.join(max(0.0, seconds))

    def _run(self) -> None:
        is_last = False
        while not is_last:
            self._wake.wait(self._outlet.due_in(time.monotonic()))
            self._wake.clear()  # before: what is set from now on is seen in the next step
            is_last = self._closing.is_set()
            self._outlet.push(time.monotonic(), self._clock(), at_once=is_last)
        self._outlet.close()


class LogWriter:
    """The decision log; only one thread may write, such as an event loop's.

    >>> journal = LogWriter(LogSettings(folder=Path("/nonexistent")))
    >>> len(journal.reference()), journal.close()
    (10, True)
    """

    def __init__(
        self, settings: LogSettings, *, state: Path | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        """Start; nothing is read or written in the calling thread.

        ``state`` is the folder of the pseudonyms' key, and of the log if the settings name none; by default the
        platform's. ``clock`` gives seconds since 1970. ``RuntimeError`` if the user has no home folder for a log, or no
        thread can be started.
        """
        state = state or state_folder()
        self.folder = folder = settings.folder or state
        #: why pseudonyms hold until the next start only, if so
        self.key_fault: str | None = None
        #: where questions find the records
        self.place: LogPlace = settings.to or folder
        #: what tells the name of a client's device, if the policy has names
        self.device_of: DeviceNames | None = None
        #: takes out of a URL what is not kept
        self.hides = hiding_of(None)
        self._settings, self._state, self._clock = settings, state, clock
        self._references = References()
        self._own_references = References()  # of the thread
        self._privacy: Privacy | None = None
        self._privacy_lock = threading.Lock()
        # Only one thread changes each of these, so no lock is needed.
        self._queue: deque[tuple[LogRecord, int]] = deque()
        self._in = self._octets_in = self._refused = 0
        self._out = self._octets_out = self._refusals_told = 0
        self._wake, self._hurry, self._closing = threading.Event(), threading.Event(), threading.Event()
        self._sender = None if settings.to is None else DatabaseSender(settings.to, folder, settings, clock)
        self._database = Database(folder, settings)
        self._counts, self._count_at = RequestCounts(), 0.0
        #: what ends the log first, of all that was told
        self._noted_ends = set[str]()
        sinks = (LineFiles(folder, settings), self._database) if self._sender is None else (self._sender.spool,)
        self._own_outlets = tuple(_Outlet(sink, self._lost_entry) for sink in sinks)
        copies = tuple(_Outlet(CopySink(copy), self._lost_entry) for copy in settings.also)
        self._outlets = (*self._own_outlets, *copies)
        self._copies = tuple(_CopyThread(copy, clock) for copy in copies)
        self._thread = threading.Thread(target=self._run, name="hushlist: log", daemon=True)
        self._thread.start()

    # -- the calling thread --------------------------------------------------------------------------------------

    def reference(self, moment: float | None = None) -> str:
        """A new reference number; ``moment`` is in seconds since 1970, by default now."""
        return self._references.make(self._clock() if moment is None else moment)

    def write(self, record: LogRecord) -> None:
        """Count a record, and take it if the settings want it; never waits, never raises."""
        if self._sender is None:
            self._counts.note(record)
        if not is_wanted(record, self._settings.what):
            if not self._wake.is_set():
                self._wake.set()
            return
        if len(self._queue) >= MOST_WAITING or self._octets_in - self._octets_out > MOST_OCTETS:
            self._refused += 1
        else:
            octets = record.octets
            self._octets_in += octets
            self._queue.append((record, octets))
            self._in += 1
        if not self._wake.is_set():
            self._wake.set()

    @property
    def fault(self) -> str | None:
        """Why the log cannot be written, if so."""
        faults = [outlet.fault for outlet in self._outlets] + ([] if self._sender is None else [self._sender.fault])
        return next(filter(None, faults), None)

    @property
    def figures(self) -> LogFigures | None:
        """How large it is, and what of it ends first, as of its last tidying; ``None``: not known, or a database's."""
        return self._database.figures

    @property
    def waiting(self) -> int:
        """About how many records are still to be written."""
        return self._in - self._out + sum(map(len, self._outlets))

    def flush(self, seconds: float = 2.0) -> bool:
        """Wait at most so long until all is written; whether it is."""
        end = time.monotonic() + seconds
        self._hurry.set()
        self._wake.set()
        while not self._is_done() and time.monotonic() < end and self._thread.is_alive():
            time.sleep(0.002)
        self._hurry.clear()
        return self._is_done()

    def close(self, seconds: float = 2.0) -> bool:
        """Write what can be written in this time, and end; whether all is written; else it says how much is lost."""
        self._closing.set()
        self._hurry.set()
        self._wake.set()
        end = time.monotonic() + seconds
        self._thread.join(seconds)
        for copy in self._copies:
            copy.end()
        for copy in self._copies:
            copy.join(end - time.monotonic())
        if self._sender is not None:
            self._sender.close(max(0.0, end - time.monotonic()))
        lost = self._in - self._out + self._refused - self._refusals_told
        if lost := lost + max(outlet.unwritten for outlet in self._outlets):
            records = number_of(lost, "record", "records")
            logger.error(
                "hushlist: the log could not be written until the end: %s lost (%s)", records, self.fault or "busy"
            )
        return self._is_done()

    def _is_done(self) -> bool:
        is_told = self._refused == self._refusals_told
        is_sent = self._sender is None or self._sender.is_done
        is_counted = self._counts.is_done or self.fault is not None
        return (
            is_counted
            and self._in == self._out
            and is_told
            and is_sent
            and all(outlet.is_done for outlet in self._outlets)
        )

    # -- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        is_last = False
        while not is_last:
            self._wake.wait(self._due_in(time.monotonic()))
            self._hurry.wait(GATHER)
            self._wake.clear()  # before: what is set from now on is seen in the next step
            is_last = self._closing.is_set()
            try:
                self._step(at_once=is_last)
            except Exception:  # after any error, the thread goes on
                logger.exception("hushlist: the log failed")
        for outlet in self._own_outlets:
            outlet.close()

    def _due_in(self, now: float) -> float:
        """Seconds until there is work without a new record."""
        due = min(outlet.due_in(now) for outlet in self._own_outlets)
        return due if self._counts.is_done else min(due, max(0.0, self._count_at - now))

    def _step(self, *, at_once: bool) -> None:
        records = [self._queue.popleft() for _ in range(len(self._queue))]
        refused = self._refused
        entries, privacy = list[LogEntry](), self.privacy()
        for record, _ in records:
            try:
                entries.append(entry_of(record, privacy, self.device_of))
            except Exception:  # only this record is lost
                logger.exception("hushlist: a decision cannot be logged")
        missing = refused - self._refusals_told + len(records) - len(entries)
        for outlet in self._outlets:
            outlet.take(entries, missing)
        self._refusals_told = refused
        self._octets_out += sum(octets for _, octets in records)
        for copy in self._copies:
            copy.wake()
        now, moment = time.monotonic(), self._clock()
        for outlet in self._own_outlets:
            outlet.push(now, moment, at_once=at_once)
        if now >= self._count_at or self._hurry.is_set():
            self._count_at = now + COUNT
            self._write_counts()
        self._out += len(records)
        figures = self.figures
        if figures is not None and figures.ends not in {"", *self._noted_ends}:
            logger.log(WARNING if figures.ends_early else INFO, "hushlist: the log in %s: %s", self.folder, figures)
            self._noted_ends.add(figures.ends)

    def _write_counts(self) -> None:
        """Add to the numbers of requests; where that fails, they wait, and the outlet of the records says why."""
        with suppress(OSError, StoreError):
            self._database.count(self._counts.gather(self.privacy()))
            self._counts.written()

    def _lost_entry(self, number: int) -> LogEntry:
        moment = self._clock()
        return entry_of_fields(lost_record(self._own_references.make(moment), moment, number))

    def privacy(self) -> Privacy:
        """What records may contain; the first call reads the pseudonyms' key from the disk."""
        with self._privacy_lock:
            if self._privacy is None:
                settings = self._settings
                key = self._key() if settings.clients is LoggedClients.PSEUDONYM else b""
                self._privacy = Privacy(settings.queries, settings.clients, pseudonyms(key))
            if self._privacy.hides is not self.hides:
                self._privacy = self._privacy._replace(hides=self.hides)
            return self._privacy

    def _key(self) -> bytes:
        """The stored key; after a failure, one for this process alone, since names must not be logged instead."""
        try:
            return keep_key(self._state)
        except (OSError, ValueError) as error:
            self.key_fault = str(error)
            logger.error("hushlist: pseudonyms hold until the next start only: %s", error)  # noqa: TRY400
            return new_key()
