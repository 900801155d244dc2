"""Which lines two versions of a list do not share: few of many, most days.

Both are read part by part, and a hash tells a line's part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from hushlist.core.compile.list_chunks import ChunkedList
from hushlist.core.lists.line_changes import changed_lines, changes_between
from hushlist.core.lists.packed_lists import open_list

#: octets of lines that are compared at once
COMPARED = 1 << 25
#: of lines that differ, the most that are worth a look of their own; of those that both have, how many are looked at
#: with them at least, and at most
_MOST, _LEAST, _MOST_COMMON = 1 << 16, 1 << 10, 1 << 17


def differing_lines(old: Path | None, new: Path, at_once: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """The lines that are gone, and those that came, for each part of all lines, without comments and empty lines."""
    for gone, came in differing(old, new, at_once):
        yield list(filter(_says, gone)), list(filter(_says, came))


def share_kept(old: Path, new: Path) -> float:
    """The share of the lines of a version that another one has, too; 1 if it has none.

    Raises:
        OSError: one cannot be read.
    """
    gone = sum(len(gone) for gone, _ in differing_lines(old, new, COMPARED))
    total = sum(len(came) for _, came in differing_lines(None, old, COMPARED))
    return 1 - gone / total if total else 1.0


def _says(line: bytes) -> bool:
    return line[:1] not in (b"", b"#", b"!", b";")


def differing(old: Path | None, new: Path, at_once: int) -> Iterator[tuple[set[bytes], set[bytes]]]:
    """The lines that are gone, and those that came, for each part of all lines, of some octets."""
    parts = 1 + max(path.stat().st_size for path in (old, new) if path is not None) // at_once
    for part in range(parts):
        before, after = (set[bytes]() if path is None else _lines(path, part, parts) for path in (old, new))
        yield before - after, after - before


def _lines(path: Path, part: int, parts: int) -> set[bytes]:
    with open_list(path) as file:
        lines = map(bytes.strip, file)
        return set(lines) if parts == 1 else {line for line in lines if hash(line) % parts == part}


def count_changes(old: Path | None, new: Path) -> tuple[int, int]:
    """How many lines are new, and how many are gone; comments, empty lines and repetitions do not count."""
    added = removed = 0
    for gone, came in differing_lines(old, new, COMPARED):
        added, removed = added + len(came), removed + len(gone)
    return added, removed


def shorten(old: ChunkedList, new: ChunkedList, folder: Path, loses: int) -> tuple[Path, Path] | None:
    """Two short files in place of two long ones: the lines that only one has, and some that both have.

    What the short new one loses, it loses of fewer lines than the long one, but of so many, where that can be, that it
    is less than ``loses`` of a hundred. ``None``: too many lines differ.
    """
    before, after = old.file.read_from, new.file.read_from
    changes = changes_between(before, old.digest, after, new.digest)
    gone, came = set[bytes](), set[bytes]()
    # where many differ, they may only be in another order
    for was, now in differing(before, after, COMPARED) if changes is None else [changed_lines(changes)]:
        gone |= was
        came |= now
        if len(gone) + len(came) > _MOST:
            return None
    number = min(max(100 * len(gone) // max(loses, 1), _LEAST), _MOST_COMMON)
    with open_list(before) as file:
        both = list(islice((line for line in map(bytes.strip, file) if line not in gone), number))
    return _written(folder / "before", [*both, *sorted(gone)]), _written(folder / "after", [*both, *sorted(came)])


def _written(path: Path, lines: Iterable[bytes]) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path
