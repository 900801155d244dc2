"""Which rules in the clear a broader rule covers, so that nothing would change without them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hushlist.match.compiler import Candidate
from hushlist.match.index import Host, Index, Match
from hushlist.match.rule import Action, Expression

_FINAL = (Action.ALLOW, Action.BLOCK)
#: hosts whose rules are remembered
_MOST_HOSTS = 1 << 16


def covered(index: Index, layer: str, candidates: Iterable[Candidate]) -> Iterator[tuple[Candidate, Match]]:
    """The candidates of a layer that are covered, each with the rule that covers it.

    That is the next broader one in the clear that allows or blocks in the same layer, if it does the same, for good.
    """
    hosts: dict[bytes, Host] = {}
    for candidate in candidates:
        expression, _, action = candidate
        name, _, path = expression.partition(b"/")
        if not path:
            name = name.partition(b".")[2]  # the host above: its own rule is none that covers it
        host = hosts.get(name)
        if host is None:
            if len(hosts) >= _MOST_HOSTS:
                hosts.clear()
            host = hosts[name] = index.on_host(name)
        broader: Sequence[Match] = host.matches
        if path and host.deeper:
            page, mark, query = path.partition(b"?")
            below = index.find_paths(host, b"/" + page, query if mark else None)
            broader = [*broader, *(match for match in below if match.expression != expression)]
        cover = _next(broader, layer) if broader else None
        if cover is not None and cover.rule.terms.action is action:
            yield candidate, cover


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
