"""A table of the index file: sorted keys, and the row of each rule.

A table is three sections of the file (``hushlist.core.match.index_file`` says where):

``fan``
    ``2**bits + 1`` numbers of 32 bits: how many keys have first ``bits`` bits below each number. Two neighbours give
    the range of the keys that begin with the same bits.
``tails``
    a few octets of every key, after those that the fan-out covers: enough to rule out nearly every absent key.
``rows``
    the whole key of every rule, then its part, line and terms. A look-up reads rows only to confirm a key. It reads
    them by a system call, not through the mapping, so that they take no memory of the process.

Fan-out and tails are the hot part: for each key, 4 octets for a tail, 1 to 2 for the fan-out.

All tables have one *filter* in front of them, a Bloom filter in blocks of an octet. It spares 14 of 15 look-ups of
absent keys, and nearly all where there are few keys. It takes 1 to 2 octets for each key. The first 32 bits of a key
choose two bits of the filter: the highest say in which octet, the lowest eight which (``MARKS``). Both are 0 if the key
may be there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import combinations, cycle, islice
from mmap import mmap
from struct import Struct
from typing import NamedTuple

#: octets of a tail
TAIL = 4
#: a fan-out takes at most 64 MiB
MOST_BITS = 24
#: a row after its key: part, line, terms; sorting by them keeps the order of the sources
PLACE = Struct(">HII")

#: a digest's first 32 bits
first_bits = Struct(">I").unpack_from


class Shape:
    """The dimensions of a table, in octets; ``ValueError`` if no table can have them."""

    def __init__(self, count: int, key: int, bits: int) -> None:
        if not (0 <= bits <= MOST_BITS and 4 <= key <= 32):
            raise ValueError(f"a fan-out of {bits} bits for keys of {key} octets")
        #: how many keys
        self.count = count
        #: length of a key, 4 to 32
        self.key = key
        #: bits of the fan-out, at most ``MOST_BITS``
        self.bits = bits

    @property
    def width(self) -> int:
        """The length of a row."""
        return self.key + PLACE.size

    @property
    def tail_at(self) -> int:
        """The offset of the tail in a key."""
        return self.bits // 8

    @property
    def tail(self) -> int:
        """The length of a tail; short keys may have fewer than ``TAIL`` octets left."""
        return min(TAIL, self.key - self.tail_at)

    @property
    def lengths(self) -> tuple[int, int, int]:
        """The lengths of fan-out, tails and rows."""
        return 4 * ((1 << self.bits) + 1), self.tail * self.count, self.width * self.count


def bits_for(count: int) -> int:
    """The bits of a table's fan-out: two to four keys share the same bits.

    >>> bits_for(0), bits_for(1_000_000), bits_for(10_000_000), bits_for(1 << 40)
    (0, 18, 22, 24)
    """
    return max(0, min(MOST_BITS, count.bit_length() - 2))


#: the bits of an octet that a key chooses, by the lowest eight of its first 32 bits
MARKS = bytes(islice(cycle(1 << first | 1 << second for first, second in combinations(range(8), 2)), 256))


def filter_length(count: int) -> int:
    """The octets of a filter for so many keys: one to two for each, at least 4 KiB, and at most 512 MiB.

    >>> filter_length(0), filter_length(1_000_000)
    (4096, 1048576)
    """
    return 1 << min(29, max(12, count.bit_length()))


class TableRow(NamedTuple):
    """A row: the key, and its rule's part, line and terms."""

    key: bytes
    part: int
    line: int
    terms: int


#: makes a row of a tuple, in a third of the time
_new_row: Callable[[tuple[bytes, int, int, int]], TableRow] = partial(tuple.__new__, TableRow)

#: rows that are read at once; if more keys share their first bits, a binary search finds the first
_FEW = 64
#: rows that are read at once when all are read
MANY = 4096


