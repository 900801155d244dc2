"""The log's folder and its files of lines, all of it private; and the lock that its writers share.

Several processes may append. A file is set aside when it is full or old, and removed later. Each batch opens the file,
and appends with one write under a lock: so no line is torn, none is lost when another process sets the file aside, and
a folder that vanished is made again.
"""

from __future__ import annotations

import errno
import gzip
import os
import re
import shutil
import zlib
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hushlist.core.system.files import PRIVATE_FILE, SAFELY, locked, make_private, open_regular
from hushlist.extensions.journal.log_entry import LogEntry
from hushlist.extensions.journal.log_keys import LogSettings
from hushlist.extensions.journal.log_record import time_text

#: the current file of lines, the older ones, and the same records for questions
CURRENT = "decisions.jsonl"
OLDER = "decisions-*.jsonl*"
DATABASE = "decisions.sqlite"
LOCK = "decisions.lock"
#: seconds to wait for the lock
PATIENCE = 0.5


COMPRESSED = ".gz"
_DRAFT = ".part"
#: how every line begins
_TIME = re.compile(rb'"time": "([0-9T:.-]{23}Z)"')
_HEAD = 256


class LineFiles:
    """Writes lines into a folder; raises ``OSError`` if it cannot."""

    def __init__(self, folder: Path, settings: LogSettings) -> None:
        self.name = str(folder / CURRENT)
        self._folder, self._settings = folder, settings
        self._path = folder / CURRENT
        # a day at least; all files together cover the whole time to keep
        self._span = timedelta(days=-(-settings.days // settings.files))

    def append(self, entries: list[LogEntry], moment: float) -> None:
        """Append lines, all or none; ``moment`` is in seconds since 1970."""
        octets = "".join([entry[-1] for entry in entries]).encode("ascii")
        make_private(self._folder)
        with locked(self._folder / LOCK, PATIENCE):
            if self._is_due(len(octets), moment):
                self._set_aside(moment)
            append_octets(self._path, octets)

    def tidy(self, moment: float) -> bool:
        """Set an old file aside, and remove files that are too old or too many; whether none is left to remove."""
        if self._folder.is_dir():
            with locked(self._folder / LOCK, PATIENCE):
                if self._is_due(0, moment):
                    self._set_aside(moment)
                self._remove(moment)
        return True

    def close(self) -> None:
        """Do nothing: no file is open between two batches."""

    def _is_due(self, octets: int, moment: float) -> bool:
        """Whether to set the file aside before ``octets`` more are appended."""
        try:
            with open_regular(self._path) as file:
                size = os.fstat(file.fileno()).st_size
                begun = _TIME.search(file.read(_HEAD))
        except FileNotFoundError:
            return False
        is_old = begun is not None and begun[1].decode() < time_text(moment - self._span.total_seconds())
        return size > 0 and (is_old or size + octets > self._settings.size)

    def _set_aside(self, moment: float) -> None:
        name = f"{datetime.fromtimestamp(moment, UTC):decisions-%Y%m%dT%H%M%S}"
        number = 0
        while (aside := self._folder / f"{name}-{number:03}.jsonl").exists() or _compressed(aside).exists():
            number += 1
        self._path.rename(aside)
        if self._settings.gzip:
            _compress(aside)
        with suppress(OSError):  # what cannot be removed keeps no record from being written; ``tidy`` says so
            self._remove(moment)

    def _remove(self, moment: float) -> None:
        files = older_files(self._folder)
        oldest = moment - timedelta(days=self._settings.days).total_seconds()
        kept = len(files) - self._settings.files
        for place, path in enumerate(files):
            if place < kept or path.stat().st_mtime < oldest:
                path.unlink()
        for draft in self._folder.glob(f"{OLDER}{_DRAFT}"):  # of what could not be compressed to its end
            draft.unlink()


def older_files(folder: Path) -> list[Path]:
    """The older files, the oldest first; one whose compression has not finished counts once."""
    paths = sorted(folder.glob(OLDER))
    return [
        path
        for path in paths
        if path.suffix == ".jsonl" or (path.suffix == COMPRESSED and not path.with_suffix("").exists())
    ]


def _compressed(path: Path) -> Path:
    return path.with_name(path.name + COMPRESSED)


def _compress(path: Path) -> None:
    """Replace a file by a compressed one; after a failure the file is unchanged, and a draft may be left."""
    draft = path.with_name(path.name + _DRAFT)
    with suppress(OSError):
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | SAFELY, PRIVATE_FILE)
        with path.open("rb") as source, os.fdopen(descriptor, "wb") as target, gzip.open(target, "wb") as packed:
            shutil.copyfileobj(source, packed)
        last = path.stat()
        os.utime(draft, ns=(last.st_atime_ns, last.st_mtime_ns))
        draft.replace(_compressed(path))
        path.unlink()


def append_octets(path: Path, octets: bytes) -> None:
    """Append to a file, all or nothing, on a line of its own."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | SAFELY, PRIVATE_FILE)
    try:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        if size:
            # the machine may have stopped in the middle of a line
            os.lseek(descriptor, size - 1, os.SEEK_SET)
            octets = octets if os.read(descriptor, 1) == b"\n" else b"\n" + octets
        if os.write(descriptor, octets) < len(octets):
            os.ftruncate(descriptor, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(descriptor)


# -- reading -----------------------------------------------------------------------------------------------------------


def read_newest_first(folder: Path) -> Iterator[list[bytes]]:
    """The lines of each file, from the current file to the oldest; within a file, from the first line on."""
    older, octets = None, None
    while older != (paths := older_files(folder)):  # what is set aside while it is read is there once
        older, octets = paths, _read(folder / CURRENT)
    if octets is not None:
        yield octets.splitlines()
    for path in reversed(paths):
        octets = _read(path)
        if octets is not None:
            yield octets.splitlines()


def _read(path: Path) -> bytes | None:
    """A file's octets; ``None`` if neither it nor its compressed form is there any more."""
    with suppress(FileNotFoundError):
        return _unpacked(path) if path.suffix == COMPRESSED else _octets(path)
    with suppress(FileNotFoundError):
        return _unpacked(_compressed(path))
    return None


def _octets(path: Path) -> bytes:
    with open_regular(path) as file:  # a pipe would keep its reader waiting for ever
        return file.read()


def _unpacked(path: Path) -> bytes:
    try:
        return gzip.decompress(_octets(path))
    except (EOFError, zlib.error) as error:
        raise OSError(errno.EIO, str(error), str(path)) from error
