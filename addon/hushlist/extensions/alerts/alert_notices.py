"""Notices of alerts: in the policy's language, with a button that says "seen"."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from hushlist.core.decide.engine import Engine
from hushlist.core.errors import printable
from hushlist.core.extension import REFUSED_CERTIFICATE, Button, Notice
from hushlist.core.policy.group_table import DeviceNames
from hushlist.extensions.alerts.alert_book import AlertBook, AlertRow
from hushlist.extensions.alerts.alert_hits import told_whom
from hushlist.extensions.alerts.alert_keys import HELD_BACK, NEW_DEVICE, Alert
from hushlist.proxy.languages import DEFAULT_LANGUAGE, Texts, live_texts, moment_text, number_text

#: the path of a tap at a notice, which ends with its token
SEEN = "/seen/"
#: alerts of one name that are told one by one at one time; the others are one notice
MOST_AT_ONCE = 5
#: what is told of an alert, each with the key of its name
_SHOWN = {"url": "address", "host": "address", "category": "category", "list": "list", "rule": "rule", "why": "reason"}
_EVENTS = {
    NEW_DEVICE: "alert_new_device",
    HELD_BACK: "alert_held_back",
    REFUSED_CERTIFICATE: "alert_refused_certificate",
}


def notices_of(
    book: AlertBook, due: Sequence[tuple[AlertRow, Alert]], engine: Engine | None, device_of: DeviceNames | None = None
) -> Iterator[Notice]:
    """The notices of alerts that are due; of many of one name, the last one tells only how many there are.

    Where a channel is for some groups alone, the alerts of each of these are told by themselves.
    """
    language = DEFAULT_LANGUAGE if engine is None else engine.policy.of("language")
    texts, base = live_texts()[language], None if engine is None else engine.policy.of("own-address")
    channels = () if engine is None else engine.policy.of("notify")
    of_channels = {group for channel in channels for group in channel.groups or ()}
    alike = defaultdict[tuple[str, str | None], list[tuple[AlertRow, Alert]]](list)
    for row, alert in due:
        group = row.about.get("group")
        alike[alert.name, group if group in of_channels else None].append((row, alert))
    for (name, group), same in alike.items():
        for row, alert in same[:MOST_AT_ONCE]:
            yield _notice(book, row, alert, told_whom(row, device_of), texts, engine, base)
        if more := same[MOST_AT_ONCE:]:
            number = number_text(len(more), texts)
            title = texts["pair"].format(name=name, value=texts["alert_more"].format(number=number))
            yield Notice(
                title, title, {"alert": {"name": name, "more": len(more)}}, to=_to(*more[0]), group=group, budget=name
            )


def _to(row: AlertRow, alert: Alert) -> tuple[str, ...]:
    """The channels of a notice: the first goes to the alert's, further ones as it says."""
    return alert.to if not row.times or alert.escalate is None else alert.escalate.to or alert.to


def _notice(
    book: AlertBook, row: AlertRow, alert: Alert, whom: str, texts: Texts, engine: Engine | None, base: str | None
) -> Notice:
    def pair(name: str, value: str) -> str:
        return texts["pair"].format(name=name, value=printable(value))

    event = _EVENTS.get(row.about.get("event", ""))
    title = pair(alert.name, whom or texts["somebody"])
    lines = [
        *([texts["alert_again"]] if row.times else []),
        *([] if event is None else [texts[event]]),
        texts["alert_times"].format(number=number_text(row.number, texts)),
        *(pair(texts[key], row.about[name]) for name, key in _SHOWN.items() if name in row.about),
        moment_text(datetime.fromtimestamp(row.last, UTC if engine is None else engine.policy.zone), texts),
        pair(texts["alert_seen"], f"hushlist alerts seen {row.id}"),
    ]
    details = {"id": row.id, "name": alert.name, "who": row.whom, "number": row.number, "notice": row.times + 1}
    times = {"first": row.first, "last": row.last}

    def buttons(recipient: str) -> list[Button]:
        (token,) = book.taps_of(row.id, recipient).values()
        return [Button(texts["alert_seen"], f"{base}{SEEN}{token}")]

    return Notice(
        title,
        "\n".join(lines),
        {"alert": {**details, **times, "about": dict(row.about)}},
        buttons=None if base is None else buttons,
        to=_to(row, alert),
        group=row.about.get("group"),
        budget=alert.name,
    )
