"""The cache of index files, in the platform's cache folder. The key is a digest of everything an index is made of.

Index files are written under another name, moved into place, and never changed. A process that has one open can go on
reading it. The files are private: the owner decides who may see the lists' hashes.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from hushlist.core.extension import extensions_named, load
from hushlist.core.policy.policy_file import Policy
from hushlist.core.system.files import (
    Fingerprint,
    cache_folder,
    check_private,
    check_status,
    lock_file,
    make_private,
)
from hushlist.core.system.late_pattern import late_pattern
from hushlist.core.system.platform import is_of_user, open_folder

_ENDING = ".index"
_WRITING = "compiling-"
#: names of indexes and records, which are digests, and of folders that writers leave; nothing else has such names
_INDEX = late_pattern(r"[0-9a-f]{64}\.index")
_RECORD = late_pattern(r"[0-9a-f]{64}\.stat")
_LEFT = late_pattern(rf"{_WRITING}[a-z0-9_]{{8}}")
#: in such a folder, the file whose lock a writer has
_LOCK = "lock"
#: index files that are always kept: those used last
_KEPT = 4
#: octets of index files that are kept, and how many of those used last are kept however large they are: the one that is
#: in use while its successor is compiled
MOST_OCTETS, _LARGE = 512 << 20, 2
#: seconds; a process may be about to open a file that was used less long ago
_IN_USE = 60 * 60.0
#: seconds from the start of a writer until it has its lock, and from an index's use until it is open, at most
_BEGINNING = 60.0


class IndexCache:
    def __init__(self, folder: Path | None = None) -> None:
        """``folder``: by default the platform's. It is made when something is written.

        Raises:
            RuntimeError: the user has no home.
        """
        self.folder = folder or cache_folder()

    def path(self, key: str) -> Path:
        """The path of a key's index, which may not exist."""
        return self.folder / f"{key}{_ENDING}"

    def record(self, policy: Path) -> Path:
        """The path of the record of a policy file, by its place and by the name that it is given."""
        name = hashlib.sha256(os.fsencode(f"{policy.absolute()}\0{policy}")).hexdigest()
        return self.folder / f"{name}.stat"

    def write_record(self, policy: Path, octets: bytes) -> None:
        """Write the record of a policy file, or replace it as a whole; ``OSError`` if it cannot be written."""
        with self.writing() as name:
            draft = Path(name) / "record"
            draft.touch(mode=0o600)
            draft.write_bytes(octets)
            draft.replace(self.record(policy))

    def pointers(self, policy: Policy) -> dict[Path, Fingerprint]:
        """What changes when another copy of one of a policy's lists comes into force."""
        fingerprints: dict[Path, Fingerprint] = {}
        for extension in extensions_named(policy.extensions):
            if extension.pointers:
                fingerprints |= load(extension.pointers)(policy, self.folder)
        return fingerprints

    def make(self) -> Path:
        """Make the folder if it is missing, and give its path; ``OSError`` if it cannot be made, or not be trusted."""
        make_private(self.folder)
        self.check()
        return self.folder

    def check(self) -> None:
        """Check that no other user can write to the folder: an index there decides what passes.

        An index's checksums find accidents, not forgeries. ``OSError`` if the folder cannot be trusted.
        """
        check_private(self.folder)

    def touch(self, key: str) -> None:
        """Set an index's time of use. Its time of change stays: that shows its readers that nobody writes to it."""
        with suppress(OSError):  # it may belong to another user
            os.utime(self.path(key), ns=(time.time_ns(), self.path(key).stat().st_mtime_ns))

    @contextmanager
    def writing(self) -> Iterator[str]:
        """A temporary folder in the cache for compiling; ``OSError`` if it cannot be made."""
        from tempfile import TemporaryDirectory

        with TemporaryDirectory(dir=self.make(), prefix=_WRITING) as name:
            lock = None
            with suppress(OSError):  # where there are no locks
                lock = lock_file(Path(name) / _LOCK)
            try:
                yield name
            finally:
                if lock is not None:
                    os.close(lock)

    def tidy(self) -> None:
        """Remove indexes that were not used lately, except the last few, and folders that unfinished writers left.

        Of indexes that were used lately, those go that are too large together, from that which was used first. Only
        files with our names, of the right type and owned by us are removed. Links are not followed. The folder is
        opened once, so it does not matter if its path changes meanwhile.
        """
        from shutil import rmtree

        with suppress(OSError), self._opened() as (place, handle):
            entries = sorted(_ours(place if handle is None else handle), reverse=True)
            indexes = [(name, octets) for _, name, _, octets in entries if _INDEX.fullmatch(name)]
            kept, too_large = {name for name, _ in indexes[:_KEPT]}, _beyond(indexes)
            for used, name, is_file, _ in entries:
                age = time.time() - used
                is_over = name not in kept and self._is_over(name, age, is_file=is_file)
                if is_over or (name in too_large and age > _BEGINNING):
                    with suppress(OSError):  # another process was quicker
                        (os.unlink if is_file else rmtree)(place / name, dir_fd=handle)

    def _is_over(self, name: str, age: float, *, is_file: bool) -> bool:
        """Whether a file is no longer in use, or the writer of a folder has ended; ``age``: seconds since its use."""
        if is_file or age < _BEGINNING:
            return age > _IN_USE
        try:
            lock = lock_file(self.folder / name / _LOCK, 0)
        except FileNotFoundError:
            return True  # it ended at once
        except OSError:  # where there are no locks
            return age > _IN_USE
        if lock is not None:
            os.close(lock)
        return lock is not None

    @contextmanager
    def _opened(self) -> Iterator[tuple[Path, int | None]]:
        """A path to the folder, and the open folder that it is relative to, if the platform supports that."""
        handle = open_folder(self.folder)
        if handle is None:
            yield self.folder, None
            return
        try:
            check_status(os.fstat(handle), self.folder)
            yield Path(), handle
        finally:
            os.close(handle)


def _beyond(indexes: Sequence[tuple[str, int]]) -> set[str]:
    """The names of the indexes that are too large together with those before them; each with its size."""
    names, sizes = [name for name, _ in indexes], accumulate(octets for _, octets in indexes)
    return {name for name, octets in list(zip(names, sizes, strict=True))[_LARGE:] if octets > MOST_OCTETS}


def _ours(folder: Path | int) -> Iterator[tuple[float, str, bool, int]]:
    """Time of last use, name, whether it is a file, and size, for each file and folder that we made."""
    with os.scandir(folder) as entries:
        for entry in entries:
            is_file = any(pattern.fullmatch(entry.name) for pattern in (_INDEX, _RECORD))
            if not is_file and not _LEFT.fullmatch(entry.name):
                continue
            with suppress(OSError):  # another process was quicker
                status = entry.stat(follow_symlinks=False)
                is_of_kind = S_ISREG(status.st_mode) if is_file else S_ISDIR(status.st_mode)
                if is_of_kind and is_of_user(status):
                    yield max(status.st_atime, status.st_mtime), entry.name, is_file, status.st_size
