"""Records on their way to a database: files on the disk, the spool, and a thread that sends what is in them.

Each record gets an id and is appended to a file; then it is sent, and the file is removed once the database has all of
it. So a record arrives though the database was away or the process was killed. Whatever is sent again arrives once,
since the database takes each id once. What a process leaves behind is sent by the next on its machine.
"""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from stat import S_ISREG
from uuid import uuid4

from hushlist.core.errors import logger_of
from hushlist.core.system.files import lock_file, make_private
from hushlist.extensions.databases.postgres import PostgresStore
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.databases.sql import SqlConnection, StoreError
from hushlist.extensions.journal.log_database import insert_into
from hushlist.extensions.journal.log_entry import LogEntry, line_of, row_of
from hushlist.extensions.journal.log_files import append_octets
from hushlist.extensions.journal.log_keys import LogSettings

logger = logger_of(__name__)

SPOOL = "spool"
#: rows in one message to the database
_BATCH = 500
#: seconds until the database is tried again, at first and at most; and until other processes' files are looked for
_FIRST_PAUSE, _LONGEST_PAUSE, _LOOKING = 0.5, 5.0, 30.0
#: seconds between two removals of old days
_TIDY = 60 * 60.0
_INSERT = insert_into("id")
#: of SQL: a value that no column takes
_BAD_VALUE = "22"

_Row = list[str | None]


class Spool:
    """The files; written by one thread, and emptied by another. ``OSError`` if the disk fails, or is full of them."""

    def __init__(self, folder: Path, settings: LogSettings, wake: Callable[[], object]) -> None:
        self.name = str(folder / SPOOL)
        self._folder, self._wake = folder / SPOOL, wake
        self._size, self._most = settings.size, settings.size * settings.files
        self._lock = threading.Lock()
        self._file: Path | None = None
        self._written = 0
        #: files that nothing is appended to, with what locks them: while it does, no other process sends them
        self._sealed: dict[Path, int] = {}
        self._open = -1

    def append(self, entries: list[LogEntry], moment: float) -> None:
        """Append records, all or none."""
        octets = b"".join(uuid4().hex.encode() + b" " + line_of(entry) for entry in entries)
        with self._lock:
            make_private(self._folder)
            if sum(size for _, size in self._files()) + len(octets) > self._most:
                raise OSError(errno.ENOSPC, f"{self._most} octets wait for the database already", self.name)
            if self._file is not None and not self._file.exists():
                self._seal()  # somebody has removed it
            while self._file is None:
                path = self._folder / f"{int(1e9 * moment):020}-{uuid4().hex[:8]}.spool"
                if (descriptor := lock_file(path)) is not None:
                    self._file, self._open, self._written = path, descriptor, 0
            append_octets(self._file, octets)
            self._written += len(octets)
            if self._written > self._size:
                self._seal()
        self._wake()

    def tidy(self, moment: float) -> bool:
        """Do nothing: what is sent is removed."""
        return True

    def close(self) -> None:
        """Do nothing: what is not sent stays."""

    def _files(self) -> Iterator[tuple[Path, int]]:
        for path in sorted(self._folder.glob("*.spool")):
            with suppress(FileNotFoundError):
                status = path.lstat()
                if S_ISREG(status.st_mode):  # of a pipe, nobody would read the end
                    yield path, status.st_size

    def _seal(self) -> None:
        if self._file is not None:
            self._sealed[self._file], self._file = self._open, None

    def sealed(self, *, everything: bool) -> list[Path]:
        """The files to send, the oldest first; ``everything``: with those of processes that have ended."""
        with self._lock:
            self._seal()
            for path, _ in self._files() if everything else ():
                if path not in self._sealed:
                    with suppress(OSError):  # it is gone, or another user's, who will send it
                        if (descriptor := lock_file(path, 0)) is not None:
                            self._sealed[path] = descriptor
            return sorted(self._sealed)

    def remove(self, path: Path) -> None:
        with self._lock:
            path.unlink(missing_ok=True)
            os.close(self._sealed.pop(path))

    def let_go(self) -> None:
        """Leave the files to other processes."""
        with self._lock:
            self._seal()
            for descriptor in self._sealed.values():
                os.close(descriptor)
            self._sealed.clear()

    @property
    def octets(self) -> int:
        """How much of this process waits."""
        with self._lock:
            paths = [path for path in (*self._sealed, self._file) if path is not None]
            return sum(size for path, size in self._files() if path in paths)


