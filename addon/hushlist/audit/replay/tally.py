"""What an audit counts: records and their decisions.

Tallies merge. Merging is associative and commutative, and an empty tally changes nothing. So the order of records and
their division do not matter, with two exceptions: the times of the slowest decisions, and the names that a full
``HeavyHitters`` keeps (it says how wrong they may be). The policy's rules and lists and the ``MOST_...`` numbers limit
the memory.

What a list, category or rule has done:

``fits``     a rule of it fits the request
``decided``  such a rule decided
``stopped``  such a rule decided, and blocked or warned
``alone``    stopped requests that it fits, and that no other list (category, rule) would block or warn about
``popular``  requests that it stopped on the way to a popular domain, or below one
``breaks``   requests that it stopped for a document, or for a script or style of the page's own site
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field, fields
from typing import Generic, NamedTuple, Self, TypeVar

from hushlist.audit.replay.stream_summaries import Examples, HeavyHitters
from hushlist.audit.sources.recorded_request import BrokenRecord, Rank, ReadRecord, RecordedRequest, SkippedRecord
from hushlist.url.request import Request

#: examples of each list and category, of each kind of breakage, and of popular domains together
MOST_EXAMPLES = 12
MOST_BROKEN_EXAMPLES = 100
#: rules with an example: those with the smallest hashes
MOST_RULES_WITH_EXAMPLE = 1 << 14
#: broken records that are named
MOST_NAMED = 100
#: slowest decisions
MOST_SLOWEST = 20

#: names in ``Examples`` that are not a rule, list or category
POPULAR = "popular"


class ListKey(NamedTuple):
    """A list: its name and file; the policy itself counts as a list, and so do its checks."""

    list: str
    source: str


def by_source(key: ListKey) -> tuple[str, str]:
    """What reports sort lists by."""
    return key.source, key.list


class RuleKey(NamedTuple):
    """A rule: its place, and what it fits."""

    list: str
    source: str
    line: int
    rule: str

    @property
    def of_list(self) -> ListKey:
        """Its list."""
        return ListKey(self.list, self.source)


@dataclass(slots=True)
class MergeableCounts:
    """Counts that merge field by field."""

    def merge(self, other: Self) -> None:
        """Add another's counts, which stay as they are."""
        for field_ in fields(self):
            ours, theirs = getattr(self, field_.name), getattr(other, field_.name)
            if isinstance(ours, int):
                setattr(self, field_.name, ours + theirs)
            elif isinstance(ours, str):
                setattr(self, field_.name, max(ours, theirs))
            elif isinstance(ours, Counter):
                ours.update(theirs)
            elif isinstance(ours, dict):
                for key, own in theirs.items():
                    if key in ours and hasattr(own, "merge"):
                        ours[key].merge(own)
                    else:
                        ours[key] = copy(own)
            elif hasattr(ours, "merge"):
                ours.merge(theirs)


@dataclass(slots=True)
class Hits(MergeableCounts):
    """Numbers of requests; see the module."""

    fits: int = 0
    decided: int = 0
    stopped: int = 0
    alone: int = 0
    popular: int = 0
    breaks: int = 0


@dataclass(slots=True)
class SourceCount(MergeableCounts):
    """The numbers of records read from a source."""

    source: str
    #: name of its format
    format: str = ""
    records: int = 0
    broken: int = 0
    #: records that no proxy is asked for, such as ``data:`` URLs
    skipped: int = 0


@dataclass(slots=True)
class SourceTally(MergeableCounts):
    """What is counted of sources, whatever becomes of their records."""

    sources: dict[str, SourceCount] = field(default_factory=dict)
    #: the first ones, by source and number
    broken: list[BrokenRecord] = field(default_factory=list)

    def name_broken(self, more: Iterable[BrokenRecord]) -> None:
        """Keep the first; they are counted with their sources."""
        self.broken = sorted((*self.broken, *more))[:MOST_NAMED]

    def merge(self, other: Self) -> None:
        """Add another's counts."""
        MergeableCounts.merge(self, other)  # a dataclass with slots has no super()
        self.name_broken(other.broken)


class SlowDecision(NamedTuple):
    """How long a decision took, in microseconds."""

    microseconds: int
    record: RecordedRequest


