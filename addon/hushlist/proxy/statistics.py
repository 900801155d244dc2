"""Statistics of decisions: cheap to collect, and formatted only when somebody looks.

Decisions are kept with their records and counted in batches, for less than a microsecond a request. All memory is
bounded, whatever clients request.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice, repeat
from operator import attrgetter
from time import time
from typing import Generic, NamedTuple, TypeVar

from hushlist.core.decide.decision import STOPPING, Decision, LogRecord
from hushlist.core.errors import UrlError
from hushlist.core.match.rule import Action, Ordered
from hushlist.core.url.request import Request, canonical_host

#: recent decisions to show; and about how many octets of them, in case they are long
MOST_RECENT = 1000
_MOST_OCTETS, _LONG = 8 << 20, 8 << 10
#: decisions that may wait to be counted: with URLs of 64 KiB, 16 MiB
_BATCH = 256
#: durations that quantiles are made from
_MOST_DURATIONS = 4096
#: most names of one kind that are counted
MOST_NAMES = 4096
#: octets; names are shorter
_LONGEST_HOST = 256
#: upper limits of the histogram, in ns: "less than or equal to"
BOUNDS = (*(step * 10**power for power in range(3, 8) for step in (1, 2, 5)), 10**8)

#: of a record; an action's value has its hash at hand, and "_value_" is it without a call of Python
_OUTCOME = attrgetter("decision.action._value_", "decision.group", "would_block")
_ASKER = attrgetter("client", "user")

Key = TypeVar("Key")


class NameCounts(Generic[Key]):
    """Counts by name; if there are too many names, the rarest half is added to ``others``, so that no count is lost.

    >>> tally = NameCounts(4)
    >>> tally.add({name: number for number, name in enumerate("abcde", 1)})
    >>> tally.top(9), tally.others
    ([('e', 5), ('d', 4)], 6)
    """

    def __init__(self, most: int = MOST_NAMES) -> None:
        self._most = most
        self._counts: Counter[Key] = Counter()
        #: count of all names that are no longer kept apart
        self.others = 0

    def add(self, counts: Mapping[Key, int]) -> None:
        self._counts.update(counts)
        if len(self._counts) > self._most:
            kept = Counter(dict(self._counts.most_common(self._most // 2)))
            self.others += self._counts.total() - kept.total()
            self._counts = kept

    def top(self, number: int | None = None) -> list[tuple[Key, int]]:
        """The most frequent names, or all, each with its count."""
        return self._counts.most_common(number)


class ListName(NamedTuple):
    """A list's name for people, and its file."""

    label: str
    source: str


class Asker(NamedTuple):
    """The client of a request, as in the log."""

    address: str
    user: str | None


class Outcome(NamedTuple):
    """The result for a request, and its group."""

    action: Action
    group: str
    #: dry run: it would have been stopped, but passed
    would_block: bool


class NotedDecision(NamedTuple):
    """A decision to show; numbered from 1."""

    number: int
    record: LogRecord
    #: in ns
    duration: int


