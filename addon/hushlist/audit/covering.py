"""Rules that a broader one covers, in the same list or in another."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import NamedTuple

from hushlist.audit.finding import Finding, Kind
from hushlist.match.compiler import Candidate, Stored, load
from hushlist.match.cover import covered
from hushlist.match.index import Index, Match
from hushlist.match.rule import Rule, Terms


class Look(NamedTuple):
    """A task: the rules of a part that may be covered, and the file of an index with all rules."""

    file: Path
    part: int
    source: str
    layer: str
    candidates: Stored


def find_covered(look: Look) -> list[Finding]:
    """Those of one part."""
    candidates, ranges = pickle.loads(load(look.candidates))  # noqa: S301  we wrote it, into a folder of our own
    index = Index.open(look.file)
    return [*_expressions(index, look, candidates), *_ranges(index, look, ranges)]


def _expressions(index: Index, look: Look, candidates: Iterable[Candidate]) -> Iterator[Finding]:
    for (expression, line, action), cover in covered(index, look.layer, candidates):
        # A policy may treat another category in another way.
        same = action, cover.rule.terms.category
        if any((terms.action, terms.category) == same for terms in index.terms_of(expression, look.part)):
            yield _finding(line, expression.decode(), look.source, cover)


def _ranges(index: Index, look: Look, rules: Iterable[Rule]) -> Iterator[Finding]:
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
    return Finding(line, Kind.COVERED, what, f"{rule.pattern} covers it ({place})")
