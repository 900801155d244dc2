"""From matches to a decision, and what becomes of it.

The first layer in which a rule with a final action (allow, block or warn) matches decides. Within a layer the most
specific match wins; of two that are as specific, allow beats block, and block beats warn. An exception of an Adblock
list lifts what stops in its layer, and later layers decide (reading 24). The tags of every match in every layer that is
asked are collected (reading 12 of ``addon/readings.md``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, tzinfo
from functools import partial
from typing import NamedTuple

from hushlist.core.decide.verdict import Grant, Question
from hushlist.core.errors import Excess, UrlError, printable, without_user
from hushlist.core.match.rule import FINAL, Action, Anything, FilterPattern, Terms
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.groups import Client, GroupSettings
from hushlist.core.system.late_pattern import late_pattern
from hushlist.core.url.normalization import percent_decode_repeatedly
from hushlist.core.url.parts import split_web, to_bytes
from hushlist.core.url.request import Request, canonical_url

#: actions that keep a request from its origin
STOPPING = (Action.BLOCK, Action.WARN)
#: actions of rules in whose place the action of a category comes
BY_CATEGORY = (*STOPPING, Action.PASS)
#: how much these stop; whatever else is decided, 0
SEVERITY = {Action.WARN: 1, Action.BLOCK: 2}
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
    request: Request | bytes = b""
    #: the client's group
    group: str = ""
    #: the temporary exception that lets it pass, if the matches would stop it
    grant: Grant | None = None
    #: what has to be asked to be sure; without it, prefixes that fit were decided as the policy says for no answer
    unconfirmed: tuple[Question, ...] = ()
    #: the canonical hosts in whose requests the address stands that decided, the outermost first
    inside: tuple[bytes, ...] = ()

    @property
    def url(self) -> bytes:
        """The canonical URL, or the URL as requested if it cannot be canonicalized."""
        if self.canonical is not None:
            return self.canonical
        try:
            return canonical_url(self.request)
        except UrlError:
            return self.request.url if isinstance(self.request, Request) else self.request

    def of(self, request: Request | bytes) -> Decision:
        """The same decision for a request with one name, or for a URL."""
        action, _, matches, winner, fault, _, group, _, unconfirmed, inside = self
        return _new_decision((action, None, matches, winner, fault, request, group, None, unconfirmed, inside))

    def __str__(self) -> str:
        """The reason, for people; empty if no rule fits."""
        return self.told_in(UTC)

    def told_in(self, zone: tzinfo) -> str:
        """The same, by the clock of a time zone."""
        why = self.fault or ("" if self.winner is None else str(self.winner))
        return printable(why if self.grant is None else f"{self.grant.told_in(zone)}, or else: {why}")

    @property
    def tags(self) -> tuple[Match, ...]:
        return tuple(match for match in self.matches if match.rule.terms.action is Action.TAG)

    def as_dict(self) -> dict[str, object]:
        """Plain types: str, int, None, list and dict."""
        return {
            "action": self.action.value,
            "canonical": self.url.decode("ascii", "backslashreplace"),
            "fault": self.fault,
            "group": self.group,
            "grant": None if self.grant is None else str(self.grant),
            "winner": None if self.winner is None else self.winner.as_dict(),
            "matches": [match.as_dict() for match in self.matches],
            **({"inside": [host.decode("ascii", "backslashreplace") for host in self.inside]} if self.inside else {}),
            **({"unconfirmed": [question.as_dict() for question in self.unconfirmed]} if self.unconfirmed else {}),
        }


#: makes a decision of all its fields, in half the time
_new_decision: Callable[[tuple[object, ...]], Decision] = partial(tuple.__new__, Decision)


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
        return self.settings.mode == "block" and self.decision.action in STOPPING

    @property
    def would_block(self) -> bool:
        """Whether it would be stopped, but passes in the dry run."""
        return self.settings.mode == "tag" and self.decision.action in STOPPING

    def recorded(self, reference: str | None) -> Judgement:
        """The same with its reference in the log, and its canonical URL: computed once for all that is told of it."""
        decision = self.decision
        if decision.action is not Action.PASS:
            return self._replace(decision=decision._replace(canonical=decision.url), reference=reference)
        return self if reference is None else self._replace(reference=reference)

    @property
    def original(self) -> str | None:
        """The URL as sent, as ``original_url`` gives it, for people."""
        url = original_url(self.decision, self.request)
        return None if url is None else url.decode("ascii", "backslashreplace")

    @property
    def host(self) -> bytes | None:
        """The host of the canonical URL; ``None`` if the request cannot be read."""
        return split_web(self.decision.url).host if self.decision.fault is None else None


#: octets of memory that a header field takes besides its own
_OF_A_FIELD = 128


class LogRecord(NamedTuple):
    """One decision and its client, for logs and numbers; cheap to make, formatted only when written."""

    #: the number that the block page shows
    reference: str
    #: seconds since 1970
    moment: float
    decision: Decision
    #: the address; and the user's name in the proxy, never a password
    client: str | None = None
    user: str | None = None
    group: str | None = None
    method: str | None = None
    #: dry run: the request would be blocked, but passed
    would_block: bool = False
    #: the temporary override that let it pass
    grant: str | None = None
    #: time of the decision, in µs
    duration: int | None = None
    #: as the client sent it
    request: Request | None = None

    @property
    def octets(self) -> int:
        """About how many octets of memory it holds, with those of the request's header fields, which it keeps."""
        request = self.request or self.decision.request
        if not isinstance(request, Request):
            return len(request)
        return len(request.target) + sum([_OF_A_FIELD + len(name) + len(value) for name, value in request.fields])


