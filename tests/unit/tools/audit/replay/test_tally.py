"""Tallies merge: whatever the order, and however records were divided."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.decide.engine import Engine
from hushlist.tools.audit.replay.tally import (
    MOST_NAMED,
    MOST_SLOWEST,
    AuditTally,
    Examples,
    FrequentNames,
    HeavyHitters,
    Hits,
    SlowDecision,
    SourceCount,
)
from hushlist.tools.audit.sources.recorded_request import BrokenRecord, ReadRecord, RecordedRequest, SkippedRecord
from unit.tools.audit import samples

#: the same, by https
HTTPS = [own._replace(request=own.url.replace(b"http:", b"https:")) for own in samples.RECORDS]

READ = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([*samples.RECORDS, *HTTPS]), st.integers(1, 40)).map(
            lambda own: own[0]._replace(number=100 * own[0].number + own[1])
        ),
        st.builds(BrokenRecord, st.just("s"), st.integers(1, 300), st.just("why")),
        st.builds(SkippedRecord, st.just("s"), st.integers(1, 300)),
    ),
    max_size=40,
)


@lru_cache(maxsize=1)
def engine() -> Engine:
    return samples.engine(Path(mkdtemp()))


def tally(records: list[ReadRecord]) -> AuditTally:
    """Their tally, without what depends on the clock."""
    found = samples.tally_of(engine(), records)
    found.slowest = []
    return found


def merged(*parts: AuditTally) -> AuditTally:
    whole = AuditTally()
    for part in parts:
        whole.merge(deepcopy(part))
    return whole


@pytest.mark.slow
@given(READ, READ, READ)
def test_merging_is_associative_and_commutative_and_as_one_count(
    a: list[ReadRecord], b: list[ReadRecord], c: list[ReadRecord]
) -> None:
    one, two, three = tally(a), tally(b), tally(c)
    assert merged(merged(one, two), three) == merged(one, merged(two, three)) == merged(three, one, two)
    assert merged(one, two, three) == tally([*a, *b, *c])


@given(READ)
def test_an_empty_tally_changes_nothing(records: list[ReadRecord]) -> None:
    one = tally(records)
    assert merged(one, AuditTally()) == merged(AuditTally(), one) == one


def test_the_slowest_stay_whatever_the_order() -> None:
    slow = [SlowDecision(number, RecordedRequest(b"http://h.example/%d" % number)) for number in range(1, 50)]
    one, two = AuditTally(), AuditTally()
    one.add_slow(slow[::2])
    two.add_slow(slow[1::2])
    assert merged(one, two).slowest == merged(two, one).slowest == slow[::-1][:MOST_SLOWEST]


def test_the_first_broken_records_are_named_and_all_are_counted() -> None:
    broken: list[ReadRecord] = [BrokenRecord("s", number, "why") for number in range(2500, 0, -1)]
    found = tally(broken)
    assert found.sources == {"s": SourceCount("s", "urls", broken=2500)}
    assert found.broken == sorted(broken)[:MOST_NAMED]  # type: ignore[type-var]


def test_hits_add_up() -> None:
    hits = Hits(1, 2, 3, 4, 5, 6)
    hits.merge(Hits(10, 20, 30, 40, 50, 60))
    assert hits == Hits(11, 22, 33, 44, 55, 66)


# -- summaries ---------------------------------------------------------------------------------------------------------


RECORDS = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 30)), max_size=60)


def examples(records: list[tuple[str, int]]) -> Examples:
    found = Examples(most_each=2, most_names=3)
    for name, number in records:
        found.add(name, RecordedRequest(b"http://h.example/%d" % number, "s", number).ranked)
    return found


@given(RECORDS, st.integers(0, 60), st.randoms(use_true_random=False))
def test_neither_order_nor_division_matters(records: list[tuple[str, int]], cut: int, random: object) -> None:
    whole = examples(records)
    shuffled = [*records]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    first, second = examples(shuffled[:cut]), examples(shuffled[cut:])
    second.merge(first)
    assert second == whole
    numbers = {name: {number for own, number in records if own == name} for name, _ in records}
    kept = [name for name in numbers if whole[name]]
    assert len(kept) == min(3, len(numbers))
    assert all(len(whole[name]) == min(2, len(numbers[name])) for name in kept)


def test_a_name_without_examples_has_none() -> None:
    assert examples([])["x"] == []


NAMES = st.lists(st.sampled_from("abcdefghijkl"), max_size=60)


def heavy(names: list[str], most: int) -> HeavyHitters:
    counts = HeavyHitters(most)
    for name in names:
        counts.add(name)
    return counts


@given(NAMES)
def test_few_names_are_counted_exactly(names: list[str]) -> None:
    counts = heavy(names, 12)
    assert counts.result() == FrequentNames(12, 0, tuple(sorted(Counter(names).items(), key=lambda i: (-i[1], i[0]))))


@given(st.lists(NAMES, min_size=1, max_size=6), st.integers(1, 6), st.randoms(use_true_random=False))
def test_whatever_is_merged_in_whatever_order_no_count_is_wrong_by_more_than_the_error(
    parts: list[list[str]], most: int, random: object
) -> None:
    every = [heavy(names, most) for names in parts]
    while len(every) > 1:
        first = every.pop(random.randrange(len(every)))  # type: ignore[attr-defined]
        every[random.randrange(len(every))].merge(first)  # type: ignore[attr-defined]
    merged = every[0].result()
    exact = Counter(name for names in parts for name in names)
    assert len(merged.counts) <= most
    assert merged.error * (most + 1) <= exact.total()
    for name, number in exact.items():
        assert number - merged.error <= dict(merged.counts).get(name, 0) <= number


@given(NAMES, NAMES, NAMES)
def test_merging_few_names_is_associative_and_commutative(a: list[str], b: list[str], c: list[str]) -> None:
    def merged(*parts: list[str]) -> HeavyHitters:
        whole = HeavyHitters(12)
        for part in parts:
            whole.merge(heavy(part, 12))
        return whole

    left, right = merged(a, b), merged(b, c)
    left.merge(heavy(c, 12))
    before = heavy(a, 12)
    before.merge(right)
    assert left == before == merged(c, b, a) == heavy([*a, *b, *c], 12)


def test_a_summary_equals_nothing_else() -> None:
    assert examples([]) != []


def test_counts_that_are_merged_need_no_more_room_than_one() -> None:
    whole = HeavyHitters(most=2)
    for number in range(9):
        whole.merge(HeavyHitters.of(FrequentNames(2, 1, ((f"{number}a", 3), (f"{number}b", 1), ("often", 7)))))
        assert len(whole._counts) <= 4
    assert whole.result().error >= 9
    assert whole.result().counts[0][0] == "often"
    exact = HeavyHitters(2)
    for names in ("abb", "ccccbbb", "dddddddd"):
        exact.merge(heavy([*names], 2))
    assert (exact._counts, exact._error) == ({"a": 1, "b": 5, "c": 4, "d": 8}, 0)  # four are no more than may be
