"""The policy's ``quotas``: for how many minutes a day or a week a category may be used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.policy.key_types import (
    Reading,
    any_text,
    choice,
    list_of,
    names_of,
    number,
    schema_of_category,
    schema_of_number,
    schema_of_rows,
)
from hushlist.core.policy.keys import Key, Schema, Type
from hushlist.core.policy.recurrence import A_DAY, first_moment
from hushlist.core.policy.schedule import WEEKDAYS, parse_time

#: kinds of periods -> the days between two resets
PERIODS = {"day": 1, "week": 7}
#: whose minutes are added up: each client's own, or those of all clients of the group
SHARES = ("each", "group")
_RESET = "expected a time such as 04:00; of a week also its day, such as mon 04:00"


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit of use; immutable."""

    #: an ``hrn:`` name; what is subordinate to it counts, too
    category: str
    minutes: int
    #: its place in the policy
    source: str
    line: int
    #: one of ``PERIODS``
    per: str = "day"
    #: when the period begins: minutes since the day's beginning, and of a week the day, from 0 for Monday
    reset: int = 0
    weekday: int = 0
    zone: tzinfo = UTC
    #: whether all clients of the group share it
    is_shared: bool = False

    def __hash__(self) -> int:
        """Made fast: each request of its category asks for it."""
        return hash((self.category, self.line))

    def period(self, now: datetime) -> tuple[datetime, datetime]:
        """The last reset and the next, in UTC.

        A reset at a time that the clock skips is at the end of the gap; of a time that comes twice, the first counts.

        >>> from zoneinfo import ZoneInfo
        >>> weekly = Quota("hrn://c.example", 60, "policy.yaml", 1, "week", 240, 6, ZoneInfo("Europe/Berlin"))
        >>> [str(end) for end in weekly.period(datetime(2026, 10, 25, 2, 59, tzinfo=UTC))]
        ['2026-10-18 02:00:00+00:00', '2026-10-25 03:00:00+00:00']
        """
        today, step = now.astimezone(self.zone).toordinal(), PERIODS[self.per]
        # The ordinal of a Monday is 1 modulo 7.
        first = today - (today - 1 - self.weekday) % step
        # More than are needed: a zone may leave out a day.
        resets = {first_moment((first + step * more) * A_DAY + self.reset, self.zone) for more in range(-2, 4)}
        return max(end for end in resets if end <= now), min(end for end in resets if end > now)

    def __str__(self) -> str:
        """For people: the limit and its place."""
        return f"{self.minutes} minutes a {self.per} ({self.source}:{self.line})"


_KEYS = (
    Key("minutes", number(1, PERIODS["week"] * A_DAY), is_required=True).says("""how many minutes of use: 1 to 1440 a
        day, 1 to 10080 a week"""),
    Key("per", choice(PERIODS)).says("the period: `day` (the default) or `week`"),
    Key("reset", any_text).says("""when a period begins, by the clock of the policy's `timezone`: a time such as
        `04:00`, of a week also its day, such as `mon 04:00`; without it, midnight, of a week that of Monday"""),
    Key("for", choice(SHARES)).says("""`each` (the default): every user has minutes of their own, or every address where
        the proxy knows no user; `group`: all clients of the group share them, such as the devices of one child"""),
)


def _schema() -> Schema:
    entry = {"anyOf": [schema_of_number(1, A_DAY), schema_of_rows(_KEYS, name="quota")]}
    some = {"anyOf": [*entry["anyOf"], list_of(entry, minItems=1)]}
    return {"$name": "quotas", "type": "object", "propertyNames": schema_of_category(), "additionalProperties": some}


QUOTAS = Type(lambda fields, _, reading: read_quotas(fields, reading), _schema, _KEYS)


def read_quotas(fields: MappingReader, reading: Reading) -> tuple[Quota, ...]:
    """The value of ``quotas``: categories, each with its minutes a day, a mapping, or a list of mappings."""
    entries, zone = fields.names("quotas", reading.category), reading.zone
    return tuple(quota for name, _, node in entries for quota in _read_entries(name, node, zone, fields.report))


def _read_entries(category: str, node: YamlNode, zone: tzinfo, report: ProblemReport) -> Iterator[Quota]:
    keys = names_of(_KEYS)
    if not node.items:
        report.error(node.line, category, f"expected minutes, or mappings with {', '.join(keys)}, not an empty list")
    for entry in node.items:
        fields = MappingReader(entry.short_for("minutes"), keys, report)
        per = fields.choice("per", PERIODS) or "day"
        minutes = fields.number("minutes", 1, PERIODS[per] * A_DAY)
        fields.require("minutes", category)
        is_weekly = per == "week"
        weekday, reset = fields.converted("reset", _weekly if is_weekly else _daily, _RESET) or (0, 0)
        shared = fields.choice("for", SHARES) == "group"
        if minutes is not None:
            line = fields.line_of("minutes")
            yield Quota(category, minutes, report.source, line, per, reset, weekday, zone, shared)


def _daily(text: str) -> tuple[int, int] | None:
    """The day of the week, which is 0, and minutes since the day's beginning.

    >>> _daily("4:00"), _daily("24:00"), _daily("mon 4:00")
    ((0, 240), None, None)
    """
    minutes = parse_time(text.strip())
    return None if minutes is None or minutes == A_DAY else (0, minutes)


def _weekly(text: str) -> tuple[int, int] | None:
    """
    >>> _weekly("Sunday 4:00"), _weekly("sun"), _weekly("4:00"), _weekly("x 4:00")
    ((6, 240), (6, 0), (0, 240), None)
    """
    day, _, time = text.strip().rpartition(" ")
    if not day and ":" not in time:
        day, time = time, "00:00"
    weekday, daily = WEEKDAYS.get(day.strip().casefold(), None if day else 0), _daily(time)
    return None if weekday is None or daily is None else (weekday, daily[1])
