"""What holds for a client at a moment, and what a rule would have covered: both for administrators to look at."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from hushlist.core.decide.decision import STOPPING, Decision, decide_unread
from hushlist.core.decide.engine import Engine
from hushlist.core.errors import UrlError
from hushlist.core.lists.patterns import parse_expression
from hushlist.core.policy.groups import Client, address_text
from hushlist.core.policy.recurrence import Schedule
from hushlist.core.policy.schedule import ScheduledAction
from hushlist.core.url.hrn import parse_hrn
from hushlist.core.url.parts import as_typed
from hushlist.extensions.dashboard.administration import EVERYBODY
from hushlist.extensions.journal.log_database import LogFilters, LogPlace, newest_records
from hushlist.extensions.journal.log_record import Privacy, shown_record, time_text, who
from hushlist.extensions.unblock.grants import canonical_target

#: most records of the log that a preview reads, and how old they may be
MOST_PREVIEWED = 10_000
_WEEK = timedelta(days=7)
#: addresses that it shows
_SHOWN = 20


def what_holds(engine: Engine, client: Client, url: str, now: datetime) -> dict[str, object]:
    """A client's group, its schedules and categories; and the decision for a URL, unless that is empty."""
    group = engine.group(client)
    decision: Decision | None = None
    if url:
        try:
            decision = engine.decide_url(as_typed(url), now, client)
        except UrlError as error:
            decision = decide_unread(engine.policy.unparsable, b"", error.reason)
    default = group.settings.default
    return {
        "group": group.name,
        "mode": group.settings.mode,
        "layers": [{"name": use.name, "is_on": use.during is None or use.during.is_on(now)} for use in group.layers],
        "schedules": [_plain_schedule(one, now) for one in group.schedules.values()],
        "categories": [
            {"category": name, "action": _action_at(timed, now)}
            for name, timed in sorted(group.settings.categories.items())
        ],
        "default": None if default is None else _action_at(default, now),
        "decision": None if decision is None else {**decision.as_dict(), "why": str(decision)},
    }


def _action_at(timed: ScheduledAction, now: datetime) -> str | None:
    found = (one.at(now) for one in timed.chain())
    return next((action.value for action in found if action is not None), None)


def _plain_schedule(schedule: Schedule, now: datetime) -> dict[str, object]:
    change = schedule.next_change(now)
    return {
        "name": schedule.name,
        "is_on": schedule.is_on(now),
        "until": None if change is None else change.timestamp(),
    }


class Previewed(NamedTuple):
    """What somebody is about to allow or block."""

    filters: LogFilters
    #: an expression; empty for the whole host, and for a category
    page: str
    #: the name of a group
    group: str | None


def previewed(scope: str, target: str, client: str, privacy: Privacy) -> Previewed:
    """What a scope and its target are, for a client or everybody; ``UrlError`` if the target cannot be read."""
    kind, _, name = client.partition(":")
    own, page = LogFilters(), ""
    if kind == "user":
        own = replace(own, users=_spellings("user", name, privacy))
    elif client != EVERYBODY and kind != "group":
        own = replace(own, clients=_spellings("client", address_text(client), privacy))
    typed = as_typed(target).decode("utf-8", "surrogateescape")
    if scope == "category":
        own = replace(own, category=parse_hrn(typed))
    else:
        page = "" if scope == "host" else str(parse_expression(typed))
        own = replace(own, host=page.partition("/")[0] or canonical_target("host", target))
    return Previewed(own, page, name if kind == "group" else None)


def _spellings(key: str, name: str, privacy: Privacy) -> tuple[str, ...]:
    """A name, and what the log may have in its place."""
    return tuple(filter(None, (name, who(key, name, privacy))))


def preview(place: LogPlace, covered: Previewed, action: str, privacy: Privacy, now: datetime) -> dict[str, object]:
    """What would have been covered in the last week, by what was done with it: the newest records of the log.

    ``changed``: how many of these ``action`` (``allow`` or ``block``) would have changed.
    """
    since = time_text((now.astimezone(UTC) - _WEEK).timestamp())
    records = newest_records(place, replace(covered.filters, since=since), MOST_PREVIEWED)
    fitting = [
        one
        for one in records
        if (not covered.page or _is_below(str(one.get("url", "")), covered.page))
        and (covered.group is None or one.get("group") == covered.group)
    ]
    shown = (shown_record(one, privacy) for one in fitting)
    addresses = Counter((str(one.get("url", "")), str(one.get("action", ""))) for one in shown)
    return {
        "requests": len(fitting),
        "changed": sum((one.get("action") in STOPPING) is (action == "allow") for one in fitting),
        "is_all": len(records) < MOST_PREVIEWED,
        "actions": dict(Counter(str(one.get("action", "")) for one in fitting)),
        "clients": len({(one.get("client"), one.get("user")) for one in fitting}),
        "addresses": [
            {"url": url, "action": action, "count": number} for (url, action), number in addresses.most_common(_SHOWN)
        ],
    }


def _is_below(url: str, page: str) -> bool:
    """Whether a canonical URL is that of an expression, or below it."""
    rest = url.partition("://")[2]
    return rest == page or rest.startswith(page if page.endswith("/") else (f"{page}/", f"{page}?"))
