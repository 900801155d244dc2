"""The user's private folders, files that are replaced as a whole, and files that are read up to a bound.

The platform's rules say where the folders are. They may not exist yet. All bounds of files are here.

Spec: XDG Base Directory Specification
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from errno import EFBIG, EINVAL, EISDIR
from io import BufferedReader
from pathlib import Path
from stat import S_IMODE, S_ISDIR, S_ISREG
from tempfile import NamedTemporaryFile
from typing import Protocol

#: octets of a list that is read line by line, in chunks; ten million names take 300 million
LONGEST_LIST = 1 << 30
#: octets of a file that is read as a whole; some formats need 20 times the memory
LONGEST_WHOLE = 1 << 26
#: octets of a YAML file; many short texts need 60 times the memory
LONGEST_DOCUMENT = 1 << 24


def cache_folder() -> Path:
    """The folder for files that can be made again; ``RuntimeError`` if the user has no home."""
    return _folder("XDG_CACHE_HOME", ".cache", "Caches")


def state_folder() -> Path:
    """The folder for files that must stay: overrides, the decision log; ``RuntimeError`` if the user has no home."""
    return _folder("XDG_STATE_HOME", ".local/state", "Application Support")


def make_private(folder: Path) -> None:
    """Make a folder and its missing parents, private to the user whatever the umask; ``OSError`` if it cannot be made.

    A folder that exists keeps its permissions.

    Spec: XDG Base Directory Specification, "Referencing this specification": with permission 0700
    """
    for missing in reversed([folder, *folder.parents]):
        if not missing.is_dir():
            with suppress(FileExistsError):  # another process made it; if it is not a folder, the next step fails
                missing.mkdir(mode=0o700)
    folder.mkdir(mode=0o700, exist_ok=True)


def _folder(variable: str, default: str, in_library: str) -> Path:
    """The folder by the XDG variable and its default, or by the name in macOS's library."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / in_library
    else:
        # "All paths set in these environment variables must be absolute. ... consider the path invalid and ignore it."
        given = os.environ.get(variable, "")
        base = given if given.startswith("/") else Path.home() / default
    return Path(base) / "hushlist"


def replace_file(path: Path, octets: bytes) -> None:
    """Replace a file's content atomically; its owner and permissions stay."""
    before = path.stat()
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        file.write(octets)
        file.flush()
        os.fsync(file.fileno())
    new = Path(file.name)
    try:
        if sys.platform != "win32":
            os.chown(new, before.st_uid, before.st_gid)
        new.chmod(S_IMODE(before.st_mode))
        new.replace(path)
    except OSError:
        new.unlink()
        raise


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
    """A file's octets.

    Raises:
        OSError: it cannot be read, or is longer than ``longest`` octets.
        ValueError: no file can have that name.
    """
    with open_regular(path, longest) as file:
        return read_whole(file, longest, path)


def read_whole(file: _Readable, longest: int, path: Path) -> bytes:
    """The octets of an open stream; ``OSError``, which names ``path``, if it has more than ``longest``."""
    octets = file.read(longest + 1)
    check_length(len(octets), longest, path)
    return octets
