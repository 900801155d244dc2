"""The summary of a week: what the log has of the last seven days, sent on Mondays to whom ``notify`` names for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta

from markupsafe import Markup

from hushlist.core.errors import logger_of, printable
from hushlist.core.extension import Notice
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.journal.history import WHY_NONE, History, history, label_text, named_in_text
from hushlist.extensions.unblock.unblock_handler import overrides_of
from hushlist.proxy.languages import Texts, live_texts, moment_text, number_text
from hushlist.proxy.page.elements import document, element
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)

#: the time of the policy's zone from which a week's summary is sent on its Monday, and what is missed later
_BEGIN = timedelta(hours=7)
#: values of each kind: clients, categories, sites, lists
_MOST = 10
_CELL = "padding:4px 6px;text-align:left;vertical-align:top"


def send_weekly_summary(runtime: Runtime, now: datetime) -> None:
    """Send the summary if a week has begun, once for all proxies of a store; waits for the disk, and raises nothing."""
    engine, overrides = runtime.engine, overrides_of(runtime)
    if engine is None or overrides is None or not any(channel.weekly for channel in engine.policy.of("notify")):
        return
    day = (now.astimezone(engine.policy.zone) - _BEGIN).date()
    monday = day - timedelta(days=day.weekday())
    try:
        if overrides.begin_week(monday.isoformat()):
            found = history(runtime, "week", now)
            if isinstance(found, History):
                runtime.notify(summary_of(found, monday, engine.policy.of("language")))
            else:
                logger.warning("hushlist: no summary of the week: %s", WHY_NONE[found])
    except StoreError as error:
        logger.warning("hushlist: no summary of the week: %s", error)
    except Exception:
        logger.exception("hushlist: no summary of the week")


def summary_of(found: History, monday: date, language: str) -> Notice:
    """The notice of a week that ended on a Monday."""
    texts = live_texts()[language]
    title = texts["week_title"].format(day=moment_text(datetime.combine(monday, time()), texts, ""))
    every = number_text(sum(number for _, number, _ in found.times), texts)
    stopped = number_text(sum(part for *_, part in found.times), texts)
    said = texts["week_said"].format(requests=every, stopped=stopped, zone=found.zone)
    days = [
        (label_text(day, texts), number_text(number, texts), number_text(part, texts), _bar(number, part, found))
        for day, number, part in found.times
    ]
    lines = [said, *(f"{day}: {number}, {texts['stopped']}: {part}" for day, number, part, _ in days)]
    names = [texts[key] for key in ("day", "requests", "stopped")]
    parts = [element("h1", title, style="font-size:20px"), element("p", said), _table((*names, ""), days, texts)]
    told = {by: [(named_in_text(by, value), count) for value, count in kind] for by, kind in found.stopped.items()}
    for by, values in told.items():
        heading, rows = texts[f"stopped_{by}"], [(value, number_text(count, texts)) for value, count in values[:_MOST]]
        lines += ["", f"{heading}:", *([f"{printable(value)}: {count}" for value, count in rows] or [texts["nothing"]])]
        table = _table((texts["name"], texts["stopped"]), rows, texts) if rows else element("p", texts["nothing"])
        parts += [element("h2", heading, style="font-size:16px"), table]
    page = document(title, element("body", *parts, style="font-family:sans-serif"), language, texts["dir"])
    details: dict[str, object] = {"week": {"days": [list(bar) for bar in found.times], "stopped": told}}
    return Notice(title, "\n".join(lines), details, html=page)


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


def _table(names: tuple[str, ...], rows: Sequence[tuple[str, ...]], texts: Texts) -> Markup:
    style = _CELL if texts["dir"] == "ltr" else _CELL.replace("left", "right")
    head = element("tr", *(element("th", name, scope="col", style=style) for name in names))
    body = (element("tr", *(element("td", cell, style=style) for cell in row)) for row in rows)
    return element("table", element("thead", head), element("tbody", *body), style="border-collapse:collapse")
