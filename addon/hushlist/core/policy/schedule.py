"""Reads the schedules of a policy, which are written as ``rules/groups.md`` says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, tzinfo
from typing import TypeVar

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.policy.key_types import names_of, of_node, schema_of_rows, some_of
from hushlist.core.policy.keys import Key, Schema, Type
from hushlist.core.policy.recurrence import A_DAY, EVERY_WEEKDAY, WHOLE_DAY, RecurringDates, RecurringSpans, Schedule

# Each entry of a schedule may refer to every entry of the next, so each step multiplies the time of an answer.
_DEEPEST = 4
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
#: names of weekdays, whole or of three letters -> from 0 for Monday
WEEKDAYS = {name[:length]: number for number, name in enumerate(_DAYS) for length in (3, len(name))}
# the pattern cannot begin within white space, which would take quadratic time
_DASH = re.compile(r"(?<!\s)\s*[-‐‑–—]\s*")
_DAY = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{2})")
_NAME = re.compile(r"[^,]*[^\W\d_][^,]*")
_EXPECTED = {
    "days": f"days such as mon-fri or Saturday (one of {', '.join(name[:3] for name in _DAYS)}, or a whole name)",
    "dates": "a date such as 2026-12-24, or a range such as 2026-12-21..2027-01-06",
    "times": "a span such as 08:00-12:30 or 21:00-06:30, from 00:00 to 24:00",
    "except": "the name of a schedule, a date such as 2026-12-24, or a range such as 2026-12-21..2027-01-06",
}
_DATE = "[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_DATES = rf"\s*{_DATE}(?:\s*\.\.\s*{_DATE})?\s*"
_CLOCK = "(?:[01]?[0-9]|2[0-3]):[0-5][0-9]"
_SPAN = rf"\s*{_CLOCK}\s*[-‐‑–—]\s*(?:{_CLOCK}|24:00)\s*"
_LETTER_NAME = "[^,]*[A-Za-z\\u00AA-\\uFFFF][^,]*"
_WEEKDAY = "|".join(
    "[{}][{}][{}](?:{})?".format(*(x.upper() + x for x in day[:3]), "".join(f"[{x.upper()}{x}]" for x in day[3:]))
    for day in _DAYS
)
_WEEKDAYS = rf"^(?!.*[-‐‑–—][^,]*[-‐‑–—])(?:\s*(?:{_WEEKDAY})\s*(?:[-‐‑–—,](?=\s*[A-Za-z])|$))+$"
_EXCEPTED = f"(?:{_LETTER_NAME}|{_DATES})"


def _parts(name: str, pattern: str) -> Type:
    """Text with commas, or a list of it; ``_read_entry`` reads all keys of an entry together."""
    return of_node(lambda node, _: node, some_of({"$name": name, "type": "string", "pattern": pattern}, minItems=1))


_ENTRY_KEYS = (
    Key("days", _parts("days", _WEEKDAYS)).says("""days of the week in English, three letters or whole, in upper or
        lower case, and ranges of them, also over a week's end: `fri-mon`; without it, every day"""),
    Key("dates", _parts("dates", f"^{_DATES}(?:,{_DATES})*$")).says("""dates such as `2026-12-24`, and ranges of them
        with the first and the last day: `2026-12-21..2027-01-06`; without it, every date"""),
    Key("times", _parts("times", f"^{_SPAN}(?:,{_SPAN})*$")).says("""spans from a time up to, but not including,
        another: `08:00-12:30`; the end may be `24:00`, and where it comes before the beginning it is on the next
        day; without it, the whole day"""),
    Key("except", _parts("excepted", f"^{_EXCEPTED}(?:,{_EXCEPTED})*$")).says("""names of other schedules, and dates as
        above; without it, nothing"""),
)
_TIMES = ("days", "dates", "times")
_Read = TypeVar("_Read")


