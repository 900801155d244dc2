"""Counts of the most frequent of any number of names, in bounded memory.

The counts are exact if there are at most ``most`` names. With more, each count is too small by at most ``error``, and a
missing name occurred at most ``error`` times; ``error`` is at most the sum of all counts, divided by ``most + 1``. That
holds for any order of counting and merging. Which of the rare names are kept depends on the order.

Spec: Agarwal et al., Mergeable Summaries (PODS 2012), 3: the summary of Misra and Gries, and its merging

>>> counts = HeavyHitters(most=2)
>>> for name in "abacada": counts.add(name)
>>> counts.trimmed().counts, counts.trimmed().error
({'a': 3}, 1)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Self

#: names that are counted separately
MOST_NAMES = 1 << 16


class HeavyHitters:
    """See the module; equal if the counts are."""

    __slots__ = ("_counts", "_error", "most")

    def __init__(self, most: int = MOST_NAMES, counts: Iterable[tuple[str, int]] = (), error: int = 0) -> None:
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
        self._counts.update(other._counts)
        self._error += other._error
        if len(self._counts) > 2 * self.most:
            self._trim()

    def trimmed(self) -> Self:
        """The same with at most ``most`` names."""
        self._trim()
        return self

    @property
    def error(self) -> int:
        """By how much a count may be too small."""
        return self._error

    @property
    def counts(self) -> dict[str, int]:
        """The names, the most frequent first; equally frequent ones by name."""
        return dict(sorted(self._counts.items(), key=lambda item: (-item[1], item[0])))

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

    def as_dict(self) -> dict[str, object]:
        """Plain types: ``{"most": int, "error": int, "counts": [[name, count], ...]}``, the most frequent first."""
        self._trim()
        return {"most": self.most, "error": self._error, "counts": [[*item] for item in self.counts.items()]}
