"""From matches to a decision, by the policy as it applies to one group at one moment: the effective policy.

The index gives everybody the same matches. The effective policy says which layers count, in which order, and which
action the policy gives to a category. That action overrides the list's: "a category's action is that of its nearest
hrn: superordinate that has one".

The first layer in which a rule with a final action (allow, block or warn) matches decides. Within a layer the most
specific match wins; of two that are as specific, allow beats block, and block beats warn. An exception of an Adblock
list lifts what stops in its layer, and later layers decide (reading 24). The tags of every match in every layer that is
asked are collected (reading 12 of ``addon/readings.md``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import NamedTuple

from hushlist.core.decide.verdict import NO_BLOCKS, Blocks, Grant, Question
from hushlist.core.errors import Excess, UrlError, printable, without_user
from hushlist.core.match.rule import FINAL, Action, Anything, ExpressionHash, FilterPattern, Rule, Scope, Terms
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.groups import DEFAULT_LAYER, Client, Group, GroupSettings, LayerUse
from hushlist.core.policy.recurrence import Schedule
from hushlist.core.policy.schedule import ScheduledAction
from hushlist.core.system.memory import BoundedCache
from hushlist.core.url.hrn import parse_hrn
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
    host = request.hosts[0] if request.hosts else b""
    if host == request.destination:
        host = next((name for name in request.hosts if name != host), host)
    url = to_bytes(without_user(request.url_by(host)))
    canonical = decision.url
    shown = without_user(canonical)
    if url == shown:
        return None
    plain = percent_decode_repeatedly(url)
    if plain != without_user(plain) or (decision.fault is not None and b"@" in plain):
        return None
    if b"%" in host and _DELIMITER.search(percent_decode_repeatedly(host)):
        return None
    # "url" may have in other letters what was left out of "shown": a tab between two slashes, or an escaped "#"
    return url if shown == canonical or _canonical(url) == shown else None


#: what ends a host, or the user information before it
_DELIMITER = re.compile(rb"[:/?#@\\]")


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
    elif counted and _is_exception(counted[0]):
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
    for of_layer in by_layer.values():
        of_layer.sort(key=_precedence, reverse=True)
        if any(map(_is_exception, of_layer)):
            of_layer, beaten = _except(of_layer)
            lifted += beaten
        counted += of_layer
    return tuple(counted), tuple(lifted)


def decides(match: Match) -> bool:
    """Whether a match may decide a request."""
    pattern = match.rule.pattern
    return not isinstance(pattern, FilterPattern) or pattern.decides


def _is_exception(match: Match) -> bool:
    pattern = match.rule.pattern
    return isinstance(pattern, FilterPattern) and pattern.is_exception


def _except(matches: Sequence[Match]) -> tuple[list[Match], list[Match]]:
    """What counts of a layer's sorted matches; and its exceptions, with what they lift: what stops and is below them.

    An exception is about its layer alone, and does nothing where nothing is lifted.
    """
    first = next(place for place, match in enumerate(matches) if _is_exception(match))
    above, below = matches[:first], matches[first:]
    beaten = [match for match in below if match.rule.terms.action in STOPPING]
    counted = [
        *above,
        *(match for match in below if not _is_exception(match) and match.rule.terms.action not in STOPPING),
    ]
    is_decided = any(match.rule.terms.action in FINAL for match in above)
    return counted, [*filter(_is_exception, below), *beaten] if beaten or is_decided else []


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
_BY_CATEGORY = "category by "


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
    return match.rule.terms.action is not Action.ALLOW or _BY_CATEGORY in (match.via or "")


# -- the effective policy ----------------------------------------------------------------------------------------------

#: less specific than an address range of no bits
_LEAST = (-2, 0)
_MOST_CATEGORIES = 1 << 12

#: the action that holds now, who says so, and until when
_Said = tuple[Action | None, ScheduledAction | None, datetime | None]


class _Moment(NamedTuple):
    """What is said at a moment. No cache of an effective policy knows that itself: it is gone with its last user."""

    #: in UTC
    now: datetime
    #: schedule -> when it changes next
    changes: Mapping[str, datetime | None]

    def change(self, schedule: Schedule | None) -> datetime | None:
        return None if schedule is None else self.changes[schedule.name]

    def of(self, timed: ScheduledAction | None) -> _Said:
        """What is said: for the group, or else for everybody."""
        until: datetime | None = None
        for step in () if timed is None else timed.chain():
            until = _first(until, self.change(step.during))
            if (action := step.at(self.now)) is not None:
                return action, step, until
        return None, None, until

    def of_category(self, categories: Mapping[str, ScheduledAction], category: str) -> _Said:
        """What is said of a category or its nearest superordinate that has an action.

        It may end early: a nearer superordinate without an action now may get one before this one's ends.
        """
        until: datetime | None = None
        for name in parse_hrn(category).levels():
            action, timed, changes = self.of(categories.get(name))
            until = _first(until, changes)
            if action is not None:
                return action, timed, until
        return None, None, until


class EffectivePolicy:
    """The policy for one group at one moment."""

    def __init__(self, group: Group, now: datetime, blocks: Blocks = NO_BLOCKS, of_rules: Iterable[str] = ()) -> None:
        """``now`` has a time zone; ``blocks`` are those of administrators, beside the rules; ``of_rules``: the
        schedules that rules name.
        """
        self.group, self.blocks = group, blocks
        named = [group.timetable[name] for name in of_rules if name in group.timetable]
        # In UTC: Python compares moments of one time zone by the clock's time, which repeats when summer time ends.
        self._now = now.astimezone(UTC)
        # schedule -> when it changes next; computed once, since that takes as long as hundreds of decisions
        changes = {schedule.name: schedule.next_change(now) for schedule in (*_schedules(group), *named)}
        said = _Moment(self._now, changes)
        uses = [use for use in group.layers if use.during is None or use.during.is_on(now)]
        #: layer that counts now -> until when
        self._layers = {use.name: said.change(use.during) for use in uses}
        self.layers = (*self._layers, DEFAULT_LAYER)
        self._default = _default_match(said, group.settings.default)
        #: categories that have a quota, or are blocked for somebody
        self._kept = blocks.categories.union(quota.category for quota in group.settings.of("quotas"))
        #: category -> what is said of it now
        self._nearest = BoundedCache(partial(said.of_category, group.settings.categories), _MOST_CATEGORIES)
        #: whether it is the same at every moment, past moments included
        self.is_timeless = not changes
        #: the first moment at which it changes, or ``None``
        self.until = _first(*changes.values())
        #: of the schedules that rules name, those that are on -> until when
        self._on = {schedule.name: said.changes[schedule.name] for schedule in named if schedule.is_on(now)}
        #: the decision if no rule fits
        self.nothing = self.decide(())

    def holds_at(self, now: datetime) -> bool:
        """Whether this is the effective policy at a moment."""
        return self.is_timeless or (self._now <= now and (self.until is None or now < self.until))

    def is_decided_before(self, layer: str, decision: Decision) -> bool:
        """Whether a layer has no say in a decision: it is not asked, or one before it decides."""
        winner = decision.winner
        if layer not in self.layers:
            return True
        if winner is None or winner.rule.terms.action not in FINAL or _is_exception(winner):
            return False
        return self.layers.index(winner.rule.terms.layer) < self.layers.index(layer)

    def decide(self, matches: Iterable[Match]) -> Decision:
        """The decision that the matches lead to."""
        counted = [as_said for match in matches if (as_said := self._as_policy_says(match)) is not None]
        if self._default is not None:
            counted.append(self._default)
        return decide(self.layers, counted, self.group.name)

    @property
    def allows_categories(self) -> bool:
        """Whether the policy may turn a rule that stops into one that allows, by its category."""
        said = (step for timed in self.group.settings.categories.values() for step in timed.chain())
        return any(Action.ALLOW in (step.action, step.otherwise) for step in said)

    def allows(self, match: Match) -> bool:
        """Whether a match counts and allows, by its list or by its category."""
        as_said = self._as_policy_says(match)
        return as_said is not None and as_said.rule.terms.action is Action.ALLOW

    def counts(self, terms: Terms) -> bool:
        """Whether rules of these terms count now: their layer is asked, and they are for this group."""
        return terms.layer in self._layers and (terms.scope is None or self._is_for(terms.scope))

    def _is_for(self, scope: Scope) -> bool:
        return (not scope.groups or self.group.name in scope.groups) and (not scope.during or scope.during in self._on)

    def _as_policy_says(self, match: Match) -> Match | None:
        """The match as it counts; ``None`` if it does not. What decides no request is a tag where it would stop it."""
        counted = self._by_category(match)
        if counted is None or decides(counted):
            return counted
        pattern, terms, line = counted.rule
        stops = terms.action in STOPPING
        return counted._replace(rule=Rule(pattern, replace(terms, action=Action.TAG), line)) if stops else None

    def _by_category(self, match: Match) -> Match | None:
        """The match with the action that the policy gives to its category; ``None`` if it does not count.

        Matches that allow or tag keep their action: a list's exception does not belong to the list's category.
        """
        pattern, terms, line = match.rule
        if not self.counts(terms):
            return None
        until = self._layers[terms.layer]
        if terms.scope is not None:
            until = _first(until, self._on.get(terms.scope.during))
            match = match._replace(via=", ".join(filter(None, (match.via, str(terms.scope)))))
        said: _Said = (None, None, None)
        if terms.category is not None and terms.action in BY_CATEGORY and self.group.settings.categories:
            said = self._nearest[terms.category]
        action, timed, category_until = said
        until = _first(until, category_until)
        if action is None and terms.action is not Action.PASS:
            return match if until is None else match._replace(until=until)
        if action in (None, Action.PASS) or (action is Action.ALLOW and not _may_allow(match)):
            if terms.category is None or not self._keeps(terms.category):
                return None
            action = Action.TAG  # it passes, and its minutes count
            if timed is None:
                return match._replace(rule=Rule(pattern, replace(terms, action=action), line), until=until)
        says = f"{_BY_CATEGORY}{timed}" if match.via is None else f"{match.via}, {_BY_CATEGORY}{timed}"
        return match._replace(rule=Rule(pattern, replace(terms, action=action), line), via=says, until=until)

    def _keeps(self, category: str) -> bool:
        return bool(self._kept) and any(name in self._kept for name in parse_hrn(category).levels())


def _default_match(said: _Moment, default: ScheduledAction | None) -> Match | None:
    action, timed, until = said.of(default)
    if timed is None or action is None or action is Action.PASS:
        return None
    during = "" if timed.during is None else f" (schedule {timed.during.name})"
    reason = f"Only what is allowed passes{during}"
    terms = Terms(action, "policy", timed.source, reason=reason, layer=DEFAULT_LAYER)
    return Match(Rule(Anything(), terms, timed.line), b"*", _LEAST, until=until)


def _may_allow(match: Match) -> bool:
    """ "A prefix that an attacker can collide with must never open a door"."""
    pattern = match.rule.pattern
    return not isinstance(pattern, ExpressionHash) or pattern.is_full


def _schedules(group: Group) -> Iterator[Schedule]:
    """All schedules that change something for a group."""
    settings = group.settings
    timed = (*settings.categories.values(), *filter(None, [settings.default]))
    by: list[ScheduledAction | LayerUse] = [*group.layers, *(step for action in timed for step in action.chain())]
    return (item.during for item in by if item.during is not None)


def _first(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)
