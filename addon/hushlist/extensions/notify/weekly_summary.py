"""The summary of a week: who asked for how much, day by day, and what was stopped; sent on Mondays, or at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import partial

from markupsafe import Markup

from hushlist.core.decide.decision import STOPPING
from hushlist.core.errors import logger_of, printable
from hushlist.core.extension import Notice
from hushlist.core.policy.policy_file import Policy
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.journal.history import WHY_NONE, named_in_text
from hushlist.extensions.journal.journal import log_of
from hushlist.extensions.journal.log_database import (
    LogFilters,
    LogPlace,
    last_name,
    requests_over_time,
    shown_values,
    top_values,
)
from hushlist.extensions.journal.log_keys import LoggedClients
from hushlist.extensions.journal.log_record import Privacy, time_text
from hushlist.extensions.journal.log_writer import LogWriter
from hushlist.extensions.journal.request_counts import QUARTER
from hushlist.extensions.unblock.unblock_handler import overrides_of
from hushlist.proxy.languages import Texts, live_texts, moment_text, number_text
from hushlist.proxy.page.elements import document, element
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)

#: the time of the policy's zone from which a week's summary is sent on its Monday, and what is missed later
_BEGIN = timedelta(hours=7)
_WEEK = timedelta(days=7)
_COUNTED = ("client", "category", "host", "list")
#: values of each kind
_MOST = 10
_BODY = "font-family:sans-serif;max-width:600px;margin:0 auto;padding:12px;overflow-wrap:anywhere"
_CELL = "padding:4px 6px;text-align:left;vertical-align:top"
#: where the page is, if the policy says no other address
_PAGE = "http://hushlist.internal"


@dataclass(frozen=True, slots=True)
class Week:
    """Seven days, as far as the log may tell of them."""

    #: the last of them, and the name of the time zone
    last: date
    zone: str
    #: whether all requests are counted, and not only those of which the log has a record
    is_all: bool
    #: each with its requests, and how many of them were stopped; what a dry run let pass is none of these
    days: Sequence[tuple[date, int, int]]
    #: the same of the seven days before; ``None`` if nothing is known of them
    before: tuple[int, int] | None
    #: client, category, host or list -> the values that were stopped most, each with its count
    stopped: dict[str, list[tuple[str, int]]]
    #: the group that it is about; ``None``: everybody
    group: str | None


def send_weekly_summary(runtime: Runtime, now: datetime) -> None:
    """Send the summary if a week has begun, once for all proxies of a store; waits for the disk, and raises nothing."""
    engine, overrides = runtime.engine, overrides_of(runtime)
    if engine is None or overrides is None or not any(channel.weekly for channel in engine.policy.of("notify")):
        return
    day = (now.astimezone(engine.policy.zone) - _BEGIN).date()
    monday, journal = day - timedelta(days=day.weekday()), log_of(runtime)
    try:
        if overrides.begin_week(monday.isoformat()):
            for group in summarized_groups(engine.policy):
                _send_summary(runtime, engine.policy, journal, monday - timedelta(days=1), group)
    except Exception as error:
        _fail(error)


def _send_summary(runtime: Runtime, policy: Policy, journal: LogWriter | None, last: date, group: str | None) -> None:
    """Send one summary; what fails does not keep back those of others."""
    try:
        week: Week | str = "no_log"
        if journal is not None and policy.of("log") is not None:
            week = week_of(policy, journal.place, journal.privacy(), last, group)
        if isinstance(week, Week):
            runtime.notify(summary_of(week, policy))
        else:
            logger.warning("hushlist: no summary of the week: %s", WHY_NONE[week])
    except Exception as error:
        _fail(error)


def _fail(error: Exception) -> None:
    if isinstance(error, StoreError):
        logger.warning("hushlist: no summary of the week: %s", error)
    else:
        logger.error("hushlist: no summary of the week", exc_info=error)


def summarized_groups(policy: Policy) -> list[str | None]:
    """Those of which a channel takes a summary; ``None``: one of everybody."""
    channels = (channel for channel in policy.of("notify") if channel.weekly)
    return list(dict.fromkeys(group for channel in channels for group in (channel.groups or (None,))))


def week_of(policy: Policy, place: LogPlace, privacy: Privacy, last: date, of_group: str | None = None) -> Week | str:
    """The seven days up to a last one, of all or of a group, or a key of ``WHY_NONE``; waits for the disk."""
    zone, first = policy.zone, last - _WEEK + timedelta(days=1)
    begin, end = (datetime.combine(day, time(), zone).timestamp() for day in (first, last + timedelta(days=1)))
    counted = requests_over_time(place, datetime.combine(first - _WEEK, time(), zone).timestamp())
    if counted is None or (of_group is not None and not counted.is_all):  # minutes of the log are nobody's
        return "no_database"
    every, stopped = Counter[date](), Counter[date]()
    for quarter, group, action, number in counted.rows:
        if of_group not in (None, group):
            continue
        day = datetime.fromtimestamp(quarter * QUARTER, zone).date()
        every[day] += number
        stopped[day] += number if action in STOPPING else 0
    days = [(day, every[day], stopped[day]) for day in (first + timedelta(days=more) for more in range(7))]
    before = [(every[day], stopped[day]) for day in every if first - _WEEK <= day < first]
    totals = (sum(number for number, _ in before), sum(part for _, part in before)) if before else None
    filters = LogFilters(
        [action.value for action in STOPPING], group=of_group, since=time_text(begin), until=time_text(end)
    )
    of_kinds = {
        by: shown_values(top_values(place, by, filters, _MOST), by, privacy)
        for by in _COUNTED
        if by != "client" or privacy.clients is not LoggedClients.DROP
    }
    if privacy.clients is LoggedClients.KEEP:
        of_kinds["client"] = [(last_name(place, client, of_group), number) for client, number in of_kinds["client"]]
    return Week(last, str(zone), counted.is_all, days, totals, of_kinds, of_group)


def summary_of(week: Week, policy: Policy) -> Notice:
    """The notice of a week."""
    language: str = policy.of("language")
    texts, base = live_texts()[language], policy.of("own-address") or _PAGE
    day_text = partial(_day_text, texts)
    title = texts["week_title"].format(day=day_text(week.last))
    if week.group is not None:
        title = texts["pair"].format(name=title, value=printable(week.group))
    total = sum(number for _, number, _ in week.days), sum(part for *_, part in week.days)
    said = [_counted(texts["week_said" if week.is_all else "week_logged"], total, texts, zone=week.zone)]
    said += [] if week.before is None else [_counted(texts["week_before"], week.before, texts)]
    days = [
        (day_text(day), number_text(number, texts), number_text(part, texts), _bar(number, part, week))
        for day, number, part in week.days
    ]
    lines = [*said, *(f"{day}: {number}, {texts['stopped']}: {part}" for day, number, part, _ in days)]
    names = [texts[key] for key in ("day", "requests", "stopped")]
    parts = [
        element("h1", title, style="font-size:20px"),
        *(element("p", sentence) for sentence in said),
        _table((*names, ""), days, texts),
    ]
    stopped = {by: [(named_in_text(by, value), count) for value, count in kind] for by, kind in week.stopped.items()}
    for by, values in stopped.items():
        heading, rows = texts[f"stopped_{by}"], [(value, number_text(count, texts)) for value, count in values]
        lines += ["", f"{heading}:", *([f"{printable(value)}: {count}" for value, count in rows] or [texts["nothing"]])]
        table = _table((texts["name"], texts["stopped"]), rows, texts) if rows else element("p", texts["nothing"])
        parts += [element("h2", heading, style="font-size:16px"), table]
    links = [(texts["home"], f"{base}/#/"), (texts["activity"], f"{base}/#/activity")]
    lines += ["", *(f"{name}: {link}" for name, link in links)]
    parts += [element("p", element("a", name, href=link)) for name, link in links]
    page = document(title, element("body", *parts, style=_BODY), language, texts["dir"])
    of_days = [[f"{day}", number, part] for day, number, part in week.days]
    details: dict[str, object] = {"week": {"days": of_days, "before": week.before, "stopped": stopped}}
    return Notice(title, "\n".join(lines), details, html=page, group=week.group)


def _day_text(texts: Texts, day: date) -> str:
    return moment_text(datetime.combine(day, time()), texts, "")


def _counted(text: str, counts: tuple[int, ...], texts: Texts, **more: str) -> str:
    requests, stopped = (number_text(number, texts) for number in counts)
    return text.format(requests=requests, stopped=stopped, **more)


def _bar(number: int, part: int, week: Week) -> Markup:
    """A bar without an image or a script: mail programs show neither. It is as wide as there is room."""
    most = max(requests for _, requests, _ in week.days) or 1
    widths = ((part, "#b3261e"), (number - part, "#9db6ee"))
    drawn = (
        element("span", style=f"display:inline-block;height:12px;width:{100 * width // most}%;background:{colour}")
        for width, colour in widths
        if width
    )
    return element("span", *drawn, aria_hidden="true", style="display:block;min-width:60px;white-space:nowrap")


def _table(names: tuple[str, ...], rows: Sequence[tuple[str, ...]], texts: Texts) -> Markup:
    style = _CELL if texts["dir"] == "ltr" else _CELL.replace("left", "right")
    # the last column takes what is left
    styles = [style] * (len(names) - 1) + [f"{style};width:30%"]

    def row(kind: Callable[..., Markup], cells: tuple[str, ...], more: str = "") -> Markup:
        return element("tr", *(kind(cell, style=style + more) for cell, style in zip(cells, styles, strict=True)))

    head = row(partial(element, "th", scope="col"), names, ";white-space:nowrap")
    body = (row(partial(element, "td"), cells) for cells in rows)
    whole = "border-collapse:collapse;width:100%"
    return element("table", element("thead", head), element("tbody", *body), style=whole)
