"""The report of an audit again, of what ``Report.as_dict`` has given, or of that as JSON.

It is without its explanations and without what never fired, which ``finish`` finds anew: so reports of several machines
merge, where the policy is the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hushlist.audit.examples import Examples
from hushlist.audit.heavy import Heavy
from hushlist.audit.plain import as_count, as_text, as_text_or_none, record_of
from hushlist.audit.record import Broken, Record
from hushlist.audit.report import FORMAT, Asked, FileDigest, PolicyDigest, Popular, Report, ReportError
from hushlist.audit.tally import POPULAR, Hits, ListKey, RuleKey, Slow, SourceCount, Tally
from hushlist.policy.wall_clock import parse_moment

#: seconds; no audit takes as long
_LONGEST = 1e12


def report_of_json(octets: bytes) -> Report:
    """The report that was written as JSON.

    Raises:
        ReportError: it is none.
    """
    try:
        plain = json.loads(octets)
    except (ValueError, RecursionError) as error:
        raise ReportError(str(error)) from error
    return report_of(plain)


def report_of(plain: object) -> Report:
    """The report that ``as_dict`` was asked for.

    Raises:
        ReportError: it is none.
    """
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise ReportError(f"it is no report of an audit: its format is not {FORMAT!r}")
    try:
        return _read(plain)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ReportError(f"it is no whole report of an audit: {error!r}") from error


_HITS = tuple(Hits.__slots__)


def _hits(plain: Mapping[str, Any]) -> Hits:
    return Hits(*(as_count(plain[name]) for name in _HITS))


def _read(plain: Mapping[str, Any]) -> Report:
    records = {key: record_of(own) for key, own in plain["records_shown"].items()}
    policy, asked, popular = plain["policy"], plain["asked"], plain["popular"]
    lists = [ListKey(as_text(own["list"]), as_text(own["source"])) for own in plain["lists"]]
    rules = [
        RuleKey(as_text(own["list"]), as_text(own["source"]), as_count(own["line"]), as_text(own["rule"]))
        for own in plain["rules"]
    ]
    tally = Tally(
        sources={
            as_text(own["source"]): SourceCount(
                as_text(own["format"]), *(as_count(own[name]) for name in ("records", "broken", "skipped"))
            )
            for own in plain["sources"]
        },
        broken=[
            Broken(as_text(own["source"]), as_count(own["number"]), as_text(own["why"]))
            for own in plain["broken"]["first"]
        ],
        lists={key: hits for key, own in zip(lists, plain["lists"], strict=True) if (hits := _hits(own)) != Hits()},
        categories={as_text(own["category"]): _hits(own) for own in plain["categories"]},
        rules={key: _hits(own) for key, own in zip(rules, plain["rules"], strict=True)},
        rule_categories={
            key: as_text(own["category"])
            for key, own in zip(rules, plain["rules"], strict=True)
            if own["category"] is not None
        },
        sites=_heavy(plain["sites"]["requests"]),
        stopped_sites=_heavy(plain["sites"]["stopped"]),
        broken_sites=_heavy(plain["sites"]["breaks"]),
    )
    tally.actions.update(_counts(plain["actions"].items()))
    tally.faults.update(_counts(plain["faults"].items()))
    for kind, own in plain["kinds"].items():
        tally.kinds[kind] = as_count(own["requests"])
        if own["stopped"]:
            tally.stopped_kinds[kind] = as_count(own["stopped"])
    for own in plain["overlaps"]:
        first, second = sorted(lists[place] for place in own["lists"])
        tally.overlaps[first, second] = as_count(own["requests"])
    for own in plain["popular_domains"]:
        tally.popular[as_text(own["domain"])] = as_count(own["stopped"])
    for kind, own in plain["breaks"].items():
        tally.breaks[kind] = as_count(own["requests"])
        _fill(tally.break_examples, kind, own["examples"], records)
    _fill(tally.break_examples, POPULAR, plain["popular_examples"], records)
    for key, own in zip(lists, plain["lists"], strict=True):
        _fill(tally.list_examples, key, own["examples"], records)
    for own in plain["categories"]:
        _fill(tally.category_examples, own["category"], own["examples"], records)
    for rule, own in zip(rules, plain["rules"], strict=True):
        _fill(tally.rule_examples, rule, [own["example"]] if own["example"] else [], records)
    tally.add_slow(Slow(as_count(own["microseconds"]), records[own["record"]]) for own in plain["slowest"])
    return Report(
        PolicyDigest(
            as_text(policy["path"]),
            as_text(policy["digest"]),
            tuple(FileDigest(as_text(own["source"]), as_text(own["digest"])) for own in policy["lists"]),
        ),
        Asked(
            None if asked["at"] is None else parse_moment(asked["at"]),
            as_text(asked["client"]),
            as_text_or_none(asked["user"]),
            None if asked["port"] is None else as_count(asked["port"]),
            bool(asked["as_recorded"]),
        ),
        tally,
        None
        if popular is None
        else Popular(as_text(popular["path"]), as_text(popular["digest"]), as_count(popular["domains"])),
        _seconds(plain["seconds"]),
        as_count(plain["workers"]),
    )


def _seconds(plain: object) -> float:
    seconds = plain if isinstance(plain, int | float) else -1.0
    if not 0 <= seconds < _LONGEST:
        raise ValueError(f"expected seconds, found {plain!r:.40}")
    return float(seconds)


def _counts(plain: Iterable[tuple[object, object]]) -> dict[str, int]:
    return {as_text(name): as_count(count) for name, count in plain}


def _heavy(plain: Mapping[str, Any]) -> Heavy:
    return Heavy(as_count(plain["most"]), _counts(plain["counts"]).items(), as_count(plain["error"]))


def _fill(examples: Examples, name: object, keys: Sequence[str], records: Mapping[str, Record]) -> None:
    for key in keys:
        examples.add(name, records[key].ranked)