def read_schedules(node: YamlNode, zone: tzinfo, report: ProblemReport) -> dict[str, Schedule]:
    """Every schedule by its name; errors are in the report, and a schedule with errors has its valid parts.

    >>> from datetime import UTC
    >>> from hushlist.core.lists.yaml_documents import read_document
    >>> report = ProblemReport("policy.yaml")
    >>> node = read_document(b"{bedtime: {days: sun-thu, times: 21:00-06:30}, lunch: {times: 12:00}}", report)
    >>> sorted(read_schedules(node, UTC, report))
    ['bedtime', 'lunch']
    >>> print(*report.errors)
    policy.yaml:1: times: 12:00: expected a span such as 08:00-12:30 or 21:00-06:30, from 00:00 to 24:00
    """
    if not isinstance(node.value, dict):
        report.error(node.line, "schedules", f"expected a mapping of names to entries, not {node.kind}")
        return {}
    for name, value in node.value.items():
        if not _NAME.fullmatch(name):
            report.error(value.line, name, "a schedule's name needs a letter, and has no comma")
    drafts = {name: _read_entries(name, value, report) for name, value in node.value.items()}
    _leave_unknown_out(drafts, report)
    done: dict[str, tuple[RecurringSpans, ...]] = {}
    depths: dict[str, int] = {}
    for name in _in_order(drafts, report):
        excepts = [item for draft in drafts[name] for item in draft.excepts]
        depths[name] = 1 + max((depths[other] for _, other in excepts), default=0)
        if depths[name] == _DEEPEST + 1:
            line, other = max(excepts, key=lambda item: depths[item[1]])
            report.error(line, f"except: {other}", f"more than {_DEEPEST} schedules except one another in a row")
        done[name] = tuple(draft.entry_with(done) for draft in drafts[name])
    return {name: Schedule(name, zone, done[name]) for name in drafts}


def _schedules_schema() -> Schema:
    entry = schema_of_rows(_ENTRY_KEYS, name="entry", anyOf=[{"required": [key]} for key in _TIMES])
    says = "one or more entries, each with days, dates or times"
    return {
        "type": "object",
        "propertyNames": {"pattern": f"^{_LETTER_NAME}$"},
        "additionalProperties": {"description": says, **some_of(entry, minItems=1)},
    }


SCHEDULES = of_node(
    lambda node, reading: read_schedules(node, reading.zone, reading.report), _schedules_schema, _ENTRY_KEYS
)


@dataclass(frozen=True, slots=True)
class _Draft:
    """An entry, and the lines and names of schedules that it excepts."""

    entry: RecurringSpans
    excepts: tuple[tuple[int, str], ...] = ()

    def entry_with(self, done: Mapping[str, tuple[RecurringSpans, ...]]) -> RecurringSpans:
        entries = [entry for name in dict.fromkeys(name for _, name in self.excepts) for entry in done[name]]
        return replace(
            self.entry,
            except_days=tuple(entry for entry in entries if entry.is_whole_days),
            except_times=tuple(entry for entry in entries if not entry.is_whole_days),
        )


def _read_entries(name: str, node: YamlNode, report: ProblemReport) -> list[_Draft]:
    if node.value is None or not node.items:
        report.error(
            node.line, name, f"the schedule is empty: expected entries with {', '.join(names_of(_ENTRY_KEYS))}"
        )
        return []
    return [_read_entry(name, item, report) for item in node.items]


def _read_entry(name: str, node: YamlNode, report: ProblemReport) -> _Draft:
    MappingReader(node, names_of(_ENTRY_KEYS), report)
    if not isinstance(node.value, dict):
        return _Draft(RecurringSpans())
    values = node.value
    if values.keys().isdisjoint(_TIMES):
        report.error(node.line, name, "the entry says no time: expected days, dates or times")

    def read(key: str, parse: Callable[[str], _Read]) -> list[tuple[int, _Read]] | None:
        return list(_read_parts(key, values[key], parse, report)) if key in values else None

    days, dates, times = read("days", _weekdays), read("dates", _dates), read("times", _span)
    excepted = read("except", _exception) or []
    entry = RecurringSpans(
        EVERY_WEEKDAY if days is None else frozenset().union(*(some for _, some in days)),
        None if dates is None else RecurringDates.of(some for _, some in dates),
        WHOLE_DAY if times is None else tuple(span for _, span in times),
        RecurringDates.of(some for _, some in excepted if isinstance(some, tuple)),
    )
    return _Draft(entry, tuple((line, some) for line, some in excepted if isinstance(some, str)))


def _read_parts(
    key: str, node: YamlNode, parse: Callable[[str], _Read], report: ProblemReport
) -> Iterator[tuple[int, _Read]]:
    """The items of a list, or of text with commas, each with its line."""
    for item in node.items or [node]:
        if not isinstance(item.value, str) or not item.value.strip():
            kind = "an empty list" if item.value == [] else item.kind
            report.error(item.line, key, f"expected {_EXPECTED[key]}, not {kind}")
            continue
        for text in item.value.split(","):
            try:
                yield item.line, parse(text.strip())
            except ValueError as error:
                report.error(item.line, f"{key}: {text.strip()}", str(error))


