"""The index: one file, mapped into memory, from a request's canonical forms to the rules that fit it.

The file, written by ``hushlist.match.compiler`` and never changed afterwards; numbers are in the byte order of the
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

There is a table for expressions, with the SHA-256 of rules in the clear and of full hashes; one more for every length
of hash prefixes, for every kind of hashed URI, and for address ranges. A rule in the clear for a path below a host also
has a *guide* at its host's own expression. So a request costs one look-up for each of its host suffixes; paths are
hashed only below a guide, or where there are hashes.

Opening checks the header, the directory and that all sections lie within the file, whatever their size: it costs the
same for any number of rules. ``verify`` reads everything; whoever hands an index to a proxy calls it before.

Invariants: a look-up never changes the index; rules with the same pattern keep the order in which they were given.
"""

from __future__ import annotations

import json
import os
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from hashlib import sha256
from ipaddress import IPv4Network, IPv6Network, ip_network
from mmap import ACCESS_READ, mmap
from pathlib import Path
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import NamedTuple

from hushlist.errors import Problem, SourceError
from hushlist.match.checks import Asked, Check
from hushlist.match.expressions import DEEPEST_HOST, DEEPEST_PATH, host_suffixes, path_prefixes
from hushlist.match.hashing import FULL_LENGTH, full_hash
from hushlist.match.rule import Action, Expression, ExpressionHash, Rule, Terms
from hushlist.match.table import Row, Shape, Table
from hushlist.url.hashed import ALGORITHMS, HashedUri, HashKey, matching_strings
from hushlist.url.host import parse_address
from hushlist.url.parts import Parts

MAGIC = b"HUSHLIST"
VERSION = 1
#: magic, version, byte order, length of the file, length and CRC-32 of the directory; behind it stands its own CRC-32
HEADER = Struct("=8sIIQQI")
CRC = Struct("=I")
SECTIONS_AT = HEADER.size + CRC.size
#: of the first terms of a part, in "parts"; of the beginning of terms within "terms", in "offsets"
NUMBER = Struct("=I")
OFFSET = Struct("=Q")
#: terms of a row that is no rule: there are rules in the clear for paths below this host
GUIDE = (1 << 32) - 1
#: of the terms that were read
_MOST_TERMS = 4096


class IndexFileError(SourceError):
    """A file cannot be used as an index."""

    def __init__(self, source: str, why: str) -> None:
        super().__init__([Problem(source, 0, "index", why)])


class Match(NamedTuple):
    """One rule that fits a request."""

    rule: Rule
    #: the expression, URI or address that it fits, in the clear: the request itself gives the plaintext
    expression: bytes
    #: compares as "the order in which the expressions are generated" does, the larger the more specific: octets of the
    #: host, then of the path. A check is above everything, a whole URI above every expression, and an address range
    #: below, by its prefix length.
    specificity: tuple[int, int]
    #: how the request came by this expression, where not by its own URL, and what in the policy says what is done
    via: str | None = None
    #: when that ends, where it ends by a schedule
    until: datetime | None = None

    def __str__(self) -> str:
        """For people: what fits, by which list, file and line, and the reason."""
        terms = self.rule.terms
        reason = f": {terms.reason}" if terms.reason else ""
        via = f", {self.via}" if self.via else ""
        return f"{self.text} by {terms.label} ({terms.source}:{self.rule.line}{via}){reason}"

    @property
    def text(self) -> str:
        """The expression, to be read."""
        return self.expression.decode("utf-8", "backslashreplace")

    def as_dict(self) -> dict[str, str | int | None]:
        """Plain types, as JSON and mitmproxy's metadata need them."""
        pattern, terms, line = self.rule
        return {
            "expression": self.text,
            "rule": str(pattern),
            "action": terms.action.value,
            "category": terms.category,
            "reason": terms.reason,
            "expires": None if terms.expires is None else terms.expires.isoformat(),
            "list": terms.list,
            "title": terms.title,
            "source": terms.source,
            "line": line,
            "layer": terms.layer,
            "via": self.via,
            "until": None if self.until is None else self.until.isoformat(),
        }


