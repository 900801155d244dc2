"""Sorted runs: the rows of one part, by octet, in memory or in a file; and the rows of many runs in a range of keys.

Long lists are compared and compiled with them in bounded memory, each range by a process of its own.
"""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from pathlib import Path
from struct import Struct
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple

#: a table with fewer rows than this is merged as one piece
FEW_ROWS = 1 << 17
#: of a key's first octet, there are so many
OCTETS = 256

#: octets, or the file that has them
Stored = bytes | Path


def store(octets: bytes, folder: Path | None) -> Stored:
    """Put octets into a new file of a folder; without a folder, or if there are none, give them back."""
    if folder is None or not octets:
        return octets
    with NamedTemporaryFile(dir=folder, delete=False) as file:
        file.write(octets)
    return Path(file.name)


def load(stored: Stored, start: int = 0, end: int | None = None) -> bytes:
    """Stored octets, from ``start`` to before ``end``."""
    if isinstance(stored, bytes):
        return stored[start:end]
    with stored.open("rb") as file:
        file.seek(start)
        return file.read(-1 if end is None else end - start)


def spill(thing: Any, folder: Path | None) -> Stored:
    """Store an object."""
    return store(pickle.dumps(thing), folder)


def unspill(stored: Stored) -> Any:
    return pickle.loads(load(stored))  # noqa: S301  we wrote it, into a folder of our own


class SortedRun(NamedTuple):
    """The sorted rows of one table and one part."""

    rows: Stored
    #: for each octet, how many rows come before those whose keys begin with it; then the number of all rows
    starts: array[int]


def sorted_run(rows: list[bytes], folder: Path | None) -> SortedRun:
    """Sort the rows of one table and one part, and store them in a file of the folder, if one is given."""
    by_octet: list[list[bytes]] = [[] for _ in range(OCTETS)]
    for row in rows:
        by_octet[row[0]].append(row)
    for bucket in by_octet:  # many short lists are sorted faster than a long one
        bucket.sort()
    starts = array("I", accumulate(map(len, by_octet), initial=0))
    return SortedRun(store(b"".join(chain.from_iterable(by_octet)), folder), starts)


def joined_runs(runs: Sequence[SortedRun], width: int, folder: Path | None) -> SortedRun:
    """One run of several, which is stored as they are; the rows of an octet at a time are in memory."""
    if len(runs) == 1 or folder is None:
        return runs[0]
    with NamedTemporaryFile(dir=folder, delete=False) as file:
        for octet in range(OCTETS):
            file.writelines(rows_in_range(runs, width, octet, octet + 1))
    return SortedRun(Path(file.name), array("I", map(sum, zip(*(run.starts for run in runs), strict=True))))


def key_ranges(count: int) -> list[tuple[int, int]]:
    """Ranges of the keys' first octets, from and to before, that divide so many rows; keys are evenly spread."""
    pieces = 1
    while count // pieces > FEW_ROWS and pieces < OCTETS:
        pieces *= 2
    step = OCTETS // pieces
    return [(first, first + step) for first in range(0, OCTETS, step)]


def rows_in_range(runs: Iterable[SortedRun], width: int, first: int, last: int) -> list[bytes]:
    """The rows of all runs in a range of the keys' first octets, sorted."""
    octets = b"".join([load(run.rows, run.starts[first] * width, run.starts[last] * width) for run in runs])
    rows = Struct(f"{width}s" * (len(octets) // width)).unpack(octets)
    return sorted(rows)  # runs are sorted, so that this merges them
