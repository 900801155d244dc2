"""From matches to a decision.

"The first layer in which a rule with a final action (allow, block or warn) matches decides. Within a layer the most
specific matching expression wins; at the same expression allow beats block, and block beats warn. Tags of every match
in every layer are always collected."
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hushlist.errors import UrlError
from hushlist.match.index import Match
from hushlist.match.rule import FINAL, Action
from hushlist.policy.grants import Grant
from hushlist.url.request import Request, canonical_url

#: what keeps a request from its origin
STOPPING = (Action.BLOCK, Action.WARN)
#: where the names and readings of one request disagree, the strictest holds
_STRICTEST_FIRST = (Action.BLOCK, Action.WARN, Action.ALLOW, Action.TAG, Action.PASS)


class Decision(NamedTuple):
    """What is done with a request, and everything that says why."""

    action: Action
    #: the canonical URL, of several that the request goes by, the one that decided; ``None`` where there is but one,
    #: which ``url`` makes of what was asked
    canonical: bytes | None = None
    #: every match in every layer, by layer, the most specific first; those of other names and readings behind them
    matches: tuple[Match, ...] = ()
    #: the match that decided; one of ``matches``
    winner: Match | None = None
    #: why the request could not be read, where that decided
    fault: str | None = None
    #: what was asked, with one name
    asked: Request | bytes = b""
    #: the group of clients for which it was decided
    group: str = ""
    #: what lets it pass for a while, where the matches would stop it
    grant: Grant | None = None

    @property
    def url(self) -> bytes:
        """The canonical URL; what was asked, where there is none."""
        if self.canonical is not None:
            return self.canonical
        try:
            return canonical_url(self.asked)
        except UrlError:
            return self.asked.url if isinstance(self.asked, Request) else self.asked

    def of(self, asked: Request | bytes) -> Decision:
        """The same for what was asked: by a request with one name, or by a URL."""
        return Decision(self.action, None, self.matches, self.winner, None, asked, self.group)

    def __str__(self) -> str:
        """Why, for people; empty where nothing fits."""
        why = self.fault or ("" if self.winner is None else str(self.winner))
        return why if self.grant is None else f"{self.grant}, or else: {why}"

    @property
    def tags(self) -> tuple[Match, ...]:
        """The matches that tag."""
        return tuple(found for found in self.matches if found.rule.terms.action is Action.TAG)

    def as_dict(self) -> dict[str, object]:
        """Plain types: str, int, None, list and dict."""
        return {
            "action": self.action.value,
            "canonical": self.url.decode("ascii", "backslashreplace"),
            "fault": self.fault,
            "group": self.group,
            "grant": None if self.grant is None else str(self.grant),
            "winner": None if self.winner is None else self.winner.as_dict(),
            "matches": [found.as_dict() for found in self.matches],
        }


def decide(layers: Sequence[str], matches: Iterable[Match], group: str = "") -> Decision:
    """The decision for a group, by matches of rules in layers, of which the first is asked first."""
    by_layer: dict[str, list[Match]] = {layer: [] for layer in layers}
    for match in matches:
        by_layer[match.rule.terms.layer].append(match)
    found = tuple(match for own in by_layer.values() for match in sorted(own, key=_precedence, reverse=True))
    # Sorted by layer and precedence, the first final match is the one that the first layer with any decides by.
    winner = next((match for match in found if match.rule.terms.action in FINAL), None)
    if winner is not None:
        return Decision(winner.rule.terms.action, None, found, winner, group=group)
    if found:
        return Decision(Action.TAG, None, found, found[0], group=group)
    return Decision(Action.PASS, group=group)


def _precedence(match: Match) -> tuple[tuple[int, int], int]:
    return match.specificity, FINAL.get(match.rule.terms.action, 0)


def strictest(decisions: Sequence[Decision]) -> Decision:
    """One decision for a request that goes by several names: the strictest, with the matches of all."""
    if len(decisions) == 1:
        return decisions[0]
    first = min(decisions, key=_strictness)
    matches = tuple(dict.fromkeys(found for decision in decisions for found in decision.matches))
    return first._replace(matches=matches)


def _strictness(decision: Decision) -> tuple[int, bool]:
    """Of two that are as strict, the one that says why comes first."""
    return _STRICTEST_FIRST.index(decision.action), not str(decision)
