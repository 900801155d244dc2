"""Examples of each name: records with the smallest hashes, so that the order of counting and merging does not matter.

>>> examples = Examples(most_each=1)
>>> for number in range(1, 4): _ = examples.add("rule", RecordedRequest(b"http://h.example/%d" % number).ranked)
>>> [record.asked for record in examples["rule"]]
[b'http://h.example/1']
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Iterator
from hashlib import blake2b

from hushlist.audit.sources.recorded_request import Rank, RecordedRequest

#: the hash that a record is chosen by, and the record
Ranked = tuple[Rank, RecordedRequest]
_LARGEST = (1 << 64) - 1


class Examples:
    """At most ``most_each`` records of each of at most ``most_names`` names."""

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
