"""Worker processes apply a function to tasks; the results come in the tasks' order.

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

#: called with the name of the work, how much of it is done, and how much there is
Progress = Callable[[str, int, int], object]
#: applies a function to all tasks, perhaps in other processes; gives the results in the tasks' order
Parallel = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

#: queued tasks per worker
_AHEAD = 4


@contextmanager
def processes(jobs: int) -> Iterator[Parallel]:
    """Start ``jobs`` processes; the ``Parallel`` applies functions in them, and takes tasks only as they are needed.

    Raises:
        BrokenExecutor: a process ended before its work was done.
    """
    if jobs == 1:
        yield map
        return
    with ProcessPoolExecutor(jobs, process_context(), end_with_parent) as pool:
        yield partial(_apply, pool, jobs * _AHEAD)


def _apply(pool: ProcessPoolExecutor, most: int, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
    """Like ``pool.map``, but takes few tasks at a time."""
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
    """The results; calls ``progress`` after each."""
    for done, result in enumerate(results, 1):
        progress(what, done, total)
        yield result


def silent(*_: object) -> None:
    """Show no progress."""


def process_context() -> ForkContext | SpawnContext:
    """How to start other processes: by forking, which is fastest, if that is safe."""
    # A process with threads must not fork: in the copy, a lock that a thread holds stays locked for ever.
    can_fork = sys.platform == "linux" and threading.active_count() == 1
    return multiprocessing.get_context("fork") if can_fork else multiprocessing.get_context("spawn")


def end_with_parent() -> None:
    """End this process when its parent ends; it would wait for tasks for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
