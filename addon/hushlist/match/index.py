"""The index finds the rules that fit a request's canonical forms, in a file (``index_file``) mapped into memory.

The table of expressions has the SHA-256 of rules in the clear, and full hashes. There is another table for each length
of hash prefixes, for each kind of hashed URI, and for address ranges. A rule in the clear for a path below a host also
puts a *guide* at the host's expression. So a request costs one look-up for each host suffix. Paths are hashed only
below a guide, or if there are rules that are hashes.

Invariants: a look-up never changes the index; rules with the same pattern keep the order of the sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from ipaddress import ip_network
from itertools import pairwise
from mmap import mmap
from struct import error as StructError  # noqa: N812
from typing import NamedTuple

from hushlist.errors import printable
from hushlist.match.checks import Check, CheckedRequest
from hushlist.match.expressions import DEEPEST_HOST, DEEPEST_PATH, host_suffixes, path_prefixes
from hushlist.match.index_file import (
    EXPRESSION_TABLE,
    GUIDE,
    NUMBER,
    OFFSET,
    RANGES,
    URI_TABLE,
    FileSection,
    IndexFile,
    IndexFileError,
    Read,
    decode_terms,
    hash_key,
    key_length,
    table_key,
)
from hushlist.match.index_table import IndexTable, Shape, TableRow
from hushlist.match.rule import Expression, ExpressionHash, Rule, Terms
from hushlist.url.hashed_uri import ALGORITHMS, HashedUri, matching_strings
from hushlist.url.host import parse_address
from hushlist.url.parts import Parts

#: terms in the cache
MOST_TERMS = 4096


class Match(NamedTuple):
    """One rule that fits a request."""

    rule: Rule
    #: the expression, URI or address that it fits, in the clear, from the request
    expression: bytes
    #: octets of the host, then of the path; the larger, the more specific, as in "the order in which the expressions
    #: are generated". A check is above everything, a whole URI above every expression, and an address range below, by
    #: its prefix length.
    specificity: tuple[int, int]
    #: where the expression comes from, if not from the request's own URL; and the policy's rule that set the action
    via: str | None = None
    #: when a schedule ends the action
    until: datetime | None = None

    def __str__(self) -> str:
        """For people: the expression, the list, file and line, and the reason."""
        terms = self.rule.terms
        reason = f": {terms.reason}" if terms.reason else ""
        via = f", {self.via}" if self.via else ""
        return printable(f"{self.text} by {terms.label} ({terms.source}:{self.rule.line}{via}){reason}")

    @property
    def text(self) -> str:
        """The expression as text."""
        return self.expression.decode("utf-8", "backslashreplace")

    def as_dict(self) -> dict[str, str | int | None]:
        """Plain types for JSON and mitmproxy's metadata."""
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
    """What the index says about a canonical host, for any path."""

    #: rules that fit the whole host
    matches: tuple[Match, ...]
    #: suffixes of the host, itself included, below which paths must be looked up; each with whether there are rules in
    #: the clear, and whether its expressions may be hashes
    deeper: tuple[tuple[bytes, bool, bool], ...]
    #: the guides' bits for the rules in the clear for paths: ``ALLOWING``, ``CATEGORIZED``
    bits: int = 0


_NOTHING = Host((), ())


def find_checks(checks: Iterable[Rule], asked: CheckedRequest) -> Iterator[Match]:
    """The checks that a request fails, with evidence."""
    for rule in checks:
        assert isinstance(rule.pattern, Check)
        evidence = rule.pattern.find(asked)
        if evidence is not None:
            yield Match(rule, evidence, (_WHOLE_REQUEST, 0))


