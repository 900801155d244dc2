"""What an audit counts: records and their decisions, and examples and frequent names, in bounded memory.

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
from bisect import insort
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from operator import itemgetter
from typing import Generic, NamedTuple, Self, TypeAlias, TypeVar

from hushlist.core.url.request import Request
from hushlist.tools.audit.replay.decryption import DistinctNames
from hushlist.tools.audit.sources.recorded_request import BrokenRecord, Rank, ReadRecord, RecordedRequest, SkippedRecord

#: examples of each list and category, of each kind of breakage, and of popular domains together
MOST_EXAMPLES = 12
MOST_BROKEN_EXAMPLES = 100
#: names with examples: those with the smallest hashes
_MOST_WITH_EXAMPLE = 1 << 14
#: broken records that are named
MOST_NAMED = 100
MOST_SLOWEST = 20

#: names in ``Examples`` that are not a rule, list or category
POPULAR = "popular"

# -- summaries, which take bounded memory ------------------------------------------------------------------------------

#: the hash that a record is chosen by, and the record
Ranked = tuple[Rank, RecordedRequest]
_LARGEST = (1 << 64) - 1
#: names that are counted separately
MOST_NAMES = 1 << 16
#: pages that are counted separately of each third party's role and list
MOST_PAGES = 1 << 10
_Key = TypeVar("_Key")


def by_number(counts: Mapping[_Key, int]) -> list[tuple[_Key, int]]:
    """Counts from the largest down; equal ones by their keys.

    >>> by_number({"b": 1, "a": 1, "c": 2})
    [('c', 2), ('a', 1), ('b', 1)]
    """
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


class Examples:
    """At most ``most_each`` records of each of at most ``most_names`` names: those with the smallest hashes.

    So the order of counting and merging does not matter.

    >>> examples = Examples(most_each=1)
    >>> for number in range(1, 4): _ = examples.add("rule", RecordedRequest(b"http://h.example/%d" % number).ranked)
    >>> [record.request for record in examples["rule"]]
    [b'http://h.example/1']
    """

    __slots__ = ("_by_name", "most_each", "most_names")

    def __init__(self, most_each: int, most_names: int = _MOST_WITH_EXAMPLE) -> None:
        self.most_each, self.most_names = most_each, most_names
        self._by_name: dict[Hashable, list[Ranked]] = {}

    def add(self, name: Hashable, example: Ranked) -> int:
        """Add a record if its hash is small enough; returns the largest hash that still could be added."""
        examples = self._by_name.get(name)
        if examples is None:
            examples = self._by_name[name] = []
            if len(self._by_name) > 2 * self.most_names:
                self._trim()
        belongs = len(examples) < self.most_each or example[0] < examples[-1][0]
        if belongs and all(ranked[0] != example[0] for ranked in examples):
            insort(examples, example, key=itemgetter(0))
            del examples[self.most_each :]
        return examples[-1][0][0] if len(examples) == self.most_each else _LARGEST

    def merge(self, other: Examples) -> None:
        for name, theirs in other._by_name.items():
            for example in theirs:
                self.add(name, example)

    def _trim(self) -> None:
        """Keep the names with the smallest hashes; an example that stays in the end is never removed before."""
        if len(self._by_name) > self.most_names:
            kept = sorted(self._by_name, key=_order)[: self.most_names]
            self._by_name = {name: self._by_name[name] for name in kept}

    def __getitem__(self, name: Hashable) -> list[RecordedRequest]:
        """The examples of a name; perhaps none."""
        self._trim()
        return [record for _, record in self._by_name.get(name, ())]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Examples):
            return NotImplemented
        self._trim()
        other._trim()
        return (self.most_each, self.most_names, self._by_name) == (other.most_each, other.most_names, other._by_name)

    __hash__ = None  # type: ignore[assignment]  # it is mutable


def _order(name: Hashable) -> tuple[bytes, str]:
    text = repr(name)
    return blake2b(text.encode("utf-8", "backslashreplace"), digest_size=8).digest(), text


class FrequentNames(NamedTuple):
    """What ``HeavyHitters`` has counted."""

    most: int
    #: by how much a count may be too small
    error: int
    #: the most frequent first; equally frequent ones by name
    counts: tuple[tuple[str, int], ...]


@dataclass(slots=True)
class HeavyHitters:
    """Counts of the most frequent of any number of names; equal if the counts are.

    The counts are exact if there are at most ``most`` names. With more, each count is too small by at most ``error``,
    and a missing name occurred at most ``error`` times; ``error`` is at most the sum of all counts, divided by
    ``most + 1``. That holds for any order of counting and merging. Which of the rare names are kept depends on it.

    Spec: Agarwal et al., Mergeable Summaries (PODS 2012), 3: the summary of Misra and Gries, and its merging

    >>> counts = HeavyHitters(most=2)
    >>> for name in "abacada": counts.add(name)
    >>> counts.result()
    FrequentNames(most=2, error=1, counts=(('a', 3),))
    """

    most: int = MOST_NAMES
    _error: int = 0
    _counts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, result: FrequentNames) -> Self:
        return cls(result.most, result.error, Counter(dict(result.counts)))

    def add(self, name: str, number: int = 1) -> None:
        self._counts[name] += number
        if len(self._counts) > 2 * self.most:  # only now and then, since finding the largest counts costs a sort
            self._trim()

    def merge(self, other: HeavyHitters) -> None:
        """Add another's counts."""
        self._counts = self._counts + other._counts
        self._error += other._error
        if len(self._counts) > 2 * self.most:
            self._trim()

    def result(self) -> FrequentNames:
        self._trim()
        return FrequentNames(self.most, self._error, tuple(by_number(self._counts)))

    def _trim(self) -> None:
        if len(self._counts) <= self.most:
            return
        # ``loss`` is the largest count of a removed name. The names that stay lose it, too, so all counts together lose
        # at least ``most + 1`` times as much.
        loss = sorted(self._counts.values(), reverse=True)[self.most]
        self._counts = Counter({name: count - loss for name, count in self._counts.items() if count > loss})
        self._error += loss


