"""Input files: opened only if they are regular, and read only up to a bound. All bounds are here."""

from __future__ import annotations

import os
from errno import EFBIG, EINVAL, EISDIR
from io import BufferedReader
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Protocol

#: octets of a list that is read line by line, in chunks; ten million names take 300 million
LONGEST_LIST = 1 << 30
#: octets of a file that is read as a whole; some formats need 20 times the memory
LONGEST_WHOLE = 1 << 26
#: octets of a YAML file; many short texts need 60 times the memory
LONGEST_DOCUMENT = 1 << 24


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
    """Check a length in octets against a bound.

    Raises:
        OSError: it is longer.
    """
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
    """The octets of an open stream; errors name ``path``.

    Raises:
        OSError: it cannot be read, or is longer than ``longest`` octets.
    """
    octets = file.read(longest + 1)
    check_length(len(octets), longest, path)
    return octets
