"""What another state of lists or policies changes about recorded requests: both decide each, and what differs counts.

What has changed about a request is told from the rules that fit it before and after, which both decisions name whole:
so a change of a rule is found that did it, and where there is none, the policy itself is another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from hushlist.audit.auditor import Moment, decide, rule_of, site_of_url
from hushlist.audit.change import Kind, Meaning
from hushlist.audit.counting import Counting, is_local
from hushlist.audit.examples import Examples
from hushlist.audit.heavy import Heavy
from hushlist.audit.record import Broken, Record
from hushlist.audit.rows import digest_of
from hushlist.audit.tally import MOST_NAMED, RuleKey, SourceCount
from hushlist.engine import Engine
from hushlist.errors import UrlError
from hushlist.match.index import Index, Match
from hushlist.match.recent import Recent
from hushlist.match.rule import Action
from hushlist.policy.decision import Decision
from hushlist.policy.groups import Client
from hushlist.policy.policy import Policy
from hushlist.url.parts import split_web
from hushlist.url.request import Request

#: examples that are kept of each kind, and of each change of a rule
MOST_EXAMPLES = 5
#: URLs of which it is remembered what changes
_MOST_URLS = 1 << 15


class Effect(StrEnum):
    """What changes about a request."""

    BLOCKED = "newly blocked"
    WARNED = "newly warned of"
    PASSED = "newly passed"
    #: it was warned of
    HARDER = "blocked instead of warned of"
    #: it was blocked
    SOFTER = "warned of instead of blocked"
    #: the same is done with it, because of another rule, or for another reason
    OTHER_RULE = "another rule decides"
    #: the same, because of the same rule
    TAGS = "tags only"


#: what changes what is done with a request
TELLING = (Effect.BLOCKED, Effect.WARNED, Effect.PASSED, Effect.HARDER, Effect.SOFTER)


class Cause(NamedTuple):
    """The change of a rule; what was, what is, or both. Without any, it is the policy that has changed."""

    kind: Kind | None
    old: RuleKey | None
    new: RuleKey | None


class Changed(NamedTuple):
    """What changes about a request, and why."""

    effect: Effect
    cause: Cause
    site: str
    #: digest of the pattern of the cause's rule
    pattern: bytes | None = None


@dataclass(slots=True)
class Impact:
    """What was counted; merging is associative and commutative, as that of a ``Tally``."""

    sources: dict[str, SourceCount] = field(default_factory=dict)
    #: the first that are named, by source and number
    broken: list[Broken] = field(default_factory=list)
    effects: Counter[Effect] = field(default_factory=Counter)
    causes: Counter[tuple[Effect, Cause]] = field(default_factory=Counter)
    #: requests by registrable domain (or address)
    sites: dict[Effect, Heavy] = field(default_factory=dict)
    effect_examples: Examples = field(default_factory=lambda: Examples(MOST_EXAMPLES))
    cause_examples: Examples = field(default_factory=lambda: Examples(1))

    @property
    def requests(self) -> int:
        """How many were decided."""
        return sum(count.records for count in self.sources.values())

    @property
    def changed(self) -> int:
        """With how many something else is done."""
        return sum(self.effects[effect] for effect in TELLING)

    def name_broken(self, more: Iterable[Broken]) -> None:
        """Keep the first; they are counted with their sources."""
        self.broken = sorted((*self.broken, *more))[:MOST_NAMED]

    def merge(self, other: Impact) -> None:
        """Count what another has counted."""
        for source, count in other.sources.items():
            self.sources.setdefault(source, SourceCount()).merge(count)
        self.name_broken(other.broken)
        self.effects.update(other.effects)
        self.causes.update(other.causes)
        for effect, sites in other.sites.items():
            self.sites.setdefault(effect, Heavy()).merge(sites)
        self.effect_examples.merge(other.effect_examples)
        self.cause_examples.merge(other.cause_examples)


class Comparer(Counting[Impact]):
    """Decides by both, and counts what differs."""

    def __init__(self, old: Engine, new: Engine, moment: Moment) -> None:
        super().__init__(Impact())
        self._old, self._new, self._moment = old, new, moment
        self._known = Recent(self._of_url, _MOST_URLS)

    @classmethod
    def open(cls, old: tuple[Policy, Path], new: tuple[Policy, Path], moment: Moment) -> Comparer:
        """One by policies and the files of their indexes."""
        return cls(Engine(old[0], Index.open(old[1])), Engine(new[0], Index.open(new[1])), moment)

    def _count(self, record: Record) -> bool:
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
            sites = tally.sites[effect] = Heavy()
        sites.add(site)
        example = record.ranked
        tally.effect_examples.add(effect, example)
        tally.cause_examples.add((effect, cause), example)
        return True

    def _of_url(self, asked: bytes | Request) -> Changed | None:
        return self._compare(asked, self._moment.at, self._moment.client)

    def _compare(self, asked: bytes | Request, now: datetime, client: Client) -> Changed | None:
        old, new = (decide(engine, asked, now, client) for engine in (self._old, self._new))
        changed = changed_by(old, new)
        if changed is not None and changed.pattern is not None and self._has_stayed(changed.pattern, old, new):
            return changed._replace(cause=Cause(None, None, None))
        return changed

    def _has_stayed(self, pattern: bytes, old: Decision, new: Decision) -> bool:
        """Whether the lists say the same of a pattern, so that it is the policy which takes it in another way."""
        before, after = _written(self._old, old, pattern), _written(self._new, new, pattern)
        return bool(before) and before == after


def _written(engine: Engine, decision: Decision, pattern: bytes) -> set[Meaning]:
    """What the lists say of a pattern, whatever the policy makes of it."""
    try:
        matches = engine.index.find(split_web(decision.url))
    except UrlError:
        return set()
    return {meaning for digest, meaning in map(_identity, matches) if digest == pattern}


def changed_by(old: Decision, new: Decision) -> Changed | None:
    """What one decision changes about another, for the same request; ``None`` where they are the same."""
    if old.action is new.action and not old.matches and not new.matches and old.fault == new.fault:
        return None
    fits = _Fits(old), _Fits(new)
    effect = _effect(*fits)
    if effect is None:
        return None
    cause, pattern = _cause(*fits)
    return Changed(effect, cause, site_of_url(new.url) or "", pattern)


#: a rule, wherever it stands: what it fits, and what it asks for
_Identity = tuple[bytes, Meaning]


class _Fits:
    """A decision, with its rules by what they are rather than by where they stand."""

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
    terms = match.rule.terms
    # Whether it is hashed changes nothing for a request.
    meaning = Meaning(terms.action, terms.category, terms.reason, terms.expires, terms.layer, is_clear=True)
    return digest_of(match.rule.pattern), meaning


_EFFECTS = {
    (0, 2): Effect.BLOCKED,
    (0, 1): Effect.WARNED,
    (1, 0): Effect.PASSED,
    (2, 0): Effect.PASSED,
    (1, 2): Effect.HARDER,
    (2, 1): Effect.SOFTER,
}
_DONE = {Action.WARN: 1, Action.BLOCK: 2}


def _effect(old: _Fits, new: _Fits) -> Effect | None:
    before, after = (_DONE.get(own.decision.action, 0) for own in (old, new))
    if before != after:
        return _EFFECTS[before, after]
    if _final(old) != _final(new) or old.decision.fault != new.decision.fault:
        return Effect.OTHER_RULE
    return Effect.TAGS if old.tags != new.tags else None


def _final(own: _Fits) -> _Identity | None:
    """The rule that decided; where all that fits tags, none did."""
    return None if own.decision.action is Action.TAG else own.winner


def _cause(old: _Fits, new: _Fits) -> tuple[Cause, bytes | None]:
    """The change of a rule that did it: of the one that decides, of the one that did, or of a tag; and its pattern."""
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
        return Cause(Kind.CHANGED if is_same else Kind.ADDED, *keys), pattern
    if was is not None:
        return Cause(Kind.REMOVED, *keys), digest_of(was.rule.pattern)
    return Cause(None, None, None), None


def _of_pattern(match: Match, others: dict[_Identity, Match]) -> Match | None:
    """Of the others, the one with the same pattern."""
    digest = digest_of(match.rule.pattern)
    return _first(other for (own, _), other in others.items() if own == digest)


def _tagging(rules: dict[_Identity, Match]) -> Iterator[Match]:
    return (match for match in rules.values() if match.rule.terms.action is Action.TAG)


def _first(matches: Iterable[Match]) -> Match | None:
    return next(iter(matches), None)
