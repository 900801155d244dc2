"""How other lists or policies change the decisions for recorded requests: both decide each, and differences count.

Both decisions contain all rules that fit the request. Comparing these finds the changed rule that caused a difference;
if there is none, the policy itself has changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from hushlist.audit.diff.rule_change import ChangeKind, RuleMeaning, meaning_of
from hushlist.audit.replay.auditor import ReplayMoment, decide_recorded, rule_of, site_of_url
from hushlist.audit.replay.stream_summaries import Examples, HeavyHitters
from hushlist.audit.replay.tally import RecordCounter, RuleKey, SourceTally, is_local
from hushlist.audit.sources.recorded_request import RecordedRequest
from hushlist.decide.decision import Decision
from hushlist.decide.engine import Engine
from hushlist.errors import UrlError
from hushlist.jobs.digest_runs import digest_of
from hushlist.match.index import Index, Match
from hushlist.match.rule import Action
from hushlist.policy.groups import Client
from hushlist.policy.policy_file import Policy
from hushlist.system.memory import BoundedCache
from hushlist.url.parts import split_web
from hushlist.url.request import Request

#: examples of each kind, and of each change of a rule
MOST_EXAMPLES = 5
#: URLs whose changes are cached
_MOST_URLS = 1 << 15


class ImpactEffect(StrEnum):
    """How the decision for a request changes."""

    BLOCKED = "newly blocked"
    WARNED = "newly warned of"
    PASSED = "newly passed"
    #: there was a warning
    HARDER = "blocked instead of warned of"
    #: it was blocked
    SOFTER = "warned of instead of blocked"
    #: the same action, because of another rule, or for another reason
    OTHER_RULE = "another rule decides"
    #: the same action, because of the same rule
    TAGS = "tags only"


#: effects that change the action
TELLING = (ImpactEffect.BLOCKED, ImpactEffect.WARNED, ImpactEffect.PASSED, ImpactEffect.HARDER, ImpactEffect.SOFTER)


class ImpactCause(NamedTuple):
    """A changed rule: old, new, or both. If both are missing, the policy has changed."""

    kind: ChangeKind | None
    old: RuleKey | None
    new: RuleKey | None


class Changed(NamedTuple):
    """The change for a request, and its cause."""

    effect: ImpactEffect
    cause: ImpactCause
    site: str
    #: digest of the pattern of the cause's rule
    pattern: bytes | None = None


@dataclass(slots=True)
class Impact(SourceTally):
    """The counts; merging is associative and commutative, as for an ``AuditTally``."""

    effects: Counter[ImpactEffect] = field(default_factory=Counter)
    causes: Counter[tuple[ImpactEffect, ImpactCause]] = field(default_factory=Counter)
    #: requests by registrable domain (or address)
    sites: dict[ImpactEffect, HeavyHitters] = field(default_factory=dict)
    effect_examples: Examples = field(default_factory=lambda: Examples(MOST_EXAMPLES))
    cause_examples: Examples = field(default_factory=lambda: Examples(1))

    @property
    def requests(self) -> int:
        """The number of decided requests."""
        return sum(count.records for count in self.sources.values())

    @property
    def changed(self) -> int:
        """The number of requests with another action."""
        return sum(self.effects[effect] for effect in TELLING)


class ImpactCounter(RecordCounter[Impact]):
    """Decides each request by both, and counts differences."""

    def __init__(self, old: Engine, new: Engine, moment: ReplayMoment) -> None:
        super().__init__(Impact())
        self._old, self._new, self._moment = old, new, moment
        self._known = BoundedCache(self._of_url, _MOST_URLS)

    @classmethod
    def open(cls, old: tuple[Policy, Path], new: tuple[Policy, Path], moment: ReplayMoment) -> ImpactCounter:
        """A counter for two policies and the files of their indexes."""
        return cls(Engine(old[0], Index.open(old[1])), Engine(new[0], Index.open(new[1])), moment)

    def _count(self, record: RecordedRequest) -> bool:
        if is_local(record.asked):
            return False
        if self._moment.as_recorded:
            changed = self._compare(record.asked, *self._moment.of(record))
        else:
            changed = self._known[record.asked]
        if changed is None:
            return True
        tally, (effect, cause, site, _) = self.tally, changed
        tally.effects[effect] += 1
        tally.causes[effect, cause] += 1
        sites = tally.sites.get(effect)
        if sites is None:
            sites = tally.sites[effect] = HeavyHitters()
        sites.add(site)
        example = record.ranked
        tally.effect_examples.add(effect, example)
        tally.cause_examples.add((effect, cause), example)
        return True

    def _of_url(self, asked: bytes | Request) -> Changed | None:
        return self._compare(asked, self._moment.at, self._moment.client)

    def _compare(self, asked: bytes | Request, now: datetime, client: Client) -> Changed | None:
        old, new = (decide_recorded(engine, asked, now, client) for engine in (self._old, self._new))
        changed = changed_by(old, new)
        if changed is not None and changed.pattern is not None and self._has_stayed(changed.pattern, old, new):
            return changed._replace(cause=ImpactCause(None, None, None))
        return changed

    def _has_stayed(self, pattern: bytes, old: Decision, new: Decision) -> bool:
        """Whether the lists have the same rules for a pattern, so that only the policy's use of them has changed."""
        before, after = _written(self._old, old, pattern), _written(self._new, new, pattern)
        return bool(before) and before == after