def original_url(decision: Decision, request: Request) -> bytes | None:
    """The URL as the client sent it, with its port; ``None`` if that is the canonical URL.

    "Its original form MUST be preserved" (draft-ietf-iri-comparison-00, 4.2.3). User information is left out. Escapes
    may hide some, which the canonical URL shows and others find: then there is no original.
    """
    canonical = decision.url
    if decision.fault is None and request.is_written(canonical):  # as most
        return None
    host = request.hosts[0] if request.hosts else b""
    if host == request.destination:
        host = next((name for name in request.hosts if name != host), host)
    url = to_bytes(without_user(request.url_by(host)))
    shown = without_user(canonical)
    if url == shown:
        return None
    plain = percent_decode_repeatedly(url) if b"@" in url or _MAY_MAKE_AT.search(url) else b""
    if plain != without_user(plain) or (decision.fault is not None and b"@" in plain):
        return None
    if b"%" in host and _DELIMITER.search(percent_decode_repeatedly(host)):
        return None
    # "url" may have in other letters what was left out of "shown": a tab between two slashes, or an escaped "#"
    return url if shown == canonical or _canonical(url) == shown else None


#: an escape of "@", or one that makes another escape
_MAY_MAKE_AT = late_pattern(rb"%(?:40|25|3[0-9]|[46][1-6])")
#: what ends a host, or the user information before it
_DELIMITER = late_pattern(rb"[:/?#@\\]")


def _canonical(url: bytes) -> bytes | None:
    try:
        return canonical_url(url)
    except UrlError:
        return None


def decide(layers: Sequence[str], matches: Iterable[Match], group: str = "") -> Decision:
    """The decision for a group; ``layers`` are in order of precedence."""
    counted: tuple[Match, ...] = (*matches,)
    lifted: tuple[Match, ...] = ()
    if len(counted) > 1:
        counted, lifted = _in_order(layers, counted)
    elif counted and is_exception(counted[0]):
        counted = ()
    # The matches are sorted by layer and precedence, so the first final one decides.
    winner = next((match for match in counted if match.rule.terms.action in FINAL), None)
    if winner is not None:
        return Decision(winner.rule.terms.action, None, counted + lifted, winner, group=group)
    if lifted:
        return Decision(Action.ALLOW, None, lifted + counted, lifted[0], group=group)
    if counted:
        return Decision(Action.TAG, None, counted, counted[0], group=group)
    return Decision(Action.PASS, group=group)


def _in_order(layers: Sequence[str], matches: Sequence[Match]) -> tuple[tuple[Match, ...], tuple[Match, ...]]:
    """The matches that count, by layer and precedence; and exceptions, with the matches that they lift."""
    by_layer: dict[str, list[Match]] = {layer: [] for layer in layers}
    for match in matches:
        by_layer[match.rule.terms.layer].append(match)
    counted: list[Match] = []
    lifted: list[Match] = []
    for of_layer in filter(None, by_layer.values()):
        of_layer.sort(key=_precedence, reverse=True)
        if any(map(is_exception, of_layer)):
            of_layer, beaten = _except(of_layer)
            lifted += beaten
        counted += of_layer
    return tuple(counted), tuple(lifted)


def decides(match: Match) -> bool:
    """Whether a match may decide a request."""
    pattern = match.rule.pattern
    return not isinstance(pattern, FilterPattern) or pattern.decides


