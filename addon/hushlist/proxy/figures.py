"""What there is to count of decisions: cheap where they are noted, and spelled out only where somebody looks.

A decision is put aside with its record, and counted together with others: that costs a request less than a microsecond.
Everything is bounded, whatever clients ask for.
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

from hushlist.errors import UrlError
from hushlist.journal.record import Record
from hushlist.match.rule import Action
from hushlist.policy.decision import STOPPING, Decision
from hushlist.url.request import Request, canonical_host

#: decisions that are kept to be shown; and about how many octets of them, where any is long
MOST_RECENT = 1000
_MOST_OCTETS, _LONG = 8 << 20, 8 << 10
#: decisions that are put aside before they are counted: with URLs of 64 KiB, 16 MiB
_BATCH = 256
#: durations of which quantiles are told
_MOST_DURATIONS = 4096
#: names of one kind that are counted
MOST_NAMES = 4096
#: octets; no name is as long
_LONGEST_HOST = 256
#: of the histogram, in ns: "less than or equal to"
BOUNDS = (*(step * 10**power for power in range(3, 8) for step in (1, 2, 5)), 10**8)

#: of a record; an action's value has its hash at hand
_OUTCOME = attrgetter("decision.action.value", "decision.group", "would_block")
_ASKER = attrgetter("client", "user")

Key = TypeVar("Key")


class Tally(Generic[Key]):
    """Counts by name; of too many names the rarest half is put together, so that none is lost.

    >>> tally = Tally(4)
    >>> tally.add({name: number for number, name in enumerate("abcde", 1)})
    >>> tally.top(9), tally.others
    ([('e', 5), ('d', 4)], 6)
    """

    def __init__(self, most: int = MOST_NAMES) -> None:
        self._most = most
        self._counts: Counter[Key] = Counter()
        #: of names that are not told apart any more
        self.others = 0

    def add(self, counts: Mapping[Key, int]) -> None:
        """Count more."""
        self._counts.update(counts)
        if len(self._counts) > self._most:
            kept = Counter(dict(self._counts.most_common(self._most // 2)))
            self.others += self._counts.total() - kept.total()
            self._counts = kept

    def top(self, number: int | None = None) -> list[tuple[Key, int]]:
        """The most frequent names, or all, and how often each was counted."""
        return self._counts.most_common(number)


class ListName(NamedTuple):
    """A list as people call it, and its file."""

    label: str
    source: str


class Asker(NamedTuple):
    """Who asked, as the log has it."""

    address: str
    user: str | None


class Outcome(NamedTuple):
    """What became of a request, and for which group."""

    action: Action
    group: str
    #: it would have been stopped, but passed: the dry run
    would_block: bool


class Noted(NamedTuple):
    """A decision to be shown; numbered from 1."""

    number: int
    record: Record
    #: ns
    duration: int


class Figures:
    """Counts what is decided; all in one thread, that of the event loop."""

    def __init__(self) -> None:
        #: seconds since 1970
        self.started = time()
        self._fresh: list[tuple[Record, int]] = []
        self._recent: deque[tuple[Record, int]] = deque(maxlen=MOST_RECENT)
        self._waiting: set[asyncio.Future[None]] = set()
        self._is_closed = False
        # behind this, all is counted in batches
        self._total = 0
        self._slowest: Noted | None = None
        self.outcomes: Tally[Outcome] = Tally()
        self.lists: Tally[tuple[ListName, Action]] = Tally()
        self.categories: Tally[tuple[str, Action]] = Tally()
        self.clients: Tally[Asker] = Tally()
        self.hosts: Tally[str] = Tally()
        self.rules: Tally[tuple[str, str]] = Tally()
        #: of requests that could not be read
        self.faults = 0
        #: how many decisions took as long as ``BOUNDS`` say, and how many longer; and all together, in ns
        self.histogram = [0] * (len(BOUNDS) + 1)
        self.duration = 0
        self._durations: deque[int] = deque(maxlen=_MOST_DURATIONS)

    # -- where decisions are made ----------------------------------------------------------------------------------

    def note(self, record: Record, duration: int) -> None:
        """Take note of a decision and how long it took, in ns."""
        self._fresh.append((record, duration))
        if len(self._fresh) >= _BATCH:
            self.count()
        if self._waiting:
            self.wake()

    def wake(self) -> None:
        """Let those go on who wait for a decision."""
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._waiting.clear()

    def close(self) -> None:
        """From now on, nobody waits."""
        self._is_closed = True
        self.wake()

    # -- counting --------------------------------------------------------------------------------------------------

    def count(self) -> None:
        """Count what was put aside; by what Python does in C, for all of it at once."""
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
            self._slowest = Noted(self._total - len(fresh) + place + 1, *fresh[place])

    def _count_durations(self, durations: list[int]) -> None:
        for place, number in Counter(map(bisect_left, repeat(BOUNDS), durations)).items():
            self.histogram[place] += number
        self.duration += sum(durations)
        self._durations.extend(durations)

    def _count_rules(self, decisions: list[Decision]) -> None:
        """The rules that decided, and the hosts that were stopped; what many have in common is spelled once."""
        faulty = [one for one in decisions if one.fault is not None]
        won = [one for one in decisions if one.winner is not None]
        self.faults += len(faulty)
        by_match = {(id(one.winner), one.action.value): one for one in won}
        for match, number in Counter((id(one.winner), one.action.value) for one in won).items():
            winner, action = by_match[match].winner, by_match[match].action
            assert winner is not None
            pattern, terms, line = winner.rule
            self.lists.add({(ListName(terms.label, terms.source), action): number})
            self.rules.add({(f"{terms.source}:{line}", str(pattern)): number})
            if terms.category is not None:
                self.categories.add({(terms.category, action): number})
        stopped = [one.asked for one in (*won, *faulty) if one.action in STOPPING]
        hosts = (asked.hosts[0][:_LONGEST_HOST] for asked in stopped if isinstance(asked, Request) and asked.hosts)
        for host, number in Counter(hosts).items():
            self.hosts.add({_host(host): number})

    def _make_room(self) -> None:
        octets = sum(record.octets for record, _ in self._recent)
        while octets > _MOST_OCTETS:
            octets -= self._recent.popleft()[0].octets

    # -- where somebody looks --------------------------------------------------------------------------------------

    @property
    def total(self) -> int:
        """How many decisions there were; the number of the last."""
        self.count()
        return self._total

    @property
    def slowest(self) -> Noted | None:
        """The decision that took longest."""
        self.count()
        return self._slowest

    def since(self, number: int) -> list[Noted]:
        """The decisions behind the one with a number, as far as they are kept, in their order."""
        new = min(max(0, self.total - number), len(self._recent))
        kept = islice(self._recent, len(self._recent) - new, None)
        return [Noted(place, *one) for place, one in enumerate(kept, self._total - new + 1)]

    def quantiles(self, *shares: float) -> list[int | None]:
        """Of the last some thousand decisions: which share of them took at most how long, in ns.

        >>> figures = Figures()
        >>> figures.quantiles(0.5)
        [None]
        """
        self.count()
        durations = sorted(self._durations)
        last = len(durations) - 1
        return [durations[round(share * last)] if durations else None for share in shares]

    async def wait(self, seconds: float) -> None:
        """Wait for a decision that comes now, for so long at most."""
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
        """How many wait for a decision."""
        return len(self._waiting)


@lru_cache(MOST_NAMES)
def _host(host: bytes) -> str:
    try:
        return canonical_host(host).decode("ascii")
    except UrlError:
        return host.decode("ascii", "backslashreplace")
