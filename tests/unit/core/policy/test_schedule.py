"""Schedules: how they are read, when they are on, and when that changes; and what a policy does by them."""

from __future__ import annotations

import sys
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_documents import read_document
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.match.rule import Action
from hushlist.core.policy.key_types import Reading
from hushlist.core.policy.recurrence import A_DAY, EVERY_WEEKDAY, WHOLE_DAY, RecurringDates, RecurringSpans, Schedule
from hushlist.core.policy.schedule import read_schedules
from hushlist.core.policy.scheduled_action import (
    DEFAULT_ACTIONS,
    ScheduledAction,
    read_categories,
    read_scheduled_action,
)
from hushlist.core.policy.times import read_timezone, rules_of_zone
from unit.rows import each_row

BERLIN = ZoneInfo("Europe/Berlin")
MINUTE, TICK = timedelta(minutes=1), timedelta.resolution

DAYS = "days such as mon-fri or Saturday (one of mon, tue, wed, thu, fri, sat, sun, or a whole name)"
DATES = "a date such as 2026-12-24, or a range such as 2026-12-21..2027-01-06"
TIMES = "a span such as 08:00-12:30 or 21:00-06:30, from 00:00 to 24:00"
KEYS = "days, dates, times, except"
HINT = "known: a; or dates such as 2026-12-24"

POLICY = """
lessons:
  - {days: mon-fri, times: [08:00-12:00, 13:00-15:30]}
  - {dates: 2026-12-24, times: 09:00-11:00}
bedtime:
  - {days: sun-thu, times: 21:00-06:30}
  - {days: [fri, sat], times: 23:00-07:00, except: holidays}
holidays:
  - dates: [2026-12-21..2027-01-06, 2027-03-29]
school-time:
  - {days: mon-fri, times: 08:00-16:00, except: [holidays, lunch, 2026-11-23]}
lunch: {times: 12:00-12:45}
weekend:
  - days: Friday-MON
    except: holidays
"""


def node_of(text: str) -> YamlNode:
    report = ProblemReport("p")
    node = read_document(text.encode(), report)
    assert node is not None, report.errors
    return node


def read(text: str, zone: tzinfo = BERLIN) -> dict[str, Schedule]:
    report = ProblemReport("p")
    schedules = read_schedules(node_of(text), zone, report)
    assert (report.errors, report.warnings) == ([], [])
    return schedules


def schedule_of(entry: str, zone: tzinfo = BERLIN) -> Schedule:
    return read(f"a: [{entry}]", zone)["a"]


def errors_of(text: str) -> list[str]:
    report = ProblemReport("p")
    read_schedules(node_of(text), UTC, report)
    return list(map(str, report.errors))


def at(text: str, zone: tzinfo = BERLIN) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone)


def changes(schedule: Schedule, since: str, number: int) -> list[str]:
    """The next changes, in UTC."""
    moments = [datetime.fromisoformat(since).replace(tzinfo=UTC)]
    for _ in range(number):
        moment = schedule.next_change(moments[-1])
        assert moment is not None
        assert moment.tzinfo is UTC
        moments.append(moment)
    return [f"{moment:%Y-%m-%dT%H:%M}" for moment in moments[1:]]


