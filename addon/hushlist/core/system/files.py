"""The user's private folders, files that are replaced as a whole, and files that are read up to a bound.

The platform's rules say where the folders are. They may not exist yet. All bounds of files are here.

Spec: XDG Base Directory Specification
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from errno import EAGAIN, EFBIG, EINVAL, EISDIR, ELOOP, ENOTDIR, EPERM
from io import BufferedReader
from pathlib import Path
from stat import S_IMODE, S_IRWXO, S_ISDIR, S_ISLNK, S_ISREG, S_IWGRP, S_IWOTH
from typing import Protocol

from hushlist.core.errors import HushlistError, Problem, SourceError
from hushlist.core.system.platform import is_trusted, keep_owner, others_can_write, replaces_open_files, try_lock

#: octets of a list that is read line by line, in chunks; ten million names take 300 million
LONGEST_LIST = 1 << 30
#: octets of a file that is read as a whole; some formats need 20 times the memory
LONGEST_WHOLE = 1 << 26
#: octets of a YAML file; many short texts need 60 times the memory
LONGEST_DOCUMENT = 1 << 24

PRIVATE_FILE = 0o600
#: seconds that who edits a file waits for others who do, and between two looks
_EDITING, _LOOK = 5.0, 0.02
#: a file's identity: modification time in ns, size in octets, status time in ns, inode; ``None`` if there is no such
#: file
Fingerprint = tuple[int, int, int, int] | None
#: never inherited by a started program, and never opened through a link, which an attacker may have made
SAFELY = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def reason_of(error: Exception) -> str:
    """Why a file cannot be used, for people; where a permission is missing, also who needs it."""
    why = getattr(error, "strerror", None) or str(error)
    if isinstance(error, FileNotFoundError | NotADirectoryError) and isinstance(error.filename, str):
        path = Path(error.filename)
        return fault_of_folder(path if isinstance(error, NotADirectoryError) else path.parent) or why
    if not isinstance(error, PermissionError):
        return why
    from getpass import getuser

    try:
        user = f"the user {getuser()}"
    except (KeyError, OSError, ImportError):  # in a container the user may have no name
        user = "the user of this process"
    return f"{why}: {user} has to be able to use it, and to enter the folders above it"


def fault_of_folder(folder: Path) -> str:
    """Why nothing can be in a folder: the first of those above it, or itself, that is not there; else nothing."""
    for parent in (*reversed(folder.parents), folder):
        if not parent.is_dir():
            return f"{parent} is no folder" if os.path.lexists(parent) else f"there is no folder {parent}"
    return ""


@contextmanager
def source_errors(path: Path | str, what: str) -> Iterator[None]:
    """What is raised inside becomes a ``SourceError``, whose problem is with ``what`` of the file."""
    try:
        yield
    except SourceError:
        raise
    except (OSError, ValueError, HushlistError) as error:  # ValueError: no file can have that name
        raise SourceError([Problem(str(path), 0, what, reason_of(error))]) from error


def cache_folder() -> Path:
    """The folder for files that can be made again; ``RuntimeError`` if the user has no home."""
    return _folder("XDG_CACHE_HOME", ".cache", "Caches")


def state_folder() -> Path:
    """The folder for files that must stay: overrides, the decision log; ``RuntimeError`` if the user has no home."""
    return _folder("XDG_STATE_HOME", ".local/state", "Application Support")


def config_folder() -> Path:
    """The folder for files that people write: the policy; ``RuntimeError`` if the user has no home."""
    return _folder("XDG_CONFIG_HOME", ".config", "Application Support")


def make_private(folder: Path) -> None:
    """Make a folder and its missing parents, private to the user whatever the umask; ``OSError`` if it cannot be made.

    A folder that exists keeps its permissions.

    Spec: XDG Base Directory Specification, "Referencing this specification": with permission 0700
    """
    if folder.is_dir():  # as mostly
        return
    for missing in reversed([folder, *folder.parents]):
        if not missing.is_dir():
            with suppress(FileExistsError):  # another process made it; if it is not a folder, the next step fails
                missing.mkdir(mode=0o700)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR), str(folder)) from None


def check_private(folder: Path) -> None:
    """Check that no other user can write to a folder, if it exists; ``OSError`` if the folder cannot be trusted."""
    try:
        status = folder.lstat()
    except OSError:
        return  # it does not exist yet; any other fault shows when it is made
    check_status(status, folder)


def check_status(status: os.stat_result, folder: Path) -> None:
    """Check that no other user can write to a folder, by what ``stat`` tells of it; ``OSError`` if they can."""
    if S_ISLNK(status.st_mode):
        raise OSError(ELOOP, "it is a link, which is not followed", str(folder))
    if not is_trusted(status):
        raise PermissionError(EPERM, "it is another user's", str(folder))
    if others_can_write(status):
        raise PermissionError(EPERM, "other users can write there", str(folder))


def check_closed(folder: Path) -> None:
    """Check that not every user can write to a folder, where a group may; ``PermissionError`` if they can."""
    if others_can_write(folder.stat(), S_IWOTH):
        raise PermissionError(
            EPERM, "every user of this machine can write there: take that away (chmod o-w)", str(folder)
        )


def _folder(variable: str, default: str, in_library: str) -> Path:
    """The folder by the XDG variable and its default, or by the name in macOS's library."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / in_library
    else:
        # "All paths set in these environment variables must be absolute. ... consider the path invalid and ignore it."
        value = os.environ.get(variable, "")
        base = value if value.startswith("/") else Path.home() / default
    return Path(base) / "hushlist"