def is_exception(match: Match) -> bool:
    pattern = match.rule.pattern
    return isinstance(pattern, FilterPattern) and pattern.is_exception


def _except(matches: Sequence[Match]) -> tuple[list[Match], list[Match]]:
    """What counts of a layer's sorted matches; and its exceptions, with what they lift: what stops and is below them.

    An exception is about its layer alone, and does nothing where nothing is lifted.
    """
    first = next(place for place, match in enumerate(matches) if is_exception(match))
    above, below = matches[:first], matches[first:]
    beaten = [match for match in below if match.rule.terms.action in STOPPING]
    counted = [
        *above,
        *(match for match in below if not is_exception(match) and match.rule.terms.action not in STOPPING),
    ]
    is_decided = any(match.rule.terms.action in FINAL for match in above)
    return counted, [*filter(is_exception, below), *beaten] if beaten or is_decided else []


def _precedence(match: Match) -> tuple[tuple[int, int], int]:
    return match.specificity, FINAL.get(match.rule.terms.action, 0)


def decide_unread(unparsable: Action, url: bytes, fault: str) -> Decision:
    """The decision for what cannot be read, by the policy's ``unparsable``; what is too long or too much is blocked."""
    return Decision(Action.BLOCK if isinstance(fault, Excess) else unparsable, url, fault=fault)


def is_strictest(decision: Decision) -> bool:
    """Whether no other decision for the same request could be stricter, or take its place."""
    has_reason = decision.fault is not None or decision.winner is not None
    return decision.action is Action.BLOCK and has_reason and not decision.unconfirmed


def strictest(decisions: Sequence[Decision]) -> Decision:
    """The strictest of the decisions for a request's names, with the matches of all of them."""
    if len(decisions) == 1:
        return decisions[0]
    first = min(decisions, key=_strictness)
    matches = tuple(dict.fromkeys(match for decision in decisions for match in decision.matches))
    unconfirmed = tuple(dict.fromkeys(question for decision in decisions for question in decision.unconfirmed))
    return first._replace(matches=matches, unconfirmed=unconfirmed)


def _strictness(decision: Decision) -> tuple[int, bool, bool]:
    """If two are equally strict, the one by a grant comes first, which ends; then the one with a reason."""
    why = decision.fault or decision.winner
    return _STRICTEST_FIRST.index(decision.action), decision.grant is None, not why


#: how a match says that its action is the category's
VIA_CATEGORY = "category by "


def own_categories(decision: Decision) -> Iterator[str]:
    """The categories of a request, with which it can be blocked: those of the rules that fit.

    What a rule allows is of none, unless it is the policy that allows the category. So a site that one's own rules
    allow is not blocked with its category, and neither is what a list excepts.
    """
    winner = decision.winner
    if winner is None or _has_category(winner) or winner.rule.terms.action is not Action.ALLOW:
        for match in decision.matches:
            if match.rule.terms.category is not None and decides(match) and _has_category(match):
                yield match.rule.terms.category


def _has_category(match: Match) -> bool:
    return match.rule.terms.action is not Action.ALLOW or VIA_CATEGORY in (match.via or "")


def without_default(decision: Decision) -> Decision:
    """The decision without the policy's default action."""
    if decision.winner is None or not isinstance(decision.winner.rule.pattern, Anything):
        return decision
    matches = tuple(match for match in decision.matches if not isinstance(match.rule.pattern, Anything))
    if not matches:
        return decision._replace(action=Action.PASS, matches=(), winner=None, grant=None)
    return decision._replace(action=Action.TAG, matches=matches, winner=matches[0], grant=None)


def from_inside(
    decision: Decision, layers: Sequence[str], carriers: Sequence[bytes], counts: Callable[[Terms], bool] | None
) -> Decision:
    """The decision by the rules for an address inside another request: by those that say anything of it, which allow
    nothing. ``carriers``: the hosts that carry it; ``counts``: as in ``readings.Inner``.
    """
    if decision.fault is not None:
        return decision
    inside = "".join(f", inside {host.decode('ascii', 'replace')}" for host in reversed(carriers))
    matches = [
        match._replace(via=f"{match.via or ''}{inside}".removeprefix(", "))
        for match in decision.matches
        if decides(match) and (counts is None or counts(match.rule.terms))
    ]
    by_rules = decide(layers, matches, decision.group)
    if by_rules.action is Action.ALLOW:
        return Decision(Action.PASS, group=decision.group)
    return by_rules._replace(unconfirmed=decision.unconfirmed)
