"""Summaries of a stream of records that take bounded memory, and merge: examples, and the most frequent names."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple

from hushlist.audit.sources.recorded_request import Rank, RecordedRequest

#: the hash that a record is chosen by, and the record
Ranked = tuple[Rank, RecordedRequest]
_LARGEST = (1 << 64) - 1
#: names that are counted separately
MOST_NAMES = 1 << 16


class Examples:
    """At most ``most_each`` records of each of at most ``most_names`` names: those with the smallest hashes.

    So the order of counting and merging does not matter.

    >>> examples = Examples(most_each=1)
    >>> for number in range(1, 4): _ = examples.add("rule", RecordedRequest(b"http://h.example/%d" % number).ranked)
    >>> [record.asked for record in examples["rule"]]
    [b'http://h.example/1']
    """

    __slots__ = ("_by_name", "most_each", "most_names")

    def __init__(self, most_each: int, most_names: int = 1 << 14) -> None:
        self.most_each, self.most_names = most_each, most_names
        self._by_name: dict[Hashable, list[Ranked]] = {}

    def add(self, name: Hashable, example: Ranked) -> int:
        """Add a record if its hash is small enough; returns the largest hash that still could be added."""
        own = self._by_name.get(name)
        if own is None:
            own = self._by_name[name] = []
            if len(self._by_name) > 2 * self.most_names:
                self._trim()
        is_one = len(own) < self.most_each or example[0] < own[-1][0]
        if is_one and all(known[0] != example[0] for known in own):
            insort(own, example, key=_rank)
            del own[self.most_each :]
        return own[-1][0][0] if len(own) == self.most_each else _LARGEST

    def merge(self, other: Examples) -> None:
        """Add another's examples."""
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

    def __iter__(self) -> Iterator[tuple[Hashable, RecordedRequest]]:
        """All, with their names."""
        self._trim()
        return ((name, record) for name, own in self._by_name.items() for _, record in own)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Examples):
            return NotImplemented
        self._trim()
        other._trim()
        return (self.most_each, self.most_names, self._by_name) == (other.most_each, other.most_names, other._by_name)

    __hash__ = None  # type: ignore[assignment]  # it is mutable


def _rank(example: Ranked) -> Rank:
    return example[0]


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

    __slots__ = ("_counts", "_error", "most")

    def __init__(self, most: int = MOST_NAMES, error: int = 0, counts: Iterable[tuple[str, int]] = ()) -> None:
        """``counts`` and ``error``: another's."""
        self.most = most
        self._counts = Counter(dict(counts))
        self._error = error

    def add(self, name: str, number: int = 1) -> None:
        """Count a name."""
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
        """The counts so far."""
        self._trim()
        counts = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
        return FrequentNames(self.most, self._error, tuple(counts))

    def _trim(self) -> None:
        if len(self._counts) <= self.most:
            return
        # ``loss`` is the largest count of a removed name. The names that stay lose it, too, so all counts together lose
        # at least ``most + 1`` times as much.
        loss = sorted(self._counts.values(), reverse=True)[self.most]
        self._counts = Counter({name: count - loss for name, count in self._counts.items() if count > loss})
        self._error += loss

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HeavyHitters):
            return NotImplemented
        return (self.most, self._error, self._counts) == (other.most, other._error, other._counts)

    __hash__ = None  # type: ignore[assignment]  # it changes
