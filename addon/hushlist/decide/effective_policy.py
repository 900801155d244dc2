"""The effective policy: a policy as it applies to one group at one moment, and until when.

The index gives everybody the same matches. The effective policy says which layers count, in which order, and which
action the policy gives to a category. That action overrides the list's.

"A category's action is that of its nearest hrn: superordinate that has one."
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

from hushlist.decide.decision import STOPPING, Decision, decide
from hushlist.match.index import Match
from hushlist.match.rule import Action, Anything, ExpressionHash, Rule, Terms
from hushlist.policy.groups import DEFAULT_LAYER, Group, LayerUse
from hushlist.policy.schedule import Schedule
from hushlist.policy.scheduled_action import ScheduledAction
from hushlist.system.memory import BoundedCache
from hushlist.url.hrn import parse_hrn

#: less specific than an address range of no bits
_LEAST = (-2, 0)
_MOST_CATEGORIES = 1 << 12


class EffectivePolicy:
    """The policy for one group at one moment."""

    def __init__(self, group: Group, now: datetime) -> None:
        """``now`` has a time zone."""
        self.group = group
        # In UTC: Python compares moments of one time zone by the clock's time, which repeats when summer time ends.
        self._now = now.astimezone(UTC)
        # schedule -> when it changes next; computed once, since that takes as long as hundreds of decisions
        self._changes = {schedule.name: schedule.next_change(now) for schedule in _schedules(group)}
        asked = [use for use in group.layers if use.during is None or use.during.is_on(now)]
        #: layer that counts now -> until when
        self._layers = {use.name: self._change(use.during) for use in asked}
        self.layers = (*self._layers, DEFAULT_LAYER)
        self._default = self._default_match(group.settings.default)
        #: category -> the action for it now, and until when
        self._nearest = BoundedCache(self._timed, _MOST_CATEGORIES)
        #: whether it is the same at every moment, past moments included
        self.is_timeless = not self._changes
        #: the first moment at which it changes, or ``None``
        self.until = _first(*self._changes.values())
        #: the decision if no rule fits
        self.nothing = self.decide(())

    def holds_at(self, now: datetime) -> bool:
        """Whether this is the effective policy at a moment."""
        return self.is_timeless or (self._now <= now and (self.until is None or now < self.until))

    def _change(self, schedule: Schedule | None) -> datetime | None:
        return None if schedule is None else self._changes[schedule.name]

    def decide(self, matches: Iterable[Match]) -> Decision:
        """The decision that the matches lead to."""
        counted = [own for match in matches if (own := self._as_policy_says(match)) is not None]
        if self._default is not None:
            counted.append(self._default)
        return decide(self.layers, counted, self.group.name)

    @property
    def allows_categories(self) -> bool:
        """Whether the policy may turn a rule that stops into one that allows, by its category."""
        said = (own for timed in self.group.settings.categories.values() for own in timed.chain())
        return any(Action.ALLOW in (own.action, own.otherwise) for own in said)

    def allows(self, match: Match) -> bool:
        """Whether a match counts and allows, by its list or by its category."""
        own = self._as_policy_says(match)
        return own is not None and own.rule.terms.action is Action.ALLOW

    def _as_policy_says(self, match: Match) -> Match | None:
        """The match with the action that the policy gives to its category; ``None`` if it does not count.

        Matches that allow or tag keep their action: a list's exception does not belong to the list's category.
        """
        pattern, terms, line = match.rule
        if terms.layer not in self._layers:
            return None  # this layer does not count now
        until = self._layers[terms.layer]
        if terms.category is None or terms.action not in STOPPING or not self.group.settings.categories:
            return match if until is None else match._replace(until=until)
        timed, category_until = self._nearest[terms.category]
        until = _first(until, category_until)
        action = None if timed is None else timed.at(self._now)
        if timed is None or action is None:
            return match if until is None else match._replace(until=until)
        if action is Action.PASS or (action is Action.ALLOW and not _may_allow(match)):
            return None
        says = f"category by {timed}" if match.via is None else f"{match.via}, category by {timed}"
        return match._replace(rule=Rule(pattern, replace(terms, action=action), line), via=says, until=until)

    def _timed(self, category: str) -> tuple[ScheduledAction | None, datetime | None]:
        """The action for a category or its nearest superordinate that has one now, and until when it holds.

        It may end early: a nearer superordinate without an action now may get one before this one's ends.
        """
        said = self.group.settings.categories
        until: datetime | None = None
        for name in parse_hrn(category).levels():
            timed, changes = self._said(said.get(name))
            until = _first(until, changes)
            if timed is not None:
                return timed, until
        return None, until

    def _said(self, timed: ScheduledAction | None) -> tuple[ScheduledAction | None, datetime | None]:
        """The action that holds now and until when: the group's, or else everybody's."""
        until: datetime | None = None
        for one in () if timed is None else timed.chain():
            until = _first(until, self._change(one.during))
            if one.at(self._now) is not None:
                return one, until
        return None, until

    def _default_match(self, given: ScheduledAction | None) -> Match | None:
        timed, until = self._said(given)
        action = None if timed is None else timed.at(self._now)
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
    by: list[ScheduledAction | LayerUse] = [*group.layers, *(own for one in timed for own in one.chain())]
    return (one.during for one in by if one.during is not None)


def _first(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)