@dataclass(slots=True)
class AuditTally(SourceTally):
    """See the module."""

    #: decisions by action
    actions: Counter[str] = field(default_factory=Counter)
    #: requests by resource type: all, and those that were stopped
    kinds: Counter[str] = field(default_factory=Counter)
    stopped_kinds: Counter[str] = field(default_factory=Counter)
    #: unreadable URLs by the reason
    faults: Counter[str] = field(default_factory=Counter)

    lists: dict[ListKey, Hits] = field(default_factory=dict)
    #: "" stands for no category
    categories: dict[str, Hits] = field(default_factory=dict)
    rules: dict[RuleKey, Hits] = field(default_factory=dict)
    #: categories of rules that have one
    rule_categories: dict[RuleKey, str] = field(default_factory=dict)
    #: stopped requests that each of two lists would stop; the smaller key first
    overlaps: Counter[tuple[ListKey, ListKey]] = field(default_factory=Counter)

    #: requests by registrable domain (or address): all, those that were stopped, those whose stop breaks a page there
    sites: HeavyHitters = field(default_factory=HeavyHitters)
    stopped_sites: HeavyHitters = field(default_factory=HeavyHitters)
    broken_sites: HeavyHitters = field(default_factory=HeavyHitters)
    #: stopped requests by popular domain, and the domains' ranks
    popular: Counter[str] = field(default_factory=Counter)
    popular_ranks: dict[str, int] = field(default_factory=dict)
    #: stopped requests that break a page, by resource type
    breaks: Counter[str] = field(default_factory=Counter)

    rule_examples: Examples = field(default_factory=lambda: Examples(1, MOST_RULES_WITH_EXAMPLE))
    list_examples: Examples = field(default_factory=lambda: Examples(MOST_EXAMPLES))
    category_examples: Examples = field(default_factory=lambda: Examples(MOST_EXAMPLES))
    #: by resource type of a breakage, and ``POPULAR``
    break_examples: Examples = field(default_factory=lambda: Examples(MOST_BROKEN_EXAMPLES))
    slowest: list[SlowDecision] = field(default_factory=list)

    @property
    def records(self) -> int:
        """The number of decided records."""
        return self.actions.total()

    def merge(self, other: Self) -> None:
        """Add another tally's counts."""
        SourceTally.merge(self, other)
        self.add_slow(other.slowest)

    def add_slow(self, more: Iterable[SlowDecision]) -> None:
        """Keep the slowest."""
        self.slowest = sorted((*self.slowest, *more), key=_slowness)[:MOST_SLOWEST]


def _slowness(slow: SlowDecision) -> tuple[int, Rank]:
    return -slow.microseconds, slow.record.ranked[0]


#: schemes of URLs that no proxy is asked for, as browsers and logs have them
_LOCAL = re.compile(
    rb"(?:about|blob|brave|cache_object|chrome|chrome-error|chrome-extension|chrome-search|chrome-untrusted|content|data|"
    rb"devtools|edge|error|extension|file|filesystem|javascript|mailto|moz-extension|place|resource|safari-extension|"
    rb"safari-web-extension|tel|urn|view-source|vivaldi|wyciwyg):",
    re.IGNORECASE,
)


def is_local(asked: bytes | Request) -> bool:
    """Whether the URL never reaches a proxy."""
    return isinstance(asked, bytes) and _LOCAL.match(asked) is not None


TallyT = TypeVar("TallyT", bound=SourceTally)


class RecordCounter(ABC, Generic[TallyT]):
    """Counts records of sources into a tally."""

    def __init__(self, tally: TallyT) -> None:
        self.tally = tally

    def add(self, records: Iterable[ReadRecord], source: str, format_name: str) -> TallyT:
        """Decide and count the records of a source, or of a chunk of it; returns the tally of all so far."""
        count = self.tally.sources.setdefault(source, SourceCount(source, format_name))
        broken: list[BrokenRecord] = []
        for record in records:
            if isinstance(record, RecordedRequest):
                if self._count(record):
                    count.records += 1
                else:
                    count.skipped += 1
            elif isinstance(record, SkippedRecord):
                count.skipped += 1
            else:
                count.broken += 1
                broken.append(record)
                if len(broken) > 1000:
                    self.tally.name_broken(broken)
                    broken = []
        self.tally.name_broken(broken)
        self._settle()
        return self.tally

    @abstractmethod
    def _count(self, record: RecordedRequest) -> bool:
        """Decide and count a record if a proxy would see it; whether that is so."""

    def _settle(self) -> None:
        """Add counts that are kept elsewhere to the tally."""
