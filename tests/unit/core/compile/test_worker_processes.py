"""Work in several processes."""

import multiprocessing
import os
import sys

import pytest

from hushlist.core.compile import worker_processes
from hushlist.core.compile.worker_processes import Tell, WorkerError, Workers


@pytest.fixture(autouse=True)
def forking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes know this file's functions, also where an earlier test has left threads behind."""
    monkeypatch.setattr(worker_processes, "process_context", lambda: multiprocessing.get_context("fork"))


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_results_are_in_the_order_of_the_tasks(jobs: int) -> None:
    with Workers(jobs) as workers:
        assert list(workers.apply(abs, range(-100, 0))) == list(range(100, 0, -1))


def add(state: list[int], task: int, tell: Tell) -> None:
    state.append(task)
    tell(task)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_every_task_is_in_the_state_of_one_worker_and_its_steps_are_told(jobs: int) -> None:
    told: list[int] = []
    with Workers(jobs) as workers:
        for _ in range(2):  # each time with new states
            told.clear()
            sums = list(workers.fold(list, add, sum, range(100), told.append))
            assert len(sums) == jobs
            assert sum(sums) == sum(range(100))
            assert sorted(told) == list(range(100))


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_what_is_raised_for_a_task_is_raised_here(jobs: int) -> None:
    with Workers(jobs) as workers:
        assert list(workers.apply(int, ["1", "2"])) == [1, 2]
        with pytest.raises(ValueError, match="invalid literal for int") as caught:
            list(workers.apply(int, ["1", "a", "2"]))
        assert jobs == 1 or "in _serve" in caught.value.__notes__[0]
        assert list(workers.apply(int, ["3"])) == [3]


def end(task: int) -> int:
    if task == 7:
        os._exit(3)
    return task


def end_in_fold(_: object, task: int, __: Tell) -> None:
    end(task)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are never copied here")
@pytest.mark.parametrize("jobs", [2, 3])
def test_a_process_that_ends_early_is_an_error(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # copied, whatever threads the tests themselves have
    monkeypatch.setattr(worker_processes, "process_context", lambda: multiprocessing.get_context("fork"))
    with Workers(jobs) as workers, pytest.raises(WorkerError, match="ended before it had done its part"):
        list(workers.apply(end, [7] * 20))
    with Workers(jobs) as workers, pytest.raises(WorkerError):
        list(workers.fold(list, end_in_fold, sum, range(20), print))


@pytest.mark.slow
def test_no_process_is_left_behind() -> None:
    before = set(multiprocessing.active_children())
    with Workers(2) as workers:
        results = iter(workers.apply(abs, range(100)))
        next(results)
        assert len(set(multiprocessing.active_children()) - before) == 2
    assert set(multiprocessing.active_children()) == before
