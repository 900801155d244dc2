"""What the parts of ``peers.py`` are given and what they give back: sizes and a folder, rows of a table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    rounds: int
    #: rules of a list, in most parts
    rules: int
    #: lengths of lists over which the time for a decision may grow
    growth: tuple[int, ...]
    #: entries of squidGuard's database
    entries: int
    #: lines of the url_rewrite protocol
    lines: int
    #: decisions after which memory is measured
    decisions: int
    #: of a proxy without the filter and one with it
    pairs: int
    #: for which each proxy of a pair is asked as fast as it answers
    pair_seconds: float
    #: for which requests arrive at a fixed rate, in each round
    reload_seconds: float
    #: requests a second
    rate: int
    #: entries of the compilation that is long
    many: int
    #: requests whose instructions are counted
    counted: int
    #: for which the clients of ``soak.py`` ask each proxy
    soak_minutes: float
    #: recorded pages that are loaded, at most
    pages: int


FULL = Sizes(
    rounds=3,
    rules=1_000_000,
    growth=(10_000, 100_000, 1_000_000, 10_000_000),
    entries=1_100_000,
    lines=200_000,
    decisions=100_000,
    pairs=4,
    pair_seconds=4,
    reload_seconds=8,
    rate=150,
    many=8_000_000,
    counted=400,
    soak_minutes=2,
    pages=50,
)
QUICK = Sizes(
    rounds=2,
    rules=10_000,
    growth=(1_000, 10_000),
    entries=11_000,
    lines=20_000,
    decisions=25_000,
    pairs=2,
    pair_seconds=4,
    reload_seconds=3,
    rate=50,
    many=80_000,
    counted=20,
    soak_minutes=0.2,
    pages=4,
)


@dataclass(frozen=True, slots=True)
class Workbench:
    """Where a part works, and with how much."""

    #: for lists, databases and indexes; what is there already is used again
    folder: Path
    sizes: Sizes

    @property
    def lists(self) -> Path:
        return self.folder / "lists"


class Skipped(Exception):  # noqa: N818 - it is no error
    """A part cannot run here; says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure is to be."""

    value: float
    #: the figure is the ratio of ours to the peer's, rather than ours
    of_ratio: bool = False
    at_least: bool = False

    def is_met(self, figure: float) -> bool:
        return figure >= self.value if self.at_least else figure <= self.value


def at_most(value: float) -> Target:
    """Ours is to be at most so much."""
    return Target(value)


def at_least(value: float) -> Target:
    """Ours is to be at least so much."""
    return Target(value, at_least=True)


def at_most_times(value: float) -> Target:
    """Ours is to be at most so many times the peer's."""
    return Target(value, of_ratio=True)


def at_least_times(value: float) -> Target:
    """Ours is to be at least so many times the peer's."""
    return Target(value, of_ratio=True, at_least=True)


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of ours, of every round, beside a peer's of the same rounds."""

    measure: str
    unit: str
    ours: tuple[float, ...]
    peer: str = ""
    theirs: tuple[float, ...] = ()
    target: Target | None = None
    note: str = ""

    @property
    def our_median(self) -> float:
        return statistics.median(self.ours)

    @property
    def their_median(self) -> float | None:
        return statistics.median(self.theirs) if self.theirs else None

    @property
    def ratio(self) -> float | None:
        """Ours to theirs, the median of all rounds; each is compared with what ran in the same round."""
        ratios = [own / other for own, other in zip(self.ours, self.theirs, strict=False) if other]
        return statistics.median(ratios) if ratios else None

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; None where there is nothing to tell by."""
        figure = self.ratio if self.target and self.target.of_ratio else self.our_median
        return self.target.is_met(figure) if self.target and figure is not None else None

    @property
    def goal(self) -> str:
        """The target, for people."""
        if self.target is None:
            return ""
        sign = "≥" if self.target.at_least else "≤"
        return f"{sign} {shown(self.target.value)} {'×' if self.target.of_ratio else self.unit}"

    @property
    def limit(self) -> float | None:
        """The target in the unit of the figure."""
        if self.target is None:
            return None
        if not self.target.of_ratio:
            return self.target.value
        return None if self.their_median is None else self.target.value * self.their_median

    def cells(self) -> tuple[str, ...]:
        """The row of a table, as COLUMNS has them."""
        theirs = "" if self.their_median is None else f"{self.peer}: {_spread(self.theirs)} {self.unit}"
        return (
            self.measure,
            f"{_spread(self.ours)} {self.unit}",
            theirs,
            "" if self.ratio is None else f"{self.ratio:.2f} ×",
            self.goal,
            {True: "met", False: "MISSED", None: ""}[self.is_met],
            self.note,
        )


COLUMNS = ("measure", "Hushlist", "peer", "ratio", "target", "result", "note")


def _spread(figures: Sequence[float]) -> str:
    """The median, and in brackets the least and the most, where there are several.

    >>> _spread((3.0, 2.0, 4.0)), _spread((3.0,))
    ('3 (2 to 4)', '3')
    """
    middle = shown(statistics.median(figures))
    least, most = shown(min(figures)), shown(max(figures))
    return middle if least == most else f"{middle} ({least} to {most})"


def shown(value: float) -> str:
    """A number with three digits that matter.

    >>> shown(1234567.0), shown(12.345), shown(0.01234), shown(150)
    ('1,230,000', '12.3', '0.0123', '150')
    """
    if not value:
        return "0"
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:.3g}"


def row(
    measure: str,
    unit: str,
    ours: Sequence[float],
    *,
    scale: float = 1,
    peer: str = "",
    theirs: Sequence[float] = (),
    target: Target | None = None,
    note: str = "",
) -> Row:
    """A row whose figures are multiplied by ``scale`` to have its unit."""
    return Row(
        measure, unit, tuple(one * scale for one in ours), peer, tuple(one * scale for one in theirs), target, note
    )