def fingerprint(path: Path) -> Fingerprint:
    """A value that changes when the file does; also where it keeps its length and is given its old time."""
    try:
        stat = path.stat()
    except (OSError, ValueError):  # ValueError: the name is not valid for a file
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ctime_ns, stat.st_ino


def fingerprints(paths: Iterable[Path]) -> dict[Path, Fingerprint]:
    """The present ``fingerprint`` of each file."""
    return {path: fingerprint(path) for path in paths}


def source_files(folder: Path | str) -> Iterator[os.DirEntry[str]]:
    """The files of Python's in a folder and in those below it; ``OSError`` if one of these cannot be read."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry
            elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                yield from source_files(entry.path)


def replace_file(path: Path, octets: bytes, *, is_private: bool = False) -> None:
    """Replace a file's content atomically; its owner and permissions stay. A file that is not there is made.

    ``is_private``: it becomes the present user's, and only they can read it.
    """
    before = path.stat() if path.exists() and not is_private else None
    new = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(FileNotFoundError):  # of a process of the same number that was killed
        new.unlink()
    try:
        _write_new(new, octets, PRIVATE_FILE if before is not None or is_private else 0o666)
        if before is not None:
            keep_owner(new, before)
            new.chmod(S_IMODE(before.st_mode))
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def edit_file(path: Path, longest: int, edit: Callable[[bytes], bytes]) -> bool:
    """Replace a file's octets by what ``edit`` makes of them; whether that differs.

    Who edits it so in another process or thread waits. What somebody else has saved meanwhile, as an editor does, is
    edited anew. ``OSError`` if the file cannot be read or replaced, or others are at it for too long.
    """
    path, end = path.resolve(), time.monotonic() + _EDITING
    while True:
        with open_regular(path, longest) as file:
            status, is_free = os.fstat(file.fileno()), True
            if not replaces_open_files():
                file.close()
            else:
                with suppress(OSError):  # some network file systems have no locks
                    is_free = try_lock(file.fileno())
            if is_free:
                before = read_regular(path, longest)
                edited = edit(before)
                if edited == before:
                    return False
                if os.path.samestat(status, path.stat()) and read_regular(path, longest) == before:
                    replace_file(path, edited)
                    return True
        if time.monotonic() > end:
            raise BlockingIOError(EAGAIN, "others change it again and again", str(path))
        time.sleep(_LOOK)


def write_private(path: Path, octets: bytes) -> None:
    """Write a new file that only its owner can read; ``OSError`` if there is one already."""
    _write_new(path, octets, PRIVATE_FILE)


def _write_new(path: Path, octets: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, mode), "wb") as file:
        file.write(octets)
        file.flush()
        os.fsync(file.fileno())


def lock_file(path: Path, flags: int = os.O_CREAT) -> int | None:
    """Open a file, and lock it until the descriptor is closed or the process ends.

    ``None``: another process has it, or had it and has removed it. ``OSError``: it cannot be opened or locked.
    """
    descriptor = os.open(path, os.O_RDWR | flags | SAFELY, PRIVATE_FILE)
    try:
        if try_lock(descriptor) and os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except FileNotFoundError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


@contextmanager
def locked(path: Path, patience: float) -> Iterator[None]:
    """Hold a file's lock, which ends with the process, too.

    Raises:
        BlockingIOError: another process holds it for longer than ``patience`` seconds.
        OSError: the file cannot be opened or locked.
    """
    end = time.monotonic() + patience
    while (descriptor := lock_file(path)) is None:
        if time.monotonic() >= end:
            raise BlockingIOError("another process is at it")
        time.sleep(_LOOK)
    try:
        yield
    finally:
        os.close(descriptor)


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


# With O_NONBLOCK, opening a pipe without a writer does not block.
_FLAGS = sum(getattr(os, name, 0) for name in ("O_RDONLY", "O_BINARY", "O_CLOEXEC", "O_NOCTTY", "O_NONBLOCK"))


def open_regular(path: Path, longest: int | None = None) -> BufferedReader:
    """Open a regular file for reading. Pipes and devices are refused, since their readers may wait for ever.

    Raises:
        OSError: it is not a regular file, cannot be opened, or is longer than ``longest`` octets.
        ValueError: no file can have that name.
    """
    _check_mode(path.stat().st_mode, path)  # opening a device may have effects
    file = open(path, "rb", opener=_opener)  # noqa: SIM115  a path takes no opener; it is handed on
    try:
        status = os.fstat(file.fileno())
        _check_mode(status.st_mode, path)  # the path may lead to another file by now
        if longest is not None:
            check_length(status.st_size, longest, path)
    except BaseException:
        file.close()
        raise
    return file


def sha256_of(path: Path) -> str:
    """The SHA-256 of what is in a regular file, in hexadecimal; raises as ``open_regular`` does."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _opener(path: str, _: int) -> int:
    return os.open(path, _FLAGS)


