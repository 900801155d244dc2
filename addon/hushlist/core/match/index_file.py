"""The file of an index: its layout, its directory, and how to open and verify it.

``hushlist.core.match.index_writer`` writes it, and nothing changes it afterwards. Numbers are in the byte order of the
machine that wrote it. In rows they are big-endian, so that rows sort as octets:

====== ====== ==========================================================================================
offset octets what
====== ====== ==========================================================================================
0      8      ``HUSHLIST``
8      4      version of the format
12     4      1, to detect another byte order
16     8      length of the file
24     8      length of the directory
32     4      CRC-32 of the directory
36     4      CRC-32 of the 36 octets before
40            sections, each at a multiple of 64
...           the directory, at the end: JSON that gives offset, length and CRC-32 of every section
====== ====== ==========================================================================================

Sections are the tables and their filter (``index_table``), and the terms: for every part of the sources
the number of its first terms; for all terms an offset; and the terms as JSON, which are read when a rule fits. What
only updates need (``index_update``) is in others: the rows of each table that were left out as duplicates. An index
that an update made has numbers of lines as they were when they were read, and ``lines``: what became of them.

Opening checks the header, the directory and that all sections are within the file. Its cost does not depend on the
number of rules. ``verify`` reads everything; it must be called before a proxy gets an index.
"""

from __future__ import annotations

import json
import os
import weakref
import zlib
from collections.abc import Callable, Sequence
from datetime import date
from errno import EPERM
from ipaddress import IPv4Network, IPv6Network
from mmap import ACCESS_READ, mmap
from pathlib import Path
from struct import Struct
from typing import NamedTuple, Self

from hushlist.core.errors import Problem, SourceError
from hushlist.core.match.expressions import DEEPEST_HOST, DEEPEST_PATH, FULL_LENGTH, full_hash
from hushlist.core.match.index_table import Shape
from hushlist.core.match.line_numbers import LineRuns
from hushlist.core.match.rule import Action, Expression, ExpressionHash, FilterPattern, Scope, Terms, WholeUrl
from hushlist.core.system.platform import is_trusted, read_at
from hushlist.core.url.hashed_uri import ALGORITHMS, HashedUri, HashKey

MAGIC = b"HUSHLIST"
VERSION = 15
#: magic, version, byte order, length of the file, length and CRC-32 of the directory; the header's own CRC-32 follows
HEADER = Struct("=8sIIQQI")
CRC = Struct("=I")
SECTIONS_AT = HEADER.size + CRC.size
#: in "parts", the number of a part's first terms; in "offsets", where terms begin within "terms"
NUMBER = Struct("=I")
OFFSET = Struct("=Q")
#: terms of a row that is a guide, not a rule: there are rules in the clear for paths below this host
GUIDE = (1 << 32) - 1
#: bits of a guide's line: some of these rules allow; some stop and have a category, which a policy may allow; they are
#: filters, which an extension's matcher finds
ALLOWING, CATEGORIZED, FILTERED = 1, 2, 4


class IndexFileError(SourceError):
    """A file cannot be used as an index."""

    def __init__(self, source: str, why: str) -> None:
        super().__init__([Problem(source, 0, "index", why)])


class FileSection(NamedTuple):
    """Its offset and length in the file, and the CRC-32 of its octets."""

    offset: int
    length: int
    crc: int


class Directory(NamedTuple):
    #: by the names that ``table_key`` gives
    tables: dict[str, Shape]
    #: "filter", "parts", "offsets", "terms"; for every table its name with "fan", "tails" and "rows"; those of the
    #: extensions that bring filters (``matcher.py``); and those added
    sections: dict[str, FileSection]
    #: labels of the longest host, components of the longest path among rules in the clear
    deepest_host: int
    deepest_path: int
    #: whether a rule in the clear has a host of one label
    has_top_level: bool
    #: whether the table of expressions has hashes
    has_hashes: bool
    #: version and prefix length of all address ranges
    ranges: tuple[tuple[int, int], ...]
    rules: dict[str, int]
    #: layers with final rules that do different things
    mixed: tuple[str, ...]
    #: layers with hashes that may be of paths, with hashed URIs, or with filters that name no host: these may
    #: fit requests to any host
    opaque: tuple[str, ...]
    #: whether there are such filters
    has_general_filters: bool
    #: the schedules that rules name
    schedules: tuple[str, ...]
    #: extension -> its lists with filters, in the order by which its matcher tells them apart: name and layer
    filter_lists: dict[str, tuple[tuple[str, str], ...]]

    def to_json(self) -> bytes:
        plain = self._asdict()
        plain["tables"] = {name: (entry.count, entry.key, entry.bits) for name, entry in self.tables.items()}
        plain["sections"] = {name: (entry.offset, entry.length, entry.crc) for name, entry in self.sections.items()}
        return json.dumps(plain, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, octets: bytes) -> Directory:
        """The directory from the file's JSON; an error of ``_WRONG`` if it is not one."""
        plain = json.loads(octets)
        plain["tables"] = {name: Shape(*map(int, numbers)) for name, numbers in plain["tables"].items()}
        plain["sections"] = {name: FileSection(*map(int, numbers)) for name, numbers in plain["sections"].items()}
        plain["ranges"] = tuple((int(version), int(length)) for version, length in plain["ranges"])
        plain["rules"] = {layer: int(count) for layer, count in plain["rules"].items()}
        for names in ("mixed", "opaque", "schedules"):
            plain[names] = tuple(map(str, plain[names]))
        lists = plain["filter_lists"].items()
        plain["filter_lists"] = {
            extension: tuple((str(name), str(layer)) for name, layer in every) for extension, every in lists
        }
        directory = cls(**plain)
        for version, length in directory.ranges:
            _NETWORKS[version]((0, length))  # raises if there is no such length
        if (
            directory.deepest_host < DEEPEST_HOST
            or directory.deepest_path < DEEPEST_PATH
            or min(directory.rules.values(), default=0) < 0
        ):
            raise ValueError("a number is too small")
        if type(directory.has_general_filters) is not bool:
            raise TypeError("whether there are such filters is neither true nor false")
        return directory


