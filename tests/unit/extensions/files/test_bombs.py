"""Short files that unpack to very much: the memory and the time that they take, and that something is said of each."""

from __future__ import annotations

import asyncio
import gzip
import io
import struct
import time
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard

from hushlist.extensions.files.content_coding import CodingError
from hushlist.extensions.files.file_hashes import FileHasher
from hushlist.extensions.files.file_scans import decoded
from hushlist.extensions.files.held_upload import Account
from unit.rows import each_row

#: octets that a bomb unpacks to, of which a scanner gets the largest file, and what all else may take
_UNPACKED, _LARGEST, _MOST_MEMORY = 1 << 26, 1 << 25, 1 << 26
#: seconds of a processor that any look may take
_MOST_TIME = 30
_PIECE, _STEP = bytes(1 << 20), 1 << 14
_BOMB, _DOUBLED, _MANY = "it unpacks to too much", "its coding is gzip, gzip", "it has too many members"


def _packed(compressor: zlib._Compress | brotli.Compressor, name: str = "compress") -> bytes:
    pack: Callable[[bytes], bytes] = getattr(compressor, name)
    return b"".join(pack(_PIECE) for _ in range(_UNPACKED // len(_PIECE))) + (
        compressor.flush() if name == "compress" else compressor.finish()
    )


def _zip(name: str, octets: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr(name, octets)
    return file.getvalue()


def _large_zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made, made.open("0.bin", "w", force_zip64=True) as member:
        for _ in range(_UNPACKED // len(_PIECE)):
            member.write(_PIECE)
    return file.getvalue()


def _nested_zip() -> bytes:
    octets = _large_zip()
    for depth in range(12):
        octets = _zip(f"{depth}.zip", octets)
    return octets


def _overlapping_zip() -> bytes:
    """Sixty thousand members in the index that are all of the same octets."""
    body = _zip("0.bin", bytes(1 << 16))
    at = body.rindex(b"PK\1\2")
    entry = body[at : body.rindex(b"PK\5\6")]
    index = b"".join(entry.replace(b"0.bin", b"%05d" % number) for number in range(60_000))
    return body[:at] + index + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 60_000, 60_000, len(index), at, 0)


def _gzip() -> bytes:
    return _packed(zlib.compressobj(9, wbits=31))


@pytest.mark.slow
@each_row(
    ("bomb", "codings", "scanned", "unseen"),
    [
        (_gzip, "gzip", _BOMB, _BOMB),
        (lambda: gzip.compress(_gzip()), "gzip", "", ""),
        (lambda: gzip.compress(_gzip()), "gzip, gzip", _DOUBLED, _DOUBLED),
        (lambda: _packed(zlib.compressobj(9)), "deflate", _BOMB, _BOMB),
        (lambda: _packed(brotli.Compressor(quality=1), "process"), "br", _BOMB, _BOMB),
        (lambda: _packed(zstandard.ZstdCompressor().compressobj()), "zstd", _BOMB, _BOMB),
        (lambda: gzip.compress(b"") * 5000, "gzip", _MANY, _MANY),
        (_large_zip, "", "", ""),
        (_nested_zip, "", "", ""),
        (_overlapping_zip, "", "", _MANY),
        (lambda: gzip.compress(_overlapping_zip()), "gzip", "", _MANY),
    ],
)
@pytest.mark.thorough
def test_a_bomb_takes_no_more_than_its_bounds_and_something_is_said_of_it(
    bomb: Callable[[], bytes], codings: str, scanned: str, unseen: str
) -> None:
    """``scanned``: why it is not scanned; ``unseen``: why what is in it is not seen."""
    octets = bomb()
    tracemalloc.start()
    before = time.process_time()
    assert asyncio.run(_why_not_scanned(octets, codings)) == scanned
    hasher = FileHasher(codings, ("sha256",), sees_members=True)
    for at in range(0, len(octets), _STEP):
        hasher.take(octets[at : at + _STEP])
    assert (hasher.why_unseen or hasher.members().why_unseen) == unseen
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (time.process_time() - before < _MOST_TIME, peak < _MOST_MEMORY) == (True, True)


async def _why_not_scanned(octets: bytes, codings: str) -> str:
    try:
        plain = await decoded(octets, codings, _LARGEST, Account("a"))
    except CodingError as error:
        return str(error)
    return "it is too large" if plain is None else ""
