"""Draws rows as bars in an SVG: a panel for each unit, with an axis of its own, that of powers of ten."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from workbench import Row, shown

WIDTH, LABELS, VALUES = 1000, 370, 90
BAR, GAP, GROUP_GAP, HEAD, FOOT = 13, 2, 10, 44, 30
PLOT = WIDTH - LABELS - VALUES

_STYLE = """
svg { --ink: #1f2328; --soft: #656d76; --line: #d8dee4; --paper: #ffffff; --ours: #0969da; --peer: #9aa4af;
      --limit: #cf222e; background: var(--paper); font: 12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif }
@media (prefers-color-scheme: dark) { svg { --ink: #e6edf3; --soft: #9198a1; --line: #30363d; --paper: #0d1117;
      --ours: #4493f8; --peer: #59636e; --limit: #ff7b72 } }
text { fill: var(--ink) } .soft { fill: var(--soft); font-size: 11px } .title { font-size: 17px; font-weight: 600 }
.panel { font-weight: 600; font-size: 13px; fill: var(--ink) } .grid { stroke: var(--line) } .ours { fill: var(--ours) }
.value { paint-order: stroke; stroke: var(--paper); stroke-width: 3px }
.peer { fill: var(--peer) } .limit { stroke: var(--limit); stroke-width: 2 }
"""


@dataclass(frozen=True, slots=True)
class _Axis:
    """From a figure to a place, between two powers of ten."""

    low: int
    high: int

    def x(self, value: float) -> float:
        place = (math.log10(value) - self.low) / (self.high - self.low) if value > 0 else 0
        return LABELS + PLOT * min(1.0, max(0.0, place))


def _axis(rows: Iterable[Row]) -> _Axis:
    values = [value for row in rows for value in (row.our_median, row.their_median, row.limit) if value and value > 0]
    finite = [value for value in values if math.isfinite(value)] or [1.0]
    low = math.floor(math.log10(min(finite) * 0.8))
    return _Axis(low, max(low + 1, math.ceil(math.log10(max(finite)) - 1e-9)))


def draw(rows: Sequence[Row], title: str) -> str:
    """The SVG; rows stay in their order within the panel of their unit. A logarithm has no place for rows of zeros."""
    rows = [row for row in rows if row.our_median or row.their_median]
    parts: list[str] = []
    y = 74.0
    for unit in dict.fromkeys(row.unit for row in rows):
        panel, height = _panel([row for row in rows if row.unit == unit], unit, y)
        parts += panel
        y += height
    key = [
        _text(20, 32, title, "title"),
        *_key(20, "ours", "Hushlist"),
        *_key(120, "peer", "peer, named beside its bar"),
        '<line class="limit" x1="326" x2="326" y1="44" y2="57"/>',
        _text(334, 55, "target; every axis is logarithmic, figures are medians", "soft"),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y:.0f}" viewBox="0 0 {WIDTH} {y:.0f}">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>" + "".join([*key, *parts]) + "</svg>\n"
    )


def _key(x: float, kind: str, text: str) -> Iterator[str]:
    yield f'<rect class="{kind}" x="{x}" y="44" width="13" height="13" rx="2"/>'
    yield _text(x + 19, 55, text, "soft")


def _panel(rows: Sequence[Row], unit: str, y: float) -> tuple[list[str], float]:
    """What is drawn for the rows of a unit, and how high it is; rows of one measure share our bar."""
    axis = _axis(rows)
    bars: list[str] = []
    top = y + HEAD
    for _, group in groupby(sorted(rows, key=lambda row: _place(rows, row)), key=lambda row: row.measure):
        drawn, top = _bars([*group], axis, top)
        bars += drawn
        top += GROUP_GAP
    sense = "more is better" if unit.endswith(("/s", "%")) else "less is better"
    heading = f'<tspan class="panel">{escape(unit)}</tspan><tspan class="soft" dx="8">{sense}</tspan>'
    frame = [f'<text x="20" y="{y + 26:.1f}">{heading}</text>']
    for power in range(axis.low, axis.high + 1):
        x = axis.x(10.0**power)
        frame.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{y + 34}" y2="{top:.1f}"/>')
        frame.append(_text(x, top + 15, shown(10.0**power), "soft", "middle"))
    return [*frame, *bars], top + FOOT - y


def _place(rows: Sequence[Row], row: Row) -> int:
    """Where the measure of a row comes first."""
    return next(place for place, other in enumerate(rows) if other.measure == row.measure)


def _bars(group: Sequence[Row], axis: _Axis, top: float) -> tuple[list[str], float]:
    """The bars of one measure, and where they end."""
    drawn = [*_bar("ours", group[0].measure, group[0].our_median, axis, top)]
    limit = next((row.limit for row in group if row.limit), None)
    if limit:
        x = axis.x(limit)
        drawn.append(f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="{top - 3:.1f}" y2="{top + BAR + 3:.1f}"/>')
    top += BAR + GAP
    for row in group:
        if row.their_median is not None:
            drawn += _bar("peer", row.peer, row.their_median, axis, top)
            top += BAR + GAP
    return drawn, top


def _bar(kind: str, name: str, value: float, axis: _Axis, top: float) -> Iterator[str]:
    width = max(1.0, axis.x(value) - LABELS)
    yield _text(LABELS - 10, top + BAR - 2, name, "soft" if kind == "peer" else "", "end")
    yield f'<rect class="{kind}" x="{LABELS}" y="{top:.1f}" width="{width:.1f}" height="{BAR}" rx="2"/>'
    yield _text(LABELS + width + 8, top + BAR - 2.5, shown(value), "soft value")


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