#: errors that JSON of the wrong form may cause
_WRONG = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
_NETWORKS = {4: IPv4Network, 6: IPv6Network}

#: the first words of table names
EXPRESSION_TABLE = "expression"
URI_TABLE = "uri"
URL_TABLE = "url"
FILTER_TABLE = "filters of"
RANGES = "range"


#: the table of expressions in the clear
EXPRESSIONS = f"{EXPRESSION_TABLE} {FULL_LENGTH}"


def table_key(
    pattern: Expression | WholeUrl | ExpressionHash | HashedUri | FilterPattern | IPv4Network | IPv6Network,
) -> tuple[str, bytes]:
    """The name of a pattern's table, and its key in it.

    >>> table_key(Expression(b"h/"))[0], table_key(ExpressionHash(b"1234"))
    ('expression 32', ('expression 4', b'1234'))
    """
    match pattern:
        case Expression(value):
            return EXPRESSIONS, full_hash(value)
        case WholeUrl(value, rung):
            return f"{URL_TABLE} {rung}", full_hash(value)
        case ExpressionHash(value, seal):
            return f"{EXPRESSION_TABLE} {len(value)} {seal}".rstrip(), value
        case HashedUri(key, digest):
            return f"{URI_TABLE} {key.algorithm} {key.variant} {key.query:d} {key.fragment:d}", digest
        case FilterPattern():
            return f"{FILTER_TABLE} {pattern.extension}", pattern.digest
        case IPv4Network() | IPv6Network():
            return RANGES, full_hash(str(pattern).encode())


def key_length(name: str) -> int:
    """The length of a table's keys, in octets.

    >>> key_length("expression 4"), key_length("expression 8 f87dde256ef1fd9a"), key_length("uri sha1 n 0 0")
    (4, 8, 20)
    """
    kind, _, rest = name.partition(" ")
    if kind == EXPRESSION_TABLE:
        return int(rest.partition(" ")[0])
    return len(ALGORITHMS[hash_key(name).algorithm](b"")) if kind == URI_TABLE else FULL_LENGTH


def seal_of(name: str) -> str:
    """The fingerprint of the key with which a table of expressions is sealed; empty if it is not."""
    return name.partition(" ")[2].partition(" ")[2]


def hash_key(name: str) -> HashKey:
    """The kind of hashed URIs in a table, from its name."""
    _, algorithm, variant, query, fragment = name.split(" ")
    return HashKey(algorithm, variant, query == "1", fragment == "1")


def encode_terms(terms: Terms, *, is_clear: bool) -> bytes:
    """The file's form of terms, with whether their rules are in the clear."""
    expires = None if terms.expires is None else terms.expires.isoformat()
    first = (is_clear, terms.action, terms.list, terms.source, terms.category, terms.reason, expires)
    last = (terms.title, terms.layer, terms.confirmer, terms.values, terms.scope)
    return json.dumps((*first, *last), separators=(",", ":")).encode()


def decode_terms(octets: bytes) -> tuple[bool, Terms]:
    """The reverse of ``encode_terms``; ``ValueError``, ``TypeError`` or ``RecursionError`` if they are not terms."""
    is_clear, action, of_list, source, category, reason, expires, *last, pairs, scope = json.loads(octets)
    title, layer, confirmer = last
    values = tuple((str(key), str(value)) for key, value in pairs)
    if not all(isinstance(text, str | None) for text in (of_list, source, category, reason, *last)):
        raise TypeError("there is something else in the place of a text")
    groups, during = scope or ((), "")
    if not all(isinstance(text, str) for text in (*groups, during)):
        raise TypeError("there is something else in the place of a scope")
    only = None if scope is None else Scope(tuple(groups), during)
    day = None if expires is None else date.fromisoformat(expires)
    first = Action(action), of_list, source, category, reason, day
    return is_clear, Terms(*first, title, layer, confirmer, values, only)