_WHOLE_REQUEST = 1 << 33
_WHOLE_URI = 1 << 32
_ADDRESS_RANGE = -1


class Host(NamedTuple):
    """What is known of a canonical host, whatever the path."""

    #: of rules that fit the whole host
    matches: tuple[Match, ...]
    #: the host and its suffixes below which paths have to be looked up: whether there are rules in the clear, and
    #: whether it has expressions that may be hashed
    deeper: tuple[tuple[bytes, bool, bool], ...]


_NOTHING = Host((), ())


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
    #: layers with rules that allow and with rules that block
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


_EXPRESSIONS = "expression"
_URIS = "uri"
RANGES = "range"


def table_name(pattern: Expression | ExpressionHash | HashedUri | IPv4Network | IPv6Network) -> str:
    """Which table a pattern is in.

    >>> table_name(Expression(b"h/")), table_name(ExpressionHash(b"1234"))
    ('expression 32', 'expression 4')
    """
    match pattern:
        case Expression():
            return f"{_EXPRESSIONS} {FULL_LENGTH}"
        case ExpressionHash(value):
            return f"{_EXPRESSIONS} {len(value)}"
        case HashedUri(key):
            return f"{_URIS} {key.algorithm} {key.variant} {key.query:d} {key.fragment:d}"
        case IPv4Network() | IPv6Network():
            return RANGES


EXPRESSIONS = table_name(Expression(b"h/"))


def key_length(name: str) -> int:
    """How long the keys of a table are, in octets.

    >>> key_length("expression 4"), key_length("uri sha1 n 0 0"), key_length("range")
    (4, 20, 32)
    """
    kind, _, rest = name.partition(" ")
    if kind == _EXPRESSIONS:
        return int(rest)
    return len(ALGORITHMS[_hash_key(name).algorithm](b"")) if kind == _URIS else FULL_LENGTH


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


def encode_terms(terms: Terms, *, is_clear: bool) -> bytes:
    """Terms as the file has them, and whether the rules are in the clear."""
    expires = None if terms.expires is None else terms.expires.isoformat()
    first = (is_clear, terms.action, terms.list, terms.source, terms.category, terms.reason, expires)
    return json.dumps((*first, terms.title, terms.layer), separators=(",", ":")).encode()


def _decode_terms(octets: bytes) -> tuple[bool, Terms]:
    is_clear, action, of_list, source, category, reason, expires, title, layer = json.loads(octets)
    day = None if expires is None else date.fromisoformat(expires)
    return is_clear, Terms(Action(action), of_list, source, category, reason, day, title, layer)


def find_checks(checks: Iterable[Rule], asked: Asked) -> Iterator[Match]:
    """Checks that a request fails, with what shows it."""
    for rule in checks:
        assert isinstance(rule.pattern, Check)
        evidence = rule.pattern.find(asked)
        if evidence is not None:
            yield Match(rule, evidence, (_WHOLE_REQUEST, 0))


_Read = Callable[[int, int], bytes]


