"""What systems have under different names or not at all: locks, owners, reads at a place, processes that are started.

Each function holds on Linux, macOS and Windows; what a system lacks has another way here, or for sockets in
``proxy/local_sockets``, and nowhere else.

Spec: the Python library's documentation of ``os``, ``fcntl``, ``msvcrt`` and ``signal``, "Availability"
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from stat import S_IWGRP, S_IWOTH
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # they take longer to import than a command may need
    import signal
    import subprocess

_reading = threading.Lock()


def is_trusted(status: os.stat_result) -> bool:
    """Whether the present user or root owns a file; Windows, where permissions are not in ``stat``, has no answer."""
    return sys.platform == "win32" or status.st_uid in (os.geteuid(), 0)


def is_of_user(status: os.stat_result) -> bool:
    """Whether the present user owns a file; on Windows, no ``stat`` says."""
    return sys.platform == "win32" or status.st_uid == os.geteuid()


def others_can_write(status: os.stat_result, others: int = S_IWGRP | S_IWOTH) -> bool:
    """Whether any of ``others``, bits of a mode, can write to a file; on Windows, no ``stat`` says."""
    return sys.platform != "win32" and bool(status.st_mode & others)


def is_root() -> bool:
    """Whether this process may do everything; on Windows, no process says."""
    return sys.platform != "win32" and os.geteuid() == 0


def keep_owner(path: os.PathLike[str], before: os.stat_result) -> None:
    """Give a new file the owner and group of the file that it replaces; a new file of Windows has its folder's."""
    if sys.platform != "win32":
        os.chown(path, before.st_uid, before.st_gid)


def replaces_open_files() -> bool:
    """Whether a file that is open can be replaced or removed."""
    return sys.platform != "win32"


def try_lock(descriptor: int) -> bool:
    """Lock an open file until it is closed; whether no other process has it. ``OSError``: it cannot be locked."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # on Windows, the latter
        return False
    return True


def read_at(descriptor: int, length: int, offset: int) -> bytes:
    """Octets of an open file from a place on, fewer at its end; on Windows, one thread after the other."""
    if sys.platform == "win32":
        with _reading:
            os.lseek(descriptor, offset, os.SEEK_SET)
            return os.read(descriptor, length)
    else:
        return os.pread(descriptor, length, offset)


def open_folder(path: os.PathLike[str]) -> int | None:
    """An open folder, to which names can be relative, so that its path may change; ``None``: there are none here.

    A link is not followed: ``OSError``.
    """
    if sys.platform == "win32":
        return None
    else:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def end_with_children(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that has a session of its own, with what it has started; on Windows, only the process."""
    with suppress(ProcessLookupError):
        if sys.platform == "win32":
            process.kill()
        else:
            from signal import SIGKILL

            os.killpg(process.pid, SIGKILL)


def number_of_cores() -> int:
    """How many cores this process may use, or else how many there are."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    else:
        return os.cpu_count() or 1


def most_open_files() -> int:
    """How many files this process may have open, sockets included; 0 on Windows, where sockets are no files."""
    if sys.platform == "win32":
        return 0
    else:
        from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit

        allowed = getrlimit(RLIMIT_NOFILE)[0]
        return sys.maxsize if allowed == RLIM_INFINITY else allowed


def peak_octets() -> int | None:
    """The most octets of this process that were in memory; ``None`` where nothing says.

    Spec: getrusage(2): kilobytes on Linux, octets on macOS
    """
    if sys.platform == "win32":
        return None
    else:
        from resource import RUSAGE_SELF, getrusage

        return getrusage(RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def stop_signals() -> tuple[signal.Signals, ...]:
    """The signals by which a service manager or a terminal that closes ends a program."""
    import signal

    if sys.platform == "win32":
        return (signal.SIGTERM,)
    else:
        return signal.SIGTERM, signal.SIGHUP
