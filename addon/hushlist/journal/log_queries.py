"""Questions to the log: SQLite answers if it is there, otherwise the lines do, in the same way."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from hushlist.journal.log_database import LogFilters, counted_value, select_counts, select_newest, select_reference
from hushlist.journal.log_files import CURRENT, DATABASE, older_files, read_newest_first
from hushlist.journal.log_record import LogFields


def has_log(folder: Path) -> bool:
    """Whether there is a log."""
    return any((folder / name).exists() for name in (CURRENT, DATABASE)) or bool(older_files(folder))


def newest_records(folder: Path, filters: LogFilters, number: int, *, only_lines: bool = False) -> list[LogFields]:
    """The last records that fit, the oldest of them first; ``only_lines``: do not ask SQLite.

    Raises:
        OSError: the log cannot be read.
    """
    if not only_lines and (folder / DATABASE).exists():
        with suppress(sqlite3.Error):
            return list(parse_lines(line.encode() for line in reversed(select_newest(folder, filters, number))))
    found = (fields for fields in _newest_first(folder) if filters.fits(fields))
    return list(islice(found, number))[::-1]


def top_values(folder: Path, by: str, filters: LogFilters, number: int) -> list[tuple[str, int]]:
    """The most frequent values of the records that fit, with counts; ``by`` is one of ``filters.COUNTED``.

    Raises:
        OSError: the log cannot be read.
    """
    if (folder / DATABASE).exists():
        with suppress(sqlite3.Error):
            return select_counts(folder, by, filters, number)
    names = (counted_value(fields, by) for fields in _newest_first(folder) if filters.fits(fields))
    counts = Counter(name for name in names if name is not None)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:number]


def find_records(folder: Path, reference: str) -> list[LogFields]:
    """The records with a reference: nearly always one.

    Raises:
        OSError: the log cannot be read.
    """
    if (folder / DATABASE).exists():
        with suppress(sqlite3.Error):
            found = select_reference(folder, reference)
            if found:
                return list(parse_lines(line.encode() for line in found))
    # SQLite may not have it yet, or not any more
    return [fields for fields in _newest_first(folder) if fields.get("reference") == reference]


def parse_lines(lines: Iterable[bytes]) -> Iterator[LogFields]:
    """The records of lines; invalid lines, such as half a line after a power cut, are skipped."""
    for line in lines:
        with suppress(ValueError, RecursionError):
            fields = json.loads(line)
            if isinstance(fields, dict):
                yield fields


def _newest_first(folder: Path) -> Iterator[LogFields]:
    for lines in read_newest_first(folder):
        yield from parse_lines(reversed(lines))


class Follower:
    """New records as they are written, across new files."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / CURRENT
        self._descriptor: int | None = None
        self._rest = b""
        if (descriptor := self._open()) is not None:
            os.lseek(descriptor, 0, os.SEEK_END)

    def read(self) -> list[LogFields]:
        """The records written since the last call.

        Raises:
            OSError: the log cannot be read.
        """
        found: list[LogFields] = []
        while True:
            # checked before the rest is read: a file that was set aside by then gets no more lines
            is_aside = self._is_set_aside()
            found += self._read_on()
            if not is_aside:
                return found
            self.close()
            if self._open() is None:
                return found

    def close(self) -> None:
        """Close the file."""
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

    def _read_on(self) -> Iterator[LogFields]:
        if self._descriptor is None:
            return
        while octets := os.read(self._descriptor, 1 << 16):
            *lines, self._rest = (self._rest + octets).split(b"\n")
            yield from parse_lines(lines)
