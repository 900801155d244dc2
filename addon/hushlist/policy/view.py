"""A view: what a policy says for one group at one moment, and for how long.

Matches are the same for everybody; a view says which layers count, in which order, and what the policy does with a
category, whatever the list asks for.

"A category's action is that of its nearest hrn: superordinate that has one."
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from hushlist.match.index import Match
from hushlist.match.rule import Action, Anything, ExpressionHash, Rule, Terms
from hushlist.policy.decision import STOPPING, Decision, decide
from hushlist.policy.groups import Group
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
        self._now = now
        asked = [use for use in group.layers if use.during is None or use.during.is_on(now)]
        self.layers = (*(use.name for use in asked), DEFAULT_LAYER)
        self._default = _default_match(group.settings.default, now)
        #: until when layers are asked, of those that are not asked always
        self._asked_until = {
            use.name: until for use in asked if use.during is not None and (until := use.during.next_change(now))
        }
        self._nearest: dict[str, Timed | None] = {}
        #: the first moment at which another view holds, or ``None``
        self.until = min((moment for moment in self._changes() if moment is not None), default=None)
        #: the decision where nothing fits
        self.nothing = self.decide(())

    def holds_at(self, now: datetime) -> bool:
        """Whether this is the view at a moment."""
        return self.until is None or self._now <= now < self.until

    def _changes(self) -> Iterable[datetime | None]:
        settings = self.group.settings
        timed = [*settings.categories.values(), *filter(None, [settings.default])]
        yield from (one.until(self._now) for one in timed)
        yield from (use.during.next_change(self._now) for use in self.group.layers if use.during is not None)

    def decide(self, matches: Iterable[Match]) -> Decision:
        """The decision by matches."""
        counted = [own for match in matches if (own := self._as_policy_says(match)) is not None]
        if self._asked_until:
            counted = [self._while_asked(match) for match in counted]
        if self._default is not None:
            counted.append(self._default)
        return decide(self.layers, counted, self.group.name)

    def _as_policy_says(self, match: Match) -> Match | None:
        """The match with the action that the policy gives to its category; ``None`` where it does not count.

        What a list allows or only tags stays so: an exception of a list is no member of its category.
        """
        pattern, terms, line = match.rule
        if terms.layer not in self.layers:
            return None  # a layer that is not asked
        if terms.category is None or terms.action not in STOPPING or not self.group.settings.categories:
            return match
        timed = self._timed(terms.category)
        action = None if timed is None else timed.at(self._now)
        if timed is None or action is None:
            return match
        if action is Action.PASS or (action is Action.ALLOW and not _may_allow(match)):
            return None
        says = f"category by {timed}" if match.via is None else f"{match.via}, category by {timed}"
        until = timed.until(self._now)
        return match._replace(rule=Rule(pattern, replace(terms, action=action), line), via=says, until=until)

    def _while_asked(self, match: Match) -> Match:
        """The match, which holds no longer than its layer is asked."""
        until = self._asked_until.get(match.rule.terms.layer)
        if until is None or (match.until is not None and match.until < until):
            return match
        return match._replace(until=until)

    def _timed(self, category: str) -> Timed | None:
        """What is said of the nearest superordinate of a category, itself first, of which something is said now."""
        if category not in self._nearest:
            self._nearest[category] = self._find(category)
        return self._nearest[category]

    def _find(self, category: str) -> Timed | None:
        said = self.group.settings.categories
        name = parse_hrn(category)
        for one in (name, *name.superordinates()):
            timed = said.get(str(one))
            if timed is not None and timed.at(self._now) is not None:
                return timed
        return None


def _may_allow(match: Match) -> bool:
    """ "A prefix that an attacker can collide with must never open a door"."""
    pattern = match.rule.pattern
    return not isinstance(pattern, ExpressionHash) or pattern.is_full


def _default_match(timed: Timed | None, now: datetime) -> Match | None:
    action = None if timed is None else timed.at(now)
    if timed is None or action is None or action is Action.PASS:
        return None
    during = "" if timed.during is None else f" (schedule {timed.during.name})"
    reason = f"Only what is allowed passes{during}"
    terms = Terms(action, "policy", timed.source, reason=reason, layer=DEFAULT_LAYER)
    return Match(Rule(Anything(), terms, timed.line), b"*", _LEAST, until=timed.until(now))