def _check_mode(mode: int, path: Path) -> None:
    if S_ISDIR(mode):
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR), str(path))
    if not S_ISREG(mode):
        raise OSError(EINVAL, "it is no regular file", str(path))


def check_length(length: int, longest: int, path: Path) -> None:
    """Check a length in octets against a bound; ``OSError`` if it is longer."""
    if length > longest:
        raise OSError(EFBIG, f"it is longer than {longest:,} octets, the most that are read", str(path))


def read_regular(path: Path, longest: int) -> bytes:
    """A file's octets; raises as ``open_regular`` does."""
    with open_regular(path, longest) as file:
        return read_whole(file, longest, path)


def read_private(path: Path, longest: int) -> bytes:
    """A whole secret; ``OSError`` also if others than its owner, and a group that may read it, can use it."""
    with open_regular(path, longest) as file:
        if others_can_write(os.fstat(file.fileno()), S_IRWXO | S_IWGRP):
            raise OSError(EINVAL, "it is secret, and others can use it: take that away (chmod o=,g-w)", str(path))
        return read_whole(file, longest, path)


def read_whole(file: _Readable, longest: int, path: Path) -> bytes:
    """The octets of an open stream; ``OSError``, which names ``path``, if it has more than ``longest``."""
    octets = file.read(longest + 1)
    check_length(len(octets), longest, path)
    return octets
