"""What changed between two versions of a list, line by line, in the time that it takes to read both.

The lines are compared in their order. What moved far counts as gone and as new: so the changes are right, and not
always the fewest. A part of each version is in memory.

>>> from io import BytesIO
>>> line_changes(BytesIO(b"a\\nb\\nc\\n"), BytesIO(b"a\\nc\\nd\\n"), 9)
[LineChange(old=2, gone=[b'b\\n'], new=2, came=[]), LineChange(old=4, gone=[], new=3, came=[b'd\\n'])]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import compress, count
from operator import ne
from pathlib import Path
from typing import BinaryIO, NamedTuple

from hushlist.core.lists.packed_lists import open_list

#: lines that are compared at once, and the most among which the next common one is looked for
_AT_ONCE, _FARTHEST = 256, 1 << 16
#: lines that may differ: so many, and of a long file one for so many octets, which is one of ten short lines
_FEW, _OCTETS = 1 << 16, 160
#: octets that are read at once
_READ = 1 << 20


class LineChange(NamedTuple):
    """Lines that stand in the place of others: the number of the first of each, and their octets with the LF."""

    old: int
    gone: list[bytes]
    new: int
    came: list[bytes]


class _Window:
    """The next lines of a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._lines: list[bytes] = []
        self._at = 0
        #: the number of the next line
        self.number = 1

    def next(self, most: int) -> list[bytes]:
        """The next lines, so many or all that are left, which stay."""
        while len(self._lines) - self._at < most and (more := self._file.readlines(_READ)):
            self._lines = self._lines[self._at :] + more
            self._at = 0
        return self._lines[self._at : self._at + most]

    def skip(self, number: int) -> None:
        """So many of the lines that ``next`` gave are done."""
        self._at += number
        self.number += number


def line_changes(old: BinaryIO, new: BinaryIO, most: int) -> list[LineChange] | None:
    """The changes from the old version to the new one, in their order; ``None`` if more than ``most`` lines changed."""
    before, after, changes = _Window(old), _Window(new), list[LineChange]()
    while (some := before.next(_AT_ONCE)) or after.next(1):
        others = after.next(_AT_ONCE)
        least = min(len(some), len(others))
        same = least if some == others else next(compress(count(), map(ne, some, others)), least)
        before.skip(same)
        after.skip(same)
        if same == _AT_ONCE:
            continue
        gone, came = _to_next_common(before, after)
        if gone or came:
            changes.append(LineChange(before.number, gone, after.number, came))
        before.skip(len(gone))
        after.skip(len(came))
        most -= len(gone) + len(came)
        if most < 0:
            return None
    return changes


def _to_next_common(before: _Window, after: _Window) -> tuple[list[bytes], list[bytes]]:
    """The lines of both up to the next that they share; it costs as much as these are many."""
    reach = 4
    while True:
        some, others = before.next(reach), after.next(reach)
        other_lines = set(others)
        for at, line in enumerate(some):
            if line in other_lines:
                return some[:at], others[: others.index(line)]
        if reach >= _FARTHEST or (len(some) < reach and len(others) < reach):
            return some, others
        reach *= 4


@lru_cache(maxsize=8)  # the gate asks what compiling asks then
def changes_between(old: Path, old_digest: str, new: Path, new_digest: str) -> Sequence[LineChange] | None:
    """The changes between two files; ``None`` if many lines differ. The digests tell their contents.

    Raises:
        OSError: one cannot be read.
    """
    with open_list(old) as before, open_list(new) as after:
        size = max(path.stat().st_size for path in (old, new))
        return line_changes(before, after, max(_FEW, size // _OCTETS))


def changed_lines(changes: Iterable[LineChange]) -> tuple[set[bytes], set[bytes]]:
    """The lines that are gone and that came, without the white space around them; not those that only moved."""
    gone = {line.strip() for change in changes for line in change.gone}
    came = {line.strip() for change in changes for line in change.came}
    return gone - came, came - gone


def numbered(changes: Sequence[LineChange]) -> tuple[tuple[list[bytes], list[int]], tuple[list[bytes], list[int]]]:
    """The lines that are gone, with their numbers in the old version, and those that came, with those in the new one.

    >>> numbered([LineChange(2, [b"b"], 2, [b"x", b"y"])])
    (([b'b'], [2]), ([b'x', b'y'], [2, 3]))
    """
    gone, came = (list[bytes](), list[int]()), (list[bytes](), list[int]())
    for change in changes:
        gone[0].extend(change.gone)
        gone[1].extend(range(change.old, change.old + len(change.gone)))
        came[0].extend(change.came)
        came[1].extend(range(change.new, change.new + len(change.came)))
    return gone, came
