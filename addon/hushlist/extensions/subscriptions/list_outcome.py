"""What became of a list that was to be brought up to date, for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    UNCHANGED = "unchanged"
    UPDATED = "updated"
    HELD = "held back"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ListUpdate:
    """What became of one list: by how many lines it grew and shrank if it was updated, and else why not."""

    url: str
    outcome: Outcome
    why: str = ""
    added: int = 0
    removed: int = 0

    @property
    def is_good(self) -> bool:
        """Whether nobody has to look at it."""
        return self.outcome in (Outcome.UNCHANGED, Outcome.UPDATED)

    def __str__(self) -> str:
        change = f" +{self.added:,} -{self.removed:,} lines" if self.outcome is Outcome.UPDATED else ""
        return f"{self.url}: {self.outcome}{change}{f': {self.why}' if self.why else ''}"