def _weekdays(text: str) -> frozenset[int]:
    """
    >>> sorted(_weekdays("Fri-monday"))
    [0, 4, 5, 6]
    """
    days = [WEEKDAYS.get(name) for name in _DASH.split(text.casefold())]
    match days:
        case [int(day)]:
            return frozenset((day,))
        case [int(first), int(last)] if first == last:
            raise ValueError(
                "it ends on the day on which it begins: name the day once, or leave days out for every day"
            )
        case [int(first), int(last)]:
            return frozenset((first + more) % 7 for more in range((last - first) % 7 + 1))
    raise ValueError(f"expected {_EXPECTED['days']}")


def _dates(text: str) -> tuple[int, int]:
    """The first and the last day of a range."""
    matches = [_DAY.fullmatch(part.strip()) for part in text.split("..")]
    days: list[int] = []
    for match in matches:
        if match is None or len(matches) > 2:
            raise ValueError(f"expected {_EXPECTED['dates']}")
        try:
            days.append(date(*map(int, match.groups())).toordinal())
        except ValueError:
            raise ValueError(f"there is no day {match[0]}: {_EXPECTED['dates']} was expected") from None
    if days[-1] < days[0]:
        raise ValueError("it ends before it begins: expected the earlier date first")
    return days[0], days[-1]


def _span(text: str) -> tuple[int, int]:
    """Begin and end in minutes since the day's beginning.

    >>> _span("21:00-06:30"), _span("8:00 - 24:00")
    ((1260, 1830), (480, 1440))
    """
    match [parse_time(part) for part in _DASH.split(text)]:
        case [int(begin), int(end)] if begin == end:
            raise ValueError("it ends when it begins: expected two times; a whole day is 00:00-24:00")
        case [int(begin), int(end)] if begin < A_DAY:
            return begin, end + A_DAY * (end < begin)
    raise ValueError(f"expected {_EXPECTED['times']}")


def parse_time(text: str) -> int | None:
    """Minutes since the day's beginning, of a time up to 24:00; ``None`` if it is no such time.

    >>> parse_time("6:30"), parse_time("24:01")
    (390, None)
    """
    match = _TIME.fullmatch(text)
    if match is None or int(match[2]) > 59:
        return None
    minutes = int(match[1]) * 60 + int(match[2])
    return minutes if minutes <= A_DAY else None


def _exception(text: str) -> str | tuple[int, int]:
    """A name, or the first and the last day of a range."""
    if _NAME.fullmatch(text):
        return text
    try:
        return _dates(text)
    except ValueError as error:
        raise ValueError(str(error).replace(_EXPECTED["dates"], _EXPECTED["except"])) from None


def _leave_unknown_out(drafts: dict[str, list[_Draft]], report: ProblemReport) -> None:
    """Report the names that no schedule has, and remove them from the exceptions."""
    for entries in drafts.values():
        for place, draft in enumerate(entries):
            for line, name in draft.excepts:
                if name not in drafts:
                    why = f"there is no such schedule (known: {', '.join(drafts)}; or dates such as 2026-12-24)"
                    report.error(line, f"except: {name}", why)
            entries[place] = _Draft(draft.entry, tuple(item for item in draft.excepts if item[1] in drafts))


def _in_order(drafts: dict[str, list[_Draft]], report: ProblemReport) -> tuple[str, ...]:
    """The names, each after those that its schedule excepts; exceptions that form a circle are removed."""
    from graphlib import CycleError, TopologicalSorter

    while True:
        graph = {
            name: list(dict.fromkeys(other for draft in entries for _, other in draft.excepts))
            for name, entries in drafts.items()
        }
        try:
            return tuple(TopologicalSorter(graph).static_order())
        except CycleError as error:
            circle: list[str] = error.args[1][:0:-1]
        # Starting at the schedule that is first in the file.
        start = min(range(len(circle)), key=lambda place: list(drafts).index(circle[place]))
        circle = circle[start:] + circle[:start]
        following = circle[1:] + circle[:1]
        lines = [line for draft in drafts[circle[0]] for line, name in draft.excepts if name == following[0]]
        way = " -> ".join((*circle, circle[0]))
        report.error(lines[0], f"except: {following[0]}", f"the schedules except one another in a circle: {way}")
        for name in circle:
            drafts[name] = [_Draft(draft.entry) for draft in drafts[name]]
