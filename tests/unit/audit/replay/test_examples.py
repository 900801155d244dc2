"""Examples: the same whatever the order, and however records were divided."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hushlist.audit.replay.examples import Examples
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
