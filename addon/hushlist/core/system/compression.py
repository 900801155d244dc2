"""Sources that are compressed: what can be unpacked is read, whatever is wrong with the rest.

>>> import gzip
>>> stream = decompressed(io.BufferedReader(io.BytesIO(gzip.compress(b"http://h.example/")[:-1])))
>>> stream.read(), fault_of(stream)
(b'http://h.example/', 'its compression is broken: it ends too early')
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, cast

import zstandard

#: octets that can be peeked at
HEAD = 1 << 16
#: octets of what is packed that are read at a time; and that Zstandard gets, which makes 4 MiB of so many at most
_INPUT, _STEP = 1 << 16, 1 << 7
#: octets of memory that unpacking may take: four times what "xz -9" writes asks for, since a file says so itself
_MOST_MEMORY = 1 << 28

#: of octets, that can be peeked at
Stream: TypeAlias = "io.BufferedReader[Any]"


class _Unpack(Protocol):
    """What the decompressors of ``bz2`` and ``lzma`` are."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Gzip:
    """One that unpacks gzip. Spec: zlib manual, inflateInit2(): "add 16 to decode only the gzip format"."""

    def __init__(self) -> None:
        self._unpack = zlib.decompressobj(16 + zlib.MAX_WBITS)

    @property
    def eof(self) -> bool:
        return self._unpack.eof

    @property
    def needs_input(self) -> bool:
        return not self._unpack.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._unpack.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._unpack.decompress(self._unpack.unconsumed_tail + data, max_length)


class _Zstandard:
    """One that unpacks Zstandard; its own reader takes an end that is missing for a good one."""

    def __init__(self) -> None:
        self._unpack = zstandard.ZstdDecompressor().decompressobj()
        self._packed, self._plain = b"", io.BytesIO()
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._unpack.eof and self.needs_input

    @property
    def unused_data(self) -> bytes:
        return self._unpack.unused_data + self._packed

    def decompress(self, data: bytes, max_length: int) -> bytes:
        self._packed += data
        plain = self._plain.read(max_length)
        if not plain and self._packed and not self._unpack.eof:
            piece, self._packed = self._packed[:_STEP], self._packed[_STEP:]
            self._plain = io.BytesIO(self._unpack.decompress(piece))
            plain = self._plain.read(max_length)
        self.needs_input = not plain and (self._unpack.eof or not self._packed)
        return plain


_COMPRESSIONS: dict[bytes, Callable[[], _Unpack]] = {
    b"\x1f\x8b": _Gzip,
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\0": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, _MOST_MEMORY),
    b"\x28\xb5\x2f\xfd": _Zstandard,
}


class _Unpacked(io.RawIOBase):
    """What is packed in a stream; it ends where it cannot be unpacked any more, and says why."""

    def __init__(self, stream: Stream, make: Callable[[], _Unpack]) -> None:
        self._stream, self._make = stream, make
        self._unpack = make()
        self._left = b""
        self.fault: str | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        """As many octets as there is room for, but at the end."""
        view = memoryview(cast(bytearray, buffer))
        done = 0
        try:
            while self.fault is None and done < len(view) and (octets := self._read(len(view) - done)):
                view[done : done + len(octets)] = octets
                done += len(octets)
        except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, zstandard.ZstdError) as error:
            self.fault = f"its compression is broken: {error}"
        return done

    def _read(self, size: int) -> bytes:
        """At most so many octets; none at the end."""
        while True:
            if self._unpack.eof and not self._goes_on():
                return b""
            packed = b""
            is_hungry = self._unpack.needs_input
            if is_hungry:
                packed, self._left = self._left or self._stream.read(_INPUT), b""
            plain = self._unpack.decompress(packed, size)
            if self._unpack.eof:
                self._left = self._unpack.unused_data
            if plain:
                return plain
            if is_hungry and not packed and not self._unpack.eof:
                raise EOFError("it ends too early")

    def _goes_on(self) -> bool:
        """Whether more is packed behind it, with or without padding between. Spec: The .xz File Format, 2."""
        self._left = self._left.lstrip(b"\0")
        while not self._left:
            more = self._stream.read(_INPUT)
            if not more:
                return False
            self._left = more.lstrip(b"\0")
        self._unpack = self._make()
        return True


def is_compressed(head: bytes) -> bool:
    """Whether a file begins as one does that is compressed."""
    return head.startswith(tuple(_COMPRESSIONS))


def decompressed(stream: Stream) -> Stream:
    """The stream without its compression, if it has one; its head can be peeked at.

    Raises:
        OSError: it is compressed in a way that nothing here knows.
    """
    head = stream.peek(8)
    for magic, make in _COMPRESSIONS.items():
        if head.startswith(magic):
            return io.BufferedReader(cast(io.RawIOBase, _Unpacked(stream, make)), HEAD)
    return stream


def fault_of(stream: Stream) -> str | None:
    """Why a stream that was read to its end has no more; ``None`` where that is its end."""
    raw = stream.raw
    return raw.fault if isinstance(raw, _Unpacked) else None
