"""Line numbers of a list that has changed: which number each line of an earlier version has now.

An index that was made from an earlier one keeps the numbers that lines had when their rules were read, and these runs.

>>> moved = LineRuns.of([(1, 1), (5, 4)])
>>> moved.now(3), moved.now(7), moved.then(LineRuns.of([(1, 1), (6, 16)])).now(7)
(3, 6, 16)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple


class LineRuns(NamedTuple):
    """Lines that moved together: the number of the first of each run, before and now, both ascending.

    Numbers before the first run stay, as 0 does, which stands for the whole list.
    """

    firsts: Sequence[int]
    now_at: Sequence[int]

    @classmethod
    def of(cls, runs: Iterable[tuple[int, int]]) -> LineRuns:
        """Runs without those that only go on as the run before does."""
        firsts, now_at = list[int](), list[int]()
        for first, now in runs:
            if not firsts or now - first != now_at[-1] - firsts[-1]:
                firsts.append(first)
                now_at.append(now)
        return cls(firsts, now_at)

    def now(self, line: int) -> int:
        """The number of a line that is still there."""
        at = bisect_right(self.firsts, line) - 1
        return line if at < 0 else self.now_at[at] + line - self.firsts[at]

    def then(self, later: LineRuns) -> LineRuns:
        """These runs, and then others."""
        ends = [*self.firsts[1:], None]
        met = list[int]()
        for line in later.firsts:
            at = bisect_right(self.now_at, line) - 1
            before = line if at < 0 else self.firsts[at] + line - self.now_at[at]
            end = ends[at] if at >= 0 else self.firsts[0] if self.firsts else None
            if end is None or before < end:
                met.append(before)
        starts = sorted({*self.firsts, *met})
        return LineRuns.of((line, later.now(self.now(line))) for line in starts)

    @property
    def numbers(self) -> Iterable[int]:
        """All that ``of_numbers`` needs."""
        return chain(self.firsts, self.now_at)

    @classmethod
    def of_numbers(cls, numbers: Sequence[int]) -> LineRuns:
        """Runs whose firsts are the first half of the numbers."""
        half = len(numbers) // 2
        return cls(numbers[:half], numbers[half:])