# -- counts ------------------------------------------------------------------------------------------------------------


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
        return ListKey(self.list, self.source)


#: what hits are counted for: a rule, a list, or a category, where "" stands for none
HitKey: TypeAlias = RuleKey | ListKey | str
KeyT = TypeVar("KeyT", RuleKey, ListKey, str)
#: the role of a third party, and the list that stopped it
PartyKey: TypeAlias = tuple[str, ListKey]


@dataclass(slots=True)
class MergeableCounts:
    """Counts that merge field by field."""

    def merge(self, other: Self) -> None:
        """Add another's counts, which stay as they are."""
        for field_ in fields(self):
            ours, theirs = getattr(self, field_.name), getattr(other, field_.name)
            if isinstance(ours, int):
                setattr(self, field_.name, ours + theirs)
            elif isinstance(ours, Counter):
                ours.update(theirs)
            elif isinstance(ours, dict):
                for key, value in theirs.items():
                    if key in ours and hasattr(value, "merge"):
                        ours[key].merge(value)
                    else:
                        ours[key] = copy(value)
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
    source: str
    format: str
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
    actions: Counter[str] = field(default_factory=Counter)
    #: requests by resource type: all, and those that were stopped
    kinds: Counter[str] = field(default_factory=Counter)
    stopped_kinds: Counter[str] = field(default_factory=Counter)
    #: unreadable URLs by the reason
    faults: Counter[str] = field(default_factory=Counter)
    #: requests of which the recording does not have what a rule for files or heads depends on
    doubts: Counter[str] = field(default_factory=Counter)
    #: requests that pass, whose head, or whose answer's, a rule for heads changes
    changes: Counter[str] = field(default_factory=Counter)

    hits: dict[HitKey, Hits] = field(default_factory=dict)
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

    #: requests that third parties were not asked for, and on which pages
    parties: Counter[PartyKey] = field(default_factory=Counter)
    party_pages: dict[PartyKey, HeavyHitters] = field(default_factory=dict)

    #: https by what ``decrypt: where-needed`` does: requests, those that names alone would decide otherwise, names
    tls_requests: Counter[str] = field(default_factory=Counter)
    tls_otherwise: Counter[str] = field(default_factory=Counter)
    tls_hosts: dict[str, DistinctNames] = field(default_factory=dict)
    tls_connections: dict[str, DistinctNames] = field(default_factory=dict)

    rule_examples: Examples = field(default_factory=lambda: Examples(1))
    #: of lists, categories and third parties
    other_examples: Examples = field(default_factory=lambda: Examples(MOST_EXAMPLES))
    #: by resource type of a breakage, and ``POPULAR``
    break_examples: Examples = field(default_factory=lambda: Examples(MOST_BROKEN_EXAMPLES))
    slowest: list[SlowDecision] = field(default_factory=list)

    @property
    def records(self) -> int:
        """The number of decided records."""
        return self.actions.total()

    def hits_of(self, kind: type[KeyT]) -> dict[KeyT, Hits]:
        """The hits of all rules, of all lists, or of all categories."""
        return {key: hits for key, hits in self.hits.items() if isinstance(key, kind)}

    def examples_of(self, key: HitKey) -> Examples:
        """The examples that those of a rule, list or category are among."""
        return self.rule_examples if isinstance(key, RuleKey) else self.other_examples

    def merge(self, other: Self) -> None:
        """Add another tally's counts."""
        SourceTally.merge(self, other)
        self.add_slow(other.slowest)

    def add_slow(self, more: Iterable[SlowDecision]) -> None:
        """Keep the slowest."""
        every = (*self.slowest, *more)
        self.slowest = sorted(every, key=lambda slow: (-slow.microseconds, slow.record.ranked[0]))[:MOST_SLOWEST]


#: schemes of URLs that no proxy is asked for, as browsers and logs have them
_LOCAL = re.compile(
    rb"(?:about|blob|brave|cache_object|chrome|chrome-error|chrome-extension|chrome-search|chrome-untrusted|content|data|"
    rb"devtools|edge|error|extension|file|filesystem|javascript|mailto|moz-extension|place|resource|safari-extension|"
    rb"safari-web-extension|tel|urn|view-source|vivaldi|wyciwyg):",
    re.IGNORECASE,
)


def is_local(request: bytes | Request) -> bool:
    """Whether the URL never reaches a proxy."""
    return isinstance(request, bytes) and _LOCAL.match(request) is not None


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
