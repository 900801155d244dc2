"""Which rules in the clear a broader rule covers, so that nothing would change without them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from hushlist.match.compiler import Candidate
from hushlist.match.index import Host, Index, Match
from hushlist.match.recent import Recent
from hushlist.match.rule import Action, Expression

_FINAL = (Action.ALLOW, Action.BLOCK)
#: hosts whose rules are remembered
_MOST_HOSTS = 1 << 14
#: candidates that are looked at together
_AT_ONCE = 1 << 12


def covered(index: Index, layer: str, candidates: Iterable[Candidate]) -> Iterator[tuple[Candidate, Match]]:
    """The candidates of a layer that are covered, each with the rule that covers it.

    That is the next broader one in the clear that allows or blocks in the same layer, if it does the same, for good.
    """
    hosts = Recent(index.on_host, _MOST_HOSTS)
    for some in _batches(candidates):
        above = index.known([*{suffix for expression, *_ in some for suffix in _above(expression)}])
        for candidate in some:
            expression, _, action = candidate
            name, _, path = expression.partition(b"/")
            if path:
                broader = _broader(index, hosts[name], path, expression)
            elif above.isdisjoint(_above(expression)):
                continue
            else:
                broader = hosts[name.partition(b".")[2]].matches
            cover = _next(broader, layer)
            if cover is not None and cover.rule.terms.action is action:
                yield candidate, cover


def _batches(candidates: Iterable[Candidate]) -> Iterator[list[Candidate]]:
    rest = iter(candidates)
    while some := list(islice(rest, _AT_ONCE)):
        yield some


def _above(expression: bytes) -> list[bytes]:
    """The expressions of the hosts above a whole host, those of at least two labels; none for a path."""
    found: list[bytes] = []
    if expression.endswith(b"/"):
        dot = expression.find(b".") + 1
        while (after := expression.find(b".", dot) + 1) > 0:
            found.append(expression[dot:])
            dot = after
    return found


def _broader(index: Index, host: Host, path: bytes, expression: bytes) -> Sequence[Match]:
    page, mark, query = path.partition(b"?")
    below = index.find_paths(host, b"/" + page, query if mark else None)
    return [*host.matches, *(match for match in below if match.expression != expression)]


def _next(matches: Iterable[Match], layer: str) -> Match | None:
    """The one that would decide, of matches in a layer; ``None`` where there is none, or it will expire."""
    final = (
        match
        for match in matches
        if isinstance(match.rule.pattern, Expression)
        and match.rule.terms.layer == layer
        and match.rule.terms.action in _FINAL
    )
    cover = max(final, key=lambda match: (match.specificity, match.rule.terms.action is Action.ALLOW), default=None)
    return None if cover is None or cover.rule.terms.expires is not None else cover
