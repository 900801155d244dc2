"""Whether a page is fine, suspect or broken, by the limits in ``limits.yaml``."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import yaml

from hushlist.tools.visit.signals import Signal


class Verdict(StrEnum):
    """How a page is with a list; from the best to the worst."""

    FINE = "fine"
    SUSPECT = "suspect"
    BROKEN = "broken"


#: the verdicts, in their order
ORDER = tuple(Verdict)


class SignalLimits(NamedTuple):
    """From which value on a signal makes a page suspect, and broken; ``None``: it does not."""

    suspect: float
    broken: float | None
    says: str
    because: str


@cache
def limits() -> dict[str, SignalLimits]:
    """The limits of each signal."""
    text = files("hushlist.tools.visit").joinpath("limits.yaml").read_text(encoding="utf-8")
    return {name: SignalLimits(**row) for name, row in yaml.safe_load(text).items()}


def verdict_of(signal: Signal) -> Verdict:
    """What a signal alone says."""
    limit = limits()[signal.name]
    if limit.broken is not None and signal.value >= limit.broken:
        return Verdict.BROKEN
    return Verdict.SUSPECT if signal.value >= limit.suspect else Verdict.FINE


def verdict(signals: Iterable[Signal]) -> Verdict:
    """What the worst of the signals says.

    >>> verdict([Signal("errors", 3), Signal("words", 0.4)]), verdict([])
    (<Verdict.BROKEN: 'broken'>, <Verdict.FINE: 'fine'>)
    """
    return max(map(verdict_of, signals), key=ORDER.index, default=Verdict.FINE)


def harm(signals: Iterable[Signal]) -> float:
    """By how much the limits are reached, all told: what a report is sorted by."""
    return round(sum(min(1.0, signal.value / (limits()[signal.name].broken or 10.0)) for signal in signals), 3)
