"""Which lines two versions of a list do not share; both are read part by part, and a hash tells a line's part."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hushlist.core.lists.packed_lists import open_list

#: octets of lines that are compared at once
COMPARED = 1 << 25


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