class Index(IndexFile):
    """Finds the rules that fit a request."""

    def __init__(self, octets: mmap | bytes, read: Read | None = None, source: str = "index") -> None:
        """The parameters are those of ``IndexFile``."""
        super().__init__(octets, read, source)
        self._terms: dict[tuple[int, int], tuple[bool, Terms]] = {}
        try:
            tables = {name: self._table(name, shape) for name, shape in self.directory.tables.items()}
            #: tables of expressions that are not empty, the longest keys first
            names = (name for name, table in tables.items() if name.startswith(EXPRESSION_TABLE) and len(table))
            self._tables = tuple(tables[name] for name in sorted(names, key=key_length, reverse=True))
            self._uris = {hash_key(name): table for name, table in tables.items() if name.startswith(URI_TABLE)}
            self._sections = [self.directory.sections[name] for name in ("parts", "offsets", "terms")]
        except (LookupError, ValueError) as error:
            raise IndexFileError(source, f"its tables cannot be read: {error}") from error
        self._ranges = tables.get(RANGES)
        self._every_table = tuple(tables.values())
        self._has_hashes = self.directory.has_hashes or len(self._tables) > 1

    def _table(self, name: str, shape: Shape) -> IndexTable:
        own = [self.directory.sections[f"{name} {section}"] for section in ("fan", "tails", "rows")]
        if shape.key != key_length(name) or [section.length for section in own] != list(shape.lengths):
            raise IndexFileError(self.source, f"table {name!r} is not as long as it says")
        table = IndexTable(self._octets, self._read, shape, [section.offset for section in own])
        if not table.is_consistent:
            raise IndexFileError(self.source, f"the fan-out of table {name!r} does not count its keys")
        return table

    @property
    def has_uris(self) -> bool:
        """Whether any rule is a hashed URI."""
        return bool(self._uris)

    def terms_of(self, expression: bytes, part: int) -> list[Terms]:
        """The terms of one part's rules in the clear for exactly this expression."""
        own = (row for _, row in self._rows([expression]) if row.part == part and row.terms != GUIDE)
        return [terms for is_clear, terms in map(self._terms_of, own) if is_clear]

    def places(self) -> Iterator[tuple[Terms, int, bytes]]:
        """Every rule's terms, line and key in the index, in no particular order."""
        for table in self._every_table:
            for row in table:
                if row.terms != GUIDE:
                    yield self._terms_of(row)[1], row.line, row.key

    def titles(self) -> dict[str, str]:
        """Source -> title, for lists that have one."""
        parts = [part for part, number in self._terms_by_part() if number]
        known = (self._terms_of(TableRow(b"", part, 0, 0))[1] for part in parts)
        return {terms.source: terms.title for terms in known if terms.title is not None}

    # -- finding ---------------------------------------------------------------------------------------------------

    def find(self, parts: Parts) -> list[Match]:
        """Matches of expressions and address ranges for a canonical URL."""
        host = self.on_host(parts.host or b"")
        return [*host.matches, *self.find_paths(host, parts.path, parts.query)]

    def on_host(self, name: bytes) -> Host:
        """The rules for a whole canonical host, and where paths must be looked up."""
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
        bits = 0
        for _, row in rows:
            bits |= row.line if row.terms == GUIDE else 0
        return Host(tuple(matches), tuple(deeper), bits)

    def find_paths(self, host: Host, path: bytes, query: bytes | None) -> list[Match]:
        """Matches for a canonical path and query, without those for the whole host."""
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
        """The expressions that have rules, or rules in the clear for paths below them."""
        return {expressions[place] for place, _ in self._rows(expressions)}

    def _rows(self, expressions: Sequence[bytes]) -> list[tuple[int, TableRow]]:
        """The rows of expressions, with the expressions' places."""
        digests = [sha256(expression).digest() for expression in expressions]
        return [
            (place, row) for table in self._tables for place, rows in table.find_each(digests).items() for row in rows
        ]

    def _matches(
        self, expressions: Sequence[bytes], rows: Iterable[tuple[int, TableRow]], is_standard: Callable[[int], bool]
    ) -> list[Match]:
        """The matches of rows; a hash fits only one of the standard thirty expressions, which ``is_standard`` finds."""
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

    def _find_ranges(self, host: bytes, ranges: IndexTable) -> Iterator[Match]:
        address = parse_address(host)
        if address is None:
            return
        for version, length in self.directory.ranges:
            if version == address.version:
                network = ip_network((address, length), strict=False)
                for row in ranges.find(table_key(network)[1]):
                    yield Match(Rule(network, self._terms_of(row)[1], row.line), host, (_ADDRESS_RANGE, length))

    def find_uris(self, uris: Sequence[Parts]) -> Iterator[Match]:
        """Hashed URIs that fit one of several URIs for the same resource."""
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

    def categories(self) -> set[str]:
        """The categories of all rules; takes longer, the more different terms there are."""
        rows = (TableRow(b"", part, 0, own) for part, number in self._terms_by_part() for own in range(number))
        found = (self._read_terms(row)[1].category for row in rows)
        return {category for category in found if category is not None}

    def _terms_by_part(self) -> Iterator[tuple[int, int]]:
        """Parts, and how many terms each has."""
        firsts = [first for (first,) in NUMBER.iter_unpack(self.section("parts"))]
        return enumerate(end - first for first, end in pairwise(firsts))

    def _terms_of(self, row: TableRow) -> tuple[bool, Terms]:
        """Whether the row's rule is in the clear, and its terms."""
        known = self._terms.get((row.part, row.terms))
        if known is None:
            known = self._read_terms(row)
            if len(self._terms) >= MOST_TERMS:
                self._terms.clear()
            self._terms[row.part, row.terms] = known
        return known

    def _read_terms(self, row: TableRow) -> tuple[bool, Terms]:
        parts, offsets, terms = self._sections
        try:
            (first,) = NUMBER.unpack(self._within(parts, row.part * NUMBER.size, NUMBER.size))
            both = self._within(offsets, (first + row.terms) * OFFSET.size, 2 * OFFSET.size)
            (start,), (end,) = OFFSET.iter_unpack(both)
            return decode_terms(self._within(terms, start, end - start))
        except (StructError, ValueError, TypeError, RecursionError) as error:
            raise IndexFileError(self.source, "the terms of a rule cannot be read") from error

    def _within(self, section: FileSection, start: int, length: int) -> bytes:
        """Octets of a section, from an offset in it; ``ValueError`` if they are outside of it."""
        if not 0 <= start <= start + length <= section.length:
            raise ValueError(f"{length} octets at {start} of {section.length}")
        return self._read(section.offset + start, length)
