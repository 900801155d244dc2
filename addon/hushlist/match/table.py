"""A table of the index file: keys, sorted, to the rows that say which rules they are.

A table is three sections of the file (``hushlist.match.index_file`` says where):

``fan``
    ``2**bits + 1`` numbers of 32 bits: how many keys begin with fewer than each number of ``bits`` bits, so that two
    neighbours say where the keys are that begin with the same bits.
``tails``
    a few octets of every key, behind those that the fan-out knows: enough to tell nearly every absent key.
``rows``
    the whole key of every rule, and behind it where the rule stands: part, line and terms. They are read only to
    confirm: by a system call, not through the mapping, so that they take no memory of the process.

Fan-out and tails are the hot part: 4 octets for a tail, 1 to 2 for the fan-out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from mmap import mmap
from struct import Struct
from typing import NamedTuple

#: octets of a tail
TAIL = 4
#: a fan-out takes at most 64 MiB
MOST_BITS = 24
#: behind the key: part, line, terms; in this order they sort rules as they were given
PLACE = Struct(">HII")

_from_bytes = int.from_bytes


@dataclass(frozen=True, slots=True)
class Shape:
    """What has to be known to read a table, but for where it is; lengths are in octets.

    Raises:
        ValueError: there can be no such table.
    """

    #: how many keys
    count: int
    #: how long a key is, 4 to 32
    key: int
    #: of the fan-out, at most ``MOST_BITS``
    bits: int

    def __post_init__(self) -> None:
        if not (0 <= self.bits <= MOST_BITS and 4 <= self.key <= 32):
            raise ValueError(f"a fan-out of {self.bits} bits for keys of {self.key} octets")

    @property
    def width(self) -> int:
        """The length of a row."""
        return self.key + PLACE.size

    @property
    def tail_at(self) -> int:
        """Where in a key its tail begins."""
        return self.bits // 8

    @property
    def tail(self) -> int:
        """The length of a tail; short keys may have less than ``TAIL`` left."""
        return min(TAIL, self.key - self.tail_at)

    @property
    def lengths(self) -> tuple[int, int, int]:
        """Of fan-out, tails and rows."""
        return 4 * ((1 << self.bits) + 1), self.tail * self.count, self.width * self.count


def bits_for(count: int) -> int:
    """How many bits the fan-out of a table has: so many that two to four keys share them.

    >>> bits_for(0), bits_for(1_000_000), bits_for(10_000_000), bits_for(1 << 40)
    (0, 18, 22, 24)
    """
    return max(0, min(MOST_BITS, count.bit_length() - 2))


class Row(NamedTuple):
    """A row: the key, and where its rule stands."""

    key: bytes
    part: int
    line: int
    terms: int


#: how many rows are read at once; where more keys share their first bits, a binary search finds the first
_FEW = 64
#: how many are read at once where all are
_MANY = 4096


class Table:
    """Looks keys up; see the module. The octets stay as they are for as long as the table lives."""

    __slots__ = ("_end", "_fan", "_octets", "_read", "_rows_at", "_shape", "_shift", "_start", "_tail", "_tails_at")

    def __init__(
        self, octets: mmap | bytes, read: Callable[[int, int], bytes], shape: Shape, offsets: Sequence[int]
    ) -> None:
        """``read`` gives octets of the file, by offset and length; ``offsets`` are those of fan-out, tails and rows."""
        self._octets, self._read, self._shape = octets, read, shape
        fan, self._tails_at, self._rows_at = offsets
        self._fan: Sequence[int] = memoryview(octets)[fan : fan + shape.lengths[0]].cast("I")
        self._shift = 32 - shape.bits
        self._tail = shape.tail
        self._start, self._end = shape.tail_at, shape.tail_at + shape.tail

    def __len__(self) -> int:
        return self._shape.count

    @property
    def is_consistent(self) -> bool:
        """Whether the fan-out counts the keys that there are."""
        return self._fan[0] == 0 and self._fan[-1] == len(self)

    def __iter__(self) -> Iterator[Row]:
        """All rows, by their keys."""
        place = Struct(f">{self._shape.key}s{PLACE.format.removeprefix('>')}")
        for first in range(0, len(self), _MANY):
            yield from map(Row._make, place.iter_unpack(self._rows(first, min(first + _MANY, len(self)))))

    def find(self, digest: bytes) -> list[Row]:
        """The rows whose key is the digest's beginning, in the order of their rules."""
        return self.find_each((digest,)).get(0, [])

    def find_each(self, digests: Iterable[bytes]) -> dict[int, list[Row]]:
        """The rows of those digests that have any, by the digests' places.

        This loop is what looking up costs, so that its steps stand in it.
        """
        fan, shift, find = self._fan, self._shift, self._octets.find
        at, tail, start, end = self._tails_at, self._tail, self._start, self._end
        found: dict[int, list[Row]] = {}
        place = -1
        for digest in digests:
            place += 1
            bucket = _from_bytes(digest[:4], "big") >> shift
            first, last = fan[bucket], fan[bucket + 1]
            # What is found between two tails is nobody's tail; the rows tell.
            if first != last and find(digest[start:end], at + first * tail, at + last * tail) >= 0:
                rows = self._confirm(digest[: self._shape.key], first, last)
                if rows:
                    found[place] = rows
        return found

    def _confirm(self, key: bytes, first: int, last: int) -> list[Row]:
        """The rows of a key among those from ``first`` to before ``last``, which are sorted."""
        end = last = min(last, self._shape.count)  # whatever the fan-out says: nothing is read behind the rows
        while last - first > _FEW:
            middle = (first + last) // 2
            if self._rows(middle, middle + 1)[: len(key)] < key:
                first = middle + 1
            else:
                last = middle
        found: list[Row] = []
        width, size = self._shape.width, len(key)
        for some in range(first, end, _FEW):
            octets = self._rows(some, min(some + _FEW, end))
            for start in range(0, len(octets), width):
                own = octets[start : start + size]
                if own == key:
                    found.append(Row(key, *PLACE.unpack_from(octets, start + size)))
                elif own > key:
                    return found
        return found

    def _rows(self, first: int, last: int) -> bytes:
        width = self._shape.width
        return self._read(self._rows_at + first * width, (last - first) * width)
