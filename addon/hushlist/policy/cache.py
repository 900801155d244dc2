"""The cache: index files by the content of what they were compiled from, in the platform's cache folder.

Files are written under another name and moved, never changed, so that whoever has one open keeps what it opened. They
are private: who can read the lists by their hashes is for the owner to say.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from hushlist.policy.folders import cache_folder

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
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.folder

    def touch(self, key: str) -> None:
        """Take note that an index is used."""
        with suppress(OSError):  # it may be somebody else's, and only read
            os.utime(self.path(key))

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
        return path.stat().st_mtime
    except OSError:
        return 0.0
