"""The report of an audit, as the text, the page and the JSON show it, and as parts of an audit are merged.

The fields are the keys of the JSON, as ``report_codec`` writes and reads it; of a ``Flat`` field, its
own fields are. Explanations and rules that never fired are written but not read back: ``add_details`` makes them anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from hushlist.core.decide.decision import Decision
from hushlist.core.policy.groups import Client
from hushlist.core.url.request import Request
from hushlist.tools.audit.replay.decryption import SettingCounts, TlsCounts
from hushlist.tools.audit.replay.tally import FrequentNames, Hits, ListKey, RuleKey, SourceCount
from hushlist.tools.audit.report_codec import Flat, ReportError, Unread, decode
from hushlist.tools.audit.sources.recorded_request import (
    HIDDEN,
    BrokenRecord,
    RecordedRequest,
    ResourceType,
    hide_user,
    time_of,
)

FORMAT = "hushlist audit 2"

# -- what was audited --------------------------------------------------------------------------------------------------


class FileDigest(NamedTuple):
    """A file that decides: its path, and the SHA-256 of its contents, in hex."""

    source: str
    digest: str


class PolicyDigest(NamedTuple):
    """The identity of the policy that decided."""

    path: str
    #: of the digests of the policy's files and of its lists
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


class PopularDomains(NamedTuple):
    path: str
    digest: str
    domains: int


@dataclass(frozen=True, slots=True)
class BrokenRecords:
    """How many records could not be read, and the first of them."""

    count: int
    first: tuple[BrokenRecord, ...]


# -- what was found ----------------------------------------------------------------------------------------------------
# "examples", "example" and "record" are keys of "records_shown".


class KindCount(NamedTuple):
    requests: int
    stopped: int


class UnusedRule(NamedTuple):
    """A rule that never fired: its place, and its text."""

    line: int
    text: str


class ListFacts(NamedTuple):
    """What is known of a list besides its hits."""

    title: str | None = None
    #: rules in the index
    rules: int = 0
    #: of these, rules that fitted anything; the other rule of the same entry counts, too
    fired: int = 0
    #: the first of the other rules
    unused_first: tuple[UnusedRule, ...] = ()


class ListUse(NamedTuple):
    key: Flat[ListKey]
    facts: Flat[ListFacts] = ListFacts()
    hits: Flat[Hits] = Hits()
    examples: tuple[str, ...] = ()


class Overlap(NamedTuple):
    """How many requests each of two lists would stop."""

    #: their places in the report's lists
    lists: tuple[int, int]
    requests: int


class CategoryUse(NamedTuple):
    """What the rules of a category did; "" stands for no category."""

    category: str
    hits: Flat[Hits]
    examples: tuple[str, ...]


class RuleUse(NamedTuple):
    key: Flat[RuleKey]
    category: str | None
    hits: Flat[Hits]
    example: str | None
    #: of a filter: how it is written in its list; empty where that cannot be read
    text: str = ""

    @property
    def shown(self) -> str:
        return self.text or self.key.rule


class SitesUse(NamedTuple):
    """Requests by site: all, those that were stopped, and those whose stop breaks a page there."""

    requests: FrequentNames
    stopped: FrequentNames
    breaks: FrequentNames


class PopularUse(NamedTuple):
    """The requests to a popular domain that were stopped."""

    domain: str
    rank: int | None
    stopped: int


class Breakage(NamedTuple):
    """The stopped requests of one resource type that break a page."""

    requests: int
    examples: tuple[str, ...]


class PartyUse(NamedTuple):
    """What a list stops of third parties of one role."""

    role: str
    key: Flat[ListKey]
    stopped: int
    pages: FrequentNames
    examples: tuple[str, ...]


class SlowRecord(NamedTuple):
    microseconds: int
    record: str


# -- records and their explanations ------------------------------------------------------------------------------------


class ExplainedExpression(NamedTuple):
    """An expression that rules were looked up by."""

    expression: str
    sha256: str


class ExplainedForm(NamedTuple):
    canonical: str
    expressions: tuple[ExplainedExpression, ...]


class RecordExplanation(NamedTuple):
    """The decision for a record, and the steps to it."""

    decision: Flat[Decision]
    forms: tuple[ExplainedForm, ...]


class ShownRequest(NamedTuple):
    """A request with several names."""

    scheme: bytes
    hosts: tuple[bytes, ...]
    port: int
    target: bytes
    fragment: bytes | None
    has_user: bool
    fault: str | None


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A recorded request, without its user information."""

    url: bytes
    source: str
    number: int
    kind: ResourceType
    page: bytes | None
    time: float | None
    client: str
    user: str | None
    port: int | None
    method: str
    status: int
    request: ShownRequest | None
    seen: tuple[dict[str, str], ...]
    explanation: Unread[RecordExplanation] = None