# 2026-11-23 is a Monday.
@each_row(
    ("name", "moment", "is_on"),
    [
        ("lessons", "2026-11-23T07:59:59", False),
        ("lessons", "2026-11-23T08:00", True),
        ("lessons", "2026-11-23T11:59:59.999999", True),
        ("lessons", "2026-11-23T12:00", False),
        ("lessons", "2026-11-23T13:00", True),
        ("lessons", "2026-11-28T09:00", False),  # a Saturday
        ("lessons", "2026-12-24T08:30", True),  # a Thursday: the entries are a union
        ("bedtime", "2026-11-22T20:59", False),  # Sunday
        ("bedtime", "2026-11-22T21:00", True),
        ("bedtime", "2026-11-23T06:29", True),  # over a week's end
        ("bedtime", "2026-11-23T06:30", False),
        ("bedtime", "2026-11-27T06:29", True),  # Friday morning belongs to Thursday
        ("bedtime", "2026-11-27T22:30", False),
        ("bedtime", "2026-11-28T06:59", True),
        ("bedtime", "2026-11-29T06:59", True),  # Sunday morning belongs to Saturday
        ("bedtime", "2026-11-30T06:59", False),
        ("bedtime", "2026-12-26T02:00", False),  # Friday night in the holidays
        ("bedtime", "2027-01-01T03:00", True),  # over a year's end
        ("holidays", "2026-12-20T23:59:59", False),
        ("holidays", "2026-12-21T00:00", True),
        ("holidays", "2027-01-06T23:59:59", True),
        ("holidays", "2027-01-07T00:00", False),
        ("holidays", "2027-03-29T12:00", True),
        ("holidays", "2027-03-30T00:00", False),
        ("school-time", "2026-11-24T09:00", True),
        ("school-time", "2026-11-24T12:30", False),  # an exception for some time
        ("school-time", "2026-11-24T12:45", True),
        ("school-time", "2026-11-23T09:00", False),  # a date
        ("school-time", "2026-12-21T09:00", False),  # an exception for whole days
        ("school-time", "2027-01-07T09:00", True),
        ("weekend", "2026-11-26T23:59", False),  # Thursday
        ("weekend", "2026-11-27T00:00", True),
        ("weekend", "2026-11-29T12:00", True),
        ("weekend", "2026-11-30T23:59", True),
        ("weekend", "2026-12-01T00:00", False),
        ("weekend", "2026-12-25T12:00", False),
    ],
)
def test_a_schedule_is_on_when_its_entries_say(name: str, moment: str, is_on: bool) -> None:
    assert read(POLICY)[name].is_on(at(moment)) is is_on


@each_row(
    ("moment", "is_on"),
    [
        ("2026-12-24T02:00", True),  # began on the day before the exception
        ("2026-12-24T23:00", False),
        ("2026-12-25T02:00", False),  # would have begun on the excepted day
        ("2026-12-25T22:00", True),
    ],
)
def test_an_exception_takes_away_what_begins_on_its_days(moment: str, is_on: bool) -> None:
    assert schedule_of("{times: 21:00-06:00, except: 2026-12-24}").is_on(at(moment)) is is_on


@pytest.mark.parametrize("times", ["", ", times: 00:00-24:00"])
def test_an_exception_for_times_takes_them_away_also_on_the_next_morning(times: str) -> None:
    schedules = read(f"a: [{{days: sat-sun{times}, except: night}}]\nnight: [{{days: fri, times: 22:00-06:00}}]")
    assert changes(schedules["a"], "2026-11-27T12:00", 2) == ["2026-11-28T05:00", "2026-11-29T23:00"]


@each_row(
    ("written", "meant"),
    [
        ("{days: 'mon, Tuesday ,WED'}", "{days: [mon, tue, wed]}"),
        ("{days: mon - wed}", "{days: mon-wed}"),
        ("{days: mon–wed}", "{days: mon-wed}"),
        ("{days: fri-mon}", "{days: [fri, sat, sun, mon]}"),
        ("{days: [sat-sun, sunday]}", "{days: sat-sun}"),
        ("{days: tue-mon}", "{days: mon-sun}"),
        ("{times: 8:00 - 9:00}", "{times: 08:00-09:00}"),
        ("{times: 08:00–09:00}", "{times: [08:00-09:00]}"),
        ("{times: '08:00-09:00, 10:00-11:00'}", "{times: [08:00-09:00, 10:00-11:00]}"),
        ("{times: 22:00-00:00}", "{times: 22:00-24:00}"),
        ("{times: 00:00-24:00}", "{days: mon-sun}"),
        ("{dates: 2026-12-24 .. 2026-12-25}", "{dates: [2026-12-24, 2026-12-25]}"),
        ("{dates: '2026-12-25, 2026-12-24'}", "{dates: 2026-12-24..2026-12-25}"),
        ("{dates: '2026-12-24'}", "{dates: [2026-12-24, 2026-12-24..2026-12-24]}"),
        ("{days: mon, except: 2026-12-24..2026-12-25}", "{days: [mon], except: [2026-12-24, 2026-12-25]}"),
    ],
)
def test_harmless_variety_means_the_same(written: str, meant: str) -> None:
    said, sought = schedule_of(written).entries[0], schedule_of(meant).entries[0]
    if said.spans != sought.spans:  # the same moments, as other minutes
        assert {end % A_DAY for _, end in said.spans} == {end % A_DAY for _, end in sought.spans}
    assert (said.weekdays, said.dates, said.except_dates) == (sought.weekdays, sought.dates, sought.except_dates)


