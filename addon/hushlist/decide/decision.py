"""From matches to a decision.

The first layer in which a rule with a final action (allow, block or warn) matches decides. Within a layer the most
specific match wins; of two that are as specific, allow beats block, and block beats warn. The tags of every match in
every layer that is asked are collected (reading 12 of ``addon/README.md``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hushlist.errors import UrlError, printable
from hushlist.match.index import Match
from hushlist.match.rule import FINAL, Action
from hushlist.policy.groups import Client, GroupSettings
from hushlist.unblock.grants import Grant
from hushlist.url.parts import split_web
from hushlist.url.request import Request, canonical_url

#: actions that keep a request from its origin
STOPPING = (Action.BLOCK, Action.WARN)
#: when the names or path interpretations of one request disagree, the strictest action holds
_STRICTEST_FIRST = (Action.BLOCK, Action.WARN, Action.ALLOW, Action.TAG, Action.PASS)


class Decision(NamedTuple):
    """The action for a request, and the reasons for it."""

    action: Action
    #: the canonical URL that decided, if the request has several; ``None`` if it has one, which ``url`` computes
    canonical: bytes | None = None
    #: every match, by layer, the most specific first; then the matches of other names and path interpretations
    matches: tuple[Match, ...] = ()
    #: the match in ``matches`` that decided
    winner: Match | None = None
    #: why the request could not be read, if that decided
    fault: str | None = None
    #: the request with one name, or the URL
    asked: Request | bytes = b""
    #: the client's group
    group: str = ""
    #: the temporary exception that lets it pass, if the matches would stop it
    grant: Grant | None = None

    @property
    def url(self) -> bytes:
        """The canonical URL, or the URL as requested if it cannot be canonicalized."""
        if self.canonical is not None:
            return self.canonical
        try:
            return canonical_url(self.asked)
        except UrlError:
            return self.asked.url if isinstance(self.asked, Request) else self.asked

    def of(self, asked: Request | bytes) -> Decision:
        """The same decision for a request with one name, or for a URL."""
        return Decision(self.action, None, self.matches, self.winner, None, asked, self.group)

    def __str__(self) -> str:
        """The reason, for people; empty if no rule fits."""
        why = self.fault or ("" if self.winner is None else str(self.winner))
        return printable(why if self.grant is None else f"{self.grant}, or else: {why}")

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


class Judgement(NamedTuple):
    """A request that was decided, and all that its further way needs: what is carried out, logged and shown."""

    request: Request
    client: Client
    #: of the client's group, with the effective mode; the mode is never ``off``
    settings: GroupSettings
    decision: Decision
    #: time of the decision, in ns
    duration: int
    #: reference in the log
    reference: str | None = None

    @property
    def stops(self) -> bool:
        """Whether it is kept from its origin."""
        return self.decision.action in STOPPING and self.settings.mode == "block"

    @property
    def would_block(self) -> bool:
        """Whether it would be stopped, but passes in the dry run."""
        return self.decision.action in STOPPING and self.settings.mode == "tag"

    def recorded(self, reference: str | None) -> Judgement:
        """The same with its reference in the log, and its canonical URL: computed once for all that is told of it."""
        decision = self.decision
        if decision.action is not Action.PASS:
            decision = decision._replace(canonical=decision.url)
        return self._replace(decision=decision, reference=reference)

    @property
    def host(self) -> bytes | None:
        """The host of the canonical URL; ``None`` if the request cannot be read."""
        return split_web(self.decision.url).host if self.decision.fault is None else None


def decide(layers: Sequence[str], matches: Iterable[Match], group: str = "") -> Decision:
    """The decision for a group; ``layers`` are in order of precedence."""
    by_layer: dict[str, list[Match]] = {layer: [] for layer in layers}
    for match in matches:
        by_layer[match.rule.terms.layer].append(match)
    found = tuple(match for own in by_layer.values() for match in sorted(own, key=_precedence, reverse=True))
    # The matches are sorted by layer and precedence, so the first final one decides.
    winner = next((match for match in found if match.rule.terms.action in FINAL), None)
    if winner is not None:
        return Decision(winner.rule.terms.action, None, found, winner, group=group)
    if found:
        return Decision(Action.TAG, None, found, found[0], group=group)
    return Decision(Action.PASS, group=group)


def _precedence(match: Match) -> tuple[tuple[int, int], int]:
    return match.specificity, FINAL.get(match.rule.terms.action, 0)


def strictest(decisions: Sequence[Decision]) -> Decision:
    """The strictest of the decisions for a request's names, with the matches of all of them."""
    if len(decisions) == 1:
        return decisions[0]
    first = min(decisions, key=_strictness)
    matches = tuple(dict.fromkeys(found for decision in decisions for found in decision.matches))
    return first._replace(matches=matches)


def _strictness(decision: Decision) -> tuple[int, bool]:
    """If two are equally strict, the one with a reason comes first."""
    return _STRICTEST_FIRST.index(decision.action), not str(decision)