def shown_record(record: RecordedRequest) -> ShownRecord:
    request_or_url, page = record.request, record.page
    request = None
    if isinstance(request_or_url, Request):
        origin = (
            request_or_url.scheme,
            request_or_url.hosts,
            request_or_url.port,
            request_or_url.target,
            request_or_url.fragment,
        )
        request = ShownRequest(*origin, request_or_url.userinfo is not None, request_or_url.fault)
    place = record.source, record.number, record.kind, None if page is None else hide_user(page), record.time
    return ShownRecord(
        record.url, *place, *record.client, record.method, record.status, request, tuple(map(dict, record.seen))
    )


def recorded(shown: ShownRecord) -> RecordedRequest:
    """The record that a report shows; user information stays hidden."""
    request = shown.request
    place = shown.source, shown.number, shown.kind, shown.page, time_of(shown.time)
    client = Client(shown.client, shown.user, shown.port)
    record = RecordedRequest(shown.url, *place, client, shown.method, shown.status, shown.seen)
    if request is None:
        return record
    user = HIDDEN if request.has_user else None
    full_request = Request(
        request.scheme,
        request.hosts,
        request.port,
        request.target,
        request.fragment,
        user,
        request.fault,
        context=record.context,
    )
    return record._replace(request=full_request)


# -- the report --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AuditReport:
    format: str
    policy: PolicyDigest
    options: ReplayOptions
    popular: PopularDomains | None
    #: of wall-clock time; for several machines, their sum
    seconds: float
    records: int
    records_a_second: int | None
    workers: int
    #: by name
    sources: tuple[SourceCount, ...]
    broken: BrokenRecords
    actions: dict[str, int]
    kinds: dict[str, KindCount]
    #: unreadable URLs by the reason
    faults: dict[str, int]
    #: what rules for files and heads depend on that the recordings do not have, by the rule
    doubts: dict[str, int]
    #: requests that pass, whose head, or whose answer's, rules for heads change, by the rule
    changes: dict[str, int]
    #: by source; with details, also those without a hit
    lists: tuple[ListUse, ...]
    overlaps: tuple[Overlap, ...]
    #: the most hits first
    categories: tuple[CategoryUse, ...]
    #: those that fit anything, the most hits first
    rules: tuple[RuleUse, ...]
    sites: SitesUse
    #: those with stopped requests, by rank
    popular_domains: tuple[PopularUse, ...]
    popular_examples: tuple[str, ...]
    breaks: dict[str, Breakage]
    #: the most stopped requests of a role first
    third_parties: tuple[PartyUse, ...]
    slowest: tuple[SlowRecord, ...]
    #: https by what ``decrypt: where-needed`` does
    tls: dict[str, TlsCounts]
    #: what each setting of ``decrypt`` decrypts of it
    decryption: dict[str, SettingCounts]
    records_shown: dict[str, ShownRecord]

    @property
    def stopped(self) -> int:
        return sum(count.stopped for count in self.kinds.values())

    def keys(self, most_rules: int | None = None) -> Iterator[str]:
        """The keys of records, the most important first; of the rules, only the first so many have theirs."""
        for broken in self.breaks.values():
            yield from broken.examples
        for party in self.third_parties:
            yield from party.examples
        yield from (slow.record for slow in self.slowest)
        for examples in (*(use.examples for use in self.lists), *(use.examples for use in self.categories)):
            yield from examples
        yield from self.popular_examples
        yield from (rule.example for rule in self.rules[:most_rules] if rule.example is not None)


def read_report(octets: bytes) -> AuditReport:
    """The report in a JSON document; ``ReportError`` if it is not a report."""
    try:
        plain = json.loads(octets)
    except (ValueError, RecursionError) as error:
        raise ReportError(str(error)) from error
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise ReportError(f"it is no report of an audit: its format is not {FORMAT!r}")
    try:
        report = decode(AuditReport, plain)
    except ReportError as error:
        raise ReportError(f"it is no whole report of an audit: {error}") from error
    lists = {row.key for row in report.lists}
    places = range(len(report.lists))
    for is_so, what in (
        (report.records_shown.keys() >= {*report.keys()}, "an example is not among the records"),
        (lists >= {row.key.of_list for row in report.rules}, "a rule is of none of its lists"),
        (lists >= {row.key for row in report.third_parties}, "a third party is stopped by none of its lists"),
        (all(at in places for row in report.overlaps for at in row.lists), "an overlap is of none of its lists"),
        (report.seconds >= 0, "it took less than no time"),
    ):
        if not is_so:
            raise ReportError(f"it is no whole report of an audit: {what}")
    return report