def span_error(text: str) -> str:
    return f"p:1: times: {text}: expected {TIMES}"


@each_row(
    ("text", "errors"),
    [
        ("[]", ["p:1: schedules: expected a mapping of names to entries, not a list"]),
        ("a: []", [f"p:1: a: the schedule is empty: expected entries with {KEYS}"]),
        ("a:", [f"p:1: a: the schedule is empty: expected entries with {KEYS}"]),
        ("b: {days: mon}\na: {}", ["p:2: a: the entry says no time: expected days, dates or times"]),
        ("a: {except: 2026-12-24}", ["p:1: a: the entry says no time: expected days, dates or times"]),
        ("a: mon-fri", [f"p:1: 'mon-fri': expected a mapping with {KEYS}"]),
        ("a:\n- {days: mon}\n- [x]", [f"p:3: a list: expected a mapping with {KEYS}"]),
        ("a:\n- days: mon\n  time: 08:00-09:00", [f"p:3: time: unknown key; did you mean 'times'? (known: {KEYS})"]),
        ("2026: {days: mon}", ["p:1: 2026: a schedule's name needs a letter, and has no comma"]),
        ("'a,b': {days: mon}", ["p:1: a,b: a schedule's name needs a letter, and has no comma"]),
        # days
        ("a: {days: mon-fry}", [f"p:1: days: mon-fry: expected {DAYS}"]),
        ("a: {days: tues}", [f"p:1: days: tues: expected {DAYS}"]),
        ("a: {days: mon-wed-fri}", [f"p:1: days: mon-wed-fri: expected {DAYS}"]),
        ("a:\n- days:\n  - mon\n  - dimanche", [f"p:4: days: dimanche: expected {DAYS}"]),
        ("a: {days: 'mon,'}", [f"p:1: days: : expected {DAYS}"]),
        ("a: {days: }", [f"p:1: days: expected {DAYS}, not nothing"]),
        ("a: {days: []}", [f"p:1: days: expected {DAYS}, not an empty list"]),
        ("a: {days: [[mon]]}", [f"p:1: days: expected {DAYS}, not a list"]),
        ("a: {days: {mon: tue}}", [f"p:1: days: expected {DAYS}, not a mapping"]),
        (
            "a: {days: mon-monday}",
            [
                "p:1: days: mon-monday: it ends on the day on which it begins: "
                "name the day once, or leave days out for every day"
            ],
        ),
        # dates
        ("a: {dates: 24.12.2026}", [f"p:1: dates: 24.12.2026: expected {DATES}"]),
        ("a: {dates: 2026-1-5}", [f"p:1: dates: 2026-1-5: expected {DATES}"]),
        ("a: {dates: 12-24}", [f"p:1: dates: 12-24: expected {DATES}"]),
        ("a: {dates: 20261224}", [f"p:1: dates: 20261224: expected {DATES}"]),
        ("a: {dates: 2026-12-24..}", [f"p:1: dates: 2026-12-24..: expected {DATES}"]),
        (
            "a: {dates: 2026-12-24..2026-12-25..2026-12-26}",
            [f"p:1: dates: 2026-12-24..2026-12-25..2026-12-26: expected {DATES}"],
        ),
        ("a: {dates: 2026-02-29}", [f"p:1: dates: 2026-02-29: there is no day 2026-02-29: {DATES} was expected"]),
        ("a: {dates: 0000-01-01}", [f"p:1: dates: 0000-01-01: there is no day 0000-01-01: {DATES} was expected"]),
        (
            "a: {dates: 2027-01-06..2026-12-21}",
            ["p:1: dates: 2027-01-06..2026-12-21: it ends before it begins: expected the earlier date first"],
        ),
        # times
        ("a: {times: 25:00-26:00}", [span_error("25:00-26:00")]),
        ("a: {times: 08:00-24:01}", [span_error("08:00-24:01")]),
        ("a: {times: 24:00-06:00}", [span_error("24:00-06:00")]),
        ("a: {times: 8:5-9:00}", [span_error("8:5-9:00")]),
        ("a: {times: 08:60-09:00}", [span_error("08:60-09:00")]),
        ("a: {times: 8-12}", [span_error("8-12")]),
        ("a: {times: 12:30}", [span_error("12:30")]),
        ("a: {times: 8am-9am}", [span_error("8am-9am")]),
        ("a: {times: 08:00-09:00-10:00}", [span_error("08:00-09:00-10:00")]),
        ("a: {times: ٠٨:٠٠-٠٩:٠٠}", [span_error("٠٨:٠٠-٠٩:٠٠")]),
        (
            "a: {times: 08:00-08:00}",
            ["p:1: times: 08:00-08:00: it ends when it begins: expected two times; a whole day is 00:00-24:00"],
        ),
        # exceptions
        ("a: {days: mon, except: holidays}", [f"p:1: except: holidays: there is no such schedule ({HINT})"]),
        ("a:\n- days: mon\n  except: [2026-12-24, A]", [f"p:3: except: A: there is no such schedule ({HINT})"]),
        (
            "a: {days: mon, except: 12:00-13:00}",
            [f"p:1: except: 12:00-13:00: expected the name of a schedule, {DATES}"],
        ),
        ("a: {days: mon, except: }", [f"p:1: except: expected the name of a schedule, {DATES}, not nothing"]),
        (
            "a: {days: mon, except: a}",
            ["p:1: except: a: the schedules except one another in a circle: a -> a"],
        ),
        (
            "a: {days: mon}\nb: {days: mon, except: c}\nc: {days: mon, except: [a, d]}\nd: {days: mon, except: b}",
            ["p:2: except: c: the schedules except one another in a circle: b -> c -> d -> b"],
        ),
        (
            "a: {days: mon, except: b}\nb: {days: tue, except: a}\n"
            "c: {days: mon, except: d}\nd: {days: mon, except: c}",
            [
                "p:1: except: b: the schedules except one another in a circle: a -> b -> a",
                "p:3: except: d: the schedules except one another in a circle: c -> d -> c",
            ],
        ),
        (
            "a: {days: mon, except: b}\nb: {days: mon, except: c}\nc: {days: mon, except: d}\n"
            "d: {days: mon, except: e}\ne: {days: mon}",
            ["p:1: except: b: more than 4 schedules except one another in a row"],
        ),
    ],
)
def test_every_error_names_line_what_and_what_is_allowed(text: str, errors: list[str]) -> None:
    assert errors_of(text) == errors


