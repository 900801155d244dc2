"""The report of an audit: policy, options, tally, rules that never fired, and explanations; also as JSON.

``as_dict`` returns plain types, from which ``report_of`` makes the report again. Their shape:

.. code-block:: text

    {"format": "hushlist audit 1",
     "policy": {"path", "digest", "lists": [{"source", "digest"}]},    digests: SHA-256 of the files, in hex
     "asked": {"at", "client", "user", "port", "as_recorded"},         "at": ISO 8601; null where "as_recorded"
     "popular": {"path", "digest", "domains"} or null,
     "seconds", "records", "records_a_second", "workers",
     "sources": [{"source", "format", "records", "broken", "skipped"}],  by name
     "broken": {"count", "first": [{"source", "number", "why"}]},
     "actions": {"block": n, "pass": n, ...},
     "kinds": {"script": {"requests", "stopped"}, ...},
     "faults": {why: n},
     "lists": [{"list", "source", "title", "rules", "fired", "unused_first": [{"line", "text"}],
                HITS, "examples": [KEY]}],                             by source; also those without a hit
     "overlaps": [{"lists": [i, j], "requests": n}],                   places in "lists", i < j
     "categories": [{"category", HITS, "examples": [KEY]}],            the most hits first; "" is no category
     "rules": [{"list", "source", "line", "rule", "category", HITS, "example": KEY or null}],
                                                                       those that fit anything, the most hits first
     "sites": {"requests": HEAVY, "stopped": HEAVY, "breaks": HEAVY},
     "popular_domains": [{"domain", "rank", "stopped"}],               those with stopped requests, by rank
     "popular_examples": [KEY],
     "breaks": {"script": {"requests", "examples": [KEY]}, ...},
     "slowest": [{"microseconds", "record": KEY}],
     "records_shown": {KEY: {"url", "source", "number", "kind", "page", "time", "client", "user", "port", "method",
                             "status", "request", "explanation": EXPLANATION or null}}}

    HITS         "fits", "decided", "stopped", "alone", "popular", "breaks": as ``hushlist.audit.replay.tally`` says
    HEAVY        {"most", "error", "counts": [[name, n], ...]}: as ``hushlist.audit.replay.heavy_hitters`` says
    EXPLANATION  what ``Decision.as_dict`` gives, and
                 "forms": [{"canonical", "expressions": [{"expression", "sha256"}]}]

Texts from URLs keep octets that are not UTF-8 as lone surrogates, as Python's ``surrogateescape`` does.

A report that is read again has no explanations and no rules that never fired; ``add_details`` finds these again. So
reports of several machines merge if the policy is the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from hushlist.audit.replay.examples import Examples
from hushlist.audit.replay.heavy_hitters import HeavyHitters
from hushlist.audit.replay.tally import POPULAR, AuditTally, Hits, ListKey, RuleKey, SlowDecision, SourceCount
from hushlist.audit.sources.json_codec import RecordTable, as_count, as_text, as_text_or_none, decode_record
from hushlist.audit.sources.recorded_request import BrokenRecord, RecordedRequest
from hushlist.errors import HushlistError
from hushlist.policy.recurrence import parse_moment

FORMAT = "hushlist audit 1"


class ReportError(HushlistError):
    """Reports cannot be merged, or a file is not a report."""


@dataclass(frozen=True, slots=True)
class FileDigest:
    """A file that decides: its path, and the SHA-256 of its contents."""

    source: str
    digest: str


@dataclass(frozen=True, slots=True)
class PolicyDigest:
    """The identity of the policy that decided."""

    path: str
    #: digests of the policy's files and of its lists
    digest: str
    lists: tuple[FileDigest, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """For which client and at which time the records were decided."""

    #: ``None`` if each record is decided as of its own time
    at: datetime | None = None
    client: str = ""
    user: str | None = None
    port: int | None = None
    #: whether to use a record's own client and time, if it has them
    as_recorded: bool = False

    @property
    def whose(self) -> tuple[object, ...]:
        """For which client; the moments of parts of an audit may differ."""
        return self.client, self.user, self.port, self.as_recorded


@dataclass(frozen=True, slots=True)
class PopularDomains:
    """The list of popular domains."""

    path: str
    digest: str
    domains: int


@dataclass(frozen=True, slots=True)
class UnusedRule:
    """A rule that never fired: its place, and its text."""

    line: int
    text: str


@dataclass(slots=True)
class ListUse:
    """Facts about a list besides its hits."""

    title: str | None = None
    #: rules in the index
    rules: int = 0
    #: of these, rules that fitted anything; the other rule of the same entry counts, too
    fired: int = 0
    #: the first of the other rules
    unused_first: list[UnusedRule] = field(default_factory=list)


@dataclass(slots=True)
class AuditReport:
    """See the module."""

    policy: PolicyDigest
    asked: ReplayOptions
    tally: AuditTally
    popular: PopularDomains | None = None
    #: seconds of wall-clock time; for several machines, their sum
    seconds: float = 0.0
    workers: int = 1
    #: added by ``add_details``, from ``tally``
    lists: dict[ListKey, ListUse] = field(default_factory=dict)
    #: by domain, from 1
    ranks: dict[str, int] = field(default_factory=dict)
    #: by the keys of records
    explanations: dict[str, dict[str, Any]] = field(default_factory=dict)

    def merge(self, other: AuditReport) -> None:
        """Add another report's counts; call ``add_details`` again afterwards.

        Raises:
                ReportError: the policies, the clients or the popular domains differ.
        """
        popular, others = (one.popular and one.popular.digest for one in (self, other))
        for what, ours, theirs in (
            ("for another client (--client, --user, --port, --as-recorded)", self.asked.whose, other.asked.whose),
            ("with another policy, or other lists (--policy)", self.policy.digest, other.policy.digest),
            ("with other popular domains (--popular)", popular, others),
        ):
            if ours != theirs:
                raise ReportError(f"the reports cannot be merged: they were made {what}")
        self.tally.merge(other.tally)
        self.seconds += other.seconds
        self.workers = max(self.workers, other.workers)

    def as_dict(self) -> dict[str, Any]:
        """The report as plain types; see the module."""
        tally = self.tally
        shown = RecordTable(self.explanations)
        lists = sorted({*self.lists, *tally.lists}, key=lambda key: (key.source, key.list))
        places = {key: place for place, key in enumerate(lists)}
        return {
            "format": FORMAT,
            "policy": asdict(self.policy),
            "asked": {**asdict(self.asked), "at": None if self.asked.at is None else self.asked.at.isoformat()},
            "popular": None if self.popular is None else asdict(self.popular),
            "seconds": round(self.seconds, 3),
            "records": tally.records,
            "records_a_second": round(tally.records / self.seconds) if self.seconds else None,
            "workers": self.workers,
            "sources": [{"source": name, **asdict(own)} for name, own in sorted(tally.sources.items())],
            "broken": {
                "count": sum(own.broken for own in tally.sources.values()),
                "first": [own._asdict() for own in tally.broken],
            },
            "actions": dict(sorted(tally.actions.items())),
            "kinds": {
                kind: {"requests": number, "stopped": tally.stopped_kinds[kind]}
                for kind, number in sorted(tally.kinds.items())
            },
            "faults": dict(sorted(tally.faults.items())),
            "lists": [
                {
                    **key._asdict(),
                    **asdict(self.lists.get(key, ListUse())),
                    **asdict(tally.lists.get(key, Hits())),
                    "examples": shown.keys(tally.list_examples[key]),
                }
                for key in lists
            ],
            "overlaps": [
                {"lists": sorted((places[first], places[second])), "requests": number}
                for (first, second), number in sorted(tally.overlaps.items())
            ],
            "categories": [
                {"category": name, **asdict(hits), "examples": shown.keys(tally.category_examples[name])}
                for name, hits in _most_first(tally.categories)
            ],
            "rules": [
                {
                    **key._asdict(),
                    "category": tally.rule_categories.get(key),
                    **asdict(hits),
                    "example": next(iter(shown.keys(tally.rule_examples[key])), None),
                }
                for key, hits in _most_first(tally.rules)
            ],
            "sites": {
                "requests": tally.sites.as_dict(),
                "stopped": tally.stopped_sites.as_dict(),
                "breaks": tally.broken_sites.as_dict(),
            },
            "popular_domains": [
                {"domain": name, "rank": self.ranks.get(name), "stopped": number}
                for name, number in sorted(tally.popular.items(), key=lambda own: (self.ranks.get(own[0], 0), own[0]))
            ],
            "popular_examples": shown.keys(tally.break_examples[POPULAR]),
            "breaks": {
                kind: {"requests": number, "examples": shown.keys(tally.break_examples[kind])}
                for kind, number in sorted(tally.breaks.items())
            },
            "slowest": [
                {"microseconds": slow.microseconds, "record": shown.key(slow.record)} for slow in tally.slowest
            ],
            "records_shown": shown.records,
        }


def _most_first(hits: Mapping[Any, Hits]) -> list[tuple[Any, Hits]]:
    return sorted(hits.items(), key=lambda item: (-item[1].stopped, -item[1].fits, item[0]))


#: seconds; no audit takes so long
_LONGEST = 1e12


def report_of_json(octets: bytes) -> AuditReport:
    """The report in a JSON document.

    Raises:
            ReportError: it is not a report.
    """
    try:
        plain = json.loads(octets)
    except (ValueError, RecursionError) as error:
        raise ReportError(str(error)) from error
    return report_of(plain)


def report_of(plain: object) -> AuditReport:
    """The report that ``as_dict`` has returned as ``plain``.

    Raises:
            ReportError: it is not a report.
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


