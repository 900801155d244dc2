"""Schedules, and what they consist of: recurring times of a time zone's wall clock, as time spans on some days.

A wall clock is put forward (a gap) or back (a doubled hour), today always by whole minutes. Its times are counted in
minutes since day 0 of ``date.toordinal``, so that a time span is two integers. A span belongs to the day on which it
begins, even if it ends after midnight.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import chain

#: minutes
A_DAY = 24 * 60
#: years in which the clocks of all zones can be read
_YEARS = range(1000, 9000)

_MINUTE, _TICK = timedelta(minutes=1), timedelta.resolution


def parse_moment(text: str) -> datetime:
    """A moment as text; without an offset from UTC, it is a time on a wall clock.

    >>> parse_moment("2026-12-24T22:30").isoformat()
    '2026-12-24T22:30:00'

    Raises:
        ValueError: the text is not a moment.
    """
    moment = datetime.fromisoformat(text)
    if moment.year not in _YEARS:
        raise ValueError(f"it is not in the years {_YEARS[0]} to {_YEARS[-1]}")
    return moment


def shown(now: datetime, zone: tzinfo) -> tuple[int, int]:
    """What the clock shows now, as a pair of minutes ``(ahead, behind)``: a span from ``begin`` to ``end`` is on if
    ``begin <= ahead`` and ``end > behind``.

    The two differ only in a doubled hour. There a span is on from the first moment at which the clock shows one of its
    minutes to the last such moment. In the first pass, a span is still on if it ends after the time that the clock will
    be put back to. In the second, a span is already on if it began before the clock was put back.

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
    """The first moment, in UTC, at which the clock shows the minute; the end of the gap if the minute is in a gap."""
    wall = _wall(minute)
    before, after = _offsets(wall.replace(tzinfo=zone))
    return _turn(wall, zone) if before < after else (wall - before).replace(tzinfo=UTC)


def last_moment(minute: int, zone: tzinfo) -> datetime:
    """The moment, in UTC, just after the clock last shows the time just before the minute.

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
    """Offsets from UTC before and after a change of the clock; they differ only in a gap and in a doubled hour."""
    before, after = local.replace(fold=0).utcoffset(), local.replace(fold=1).utcoffset()
    assert before is not None
    assert after is not None
    return before, after


def _turn(wall: datetime, zone: tzinfo) -> datetime:
    """The moment, in UTC, at which the clock is changed; for a time in a gap or a doubled hour."""
    wall = wall.replace(second=0, microsecond=0)
    before, after = _offsets(wall.replace(tzinfo=zone))
    low = (wall - max(before, after)).replace(tzinfo=UTC)
    minutes = range(abs(before - after) // _MINUTE + 1)
    return low + _MINUTE * bisect_left(
        minutes, True, key=lambda minute: (low + _MINUTE * minute).astimezone(zone).utcoffset() == after
    )


#: from 0 for Monday, as in ``date.weekday``
EVERY_WEEKDAY = frozenset(range(7))
#: a whole day, in minutes
WHOLE_DAY = ((0, A_DAY),)


@dataclass(frozen=True, slots=True)
class RecurringDates:
    """Days as ranges that neither meet nor overlap; days are numbers of ``date.toordinal``."""

    firsts: tuple[int, ...] = ()
    lasts: tuple[int, ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> RecurringDates:
        """From ranges in any order, each with its first and its last day.

        >>> RecurringDates.of([(7, 9), (1, 3), (4, 5), (8, 8)])
        RecurringDates(firsts=(1, 7), lasts=(5, 9))
        """
        merged: list[tuple[int, int]] = []
        for first, last in sorted(ranges):
            if merged and first <= merged[-1][1] + 1:
                first, last = merged[-1][0], max(merged.pop()[1], last)
            merged.append((first, last))
        return cls(tuple(first for first, _ in merged), tuple(last for _, last in merged))

    def __contains__(self, day: int) -> bool:
        place = bisect_right(self.firsts, day) - 1
        return place >= 0 and day <= self.lasts[place]

    def turns(self) -> Iterator[int]:
        """The days that differ from the day before: one of both is in a range."""
        yield from self.firsts
        yield from (last + 1 for last in self.lasts)


@dataclass(frozen=True, slots=True)
class RecurringSpans:
    """Time spans on some days.

    An exception for whole days removes the spans that begin on these days, to their ends. An exception for some time
    removes that time.
    """

    #: weekdays, as in ``date.weekday``
    weekdays: frozenset[int] = EVERY_WEEKDAY
    #: ``None`` is every date
    dates: RecurringDates | None = None
    #: begin and end in minutes since the day's beginning; after midnight, the end is later than 24:00
    spans: tuple[tuple[int, int], ...] = WHOLE_DAY
    except_dates: RecurringDates = field(default_factory=RecurringDates)
    #: exceptions for whole days
    except_days: tuple[RecurringSpans, ...] = ()
    #: exceptions for some time
    except_times: tuple[RecurringSpans, ...] = ()

    @property
    def is_whole_days(self) -> bool:
        """Whether each day is on as a whole or off as a whole."""
        return self.spans == WHOLE_DAY and not self.except_times

    def begins_on(self, day: int) -> bool:
        """Whether the spans begin on a day, a number of ``date.toordinal``."""
        return (
            (day + 6) % 7 in self.weekdays
            and (self.dates is None or day in self.dates)
            and day not in self.except_dates
            and not any(entry.begins_on(day) for entry in self.except_days)
        )

    def is_on(self, ahead: int, behind: int) -> bool:
        """Whether a span is on while the clock shows this; see ``shown``."""
        return any(
            begin <= ahead - day * A_DAY and end > behind - day * A_DAY and self.begins_on(day)
            for day in range(behind // A_DAY - 1, ahead // A_DAY + 1)
            for begin, end in self.spans
        ) and not any(entry.is_on(ahead, behind) for entry in self.except_times)

    def turns(self) -> Iterator[int]:
        """The days after which the weekly pattern may change."""
        if self.dates is not None:
            yield from self.dates.turns()
        yield from self.except_dates.turns()
        for entry in chain(self.except_days, self.except_times):
            yield from entry.turns()

    def ends(self, day: int, zone: tzinfo) -> Iterator[datetime]:
        """Both ends, in UTC, of every span that begins on a day, and of the exceptions."""
        if self.begins_on(day):
            for begin, end in self.spans:
                yield first_moment(day * A_DAY + begin, zone)
                yield last_moment(day * A_DAY + end, zone)
        for entry in self.except_times:
            yield from entry.ends(day, zone)


# -- schedules ---------------------------------------------------------------------------------------------------------

# Without dates, a week differs from the one before only around a change of the clock, and never three in a row.
_A_WHILE = 24
# So that no computed moment is later than a datetime can be.
_LAST_DAY = date.max.toordinal() - 4


@dataclass(frozen=True, slots=True)
class Schedule:
    """On while one of its entries is on.

    >>> from zoneinfo import ZoneInfo
    >>> night = Schedule("night", ZoneInfo("Europe/Berlin"), (RecurringSpans(spans=((21 * 60, 30 * 60 + 30),)),))
    >>> now = datetime(2026, 12, 24, 22, tzinfo=UTC)
    >>> night.is_on(now), str(night.next_change(now))
    (True, '2026-12-25 05:30:00+00:00')
    """

    name: str
    zone: tzinfo
    entries: tuple[RecurringSpans, ...]

    def is_on(self, now: datetime) -> bool:
        """Whether it is on at a moment; ``ValueError`` if the moment has no time zone."""
        ahead, behind = shown(_aware(now), self.zone)
        return any(entry.is_on(ahead, behind) for entry in self.entries)

    def next_change(self, now: datetime) -> datetime | None:
        """The first moment after ``now``, in UTC, at which ``is_on`` changes; ``None`` if there is none.

        Searches some weeks from now, then some weeks from each named date, so a far date costs no more than a near one.
        ``ValueError`` if the moment has no time zone.
        """
        now = _aware(now).astimezone(UTC)
        was_on = self.is_on(now)
        day = now.toordinal() - 3
        turns = sorted({turn for entry in self.entries for turn in entry.turns() if day < turn <= _LAST_DAY})
        for first, last in _whiles(day, turns):
            for moment in self._ends(first, last):
                if moment > now and self.is_on(moment) is not was_on:
                    return moment
        return None

    def _ends(self, first: int, last: int) -> Iterator[datetime]:
        """All ends of spans that begin on some days, in order: a day's come when no later day can have earlier ones."""
        waiting: set[datetime] = set()
        for day in range(first, min(last, _LAST_DAY) + 1):
            waiting.update(end for entry in self.entries for end in entry.ends(day, self.zone))
            if waiting:
                midnight = first_moment((day + 1) * A_DAY, self.zone)
                due = sorted(end for end in waiting if end < midnight)
                waiting.difference_update(due)
                yield from due
        yield from sorted(waiting)