def test_a_long_row_of_exceptions_is_an_error_and_no_deep_recursion() -> None:
    rows = "".join(f"a{number}: {{days: mon, except: a{number + 1}}}\n" for number in range(3000))
    assert len(errors_of(f"{rows}a3000: {{days: mon}}")) == 1


def test_a_schedule_with_errors_is_still_known_by_its_name() -> None:
    report = ProblemReport("p")
    assert list(read_schedules(node_of("a: {times: 1}\nb: {days: mon, except: a}"), UTC, report)) == ["a", "b"]
    assert list(map(str, report.errors)) == [span_error("1")]


def timezone_of(text: str) -> tuple[str, list[str]]:
    report = ProblemReport("p")
    zone = read_timezone(MappingReader(node_of(text), ("timezone",), report))
    return str(zone), list(map(str, report.errors))


@each_row(
    ("text", "name"),
    [
        ("{}", "UTC"),
        ("timezone: utc", "UTC"),
        ("timezone: Europe/Berlin", "Europe/Berlin"),
        ("timezone: europe/berlin", "Europe/Berlin"),
        ("timezone: America/New York", "America/New_York"),
    ],
)
def test_a_time_zone_is_read(text: str, name: str) -> None:
    assert timezone_of(text) == (name, [])


@each_row(
    ("text", "error"),
    [
        ("Europe/Berln", "unknown time zone (expected a name such as Europe/Berlin"),
        ("Europe", "unknown time zone (expected a name such as "),
        ("../../etc/passwd", "unknown time zone (expected a name such as UTC, Europe/Berlin)"),
        ("/etc/localtime", "unknown time zone (expected a name such as "),
        ("'+02:00'", "unknown time zone (expected a name such as UTC, Europe/Berlin)"),
        ("ü/\\ud83d", "unknown time zone (expected a name such as UTC, Europe/Berlin)"),
    ],
)
def test_an_unknown_time_zone_is_an_error_with_names_that_are_near(text: str, error: str) -> None:
    name, (found,) = timezone_of(f"\ntimezone: {text}")
    assert found.startswith(f"p:2: timezone: {text.strip(chr(39))}: {error}")
    assert name == "UTC"


