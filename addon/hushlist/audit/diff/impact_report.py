"""The impact as plain types, and as lines for a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hushlist.audit.diff.impact import Impact, ImpactCause, ImpactEffect
from hushlist.audit.diff.rule_change import ChangeKind
from hushlist.audit.replay.auditor import ReplayMoment, decide_recorded
from hushlist.audit.replay.tally import RuleKey
from hushlist.audit.sources.recorded_request import RecordedRequest
from hushlist.decide.decision import Decision
from hushlist.decide.engine import Engine


def plain_impact(impact: Impact, old: Engine, new: Engine, moment: ReplayMoment, most: int | None) -> dict[str, Any]:
    """Plain types, for JSON; of sites and rules, the ``most`` with most requests, for each effect."""

    def example(record: RecordedRequest) -> dict[str, object]:
        asked = record.asked, *moment.of(record)
        return {
            "url": record.url.decode("utf-8", "backslashreplace"),
            "source": record.source,
            "number": record.number,
            "old": _decision(decide_recorded(old, *asked)),
            "new": _decision(decide_recorded(new, *asked)),
        }

    def effect_of(effect: ImpactEffect) -> dict[str, object]:
        sites = impact.sites[effect].trimmed()
        causes = sorted(
            ((number, cause) for (own, cause), number in impact.causes.items() if own is effect),
            key=lambda own: (-own[0], repr(own[1])),
        )
        return {
            "effect": effect.value,
            "requests": impact.effects[effect],
            "sites": [[*item] for item in [*sites.counts.items()][:most]],
            "sites_in_all": len(sites.counts),
            "rules": [
                {
                    "requests": number,
                    **_cause(cause),
                    "example": example(impact.cause_examples[effect, cause][0])
                    if impact.cause_examples[effect, cause]
                    else None,
                }
                for number, cause in causes[:most]
            ],
            "rules_in_all": len(causes),
            "examples": [example(record) for record in impact.effect_examples[effect]],
        }

    return {
        "requests": impact.requests,
        "changed": impact.changed,
        "sources": {
            name: {"format": own.format, "requests": own.records, "broken": own.broken, "skipped": own.skipped}
            for name, own in sorted(impact.sources.items())
        },
        "broken": [str(broken) for broken in impact.broken],
        "effects": [effect_of(effect) for effect in ImpactEffect if impact.effects[effect]],
    }


def _decision(decision: Decision) -> dict[str, object]:
    winner = decision.winner
    rule = None if winner is None else {**winner.as_dict(), "text": str(winner)}
    return {"action": decision.action.value, "fault": decision.fault, "rule": rule}


def _cause(cause: ImpactCause) -> dict[str, object]:
    return {
        "change": "policy" if cause.kind is None else cause.kind.value,
        "old": None if cause.old is None else cause.old._asdict(),
        "new": None if cause.new is None else cause.new._asdict(),
    }


def impact_text(plain: dict[str, Any]) -> Iterator[str]:
    """Lines for a person, from the result of ``plain_impact``."""
    requests = plain["requests"]
    changed = plain["changed"]
    yield f"Another thing is done with {changed:,} of {requests:,} requests{_share(changed, requests)}"
    broken = sum(own["broken"] for own in plain["sources"].values())
    if broken:
        yield f"  records that are broken: {broken:,}"
        yield from (f"    {text}" for text in plain["broken"][:10])
        if broken > 10:
            yield f"    and {broken - 10:,} more"
    for effect in plain["effects"]:
        yield ""
        yield f"{effect['effect']}: {effect['requests']:,}{_share(effect['requests'], requests)}"
        sites = ", ".join(f"{name or '(none)'} {number:,}" for name, number in effect["sites"])
        yield f"  sites: {sites}{_more(effect['sites_in_all'] - len(effect['sites']))}"
        for rule in effect["rules"]:
            yield f"  {rule['requests']:,} by {_cause_text(rule)}"
            if rule["example"]:
                yield from _example_text(rule["example"])
        if rest := effect["rules_in_all"] - len(effect["rules"]):
            yield f"  and by {rest:,} more"


def _share(number: int, of: int) -> str:
    return f" ({number / of:.2%})" if of else ""


def _more(number: int) -> str:
    return f" and {number:,} more" if number else ""


_SIGNS = {ChangeKind.ADDED.value: "+", ChangeKind.REMOVED.value: "-", ChangeKind.CHANGED.value: "~"}


def _cause_text(cause: dict[str, Any]) -> str:
    """The change of a rule, as in the list of changed rules."""
    old, new = (None if own is None else RuleKey(**own) for own in (cause["old"], cause["new"]))
    if cause["change"] == "policy":
        return "the policy itself: no rule has changed that fits"
    own = new or old
    assert own is not None
    instead = ""
    if old is not None and new is not None:
        instead = f", where {old.source}:{old.line} had {old.rule}"
    return f"{_SIGNS[cause['change']]} {own.source}:{own.line}: {own.rule}{instead}"


def _example_text(example: dict[str, Any]) -> Iterator[str]:
    yield f"      {example['url'][:160]} ({example['source']}:{example['number']})"
    for side in ("old", "new"):
        own = example[side]
        why = own["fault"] or (f"{own['rule']['text']}" if own["rule"] else "no rule fits")
        yield f"        {side}: {own['action']}: {why}"
