"""The charts of a report as files: numbers as CSV, and bars as SVG, which a browser makes PNG of.

In: a report. Out: ``Chart`` objects, and the octets of each as a file. The page has the same charts, but draws them
itself, beside its tables.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from html import escape
from operator import itemgetter
from typing import NamedTuple

from hushlist.core.errors import cell_text, printable
from hushlist.tools.audit.replay.audit_report import AuditReport, KindCount
from hushlist.tools.audit.replay.audit_text import SETTINGS, short_names
from hushlist.tools.audit.replay.tally import Hits
from hushlist.tools.audit.third_parties import role_text

#: bars of a picture: those with the most; CSV has all
_MOST_BARS = 30
#: pixels: the width of a picture, of the names, of the numbers, and the height of a row
_WIDTH, _NAMES, _NUMBERS, _ROW, _EDGE = 960, 380, 130, 26, 20
#: most characters of a name
_LONGEST_NAME = 58
#: parts of what rules stop
_BY_HITS = ("stopped by this alone", "another would stop it, too")
#: colors of the parts of bars, that are to be told apart by lightness, too
_COLORS = ("#c5352b", "#8c95aa")
_STYLE = (
    "text{font:14px system-ui,'Noto Sans','DejaVu Sans',sans-serif;fill:#1a2030}"
    ".title{font-size:18px;font-weight:650}.number{text-anchor:end}"
)


class Chart(NamedTuple):
    """Rows of a name and numbers, which are the parts of a bar."""

    name: str
    title: str
    parts: tuple[str, ...]
    rows: tuple[tuple[str, tuple[int, ...]], ...]


def charts_of(report: AuditReport) -> Iterator[Chart]:
    """The charts that there is something in."""
    for name, title, parts, rows in _charts(report):
        if rows:
            number: Callable[[tuple[int, ...]], int] = sum if parts == _BY_HITS else itemgetter(0)
            yield Chart(name, title, parts, tuple(sorted(rows, key=lambda row: (-number(row[1]), row[0]))))


def _charts(
    report: AuditReport,
) -> Iterator[tuple[str, str, tuple[str, ...], Sequence[tuple[str, tuple[int, ...]]]]]:
    names = short_names(row.key.source for row in report.lists)
    other = ("stopped", "others")

    def of_hits(hits: Hits) -> tuple[int, int]:
        alone = min(hits.alone, hits.stopped)
        return alone, hits.stopped - alone

    def of_kind(count: KindCount) -> tuple[int, int]:
        return count.stopped, count.requests - count.stopped

    yield "actions", "What is done", ("requests",), [(name, (number,)) for name, number in report.actions.items()]
    yield "kinds", "By kind of request", other, [(name, of_kind(count)) for name, count in report.kinds.items()]
    yield (
        *("breakage", "What breaks a page", ("stopped",)),
        [(kind, (breakage.requests,)) for kind, breakage in report.breaks.items()],
    )
    yield (
        *("third-parties", "What is stopped of other sites that people notice", ("stopped",)),
        [(f"{role_text(row.role)}: {names[row.key.source]}", (row.stopped,)) for row in report.third_parties],
    )
    yield "lists", "Lists", _BY_HITS, [(names[row.key.source], of_hits(row.hits)) for row in report.lists]
    yield (
        *("overlaps", "Requests that two lists would stop", ("requests",)),
        [
            (" and ".join(names[report.lists[place].key.source] for place in row.lists), (row.requests,))
            for row in report.overlaps
        ],
    )
    yield (
        *("categories", "Categories", _BY_HITS),
        [(row.category or "(none)", of_hits(row.hits)) for row in report.categories],
    )
    yield (
        *("rules", "Rules that stop most", _BY_HITS),
        [
            (f"{row.shown} ({names[row.key.source]}:{row.key.line})", of_hits(row.hits))
            for row in report.rules
            if row.hits.stopped
        ],
    )
    requests = dict(report.sites.requests.counts)
    yield (
        *("sites", "Sites", other),
        [(site, (number, max(0, requests.get(site, 0) - number))) for site, number in report.sites.stopped.counts],
    )
    yield (
        *("popular-domains", "Popular domains to which requests are stopped", ("stopped",)),
        [(row.domain, (row.stopped,)) for row in report.popular_domains],
    )
    yield (
        *("decryption", "Requests by https that are decrypted", ("requests",)),
        [(name, (report.decryption[key].requests,)) for key, name in SETTINGS.items() if key in report.decryption],
    )
    yield (
        *("unused-rules", "Rules that fired, and that never did", ("never fired", "fired")),
        [(names[row.key.source], (row.facts.rules - row.facts.fired, row.facts.fired)) for row in report.lists],
    )


def chart_csv(chart: Chart) -> bytes:
    """All rows of a chart; a name is text in a spreadsheet, whatever it begins with."""
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(("name", *chart.parts))
    rows.writerows((cell_text(name), *numbers) for name, numbers in chart.rows)
    return text.getvalue().encode("utf-8", "backslashreplace")


def chart_svg(chart: Chart) -> bytes:
    """The first rows of a chart as bars, with their numbers, on a white ground."""
    rows = chart.rows[:_MOST_BARS]
    most = max((sum(numbers) for _, numbers in rows), default=0) or 1
    room = _WIDTH - 2 * _EDGE - _NAMES - _NUMBERS
    top = _EDGE + 2 * _ROW if len(chart.parts) > 1 else _EDGE + _ROW + 8
    rest = len(chart.rows) - len(rows)
    height = top + _ROW * (len(rows) + bool(rest)) + _EDGE
    drawn = [_text(_EDGE, _EDGE + 16, chart.title, "title")]
    if len(chart.parts) > 1:
        for place, part in enumerate(chart.parts):
            start = _EDGE + place * 260
            drawn += [_box(start, _EDGE + _ROW + 6, 12, 12, place), _text(start + 18, _EDGE + _ROW + 17, part)]
    for row, (name, numbers) in enumerate(rows):
        middle = top + row * _ROW
        drawn.append(_text(_EDGE, middle + 17, _short(name)))
        drawn.append(
            _text(
                _EDGE + _NAMES + _NUMBERS - 10, middle + 17, " / ".join(f"{number:,}" for number in numbers), "number"
            )
        )
        left = float(_EDGE + _NAMES + _NUMBERS)
        for place, number in enumerate(numbers):
            if number:
                width = max(1.0, room * number / most)
                drawn.append(_box(left, middle + 4, width, _ROW - 8, place))
                left += width
    if rest:
        drawn.append(_text(_EDGE, top + len(rows) * _ROW + 17, f"and {rest:,} more"))
    size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    ground = f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>'
    whole = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><style>{_STYLE}</style>{ground}\n'
    return (whole + "\n".join(drawn) + "\n</svg>\n").encode("utf-8", "backslashreplace")


def _short(name: str) -> str:
    text = printable(name)
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"


def _text(left: float, base: float, text: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{left:g}" y="{base:g}"{named}>{escape(text)}</text>'


def _box(left: float, top: float, width: float, height: float, color: int) -> str:
    return f'<rect x="{left:.1f}" y="{top:g}" width="{width:.1f}" height="{height:g}" fill="{_COLORS[color]}"/>'
