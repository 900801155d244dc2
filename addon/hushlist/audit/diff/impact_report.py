"""The impact of an update as a report, whose fields are the keys of its JSON, and as lines for a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hushlist.audit.diff.impact import Impact, ImpactCause, ImpactEffect
from hushlist.audit.diff.rule_change import ChangeKind
from hushlist.audit.replay.auditor import ReplayMoment, decide_recorded
from hushlist.audit.replay.tally import RuleKey
from hushlist.audit.report_codec import Flat
from hushlist.audit.sources.recorded_request import RecordedRequest
from hushlist.decide.decision import Decision
from hushlist.decide.engine import Engine
from hushlist.match.index import Match
from hushlist.match.rule import Action


class DecidingRule(NamedTuple):
    """The rule that decides; the same for a person."""

    match: Flat[Match]
    text: str


class SideDecision(NamedTuple):
    """What one of the two sides decides."""

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
    """What one change of a rule does."""

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
    """What was read from a source."""

    format: str
    requests: int
    broken: int
    skipped: int


class ImpactReport(NamedTuple):
    """See the module."""

    requests: int
    changed: int
    sources: dict[str, SourceRequests]
    broken: list[str]
    effects: list[EffectImpact]


def report_impact(impact: Impact, old: Engine, new: Engine, moment: ReplayMoment, most: int | None) -> ImpactReport:
    """The report; of sites and rules, the ``most`` with most requests, for each effect."""

    def example(record: RecordedRequest) -> ImpactExample:
        asked = record.asked, *moment.of(record)
        sides = (_side(decide_recorded(engine, *asked)) for engine in (old, new))
        return ImpactExample(record.url.decode("utf-8", "backslashreplace"), record.source, record.number, *sides)

    def cause_impact(effect: ImpactEffect, cause: ImpactCause, number: int) -> CauseImpact:
        examples = map(example, impact.cause_examples[effect, cause])
        return CauseImpact(number, cause.kind or "policy", cause.old, cause.new, next(examples, None))

    def effect_impact(effect: ImpactEffect) -> EffectImpact:
        sites = impact.sites[effect].result().counts
        causes = [(cause, number) for (own, cause), number in impact.causes.items() if own is effect]
        causes.sort(key=lambda own: (-own[1], repr(own[0])))
        rules = [cause_impact(effect, *own) for own in causes[:most]]
        examples = [*map(example, impact.effect_examples[effect])]
        return EffectImpact(effect, impact.effects[effect], sites[:most], len(sites), rules, len(causes), examples)

    return ImpactReport(
        impact.requests,
        impact.changed,
        {
            name: SourceRequests(own.format, own.records, own.broken, own.skipped)
            for name, own in sorted(impact.sources.items())
        },
        [*map(str, impact.broken)],
        [effect_impact(effect) for effect in ImpactEffect if impact.effects[effect]],
    )


def _side(decision: Decision) -> SideDecision:
    winner = decision.winner
    return SideDecision(decision.action, decision.fault, None if winner is None else DecidingRule(winner, str(winner)))


def impact_text(report: ImpactReport) -> Iterator[str]:
    """Lines for a person."""
    requests, changed = report.requests, report.changed
    yield f"Another thing is done with {changed:,} of {requests:,} requests{_share(changed, requests)}"
    broken = sum(own.broken for own in report.sources.values())
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
    old, own = cause.old, cause.new or cause.old
    if own is None:
        return "the policy itself: no rule has changed that fits"
    instead = "" if old is None or old is own else f", where {old.source}:{old.line} had {old.rule}"
    return f"{_SIGNS[cause.change]} {own.source}:{own.line}: {own.rule}{instead}"
