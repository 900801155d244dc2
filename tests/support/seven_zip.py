"""7z archives for tests, made octet by octet: their members are not packed, and hold nothing of interest.

Source: 7zFormat.txt of the LZMA SDK
"""

from __future__ import annotations

import base64
import lzma
import struct
import zlib

COPY, AES = b"\x01\0", b"\x24\x06\xf1\x07\x01\0"
_LZMA = {"id": lzma.FILTER_LZMA1, "dict_size": 1 << 16}
_LZMA2 = {"id": lzma.FILTER_LZMA2, "dict_size": 1 << 16}
#: how an index is packed: the coder as it is named, and its filter
LZMA = (b"\x23\3\1\1\5\x5d\0\0\1\0", _LZMA)
#: one that says that it needs 4 GiB
GREEDY_LZMA = (b"\x23\3\1\1\5\x5d\xff\xff\xff\xff", _LZMA)
LZMA2 = (b"\x21\x21\1\x18", _LZMA2)
#: archives of ten files and a program, as libarchive has written them
REAL = tuple(
    map(
        base64.b64decode,
        (
            "N3q8ryccAAOkD+iSeAAAAAAAAAAhAAAAAAAAAFZmVsMAJpang5B7////+EAAAAAAgTMHrg/Ox1yBCSqu1WJk20+km3rWOLSzdorYDMFsPWq0"
            "+7iKJ1aPg6ClxVgxtMvBu/J/kvzqTHyfMNR2oyDculXFDv8lXa9BRFHgE5UAGCl4f96TYbhEbNMw7XSSGv2v9D+f/7I5AAAXBg4BCWoABwsB"
            "AAEjAwEBBV0AAIAADIEjCgGx26pfAAA=",
            "N3q8ryccAANOgA17dgAAAAAAAAAbAAAAAAAAALR02PHgABMACF0AJpang4AAAAAA4AEcAF5dAACBMweuD87ysgwHyEN/QYibivQuD54JFflx"
            "Yh85ucHyBp9LiQJekPeamCKSXzNQqj7SMeoTaq39T34QC46VRYA4tN/JFyLiXbiOHtalESlILE+htLD3xi+kdiwAAAAAFwYQAQlmAAcLAQAB"
            "ISEBFgyBHQoBEKWUyAAA",
        ),
    )
)


def number(value: int) -> bytes:
    """As 7z has numbers: in one octet, or in eight more."""
    return bytes([value]) if value < 128 else b"\xff" + struct.pack("<Q", value)


def index(*names: str, coder: bytes = COPY, are_elsewhere: bool = False, solid: bool = False) -> bytes:
    """The index of members with names."""
    text = "".join(f"{name}\0" for name in names).encode("utf-16-le")
    listed = (b"\1" if are_elsewhere else b"\0") + text
    folder = b"\x07\x0b\1\0\1" + coder + b"\x0c" + number(1000) + b"\0"
    parts = b"\x08\x0d\2\x09" + number(500) + b"\x0a\1" + bytes(8) + b"\0" if solid else b""
    streams = b"\4\6\0\1\x09" + number(1000) + b"\0" + folder + parts + b"\0"
    files = b"\5" + number(len(names)) + b"\x19\2\0\0\x11" + number(len(listed)) + listed + b"\0"
    return b"\1" + streams + files + b"\0"


def archive(
    made: bytes, *packings: tuple[bytes, dict[str, int] | None], content: bytes = b"d" * 1000, behind: bytes = b""
) -> bytes:
    """An archive with an index, packed by one coder after another."""
    body = content
    for coder, steps in packings:
        packed = made if steps is None else lzma.compress(made, lzma.FORMAT_RAW, filters=[steps])
        place = b"\6" + number(len(body)) + b"\1\x09" + number(len(packed)) + b"\0"
        made = b"\x17" + place + b"\7\x0b\1\0\1" + coder + b"\x0c" + number(len(made)) + b"\0\0"
        body += packed
    start = struct.pack("<QQI", len(body), len(made), zlib.crc32(made))
    return b"7z\xbc\xaf\x27\x1c\0\4" + struct.pack("<I", zlib.crc32(start)) + start + body + made + behind
