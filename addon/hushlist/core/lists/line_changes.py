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
from pathlib import Path
from typing import BinaryIO, NamedTuple

from hushlist.core.lists.packed_lists import open_list

#: octets that are compared at once, and that are read at once
_AT_ONCE, _READ = 1 << 12, 1 << 20
#: the most lines among which the next common one is looked for
_FARTHEST = 1 << 16
#: lines that may differ: so many, and of a long file one for so many octets, which is one of ten short lines
_FEW, _OCTETS = 1 << 16, 160


class LineChange(NamedTuple):
    """Lines that stand in the place of others: the number of the first of each, and their octets with the LF."""

    old: int
    gone: list[bytes]
    new: int
    came: list[bytes]


class _Window:
    """What of a file is still to be compared, from the beginning of a line on."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._octets, self._at = b"", 0
        #: the number of the next line
        self.number = 1

    def ahead(self, size: int) -> bytes:
        """The next octets, so many or all that are left, which stay."""
        while len(self._octets) - self._at < size and (more := self._file.read(max(size, _READ))):
            self._octets = self._octets[self._at :] + more
            self._at = 0
        return self._octets[self._at : self._at + size]

    def next(self, most: int) -> list[bytes]:
        """The next lines, so many or all that are left, which stay."""
        size = most << 5
        while True:
            octets = self.ahead(size)
            *lines, rest = octets.split(b"\n", most)
            if len(lines) == most or len(octets) < size:
                return [line + b"\n" for line in lines] + [rest] * (len(lines) < most and rest != b"")
            size *= 4

    def skip(self, size: int, lines: int) -> None:
        """So many octets and lines ahead are done."""
        self._at += size
        self.number += lines


def line_changes(old: BinaryIO, new: BinaryIO, most: int) -> list[LineChange] | None:
    """The changes from the old version to the new one, in their order; ``None`` if more than ``most`` lines changed."""
    before, after, changes = _Window(old), _Window(new), list[LineChange]()
    size = _AT_ONCE
    while (some := before.ahead(size)) or after.ahead(1):
        others = after.ahead(size)
        is_same = some == others
        same = len(some) if is_same else _length_in_common(some, others)
        end = same if is_same and same < size else some.rfind(b"\n", 0, same) + 1
        lines = some.count(b"\n", 0, end)
        before.skip(end, lines)
        after.skip(end, lines)
        if is_same:
            size = _AT_ONCE if end else size * 2  # a line is longer
            continue
        size = _AT_ONCE
        gone, came = _to_next_common(before, after)
        changes.append(LineChange(before.number, gone, after.number, came))
        before.skip(sum(map(len, gone)), len(gone))
        after.skip(sum(map(len, came)), len(came))
        most -= len(gone) + len(came)
        if most < 0:
            return None
    return changes


def _length_in_common(some: bytes, others: bytes) -> int:
    """How many octets are alike from the beginning on, of octets that differ."""
    low, high = 0, max(len(some), len(others))
    while low < high - 1:
        middle = (low + high) // 2
        if some[low:middle] == others[low:middle]:
            low = middle
        else:
            high = middle
    return low


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
