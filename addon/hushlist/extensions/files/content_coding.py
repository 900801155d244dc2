"""A body as it was before its content coding, or its first octets, within bounds.

Spec: RFC 9110, 8.4
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import brotli  # type: ignore[import-untyped]
import zstandard

from hushlist.extensions.files.content_kinds import LONGEST_LOOK, kinds_of

#: octets that are handed at once to a decoder without a bound: a block of Brotli has at most 16 MiB, one of Zstandard
#: 128 KiB; and to one that leaves what it has not read, which is copied
_BROTLI_STEP, _ZSTD_STEP, _ZLIB_STEP = 16, 1 << 8, 1 << 14
#: octets that are unpacked at once; and what a body may unpack to: so much, and so many times its length
_PIECE, _MOST_OF_SHORT, _MOST_TIMES = 1 << 16, 1 << 24, 100
#: members of gzip, or frames of Zstandard, one behind another
_MOST_MEMBERS = 1000
#: octets of a coded body in which its beginning is looked for
LONGEST_CODED = 1 << 14


def _codings(codings: str) -> list[str]:
    return [coding for each in codings.lower().split(",") if (coding := each.strip()) not in ("", "identity")]


class CodingError(ValueError):
    """A body has a coding that is not read, or is not as it says."""


class UnseenError(CodingError):
    """Some client may get of a body what the filter does not see: it unpacks to too much, or clients read it
    in different ways."""


def beginning_of(octets: bytes, codings: str, most: int) -> bytes | None:
    """The first octets of a body, at most so many; ``None`` if its coding is not read, or it is not as it says.

    >>> beginning_of(b"as it is", "identity", 5), beginning_of(b"", "compress", 5)
    (b'as it', None)

    Raises:
        UnseenError: see there; also if they may be behind ``LONGEST_CODED`` octets.
    """
    decoded, coded = b"", octets[:LONGEST_CODED] if _codings(codings) else octets[:most]
    try:
        for piece in Decoder(codings).decode(coded):
            decoded += piece
            if len(decoded) >= most:
                return decoded[:most]
    except UnseenError:
        raise
    except CodingError:
        return decoded or None
    if len(coded) < len(octets) and _codings(codings):
        raise UnseenError("its beginning has next to nothing in it")
    return decoded


def codings_of(named: Iterable[str]) -> str:
    """The codings of a body, but that of its transfer in chunks, with commas between them.

    Spec: RFC 9110, 8.4; RFC 9112, 7
    """
    codings = (coding.strip().lower() for each in named for coding in each.split(","))
    return ",".join(coding for coding in codings if coding not in ("", "chunked", "identity"))


def kinds_of_coded(octets: bytes, codings: str, *, is_whole: bool) -> tuple[frozenset[str], str]:
    """The kinds of a body, and why some client may get another.

    Where its coding cannot be read, some keep it as it is.
    """
    as_it_is = kinds_of(octets) | {"unknown"}
    try:
        beginning = beginning_of(octets, codings, LONGEST_LOOK)
    except UnseenError as error:
        return as_it_is, str(error)
    if beginning is None:
        return as_it_is, ""
    # where hardly anything is in the first octets of what is coded, the file is behind them
    if codings and not is_whole and len(beginning) < LONGEST_LOOK // 2:
        return as_it_is, "its beginning has next to nothing in it"
    return kinds_of(beginning), ""


class Decoder:
    r"""Undoes the content coding of a body as it comes, without its end being known.

    >>> [*Decoder("gzip").decode(bytes.fromhex("1f8b0800000000000203cb48cdc9c957c84090008088f9e511000000"))]
    [b'hello hello hello']
    """

    def __init__(self, codings: str) -> None:
        """Raises ``CodingError`` if it is none that is read; ``codings`` as ``beginning_of`` takes them."""
        named = _codings(codings)
        if len(named) > 1:
            raise UnseenError(f"its coding is {', '.join(named)}")
        if named and named[0] not in _STREAMS:
            raise CodingError(f"its coding is {named[0]}")
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
                    raise UnseenError("it unpacks to too much")
                if decoded:
                    yield decoded
        except (zlib.error, brotli.error, zstandard.ZstdError) as error:
            raise CodingError("its coding is not as it says") from error


_Decode: TypeAlias = Callable[[bytes], Iterator[bytes]]


class _Members:
    """Counts members that are one behind another: some clients read the first, others all, so the rest are empty."""

    def __init__(self) -> None:
        self._ended = 0

    def end(self) -> None:
        self._ended += 1
        if self._ended > _MOST_MEMBERS:
            raise UnseenError("it has too many members")

    def seen(self, decoded: bytes) -> bytes:
        if decoded and self._ended:
            raise UnseenError("it has several members")
        return decoded


def _pieces(octets: bytes, step: int) -> Iterator[bytes]:
    return (octets[at : at + step] for at in range(0, len(octets), step))


def _inflating() -> _Decode:
    decoder, members, came, tries_raw = zlib.decompressobj(47), _Members(), b"", True

    def decode(octets: bytes) -> Iterator[bytes]:
        for piece in _pieces(octets, _ZLIB_STEP):
            yield from decode_piece(piece)

    def decode_piece(octets: bytes) -> Iterator[bytes]:
        nonlocal decoder, came, tries_raw
        is_full = False
        while octets or is_full:
            try:
                decoded = decoder.decompress(octets, _PIECE)
            except zlib.error:
                if not tries_raw or len(came) > 1:
                    raise
                decoder, octets = zlib.decompressobj(-15), came + octets
                tries_raw = False
                continue
            came, tries_raw = came + octets[:2], tries_raw and not decoded
            yield members.seen(decoded)
            octets, is_full = decoder.unconsumed_tail, len(decoded) == _PIECE
            if decoder.eof:
                octets, decoder, is_full = decoder.unused_data, zlib.decompressobj(47), False
                members.end()

    return decode


def _unbrotling() -> _Decode:
    decoder = brotli.Decompressor()
    return lambda octets: (decoder.process(piece) for piece in _pieces(octets, _BROTLI_STEP))


def _unzstding() -> _Decode:
    def begun() -> Any:
        return zstandard.ZstdDecompressor(max_window_size=1 << 23).decompressobj()

    decoder, members = begun(), _Members()

    def decode(octets: bytes) -> Iterator[bytes]:
        nonlocal decoder
        for piece in _pieces(octets, _ZSTD_STEP):
            left = piece
            while left:
                yield members.seen(decoder.decompress(left))
                left = b""
                if decoder.eof:
                    left, decoder = decoder.unused_data, begun()
                    members.end()

    return decode


_STREAMS: Mapping[str, Callable[[], _Decode]] = {
    **dict.fromkeys(("gzip", "x-gzip", "deflate"), _inflating),
    "br": _unbrotling,
    "zstd": _unzstding,
}
