"""Which rules in the clear a broader rule covers, so that nothing would change without them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from hushlist.match.compiler import Candidate
from hushlist.match.index import Host, Index, Match
from hushlist.match.recent import Recent
from hushlist.match.rule import FINAL, Expression

#: hosts whose rules are remembered
_MOST_HOSTS = 1 << 14
#: candidates that are looked at together
_AT_ONCE = 1 << 12


def covered(index: Index, layer: str, candidates: Iterable[Candidate]) -> Iterator[tuple[Candidate, Match]]:
    """The candidates of a layer that are covered, each with the rule that covers it.

    That is the next broader one in the clear that is final in the same layer, if it does the same, for good.
    Where those of a layer do different things, a rule in between may do something else: then a candidate counts as
    covered only if certainly none does.
    """
    is_mixed = layer in index.directory.mixed
    hosts = Recent(index.on_host, _MOST_HOSTS)
    for some in _batches(candidates):
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
            final = [match for match in matches if match.rule.terms.layer == layer and _is_final(match)]
            cover = _next(match for match in final if match.expression != expression)
            if cover is None or cover.rule.terms.action is not action:
                continue
            if not (is_mixed and _may_differ(candidate, cover, host, final)):
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


def _is_final(match: Match) -> bool:
    return match.rule.terms.action in FINAL


def _next(matches: Iterable[Match]) -> Match | None:
    """The one in the clear that would decide; ``None`` where there is none, or it will expire."""
    clear = (match for match in matches if isinstance(match.rule.pattern, Expression))
    cover = max(clear, key=_precedence, default=None)
    return None if cover is None or cover.rule.terms.expires is not None else cover


def _may_differ(candidate: Candidate, cover: Match, host: Host, final: Iterable[Match]) -> bool:
    """Whether something else may be done, without a candidate, with some of what it fits.

    That is what a rule at the same expression would do, or one between it and the cover: a hash, or one for a path
    below a host between theirs, of which the index tells no more than that there may be some.
    """
    expression, _, action = candidate
    if any(match.rule.terms.action is not action and _precedence(match) > _precedence(cover) for match in final):
        return True
    own, least = expression.index(b"/"), cover.expression.index(b"/")
    return any(least <= len(suffix) < own for suffix, _, _ in host.deeper)


def _precedence(match: Match) -> tuple[tuple[int, int], int]:
    return match.specificity, FINAL[match.rule.terms.action]