class Statistics:
    """Counts decisions; used only in the event loop's thread."""

    def __init__(self) -> None:
        #: seconds since 1970
        self.started = time()
        self._fresh: list[tuple[LogRecord, int]] = []
        self._recent: deque[tuple[LogRecord, int]] = deque(maxlen=MOST_RECENT)
        self._waiting: set[asyncio.Future[None]] = set()
        self._is_closed = False
        # from here on, all is counted in batches
        self._total = 0
        self._slowest: NotedDecision | None = None
        self.outcomes: NameCounts[Outcome] = NameCounts()
        self.lists: NameCounts[tuple[ListName, Action]] = NameCounts()
        self.categories: NameCounts[tuple[str, Action]] = NameCounts()
        self.clients: NameCounts[Asker] = NameCounts()
        self.hosts: NameCounts[str] = NameCounts()
        self.rules: NameCounts[tuple[str, str]] = NameCounts()
        #: files that rules were about, by what they are, or else by their media type
        self.files: NameCounts[tuple[str, Action]] = NameCounts()
        #: unreadable requests
        self.faults = 0
        #: decisions by duration, for each limit in ``BOUNDS`` and for longer ones; and the sum, in ns
        self.histogram = [0] * (len(BOUNDS) + 1)
        self.duration = 0
        self._durations: deque[int] = deque(maxlen=_MOST_DURATIONS)

    # -- where decisions are made ----------------------------------------------------------------------------------

    def note(self, record: LogRecord, duration: int) -> None:
        """Add a decision and its duration in ns."""
        self._fresh.append((record, duration))
        if len(self._fresh) >= _BATCH:
            self.count()
        if self._waiting:
            self.wake()

    def wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        """End all waiting, for good."""
        self._is_closed = True
        self.wake()

    # -- counting --------------------------------------------------------------------------------------------------

    def count(self) -> None:
        """Count the waiting decisions, all at once, with functions that Python has in C."""
        fresh, self._fresh = self._fresh, []
        if not fresh:
            return
        records = [record for record, _ in fresh]
        durations = [duration for _, duration in fresh]
        outcomes = Counter(map(_OUTCOME, records))
        self.outcomes.add({Outcome(Action(action), *rest): number for (action, *rest), number in outcomes.items()})
        askers = Counter(map(_ASKER, records))
        self.clients.add({Asker(address or "", user): number for (address, user), number in askers.items()})
        self._count_durations(durations)
        self._count_rules([record.decision for record in records])
        self._total += len(fresh)
        self._recent.extend(fresh)
        if max(record.octets for record in records) > _LONG:
            self._make_room()
        longest = max(durations)
        if self._slowest is None or longest > self._slowest.duration:
            place = durations.index(longest)
            self._slowest = NotedDecision(self._total - len(fresh) + place + 1, *fresh[place])

    def _count_durations(self, durations: list[int]) -> None:
        for place, number in Counter(map(bisect_left, repeat(BOUNDS), durations)).items():
            self.histogram[place] += number
        self.duration += sum(durations)
        self._durations.extend(durations)

    def _count_rules(self, decisions: list[Decision]) -> None:
        """Count the rules that decided, and the stopped hosts; equal ones are formatted once."""
        faulty = [decision for decision in decisions if decision.fault is not None]
        won = [decision for decision in decisions if decision.winner is not None]
        self.faults += len(faulty)
        by_match = {(id(decision.winner), decision.action.value): decision for decision in won}
        for match, number in Counter((id(decision.winner), decision.action.value) for decision in won).items():
            winner, action = by_match[match].winner, by_match[match].action
            assert winner is not None
            pattern, terms, line = winner.rule
            self.lists.add({(ListName(terms.label, terms.source), action): number})
            shown = pattern.target if isinstance(pattern, Ordered) else str(pattern)  # the log may keep no clients
            self.rules.add({(f"{terms.source}:{line}", shown): number})
            if terms.category is not None:
                self.categories.add({(terms.category, action): number})
        files = (
            (" ".join(decision.winner.file.kinds) or decision.winner.file.media_type[:_LONGEST_HOST], decision.action)
            for decision in won
            if decision.winner is not None and decision.winner.file is not None
        )
        self.files.add(Counter(files))
        stopped = [decision.request for decision in (*won, *faulty) if decision.action in STOPPING]
        hosts = (
            request.hosts[0][:_LONGEST_HOST] for request in stopped if isinstance(request, Request) and request.hosts
        )
        for host, number in Counter(hosts).items():
            self.hosts.add({_host(host): number})

    def _make_room(self) -> None:
        octets = sum(record.octets for record, _ in self._recent)
        while octets > _MOST_OCTETS:
            octets -= self._recent.popleft()[0].octets

    # -- reading ---------------------------------------------------------------------------------------------------

    @property
    def total(self) -> int:
        """The number of decisions; also the number of the last one."""
        self.count()
        return self._total

    @property
    def slowest(self) -> NotedDecision | None:
        self.count()
        return self._slowest

    def since(self, number: int) -> list[NotedDecision]:
        """The decisions after the one with a number, if still kept, in their order."""
        new = min(max(0, self.total - number), len(self._recent))
        kept = islice(self._recent, len(self._recent) - new, None)
        return [NotedDecision(place, *entry) for place, entry in enumerate(kept, self._total - new + 1)]

    def quantiles(self, *shares: float) -> list[int | None]:
        """For each share, the duration in ns that this share of the last thousands of decisions did not exceed.

        >>> figures = Statistics()
        >>> figures.quantiles(0.5)
        [None]
        """
        self.count()
        durations = sorted(self._durations)
        last = len(durations) - 1
        return [durations[round(share * last)] if durations else None for share in shares]

    def sample(self) -> list[int]:
        """Some of the last durations, in ns, evenly taken from short to long."""
        self.count()
        return sorted(self._durations)[:: max(1, len(self._durations) // 256)]

    async def wait(self, seconds: float) -> None:
        """Wait for the next decision, at most so long."""
        if self._is_closed:
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await asyncio.wait([future], timeout=seconds)
        finally:
            self._waiting.discard(future)

    @property
    def waiting(self) -> int:
        """How many clients wait for a decision."""
        return len(self._waiting)


@lru_cache(MOST_NAMES)
def _host(host: bytes) -> str:
    try:
        return canonical_host(host).decode("ascii")
    except UrlError:
        return host.decode("ascii", "backslashreplace")
