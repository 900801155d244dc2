"""Quotas of a policy: how they are read, and when their periods begin and end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_documents import read_document
from hushlist.core.lists.yaml_nodes import MappingReader
from hushlist.core.policy.key_types import Reading
from hushlist.extensions.quotas.quotas import Quota, read_quotas
from unit.rows import each_row

BERLIN = ZoneInfo("Europe/Berlin")


def read(value: str) -> tuple[tuple[Quota, ...], list[str]]:
    report = ProblemReport("p")
    document = read_document(f"quotas: {value}\n".encode(), report)
    assert document is not None
    reading = Reading(Path("policy.yaml"), report)
    reading.zone = BERLIN
    found = read_quotas(MappingReader(document, ("quotas",), report), reading)
    return found, list(map(str, report.errors))


@each_row(
    ("value", "quotas"),
    [
        ("{}", ()),
        ("{hrn://a.example/b: 60}", (Quota("hrn://a.example/b", 60, "p", 1, zone=BERLIN),)),
        (
            "{HRN://A.example/b: [5, {minutes: 420, per: week, reset: Sunday 04:30, for: group}]}",
            (
                Quota("hrn://a.example/b", 5, "p", 1, zone=BERLIN),
                Quota("hrn://a.example/b", 420, "p", 1, "week", 270, 6, BERLIN, is_shared=True),
            ),
        ),
        ("{hrn://a.example: {minutes: 1, per: week}}", (Quota("hrn://a.example", 1, "p", 1, "week", zone=BERLIN),)),
    ],
)
def test_quotas_are_read(value: str, quotas: tuple[Quota, ...]) -> None:
    assert read(value) == (quotas, [])


@each_row(
    ("value", "error"),
    [
        ("60", "p:1: quotas: expected a mapping, not text"),
        ("{gamez: 60}", "p:1: gamez: "),
        ("{hrn://a.example: {}}", "p:1: hrn://a.example: it has no minutes"),
        ("{hrn://a.example: []}", "p:1: hrn://a.example: expected minutes, or mappings with minutes, per, reset, for"),
        ("{hrn://a.example: 0}", "p:1: minutes: 0: expected a number from 1 to 1440"),
        ("{hrn://a.example: 1441}", "p:1: minutes: 1441: expected a number from 1 to 1440"),
        ("{hrn://a.example: {minutes: 10081, per: week}}", "p:1: minutes: 10081: expected a number from 1 to 10080"),
        ("{hrn://a.example: {minutes: 1, reset: mon 04:00}}", "p:1: reset: mon 04:00: expected a time such as 04:00"),
        ("{hrn://a.example: {minutes: 1, reset: '24:00'}}", "p:1: reset: 24:00: expected a time such as 04:00"),
        ("{hrn://a.example: {minutes: 1, for: all}}", "p:1: for: all: expected one of each, group"),
        ("{hrn://a.example: 1, HRN://a.example: 2}", "p:1: HRN://a.example: the category is given twice"),
    ],
)
def test_what_cannot_be_read_is_reported(value: str, error: str) -> None:
    _, errors = read(value)
    assert [found.startswith(error) for found in errors] == [True], errors


ZONES = st.sampled_from(
    ["UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Gaza"]
)
QUOTAS = st.builds(
    Quota,
    *(st.just(fixed) for fixed in ("hrn://a.example", 60, "p", 1)),
    per=st.sampled_from(["day", "week"]),
    reset=st.integers(0, 1439),
    weekday=st.integers(0, 6),
    zone=ZONES.map(ZoneInfo),
)
MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))


@given(QUOTAS, MOMENTS)
def test_a_period_has_its_moment_and_is_the_same_for_all_moments_in_it(quota: Quota, now: datetime) -> None:
    begin, end = quota.period(now)
    assert begin <= now < end
    assert quota.period(begin) == quota.period(end - timedelta(seconds=1)) == (begin, end)
    assert quota.period(end)[0] == end
    days = 1 if quota.per == "day" else 7
    # a clock change shortens or lengthens it, and Samoa once left out a day
    assert timedelta(days=days - 1.1) <= end - begin <= timedelta(days=days, hours=3)


@given(QUOTAS, MOMENTS)
def test_a_period_begins_when_the_clock_shows_the_reset_unless_it_skips_that(quota: Quota, now: datetime) -> None:
    begin = quota.period(now)[0].astimezone(quota.zone)
    minute = begin.hour * 60 + begin.minute
    before = (begin.astimezone(UTC) - timedelta(minutes=1)).astimezone(quota.zone)
    is_after_gap = begin.utcoffset() != before.utcoffset()
    assert is_after_gap or minute == quota.reset
    if quota.per == "week" and not is_after_gap:
        assert begin.weekday() == quota.weekday


@pytest.mark.parametrize(
    ("reset", "begin", "end"),
    [
        # 02:00 to 03:00 does not exist on 2026-03-29, and comes twice on 2026-10-25
        ("2026-03-29T12:00", "2026-03-29T01:00", "2026-03-30T00:30"),
        ("2026-10-25T12:00", "2026-10-25T00:30", "2026-10-26T01:30"),
        ("2026-10-25T01:00", "2026-10-25T00:30", "2026-10-26T01:30"),
    ],
)
def test_a_reset_in_a_gap_or_a_doubled_hour(reset: str, begin: str, end: str) -> None:
    quota = Quota("hrn://a.example", 60, "p", 1, reset=150, zone=BERLIN)
    expected = tuple(datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (begin, end))
    assert quota.period(datetime.fromisoformat(reset).replace(tzinfo=UTC)) == expected
