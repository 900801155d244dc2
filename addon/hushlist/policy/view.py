"""A view: what a policy says for one group at one moment, and for how long.

Matches are the same for everybody; a view says which layers count, in which order, and what the policy does with a
category, whatever the list asks for.

"A category's action is that of its nearest hrn: superordinate that has one."
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

from hushlist.match.index import Match
from hushlist.match.rule import Action, Anything, ExpressionHash, Rule, Terms
from hushlist.policy.decision import STOPPING, Decision, decide
from hushlist.policy.groups import Group, LayerUse
from hushlist.policy.schedule import Schedule
from hushlist.policy.timed import Timed
from hushlist.url.hrn import parse_hrn

#: the layer of what is done where no rule decides
DEFAULT_LAYER = "default"
#: below an address range of no bits
_LEAST = (-2, 0)


class View:
    """See the module."""

    def __init__(self, group: Group, now: datetime) -> None:
        """``now`` is aware."""
        self.group = group
        # In UTC: Python compares moments of one time zone by what the clock shows, which may be twice the same.
        self._now = now.astimezone(UTC)
        # schedule -> when it changes next; asked once, since that takes as long as hundreds of decisions
        self._changes = {schedule.name: schedule.next_change(now) for schedule in _schedules(group)}
        asked = [use for use in group.layers if use.during is None or use.during.is_on(now)]
        #: layer that is asked -> until when
        self._layers = {use.name: self._change(use.during) for use in asked}
        self.layers = (*self._layers, DEFAULT_LAYER)
        self._default = self._default_match(group.settings.default)
        self._nearest: dict[str, tuple[Timed | None, datetime | None]] = {}
        #: whether it is the same at every moment, also at those before
        self.is_timeless = not self._changes
        #: the first moment at which another view holds, or ``None``
        self.until = _first(*self._changes.values())
        #: the decision where nothing fits
        self.nothing = self.decide(())

    def holds_at(self, now: datetime) -> bool:
        """Whether this is the view at a moment."""
        return self.is_timeless or (self._now <= now and (self.until is None or now < self.until))

    def _change(self, schedule: Schedule | None) -> datetime | None:
        return None if schedule is None else self._changes[schedule.name]

    def decide(self, matches: Iterable[Match]) -> Decision:
        """The decision by matches."""
        counted = [own for match in matches if (own := self._as_policy_says(match)) is not None]
        if self._default is not None:
            counted.append(self._default)
        return decide(self.layers, counted, self.group.name)

    @property
    def allows_categories(self) -> bool:
        """Whether a rule that stops may be an allowance by its category."""
        said = (own for timed in self.group.settings.categories.values() for own in timed.chain())
        return any(Action.ALLOW in (own.action, own.otherwise) for own in said)

    def allows(self, match: Match) -> bool:
        """Whether a match that counts would be an allowance, by its list or by its category."""
        own = self._as_policy_says(match)
        return own is not None and own.rule.terms.action is Action.ALLOW

    def _as_policy_says(self, match: Match) -> Match | None:
        """The match with the action that the policy gives to its category; ``None`` where it does not count.

        What a list allows or only tags stays so: an exception of a list is no member of its category.
        """
        pattern, terms, line = match.rule
        if terms.layer not in self._layers:
            return None  # a layer that is not asked
        until = self._layers[terms.layer]
        if terms.category is None or terms.action not in STOPPING or not self.group.settings.categories:
            return match if until is None else match._replace(until=until)
        timed, category_until = self._timed(terms.category)
        until = _first(until, category_until)
        action = None if timed is None else timed.at(self._now)
        if timed is None or action is None:
            return match if until is None else match._replace(until=until)
        if action is Action.PASS or (action is Action.ALLOW and not _may_allow(match)):
            return None
        says = f"category by {timed}" if match.via is None else f"{match.via}, category by {timed}"
        return match._replace(rule=Rule(pattern, replace(terms, action=action), line), via=says, until=until)

    def _timed(self, category: str) -> tuple[Timed | None, datetime | None]:
        """What is said of the nearest superordinate of a category, itself first, of which something is said now.

        And until when: a nearer one of which nothing is said now may be spoken of earlier than this one's end.
        """
        if category not in self._nearest:
            self._nearest[category] = self._find(category)
        return self._nearest[category]

    def _find(self, category: str) -> tuple[Timed | None, datetime | None]:
        said = self.group.settings.categories
        name = parse_hrn(category)
        until: datetime | None = None
        for one in (name, *name.superordinates()):
            timed, changes = self._said(said.get(str(one)))
            until = _first(until, changes)
            if timed is not None:
                return timed, until
        return None, until

    def _said(self, timed: Timed | None) -> tuple[Timed | None, datetime | None]:
        """What is said now, of the group or behind it of everybody, and until when."""
        until: datetime | None = None
        for one in () if timed is None else timed.chain():
            until = _first(until, self._change(one.during))
            if one.at(self._now) is not None:
                return one, until
        return None, until

    def _default_match(self, given: Timed | None) -> Match | None:
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
    """All by which something changes for a group."""
    settings = group.settings
    timed = (*settings.categories.values(), *filter(None, [settings.default]))
    by: list[Timed | LayerUse] = [*group.layers, *(own for one in timed for own in one.chain())]
    return (one.during for one in by if one.during is not None)


def _first(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)
