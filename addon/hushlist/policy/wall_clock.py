"""A clock on the wall of a time zone: what it shows, and where it is put forward (a gap) or back (a doubled hour).

What it shows is counted in minutes since the day 0 of ``date.toordinal``, so that a span of time is two integers. The
clocks of our days are put by whole minutes.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime, timedelta, tzinfo

#: minutes
A_DAY = 24 * 60
#: years of moments that somebody may name: those in which the clocks of all zones can be read
_YEARS = range(1000, 9000)

_MINUTE, _TICK = timedelta(minutes=1), timedelta.resolution


def parse_moment(text: str) -> datetime:
    """A moment that somebody names; without an offset from UTC, it is what some clock shows.

    >>> parse_moment("2026-12-24T22:30").isoformat()
    '2026-12-24T22:30:00'

    Raises:
        ValueError: it is none.
    """
    moment = datetime.fromisoformat(text)
    if moment.year not in _YEARS:
        raise ValueError(f"it is not in the years {_YEARS[0]} to {_YEARS[-1]}")
    return moment


def shown(now: datetime, zone: tzinfo) -> tuple[int, int]:
    """What the clock shows now, as a pair of minutes ``(ahead, behind)``: a span from ``begin`` to ``end`` is on where
    ``begin <= ahead`` and ``end > behind``.

    Both are the same but in a doubled hour. There a span goes on from the first moment at which the clock shows a
    minute of it to the last: the first time round, all that ends later than where the clock will be put back to is
    still to come to its end; the second time, all that begins before the clock was put back has begun.

    >>> from zoneinfo import ZoneInfo
    >>> ahead, behind = shown(datetime(2026, 10, 25, 0, 15, tzinfo=UTC), ZoneInfo("Europe/Berlin"))
    >>> divmod(ahead % A_DAY, 60), divmod(behind % A_DAY, 60)
    ((2, 15), (2, 0))
    """
    local = now.astimezone(zone)
    minute = _minute(local)
    before, after = _offsets(local)
    if before == after:
        return minute, minute
    wall = local.replace(tzinfo=None)
    turn = _turn(wall, zone).replace(tzinfo=None)
    return (_minute(turn + before) - 1, minute) if local.fold else (minute, _minute(turn + after))


def first_moment(minute: int, zone: tzinfo) -> datetime:
    """The first moment, in UTC, at which the clock shows the minute; the gap's end where the minute is in a gap."""
    wall = _wall(minute)
    before, after = _offsets(wall.replace(tzinfo=zone))
    return _turn(wall, zone) if before < after else (wall - before).replace(tzinfo=UTC)


def last_moment(minute: int, zone: tzinfo) -> datetime:
    """The moment, in UTC, right behind the last at which the clock shows what comes right before the minute.

    >>> from zoneinfo import ZoneInfo
    >>> half_past_two = datetime(2026, 10, 25).toordinal() * A_DAY + 150
    >>> [f(half_past_two, ZoneInfo("Europe/Berlin")).strftime("%H:%M") for f in (first_moment, last_moment)]
    ['00:30', '01:30']
    """
    wall = _wall(minute) - _TICK
    before, after = _offsets(wall.replace(tzinfo=zone))
    return _turn(wall, zone) if before < after else (wall - after + _TICK).replace(tzinfo=UTC)


def _minute(wall: datetime) -> int:
    return wall.toordinal() * A_DAY + wall.hour * 60 + wall.minute


def _wall(minute: int) -> datetime:
    return datetime.fromordinal(minute // A_DAY) + timedelta(minutes=minute % A_DAY)


def _offsets(local: datetime) -> tuple[timedelta, timedelta]:
    """From UTC, as they are before and after the clock is put; different only in a gap and in a doubled hour."""
    before, after = local.replace(fold=0).utcoffset(), local.replace(fold=1).utcoffset()
    assert before is not None
    assert after is not None
    return before, after


def _turn(wall: datetime, zone: tzinfo) -> datetime:
    """The moment, in UTC, at which the clock is put; for a time in a gap or a doubled hour."""
    wall = wall.replace(second=0, microsecond=0)
    before, after = _offsets(wall.replace(tzinfo=zone))
    low = (wall - max(before, after)).replace(tzinfo=UTC)
    minutes = range(abs(before - after) // _MINUTE + 1)
    return low + _MINUTE * bisect_left(
        minutes, True, key=lambda minute: (low + _MINUTE * minute).astimezone(zone).utcoffset() == after
    )
