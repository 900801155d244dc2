"""What administrators do at the live page with alerts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hushlist.core.routes import Account, Action, Done, Number, Role
from hushlist.extensions.alerts.alert_book import AlertBook, AlertRow
from hushlist.extensions.alerts.alert_hits import shown_alert
from hushlist.extensions.journal.log_record import Privacy


@dataclass(frozen=True, slots=True)
class AlertStatus:
    """An alert as the interface shows it. Times are seconds since the epoch."""

    id: int
    name: str
    who: str
    first: float
    last: float
    number: int
    #: what there is to tell of the last time that it happened
    about: Mapping[str, str]
    #: notices that went out
    notices: int
    #: when somebody has seen it, and who
    seen: float | None
    seen_by: str | None


def status_of(row: AlertRow, privacy: Privacy) -> AlertStatus:
    """An alert as it may be shown."""
    row = shown_alert(row, privacy)
    return AlertStatus(
        *(row.id, row.alert, row.whom, row.first, row.last, row.number, row.about, row.times, row.seen, row.seen_by)
    )


def alerts(book: AlertBook | None, privacy: Privacy) -> list[AlertStatus]:
    """The alerts of the last month, the newest first."""
    return [] if book is None else [status_of(row, privacy) for row in book.rows()]


def seen(account: Account, book: AlertBook, number: Number, privacy: Privacy) -> Done[AlertStatus]:
    """Say that somebody has seen an alert, so that no further notice goes out."""
    return Done(status_of(book.seen(number, by=account.name), privacy))


ACTIONS = (
    Action("GET", "/alerts", Role.VIEW, alerts),
    Action("POST", "/alerts/{number}/seen", Role.APPROVE, seen, "saw an alert"),
)
