"""Lists that are packed: by gzip, Zstandard, xz or bzip2, or as the one file of a ZIP archive.

What is unpacked is bounded, in octets and beside what is packed, and read as a whole.
"""

from __future__ import annotations

import io
from errno import EFBIG, EINVAL
from pathlib import Path, PurePath
from typing import BinaryIO

from hushlist.core.system.files import LONGEST_WHOLE, open_regular

_ZIP = b"PK\x03\x04"
_BEGINNINGS = (_ZIP, b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"BZh")
#: endings of names
_ENDINGS = (".gz", ".zst", ".xz", ".bz2", ".zip")
#: how many times longer than packed a list may be: lists of names shrink to a third or a tenth; and octets that any may
#: have
_MOST_TIMES, _FEW = 200, 1 << 20
_STEP = 1 << 20


def unpacked_name(path: PurePath) -> PurePath:
    """A file's name without what says that it is packed.

    >>> unpacked_name(PurePath("ads.hosts.gz")), unpacked_name(PurePath("ads.hosts"))
    (PurePosixPath('ads.hosts'), PurePosixPath('ads.hosts'))
    """
    return path.with_suffix("") if path.suffix.lower() in _ENDINGS else path


def open_list(path: Path, longest: int | None = None) -> BinaryIO:
    """A list's octets, without its packing.

    Raises:
        OSError: it cannot be read or unpacked, or is too long.
        ValueError: no file can have that name.
    """
    file = open_regular(path, longest)
    try:
        octets = unpacked(file, path)
    except BaseException:
        file.close()
        raise
    if octets is None:
        return file
    file.close()
    return io.BytesIO(octets)


def unpacked(file: io.BufferedReader, path: Path) -> bytes | None:
    """What is packed in a file that is at its beginning, where it stays; ``None`` if nothing is.

    Raises:
        OSError: it cannot be unpacked, or is too long; names ``path``.
    """
    head = file.peek(8)
    if not head.startswith(_BEGINNINGS):
        return None
    from hushlist.core.system import compression  # few lists are packed

    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    most = min(LONGEST_WHOLE, max(_FEW, _MOST_TIMES * size))
    if head.startswith(_ZIP):
        octets = _of_archive(file, most, path)
    else:
        stream = compression.decompressed(file)
        octets = _read(stream, most, path)
        if fault := compression.fault_of(stream):
            raise OSError(EINVAL, fault, str(path))
    file.seek(0)
    return octets


def _read(stream: io.BufferedIOBase | io.RawIOBase, most: int, path: Path) -> bytes:
    unpacked = bytearray()
    while octets := stream.read(_STEP):
        unpacked += octets
        if len(unpacked) > most:
            raise OSError(EFBIG, f"it is packed, and longer than {most:,} octets, the most here", str(path))
    return bytes(unpacked)


def _of_archive(file: io.BufferedReader, most: int, path: Path) -> bytes:
    import zipfile
    import zlib

    try:
        with zipfile.ZipFile(file) as archive:
            members = [member_info for member_info in archive.infolist() if not member_info.is_dir()]
            if len(members) != 1:
                raise OSError(EINVAL, f"a list is the one file of an archive, and this has {len(members)}", str(path))
            with archive.open(members[0]) as member:
                return _read(member, most, path)  # type: ignore[arg-type]
    except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError, ValueError) as error:
        raise OSError(EINVAL, f"its archive cannot be unpacked: {error}", str(path)) from error
