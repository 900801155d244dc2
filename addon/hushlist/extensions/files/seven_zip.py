"""The names in a 7z archive, which are in an index at its end, mostly packed; its first octets say where that is.

Source: 7zFormat.txt of the LZMA SDK
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple
from zlib import crc32

SIGNATURE = b"7z\xbc\xaf\x27\x1c"
#: octets of an index, before which its packed form may be in so many, and of what it unpacks to
_LONGEST, _LONGEST_UNPACKED = 1 << 19, 1 << 22
#: indexes that are packed within each other, members, and numbers in an index
_DEEPEST, _MOST_MEMBERS, _MOST_NUMBERS = 4, 20_000, 100_000
#: coders of a folder, and parts that say something of files
_MOST_CODERS, _MOST_PARTS = 32, 64
#: the beginning of an archive: its checksum, where behind it the index is and how long, and the checksum of that
_START = Struct("<6xBxIQQI")
#: what the parts of an index begin with
_END, _HEADER, _PROPERTIES, _MAIN_STREAMS, _FILES, _PACK_INFO, _UNPACK_INFO, _SUBSTREAMS = 0, 1, 2, 4, 5, 6, 7, 8
_SIZE, _CRC, _FOLDER, _UNPACK_SIZE, _UNPACK_STREAMS, _NAMES, _PACKED_HEADER = 9, 10, 11, 12, 13, 17, 23
_COPY, _LZMA, _LZMA2 = b"\0", b"\3\1\1", b"\x21"
#: what methods that need a password begin with, of which AES is the one in use
_CRYPTO = b"\x06\xf1"


class SevenZipError(ValueError):
    """Not all names of an archive can be read."""


class EncryptedIndexError(SevenZipError):
    """Its names need a password."""


class Index(NamedTuple):
    """What is in an archive."""

    names: tuple[str, ...]
    #: whether a member needs a password
    is_encrypted: bool


class IndexTaker:
    """Keeps of an archive that flows what its index may be in."""

    def __init__(self) -> None:
        self._kept, self._at = bytearray(), 0
        #: where what is kept begins, and where the index does and ends; ``None``: it is not known yet
        self._begin = 0
        self._place: tuple[int, int] | None = None
        self._sum = 0

    def take(self, octets: bytes) -> Index | None:
        """The index, once all of it has come; raises ``SevenZipError``."""
        if self._place is None:
            self._kept += octets
            if len(self._kept) < _START.size:
                return None
            octets = bytes(self._kept)
            self._read_start(octets)
            self._kept.clear()
        assert self._place is not None
        first, end = self._place
        self._kept += octets[max(0, self._begin - self._at) : max(0, end - self._at)]
        self._at += len(octets)
        if self._at < end:
            return None
        kept = bytes(self._kept)
        self._kept.clear()
        index = kept[first - self._begin :]
        if crc32(index) != self._sum:
            raise SevenZipError("its index has another checksum")
        return _read(kept[: first - self._begin], self._begin - _START.size, index)

    def _read_start(self, octets: bytes) -> None:
        version, checksum, offset, length, self._sum = _START.unpack_from(octets)
        if crc32(octets[12 : _START.size]) != checksum or version:
            raise SevenZipError("its beginning has another checksum")
        if not 0 < length <= _LONGEST:
            raise SevenZipError("its index is too long" if length else "it has no index")
        first = _START.size + offset
        self._begin, self._place = max(_START.size, first - _LONGEST), (first, first + length)


def _read(before: bytes, place: int, index: bytes) -> Index:
    """The names of an index; ``before`` are the octets before it, of which the first is at a place."""
    for _ in range(_DEEPEST):
        fields = _Fields(index)
        kind = fields.octet()
        if kind == _HEADER:
            return _read_header(fields)
        if kind != _PACKED_HEADER:
            break
        streams = _read_streams(fields)
        if streams.is_encrypted:
            raise EncryptedIndexError("its names are encrypted")
        begin = streams.place - place
        if begin < 0 or not 0 <= streams.packed <= len(before) - begin:
            raise SevenZipError("its index is not where it says")
        index = _unpacked(before[begin : begin + streams.packed], streams)
    raise SevenZipError("its index cannot be read")


class _Streams(NamedTuple):
    """What an index says of packed octets: of the first ones, where they are, how long, and how they are packed."""

    place: int
    #: -1: it is not said
    packed: int
    unpacked: int
    #: method and properties of each step
    coders: tuple[tuple[bytes, bytes], ...]
    is_encrypted: bool


class _Fields:
    """Reads octets and numbers; raises ``SevenZipError`` behind the end."""

    def __init__(self, octets: bytes) -> None:
        self._octets, self._at, self._numbers = octets, 0, 0

    def octet(self) -> int:
        return self.octets(1)[0]

    def octets(self, number: int) -> bytes:
        end = self._at + number
        if end > len(self._octets):
            raise SevenZipError("its index ends too early")
        octets, self._at = self._octets[self._at : end], end
        return octets

    def number(self, most: int | None = None) -> int:
        """A number, of which the first bits of its first octet say how many octets follow."""
        self._numbers += 1
        if self._numbers > _MOST_NUMBERS:
            raise SevenZipError("its index is too long")
        first = self.octet()
        more = next((bits for bits in range(8) if not first & 128 >> bits), 8)
        number = int.from_bytes(self.octets(more), "little") | (first & (127 >> more)) << 8 * more
        if most is not None and number > most:
            raise SevenZipError("it has too many members")
        return number

    def expect(self, kind: int) -> None:
        if self.octet() != kind:
            raise SevenZipError("its index cannot be read")

    def sums(self, number: int) -> list[bool]:
        """Skip a number of checksums, of which some may not be there: whether each is."""
        if number > _MOST_MEMBERS:
            raise SevenZipError("it has too many members")
        if self.octet():
            self.octets(4 * number)
            return [True] * number
        bits = self.octets((number + 7) // 8)
        are_there = [bool(bits[at // 8] & 128 >> at % 8) for at in range(number)]
        self.octets(4 * sum(are_there))
        return are_there

    def until_end(self, *kinds: int) -> Iterator[int]:
        """Which of some kinds follow, each once, up to the end of a part; any other is an error."""
        left = {*kinds}
        while (kind := self.octet()) != _END:
            if kind not in left:
                raise SevenZipError("its index cannot be read")
            left.remove(kind)
            yield kind


def _read_header(fields: _Fields) -> Index:
    names, is_encrypted = list[str](), False
    for kind in fields.until_end(_PROPERTIES, _MAIN_STREAMS, _FILES):
        if kind == _PROPERTIES:
            for _ in fields.until_end(*range(256)):
                fields.octets(fields.number())
        elif kind == _MAIN_STREAMS:
            is_encrypted = _read_streams(fields).is_encrypted
        else:
            names += _read_files(fields)
    return Index(tuple(names), is_encrypted)


def _read_files(fields: _Fields) -> list[str]:
    number, names = fields.number(_MOST_MEMBERS), list[str]()
    for _ in range(_MOST_PARTS):
        if (kind := fields.octet()) == _END:
            break
        part = _Fields(fields.octets(length := fields.number()))
        if kind == _NAMES:
            part.expect(0)
            text = part.octets(length - 1).decode("utf-16-le", "replace")
            named = text.split("\0")
            if len(named) != number + 1 or named.pop():
                raise SevenZipError("a name in it cannot be read")
            names += named
    else:
        raise SevenZipError("its index is too long")
    if number and not names:
        raise SevenZipError("its members have no names")
    return names


def _read_streams(fields: _Fields) -> _Streams:
    """What is said of packed octets, up to the end of that."""
    streams, have_sums = _Streams(0, -1, -1, (), is_encrypted=False), list[bool]()
    for kind in fields.until_end(_PACK_INFO, _UNPACK_INFO, _SUBSTREAMS):
        if kind == _PACK_INFO:
            streams = streams._replace(place=fields.number())
            number = fields.number(_MOST_MEMBERS)
            for what in fields.until_end(_SIZE, _CRC):
                if what == _SIZE:
                    sizes = [fields.number() for _ in range(number)]
                    streams = streams._replace(packed=sizes[0] if sizes else -1)
                else:
                    fields.sums(number)
        elif kind == _UNPACK_INFO:
            streams, have_sums = _read_folders(fields, streams)
        else:
            _read_substreams(fields, have_sums)
    return streams


def _read_folders(fields: _Fields, streams: _Streams) -> tuple[_Streams, list[bool]]:
    """How octets are packed, and whether each folder has a checksum."""
    fields.expect(_FOLDER)
    number = fields.number(_MOST_MEMBERS)
    fields.expect(0)
    folders = [_read_folder(fields) for _ in range(number)]
    fields.expect(_UNPACK_SIZE)
    sizes = [fields.number() for _, outputs in folders for _ in range(outputs)]
    have_sums = [False] * number
    for _ in fields.until_end(_CRC):
        have_sums = fields.sums(number)
    is_encrypted = any(method.startswith(_CRYPTO) for coders, _ in folders for method, _ in coders)
    if number == 1:
        streams = streams._replace(unpacked=sizes[0], coders=folders[0][0])
    return streams._replace(is_encrypted=is_encrypted), have_sums


def _read_folder(fields: _Fields) -> tuple[tuple[tuple[bytes, bytes], ...], int]:
    """Its coders, and how many streams they put out."""
    coders, inputs, outputs = list[tuple[bytes, bytes]](), 0, 0
    number = fields.number(_MOST_CODERS)
    for _ in range(number):
        what = fields.octet()
        method = fields.octets(what & 15)
        come, go = (fields.number(_MOST_CODERS), fields.number(_MOST_CODERS)) if what & 16 else (1, 1)
        inputs, outputs = inputs + come, outputs + go
        coders.append((method, fields.octets(fields.number()) if what & 32 else b""))
        if what & 192:
            raise SevenZipError("its index cannot be read")
    if not outputs:
        raise SevenZipError("its index cannot be read")
    for _ in range(2 * (outputs - 1)):
        fields.number()
    packed = inputs - (outputs - 1)
    for _ in range(packed if packed > 1 else 0):
        fields.number()
    return tuple(coders), outputs


def _read_substreams(fields: _Fields, have_sums: list[bool]) -> None:
    counts = [1] * len(have_sums)
    for kind in fields.until_end(_UNPACK_STREAMS, _SIZE, _CRC):
        if kind == _UNPACK_STREAMS:
            counts = [fields.number(_MOST_MEMBERS) for _ in have_sums]
        elif kind == _SIZE:
            for count in counts:
                for _ in range(count - 1):
                    fields.number()
        else:
            alone = zip(counts, have_sums, strict=True)
            fields.sums(sum(count for count, has_sum in alone if count != 1 or not has_sum))


def _unpacked(octets: bytes, streams: _Streams) -> bytes:
    """An index that was packed."""
    method, properties = streams.coders[0] if len(streams.coders) == 1 else (b"", b"")
    if not 0 <= streams.unpacked <= _LONGEST_UNPACKED:
        raise SevenZipError("its index is too long")
    if method == _COPY:
        return octets
    steps = _steps(method, properties, streams.unpacked)
    if steps is None:
        raise SevenZipError("its index has a packing that is not read")
    try:
        unpacked = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=steps).decompress(octets, streams.unpacked)
    except (lzma.LZMAError, ValueError):
        raise SevenZipError("its index cannot be unpacked") from None
    if len(unpacked) < streams.unpacked:
        raise SevenZipError("its index cannot be unpacked")
    return unpacked


def _steps(method: bytes, properties: bytes, length: int) -> list[dict[str, Any]] | None:
    """How LZMA is undone; no more is kept for what comes back than all of it."""
    most = max(1 << 12, length)
    if method == _LZMA and len(properties) == 5 and properties[0] < 225:
        rest, lc = divmod(properties[0], 9)
        pb, lp = divmod(rest, 5)
        size = min(most, int.from_bytes(properties[1:], "little"))
        return [{"id": lzma.FILTER_LZMA1, "dict_size": max(1 << 12, size), "lc": lc, "lp": lp, "pb": pb}]
    if method == _LZMA2 and len(properties) == 1:
        return [{"id": lzma.FILTER_LZMA2, "dict_size": most}]
    return None
