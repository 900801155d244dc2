"""A body as it was before its content coding, or its first octets, within bounds.

Spec: RFC 9110, 8.4
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from typing import Any, TypeAlias

import brotli  # type: ignore[import-untyped]
import zstandard

#: octets of a compressed body that are handed to a decoder that has no bound of its own
_STEP = 16
#: octets that are unpacked at once; and what a body may unpack to: so much, and so many times its length
_PIECE, _MOST_OF_SHORT, _MOST_TIMES = 1 << 16, 1 << 24, 100


def _inflate(octets: bytes, most: int) -> bytes:
    """``gzip`` of one member or many, and ``deflate``, which some servers send without its head."""
    decoded = b""
    try:
        while octets and len(decoded) < most:
            decoder = zlib.decompressobj(47)
            decoded += decoder.decompress(octets, most - len(decoded))
            octets = decoder.unused_data
    except zlib.error:
        return decoded or zlib.decompressobj(-15).decompress(octets, most)
    return decoded


def _unbrotli(octets: bytes, most: int) -> bytes:
    decoder, decoded = brotli.Decompressor(), b""
    for at in range(0, len(octets), _STEP):
        decoded += decoder.process(octets[at : at + _STEP])
        if len(decoded) >= most:
            break
    return decoded[:most]


def _unzstd(octets: bytes, most: int) -> bytes:
    decoder = zstandard.ZstdDecompressor(max_window_size=1 << 23)
    with decoder.stream_reader(BytesIO(octets), read_across_frames=True) as reader:
        decoded: bytes = reader.read(most)
        return decoded


_DECODERS: Mapping[str, Callable[[bytes, int], bytes]] = {
    **dict.fromkeys(("gzip", "x-gzip", "deflate"), _inflate),
    "br": _unbrotli,
    "zstd": _unzstd,
}


def _codings(codings: str) -> list[str]:
    return [coding for each in codings.lower().split(",") if (coding := each.strip()) not in ("", "identity")]


def beginning_of(octets: bytes, codings: str, most: int) -> bytes | None:
    """The first octets of a body, at most so many; ``None`` if it has another coding, or several, or is not as it says.

    >>> beginning_of(b"as it is", "identity", 5), beginning_of(b"", "compress", 5)
    (b'as it', None)
    """
    named = _codings(codings)
    if not named:
        return octets[:most]
    decode = _DECODERS.get(named[0]) if len(named) == 1 else None
    if decode is None:
        return None
    try:
        return decode(octets, most)
    except (zlib.error, brotli.error, zstandard.ZstdError):
        return None


class CodingError(ValueError):
    """A body has a coding that is not read, or is not as it says."""


class ExcessError(CodingError):
    """A body unpacks to too much."""


class Decoder:
    r"""Undoes the content coding of a body as it comes, without its end being known.

    >>> [*Decoder("gzip").decode(bytes.fromhex("1f8b0800000000000203cb48cdc9c957c84090008088f9e511000000"))]
    [b'hello hello hello']
    """

    def __init__(self, codings: str) -> None:
        """Raises ``CodingError`` if it is none that is read; ``codings`` as ``beginning_of`` takes them."""
        named = _codings(codings)
        if len(named) > 1 or (named and named[0] not in _STREAMS):
            raise CodingError(f"its coding is {', '.join(named)}")
        self._decode = _STREAMS[named[0]]() if named else None
        self._came = self._gave = 0

    def decode(self, octets: bytes) -> Iterator[bytes]:
        """The next octets as they were; raises ``CodingError``."""
        if self._decode is None:
            if octets:
                yield octets
            return
        self._came += len(octets)
        try:
            for decoded in self._decode(octets):
                self._gave += len(decoded)
                if self._gave > _MOST_OF_SHORT + _MOST_TIMES * self._came:
                    raise ExcessError("it unpacks to too much")
                if decoded:
                    yield decoded
        except (zlib.error, brotli.error, zstandard.ZstdError) as error:
            raise CodingError("its coding is not as it says") from error


_Decode: TypeAlias = Callable[[bytes], Iterator[bytes]]


def _inflating() -> _Decode:
    decoder, came, tries_raw = zlib.decompressobj(47), b"", True

    def decode(octets: bytes) -> Iterator[bytes]:
        nonlocal decoder, came, tries_raw
        while octets:
            try:
                decoded = decoder.decompress(octets, _PIECE)
            except zlib.error:
                if not tries_raw or len(came) > 1:
                    raise
                decoder, octets = zlib.decompressobj(-15), came + octets
                tries_raw = False
                continue
            came, tries_raw = came + octets[:2], tries_raw and not decoded
            yield decoded
            octets = decoder.unconsumed_tail
            if decoder.eof:
                octets, decoder = decoder.unused_data, zlib.decompressobj(47)

    return decode


def _unbrotling() -> _Decode:
    decoder = brotli.Decompressor()

    def decode(octets: bytes) -> Iterator[bytes]:
        return (decoder.process(octets[at : at + _STEP]) for at in range(0, len(octets), _STEP))

    return decode


def _unzstding() -> _Decode:
    def begun() -> Any:
        return zstandard.ZstdDecompressor(max_window_size=1 << 23).decompressobj()

    decoder = begun()

    def decode(octets: bytes) -> Iterator[bytes]:
        nonlocal decoder
        for at in range(0, len(octets), _STEP):
            piece = octets[at : at + _STEP]
            while piece:
                yield decoder.decompress(piece)
                piece = decoder.unused_data if decoder.eof else b""
                decoder = begun() if decoder.eof else decoder

    return decode


_STREAMS: Mapping[str, Callable[[], _Decode]] = {
    **dict.fromkeys(("gzip", "x-gzip", "deflate"), _inflating),
    "br": _unbrotling,
    "zstd": _unzstding,
}