class Index:
    """Finds the rules that fit; see the module."""

    def __init__(self, octets: mmap | bytes, read: _Read | None = None, source: str = "index") -> None:
        """``read`` gives so many octets at an offset; ``source`` is what errors call the file.

        Raises:
            IndexFileError: the octets are no index that can be used.
        """
        self.source = source
        self._octets = octets
        self._read = read or partial(_slice, octets)
        self.directory = _directory(octets, source)
        self._terms: dict[tuple[int, int], tuple[bool, Terms]] = {}
        try:
            tables = {name: self._table(name, shape) for name, shape in self.directory.tables.items()}
            #: of expressions, the longest keys first
            self._tables = _expression_tables(tables)
            self._uris = {_hash_key(name): table for name, table in tables.items() if name.startswith(_URIS)}
            self._sections = [self.directory.sections[name] for name in ("parts", "offsets", "terms")]
        except (LookupError, ValueError) as error:
            raise IndexFileError(source, f"its tables cannot be read: {error}") from error
        self._ranges = tables.get(RANGES)
        self._has_hashes = self.directory.has_hashes or len(self._tables) > 1

    def _table(self, name: str, shape: Shape) -> Table:
        own = [self.directory.sections[f"{name} {section}"] for section in ("fan", "tails", "rows")]
        if shape.key != key_length(name) or [section.length for section in own] != list(shape.lengths):
            raise IndexFileError(self.source, f"table {name!r} is not as long as it says")
        table = Table(self._octets, self._read, shape, [section.offset for section in own])
        if not table.is_consistent:
            raise IndexFileError(self.source, f"the fan-out of table {name!r} does not count its keys")
        return table

    @classmethod
    def open(cls, path: Path) -> Index:
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
            index = cls(octets, partial(_read_at, descriptor), str(path))
        except IndexFileError:
            os.close(descriptor)
            raise
        weakref.finalize(index, os.close, descriptor)
        return index

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

    @property
    def has_uris(self) -> bool:
        """Whether any rule is a hashed URI."""
        return bool(self._uris)

    def section(self, name: str) -> bytes:
        """The octets of a section."""
        own = self.directory.sections[name]
        return self._read(own.offset, own.length)

    def terms_of(self, expression: bytes, part: int) -> list[Terms]:
        """What the rules in the clear ask for that a part of the sources has for just this expression."""
        own = (row for _, row in self._rows([expression]) if row.part == part and row.terms != GUIDE)
        return [terms for is_clear, terms in map(self._terms_of, own) if is_clear]

    # -- finding ---------------------------------------------------------------------------------------------------

    def find(self, parts: Parts) -> list[Match]:
        """Expressions and address ranges that fit a canonical URL."""
        host = self.on_host(parts.host or b"")
        return [*host.matches, *self.find_paths(host, parts.path, parts.query)]

    def on_host(self, name: bytes) -> Host:
        """What fits a canonical host, whatever the path, and where paths have to be looked up."""
        deepest = self.directory.deepest_host
        suffixes = host_suffixes(name, deepest)
        expressions = [suffix + b"/" for suffix in suffixes]
        rows = self._rows(expressions)
        if not rows and not self._has_hashes and self._ranges is None:
            return _NOTHING
        standard = suffixes if deepest == DEEPEST_HOST else host_suffixes(name)
        matches = self._matches(expressions, rows, lambda place: suffixes[place] in standard)
        guided = {place for place, row in rows if row.terms == GUIDE}
        deeper = [
            (suffix, place in guided, suffix in standard)
            for place, suffix in enumerate(suffixes)
            if place in guided or (self._has_hashes and suffix in standard)
        ]
        if self._ranges is not None:
            matches += self._find_ranges(name, self._ranges)
        return Host(tuple(matches), tuple(deeper))

    def find_paths(self, host: Host, path: bytes, query: bytes | None) -> list[Match]:
        """What fits a canonical path and query, besides what fits the whole host."""
        if not host.deeper:
            return []
        standard = path_prefixes(path, query)[:-1]  # the last is the whole host
        deepest = self.directory.deepest_path
        clear = standard if deepest == DEEPEST_PATH else path_prefixes(path, query, deepest)[:-1]
        expressions: list[bytes] = []
        for suffix, is_guided, _ in host.deeper:
            expressions += [suffix + prefix for prefix in (clear if is_guided else standard)]

        rows = self._rows(expressions)
        if not rows:
            return []

        def is_standard(place: int) -> bool:
            return any(
                is_own and expressions[place].removeprefix(suffix) in standard for suffix, _, is_own in host.deeper
            )

        return self._matches(expressions, rows, is_standard)

    def known(self, expressions: Sequence[bytes]) -> set[bytes]:
        """Those expressions that there are rules for, or rules in the clear below."""
        return {expressions[place] for place, _ in self._rows(expressions)}

    def _rows(self, expressions: Sequence[bytes]) -> list[tuple[int, Row]]:
        """The rows of expressions, with the expressions' places."""
        digests = [sha256(expression).digest() for expression in expressions]
        return [
            (place, row) for table in self._tables for place, rows in table.find_each(digests).items() for row in rows
        ]

    def _matches(
        self, expressions: Sequence[bytes], rows: Iterable[tuple[int, Row]], is_standard: Callable[[int], bool]
    ) -> list[Match]:
        """The rules of rows; a hash fits only an expression that is among the thirty, as ``is_standard`` tells."""
        found: list[Match] = []
        for place, row in rows:
            if row.terms == GUIDE:
                continue
            is_clear, terms = self._terms_of(row)
            if is_clear or is_standard(place):
                expression = expressions[place]
                pattern = Expression(expression) if is_clear else ExpressionHash(row.key)
                host = expression.index(b"/")
                found.append(Match(Rule(pattern, terms, row.line), expression, (host, len(expression) - host)))
        return found

    def _find_ranges(self, host: bytes, ranges: Table) -> Iterator[Match]:
        address = parse_address(host)
        if address is None:
            return
        for version, length in self.directory.ranges:
            if version == address.version:
                network = ip_network((address, length), strict=False)
                for row in ranges.find(key_of(network)):
                    yield Match(Rule(network, self._terms_of(row)[1], row.line), host, (_ADDRESS_RANGE, length))

    def find_uris(self, uris: Sequence[Parts]) -> Iterator[Match]:
        """Hashed URIs that fit one of the URIs that name the same resource."""
        strings: dict[tuple[str, bool, bool], dict[bytes, None]] = {}
        for key, table in self._uris.items():
            digest_of = ALGORITHMS[key.algorithm]
            how = key.variant, key.query, key.fragment
            if how not in strings:  # the same for every algorithm
                strings[how] = dict.fromkeys(string for uri in uris for string in matching_strings(uri, key))
            for string in strings[how]:
                for row in table.find(digest_of(string)):
                    rule = Rule(HashedUri(key, row.key), self._terms_of(row)[1], row.line)
                    yield Match(rule, string, (_WHOLE_URI, len(string)))

    def _terms_of(self, row: Row) -> tuple[bool, Terms]:
        """Whether the row's rule is in the clear, and its terms."""
        known = self._terms.get((row.part, row.terms))
        if known is None:
            known = self._read_terms(row)
            if len(self._terms) >= _MOST_TERMS:
                self._terms.clear()
            self._terms[row.part, row.terms] = known
        return known

    def _read_terms(self, row: Row) -> tuple[bool, Terms]:
        parts, offsets, terms = self._sections
        try:
            (first,) = NUMBER.unpack(self._read(parts.offset + row.part * NUMBER.size, NUMBER.size))
            both = self._read(offsets.offset + (first + row.terms) * OFFSET.size, 2 * OFFSET.size)
            (start,), (end,) = OFFSET.iter_unpack(both)
            return _decode_terms(self._read(terms.offset + start, end - start))
        except (StructError, ValueError, TypeError) as error:
            raise IndexFileError(self.source, "the terms of a rule cannot be read") from error


_PIECE = 1 << 20


def _slice(octets: mmap | bytes, offset: int, length: int) -> bytes:
    return octets[offset : offset + length]


def _read_at(descriptor: int, offset: int, length: int) -> bytes:
    return os.pread(descriptor, length, offset)


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


def _expression_tables(tables: dict[str, Table]) -> tuple[Table, ...]:
    """The tables of expressions that are not empty, those with the longest keys first."""
    names = (name for name, table in tables.items() if name.startswith(_EXPRESSIONS) and len(table))
    return tuple(tables[name] for name in sorted(names, key=key_length, reverse=True))


def _hash_key(name: str) -> HashKey:
    _, algorithm, variant, query, fragment = name.split(" ")
    return HashKey(algorithm, variant, query == "1", fragment == "1")