#: minutes of a day: when it is night for whoever has one, the latest end of that, and its end where no schedule says
_DEEP, _NOON, _SIX = 3 * 60, 12 * 60, 6 * 60


def next_morning(schedules: Iterable[Schedule], zone: tzinfo, now: datetime) -> datetime:
    """The next end of the night: of what is on at 03:00 and ends by noon, the first to end; 06:00 where nothing is.

    >>> night = Schedule("night", UTC, (RecurringSpans(spans=((21 * 60, 31 * 60),)),))
    >>> str(next_morning([night], UTC, datetime(2026, 12, 24, 6, 30, tzinfo=UTC)))
    '2026-12-24 07:00:00+00:00'
    >>> str(next_morning([], UTC, datetime(2026, 12, 24, 6, 30, tzinfo=UTC)))
    '2026-12-25 06:00:00+00:00'
    """
    listed, today = tuple(schedules), now.astimezone(zone).toordinal()
    morning = _morning_of(today, listed, zone)
    return morning if morning > now else _morning_of(today + 1, listed, zone)


def _morning_of(day: int, schedules: Iterable[Schedule], zone: tzinfo) -> datetime:
    deep, noon = (first_moment(day * A_DAY + minute, zone) for minute in (_DEEP, _NOON))
    ends = (schedule.next_change(deep) for schedule in schedules if schedule.is_on(deep))
    return min((end for end in ends if end is not None and end <= noon), default=first_moment(day * A_DAY + _SIX, zone))


def _whiles(day: int, turns: list[int]) -> Iterator[tuple[int, int]]:
    """Ranges of days (first, last): some weeks from a day, and some weeks around each turn.

    >>> list(_whiles(100, [110, 500]))
    [(100, 124), (121, 134), (497, 524)]
    """
    last = day + _A_WHILE
    yield day, last
    for turn in turns:
        # Spans that began before a turn or a range may end after it.
        yield max(last, turn) - 3, turn + _A_WHILE
        last = turn + _A_WHILE


def _aware(now: datetime) -> datetime:
    if now.tzinfo is None:
        raise ValueError("the moment has no time zone")
    return now
