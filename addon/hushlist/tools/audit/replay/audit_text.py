"""The report for a terminal: tables and bars of plain Unicode."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from hushlist.core.errors import number_of, printable
from hushlist.tools.audit.replay.audit_report import AuditReport, ListUse, ShownRecord
from hushlist.tools.audit.replay.tally import by_number
from hushlist.tools.audit.sources.recorded_request import text_of
from hushlist.tools.audit.third_parties import role_text

MOST_ROWS = 15
CHANGES = "Rules for heads that change header fields"
DOUBTS = "Rules for files and heads that depend on what was not recorded"
_LONGEST_BAR = 24
_EIGHTHS = " ▏▎▍▌▋▊▉"
_NARROWEST = 60


class Title(str):
    """A line above a table."""

    __slots__ = ()


def report_text(report: AuditReport, width: int = 100) -> Iterator[str]:
    page = _Page(max(width, _NARROWEST), short_names(row.key.source for row in report.lists))
    yield from _summary(report)
    if len(report.sources) > 1:
        yield from page.table(
            "Sources",
            ("requests", "broken", "skipped", "format", "source"),
            [(row.records, row.broken, row.skipped, row.format, row.source) for row in report.sources],
        )
    yield from page.table(
        "What is done",
        ("", "requests", "", ""),
        [
            (name, number, _percent(number, report.records), page.bar(number, report.records))
            for name, number in sorted(report.actions.items(), key=lambda row: -row[1])
        ],
    )
    yield from _lists(report, page)
    yield from page.table(
        "Categories",
        ("stopped", "alone", "fits", "category"),
        [(row.hits.stopped, row.hits.alone, row.hits.fits, row.category or "(none)") for row in report.categories],
    )
    yield from page.table(
        "Rules that stop most",
        ("stopped", "alone", "rule"),
        [
            (row.hits.stopped, row.hits.alone, f"{row.shown}  ({page.place(row.key.source, row.key.line)})")
            for row in report.rules
            if row.hits.stopped
        ],
    )
    yield from _sites(report, page)
    for title, counts in ((CHANGES, report.changes), (DOUBTS, report.doubts)):
        yield from page.table(title, ("requests", "rule"), [(number, rule) for rule, number in by_number(counts)])
    yield from _breaks(report, page)
    yield from _third_parties(report, page)
    if report.popular is not None:
        yield from page.table(
            "Popular domains to which requests are stopped",
            ("rank", "stopped", "domain"),
            [("" if row.rank is None else row.rank, row.stopped, row.domain) for row in report.popular_domains],
        )
    yield from _decryption(report, page)
    yield from _unused(report, page)
    yield from page.table(
        "Slowest decisions",
        ("µs", "URL"),
        [(row.microseconds, text_of(report.records_shown[row.record].url)) for row in report.slowest[:5]],
    )


def _summary(report: AuditReport) -> Iterator[str]:
    rate, broken = report.records_a_second, report.broken
    speed = f", {rate:,} a second" if rate else ""
    requests = number_of(report.records, "request", "requests")
    yield f"{requests} in {report.seconds:.1f} s{speed}; policy {report.policy.path}"
    share = _percent(report.stopped, report.records).strip()
    yield f"{report.stopped:,} would be stopped{share and f': {share}'}"
    yield from (f"{number:,} could not be decided: {why}" for why, number in report.faults.items())
    if broken.count:
        yield f"{number_of(broken.count, 'record', 'records')} could not be read:"
        yield from (f"  {problem}" for problem in broken.first[:MOST_ROWS])
        if broken.count > MOST_ROWS:
            yield f"  and {broken.count - MOST_ROWS:,} more"


def _lists(report: AuditReport, page: _Page) -> Iterator[str]:
    lists = sorted(report.lists, key=lambda row: (-row.hits.stopped, row.key.source))
    most = max((row.hits.stopped for row in lists), default=0)
    yield from page.table(
        "Lists",
        ("stopped", "alone", "fits", "fired", "of rules", "", "list"),
        [
            (
                row.hits.stopped,
                row.hits.alone,
                row.hits.fits,
                row.facts.fired,
                row.facts.rules,
                page.bar(row.hits.stopped, most, 12),
                page.called(row),
            )
            for row in lists
        ],
    )
    yield from page.table(
        "Requests that two lists would stop",
        ("requests", "lists"),
        [
            (row.requests, " and ".join(page.name(report.lists[place].key.source) for place in row.lists))
            for row in sorted(report.overlaps, key=lambda row: (-row.requests, row.lists))
        ],
    )


def _sites(report: AuditReport, page: _Page) -> Iterator[str]:
    requests, stopped = dict(report.sites.requests.counts), report.sites.stopped
    most = max((number for _, number in stopped.counts), default=0)
    error = f" (each may be {stopped.error:,} more)" if stopped.error else ""
    yield from page.table(
        f"Sites{error}",
        ("stopped", "of", "", "site"),
        [(number, requests.get(site, 0), page.bar(number, most, 12), site) for site, number in stopped.counts],
    )


def _breaks(report: AuditReport, page: _Page) -> Iterator[str]:
    if not report.breaks:
        yield ""
        yield "No page breaks: no document is stopped, nor a script or style of a page's own site."
        return
    what = ", ".join(f"{breakage.requests:,} {kind}" for kind, breakage in report.breaks.items())
    shown = (
        (kind, report.records_shown[key])
        for kind, breakage in report.breaks.items()
        for key in breakage.examples[:MOST_ROWS]
    )
    yield from page.table(
        f"What breaks a page: {what}",
        ("kind", "URL", "by"),
        [(kind, text_of(record.url), page.why(record)) for kind, record in shown],
    )


def _third_parties(report: AuditReport, page: _Page) -> Iterator[str]:
    yield from page.table(
        "What is stopped of other sites that people notice",
        ("stopped", "pages", "what for", "list", "the first page"),
        [
            (
                row.stopped,
                len(row.pages.counts),
                role_text(row.role),
                page.name(row.key.source),
                next((name for name, _ in row.pages.counts), ""),
            )
            for row in report.third_parties
        ],
    )


#: rows of a table of settings: what they are called
SETTINGS = {
    "all": "decrypt: all",
    "where-needed": "decrypt: where-needed",
    "page": "of these, to show that a host is stopped",
    "never": "decrypt: never",
}


def _decryption(report: AuditReport, page: _Page) -> Iterator[str]:
    every = report.decryption.get("https")
    if every is None:
        return
    yield from page.table(
        f"What is decrypted of {every.requests:,} requests by https to {every.hosts:,} hosts",
        ("hosts", "connections", "requests", "decided otherwise", "setting"),
        [
            (
                _percent(counts.hosts, every.hosts),
                _percent(counts.connections, every.connections),
                _percent(counts.requests, every.requests),
                "" if key == "page" else counts.otherwise,
                name,
            )
            for key, name in SETTINGS.items()
            for counts in (report.decryption[key],)
        ],
    )


def _unused(report: AuditReport, page: _Page) -> Iterator[str]:
    yield from page.table(
        "Rules that never fired",
        ("rules", "of", "list", "the first of them"),
        [
            (
                use.facts.rules - use.facts.fired,
                use.facts.rules,
                page.name(use.key.source),
                ", ".join(f"{unused.line}: {unused.text}" for unused in use.facts.unused_first[:3]),
            )
            for use in report.lists
            if use.facts.rules > use.facts.fired
        ],
    )


def short_names(sources: Iterable[str]) -> dict[str, str]:
    """Short names of files: without the folder that all absolute paths, or all relative ones, share.

    >>> short_names(["/lists/ads/domains", "/lists/own.yaml", "overrides.yaml"])
    {'/lists/ads/domains': 'ads/domains', '/lists/own.yaml': 'own.yaml', 'overrides.yaml': 'overrides.yaml'}
    """
    names: dict[str, str] = {}
    rooted: dict[str, list[str]] = {}
    for source in sources:
        rooted.setdefault(PurePath(source).anchor, []).append(source)
    for alike in rooted.values():
        folder = os.path.commonpath([str(PurePath(source).parent) for source in alike])
        names |= {source: str(PurePath(source).relative_to(folder)) if folder else source for source in alike}
    # a long name is better than one name for two files
    return names if len(set(names.values())) == len(names) else {source: source for source in names}


def _percent(number: int, of: int) -> str:
    return f"{number / of:6.1%}" if of else ""


class _Page:
    """The width of lines, and the names of lists."""

    def __init__(self, width: int, names: dict[str, str]) -> None:
        self._width, self._names = width, names

    def name(self, source: str) -> str:
        return self._names.get(source, source)

    def called(self, use: ListUse) -> str:
        """A list's own name if it says more than its file; else the file's."""
        name, file = use.facts.title or use.key.list, self.name(use.key.source)
        return file if name == PurePath(file).stem else f"{name} ({file})"

    def place(self, source: str, line: int) -> str:
        return f"{self.name(source)}:{line}"

    def why(self, record: ShownRecord) -> str:
        """What decided; empty for a record without an explanation."""
        if record.explanation is None:
            return ""
        winner, fault = record.explanation.decision.winner, record.explanation.decision.fault
        return fault or "" if winner is None else self.place(winner.rule.terms.source, winner.rule.line)

    def bar(self, number: int, of: int, longest: int = _LONGEST_BAR) -> str:
        """A bar in proportion to the share; never empty for a number above 0."""
        if not number or not of:
            return ""
        eighths = max(1, round(8 * longest * number / of))
        return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()

    def table(self, title: str, heads: Sequence[str], rows: Iterable[Sequence[str | int]]) -> Iterator[str]:
        """A table of the first rows, numbers to the right; nothing without rows. Cells may have any text."""
        every = [tuple(f"{cell:,}" if isinstance(cell, int) else printable(cell) for cell in row) for row in rows]
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
            yield f"  and {len(every) - MOST_ROWS:,} more"

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
