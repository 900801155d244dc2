"""What an audit counts: a tally of records and their decisions, which merges with those of other records.

Merging is associative and commutative, and an empty tally changes nothing: but for the names that a full ``Heavy``
keeps, of which it says how wrong they may be, and for the times of the slowest decisions, nothing depends on the order
of records or on how they were divided. The memory is bounded by the policy's rules and lists and by the ``MOST_...``
numbers, whatever is counted.

What a list, category or rule is said to have done:

``fits``     a rule of it fits the request
``decided``  such a rule decided
``stopped``  such a rule decided, and blocked or warned
``alone``    of the requests that were stopped, by whatever: no rule of another one that fits would block or warn
``popular``  of those that it stopped: they went to a popular domain, or below one
``breaks``   of those that it stopped: a document, or a script or style of the page's own site
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from hushlist.audit.examples import Examples
from hushlist.audit.heavy import Heavy
from hushlist.audit.record import Broken, Rank, Record

#: examples that are kept of each list and category, of each kind of breakage, and of popular domains together
MOST_EXAMPLES = 12
MOST_BROKEN_EXAMPLES = 100
#: rules that have one, of those with the smallest hashes
MOST_RULES_WITH_EXAMPLE = 1 << 14
#: broken records that are named
MOST_NAMED = 100
#: slowest decisions
MOST_SLOWEST = 20

#: of ``Examples``, those that belong to no rule, list or category
POPULAR = "popular"


class ListKey(NamedTuple):
    """A list: its name, and the file that it was read from; the policy itself is one, and so are its checks."""

    list: str
    source: str


class RuleKey(NamedTuple):
    """A rule: where it stands, and what it fits."""

    list: str
    source: str
    line: int
    rule: str


@dataclass(slots=True)
class Hits:
    """Numbers of requests; see the module."""

    fits: int = 0
    decided: int = 0
    stopped: int = 0
    alone: int = 0
    popular: int = 0
    breaks: int = 0

    def merge(self, other: Hits) -> None:
        """Add those of another."""
        self.fits += other.fits
        self.decided += other.decided
        self.stopped += other.stopped
        self.alone += other.alone
        self.popular += other.popular
        self.breaks += other.breaks


@dataclass(slots=True)
class SourceCount:
    """What was read of a source."""

    #: name of its format
    format: str = ""
    records: int = 0
    broken: int = 0
    #: that no proxy is asked for, such as ``data:`` URLs
    skipped: int = 0

    def merge(self, other: SourceCount) -> None:
        """Add what was read of another piece."""
        self.format = max(self.format, other.format)
        self.records += other.records
        self.broken += other.broken
        self.skipped += other.skipped


class Slow(NamedTuple):
    """How long a decision took, in microseconds."""

    microseconds: int
    record: Record


@dataclass(slots=True)
class Tally:
    """See the module."""

    sources: dict[str, SourceCount] = field(default_factory=dict)
    #: the first that are named, by source and number
    broken: list[Broken] = field(default_factory=list)
    #: decisions by action
    actions: Counter[str] = field(default_factory=Counter)
    #: by kind of request: all, and those that were stopped
    kinds: Counter[str] = field(default_factory=Counter)
    stopped_kinds: Counter[str] = field(default_factory=Counter)
    #: requests whose URL cannot be read, by why
    faults: Counter[str] = field(default_factory=Counter)

    lists: dict[ListKey, Hits] = field(default_factory=dict)
    #: "" for rules without one
    categories: dict[str, Hits] = field(default_factory=dict)
    rules: dict[RuleKey, Hits] = field(default_factory=dict)
    #: category of rules that have one
    rule_categories: dict[RuleKey, str] = field(default_factory=dict)
    #: requests that were stopped and that both of two lists, the smaller key first, would stop
    overlaps: Counter[tuple[ListKey, ListKey]] = field(default_factory=Counter)

    #: requests by registrable domain (or address): all, those that were stopped, those whose stop breaks a page there
    sites: Heavy = field(default_factory=Heavy)
    stopped_sites: Heavy = field(default_factory=Heavy)
    broken_sites: Heavy = field(default_factory=Heavy)
    #: requests that were stopped by popular domain
    popular: Counter[str] = field(default_factory=Counter)
    #: what was stopped that breaks a page, by kind
    breaks: Counter[str] = field(default_factory=Counter)

    rule_examples: Examples = field(default_factory=lambda: Examples(1, MOST_RULES_WITH_EXAMPLE))
    list_examples: Examples = field(default_factory=lambda: Examples(MOST_EXAMPLES))
    category_examples: Examples = field(default_factory=lambda: Examples(MOST_EXAMPLES))
    #: by kind of what breaks a page, and ``POPULAR``
    break_examples: Examples = field(default_factory=lambda: Examples(MOST_BROKEN_EXAMPLES))
    slowest: list[Slow] = field(default_factory=list)

    @property
    def records(self) -> int:
        """How many were decided."""
        return self.actions.total()

    def merge(self, other: Tally) -> None:
        """Count what another tally has counted."""
        for ours, theirs in (
            (self.sources, other.sources),
            (self.lists, other.lists),
            (self.categories, other.categories),
            (self.rules, other.rules),
        ):
            _merge_each(ours, theirs)  # type: ignore[arg-type]  # each pair is of one type
        for counter, more in (
            (self.actions, other.actions),
            (self.kinds, other.kinds),
            (self.stopped_kinds, other.stopped_kinds),
            (self.faults, other.faults),
            (self.overlaps, other.overlaps),
            (self.popular, other.popular),
            (self.breaks, other.breaks),
        ):
            counter.update(more)  # type: ignore[arg-type]
        self.rule_categories.update(other.rule_categories)
        self.sites.merge(other.sites)
        self.stopped_sites.merge(other.stopped_sites)
        self.broken_sites.merge(other.broken_sites)
        self.rule_examples.merge(other.rule_examples)
        self.list_examples.merge(other.list_examples)
        self.category_examples.merge(other.category_examples)
        self.break_examples.merge(other.break_examples)
        self.name_broken(other.broken)
        self.add_slow(other.slowest)

    def name_broken(self, more: Iterable[Broken]) -> None:
        """Keep the first; they are counted with their sources."""
        self.broken = sorted((*self.broken, *more))[:MOST_NAMED]

    def add_slow(self, more: Iterable[Slow]) -> None:
        """Keep the slowest."""
        self.slowest = sorted((*self.slowest, *more), key=_slowness)[:MOST_SLOWEST]


def _merge_each(ours: dict[object, Hits], theirs: dict[object, Hits]) -> None:
    for key, hits in theirs.items():
        own = ours.get(key)
        if own is None:
            own = ours[key] = type(hits)()
        own.merge(hits)


def _slowness(slow: Slow) -> tuple[int, Rank]:
    return -slow.microseconds, slow.record.ranked[0]
