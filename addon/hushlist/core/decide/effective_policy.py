"""The effective policy: the policy as it applies to one group at one moment.

The index gives everybody the same matches. The effective policy says which layers count, in which order, and which
action the policy gives to a category. That action overrides the list's: "a category's action is that of its nearest
hrn: superordinate that has one".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from hushlist.core.decide.decision import BY_CATEGORY, STOPPING, VIA_CATEGORY, Decision, decide, decides, is_exception
from hushlist.core.decide.verdict import NO_BLOCKS, Blocks
from hushlist.core.match.rule import FINAL, Action, Anything, ExpressionHash, Rule, Scope, Terms
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.groups import DEFAULT_LAYER, Group
from hushlist.core.policy.scheduled_action import ScheduledAction
from hushlist.core.system.memory import BoundedCache
from hushlist.core.url.hrn import parse_hrn

if TYPE_CHECKING:
    from hushlist.core.policy.recurrence import Schedule

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
        self.group, self.blocks, self.has_blocks = group, blocks, bool(blocks)
        named = [group.timetable[name] for name in of_rules if name in group.timetable]
        # In UTC: Python compares moments of one time zone by the clock's time, which repeats when summer time ends.
        self._now = now.astimezone(UTC)
        # schedule -> when it changes next; computed once, since that takes as long as hundreds of decisions
        changes = {schedule.name: schedule.next_change(now) for schedule in (*group.schedules.values(), *named)}
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
        if winner is None or winner.rule.terms.action not in FINAL or is_exception(winner):
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
        return counted._replace(rule=Rule(pattern, terms._replace(action=Action.TAG), line)) if stops else None

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
        action, timed = None, None
        if terms.category is not None and terms.action in BY_CATEGORY and self.group.settings.categories:
            action, timed, category_until = self._nearest[terms.category]
            until = _first(until, category_until)
        if action is None and terms.action is not Action.PASS:
            return match if until is None else match._replace(until=until)
        if action in (None, Action.PASS) or (action is Action.ALLOW and not _may_allow(match)):
            if terms.category is None or not self._keeps(terms.category):
                return None
            action = Action.TAG  # it passes, and its minutes count
            if timed is None:
                return match._replace(rule=Rule(pattern, terms._replace(action=action), line), until=until)
        says = f"{VIA_CATEGORY}{timed}" if match.via is None else f"{match.via}, {VIA_CATEGORY}{timed}"
        return match._replace(rule=Rule(pattern, terms._replace(action=action), line), via=says, until=until)

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


def _first(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)
