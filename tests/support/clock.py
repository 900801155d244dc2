"""A clock that a test sets."""

from __future__ import annotations

import pytest


class Clock:
    """Seconds, as a test says."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def addon_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock by which the addon, and what it decides by, go."""
    clock = Clock()
    for module in (
        "proxy.runtime",
        "extensions.unblock.unblock_handler",
        "core.decide.engine",
        "core.decide.known_hosts",
    ):
        monkeypatch.setattr(f"hushlist.{module}.time", clock)
    return clock
