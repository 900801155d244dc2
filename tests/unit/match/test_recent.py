"""What is remembered, and for how long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.match.recent import Recent
from unit.match.plain_index import STEADY


def test_what_was_put_last_is_found() -> None:
    recent: Recent[str, int] = Recent(4)
    assert recent.get("a") is None
    recent.put("a", 0)
    assert recent.get("a") == 0
    recent.put("a", 2)
    assert recent.get("a") == 2


def test_the_half_that_was_not_asked_for_lately_is_forgotten() -> None:
    recent: Recent[int, int] = Recent(4)
    for key in range(4):
        recent.put(key, key)
    assert len(recent) == 4
    recent.put(4, 4)
    assert [recent.get(key) for key in (0, 1)] == [None, None]
    assert [recent.get(key) for key in (4, 3, 2)].count(None) <= 1


def test_what_is_asked_for_again_and_again_is_never_forgotten() -> None:
    recent: Recent[str, int] = Recent(8)
    recent.put("kept", 1)
    for number in range(1000):
        recent.put(f"other {number}", number)
        assert recent.get("kept") == 1


def test_what_is_found_in_the_older_half_comes_again_and_is_there_once() -> None:
    recent: Recent[str, int] = Recent(4)
    for key in "abc":
        recent.put(key, 1)
    assert recent.get("a") == 1
    assert len(recent) == 3


@pytest.mark.parametrize("most", [2, 3, 8, 9, 100])
def test_it_is_bounded_and_remembers_half_for_certain(most: int) -> None:
    recent: Recent[int, int] = Recent(most)
    for key in range(10 * most):
        recent.put(key, key)
        assert len(recent) <= most
        assert all(recent.get(last) == last for last in range(max(0, key - most // 4), key + 1))


@STEADY
@given(st.integers(2, 12), st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(1, 99)), max_size=80))
def test_it_is_a_dictionary_that_forgets(most: int, steps: list[tuple[int, int | None]]) -> None:
    recent: Recent[int, int] = Recent(most)
    model: dict[int, int] = {}
    last: list[int] = []  # what was put or found, the latest first, each once
    for key, value in steps:
        if value is None:
            found = recent.get(key)
            assert found in (None, model.get(key))
            assert found is not None or key not in last[: most // 2]
        else:
            recent.put(key, value)
            model[key] = found = value
        if found is not None:
            last = [key, *(other for other in last if other != key)]
        assert len(recent) <= most
