"""The report for a terminal: tables and bars of plain Unicode."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Any

from hushlist.errors import printable

#: most rows of a table
MOST_ROWS = 15
_LONGEST_BAR = 24
_EIGHTHS = " ▏▎▍▌▋▊▉"
_NARROWEST = 60


class Title(str):
    """A line above a table."""

    __slots__ = ()


def report_text(report: dict[str, Any], width: int = 100) -> Iterator[str]:
    """Lines for a person, of a report as ``AuditReport.as_dict`` returns it."""
    names = short_names(own["source"] for own in report["lists"])
    page = _Page(max(width, _NARROWEST), names)
    records = report["records"]
    yield from _summary(report)
    yield from _sources(report, page)
    yield from page.table(
        "What is done",
        ("", "requests", "", ""),
        [
            (name, _number(number), _percent(number, records), page.bar(number, records))
            for name, number in sorted(report["actions"].items(), key=lambda own: -own[1])
        ],
    )
    yield from _lists(report, page)
    yield from _overlaps(report, page)
    yield from page.table(
        "Categories",
        ("stopped", "alone", "fits", "category"),
        [
            (_number(own["stopped"]), _number(own["alone"]), _number(own["fits"]), own["category"] or "(none)")
            for own in report["categories"]
        ],
    )
    yield from page.table(
        "Rules that stop most",
        ("stopped", "alone", "rule"),
        [
            (
                _number(own["stopped"]),
                _number(own["alone"]),
                f"{own['rule']}  ({page.name(own['source'])}:{own['line']})",
            )
            for own in report["rules"]
            if own["stopped"]
        ],
    )
    yield from _sites(report, page)
    yield from _breaks(report, page)
    yield from _popular(report, page)
    yield from _unused(report, page)
    yield from page.table(
        "Slowest decisions",
        ("µs", "URL"),
        [
            (_number(own["microseconds"]), report["records_shown"][own["record"]]["url"])
            for own in report["slowest"][:5]
        ],
    )


def _summary(report: dict[str, Any]) -> Iterator[str]:
    rate = report["records_a_second"]
    speed = f", {_number(rate)} a second" if rate else ""
    stopped = sum(own["stopped"] for own in report["kinds"].values())
    policy = report["policy"]["path"]
    requests = "request" if report["records"] == 1 else "requests"
    yield f"{_number(report['records'])} {requests} in {report['seconds']:.1f} s{speed}; policy {policy}"
    share = _percent(stopped, report["records"]).strip()
    yield f"{_number(stopped)} would be stopped{share and f': {share}'}"
    yield from (f"{_number(number)} could not be decided: {why}" for why, number in report["faults"].items())
    broken = report["broken"]
    if broken["count"]:
        records = "record" if broken["count"] == 1 else "records"
        yield f"{_number(broken['count'])} {records} could not be read:"
        yield from (f"  {_place(own)}: {own['why']}" for own in broken["first"][:MOST_ROWS])
        if broken["count"] > MOST_ROWS:
            yield f"  and {_number(broken['count'] - MOST_ROWS)} more"


def _place(own: dict[str, Any]) -> str:
    source = own["source"]
    return f"{source}:{own['number']}" if own["number"] else source


def _sources(report: dict[str, Any], page: _Page) -> Iterator[str]:
    if len(report["sources"]) > 1:
        yield from page.table(
            "Sources",
            ("requests", "broken", "skipped", "format", "source"),
            [
                (
                    _number(own["records"]),
                    _number(own["broken"]),
                    _number(own["skipped"]),
                    own["format"],
                    own["source"],
                )
                for own in report["sources"]
            ],
        )


def _lists(report: dict[str, Any], page: _Page) -> Iterator[str]:
    lists = sorted(report["lists"], key=lambda own: (-own["stopped"], own["source"]))
    most = max((own["stopped"] for own in lists), default=0)
    yield from page.table(
        "Lists",
        ("stopped", "alone", "fits", "fired", "of rules", "", "list"),
        [
            (
                _number(own["stopped"]),
                _number(own["alone"]),
                _number(own["fits"]),
                _number(own["fired"]),
                _number(own["rules"]),
                page.bar(own["stopped"], most, 12),
                page.called(own),
            )
            for own in lists
        ],
    )


def _overlaps(report: dict[str, Any], page: _Page) -> Iterator[str]:
    lists = report["lists"]
    overlaps = sorted(report["overlaps"], key=lambda own: (-own["requests"], own["lists"]))
    yield from page.table(
        "Requests that two lists would stop",
        ("requests", "lists"),
        [
            (_number(own["requests"]), " and ".join(page.name(lists[place]["source"]) for place in own["lists"]))
            for own in overlaps
        ],
    )


def _sites(report: dict[str, Any], page: _Page) -> Iterator[str]:
    requests = dict(report["sites"]["requests"]["counts"])
    stopped = report["sites"]["stopped"]
    most = max((number for _, number in stopped["counts"]), default=0)
    error = f" (each may be {_number(stopped['error'])} more)" if stopped["error"] else ""
    yield from page.table(
        f"Sites{error}",
        ("stopped", "of", "", "site"),
        [
            (_number(number), _number(requests.get(site, 0)), page.bar(number, most, 12), site)
            for site, number in stopped["counts"]
        ],
    )


def _breaks(report: dict[str, Any], page: _Page) -> Iterator[str]:
    breaks = report["breaks"]
    if not breaks:
        yield ""
        yield "No page breaks: no document is stopped, nor a script or style of a page's own site."
        return
    what = ", ".join(f"{_number(own['requests'])} {kind}" for kind, own in breaks.items())
    shown = report["records_shown"]
    yield from page.table(
        f"What breaks a page: {what}",
        ("kind", "URL", "by"),
        [
            (kind, shown[key]["url"], _why(shown[key]["explanation"], page))
            for kind, own in breaks.items()
            for key in own["examples"][:MOST_ROWS]
        ],
    )


def _popular(report: dict[str, Any], page: _Page) -> Iterator[str]:
    if report["popular"] is None:
        return
    yield from page.table(
        "Popular domains to which requests are stopped",
        ("rank", "stopped", "domain"),
        [
            ("" if own["rank"] is None else _number(own["rank"]), _number(own["stopped"]), own["domain"])
            for own in report["popular_domains"]
        ],
    )


def _unused(report: dict[str, Any], page: _Page) -> Iterator[str]:
    rows = [
        (
            _number(own["rules"] - own["fired"]),
            _number(own["rules"]),
            page.name(own["source"]),
            ", ".join(f"{unused['line']}: {unused['text']}" for unused in own["unused_first"][:3]),
        )
        for own in report["lists"]
        if own["rules"] > own["fired"]
    ]
    yield from page.table("Rules that never fired", ("rules", "of", "list", "the first of them"), rows)


def _why(explanation: dict[str, Any] | None, page: _Page) -> str:
    if explanation is None:
        return ""
    winner = explanation["winner"]
    return _at(winner, page) if winner else explanation["fault"] or ""


def _at(rule: dict[str, Any], page: _Page) -> str:
    return f"{page.name(rule['source'])}:{rule['line']}"


def short_names(sources: Iterable[str]) -> dict[str, str]:
    """Short names of files: without the folder that all absolute paths, or all relative ones, share.

    >>> short_names(["/lists/ads/domains", "/lists/own.yaml", "overrides.yaml"])
    {'/lists/ads/domains': 'ads/domains', '/lists/own.yaml': 'own.yaml', 'overrides.yaml': 'overrides.yaml'}
    """
    names: dict[str, str] = {}
    rooted: dict[str, list[str]] = {}
    for source in sources:
        rooted.setdefault(PurePath(source).anchor, []).append(source)
    for own in rooted.values():
        folder = os.path.commonpath([str(PurePath(source).parent) for source in own])
        names |= {source: str(PurePath(source).relative_to(folder)) if folder else source for source in own}
    # a long name is better than one name for two files
    return names if len(set(names.values())) == len(names) else {source: source for source in names}


def _number(number: int) -> str:
    return f"{number:,}"


def _percent(number: int, of: int) -> str:
    return f"{number / of:6.1%}" if of else ""


class _Page:
    """The width of lines, and the names of lists."""

    def __init__(self, width: int, names: dict[str, str]) -> None:
        self._width, self._names = width, names

    def name(self, source: str) -> str:
        """A list's name, from its file."""
        return self._names.get(source, source)

    def called(self, own: dict[str, Any]) -> str:
        """A list's own name if it says more than its file; else the file's."""
        name, file = own["title"] or own["list"], self.name(own["source"])
        return file if name == PurePath(file).stem else f"{name} ({file})"

    def bar(self, number: int, of: int, longest: int = _LONGEST_BAR) -> str:
        """A bar in proportion to the share; never empty for a number above 0."""
        if not number or not of:
            return ""
        eighths = max(1, round(8 * longest * number / of))
        return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()

    def table(self, title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
        """A table of the first rows, numbers to the right; nothing without rows. Cells may have any text."""
        every = [tuple(map(printable, row)) for row in rows]
        if not every:
            return
        yield ""
        yield Title(title)
        shown = every[:MOST_ROWS]
        columns = list(zip(heads, *shown, strict=True))
        numeric = [all(cell.replace(",", "").isdigit() for cell in column[1:] if cell) for column in columns]
        widths = self._fit([max(map(len, column)) for column in columns])
        for row in (heads, *shown):
            cells = [
                _cut(cell, size).rjust(size) if right else _cut(cell, size).ljust(size)
                for cell, size, right in zip(row, widths, numeric, strict=True)
            ]
            yield ("  " + "  ".join(cells)).rstrip()
        if len(every) > MOST_ROWS:
            yield f"  and {_number(len(every) - MOST_ROWS)} more"

    def _fit(self, widths: list[int]) -> list[int]:
        """The widths of columns; the widest are reduced until all fit."""
        room = self._width - 2 * len(widths)
        while sum(widths) > room:
            widest = widths.index(max(widths))
            others = sorted(widths)[-2] if len(widths) > 1 else 0
            widths[widest] = max(min(others, widths[widest] - 1), widths[widest] - (sum(widths) - room), 1)
        return widths


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
