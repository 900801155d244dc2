"""Work in several processes: a function is applied to tasks, the results come in the tasks' order.

>>> with processes(1) as parallel: list(parallel(abs, [-1, -2]))
[1, 2]
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing.context import ForkContext, SpawnContext
from typing import Any

#: is called with what is done, how much of it, and how much there is to do
Progress = Callable[[str, int, int], object]
#: applies a function to all tasks, perhaps in other processes; the results are in the order of the tasks
Parallel = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

#: tasks of one process that are made, and not done, at a time: so many hide how long some take
_AHEAD = 4


@contextmanager
def processes(jobs: int) -> Iterator[Parallel]:
    """What applies a function to tasks in so many processes; tasks are taken as they are needed.

    Raises:
        BrokenExecutor: a process ended before it had done its part.
    """
    if jobs == 1:
        yield map
        return
    with ProcessPoolExecutor(jobs, process_context(), end_with_parent) as pool:
        yield partial(_apply, pool, jobs * _AHEAD)


def _apply(pool: ProcessPoolExecutor, most: int, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
    """As ``pool.map``, which takes all tasks at once, however many there are."""
    waiting: deque[Future[Any]] = deque()
    try:
        for task in tasks:
            waiting.append(pool.submit(function, task))
            if len(waiting) >= most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def watched(what: str, results: Iterable[Any], total: int, progress: Progress) -> Iterator[Any]:
    """The results, with progress told of each."""
    for done, result in enumerate(results, 1):
        progress(what, done, total)
        yield result


def silent(*_: object) -> None:
    """No progress is shown."""


def process_context() -> ForkContext | SpawnContext:
    """How other processes are started: copied where that is safe, which is the fastest."""
    # A process that has threads is not copied: one of them might hold a lock for ever.
    can_fork = sys.platform == "linux" and threading.active_count() == 1
    return multiprocessing.get_context("fork") if can_fork else multiprocessing.get_context("spawn")


def end_with_parent() -> None:
    """Have this process end when the one does that started it, however that ends: it would wait for tasks for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
