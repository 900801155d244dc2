"""What is counted of decisions."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.decide.decision import Decision, LogRecord
from hushlist.core.match.rule import Action, Expression, Ordered, Rule, Terms
from hushlist.core.match.rule_match import Match, SeenFile
from hushlist.core.url.request import request_of
from hushlist.proxy.statistics import BOUNDS, MOST_RECENT, Asker, ListName, NameCounts, Outcome, Statistics
from unit.rows import each_row

GAMES = Terms(Action.BLOCK, "hrn://a.example/games", "lists/games.yaml", "hrn://a.example/web/games", title="Games")


def decision(url: str = "http://a.example/", action: Action = Action.PASS, terms: Terms | None = None) -> Decision:
    asked = request_of(url.encode())
    if terms is None:
        return Decision(action, request=asked, group="default")
    match = Match(Rule(Expression(b"a.example/"), terms, 7), b"a.example/", (9, 0))
    return Decision(action, None, (match,), match, request=asked, group="default")


def record(of: Decision | None = None, client: str = "10.0.0.7", **more: bool) -> LogRecord:
    return LogRecord("", 1e9, of or decision(), client, **more)  # type: ignore[arg-type]


@given(st.lists(st.dictionaries(st.text(max_size=2), st.integers(1, 9), max_size=6)), st.integers(2, 8))
def test_a_tally_is_bounded_and_loses_nothing(batches: list[dict[str, int]], most: int) -> None:
    tally: NameCounts[str] = NameCounts(most)
    for batch in batches:
        tally.add(batch)
    assert len(tally.top()) <= most
    assert sum(number for _, number in tally.top()) + tally.others == sum(sum(batch.values()) for batch in batches)


def test_decisions_are_counted_by_all_that_is_known_of_them() -> None:
    statistics = Statistics()
    statistics.note(record(decision("http://www.A.example/x", Action.BLOCK, GAMES)), 1500)
    statistics.note(record(decision("http://a.example:80/y", Action.BLOCK, GAMES), would_block=True), 2500)
    statistics.note(record(client="10.0.0.8"), 900)
    statistics.note(record(Decision(Action.BLOCK, fault="it has no host", request=b"http:///")), 10**9)
    assert statistics.total == 4
    assert dict(statistics.outcomes.top()) == {
        Outcome(Action.BLOCK, "default", False): 1,
        Outcome(Action.BLOCK, "default", True): 1,
        Outcome(Action.PASS, "default", False): 1,
        Outcome(Action.BLOCK, "", False): 1,
    }
    assert statistics.lists.top() == [((ListName("Games", "lists/games.yaml"), Action.BLOCK), 2)]
    assert statistics.categories.top() == [(("hrn://a.example/web/games", Action.BLOCK), 2)]
    assert statistics.rules.top() == [(("lists/games.yaml:7", "a.example/"), 2)]
    assert dict(statistics.hosts.top()) == {"www.a.example": 1, "a.example": 1}
    assert statistics.clients.top() == [(Asker("10.0.0.7", None), 3), (Asker("10.0.0.8", None), 1)]
    assert statistics.faults == 1
    assert statistics.duration == 1500 + 2500 + 900 + 10**9
    assert statistics.slowest is not None
    assert (statistics.slowest.number, statistics.slowest.duration) == (4, 10**9)


def test_files_are_counted_by_what_they_are() -> None:
    statistics, terms = Statistics(), Terms(Action.BLOCK, "policy", "p.yaml")
    for file in (SeenFile("a.png", "image/png", ("program",)), SeenFile("b", "text/x"), SeenFile("c", "text/x"), None):
        match = Match(Rule(Expression(b"a.example/"), terms, 7), b"", (0, 0), file=file)
        statistics.note(record(Decision(Action.BLOCK, None, (match,), match, request=b"http://a.example/")), 1)
    statistics.count()
    assert statistics.files.top() == [(("text/x", Action.BLOCK), 2), (("program", Action.BLOCK), 1)]


def test_for_whom_something_is_blocked_is_not_counted_since_the_log_may_keep_no_clients() -> None:
    statistics = Statistics()
    rule = Rule(Ordered("a.example", "user:jo", 1.0), GAMES, 3)
    found = Match(rule, b"a.example", (0, 0))
    asked = request_of(b"http://a.example/")
    statistics.note(record(Decision(Action.BLOCK, None, (found,), found, request=asked)), 1)
    assert statistics.total == 1
    assert statistics.rules.top() == [(("lists/games.yaml:3", "a.example"), 1)]


@given(st.lists(st.integers(0, 2 * 10**8), max_size=600))
def test_the_histogram_counts_each_duration_below_its_bound(durations: list[int]) -> None:
    statistics = Statistics()
    for duration in durations:
        statistics.note(record(), duration)
    assert statistics.total == len(durations)
    slow = Counter(sum(duration > bound for bound in BOUNDS) for duration in durations)
    assert statistics.histogram == [slow[place] for place in range(len(BOUNDS) + 1)]
    half, most = statistics.quantiles(0.5, 1.0)
    assert (half, most) == (
        (sorted(durations)[round((len(durations) - 1) / 2)], max(durations)) if durations else (None, None)
    )


@each_row("number", [0, 1, 255, 256, 257, 1000, 1300])
def test_the_last_thousand_are_kept_with_their_numbers(number: int) -> None:
    statistics = Statistics()
    for duration in range(1, number + 1):
        statistics.note(record(), duration)
    kept = statistics.since(0)
    assert [one.number for one in kept] == [one.duration for one in kept]
    assert [one.number for one in kept] == list(range(max(1, number - MOST_RECENT + 1), number + 1))
    assert [one.number for one in statistics.since(number - 1)] == ([number] if number else [])
    assert statistics.since(number) == statistics.since(number + 5) == []


def test_whoever_waits_is_told_at_once() -> None:
    async def watch() -> tuple[int, int, int]:
        statistics = Statistics()
        waiting = asyncio.ensure_future(statistics.wait(60))
        await asyncio.sleep(0)
        before = statistics.waiting
        statistics.note(record(), 1)
        await asyncio.wait_for(waiting, 5)
        return before, statistics.waiting, statistics.total

    assert asyncio.run(watch()) == (1, 0, 1)