class DatabaseSender:
    """The thread that empties a spool into a database; a failure is logged once, and tried again."""

    def __init__(
        self, address: PostgresAddress, folder: Path, settings: LogSettings, clock: Callable[[], float]
    ) -> None:
        self._database = PostgresStore(address, "log")
        self._settings, self._clock = settings, clock
        self._wake, self._stopped = threading.Event(), threading.Event()
        self.spool = Spool(folder, settings, self._wake.set)
        self._days: set[str] = set()
        #: why nothing is sent, if so
        self.fault: str | None = None
        self._is_sending = False
        self._wake.set()  # perhaps another process left something
        self._thread = threading.Thread(target=self._run, name="hushlist: log to the database", daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether nothing of this process waits."""
        return not self._is_sending and not self.spool.octets

    def close(self, seconds: float) -> None:
        """Send what can be sent in this time, and end."""
        self._stopped.set()
        self._wake.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        pause, looked, tidied = _FIRST_PAUSE, -_LOOKING, -_TIDY
        is_last = False
        while not is_last:
            self._wake.wait(_LOOKING)
            self._wake.clear()  # before: what is set from now on is seen in the next step
            is_last = self._stopped.is_set()
            now = time.monotonic()
            try:
                self._is_sending = True
                with self._database.asking():  # while it is away, the files are left as they are
                    pass
                everything = now - looked >= _LOOKING
                looked = now if everything else looked
                for path in self.spool.sealed(everything=everything):
                    self._send(path)
                    self.spool.remove(path)
                if now - tidied >= _TIDY:
                    tidied = now
                    self._tidy()
            except Exception as error:  # after any error, the thread goes on
                self._say(error)
                self._days.clear()  # perhaps a day was dropped meanwhile
                self._stopped.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                self._wake.set()
            else:
                pause = _FIRST_PAUSE
                if self.fault is not None:
                    logger.warning("hushlist: the log is sent again: %s", self._database.path)
                self.fault = None
            finally:
                self._is_sending = False
        self.spool.let_go()
        self._database.close()

    def _say(self, error: Exception) -> None:
        if self.fault is None:
            logger.error("hushlist: the log cannot be sent, and waits in %s: %s", self.spool.name, error)
        self.fault = str(error)

    def _send(self, path: Path) -> None:
        lines = path.read_bytes().splitlines() if path.exists() else []  # somebody may have removed it
        rows = [row for line in lines if (row := _row_of_line(line)) is not None]
        for start in range(0, len(rows), _BATCH):
            batch = rows[start : start + _BATCH]
            with self._database.asking() as database:
                for day in {str(fields[2])[:10] for fields in batch} - self._days:
                    database.execute("SELECT make_partition(?)", [date.fromisoformat(day)])
                    self._days.add(day)
            try:
                self._insert(batch)
            except StoreError as error:
                if not error.code.startswith(_BAD_VALUE):
                    raise
                self._insert_each(batch)

    def _insert(self, rows: list[_Row]) -> None:
        with self._database.asking() as database:
            database.executemany(_INSERT, rows)

    def _insert_each(self, rows: list[_Row]) -> None:
        """One by one: a row that the database will never take must not keep back all others."""
        for row in rows:
            try:
                self._insert([row])
            except StoreError as error:
                if not error.code.startswith(_BAD_VALUE):
                    raise
                logger.error("hushlist: a record cannot be in the database: %s: %s", row[1], error)  # noqa: TRY400

    def _tidy(self) -> None:
        today = datetime.fromtimestamp(self._clock(), UTC).date()
        with self._database.asking() as database:
            _drop(database, today, self._settings.days)


def _drop(database: SqlConnection, today: date, days: int) -> None:
    """Drop old days: no more than by the database's clock, since this machine's may be far ahead."""
    query = "SELECT drop_partitions(least(?, (now() AT TIME ZONE 'UTC')::date) - ?::int)"
    database.execute(query, [today, days])


def _row_of_line(line: bytes) -> _Row | None:
    """The row of a line of the spool; ``None`` for half a line, after a power cut, and for one without a day."""
    identity, _, record = line.partition(b" ")
    with suppress(ValueError, RecursionError):
        fields = json.loads(record)
        day = str(fields.get("time"))[:10] if isinstance(fields, dict) else ""
        if len(identity) == 32 and date.fromisoformat(day).isoformat() == day:
            return [identity.decode("ascii"), *row_of(fields, record)]
    return None