class IndexTable:
    """Looks up keys. The octets must not change while the table is in use."""

    __slots__ = (
        *("_end", "_fan", "_key", "_line_now", "_octets", "_read", "_rows_at", "_shape", "_shift", "_start", "_tail"),
        *("_tails_at", "_unpack", "_width"),
    )

    def __init__(
        self,
        octets: mmap | bytes,
        read: Callable[[int, int], bytes],
        shape: Shape,
        offsets: Sequence[int],
        line_now: Callable[[int, int], int] | None = None,
    ) -> None:
        """``read``: octets of the file by offset and length; ``offsets``: of fan-out, tails and rows.

        ``line_now``: from a part and a line of a row to the line's number now, if some have changed.
        """
        self._octets, self._read, self._shape, self._line_now = octets, read, shape, line_now
        fan, self._tails_at, self._rows_at = offsets
        self._fan: Sequence[int] = memoryview(octets)[fan : fan + shape.lengths[0]].cast("I")
        self._shift = 32 - shape.bits
        self._tail, self._key, self._width = shape.tail, shape.key, shape.width
        self._start, self._end = shape.tail_at, shape.tail_at + shape.tail
        self._unpack = Struct(f">{shape.key}s{PLACE.format.removeprefix('>')}").iter_unpack

    def __len__(self) -> int:
        return self._shape.count

    @property
    def is_consistent(self) -> bool:
        """Whether the fan-out counts all keys."""
        return self._fan[0] == 0 and self._fan[-1] == len(self)

    def __iter__(self) -> Iterator[TableRow]:
        """All rows, by their keys."""
        for first in range(0, len(self), MANY):
            some = map(_new_row, self._unpack(self._rows(first, min(first + MANY, len(self)))))
            yield from some if self._line_now is None else map(self._renumbered, some)

    def find(self, digest: bytes) -> list[TableRow]:
        """The rows whose key is the beginning of the digest, in the order of their rules."""
        fan = self._fan
        bucket = first_bits(digest)[0] >> self._shift
        first, last = fan[bucket], fan[bucket + 1]
        if first == last:
            return []
        tail, at = self._tail, self._tails_at
        # A find may also overlap two tails; only the rows confirm a key.
        tail_at = self._octets.find(digest[self._start : self._end], at + first * tail, at + last * tail)
        if tail_at < 0:
            return []
        rows = self._confirm(digest[: self._key], (tail_at - at) // tail, last)
        return rows if self._line_now is None else list(map(self._renumbered, rows))

    def _renumbered(self, row: TableRow) -> TableRow:
        assert self._line_now is not None
        return row._replace(line=self._line_now(row.part, row.line))

    def mapped(self, keys: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, int, int, int]]:
        """Names of whole keys, each with part, line and terms of each row of its key.

        Rows are read through the mapping: that is faster, for who looks up very many.
        """
        octets, fan, shift, count, line_now = self._octets, self._fan, self._shift, self._shape.count, self._line_now
        unpack, size, width, start = PLACE.unpack_from, self._shape.key, self._shape.width, self._rows_at
        for name, key in keys:
            bucket = first_bits(key)[0] >> shift
            at, end = start + fan[bucket] * width, start + min(fan[bucket + 1], count) * width
            at = octets.find(key, at, end)
            while at >= 0 and (at - start) % width:  # it overlaps two rows
                at = octets.find(key, at + 1, end)
            while 0 <= at < end and octets[at : at + size] == key:
                part, line, terms = unpack(octets, at + size)
                yield name, part, line if line_now is None else line_now(part, line), terms
                at += width

    def _confirm(self, key: bytes, first: int, last: int) -> list[TableRow]:
        """The rows of a key among the sorted rows from ``first`` to before ``last``."""
        end = last = min(last, self._shape.count)  # a corrupted fan-out must not lead beyond the rows
        while last - first > _FEW:
            middle = (first + last) // 2
            if self._rows(middle, middle + 1)[: len(key)] < key:
                first = middle + 1
            else:
                last = middle
        rows: list[TableRow] = []
        while first < end:
            last = end if end - first <= _FEW else first + _FEW
            for row in self._unpack(self._rows(first, last)):
                if row[0] == key:
                    rows.append(_new_row(row))
                elif row[0] > key:
                    return rows
            first = last
        return rows

    def _rows(self, first: int, last: int) -> bytes:
        width = self._width
        return self._read(self._rows_at + first * width, (last - first) * width)
