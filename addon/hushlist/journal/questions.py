"""Questions to the log: to SQLite where it is there, else to the lines; both give the same answers."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from hushlist.journal.database import select_counts, select_newest, select_reference
from hushlist.journal.filters import Filters, counted
from hushlist.journal.folder import CURRENT, DATABASE
from hushlist.journal.lines import older_files, read_newest_first
from hushlist.journal.record import Fields


def has_log(folder: Path) -> bool:
    """Whether there is one."""
    return any((folder / name).exists() for name in (CURRENT, DATABASE)) or bool(older_files(folder))


def newest(folder: Path, filters: Filters, number: int, *, only_lines: bool = False) -> list[Fields]:
    """The last records that fit, the oldest of them first; ``only_lines``: do not ask SQLite.

    Raises:
        OSError: the log cannot be read.
    """
    if not only_lines and (folder / DATABASE).exists():
        with suppress(sqlite3.Error):
            return list(parse_lines(line.encode() for line in reversed(select_newest(folder, filters, number))))
    found = (fields for fields in _newest_first(folder) if filters.fits(fields))
    return list(islice(found, number))[::-1]


def top(folder: Path, by: str, filters: Filters, number: int) -> list[tuple[str, int]]:
    """What most records that fit are about, and how many; ``by`` is one of ``filters.COUNTED``.

    Raises:
        OSError: the log cannot be read.
    """
    if (folder / DATABASE).exists():
        with suppress(sqlite3.Error):
            return select_counts(folder, by, filters, number)
    names = (counted(fields, by) for fields in _newest_first(folder) if filters.fits(fields))
    counts = Counter(name for name in names if name is not None)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:number]


def find(folder: Path, reference: str) -> list[Fields]:
    """The records with a reference: one, as good as ever.

    Raises:
        OSError: the log cannot be read.
    """
    if (folder / DATABASE).exists():
        with suppress(sqlite3.Error):
            found = select_reference(folder, reference)
            if found:
                return list(parse_lines(line.encode() for line in found))
    # SQLite may not have it yet, or no longer
    return [fields for fields in _newest_first(folder) if fields.get("reference") == reference]


def parse_lines(lines: Iterable[bytes]) -> Iterator[Fields]:
    """The records of lines; what is none, such as half a line after a power cut, is passed over."""
    for line in lines:
        with suppress(ValueError, RecursionError):
            fields = json.loads(line)
            if isinstance(fields, dict):
                yield fields


def _newest_first(folder: Path) -> Iterator[Fields]:
    for lines in read_newest_first(folder):
        yield from parse_lines(reversed(lines))


class Follower:
    """Records as they are written, from now on, through every file that is begun."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / CURRENT
        self._descriptor: int | None = None
        self._rest = b""
        if (descriptor := self._open()) is not None:
            os.lseek(descriptor, 0, os.SEEK_END)

    def read(self) -> list[Fields]:
        """What was written since.

        Raises:
            OSError: the log cannot be read.
        """
        found: list[Fields] = []
        while True:
            # looked at before the rest is read: a file that was set aside by now gets no more lines
            is_aside = self._is_set_aside()
            found += self._read_on()
            if not is_aside:
                return found
            self.close()
            if self._open() is None:
                return found

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._rest = None, b""

    def _open(self) -> int | None:
        with suppress(FileNotFoundError):
            self._descriptor = os.open(self._path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        return self._descriptor

    def _is_set_aside(self) -> bool:
        if self._descriptor is None:
            return True
        try:
            return os.fstat(self._descriptor).st_ino != self._path.stat().st_ino
        except FileNotFoundError:
            return True

    def _read_on(self) -> Iterator[Fields]:
        if self._descriptor is None:
            return
        while octets := os.read(self._descriptor, 1 << 16):
            *lines, self._rest = (self._rest + octets).split(b"\n")
            yield from parse_lines(lines)
