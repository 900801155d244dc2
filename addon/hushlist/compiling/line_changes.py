"""Which lines of a list are new, and which are gone: few of many, most days.

Both versions are read part by part, so that long lists need little memory: a hash tells which part a line is in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from hushlist.system.files import open_regular

#: octets of lines that are compared at once
COMPARED = 1 << 25
#: of lines that differ, the most that are worth a look of their own; for each, how many of those that both have are
#: looked at with them, and how many at least
_MOST, _TIMES, _LEAST = 1 << 16, 4, 1 << 10


def count_changes(old: Path | None, new: Path) -> tuple[int, int]:
    """How many lines are new, and how many are gone; comments, empty lines and repetitions do not count."""
    added = removed = 0
    for gone, came in _differing(old, new):
        added, removed = added + sum(map(_says, came)), removed + sum(map(_says, gone))
    return added, removed


def _says(line: bytes) -> bool:
    return line[:1] not in (b"", b"#", b"!", b";")


def shorten(old: Path, new: Path, folder: Path) -> tuple[Path, Path] | None:
    """Two short files in place of two long ones: the lines that only one has, and some that both have.

    What the short new one loses, it loses of fewer lines than the long one. ``None``: too many lines differ.
    """
    gone, came = set[bytes](), set[bytes]()
    for was, now in _differing(old, new):
        gone |= was
        came |= now
        if len(gone) + len(came) > _MOST:
            return None
    number = max(_TIMES * (len(gone) + len(came)), _LEAST)
    with open_regular(old) as file:
        both = list(islice((line for line in map(bytes.strip, file) if line not in gone), number))
    return _written(folder / "before", [*both, *sorted(gone)]), _written(folder / "after", [*both, *sorted(came)])


def _written(path: Path, lines: Iterable[bytes]) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def _differing(old: Path | None, new: Path) -> Iterator[tuple[set[bytes], set[bytes]]]:
    """The lines that are gone, and those that came, for each part of all lines."""
    parts = 1 + max(path.stat().st_size for path in (old, new) if path is not None) // COMPARED
    for part in range(parts):
        before, after = (set[bytes]() if path is None else _lines(path, part, parts) for path in (old, new))
        yield before - after, after - before


def _lines(path: Path, part: int, parts: int) -> set[bytes]:
    with open_regular(path) as file:
        lines = map(bytes.strip, file)
        return set(lines) if parts == 1 else {line for line in lines if hash(line) % parts == part}