#: the section that says for each part which of the sections ``lines 1``, ``lines 2``, ... has its lines' numbers
LINES = "lines"


def duplicates_section(table: str) -> str:
    """The section with the rows of a table that were left out as duplicates."""
    return f"{table} duplicates"


# -- the file ----------------------------------------------------------------------------------------------------------

Read = Callable[[int, int], bytes]


class _OpenFile:
    """An open file that is read by system calls: unlike mapped octets, what is read takes no memory of the process."""

    def __init__(self, descriptor: int, source: str) -> None:
        self._descriptor, self._source = descriptor, source
        self.opened = self.fingerprint()
        weakref.finalize(self, os.close, descriptor)

    def read(self, offset: int, length: int) -> bytes:
        """Exactly ``length`` octets, or an ``IndexFileError``; with fewer, rules would silently not be found."""
        try:
            octets = read_at(self._descriptor, length, offset)
        except OSError as error:
            raise IndexFileError(self._source, f"it cannot be read: {error.strerror or error}") from error
        if len(octets) < length:
            raise IndexFileError(self._source, "it is shorter than it was")
        return octets

    def fingerprint(self) -> object:
        """Size and time of change."""
        try:
            stat = os.fstat(self._descriptor)
        except OSError as error:
            return error.errno
        return stat.st_size, stat.st_mtime_ns


class IndexFile:
    """An open index file; it never changes."""

    def __init__(self, octets: mmap | bytes, read: Read | None = None, source: str = "index") -> None:
        """``read``: octets by offset and length; ``source``: the file's name in each ``IndexFileError``."""
        self.source = source
        self._octets = octets
        self._read: Read = read or (lambda offset, length: octets[offset : offset + length])
        self._file: _OpenFile | None = None
        self.directory = _directory(octets, source)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Map a file; ``IndexFileError`` if it cannot be opened, or is not a usable index."""
        try:
            with open(path, "rb", opener=_at_once) as file:
                _check_owner(os.fstat(file.fileno()))
                octets = mmap(file.fileno(), 0, access=ACCESS_READ)
                opened = _OpenFile(os.dup(file.fileno()), str(path))
        except (OSError, ValueError) as error:  # ValueError: the file is empty
            raise IndexFileError(str(path), getattr(error, "strerror", None) or str(error)) from error
        index = cls(octets, opened.read, str(path))
        index._file = opened
        return index

    @property
    def is_as_opened(self) -> bool:
        """Whether the file's size and time of change are the same as when it was opened."""
        return self._file is None or self._file.fingerprint() == self._file.opened

    def verify(self) -> None:
        """Read the whole file, and compare every section with its checksum; ``IndexFileError`` if one differs."""
        for name, section in self.directory.sections.items():
            crc, at, end = 0, section.offset, section.offset + section.length
            while at < end:
                piece = self._read(at, min(PIECE, end - at))
                if not piece:
                    break
                crc, at = zlib.crc32(piece, crc), at + len(piece)
            if at != end or crc != section.crc:
                raise IndexFileError(self.source, f"section {name!r} is corrupted")

    def __len__(self) -> int:
        """How many rules there are, without checks."""
        return sum(self.directory.rules.values())

    @property
    def octets(self) -> int:
        return len(self._octets)

    @property
    def hot_octets(self) -> int:
        """The length of the sections that every look-up reads; the others are read only when a rule fits."""
        tables = sum(length for shape in self.directory.tables.values() for length in shape.lengths[:2])
        return tables + self.directory.sections["filter"].length

    def section(self, name: str) -> bytes:
        place = self.directory.sections[name]
        return self._read(place.offset, place.length)

    def mapped(self, name: str) -> memoryview:
        """A section, read through the mapping; ``LookupError`` if there is none."""
        place = self.directory.sections[name]
        return memoryview(self._octets)[place.offset : place.offset + place.length]

    def line_runs(self) -> tuple[Sequence[int], list[LineRuns]]:
        """For each part 0 or the place, from 1, of what became of its lines; and these. Nothing if no line has moved.

        Raises:
            ValueError: these are no such sections.
        """
        if LINES not in self.directory.sections:
            return (), []
        of_parts = self.mapped(LINES).cast("I")
        names = [f"{LINES} {number}" for number in range(1, max(of_parts, default=0) + 1)]
        return of_parts, [LineRuns.of_numbers(self.mapped(name).cast("I")) for name in names]


PIECE = 1 << 20


def _at_once(path: str, flags: int) -> int:
    """Open a file; who opens a pipe in its place would wait for ever."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _check_owner(status: os.stat_result) -> None:
    """Check that this user or root owns the opened file, since its path may be a link; compare ``IndexCache.check``."""
    if not is_trusted(status):
        raise PermissionError(EPERM, "it is another user's")


def _directory(octets: mmap | bytes, source: str) -> Directory:
    """Check the header, and read the directory."""
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
    for name, place in directory.sections.items():
        if place.offset < SECTIONS_AT or place.length < 0 or place.offset + place.length > length:
            raise IndexFileError(source, f"section {name!r} lies outside of it")
    return directory