@pytest.fixture
def no_database(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without a time zone database, and Python without the package tzdata."""
    path = zoneinfo.TZPATH
    for name in {"tzdata", *(name for name in sys.modules if name.startswith("tzdata."))}:
        monkeypatch.setitem(sys.modules, name, None)
    zoneinfo.reset_tzpath(())
    ZoneInfo.clear_cache(only_keys=["Europe/Ljubljana"])
    yield
    zoneinfo.reset_tzpath(path)


@pytest.mark.usefixtures("no_database")
def test_a_machine_without_a_database_is_told_what_to_install() -> None:
    why = "this machine has no time zone database: install the package tzdata, or use UTC"
    assert timezone_of("timezone: Europe/Ljubljana") == ("UTC", [f"p:1: timezone: Europe/Ljubljana: {why}"])
    assert timezone_of("timezone: UTC") == ("UTC", [])


# Berlin's clock goes from 02:00 to 03:00 on 2026-03-29 and from 03:00 to 02:00 on 2026-10-25, both at 01:00 UTC;
# Lord Howe's from 02:00 to 02:30 on 2026-10-04 (15:30 UTC) and from 02:00 to 01:30 on 2026-04-05 (15:00 UTC).
@each_row(
    ("zone", "times", "since", "expected"),
    [
        ("Europe/Berlin", "01:30-03:30", "2026-03-28T12:00", ["2026-03-29T00:30", "2026-03-29T01:30"]),
        ("Europe/Berlin", "02:30-05:00", "2026-03-28T12:00", ["2026-03-29T01:00", "2026-03-29T03:00"]),
        ("Europe/Berlin", "01:00-02:30", "2026-03-28T12:00", ["2026-03-29T00:00", "2026-03-29T01:00"]),
        ("Europe/Berlin", "02:10-02:50", "2026-03-28T12:00", ["2026-03-30T00:10", "2026-03-30T00:50"]),
        ("Europe/Berlin", "01:30-03:30", "2026-10-24T12:00", ["2026-10-24T23:30", "2026-10-25T02:30"]),
        ("Europe/Berlin", "01:00-02:30", "2026-10-24T12:00", ["2026-10-24T23:00", "2026-10-25T01:30"]),
        ("Europe/Berlin", "02:30-04:00", "2026-10-24T12:00", ["2026-10-25T00:30", "2026-10-25T03:00"]),
        ("Europe/Berlin", "01:00-02:00", "2026-10-24T12:00", ["2026-10-24T23:00", "2026-10-25T00:00"]),
        ("Europe/Berlin", "03:00-04:00", "2026-10-24T12:00", ["2026-10-25T02:00", "2026-10-25T03:00"]),
        ("Europe/Berlin", "02:10-02:50", "2026-10-24T12:00", ["2026-10-25T00:10", "2026-10-25T01:50"]),
        ("Australia/Lord_Howe", "01:00-01:45", "2026-04-04T12:00", ["2026-04-04T14:00", "2026-04-04T15:15"]),
        ("Australia/Lord_Howe", "02:15-03:00", "2026-10-03T12:00", ["2026-10-03T15:30", "2026-10-03T16:00"]),
        ("Asia/Kolkata", "00:00-00:01", "2026-10-03T12:00", ["2026-10-03T18:30", "2026-10-03T18:31"]),
    ],
)
def test_a_span_keeps_to_the_clock_on_the_wall(zone: str, times: str, since: str, expected: list[str]) -> None:
    assert changes(schedule_of(f"{{times: {times}}}", ZoneInfo(zone)), since, 2) == expected


def test_a_day_is_from_midnight_to_midnight_also_where_it_has_23_or_25_hours() -> None:
    sundays = schedule_of("{days: sun}")
    assert changes(sundays, "2026-03-28T12:00", 2) == ["2026-03-28T23:00", "2026-03-29T22:00"]
    assert changes(sundays, "2026-10-24T12:00", 2) == ["2026-10-24T22:00", "2026-10-25T23:00"]


def test_a_moment_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        schedule_of("{days: mon}").is_on(datetime(2026, 1, 1))
    with pytest.raises(ValueError, match="no time zone"):
        schedule_of("{days: mon}").next_change(datetime(2026, 1, 1))


@each_row(
    "entries",
    [
        "{days: mon-sun}",
        "{times: [00:00-12:00, 12:00-24:00]}",
        "{days: mon-fri}, {days: sat-sun}",
        "{dates: 2001-01-01..2001-12-31}",
        "{dates: 2001-01-01..9999-12-31}",
        "{days: mon, dates: 2026-12-24}",  # a Thursday
        "{days: mon, except: 0001-01-01..9999-12-31}",
    ],
)
def test_what_never_changes_has_no_next_change(entries: str) -> None:
    assert schedule_of(entries).next_change(at("2026-11-23T09:00")) is None


def test_the_rules_of_a_time_zone_are_read_again_when_they_have_changed(tmp_path: Path) -> None:
    """States change them each year, and a proxy may run for longer."""
    system, rules = next(folder for folder in map(Path, zoneinfo.TZPATH) if folder.is_dir()), tmp_path / "Europe/Rome"
    rules.parent.mkdir()
    fields = MappingReader(node_of("timezone: Europe/Rome"), ("timezone",), ProblemReport("p"))
    zones = []
    zoneinfo.reset_tzpath([str(tmp_path)])
    try:
        for name in ("Europe/Rome", None, "Asia/Tokyo"):
            if name is not None:
                (tmp_path / "new").write_bytes((system / name).read_bytes())
                (tmp_path / "new").replace(rules)
            zones.append(read_timezone(fields))
            assert rules_of_zone(zones[-1]) == rules
    finally:
        zoneinfo.reset_tzpath()
        ZoneInfo.clear_cache(only_keys=["Europe/Rome"])
    hours = [datetime(2026, 6, 1, tzinfo=zone).utcoffset() for zone in zones]
    assert hours == [timedelta(hours=2), timedelta(hours=2), timedelta(hours=9)]
    assert zones[0] is zones[1]


# Against what is slow and obvious: a clock that is looked at every minute.

#: days on which clocks are put, or not; some at midnight, one across it, and one that leaves a whole day out
PLACES = [
    ("Europe/Berlin", date(2026, 3, 29)),
    ("Europe/Berlin", date(2026, 10, 25)),
    ("America/New_York", date(2026, 3, 8)),
    ("America/New_York", date(2026, 11, 1)),
    ("Australia/Lord_Howe", date(2026, 4, 5)),
    ("Australia/Lord_Howe", date(2026, 10, 4)),
    ("Asia/Kolkata", date(2026, 6, 1)),
    ("UTC", date(2026, 12, 31)),
    ("Africa/Cairo", date(2024, 4, 26)),
    ("America/Havana", date(2024, 11, 3)),
    ("America/St_Johns", date(2010, 11, 7)),
    ("Pacific/Apia", date(2011, 12, 30)),
]
AROUND = 9  # days


@dataclass(frozen=True)
class Watch:
    """What a clock shows, as minutes of ``date.toordinal``, at every minute from a moment on."""

    zone: ZoneInfo
    day: int
    begin: datetime
    walls: list[int]

    def moment(self, place: int) -> datetime:
        return self.begin + place * MINUTE

    def marks(self, entry: RecurringSpans) -> bytearray:
        """For every minute whether an entry is on: between the first and the last at which the clock shows a span."""
        marks = bytearray(len(self.walls))
        for day in range(self.day - AROUND, self.day + AROUND + 1):
            if slowly_begins_on(entry, day):
                for begin, end in entry.spans:
                    near = (day - self.day + AROUND) * A_DAY
                    places = [
                        place
                        for place in range(max(0, near - 2 * A_DAY), min(len(marks), near + 4 * A_DAY))
                        if day * A_DAY + begin <= self.walls[place] < day * A_DAY + end
                    ]
                    if places:
                        marks[places[0] : places[-1] + 1] = b"\1" * (places[-1] + 1 - places[0])
        for other in entry.except_times:
            for place, mark in enumerate(self.marks(other)):
                if mark:
                    marks[place] = 0
        return marks


def slowly_begins_on(entry: RecurringSpans, day: int) -> bool:
    def among(dates: RecurringDates) -> bool:
        return any(first <= day <= last for first, last in zip(dates.firsts, dates.lasts, strict=True))

    return (
        date.fromordinal(day).weekday() in entry.weekdays
        and (entry.dates is None or among(entry.dates))
        and not among(entry.except_dates)
        and not any(slowly_begins_on(other, day) for other in entry.except_days)
    )


@cache
def watch(name: str, day: date) -> Watch:
    zone = ZoneInfo(name)
    begin = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(days=AROUND)
    locals_ = [(begin + place * MINUTE).astimezone(zone) for place in range(2 * AROUND * A_DAY)]
    walls = [local.toordinal() * A_DAY + local.hour * 60 + local.minute for local in locals_]
    return Watch(zone, day.toordinal(), begin, walls)


@st.composite
def spans(draw: st.DrawFn) -> tuple[int, int]:
    """Most with ends near the hours at which clocks are put."""
    minutes = st.sampled_from([0, 1, 30, 60, 90, 105, 119, 120, 121, 135, 150, 165, 180, 181, 210, 1380, 1410, 1439])
    begin = draw(minutes | st.integers(0, A_DAY - 1))
    end = draw(minutes | st.integers(0, A_DAY) | st.just(A_DAY))
    assume(end != begin)
    return begin, end + A_DAY * (end < begin)


def dates_near(day: int) -> st.SearchStrategy[RecurringDates]:
    ranges = st.tuples(st.integers(-6, 6), st.integers(0, 4)).map(lambda pair: (day + pair[0], day + sum(pair)))
    return st.lists(ranges, max_size=3).map(RecurringDates.of)


def entries_near(day: int, deep: int = 1) -> st.SearchStrategy[RecurringSpans]:
    others: st.SearchStrategy[tuple[RecurringSpans, ...]] = st.just(())
    if deep:
        others = st.just(()) | st.lists(entries_near(day, deep - 1), max_size=2).map(tuple)
    return st.builds(
        lambda weekdays, dates, times, except_dates, excepted: RecurringSpans(
            weekdays,
            dates,
            times,
            except_dates,
            tuple(entry for entry in excepted if entry.is_whole_days),
            tuple(entry for entry in excepted if not entry.is_whole_days),
        ),
        st.just(EVERY_WEEKDAY) | st.frozensets(st.integers(0, 6), min_size=1),
        st.none() | dates_near(day),
        st.just(WHOLE_DAY) | st.lists(spans(), min_size=1, max_size=3).map(tuple),
        st.just(RecurringDates()) | dates_near(day),
        others,
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[Watch, Schedule]:
    clock = watch(*draw(st.sampled_from(PLACES)))
    entries = draw(st.lists(entries_near(clock.day), min_size=1, max_size=3))
    return clock, Schedule("s", clock.zone, tuple(entries))


def inner_places(clock: Watch) -> range:
    """Where every span that may be on has been marked."""
    return range(3 * A_DAY, len(clock.walls) - 3 * A_DAY)


def slowly(clock: Watch, schedule: Schedule) -> bytearray:
    each = [clock.marks(entry) for entry in schedule.entries]
    return bytearray(any(marks) for marks in zip(*each, strict=True))


def edges(marks: bytearray, places: range) -> Iterator[int]:
    return (place for place in places if marks[place] != marks[place - 1])


@pytest.mark.slow
@settings(max_examples=settings.default.max_examples // 2, deadline=None)
@given(cases(), st.integers(0, 500))
@example((watch("Europe/Berlin", date(2026, 10, 25)), Schedule("s", BERLIN, (RecurringSpans(spans=((60, 150),)),))), 0)
def test_it_is_on_and_changes_as_a_clock_shows_that_is_looked_at_every_minute(
    case: tuple[Watch, Schedule], offset: int
) -> None:
    clock, schedule = case
    marks, places = slowly(clock, schedule), inner_places(clock)
    turns = list(edges(marks, places))
    looked_at = {*places[offset::97], *range(AROUND * A_DAY - A_DAY, AROUND * A_DAY + A_DAY, 7)}
    looked_at |= {place + step for place in turns for step in (-1, 0, 1)}
    assert all(schedule.is_on(clock.moment(place)) is bool(marks[place]) for place in looked_at)

    # From one change to the next, every one of them is found, and none besides.
    now = clock.moment(places[0])
    for place in turns[1:] if turns and turns[0] == places[0] else turns:
        found = schedule.next_change(now + offset % 2 * TICK)
        assert found == clock.moment(place)
        assert schedule.is_on(found) is not schedule.is_on(found - TICK)
        now = found
    found = schedule.next_change(now)
    assert found is None or found >= clock.moment(places[-1])


# -- actions -----------------------------------------------------------------------------------------------------------

NIGHT = Schedule("night", UTC, (RecurringSpans(spans=((21 * 60, 30 * 60),)),))
SCHEDULES = {"night": NIGHT}
AT_NIGHT, BY_DAY = datetime(2026, 12, 24, 22, tzinfo=UTC), datetime(2026, 12, 24, 12, tzinfo=UTC)
BLOCK = ScheduledAction(Action.BLOCK, "p", 1)


@pytest.mark.parametrize(
    ("timed", "at_night", "by_day"),
    [
        (BLOCK, Action.BLOCK, Action.BLOCK),
        (ScheduledAction(Action.BLOCK, "p", 1, NIGHT), Action.BLOCK, None),
        (ScheduledAction(Action.BLOCK, "p", 1, NIGHT, Action.WARN), Action.BLOCK, Action.WARN),
    ],
)
def test_an_action_holds_while_its_schedule_is_on(
    timed: ScheduledAction, at_night: Action, by_day: Action | None
) -> None:
    assert (timed.at(AT_NIGHT), timed.at(BY_DAY)) == (at_night, by_day)


def timed_of(text: str) -> tuple[ScheduledAction | None, list[str]]:
    report = ProblemReport("p")
    node = read_document(text.encode(), report)
    assert node is not None
    return read_scheduled_action(node, "default", DEFAULT_ACTIONS, SCHEDULES, report), list(map(str, report.errors))


@each_row(
    ("text", "expected"),
    [
        ("block", BLOCK),
        ("{action: block}", BLOCK),
        ("{during: night,\n action: block}", ScheduledAction(Action.BLOCK, "p", 2, NIGHT)),
        ("{action: block, during: night, otherwise: warn}", ScheduledAction(Action.BLOCK, "p", 1, NIGHT, Action.WARN)),
    ],
)
def test_an_action_is_a_word_or_has_a_schedule(text: str, expected: ScheduledAction) -> None:
    assert timed_of(text) == (expected, [])


EXPECTED = "expected one of pass, block, warn, or a mapping with action, during, otherwise"


@each_row(
    ("text", "errors"),
    [
        ("allow", [f"p:1: default: 'allow': {EXPECTED}"]),
        ("", [f"p:1: default: nothing: {EXPECTED}"]),
        ("[block]", [f"p:1: default: a list: {EXPECTED}"]),
        ("{}", ["p:1: default: it has no action"]),
        ("{during: night}", ["p:1: default: it has no action"]),
        ("{action: block, when: night}", ["p:1: when: unknown key (known: action, during, otherwise)"]),
        ("{action: block,\n during: day}", ["p:2: day: there is no such schedule (known: night)"]),
        ("{action: block,\n otherwise: pass}", ["p:2: otherwise: it needs a schedule in 'during'"]),
        (
            "{action: block, during: night,\n otherwise: tag}",
            ["p:2: otherwise: tag: expected one of pass, block, warn"],
        ),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(text: str, errors: list[str]) -> None:
    assert timed_of(text)[1] == errors


def categories_of(text: str) -> tuple[dict[str, ScheduledAction], list[str]]:
    report = ProblemReport("p")
    node = read_document(f"categories:\n{text}".encode(), report)
    assert node is not None
    reading = Reading(Path("policy.yaml"), report)
    reading.schedules = SCHEDULES
    found = read_categories(MappingReader(node, ("categories",), report), reading)
    return found, list(map(str, report.errors))


def test_categories_go_by_their_names_in_normal_form() -> None:
    found, errors = categories_of(" hrn://C.Example/%67ames: warn\n hrn://c.example: {action: allow, during: night}")
    assert errors == []
    assert found == {
        "hrn://c.example/games": ScheduledAction(Action.WARN, "p", 2),
        "hrn://c.example": ScheduledAction(Action.ALLOW, "p", 3, NIGHT),
    }


@each_row(
    ("text", "error"),
    [
        (
            " homework: block",
            "p:2: homework: it is no hrn: name, and no category has this short name; for example 'hrn://p.example/homework'",
        ),
        (
            " hrn://c.example: stop",
            "p:2: hrn://c.example: 'stop': expected one of allow, block, warn, tag, pass, "
            "or a mapping with action, during, otherwise",
        ),
        (
            " hrn://c.example/a: block\n hrn://C.example/%61: warn",
            "p:3: hrn://C.example/%61: the category is given twice (first in line 2)",
        ),
        (" [a]", "p:2: categories: expected a mapping, not a list"),
    ],
)
def test_a_category_that_cannot_be_is_named(text: str, error: str) -> None:
    assert categories_of(text)[1] == [error]
