"""Finds redundant rules: duplicates in one list or in several, and rules that a broader or stronger rule shadows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from ipaddress import IPv4Network, IPv6Network
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from hushlist.audit.lint.findings import Finding, FindingKind
from hushlist.match.expressions import FULL_LENGTH
from hushlist.match.index import Index, Match
from hushlist.match.index_file import EXPRESSION_TABLE, GUIDE, decode_terms, key_length
from hushlist.match.index_table import PLACE
from hushlist.match.index_writer import Candidate, CollectedPart, MergeTask, Stored, sorted_rows, unspill
from hushlist.match.rule import FINAL, Action, Rule, Terms
from hushlist.match.shadowed import find_shadowed


class TermsMeaning(NamedTuple):
    """What a rule does, compared among rules of the same expression, hash or range."""

    action: Action
    #: a policy may treat different categories differently
    category: str | None
    expires: date | None


class Duplicates(NamedTuple):
    """Findings by part; and (file, octets) -> how many different prefixes, and the line of the first."""

    findings: dict[int, list[Finding]]
    prefixes: Counter[tuple[int, int]]
    first_lines: dict[tuple[int, int], int]


class _TermsPlace(NamedTuple):
    part: int
    line: int
    meaning: TermsMeaning


class DuplicateSearch:
    """Searches sorted rows for rules of the same key."""

    def __init__(self, parts: Sequence[CollectedPart], files: Sequence[int], names: Sequence[str]) -> None:
        """``files``: the number of each part's file; ``names``: those of the files in findings."""
        self._files, self._names = files, names
        self._meanings = [[_meaning(terms) for terms in part.terms] for part in parts]

    def find(self, task: tuple[str, MergeTask]) -> Duplicates:
        """Search the rows of one task, which are of the named table."""
        table, rows_of = task
        size = rows_of.shape.key
        found = Duplicates({}, Counter(), {})
        is_prefix = table.startswith(EXPRESSION_TABLE) and key_length(table) < FULL_LENGTH
        for key, rows in groupby(sorted_rows(rows_of), lambda row: row[:size]):
            first, *others = rows
            if not (others or is_prefix):
                continue
            places = list(self._places([first, *others], size))
            if is_prefix:
                for file in {self._files[place.part] for place in places}:
                    found.prefixes[file, size] += 1
                for place in places:
                    at = self._files[place.part], size
                    found.first_lines[at] = min(place.line, found.first_lines.get(at, place.line))
            for place, finding in self._compare(places, f"sha256:{key.hex()}" if is_prefix else ""):
                found.findings.setdefault(place.part, []).append(finding)
        return found

    def _places(self, rows: Sequence[bytes], size: int) -> Iterator[_TermsPlace]:
        for row in rows:
            part, line, terms = PLACE.unpack_from(row, size)
            if terms != GUIDE:
                yield _TermsPlace(part, line, self._meanings[part][terms])

    def _compare(self, places: Sequence[_TermsPlace], what: str) -> Iterator[tuple[_TermsPlace, Finding]]:
        """The findings for rules of the same key."""
        firsts: dict[TermsMeaning, _TermsPlace] = {}
        for place in places:
            first = firsts.setdefault(place.meaning, place)
            if first is not place and (first.part, first.line) != (place.part, place.line):
                yield place, Finding(place.line, FindingKind.DUPLICATE, what, f"first in {self._where(first, place)}")
        if len(firsts) > 1:
            for place in places:
                if winner := self._winner(place, firsts.values()):
                    why = f"{self._where(winner, place)} has the same rule with {winner.meaning.action}, which beats it"
                    yield place, Finding(place.line, FindingKind.BEATEN, what, why)

    def _winner(self, place: _TermsPlace, others: Iterable[_TermsPlace]) -> _TermsPlace | None:
        """A rule of the same list that always beats this one; a rule of another list may be in another layer."""
        rank = FINAL.get(place.meaning.action)
        for other in others:
            own = FINAL.get(other.meaning.action, 0)
            is_same = self._files[other.part] == self._files[place.part]
            if rank and own > rank and is_same and other.meaning.expires is None:
                return other
        return None

    def _where(self, place: _TermsPlace, seen_from: _TermsPlace) -> str:
        file = self._files[place.part]
        return f"line {place.line}" if file == self._files[seen_from.part] else f"{self._names[file]}:{place.line}"


def _meaning(encoded: bytes) -> TermsMeaning:
    _, terms = decode_terms(encoded)
    return TermsMeaning(terms.action, terms.category, terms.expires)


class ShadowTask(NamedTuple):
    """A task: the rules of a part that may be covered."""

    part: int
    source: str
    layer: str
    candidates: Stored


def lint_shadowed(look: ShadowTask, file: Path) -> list[Finding]:
    """The shadowed rules of one part; the file is an index with all rules."""
    candidates, ranges = unspill(look.candidates)
    index = Index.open(file)
    return [*_expressions(index, look, candidates), *_ranges(index, look, ranges)]


def _expressions(index: Index, look: ShadowTask, candidates: Iterable[Candidate]) -> Iterator[Finding]:
    for (expression, line, action), cover in find_shadowed(index, look.layer, candidates):
        # A policy may treat different categories differently.
        same = action, cover.rule.terms.category
        if any((terms.action, terms.category) == same for terms in index.terms_of(expression, look.part)):
            yield _finding(line, expression.decode(), look.source, cover)


def _ranges(index: Index, look: ShadowTask, rules: Iterable[Rule]) -> Iterator[Finding]:
    for network, terms, line in rules:
        assert isinstance(network, IPv4Network | IPv6Network)
        address = str(network.network_address)
        matches = index.on_host(f"[{address}]".encode() if network.version == 6 else address.encode()).matches
        cover = next((own for own in matches if _covers(own.rule, network) and _same(own.rule.terms, terms)), None)
        if cover is not None:
            yield _finding(line, str(network), look.source, cover)


def _covers(rule: Rule, network: IPv4Network | IPv6Network) -> bool:
    """Whether a rule that fits a network's first address fits all of it, and more."""
    pattern = rule.pattern
    return isinstance(pattern, IPv4Network | IPv6Network) and pattern.prefixlen < network.prefixlen


def _same(wide: Terms, narrow: Terms) -> bool:
    return wide.expires is None and (wide.action, wide.category) == (narrow.action, narrow.category)


def _finding(line: int, what: str, source: str, cover: Match) -> Finding:
    rule = cover.rule
    place = f"line {rule.line}" if rule.terms.source == source else f"{rule.terms.source}:{rule.line}"
    return Finding(line, FindingKind.COVERED, what, f"{rule.pattern} covers it ({place})")
