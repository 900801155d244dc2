"""What administrators do at the live page with reports of mistakes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from hushlist.core.errors import without_user
from hushlist.core.routes import Account, Action, Done, Number, Role, Text
from hushlist.extensions.journal.log_record import Privacy, who, without_query
from hushlist.extensions.journal.masked_clients import as_told
from hushlist.extensions.reports.publisher_report import SHAPES, report_text, shown_source
from hushlist.extensions.reports.report_book import Report, ReportBook


@dataclass(frozen=True, slots=True)
class ReportStatus:
    """A report as the interface shows it. Times are seconds since the epoch."""

    id: int
    client: str | None
    user: str | None
    group: str | None
    host: str
    url: str
    rule: str
    line: int
    list: str
    source: str
    version: str
    digest: str
    #: where the list's publisher hears of mistakes; empty: its head does not say
    publisher: str
    words: str
    asked: float
    times: int
    settled: float | None
    by: str | None


@dataclass(frozen=True, slots=True)
class PublisherReport:
    """A report for a list's publisher, which a person may send."""

    publisher: str
    text: str
    #: how much of the URL it tells
    shape: str


def status_of(report: Report, privacy: Privacy) -> ReportStatus:
    """A report as it may be shown."""
    asker = as_told(privacy, report.seen)
    client, user = who("client", report.address, asker), who("user", report.user, asker)
    url = without_query(str(without_user(report.url)), privacy)
    return ReportStatus(
        *(report.id, client, user, report.in_group, report.host, url, report.rule, report.line, report.list),
        *(shown_source(report.source), report.version, report.digest, report.publisher, report.words),
        *(report.asked, report.times, report.settled, report.by),
    )


def for_publisher(report: Report, privacy: Privacy, shape: str = "") -> PublisherReport:
    """A report for the publisher, with as much of the URL as its rule needs, or a shape says, and the log may have."""
    shape = shape or report.shape
    shaped = replace(report, url=without_query(report.url, privacy))
    return PublisherReport(report.publisher, report_text(shaped, shape), shape)


def reports(book: ReportBook | None, privacy: Privacy) -> list[ReportStatus]:
    """What people have reported as a mistake, and nobody has settled."""
    return [] if book is None else [status_of(report, privacy) for report in book.rows()]


def publisher_report(
    book: ReportBook,
    number: Number,
    privacy: Privacy,
    shape: Annotated[
        str, Text("how much of the URL it tells; nothing: what the rule needs", choices=("", *SHAPES))
    ] = "",
) -> PublisherReport:
    """A report as the list's publisher may get it; nothing sends it."""
    return for_publisher(book.report(number), privacy, shape)


def settle_report(account: Account, book: ReportBook, number: Number, privacy: Privacy) -> Done[ReportStatus]:
    """Note that nothing is left to do about a report."""
    return Done(status_of(book.settle(number, by=account.name), privacy))


ACTIONS = (
    Action("GET", "/reports", Role.VIEW, reports),
    Action("GET", "/reports/{number}/text", Role.VIEW, publisher_report),
    Action("POST", "/reports/{number}/settle", Role.APPROVE, settle_report, "settled a report"),
)