def _read(plain: Mapping[str, Any]) -> AuditReport:
    records = {key: decode_record(own) for key, own in plain["records_shown"].items()}
    policy, asked, popular = plain["policy"], plain["asked"], plain["popular"]
    lists = [ListKey(as_text(own["list"]), as_text(own["source"])) for own in plain["lists"]]
    rules = [
        RuleKey(as_text(own["list"]), as_text(own["source"]), as_count(own["line"]), as_text(own["rule"]))
        for own in plain["rules"]
    ]
    tally = AuditTally(
        sources={
            as_text(own["source"]): SourceCount(
                as_text(own["format"]), *(as_count(own[name]) for name in ("records", "broken", "skipped"))
            )
            for own in plain["sources"]
        },
        broken=[
            BrokenRecord(as_text(own["source"]), as_count(own["number"]), as_text(own["why"]))
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
    tally.add_slow(SlowDecision(as_count(own["microseconds"]), records[own["record"]]) for own in plain["slowest"])
    return AuditReport(
        PolicyDigest(
            as_text(policy["path"]),
            as_text(policy["digest"]),
            tuple(FileDigest(as_text(own["source"]), as_text(own["digest"])) for own in policy["lists"]),
        ),
        ReplayOptions(
            None if asked["at"] is None else parse_moment(asked["at"]),
            as_text(asked["client"]),
            as_text_or_none(asked["user"]),
            None if asked["port"] is None else as_count(asked["port"]),
            bool(asked["as_recorded"]),
        ),
        tally,
        None
        if popular is None
        else PopularDomains(as_text(popular["path"]), as_text(popular["digest"]), as_count(popular["domains"])),
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


def _heavy(plain: Mapping[str, Any]) -> HeavyHitters:
    return HeavyHitters(as_count(plain["most"]), _counts(plain["counts"]).items(), as_count(plain["error"]))


def _fill(examples: Examples, name: object, keys: Sequence[str], records: Mapping[str, RecordedRequest]) -> None:
    for key in keys:
        examples.add(name, records[key].ranked)
