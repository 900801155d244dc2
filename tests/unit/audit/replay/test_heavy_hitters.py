"""The most frequent names: exact while there are few, and never wrong by more than is said."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from hushlist.audit.replay.heavy_hitters import HeavyHitters

NAMES = st.lists(st.sampled_from("abcdefghijkl"), max_size=60)


def heavy(names: list[str], most: int) -> HeavyHitters:
    counts = HeavyHitters(most)
    for name in names:
        counts.add(name)
    return counts


@given(NAMES)
def test_few_names_are_counted_exactly(names: list[str]) -> None:
    counts = heavy(names, 12)
    assert (counts.trimmed().counts, counts.error) == (
        dict(sorted(Counter(names).items(), key=lambda i: (-i[1], i[0]))),
        0,
    )


@given(st.lists(NAMES, min_size=1, max_size=6), st.integers(1, 6), st.randoms(use_true_random=False))
def test_whatever_is_merged_in_whatever_order_no_count_is_wrong_by_more_than_the_error(
    parts: list[list[str]], most: int, random: object
) -> None:
    every = [heavy(names, most) for names in parts]
    while len(every) > 1:
        first = every.pop(random.randrange(len(every)))  # type: ignore[attr-defined]
        every[random.randrange(len(every))].merge(first)  # type: ignore[attr-defined]
    merged = every[0].trimmed()
    exact = Counter(name for names in parts for name in names)
    assert len(merged.counts) <= most
    assert merged.error * (most + 1) <= exact.total()
    for name, number in exact.items():
        assert number - merged.error <= merged.counts.get(name, 0) <= number


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


@given(NAMES, st.integers(1, 6))
def test_plain_types_keep_it(names: list[str], most: int) -> None:
    counts = heavy(names, most)
    plain = counts.as_dict()
    assert HeavyHitters(plain["most"], plain["counts"], plain["error"]) == counts  # type: ignore[arg-type]
