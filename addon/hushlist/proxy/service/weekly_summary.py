"""The summary of a week: what the log has of the last seven days, sent on Mondays to whom ``notify`` names for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from markupsafe import Markup

from hushlist.errors import logger_of
from hushlist.notify.notifier import Notice
from hushlist.proxy.dashboard.history_page import History, history
from hushlist.proxy.page.elements import element
from hushlist.proxy.runtime import Runtime
from hushlist.unblock.store import StoreError

logger = logger_of(__name__)

#: the time of the policy's zone from which a week's summary is sent on its Monday, and what is missed later
_BEGIN = timedelta(hours=7)
#: values of each kind: clients, categories, sites, lists
_MOST = 10
_CELL = "padding:4px 12px 4px 0;text-align:left;vertical-align:top"


def send_weekly_summary(runtime: Runtime, now: datetime) -> None:
    """Send the summary if a week has begun, once for all proxies of a store; waits for the disk, and raises nothing."""
    engine, overrides = runtime.engine, runtime.overrides
    if engine is None or overrides is None or not any(channel.weekly for channel in engine.policy.notify):
        return
    day = (now.astimezone(engine.policy.zone) - _BEGIN).date()
    monday = (day - timedelta(days=day.weekday())).isoformat()
    try:
        if overrides.begin_week(monday):
            found = history(runtime, "week", now)
            if isinstance(found, History):
                runtime.notifier.send(summary_of(found, monday))
            else:
                logger.warning("hushlist: no summary of the week: %s", found)
    except StoreError as error:
        logger.warning("hushlist: no summary of the week: %s", error)
    except Exception:
        logger.exception("hushlist: no summary of the week")


def summary_of(found: History, monday: str) -> Notice:
    """The notice of a week that ended on a Monday."""
    title = f"Hushlist: the week to {monday}"
    every, stopped = sum(bar[1] for bar in found.times), sum(bar[2] for bar in found.times)
    said = f"{every:,} requests in the log, {stopped:,} of them stopped. Times are by the clock of {found.zone}."
    lists = {f"{by} stopped most": values[:_MOST] for by, values in found.stopped.items()}
    lines = [said, *(f"{day}: {number:,}, stopped {part:,}" for day, number, part in found.times)]
    for heading, values in lists.items():
        lines += [
            "",
            f"{heading.capitalize()}:",
            *(f"{value}: {count:,}" for value, count in values or [("nothing", 0)]),
        ]
    days = [(day, f"{number:,}", f"{part:,}", _bar(number, part, found)) for day, number, part in found.times]
    parts = [
        element("h1", title, style="font-size:20px"),
        element("p", said),
        _table(("Day", "Requests", "Stopped", ""), days),
    ]
    for heading, values in lists.items():
        parts.append(element("h2", heading.capitalize(), style="font-size:16px"))
        rows = [(value, f"{count:,}") for value, count in values]
        parts.append(_table(("Name", "Stopped"), rows) if rows else element("p", "Nothing"))
    head = element("head", Markup('<meta charset="utf-8">'), element("title", title))
    page = element("html", head, element("body", *parts, style="font-family:sans-serif"), lang="en")
    details: dict[str, object] = {"week": {"days": [list(bar) for bar in found.times], "stopped": found.stopped}}
    return Notice(title, "\n".join(lines), details, html=f"<!doctype html>{page}")


def _bar(number: int, part: int, found: History) -> Markup:
    """A bar without an image or a script: mail programs show neither."""
    most = max(bar[1] for bar in found.times) or 1
    widths = ((part, "#b3261e"), (number - part, "#9db6ee"))
    drawn = (
        element("span", style=f"display:inline-block;height:12px;width:{200 * one // most}px;background:{colour}")
        for one, colour in widths
        if one
    )
    return element("span", *drawn, aria_hidden="true", style="white-space:nowrap")


def _table(names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Markup:
    head = element("tr", *(element("th", name, scope="col", style=_CELL) for name in names))
    body = (element("tr", *(element("td", cell, style=_CELL) for cell in row)) for row in rows)
    return element("table", element("thead", head), element("tbody", *body), style="border-collapse:collapse")
