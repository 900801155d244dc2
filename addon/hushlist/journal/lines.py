"""The files of lines: appended by as many processes as there are, set aside when full or old, and removed in time.

Every batch is one write at the end of a file that is opened for it, under a lock: no line is torn, none gets lost while
another process sets the file aside, and a folder that vanished is made again.
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

from hushlist.journal.folder import CURRENT, OLDER, PRIVATE_FILE, SAFELY, locked, make_folder
from hushlist.journal.record import time_text
from hushlist.policy.log import Settings

COMPRESSED = ".gz"
_DRAFT = ".part"
#: what stands at the beginning of every line
_TIME = re.compile(rb'"time": "([0-9T:.-]{23}Z)"')
_HEAD = 256


class LineFiles:
    """Writes lines into a folder."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.name = str(folder / CURRENT)
        self._folder, self._settings = folder, settings
        self._path = folder / CURRENT
        # a day at least; all files together reach back as long as anything is kept
        self._span = timedelta(days=-(-settings.days // settings.files))

    def append(self, lines: list[bytes], moment: float) -> None:
        """Append lines, all or none; ``moment`` is in seconds since 1970.

        Raises:
            OSError: they could not be written.
        """
        octets = b"".join(lines)
        make_folder(self._folder)
        with locked(self._folder):
            if self._is_due(len(octets), moment):
                self._set_aside(moment)
            _append(self._path, octets)

    def tidy(self, moment: float) -> None:
        """Set aside what is old, and remove what is too old or too much.

        Raises:
            OSError: something could not be done.
        """
        if not self._folder.is_dir():
            return
        with locked(self._folder):
            if self._is_due(0, moment):
                self._set_aside(moment)
            self._remove(moment)

    def close(self) -> None:
        """Nothing is open between two batches."""

    def _is_due(self, octets: int, moment: float) -> bool:
        """Whether the file has to be set aside before so much more is appended."""
        try:
            with self._path.open("rb") as file:
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
        self._remove(moment)

    def _remove(self, moment: float) -> None:
        files = older_files(self._folder)
        oldest = moment - timedelta(days=self._settings.days).total_seconds()
        kept = len(files) - self._settings.files
        for place, path in enumerate(files):
            if place < kept or path.stat().st_mtime < oldest:
                path.unlink()
        for draft in self._folder.glob(f"{OLDER}{_DRAFT}"):  # of a process that ended while it compressed
            draft.unlink()


def older_files(folder: Path) -> list[Path]:
    """The files that were set aside, the oldest first; one that is being compressed, or was not wholly, counts once."""
    found = sorted(folder.glob(OLDER))
    return [path for path in found if path.suffix == ".jsonl" or _is_compressed_alone(path)]


def _is_compressed_alone(path: Path) -> bool:
    return path.suffix == COMPRESSED and not path.with_suffix("").exists()


def _compressed(path: Path) -> Path:
    return path.with_name(path.name + COMPRESSED)


def _compress(path: Path) -> None:
    """Put a compressed file in a file's place; where that fails, the file stays as it is."""
    draft = path.with_name(path.name + _DRAFT)
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | SAFELY, PRIVATE_FILE)
        with path.open("rb") as source, os.fdopen(descriptor, "wb") as target, gzip.open(target, "wb") as packed:
            shutil.copyfileobj(source, packed)
        last = path.stat()
        os.utime(draft, ns=(last.st_atime_ns, last.st_mtime_ns))
        draft.replace(_compressed(path))
        path.unlink()
    except OSError:
        with suppress(OSError):
            draft.unlink()


def _append(path: Path, octets: bytes) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | SAFELY, PRIVATE_FILE)
    try:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        if size:
            # a machine that stopped in the middle of a line
            os.lseek(descriptor, size - 1, os.SEEK_SET)
            octets = octets if os.read(descriptor, 1) == b"\n" else b"\n" + octets
        if os.write(descriptor, octets) < len(octets):
            os.ftruncate(descriptor, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(descriptor)


# -- reading -----------------------------------------------------------------------------------------------------------


def read_newest_first(folder: Path) -> Iterator[list[bytes]]:
    """The lines of each file, from the one that is written back to the oldest; a file's own lines from its first on.

    Raises:
        OSError: a file cannot be read.
    """
    for path in (folder / CURRENT, *reversed(older_files(folder))):
        octets = _read(path)
        if octets is not None:
            yield octets.splitlines()


def _read(path: Path) -> bytes | None:
    """A file's octets; ``None`` where it is gone, and cannot be found compressed either."""
    with suppress(FileNotFoundError):
        return _unpacked(path) if path.suffix == COMPRESSED else path.read_bytes()
    with suppress(FileNotFoundError):
        return _unpacked(_compressed(path))
    return None


def _unpacked(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes())
    except (EOFError, zlib.error) as error:
        raise OSError(errno.EIO, str(error), str(path)) from error
