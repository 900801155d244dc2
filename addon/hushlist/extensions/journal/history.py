"""The history: what the log has of the last day, week or month, for the summary of a week and as CSV.

It comes from the log's database alone, so it has what the log may keep, and nothing else.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from hushlist.core.decide.decision import STOPPING
from hushlist.core.errors import cell_text
from hushlist.extensions.journal.journal import log_of
from hushlist.extensions.journal.log_database import (
    LogFilters,
    counts_over_time,
    last_name,
    named,
    shown_values,
    top_values,
)
from hushlist.extensions.journal.log_keys import LoggedClients
from hushlist.extensions.journal.log_record import time_text
from hushlist.proxy.runtime import Runtime

#: span -> how many bars it has, and how the moment of each begins
_SPANS = {"day": (24, "%Y-%m-%d %H:00"), "week": (7, "%Y-%m-%d"), "month": (30, "%Y-%m-%d")}
_DAYS = {"day": 1, "week": 7, "month": 30}
_COUNTED = ("client", "category", "host", "list", "file")
#: most values of each
_MOST = 20
#: why there is none: the key of its text -> the same for the log of the proxy
WHY_NONE = {
    "no_log": "there is no log: write 'log: on' into the policy",
    "no_database": "the log has no database that can be read: see rows in the policy's key log",
}


@dataclass(frozen=True, slots=True)
class History:
    """What the log has of a span."""

    span: str
    #: name of the time zone
    zone: str
    #: time, records, and how many of them were stopped; what a dry run let pass is none of these
    times: Sequence[tuple[str, int, int]]
    #: client, category, host, list or file -> the values that were stopped most, each with its count
    stopped: dict[str, list[tuple[str, int]]]


def history(runtime: Runtime, span: str, now: datetime) -> History | str:
    """The history up to ``now``, or a key of ``WHY_NONE``; waits for the disk."""
    journal, engine = log_of(runtime), runtime.engine
    if journal is None or engine is None or engine.policy.of("log") is None:
        return "no_log"
    span, zone = span if span in _SPANS else "day", engine.policy.zone
    since = time_text((now - timedelta(days=_DAYS[span])).timestamp())
    counted = counts_over_time(journal.place, since)
    if counted is None:
        return "no_database"
    filters = LogFilters([action.value for action in STOPPING], since=since)
    stopped = {
        by: shown_values(top_values(journal.place, by, filters, _MOST), by, journal.privacy())
        for by in _COUNTED
        if by != "client" or engine.policy.of("log").clients is not LoggedClients.DROP
    }
    if journal.privacy().clients is LoggedClients.KEEP:
        stopped["client"] = [(last_name(journal.place, client), number) for client, number in stopped["client"]]
    return History(span, str(zone), _times(counted, span, now, zone), stopped)


def _times(counted: Sequence[tuple[str, int]], span: str, now: datetime, zone: tzinfo) -> list[tuple[str, int, int]]:
    """The bars of a chart, the empty ones too, by the clock of a zone."""
    number, form = _SPANS[span]
    step = timedelta(hours=1) if span == "day" else timedelta(days=1)
    every, stopped = Counter[str](), Counter[str]()
    quarters: dict[tuple[str, int], str] = {}  # no time zone divides a quarter of an hour
    for key, count in counted:
        minute, _, action = key.partition(" ")
        try:
            quarter = minute[:-2], int(minute[-2:]) // 15
            label = quarters.get(quarter)
            if label is None:
                moment = datetime.fromisoformat(minute).replace(tzinfo=UTC)
                label = quarters[quarter] = moment.astimezone(zone).strftime(form)
        except (ValueError, OverflowError):  # no proxy writes such a time, but whoever has the database may
            continue
        every[label] += count
        stopped[label] += count if action in STOPPING else 0
    labels = {(now - step * place).astimezone(zone).strftime(form) for place in range(number)}
    return [(label, every[label], stopped[label]) for label in sorted(labels | set(every))]


def history_csv(figures: History) -> bytes:
    """The figures as CSV, with a row for each bar and each value."""
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(("kind", "value", "records", "stopped"))
    rows.writerows(("time", *bar) for bar in figures.times)
    for by, values in figures.stopped.items():
        rows.writerows((by, cell_text(named_in_text(by, value)), "", count) for value, count in values)
    return text.getvalue().encode("utf-8", "backslashreplace")


def named_in_text(by: str, value: str) -> str:
    """A value as text alone has it: the title of a list, and its file."""
    name, file = named(by, value)
    return name if file is None else f"{name} ({file})"
