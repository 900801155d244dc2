"""The cache of index files, in the platform's cache folder. The key is a digest of everything an index is made of.

Index files are written under another name, moved into place, and never changed. A process that has one open can go on
reading it. The files are private: the owner decides who may see the lists' hashes.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import ELOOP, EPERM
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG, S_IWGRP, S_IWOTH
from tempfile import TemporaryDirectory

from hushlist.system.files import cache_folder, make_private

_ENDING = ".index"
_WRITING = "compiling-"
#: names of indexes, which are digests, and of folders that writers leave behind; nothing else has such names
_INDEX = re.compile(r"[0-9a-f]{64}\.index")
_LEFT = re.compile(rf"{_WRITING}[a-z0-9_]{{8}}")
#: index files that are always kept: those used last
_KEPT = 4
#: seconds; a process may be about to open a file that was used less long ago
_IN_USE = 60 * 60.0


class IndexCache:
    """Index files in a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        """``folder``: by default the platform's. It is made when something is written.

        Raises:
            RuntimeError: the user has no home.
        """
        self.folder = folder or cache_folder()

    def path(self, key: str) -> Path:
        """The path of a key's index, which may not exist."""
        return self.folder / f"{key}{_ENDING}"

    def make(self) -> Path:
        """Make the folder if it is missing, and give its path.

        Raises:
            OSError: it cannot be made, or not be trusted.
        """
        make_private(self.folder)
        self.check()
        return self.folder

    def check(self) -> None:
        """Check that no other user can write to the folder: an index there decides what passes.

        An index's checksums find accidents, not forgeries.

        Raises:
            OSError: the folder cannot be trusted.
        """
        try:
            status = self.folder.lstat()
        except OSError:
            return  # it does not exist yet; any other fault shows when it is made
        self._check(status)

    def _check(self, status: os.stat_result) -> None:
        if S_ISLNK(status.st_mode):
            raise OSError(ELOOP, "it is a link, which is not followed", str(self.folder))
        if os.name == "posix" and status.st_uid not in (os.geteuid(), 0):
            raise PermissionError(EPERM, "it is another user's", str(self.folder))
        if os.name == "posix" and status.st_mode & (S_IWGRP | S_IWOTH):
            raise PermissionError(EPERM, "other users can write there", str(self.folder))

    def touch(self, key: str) -> None:
        """Set an index's time of use. Its time of change stays: that shows its readers that nobody writes to it."""
        with suppress(OSError):  # it may belong to another user
            os.utime(self.path(key), ns=(time.time_ns(), self.path(key).stat().st_mtime_ns))

    def writing(self) -> TemporaryDirectory[str]:
        """A temporary folder in the cache for compiling.

        Raises:
            OSError: it cannot be made.
        """
        return TemporaryDirectory(dir=self.make(), prefix=_WRITING)

    def tidy(self) -> None:
        """Remove indexes that were not used lately, except the last few, and folders that unfinished writers left.

        Only files with our names, of the right type and owned by us are removed. Links are not followed. The folder is
        opened once, so it does not matter if its path changes meanwhile.
        """
        with suppress(OSError), self._opened() as (place, handle):
            found = sorted(_ours(place if handle is None else handle), reverse=True)
            kept = [name for _, name, is_index in found if is_index][:_KEPT]
            for used, name, is_index in found:
                if name not in kept and used < time.time() - _IN_USE:
                    with suppress(OSError):  # another process was quicker
                        (os.unlink if is_index else shutil.rmtree)(place / name, dir_fd=handle)

    @contextmanager
    def _opened(self) -> Iterator[tuple[Path, int | None]]:
        """A path to the folder, and the open folder that it is relative to, if the platform supports that."""
        if os.unlink not in os.supports_dir_fd:
            yield self.folder, None
            return
        handle = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            self._check(os.fstat(handle))
            yield Path(), handle
        finally:
            os.close(handle)


def _ours(folder: Path | int) -> Iterator[tuple[float, str, bool]]:
    """Time of last use, name, and whether it is an index, for each file and folder that we made."""
    with os.scandir(folder) as entries:
        for entry in entries:
            is_index = _INDEX.fullmatch(entry.name) is not None
            if not is_index and not _LEFT.fullmatch(entry.name):
                continue
            with suppress(OSError):  # another process was quicker
                status = entry.stat(follow_symlinks=False)
                is_of_kind = S_ISREG(status.st_mode) if is_index else S_ISDIR(status.st_mode)
                if is_of_kind and (os.name != "posix" or status.st_uid == os.geteuid()):
                    yield max(status.st_atime, status.st_mtime), entry.name, is_index
