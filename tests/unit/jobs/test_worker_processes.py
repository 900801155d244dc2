"""Work in several processes."""

from collections.abc import Iterator

import pytest

from hushlist.jobs.worker_processes import processes, watched


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_are_in_the_order_of_the_tasks(jobs: int) -> None:
    with processes(jobs) as parallel:
        assert list(parallel(abs, range(-100, 0))) == list(range(100, 0, -1))


@pytest.mark.parametrize("jobs", [1, 2])
def test_tasks_are_taken_as_they_are_needed(jobs: int) -> None:
    taken: list[int] = []

    def tasks() -> Iterator[int]:
        for number in range(1, 1_000):
            taken.append(number)
            yield number

    with processes(jobs) as parallel:
        results = iter(parallel(abs, tasks()))
        for number in range(1, 20):
            assert next(results) == number
            assert len(taken) <= number + 8


def test_progress_is_told_of_each_result() -> None:
    steps: list[tuple[str, int, int]] = []
    assert list(watched("done", "ab", 2, lambda *step: steps.append(step))) == ["a", "b"]
    assert steps == [("done", 1, 2), ("done", 2, 2)]
