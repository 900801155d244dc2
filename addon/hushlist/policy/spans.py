"""Spans of time on some days: what schedules are made of.

A span belongs to the day on which it begins, also where it goes past midnight.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from itertools import chain

from hushlist.policy.wall_clock import A_DAY, first_moment, last_moment

#: from 0, Monday, as ``date.weekday`` has it
EVERY_WEEKDAY = frozenset(range(7))
#: the span of a whole day, in minutes
WHOLE_DAY = ((0, A_DAY),)


@dataclass(frozen=True, slots=True)
class Dates:
    """Days of the calendar as ranges that neither meet nor overlap; all are numbers of ``date.toordinal``."""

    firsts: tuple[int, ...] = ()
    lasts: tuple[int, ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> Dates:
        """From ranges in any order, each with its first and its last day.

        >>> Dates.of([(7, 9), (1, 3), (4, 5), (8, 8)])
        Dates(firsts=(1, 7), lasts=(5, 9))
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
        """The days that are unlike the day before."""
        yield from self.firsts
        yield from (last + 1 for last in self.lasts)


@dataclass(frozen=True, slots=True)
class Entry:
    """Spans of time on some days.

    What is excepted for whole days takes away the spans that begin on these days, to their ends; what is excepted for
    some time takes away that time.
    """

    #: of ``date.weekday``
    weekdays: frozenset[int] = EVERY_WEEKDAY
    #: ``None`` is every date
    dates: Dates | None = None
    #: begin and end in minutes since the day's beginning; where it goes past midnight, the end is later than 24:00
    spans: tuple[tuple[int, int], ...] = WHOLE_DAY
    except_dates: Dates = field(default_factory=Dates)
    #: entries for whole days
    except_days: tuple[Entry, ...] = ()
    #: entries for some time
    except_times: tuple[Entry, ...] = ()

    @property
    def is_whole_days(self) -> bool:
        """Whether it is on from midnight to midnight or not at all."""
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
        """Whether a span is on while the clock shows that, see ``shown``."""
        return any(
            begin <= ahead - day * A_DAY and end > behind - day * A_DAY and self.begins_on(day)
            for day in range(behind // A_DAY - 1, ahead // A_DAY + 1)
            for begin, end in self.spans
        ) and not any(entry.is_on(ahead, behind) for entry in self.except_times)

    def turns(self) -> Iterator[int]:
        """The days behind which it may go another way than from week to week."""
        if self.dates is not None:
            yield from self.dates.turns()
        yield from self.except_dates.turns()
        for entry in chain(self.except_days, self.except_times):
            yield from entry.turns()

    def ends(self, day: int, zone: tzinfo) -> Iterator[datetime]:
        """Both ends, in UTC, of every span that begins on a day, and of those that are excepted."""
        if self.begins_on(day):
            for begin, end in self.spans:
                yield first_moment(day * A_DAY + begin, zone)
                yield last_moment(day * A_DAY + end, zone)
        for entry in self.except_times:
            yield from entry.ends(day, zone)
