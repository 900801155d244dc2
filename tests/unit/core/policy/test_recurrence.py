"""Moments that somebody names."""

from datetime import timedelta, timezone

import pytest

from hushlist.core.policy.recurrence import parse_moment
from unit.rows import each_row


@pytest.mark.parametrize("text", ["2026-12-24T22:30", "1000-01-01", "8999-12-31T23:59:59-14:00"])
def test_a_moment_can_be_told_in_every_time_zone(text: str) -> None:
    for hours in (-23, 23):
        assert parse_moment(text).astimezone(timezone(timedelta(hours=hours)))


@each_row("text", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00+14:00", "0999-12-31", "9000-01-01"])
def test_where_clocks_of_some_zones_cannot_be_read_there_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match="years 1000 to 8999"):
        parse_moment(text)
