"""Counting records: which of them are requests, and what became of the others."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, Protocol, Self, TypeVar

from hushlist.audit.record import Broken, Read, Record, Skipped
from hushlist.audit.tally import SourceCount
from hushlist.url.request import Request

#: schemes of URLs that no proxy is asked for, as browsers and logs have them
_LOCAL = re.compile(
    rb"(?:about|blob|brave|cache_object|chrome|chrome-error|chrome-extension|chrome-search|chrome-untrusted|content|data|"
    rb"devtools|edge|error|extension|file|filesystem|javascript|mailto|moz-extension|place|resource|safari-extension|"
    rb"safari-web-extension|tel|urn|view-source|vivaldi|wyciwyg):",
    re.IGNORECASE,
)


def is_local(asked: bytes | Request) -> bool:
    """Whether no proxy is asked for it."""
    return isinstance(asked, bytes) and _LOCAL.match(asked) is not None


class Counts(Protocol):
    """What is counted: of sources, and more; it merges with what others have counted."""

    sources: dict[str, SourceCount]

    def name_broken(self, more: Iterable[Broken]) -> None:
        """Keep the first; they are counted with their sources."""

    def merge(self, other: Self) -> None:
        """Count what another has counted."""


TallyT = TypeVar("TallyT", bound=Counts)


class Counting(ABC, Generic[TallyT]):
    """Counts records of sources into a tally."""

    def __init__(self, tally: TallyT) -> None:
        self.tally = tally

    def add(self, records: Iterable[Read], source: str, format_name: str) -> TallyT:
        """Decide and count the records of a source, or of a piece of it; gives the tally of all."""
        count = self.tally.sources.setdefault(source, SourceCount(format_name))
        broken: list[Broken] = []
        for record in records:
            if isinstance(record, Record):
                if self._count(record):
                    count.records += 1
                else:
                    count.skipped += 1
            elif isinstance(record, Skipped):
                count.skipped += 1
            else:
                count.broken += 1
                broken.append(record)
                if len(broken) > 1000:
                    self.tally.name_broken(broken)
                    broken = []
        self.tally.name_broken(broken)
        self._settle()
        return self.tally

    @abstractmethod
    def _count(self, record: Record) -> bool:
        """Decide and count a record, if it is one that a proxy is asked for; whether it is."""

    def _settle(self) -> None:
        """Put into the tally what is counted elsewhere until then."""
