"""Rules as rows of one width, which are sorted by what they fit, so that those of one pattern stand together.

    digest of the pattern (32 octets), part (16 bits), number in it, line, number of what is said of it (32 bits each)

A pattern in the clear and its full hash have one digest. Rows of a part are sorted and stored; those of all parts whose
digests begin with the same octets are merged, by one process each: that takes no more memory for more rules.
"""

from __future__ import annotations

import pickle
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple, cast

from hushlist.match.checks import Check
from hushlist.match.compiler import Run, Stored, load, store
from hushlist.match.hashing import FULL_LENGTH
from hushlist.match.index_file import EXPRESSIONS, key_of, table_name
from hushlist.match.rule import Anything, Expression, Pattern

_ROW = Struct(">HIII")
_WIDTH = FULL_LENGTH + _ROW.size
#: rows that are merged at a time, if their digests are as evenly spread as digests are
_FEW_ROWS = 1 << 17
_OCTETS = 256


#: what stands behind a digest: part; number of the rule in it, from 0; line; whatever is said of the rule
Row = tuple[int, int, int, int]


def digest_of(pattern: Pattern) -> bytes:
    """What a pattern is compared by."""
    if type(pattern) is Expression:
        return sha256(pattern.value).digest()
    if isinstance(pattern, Check | Anything):
        return sha256(f"{type(pattern).__name__} {pattern}".encode()).digest()
    assert not isinstance(pattern, Check | Anything | Expression)
    table, key = table_name(pattern), key_of(pattern)
    return key if table == EXPRESSIONS else sha256(table.encode() + b" " + key).digest()


#: part, number, line, said -> what stands behind the digest of a row
pack = _ROW.pack


def run_of(packed: list[bytes], folder: Path) -> Run:
    """The rows of one part, each a digest and what is packed behind it, sorted, in a file of the folder."""
    packed.sort()
    starts = array("I", (bisect_left(packed, bytes((octet,))) for octet in range(_OCTETS)))
    starts.append(len(packed))
    return Run(store(b"".join(packed), folder), starts)


class Task(NamedTuple):
    """Rows whose digests begin with certain octets: from, to before; of all runs."""

    runs: tuple[Run, ...]
    first: int
    last: int


def tasks(runs: Sequence[Run]) -> list[Task]:
    """Tasks for all rows of the runs, which are those of the parts in their order."""
    count = sum(run.starts[-1] for run in runs)
    pieces = 1
    while count // pieces > _FEW_ROWS and pieces < _OCTETS:
        pieces *= 2
    step = _OCTETS // pieces
    return [Task(tuple(runs), first, first + step) for first in range(0, _OCTETS, step)]


def groups(task: Task) -> Iterator[list[Row]]:
    """The rows of each digest, in the order of parts and numbers."""
    runs, first, last = task
    octets = b"".join([load(run.rows, run.starts[first] * _WIDTH, run.starts[last] * _WIDTH) for run in runs])
    rows = [octets[at : at + _WIDTH] for at in range(0, len(octets), _WIDTH)]
    rows.sort()  # runs are sorted, so that this merges them
    unpack = cast(Callable[[bytes, int], Row], _ROW.unpack_from)
    own: list[Row] = []
    before = b""
    for row in rows:
        digest = row[:FULL_LENGTH]
        if digest != before and own:
            yield own
            own = []
        before = digest
        own.append(unpack(row, FULL_LENGTH))
    if own:
        yield own


def keep(thing: Any, folder: Path) -> Stored:
    """Put something into a file of a folder."""
    return store(pickle.dumps(thing), folder)


def fetch(stored: Stored) -> Any:
    """What was put there."""
    return pickle.loads(load(stored))  # noqa: S301  we wrote it, into a folder of our own
