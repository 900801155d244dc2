"""Summaries of a stream: the same whatever the order, however it was divided, and never more wrong than they say."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from hushlist.audit.replay.stream_summaries import Examples, FrequentNames, HeavyHitters
from hushlist.audit.sources.recorded_request import RecordedRequest

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
    kept = [name for name, _ in whole]
    assert len(set(kept)) == min(3, len({name for name, _ in records}))
    assert all(kept.count(name) == min(2, len({n for own, n in records if own == name})) for name in kept)


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
