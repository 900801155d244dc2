"""The formats of recorded browsing: their readers, how they are told apart, and how files of them are opened."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

from hushlist.audit.record import Read
from hushlist.audit.sources import history, lines, logs, takeout
from hushlist.audit.sources.flows import read_flows
from hushlist.audit.sources.har import read_har

#: octets by which a format is told
HEAD = 1 << 16

Records = Iterator[Read]
#: of octets, that can be peeked at
Stream: TypeAlias = "io.BufferedReader[Any]"


@dataclass(frozen=True, slots=True)
class Format:
    """One of three: it is read by line, as a stream, or as a file."""

    name: str
    #: for people
    text: str
    #: whether the first octets of a source look like it
    looks_so: Callable[[bytes], bool]
    read_line: lines.ReadLine | None = None
    read_stream: Callable[[BinaryIO, str], Records] | None = None
    read_file: Callable[[Path, str], Records] | None = None


_FLOW = re.compile(rb"[0-9]{1,12}:[0-9]{1,4}:[a-z_]+[;,]")
_OBJECT = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{")


def _first_line(head: bytes) -> bytes:
    return next(iter(head.split(b"\n", 1)), b"").rstrip(b"\r")


def _is_object(head: bytes) -> bool:
    return _OBJECT.match(head) is not None


def _is_table(head: bytes) -> bool:
    return _first_line(head.lstrip()).count(b"\t") >= 2


#: in the order in which they are tried; the last is what everything else is taken for
FORMATS: dict[str, Format] = {
    own.name: own
    for own in (
        Format(
            "history",
            "the history of Chrome, Edge (History) or Firefox (places.sqlite)",
            lambda head: head.startswith(history.MAGIC),
            read_file=history.read_history,
        ),
        Format(
            "flows",
            "flows that mitmproxy has written",
            lambda head: _FLOW.match(head) is not None,
            read_stream=read_flows,
        ),
        Format(
            "takeout",
            "Google Takeout's History.json or BrowserHistory.json",
            lambda head: _is_object(head) and f'"{takeout.KEY}"'.encode() in head,
            read_stream=takeout.read_takeout,
        ),
        Format("har", "HAR, of a browser's tools or another recorder", _is_object, read_stream=read_har),
        Format(
            "squid",
            "Squid's access.log in its native format",
            lambda head: logs.SQUID.match(_first_line(head)) is not None,
            read_line=logs.read_squid,
        ),
        Format(
            "common",
            "an access log in the Common or Combined Log Format",
            lambda head: logs.COMMON.match(_first_line(head)) is not None,
            read_line=logs.read_common,
        ),
        Format("requests", "URL, page and type, with tabs between them", _is_table, read_line=lines.read_request),
        Format("urls", "plain URLs, one a line", lambda _: True, read_line=lines.read_url),
    )
}


def format_of(head: bytes) -> Format:
    """The format that a source's first octets look like.

    >>> format_of(b'{"log": {').name, format_of(b"http://h.example/").name
    ('har', 'urls')
    """
    return next(own for own in FORMATS.values() if own.looks_so(head))


# -- compression -------------------------------------------------------------------------------------------------------


def _zstandard(stream: BinaryIO) -> BinaryIO:
    try:
        import zstandard  # mitmproxy brings it
    except ModuleNotFoundError:
        raise OSError("it is compressed by zstandard, and the package zstandard is not there") from None
    return cast(BinaryIO, zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True))


#: octets that are unpacked at a time, and of memory that unpacking may take: four times what "xz -9" writes asks for
_INPUT = 1 << 16
_MOST_MEMORY = 1 << 28

_COMPRESSIONS: dict[bytes, Callable[[BinaryIO], BinaryIO]] = {
    b"\x1f\x8b": lambda stream: cast(BinaryIO, gzip.GzipFile(fileobj=stream)),
    b"BZh": lambda stream: cast(BinaryIO, bz2.BZ2File(stream)),
    b"\xfd7zXZ\0": lambda stream: cast(BinaryIO, _Xz(stream)),
    b"\x28\xb5\x2f\xfd": _zstandard,
}


class _Xz:
    """What ``lzma.LZMAFile`` is, with a limit: a file says itself how much memory it takes to unpack it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._unpack = lzma.LZMADecompressor(lzma.FORMAT_XZ, _MOST_MEMORY)
        self._left = b""

    def read(self, size: int) -> bytes:
        """At most so many octets; none at the end.

        Raises:
            EOFError: the end is missing.
            lzma.LZMAError: it is broken, or takes too much memory.
        """
        while True:
            if self._unpack.eof:
                # Streams may follow each other, with padding between them. Spec: The .xz File Format, 2
                self._left = self._left.lstrip(b"\0")
                while not self._left:
                    more = self._stream.read(_INPUT)
                    if not more:
                        return b""
                    self._left = more.lstrip(b"\0")
                self._unpack = lzma.LZMADecompressor(lzma.FORMAT_XZ, _MOST_MEMORY)
            if self._unpack.needs_input:
                packed = self._left or self._stream.read(_INPUT)
                if not packed:
                    raise EOFError("it ends too early")
            else:
                packed = b""
            found = self._unpack.decompress(packed, size)
            self._left = self._unpack.unused_data
            if found:
                return found


def is_compressed(head: bytes) -> bool:
    """Whether a file begins as one does that is compressed."""
    return head.startswith(tuple(_COMPRESSIONS))


def decompressed(stream: Stream) -> Stream:
    """The stream without its compression, if it has one; its head can be peeked at.

    Raises:
        OSError: it is compressed in a way that nothing here knows.
    """
    head = stream.peek(8)
    for magic, opener in _COMPRESSIONS.items():
        if head.startswith(magic):
            raw = cast(io.RawIOBase, _Unzipped(opener(cast(BinaryIO, stream))))
            return io.BufferedReader(raw, HEAD)
    return stream


class _Unzipped(io.RawIOBase):
    """A decompressor whose errors are all ``OSError``, so that a broken file ends as one that cannot be read does."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: object) -> int:
        """Some octets."""
        view = memoryview(cast(bytearray, buffer))
        try:
            octets = self._stream.read(len(view))
        except (EOFError, lzma.LZMAError, zlib.error, ValueError) as error:
            raise OSError(f"its compression is broken: {error}") from error
        except Exception as error:
            if type(error).__module__.startswith("zst"):
                raise OSError(f"its compression is broken: {error}") from error
            raise
        view[: len(octets)] = octets
        return len(octets)
