"""Rules as they are written in their lists, packed or not."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from hushlist.core.lists.packed_lists import open_list

#: most characters of a line
LONGEST_TEXT = 120


def written_lines(path: Path, numbers: Collection[int], longest: int | None = LONGEST_TEXT) -> dict[int, str]:
    """The texts of some lines of a file, numbered from 1; none where it has no lines, or cannot be read."""
    texts: dict[int, str] = {}
    last = max(numbers, default=0)
    with suppress(OSError, ValueError), open_list(path) as file:
        for number, line in enumerate(file, 1):
            if b"\0" in line:
                return {}  # a list of binary hashes
            if number in numbers:
                texts[number] = line.strip().decode("utf-8", "backslashreplace")[:longest]
            if number >= last:
                break
    return texts
