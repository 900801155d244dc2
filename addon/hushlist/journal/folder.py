"""Where the log is, what its files are called, and the lock that its writers share; all of it private."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hushlist.policy.folders import make_private
from hushlist.policy.log import Settings

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

#: the file of lines that is written, the ones before, and the same records for questions
CURRENT = "decisions.jsonl"
OLDER = "decisions-*.jsonl*"
DATABASE = "decisions.sqlite"
_LOCK = "decisions.lock"

PRIVATE_FILE = 0o600
#: never inherited by a program that is started, never through a link that somebody laid
SAFELY = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
#: seconds for which the lock is waited, and between two tries
_PATIENCE = 0.5
_PAUSE = 0.01


def log_folder(settings: Settings, state: Path) -> Path:
    """The folder of the log."""
    return settings.folder or state


def make_folder(folder: Path) -> None:
    """The folder, made where it was missing; one that is there keeps its permissions.

    Raises:
        OSError: it cannot be made.
    """
    make_private(folder)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Alone among all processes that write into the folder; whoever dies lets go.

    Raises:
        OSError: it cannot be locked, or somebody else has it for too long.
    """
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | SAFELY, PRIVATE_FILE)
    try:
        end = time.monotonic() + _PATIENCE
        while not _try_lock(descriptor):
            if time.monotonic() > end:
                raise TimeoutError(f"{folder / _LOCK}: another process does not let go of it")
            time.sleep(_PAUSE)
        yield
    finally:
        os.close(descriptor)


if sys.platform == "win32":

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
