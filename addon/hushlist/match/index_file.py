"""The file of an index: its layout, opening it, and reading what it says of itself.

Written by ``hushlist.match.compiler`` and never changed afterwards; numbers are in the byte order of the
machine that wrote it, but in rows, where they are big-endian so that rows sort as octets:

====== ====== ==========================================================================================
offset octets what
====== ====== ==========================================================================================
0      8      ``HUSHLIST``
8      4      version of the format
12     4      1, to tell another machine's byte order
16     8      length of the file
24     8      length of the directory
32     4      CRC-32 of the directory
36     4      CRC-32 of the 36 octets before
40            sections, each at a multiple of 64
...           the directory, at the end: JSON that gives offset, length and CRC-32 of every section
====== ====== ==========================================================================================

Sections are the tables (``hushlist.match.table``) and the terms: for every part of the sources the number of its first
terms, for all terms an offset, and the terms themselves as JSON, read when a rule fits.

Opening checks the header, the directory and that all sections lie within the file, whatever their size: it costs the
same for any number of rules. ``verify`` reads everything; whoever hands an index to a proxy calls it before.
"""

from __future__ import annotations

import json
import os
import weakref
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import partial
from ipaddress import IPv4Network, IPv6Network
from mmap import ACCESS_READ, mmap
from pathlib import Path
from struct import Struct
from typing import Self

from hushlist.errors import Problem, SourceError
from hushlist.match.expressions import DEEPEST_HOST, DEEPEST_PATH
from hushlist.match.hashing import FULL_LENGTH, full_hash
from hushlist.match.rule import Action, Expression, ExpressionHash, Terms
from hushlist.match.table import Shape
from hushlist.url.hashed import ALGORITHMS, HashedUri, HashKey

MAGIC = b"HUSHLIST"
VERSION = 2
#: magic, version, byte order, length of the file, length and CRC-32 of the directory; behind it stands its own CRC-32
HEADER = Struct("=8sIIQQI")
CRC = Struct("=I")
SECTIONS_AT = HEADER.size + CRC.size
#: of the first terms of a part, in "parts"; of the beginning of terms within "terms", in "offsets"
NUMBER = Struct("=I")
OFFSET = Struct("=Q")
#: terms of a row that is no rule: there are rules in the clear for paths below this host
GUIDE = (1 << 32) - 1
#: bits of the line of such a row: among these are some that allow; some that stop and have a category, which a policy
#: may allow
ALLOWING, CATEGORIZED = 1, 2


class IndexFileError(SourceError):
    """A file cannot be used as an index."""

    def __init__(self, source: str, why: str) -> None:
        super().__init__([Problem(source, 0, "index", why)])


@dataclass(frozen=True, slots=True)
class Section:
    """Where it stands in the file, and the CRC-32 of its octets."""

    offset: int
    length: int
    crc: int


