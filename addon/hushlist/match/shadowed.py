"""Shadowed rules: rules in the clear that a broader rule makes redundant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from hushlist.match.index import Host, Index, Match
from hushlist.match.index_writer import Candidate
from hushlist.match.rule import FINAL, Expression
from hushlist.system.memory import BoundedCache

#: hosts in the cache
MOST_HOSTS = 1 << 14
#: candidates in one batch
_AT_ONCE = 1 << 12


def find_shadowed(index: Index, layer: str, candidates: Iterable[Candidate]) -> Iterator[tuple[Candidate, Match]]:
    """The covered candidates of a layer, each with the rule that covers it.

    That is the next broader final rule in the clear of the same layer, if it has the same action and never expires. If
    the layer's rules have different actions, a rule between the two may act differently. Then a candidate is covered
    only if there is certainly no such rule.
    """
    is_mixed = layer in index.directory.mixed
    hosts = BoundedCache(index.on_host, MOST_HOSTS)
    rest = iter(candidates)
    while some := list(islice(rest, _AT_ONCE)):
        above = index.known([*{suffix for expression, *_ in some for suffix in _above(expression)}])
        for candidate in some:
            expression, _, action = candidate
            name, _, path = expression.partition(b"/")
            if not path and above.isdisjoint(_above(expression)):
                continue
            host = hosts[name if path or is_mixed else name.partition(b".")[2]]
            matches: Sequence[Match] = host.matches
            if path and host.deeper:
                page, mark, query = path.partition(b"?")
                matches = [*matches, *index.find_paths(host, b"/" + page, query if mark else None)]
            final = [match for match in matches if match.rule.terms.layer == layer and match.rule.terms.action in FINAL]
            cover = _next(match for match in final if match.expression != expression)
            if cover is None or cover.rule.terms.action is not action:
                continue
            if not (is_mixed and _may_differ(candidate, cover, host, final)):
                yield candidate, cover


def _above(expression: bytes) -> list[bytes]:
    """The expressions of the parent domains of a whole host with at least two labels; none for a path."""
    found: list[bytes] = []
    if expression.endswith(b"/"):
        dot = expression.find(b".") + 1
        while (after := expression.find(b".", dot) + 1) > 0:
            found.append(expression[dot:])
            dot = after
    return found


def _next(matches: Iterable[Match]) -> Match | None:
    """The match in the clear that would decide; ``None`` if there is none, or it expires."""
    clear = (match for match in matches if isinstance(match.rule.pattern, Expression))
    cover = max(clear, key=_precedence, default=None)
    return None if cover is None or cover.rule.terms.expires is not None else cover


def _may_differ(candidate: Candidate, cover: Match, host: Host, final: Iterable[Match]) -> bool:
    """Whether some request that the candidate fits may get another action without it.

    The cause would be a rule at the same expression, or between it and the cover: a hash, or a rule for a path below a
    host between theirs. The index says only that there may be such paths.
    """
    expression, _, action = candidate
    if any(match.rule.terms.action is not action and _precedence(match) > _precedence(cover) for match in final):
        return True
    own, least = expression.index(b"/"), cover.expression.index(b"/")
    return any(least <= len(suffix) < own for suffix, _, _ in host.deeper)


def _precedence(match: Match) -> tuple[tuple[int, int], int]:
    return match.specificity, FINAL[match.rule.terms.action]
