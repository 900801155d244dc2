"""A clock that a test sets."""

from __future__ import annotations


class Clock:
    """Seconds, as a test says."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
