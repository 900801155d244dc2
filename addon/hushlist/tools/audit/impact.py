"""The impact of other lists or policies on recorded requests: both decide each request, and differences count.

Both decisions contain all rules that fit the request. Comparing these finds the changed rule that caused a difference;
if there is none, the policy itself has changed.

``ImpactCounter`` counts; ``report_impact`` makes a report, whose fields are the keys of its JSON, and ``impact_text``
the lines for a person.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import NamedTuple

from hushlist.core.decide.decision import SEVERITY, Decision
from hushlist.core.decide.engine import Engine
from hushlist.core.errors import UrlError, number_of
from hushlist.core.match.index import Index
from hushlist.core.match.rule import Action
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.groups import Client
from hushlist.core.policy.policy_file import Policy
from hushlist.core.system.memory import BoundedCache
from hushlist.core.url.parts import split_web
from hushlist.core.url.request import Request, StatedContext
from hushlist.extensions.subscriptions.rule_comparison import ChangeKind, digest_of
from hushlist.tools.audit.diff_job import RuleMeaning, meaning_of
from hushlist.tools.audit.replay.auditor import ReplayMoment, decide_recorded, rule_of
from hushlist.tools.audit.replay.tally import Examples, HeavyHitters, RecordCounter, RuleKey, SourceTally, is_local
from hushlist.tools.audit.report_codec import Flat
from hushlist.tools.audit.sites import site_of_url
from hushlist.tools.audit.sources.recorded_request import RecordedRequest

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
    effect: ImpactEffect
    cause: ImpactCause
    site: str
    #: digest of the pattern of the cause's rule
    pattern: bytes | None


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
        self._has_filters = any(engine.index.filters for engine in (old, new))
        self._changes = BoundedCache(partial(self._compare, now=moment.at, client=moment.client), _MOST_URLS)

    @classmethod
    def open(cls, old: tuple[Policy, Path], new: tuple[Policy, Path], moment: ReplayMoment) -> ImpactCounter:
        """A counter for two policies and the files of their indexes."""
        return cls(Engine(old[0], Index.open(old[1])), Engine(new[0], Index.open(new[1])), moment)

    def _count(self, record: RecordedRequest) -> bool:
        if is_local(record.request):
            return False
        if self._moment.as_recorded or self._has_filters:
            changed = self._compare(record.request, *self._moment.of(record), record.context)
        else:
            changed = self._changes[record.request]
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

    def _compare(
        self, request: bytes | Request, now: datetime, client: Client, context: StatedContext | None = None
    ) -> Changed | None:
        old, new = (decide_recorded(engine, request, now, client, context) for engine in (self._old, self._new))
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
    return digest_of(match.rule.pattern), meaning_of(True, match.rule.terms)


_EFFECTS = {
    (0, 2): ImpactEffect.BLOCKED,
    (0, 1): ImpactEffect.WARNED,
    (1, 0): ImpactEffect.PASSED,
    (2, 0): ImpactEffect.PASSED,
    (1, 2): ImpactEffect.HARDER,
    (2, 1): ImpactEffect.SOFTER,
}


def _effect(old: _Fits, new: _Fits) -> ImpactEffect | None:
    before, after = (SEVERITY.get(fits.decision.action, 0) for fits in (old, new))
    if before != after:
        return _EFFECTS[before, after]
    if _final(old) != _final(new) or old.decision.fault != new.decision.fault:
        return ImpactEffect.OTHER_RULE
    return ImpactEffect.TAGS if old.tags != new.tags else None


def _final(fits: _Fits) -> _Identity | None:
    """The rule that decided; none if all rules that fit only tag."""
    return None if fits.decision.action is Action.TAG else fits.winner


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
    return _first(other for (pattern, _), other in others.items() if pattern == digest)


def _tagging(rules: dict[_Identity, Match]) -> Iterator[Match]:
    return (match for match in rules.values() if match.rule.terms.action is Action.TAG)


def _first(matches: Iterable[Match]) -> Match | None:
    return next(iter(matches), None)


# -- the report --------------------------------------------------------------------------------------------------------


class DecidingRule(NamedTuple):
    """The rule that decides; the same for a person."""

    match: Flat[Match]
    text: str


class SideDecision(NamedTuple):
    action: Action
    fault: str | None
    rule: DecidingRule | None

    def __str__(self) -> str:
        why = self.fault or ("no rule fits" if self.rule is None else self.rule.text)
        return f"{self.action}: {why}"


class ImpactExample(NamedTuple):
    """A request with which something else is done."""

    url: str
    source: str
    number: int
    old: SideDecision
    new: SideDecision


class CauseImpact(NamedTuple):
    requests: int
    #: a ``ChangeKind``, or "policy" where no rule has changed that fits
    change: str
    old: RuleKey | None
    new: RuleKey | None
    example: ImpactExample | None


class EffectImpact(NamedTuple):
    """The requests with one effect; the sites and rules with most of them."""

    effect: ImpactEffect
    requests: int
    sites: tuple[tuple[str, int], ...]
    sites_in_all: int
    rules: list[CauseImpact]
    rules_in_all: int
    examples: list[ImpactExample]


class SourceRequests(NamedTuple):
    format: str
    requests: int
    broken: int
    skipped: int


class ImpactReport(NamedTuple):
    requests: int
    changed: int
    sources: dict[str, SourceRequests]
    broken: list[str]
    effects: list[EffectImpact]


def report_impact(impact: Impact, old: Engine, new: Engine, moment: ReplayMoment, most: int | None) -> ImpactReport:
    """The report; of sites and rules, the ``most`` with most requests, for each effect."""

    def example(record: RecordedRequest) -> ImpactExample:
        question = record.request, *moment.of(record), record.context
        sides = (_side(decide_recorded(engine, *question)) for engine in (old, new))
        return ImpactExample(record.url.decode("utf-8", "backslashreplace"), record.source, record.number, *sides)

    def cause_impact(effect: ImpactEffect, cause: ImpactCause, number: int) -> CauseImpact:
        examples = map(example, impact.cause_examples[effect, cause])
        return CauseImpact(number, cause.kind or "policy", cause.old, cause.new, next(examples, None))

    def effect_impact(effect: ImpactEffect) -> EffectImpact:
        sites = impact.sites[effect].result().counts
        causes = [(cause, number) for (item, cause), number in impact.causes.items() if item is effect]
        causes.sort(key=lambda item: (-item[1], repr(item[0])))
        rules = [cause_impact(effect, *item) for item in causes[:most]]
        examples = [*map(example, impact.effect_examples[effect])]
        return EffectImpact(effect, impact.effects[effect], sites[:most], len(sites), rules, len(causes), examples)

    return ImpactReport(
        impact.requests,
        impact.changed,
        {
            name: SourceRequests(item.format, item.records, item.broken, item.skipped)
            for name, item in sorted(impact.sources.items())
        },
        [*map(str, impact.broken)],
        [effect_impact(effect) for effect in ImpactEffect if impact.effects[effect]],
    )


def _side(decision: Decision) -> SideDecision:
    winner = decision.winner
    return SideDecision(decision.action, decision.fault, None if winner is None else DecidingRule(winner, str(winner)))


def impact_text(report: ImpactReport) -> Iterator[str]:
    requests, changed = report.requests, report.changed
    of_requests = number_of(requests, "request", "requests")
    yield f"Another thing is done with {changed:,} of {of_requests}{_share(changed, requests)}"
    broken = sum(source.broken for source in report.sources.values())
    if broken:
        yield f"  records that are broken: {broken:,}"
        yield from (f"    {text}" for text in report.broken[:10])
        if broken > 10:
            yield f"    and {broken - 10:,} more"
    for effect in report.effects:
        yield ""
        yield f"{effect.effect}: {effect.requests:,}{_share(effect.requests, requests)}"
        sites = ", ".join(f"{name or '(none)'} {number:,}" for name, number in effect.sites)
        rest = effect.sites_in_all - len(effect.sites)
        yield f"  sites: {sites}{f' and {rest:,} more' if rest else ''}"
        for rule in effect.rules:
            yield f"  {rule.requests:,} by {_cause_text(rule)}"
            if example := rule.example:
                yield f"      {example.url[:160]} ({example.source}:{example.number})"
                yield f"        old: {example.old}"
                yield f"        new: {example.new}"
        if rest := effect.rules_in_all - len(effect.rules):
            yield f"  and by {rest:,} more"


def _share(number: int, of: int) -> str:
    return f" ({number / of:.2%})" if of else ""


_SIGNS: dict[str, str] = {ChangeKind.ADDED: "+", ChangeKind.REMOVED: "-", ChangeKind.CHANGED: "~"}


def _cause_text(cause: CauseImpact) -> str:
    """The change of a rule, as in the list of changed rules."""
    old, rule = cause.old, cause.new or cause.old
    if rule is None:
        return "the policy itself: no rule has changed that fits"
    instead = "" if old is None or old is rule else f", where {old.source}:{old.line} had {old.rule}"
    return f"{_SIGNS[cause.change]} {rule.source}:{rule.line}: {rule.rule}{instead}"
