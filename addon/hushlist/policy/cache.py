"""The cache: index files by the content of what they were compiled from, in the platform's cache folder.

Files are written under another name and moved, never changed, so that whoever has one open keeps what it opened. They
are private: who can read the lists by their hashes is for the owner to say.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from errno import EPERM
from pathlib import Path
from stat import S_IWGRP, S_IWOTH

from hushlist.policy.folders import cache_folder, make_private

_ENDING = ".index"
#: files that are kept however long ago they were used
_KEPT = 4
#: seconds; what was used since may be about to be opened
_IN_USE = 60 * 60.0


class Cache:
    """Index files in a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        """``folder``: the platform's, where none is given; it is made when something is written.

        Raises:
            RuntimeError: the user has no home.
        """
        self.folder = folder or cache_folder()

    def path(self, key: str) -> Path:
        """Where the index of a key is, or would be."""
        return self.folder / f"{key}{_ENDING}"

    def make(self) -> Path:
        """The folder, made where it was missing.

        Raises:
            OSError: it cannot be made.
        """
        make_private(self.folder)
        return self.folder

    def check(self) -> None:
        """Whether what is in the folder can be believed: whoever can put an index there decides what passes.

        The checksums of an index tell accidents, not intent.

        Raises:
            PermissionError: it cannot.
        """
        try:
            stat = self.folder.stat()
        except OSError:
            return  # there is none yet, or making it says why
        if os.name == "posix" and stat.st_uid not in (os.geteuid(), 0):
            raise PermissionError(EPERM, "it is another user's", str(self.folder))
        if os.name == "posix" and stat.st_mode & (S_IWGRP | S_IWOTH):
            raise PermissionError(EPERM, "other users can write there", str(self.folder))

    def touch(self, key: str) -> None:
        """Take note that an index is used. When it was written stays: so who uses it knows that nobody writes to it."""
        with suppress(OSError):  # it may be somebody else's, and only read
            os.utime(self.path(key), ns=(time.time_ns(), self.path(key).stat().st_mtime_ns))

    def tidy(self) -> None:
        """Remove what was not used lately, but for the last few; and what writers left that did not finish."""
        files = sorted(((_used(path), path) for path in self.folder.iterdir()), reverse=True)
        indexes = [path for _, path in files if path.suffix == _ENDING]
        kept = {*indexes[:_KEPT]}
        for used, path in files:
            if path not in kept and used < time.time() - _IN_USE:
                _remove(path)


def _remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it; what cannot be removed stays."""
    with suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _used(path: Path) -> float:
    try:
        stat = path.stat()
    except OSError:
        return 0.0
    return max(stat.st_atime, stat.st_mtime)
