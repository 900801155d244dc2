"""What lint finds: a kind and a text at a line; and where findings wait, outside of memory, until they are in order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple


class Kind(StrEnum):
    """What is wrong with a line of a list."""

    #: the list cannot be used
    ERROR = "error"
    #: no rule could be made of it
    REFUSED = "refused"
    #: a rule that is there already
    DUPLICATE = "duplicate"
    #: a broader rule does the same
    COVERED = "covered"
    #: a rule at the same place in the same list always beats it
    BEATEN = "beaten"
    #: it covers more than its author hardly means to block
    BROAD = "broad"
    #: no live URL can fit it
    DEAD = "dead"
    #: it is read as another rule than it looks like
    SPELLING = "spelling"
    #: hashes so short, and so many, that they fit other URLs by chance
    SHORT_HASH = "short-hash"
    #: its last day is over
    EXPIRED = "expired"


class Finding(NamedTuple):
    """One thing that is wrong; the order is that of lines."""

    #: counted from 1; 0 where it is the file as a whole
    line: int
    kind: Kind
    #: what: the rule or the entry; empty where it is as it is written in the line
    what: str
    why: str


#: findings that are kept in memory
_MOST = 1 << 15


class Spool:
    """Findings by part of the sources, as they come; more than a few are in files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: dict[int, list[Finding]] = {}
        self._number = 0

    def add(self, part: int, findings: Iterable[Finding]) -> None:
        """Take in findings of a part."""
        own = self._waiting.setdefault(part, [])
        before = len(own)
        own.extend(findings)
        self._number += len(own) - before
        if self._number > _MOST:
            self._write()

    def _write(self) -> None:
        for part, findings in self._waiting.items():
            with self._path(part).open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(finding) + "\n" for finding in findings)
        self._waiting.clear()
        self._number = 0

    def _path(self, part: int) -> Path:
        return self._folder / f"{part}.findings"

    def of(self, part: int) -> list[Finding]:
        """All findings of a part, in order, each once."""
        return sorted({*self._written(part), *self._waiting.get(part, ())})

    def _written(self, part: int) -> Iterator[Finding]:
        path = self._path(part)
        if path.exists():
            with path.open(encoding="utf-8") as file:
                for text in file:
                    line, kind, what, why = json.loads(text)
                    yield Finding(line, Kind(kind), what, why)
