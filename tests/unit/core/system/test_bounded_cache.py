"""What is remembered, and for how long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.system.memory import BoundedCache
from unit.core.match.plain_index import STEADY


def counting(most: int) -> tuple[BoundedCache[int, str], list[int]]:
    """A dictionary of texts of numbers, and the numbers that it was asked to make texts of."""
    made: list[int] = []

    def make(key: int) -> str:
        made.append(key)
        return str(key)

    return BoundedCache(make, most), made


def test_what_cannot_be_made_is_not_remembered() -> None:
    def fail(key: str) -> str:
        raise ValueError(key)

    recent = BoundedCache(fail, 4)
    for _ in range(2):
        with pytest.raises(ValueError, match="a"):
            recent["a"]
    assert len(recent) == 0


def test_what_is_asked_for_again_and_again_is_never_forgotten() -> None:
    recent, made = counting(8)
    for number in range(1000):
        assert (recent[-1], recent[number]) == ("-1", str(number))
    assert made.count(-1) == 1


@STEADY
@given(st.integers(2, 12), st.lists(st.integers(0, 20), max_size=80))
def test_it_is_bounded_and_remembers_half_for_certain(most: int, keys: list[int]) -> None:
    recent, made = counting(most)
    last: list[int] = []  # the latest first, each once
    for key in keys:
        before = len(made)
        assert recent[key] == str(key)
        assert len(made) == before or key not in last[: most // 2]
        last = [key, *(other for other in last if other != key)]
        assert len(recent) + len(recent._older) <= most