def _written(engine: Engine, decision: Decision, pattern: bytes) -> set[RuleMeaning]:
    """The lists' rules for a pattern, before the policy changes anything."""
    try:
        matches = engine.index.find(split_web(decision.url))
    except UrlError:
        return set()
    return {meaning for digest, meaning in map(_identity, matches) if digest == pattern}


def changed_by(old: Decision, new: Decision) -> Changed | None:
    """How the decision for a request changes, and why; ``None`` if it does not change."""
    if old.action is new.action and not old.matches and not new.matches and old.fault == new.fault:
        return None
    fits = _Fits(old), _Fits(new)
    effect = _effect(*fits)
    if effect is None:
        return None
    cause, pattern = _cause(*fits)
    return Changed(effect, cause, site_of_url(new.url) or "", pattern)


#: a rule without its place: its pattern and its meaning
_Identity = tuple[bytes, RuleMeaning]


class _Fits:
    """A decision, with its rules identified by content, not by place."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.rules: dict[_Identity, Match] = {}
        for match in decision.matches:
            self.rules.setdefault(_identity(match), match)
        self.winner = None if decision.winner is None else _identity(decision.winner)

    @property
    def tags(self) -> set[_Identity]:
        return {_identity(match) for match in self.decision.tags}


def _identity(match: Match) -> _Identity:
    # Hashing does not change how a rule decides.
    return digest_of(match.rule.pattern), meaning_of(match.rule.terms, is_clear=True)


_EFFECTS = {
    (0, 2): ImpactEffect.BLOCKED,
    (0, 1): ImpactEffect.WARNED,
    (1, 0): ImpactEffect.PASSED,
    (2, 0): ImpactEffect.PASSED,
    (1, 2): ImpactEffect.HARDER,
    (2, 1): ImpactEffect.SOFTER,
}
_DONE = {Action.WARN: 1, Action.BLOCK: 2}


def _effect(old: _Fits, new: _Fits) -> ImpactEffect | None:
    before, after = (_DONE.get(own.decision.action, 0) for own in (old, new))
    if before != after:
        return _EFFECTS[before, after]
    if _final(old) != _final(new) or old.decision.fault != new.decision.fault:
        return ImpactEffect.OTHER_RULE
    return ImpactEffect.TAGS if old.tags != new.tags else None


def _final(own: _Fits) -> _Identity | None:
    """The rule that decided; none if all rules that fit only tag."""
    return None if own.decision.action is Action.TAG else own.winner


def _cause(old: _Fits, new: _Fits) -> tuple[ImpactCause, bytes | None]:
    """The changed rule that caused it (the new winner, the old winner, or a tag), and its pattern."""
    came = {identity: match for identity, match in new.rules.items() if identity not in old.rules}
    gone = {identity: match for identity, match in old.rules.items() if identity not in new.rules}
    now = came.get(new.winner) if new.winner else None
    was = gone.get(old.winner) if old.winner else None
    if now is None and was is None:
        now, was = _first(_tagging(came)), _first(_tagging(gone))
    if now is None and was is None:
        now, was = _first(came.values()), _first(gone.values())
    if now is not None:
        was = _of_pattern(now, gone) or was
    elif was is not None:
        now = _of_pattern(was, came)
    keys = None if was is None else rule_of(was), None if now is None else rule_of(now)
    if now is not None:
        pattern = digest_of(now.rule.pattern)
        is_same = was is not None and digest_of(was.rule.pattern) == pattern
        return ImpactCause(ChangeKind.CHANGED if is_same else ChangeKind.ADDED, *keys), pattern
    if was is not None:
        return ImpactCause(ChangeKind.REMOVED, *keys), digest_of(was.rule.pattern)
    return ImpactCause(None, None, None), None


def _of_pattern(match: Match, others: dict[_Identity, Match]) -> Match | None:
    """The match with the same pattern among the others."""
    digest = digest_of(match.rule.pattern)
    return _first(other for (own, _), other in others.items() if own == digest)


def _tagging(rules: dict[_Identity, Match]) -> Iterator[Match]:
    return (match for match in rules.values() if match.rule.terms.action is Action.TAG)


def _first(matches: Iterable[Match]) -> Match | None:
    return next(iter(matches), None)
