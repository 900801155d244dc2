"""Collects the rules of one part of the sources: rows for an index, and what else is to be known of them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from ipaddress import IPv4Network, IPv6Network
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from hushlist.core.match.checks import Check
from hushlist.core.match.expressions import DEEPEST_HOST, DEEPEST_PATH, full_hash
from hushlist.core.match.index_file import (
    ALLOWING,
    CATEGORIZED,
    EXPRESSIONS,
    FILTERED,
    GUIDE,
    encode_terms,
    key_length,
    table_key,
)
from hushlist.core.match.index_table import PLACE
from hushlist.core.match.rule import (
    Action,
    Anything,
    Expression,
    ExpressionHash,
    FilterPattern,
    Ordered,
    Rule,
    RuleBlock,
    Terms,
    WholeUrl,
)
from hushlist.core.match.sorted_runs import SortedRun, Stored, joined_runs, sorted_run, spill
from hushlist.core.url.hashed_uri import HashedUri
from hushlist.core.url.parts import split_web
from hushlist.core.url.request import canonical_url

#: rows number parts with 16 bits; the last number means no part
MOST_PARTS = (1 << 16) - 1


#: expressions of whole hosts -> those that may be broad
Suspects = Callable[[Sequence[bytes]], Container[bytes]]
#: rules that are collected at once; and of which the rows are in memory
_AT_ONCE, MOST_IN_MEMORY = 1 << 12, 1 << 17
#: all octets but dots and line ends
_NO_DOTS = bytes({*range(256)}.difference(b".\n"))


@dataclass(slots=True)
class CollectedPart:
    """The rows and terms of one part."""

    number: int
    layer: str
    runs: dict[str, SortedRun]
    #: the terms of its rules, as written to the file, by number
    terms: list[bytes]
    #: how many rules, duplicates included
    rules: int
    deepest_host: int
    deepest_path: int
    has_hashes: bool
    #: whether a rule in the clear has a host of one label
    has_top_level: bool = False
    #: rules that are hashes which may be of paths, hashed URIs, or filters that name no host; and rules in the clear
    #: for less than a host
    opaque: int = 0
    below_hosts: int = 0
    ranges: set[tuple[int, int]] = field(default_factory=set)
    #: extension -> the rows of its filters; whether some may fit on any host
    filters: dict[str, Stored] = field(default_factory=dict)
    has_general_filters: bool = False
    #: whether its rules for hosts are filters; keys of such rules that its filters take back, in all parts of the layer
    is_of_filters: bool = False
    taken_back: set[bytes] = field(default_factory=set)
    actions: set[Action] = field(default_factory=set)
    #: the schedules that its rules name
    schedules: set[str] = field(default_factory=set)
    #: filters that are exceptions, duplicates included
    exceptions: int = 0
    #: line and text of the filters that its index has no room for, and why, when that is assembled
    left_out: list[tuple[int, str, str]] = field(default_factory=list)
    #: its rules for address ranges
    range_rules: Stored = b""


class RunCollector:
    """Turns the rules of one part into rows; a part has one layer."""

    def __init__(self, number: int, layer: str, folder: Path | None = None, *, is_of_filters: bool = False) -> None:
        """``number``: the part's number in the order of the sources, below ``MOST_PARTS``.

        ``folder``: rows go into files there; so many rules at a time are in memory.
        """
        self._folder = folder
        #: the runs of each table that are in files already
        self._runs: dict[str, list[SortedRun]] = {}
        self._spilled = 0
        self._part = CollectedPart(number, layer, {}, [], 0, DEEPEST_HOST, DEEPEST_PATH, has_hashes=False)
        self._part.is_of_filters = is_of_filters
        self._rows: dict[str, list[bytes]] = {EXPRESSIONS: []}
        #: host -> bits of the rules below it
        self._guides: dict[bytes, int] = {}
        self._filters: dict[str, list[Any]] = {}
        self._filter_guides: dict[bytes, int] = {}
        self._numbers: dict[tuple[Terms, bool], int] = {}
        #: broad rules for whole hosts, filters that may be broad, and all rules for address ranges
        self.broad: list[Rule] = []

    def add(self, rules: Iterable[Rule | RuleBlock], suspects: Suspects = lambda _: ()) -> None:
        """Add rules; those for whole hosts that are among the ``suspects`` go to ``broad``, too."""
        expressions, lines, own_terms = list[bytes](), list[int](), None
        for rule in rules:
            if isinstance(rule, Rule) and type(rule.pattern) is not Expression:
                self._add_block(expressions, own_terms, lines, suspects)
                expressions, lines, own_terms = [], [], None
                if self._folder is not None and self._part.rules - self._spilled >= MOST_IN_MEMORY:
                    self._spill()
                self._part.rules += 1
                self._add_other(rule)
                continue
            if rule.terms is not own_terms or len(lines) >= _AT_ONCE:
                self._add_block(expressions, own_terms, lines, suspects)
                expressions, lines, own_terms = [], [], rule.terms
            if isinstance(rule, RuleBlock):
                expressions += rule.expressions
                lines += rule.lines
            elif type(rule.pattern) is Expression:
                expressions.append(rule.pattern.value)
                lines.append(rule.line)
        self._add_block(expressions, own_terms, lines, suspects)

    def _add_block(
        self, expressions: Sequence[bytes], terms: Terms | None, lines: Sequence[int], suspects: Suspects
    ) -> None:
        """Add rules in the clear with the same terms. Compiling spends much of its time here: few steps for each."""
        if terms is None:
            return
        part = self._part
        if self._folder is not None and part.rules - self._spilled >= MOST_IN_MEMORY:
            self._spill()
        part.rules += len(expressions)
        places = map(PLACE.pack, repeat(part.number), lines, repeat(self._number_of(terms, is_clear=True)))
        self._rows[EXPRESSIONS] += [sha256(text).digest() + place for text, place in zip(expressions, places)]  # noqa: B905
        joined = b"\n".join(expressions) + b"\n"
        if joined.count(b"/\n") == joined.count(b"/") == len(expressions):
            hosts = expressions
            dots = joined.translate(None, _NO_DOTS)  # of each line
            # "the index records the deepest host and path among clear rules"
            while b"." * part.deepest_host in dots:
                part.deepest_host += 1
            if dots.startswith(b"\n") or b"\n\n" in dots:
                part.has_top_level = part.has_top_level or any(map(_is_top_level, expressions))
        else:
            hosts = self._add_paths(expressions, _bits_of(terms))
        if broad := suspects(hosts):
            rules = zip(expressions, lines, strict=True)
            self.broad += [Rule(Expression(value), terms, line) for value, line in rules if value in broad]

    def _add_paths(self, expressions: Sequence[bytes], bits: int) -> list[bytes]:
        """Note guides and depths of expressions, some of them with paths; gives those without one."""
        part, hosts = self._part, []
        deepest_host, deepest_path = part.deepest_host, part.deepest_path
        for value in expressions:
            end = value.find(b"/")
            labels = value.count(b".", 0, end) + 1
            if labels > deepest_host:
                deepest_host = labels
            elif labels == 1:
                part.has_top_level = part.has_top_level or _is_top_level(value)
            if end + 1 == len(value):
                hosts.append(value)
            else:
                deepest_path = max(deepest_path, value.partition(b"?")[0].count(b"/") - 1)
                host = value[: end + 1]
                self._guides[host] = self._guides.get(host, 0) | bits
        part.deepest_host, part.deepest_path = deepest_host, deepest_path
        part.below_hosts += len(expressions) - len(hosts)
        return hosts

    def _add_other(self, rule: Rule) -> None:
        pattern, terms, line = rule
        assert not isinstance(pattern, Check | Anything | Ordered), "it is no part of an index"
        if isinstance(pattern, ExpressionHash):
            self._part.has_hashes = True
            self._part.opaque += not pattern.is_of_host
        elif isinstance(pattern, HashedUri):
            self._part.opaque += 1
        elif isinstance(pattern, WholeUrl):
            host = split_web(canonical_url(pattern.value)).host or b""
            self._part.deepest_host = max(self._part.deepest_host, host.count(b".") + 1)
            self._guides[host + b"/"] = self._guides.get(host + b"/", 0) | _bits_of(terms)
            self._part.below_hosts += 1
        elif isinstance(pattern, FilterPattern):
            self._add_filter(pattern, rule)
        elif isinstance(pattern, IPv4Network | IPv6Network):
            self._part.ranges.add((pattern.version, pattern.prefixlen))
            self.broad.append(rule)
        table, key = table_key(pattern)
        row = key + PLACE.pack(self._part.number, line, self._number_of(terms, is_clear=False))
        self._rows.setdefault(table, []).append(row)

    def _add_filter(self, pattern: FilterPattern, rule: Rule) -> None:
        row, host, may_be_broad, takes_back = pattern.placed(rule.line)
        if takes_back:
            self._part.taken_back.add(full_hash(takes_back))
        if row is None:
            return
        self._part.exceptions += pattern.is_exception
        self._filters.setdefault(pattern.extension, []).append(row)
        if may_be_broad:
            self.broad.append(rule)
        if host:
            self._part.deepest_host = max(self._part.deepest_host, host.count(b".") + 1)
            self._filter_guides[host + b"/"] = self._filter_guides.get(host + b"/", FILTERED) | _bits_of(rule.terms)
            self._part.below_hosts += 1
        elif host is not None:
            self._part.has_general_filters = True
            self._part.opaque += 1

    def _number_of(self, terms: Terms, *, is_clear: bool) -> int:
        number = self._numbers.setdefault((terms, is_clear), len(self._numbers))
        if number == len(self._part.terms):
            self._part.terms.append(encode_terms(terms, is_clear=is_clear))
            self._part.actions.add(terms.action)
            if terms.scope is not None and terms.scope.during:
                self._part.schedules.add(terms.scope.during)
        return number

    def _spill(self) -> None:
        """Put rows into files."""
        for name, rows in self._rows.items():
            self._runs.setdefault(name, []).append(sorted_run(rows, self._folder))
            self._rows[name] = []
        self._spilled = self._part.rules

    def finish(self) -> CollectedPart:
        """The part with its sorted runs."""
        guides = chain(self._guides.items(), self._filter_guides.items())
        self._rows[EXPRESSIONS] += (full_hash(host) + PLACE.pack(MOST_PARTS, bits, GUIDE) for host, bits in guides)
        self._spill()
        folder = self._folder
        self._part.filters = {extension: spill(rows, folder) for extension, rows in self._filters.items()}
        self._part.runs = {
            name: joined_runs(runs, key_length(name) + PLACE.size, folder) for name, runs in self._runs.items()
        }
        ranges = [rule for rule in self.broad if isinstance(rule.pattern, IPv4Network | IPv6Network)]
        self._part.range_rules = spill(ranges, folder)
        return self._part


def _is_top_level(expression: bytes) -> bool:
    """Whether its host has one label, and is no IPv6 address."""
    return b"." not in expression.partition(b"/")[0] and not expression.startswith(b"[")


def _bits_of(terms: Terms) -> int:
    """The bits that a guide gets from a rule below it."""
    if terms.action is Action.ALLOW:
        return ALLOWING
    return CATEGORIZED if terms.category is not None and terms.action is not Action.TAG else 0
