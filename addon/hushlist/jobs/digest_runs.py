"""Sorted runs bring all rules of one pattern together, in bounded memory.

Each rule becomes a row of fixed width:

    digest of the pattern (32 octets), part (16 bits), number in the part, line, the caller's number (32 bits each)

A pattern in the clear and its full hash have the same digest. Each part's rows are sorted and stored as a run. Then one
process for each range of first octets merges the rows of all runs. Memory does not grow with the number of rules.

``SpillByPart`` keeps objects by part, in files if there are many.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from struct import Struct
from typing import Generic, TypeVar, cast

from hushlist.match.checks import Check
from hushlist.match.expressions import FULL_LENGTH
from hushlist.match.index_file import EXPRESSIONS, table_key
from hushlist.match.index_writer import SortedRun, key_ranges, rows_in_range
from hushlist.match.rule import Anything, Expression, Pattern

_ROW = Struct(">HIII")
_WIDTH = FULL_LENGTH + _ROW.size


#: a row after its digest: part; number of the rule in the part, from 0; line; the caller's number for the rule
DigestRow = tuple[int, int, int, int]


def digest_of(pattern: Pattern) -> bytes:
    """The digest by which patterns are compared, 32 octets."""
    if type(pattern) is Expression:
        return sha256(pattern.value).digest()
    if isinstance(pattern, Check | Anything):
        return sha256(f"{type(pattern).__name__} {pattern}".encode()).digest()
    assert not isinstance(pattern, Check | Anything | Expression)
    table, key = table_key(pattern)
    return key if table == EXPRESSIONS else sha256(table.encode() + b" " + key).digest()


#: part, number, line, the caller's number -> the octets after a row's digest
pack = _ROW.pack


#: the digests that begin with an octet from the first to before the last
DigestRange = tuple[int, int]


def digest_ranges(runs: Iterable[SortedRun]) -> list[DigestRange]:
    """Ranges that together cover all rows, for tasks of about the same size."""
    return key_ranges(sum(run.starts[-1] for run in runs))


def rows_by_digest(runs: Iterable[SortedRun], digests: DigestRange) -> Iterator[list[DigestRow]]:
    """The rows of each digest, in the order of parts and numbers."""
    unpack = cast(Callable[[bytes, int], DigestRow], _ROW.unpack_from)
    rows = rows_in_range(runs, _WIDTH, *digests)
    for _, same in groupby(rows, itemgetter(slice(FULL_LENGTH))):
        yield [unpack(row, FULL_LENGTH) for row in same]


Thing = TypeVar("Thing")

#: objects that are kept in memory
MOST = 1 << 16


class SpillByPart(Generic[Thing]):
    """Objects by part, in the order in which they are added; many of them wait in files."""

    def __init__(self, folder: Path, name: str) -> None:
        """``name``: the ending of the files' names."""
        self._folder, self._name = folder, name
        self._waiting: dict[int, list[Thing]] = {}
        self._number = 0
        #: the parts that have objects
        self.parts: set[int] = set()

    def add(self, part: int, *things: Thing) -> None:
        """Add objects."""
        self._waiting.setdefault(part, []).extend(things)
        self.parts.add(part)
        self._number += len(things)
        if self._number > MOST:
            self._write()

    def _write(self) -> None:
        for part, things in self._waiting.items():
            with self._path(part).open("ab") as file:
                pickle.dump(things, file)
        self._waiting.clear()
        self._number = 0

    def _path(self, part: int) -> Path:
        return self._folder / f"{part}.{self._name}"

    def of(self, part: int) -> Iterable[Thing]:
        """A part's objects, in the order in which they were added."""
        path = self._path(part)
        if part in self.parts and path.exists():
            with path.open("rb") as file:
                while file.peek(1):
                    yield from pickle.load(file)  # noqa: S301  we wrote it, into a folder of our own
        yield from self._waiting.get(part, ())