@dataclass(frozen=True, slots=True)
class Directory:
    """What an index file says of itself."""

    #: by the names that ``table_name`` gives
    tables: dict[str, Shape]
    #: "parts", "offsets", "terms", for every table its name with "fan", "tails" and "rows", and what was added
    sections: dict[str, Section]
    #: labels of the longest host, components of the longest path among rules in the clear
    deepest_host: int
    deepest_path: int
    #: whether the table of expressions has hashes
    has_hashes: bool
    #: version and prefix length of all address ranges
    ranges: tuple[tuple[int, int], ...]
    #: rules by layer
    rules: dict[str, int]
    #: layers with final rules that do different things
    mixed: tuple[str, ...]

    def to_json(self) -> bytes:
        """For the file."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        plain["tables"] = {name: (own.count, own.key, own.bits) for name, own in self.tables.items()}
        plain["sections"] = {name: (own.offset, own.length, own.crc) for name, own in self.sections.items()}
        return json.dumps(plain, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, octets: bytes) -> Directory:
        """From the file.

        Raises:
            ValueError: or another of ``_WRONG``, where it is none.
        """
        plain = json.loads(octets)
        plain["tables"] = {name: Shape(*map(int, own)) for name, own in plain["tables"].items()}
        plain["sections"] = {name: Section(*map(int, own)) for name, own in plain["sections"].items()}
        plain["ranges"] = tuple((int(version), int(length)) for version, length in plain["ranges"])
        plain["rules"] = {layer: int(count) for layer, count in plain["rules"].items()}
        plain["mixed"] = tuple(map(str, plain["mixed"]))
        own = cls(**plain)
        for version, length in own.ranges:
            _NETWORKS[version]((0, length))  # raises where there is none
        if own.deepest_host < DEEPEST_HOST or own.deepest_path < DEEPEST_PATH or min(own.rules.values(), default=0) < 0:
            raise ValueError("a number is too small")
        return own


#: whatever may be raised where JSON has something else than it should
_WRONG = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
_NETWORKS = {4: IPv4Network, 6: IPv6Network}

#: with what the names of tables begin
EXPRESSION_TABLE = "expression"
URI_TABLE = "uri"
RANGES = "range"


def table_name(pattern: Expression | ExpressionHash | HashedUri | IPv4Network | IPv6Network) -> str:
    """Which table a pattern is in.

    >>> table_name(Expression(b"h/")), table_name(ExpressionHash(b"1234"))
    ('expression 32', 'expression 4')
    """
    match pattern:
        case Expression():
            return f"{EXPRESSION_TABLE} {FULL_LENGTH}"
        case ExpressionHash(value):
            return f"{EXPRESSION_TABLE} {len(value)}"
        case HashedUri(key):
            return f"{URI_TABLE} {key.algorithm} {key.variant} {key.query:d} {key.fragment:d}"
        case IPv4Network() | IPv6Network():
            return RANGES


EXPRESSIONS = table_name(Expression(b"h/"))


def key_length(name: str) -> int:
    """How long the keys of a table are, in octets.

    >>> key_length("expression 4"), key_length("uri sha1 n 0 0"), key_length("range")
    (4, 20, 32)
    """
    kind, _, rest = name.partition(" ")
    if kind == EXPRESSION_TABLE:
        return int(rest)
    return len(ALGORITHMS[hash_key(name).algorithm](b"")) if kind == URI_TABLE else FULL_LENGTH


def key_of(pattern: Expression | ExpressionHash | HashedUri | IPv4Network | IPv6Network) -> bytes:
    """What a pattern is found by, in its table."""
    match pattern:
        case Expression(value):
            return full_hash(value)
        case ExpressionHash(value):
            return value
        case HashedUri(_, digest):
            return digest
        case IPv4Network() | IPv6Network():
            return full_hash(str(pattern).encode())


def hash_key(name: str) -> HashKey:
    """Which hashed URIs a table is for."""
    _, algorithm, variant, query, fragment = name.split(" ")
    return HashKey(algorithm, variant, query == "1", fragment == "1")


def encode_terms(terms: Terms, *, is_clear: bool) -> bytes:
    """Terms as the file has them, and whether the rules are in the clear."""
    expires = None if terms.expires is None else terms.expires.isoformat()
    first = (is_clear, terms.action, terms.list, terms.source, terms.category, terms.reason, expires)
    return json.dumps((*first, terms.title, terms.layer), separators=(",", ":")).encode()


def decode_terms(octets: bytes) -> tuple[bool, Terms]:
    """The opposite.

    Raises:
        ValueError: or ``TypeError``, where they are none; or ``RecursionError``.
    """
    is_clear, action, of_list, source, category, reason, expires, title, layer = json.loads(octets)
    if not all(isinstance(text, str | None) for text in (of_list, source, category, reason, title, layer)):
        raise TypeError("there is something else in the place of a text")
    day = None if expires is None else date.fromisoformat(expires)
    return is_clear, Terms(Action(action), of_list, source, category, reason, day, title, layer)


# -- the file ----------------------------------------------------------------------------------------------------------

Read = Callable[[int, int], bytes]


class IndexFile:
    """A file that is open, from its first octet to its last; it never changes."""

    def __init__(self, octets: mmap | bytes, read: Read | None = None, source: str = "index") -> None:
        """``read`` gives so many octets at an offset; ``source`` is what errors call the file.

        Raises:
            IndexFileError: the octets are no index that can be used.
        """
        self.source = source
        self._octets = octets
        self._read = read or partial(_slice, octets)
        self._fingerprint: Callable[[], object] = _nothing
        self._opened: object = None
        self.directory = _directory(octets, source)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Map a file.

        Raises:
            IndexFileError: it cannot be opened, or is no index that can be used.
        """
        try:
            with path.open("rb") as file:
                octets = mmap(file.fileno(), 0, access=ACCESS_READ)
                if not hasattr(os, "pread"):
                    return cls(octets, source=str(path))
                descriptor = os.dup(file.fileno())
        except (OSError, ValueError) as error:  # ValueError: the file is empty
            raise IndexFileError(str(path), getattr(error, "strerror", None) or str(error)) from error
        try:
            index = cls(octets, partial(_read_at, descriptor, str(path)), str(path))
        except IndexFileError:
            os.close(descriptor)
            raise
        weakref.finalize(index, os.close, descriptor)
        index._fingerprint = partial(_fingerprint, descriptor)
        index._opened = _fingerprint(descriptor)
        return index

    @property
    def is_as_opened(self) -> bool:
        """Whether nobody has written to the file since it was opened, as far as its size and time of change tell."""
        return self._fingerprint() == self._opened

    def verify(self) -> None:
        """Compare every section with its checksum; costs a reading of the file.

        Raises:
            IndexFileError: one differs.
        """
        for name, section in self.directory.sections.items():
            crc, at, end = 0, section.offset, section.offset + section.length
            while at < end:
                piece = self._read(at, min(_PIECE, end - at))
                if not piece:
                    break
                crc, at = zlib.crc32(piece, crc), at + len(piece)
            if at != end or crc != section.crc:
                raise IndexFileError(self.source, f"section {name!r} is corrupted")

    def __len__(self) -> int:
        """How many rules there are, checks not counted."""
        return sum(self.directory.rules.values())

    @property
    def octets(self) -> int:
        """How long the file is."""
        return len(self._octets)

    @property
    def hot_octets(self) -> int:
        """How long the part is that look-ups read; the rest is read where a rule fits."""
        return sum(length for shape in self.directory.tables.values() for length in shape.lengths[:2])

    def section(self, name: str) -> bytes:
        """The octets of a section."""
        own = self.directory.sections[name]
        return self._read(own.offset, own.length)


