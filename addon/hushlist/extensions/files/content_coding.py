"""The first octets of a body as they were before their content coding, within a bound.

Spec: RFC 9110, 8.4
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from io import BytesIO

import brotli  # type: ignore[import-untyped]
import zstandard

#: octets of a compressed body that are handed to a decoder that has no bound of its own
_STEP = 16


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


def beginning_of(octets: bytes, codings: str, most: int) -> bytes | None:
    """The first octets of a body, at most so many; ``None`` if it has another coding, or several, or is not as it says.

    >>> beginning_of(b"as it is", "identity", 5), beginning_of(b"", "compress", 5)
    (b'as it', None)
    """
    named = [coding for each in codings.lower().split(",") if (coding := each.strip()) not in ("", "identity")]
    if not named:
        return octets[:most]
    decode = _DECODERS.get(named[0]) if len(named) == 1 else None
    if decode is None:
        return None
    try:
        return decode(octets, most)
    except (zlib.error, brotli.error, zstandard.ZstdError):
        return None
