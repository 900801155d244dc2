"""Things by part of the sources, as they come; more than a few wait in files of a folder."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Generic, TypeVar

Thing = TypeVar("Thing")

#: things that are kept in memory
_MOST = 1 << 16


class ByPart(Generic[Thing]):
    """See the module."""

    def __init__(self, folder: Path, name: str) -> None:
        """``name``: what its files are called, besides their parts' numbers."""
        self._folder, self._name = folder, name
        self._waiting: dict[int, list[Thing]] = {}
        self._number = 0
        #: the parts that have any
        self.parts: set[int] = set()

    def add(self, part: int, thing: Thing) -> None:
        """Take one in."""
        self._waiting.setdefault(part, []).append(thing)
        self.parts.add(part)
        self._number += 1
        if self._number > _MOST:
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
        """Those of a part, as they came."""
        path = self._path(part)
        if part in self.parts and path.exists():
            with path.open("rb") as file:
                while file.peek(1):
                    yield from pickle.load(file)  # noqa: S301  we wrote it, into a folder of our own
        yield from self._waiting.get(part, ())