_PIECE = 1 << 20


def _slice(octets: mmap | bytes, offset: int, length: int) -> bytes:
    return octets[offset : offset + length]


def _read_at(descriptor: int, source: str, offset: int, length: int) -> bytes:
    """So many octets; fewer would be rules that are silently not found.

    Raises:
        IndexFileError: they cannot be read, or are not there any more.
    """
    try:
        octets = os.pread(descriptor, length, offset)
    except OSError as error:
        raise IndexFileError(source, f"it cannot be read: {error.strerror or error}") from error
    if len(octets) < length:
        raise IndexFileError(source, "it is shorter than it was")
    return octets


def _fingerprint(descriptor: int) -> object:
    try:
        stat = os.fstat(descriptor)
    except OSError as error:
        return error.errno
    return stat.st_size, stat.st_mtime_ns


def _nothing() -> None:
    """Nothing can be told of octets in memory; they do not change either."""


def _directory(octets: mmap | bytes, source: str) -> Directory:
    """The directory of a file whose header is sound.

    Raises:
        IndexFileError: it is not.
    """
    if len(octets) < SECTIONS_AT or octets[: len(MAGIC)] != MAGIC:
        raise IndexFileError(source, "this is no index file")
    header = octets[: HEADER.size]
    _, version, order, length, size, crc = HEADER.unpack(header)
    if order != 1:
        raise IndexFileError(source, "it was written by a machine of another byte order")
    if version != VERSION:
        age = "an older" if version < VERSION else "a newer"
        raise IndexFileError(source, f"it has {age} format: version {version}, where {VERSION} is expected")
    if CRC.unpack(octets[HEADER.size : SECTIONS_AT]) != (zlib.crc32(header),):
        raise IndexFileError(source, "its header is corrupted")
    if length != len(octets):
        raise IndexFileError(source, f"it is {len(octets)} octets long, but says {length}")
    text = octets[max(SECTIONS_AT, length - size) :]
    if zlib.crc32(text) != crc:
        raise IndexFileError(source, "its directory is corrupted")
    try:
        directory = Directory.from_json(text)
    except _WRONG as error:
        raise IndexFileError(source, f"its directory cannot be read: {error}") from error
    for name, own in directory.sections.items():
        if own.offset < SECTIONS_AT or own.length < 0 or own.offset + own.length > length:
            raise IndexFileError(source, f"section {name!r} lies outside of it")
    return directory
