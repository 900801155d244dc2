"""The engine of all long work: worker processes apply functions to tasks, or count tasks into a state of their own.

>>> with Workers(1) as workers: list(workers.apply(abs, [-1, -2]))
[1, 2]

Functions, tasks and results must be picklable, unless there is only one job.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import Any, NamedTuple, Self, TypeVar

from hushlist.core.errors import HushlistError
from hushlist.core.system.package_code import OTHER_CODE, loaded_digest
from hushlist.core.system.platform import number_of_cores

if sys.platform == "win32":
    from multiprocessing.connection import PipeConnection as Connection

    ProcessContext = SpawnContext
else:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkContext

    ProcessContext = ForkContext | SpawnContext

#: called with the name of the work, how much of it is done, and how much there is
Progress = Callable[[str, int, int], object]
#: called with a step that a worker has done within a task
Tell = Callable[[Any], object]

Task = TypeVar("Task")
Result = TypeVar("Result")
State = TypeVar("State")

#: tasks per worker that are taken ahead of the results
_AHEAD = 4


class WorkerError(HushlistError):
    """A worker process ended too early, or could not do its part."""

    def __init__(self, why: str = "a process ended before it had done its part") -> None:
        super().__init__(why)


class Workers:
    """Processes that wait for tasks; with one job there is none, and this process does the work.

    A thread for each process hands it a task, and waits for the result. So all processes work while the caller uses
    the results that it has.
    """

    def __init__(self, jobs: int | None = None, progress: Progress | None = None) -> None:
        """``jobs``: how many processes; by default one for each core."""
        self.jobs = jobs or number_of_cores()
        self._progress = progress
        self._processes: list[tuple[BaseProcess, Connection]] = []
        self._idle: SimpleQueue[Connection] = SimpleQueue()
        self._threads = ThreadPoolExecutor(self.jobs)
        self._telling = threading.Lock()

    def __enter__(self) -> Self:
        if self.jobs == 1:
            return self
        context = process_context()
        for _ in range(self.jobs):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, loaded_digest()), daemon=True)
            process.start()
            theirs.close()  # so that reading from it ends when the process does
            self._processes.append((process, ours))
            self._idle.put(ours)
        return self

    def __exit__(self, *_: object) -> None:
        for process, _connection in self._processes:
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process, connection in self._processes:
            process.join()
            connection.close()

    def show(self, what: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(what, done, total)

    def map(self, what: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Like ``apply``; reports how many tasks are done, under the name of the work."""
        for done, result in enumerate(self.apply(function, tasks), 1):
            self.show(what, done, len(tasks))
            yield result

    def apply(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """The results, in the tasks' order; takes tasks only as they are needed.

        Raises:
            WorkerError: a process ended before its work was done.
        """
        if self.jobs == 1:
            yield from map(function, tasks)
            return
        waiting: deque[Future[Result]] = deque()
        for task in tasks:
            waiting.append(self._threads.submit(self._in_any, function, task, _no_steps))
            if len(waiting) >= self.jobs * _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def fold(
        self,
        make: Callable[[], State],
        add: Callable[[State, Task, Tell], object],
        give: Callable[[State], Result],
        tasks: Iterable[Task],
        tell: Tell,
    ) -> Iterator[Result]:
        """Each worker makes a state, adds to it the tasks that it gets, and gives its result in the end.

        The results come one by one: they may be large.

        ``add`` may tell steps within a task; ``tell`` is called with them, one at a time.

        Raises:
            WorkerError: a process ended before its work was done.
        """
        if self.jobs == 1:
            state = make()
            for task in tasks:
                add(state, task, tell)
            yield give(state)
            return
        list(self._in_each(_begin, make))
        waiting: set[Future[Any]] = set()
        for task in tasks:
            waiting.add(self._threads.submit(self._in_any, partial(_add, add), task, tell))
            if len(waiting) > self.jobs:  # the next task is ready when a process is
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
        for future in waiting:
            future.result()
        yield from self._in_each(_end, give)

    def _in_any(self, function: Callable[[Any], Any], task: object, tell: Tell) -> Any:
        """The result of a function in a process that is free."""
        connection = self._idle.get()
        try:
            _send(connection, function, task)
            return self._answer(connection, tell)
        finally:
            self._idle.put(connection)

    def _in_each(self, function: Callable[[Any], Any], task: object) -> Iterator[Any]:
        """The results of a function in every process; all are free."""
        for _, connection in self._processes:
            _send(connection, function, task)
        for _, connection in self._processes:
            yield self._answer(connection, _no_steps)

    def _answer(self, connection: Connection, tell: Tell) -> Any:
        while isinstance(message := _receive(connection), _Step):
            with self._telling:
                tell(message.step)
        result, fault = message
        if fault is not None:
            raise fault
        return result


def _send(connection: Connection, function: Callable[[Any], Any], task: object) -> None:
    try:
        _write(connection, (function, task))
    except OSError as error:
        raise WorkerError from error


def _write(connection: Connection, thing: object) -> None:
    """Like ``Connection.send``, which leaves a buffer behind where it fails: Python 3.13 warns of that."""
    connection.send_bytes(pickle.dumps(thing))


def _receive(connection: Connection) -> Any:
    try:
        return connection.recv()
    except (EOFError, OSError) as error:
        raise WorkerError from error


def _no_steps(_: object) -> None:
    """For functions that tell no steps."""


def process_context() -> ProcessContext:
    """How to start other processes: by forking, which is fastest, if that is safe."""
    # A process with threads must not fork: in the copy, a lock that a thread holds stays locked for ever.
    if sys.platform == "linux" and threading.active_count() == 1:
        return multiprocessing.get_context("fork")
    return multiprocessing.get_context("spawn")


# -- in a worker -------------------------------------------------------------------------------------------------------


class _Step(NamedTuple):
    """What a worker sends before the result of a task."""

    step: Any


#: the state of ``fold``, and the connection for its steps
_states: list[Any] = []
_connections: list[Connection] = []


#: new objects between two searches for cycles: a task makes hundreds of thousands, nearly none in a cycle
BETWEEN_COLLECTIONS = 1 << 16


def _serve(connection: Connection, code: str) -> None:
    """The loop of a worker: it gets a function and a task, and sends the result; it has to be of the parent's code."""
    _end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it, and ends this process
    gc.freeze()
    gc.set_threshold(BETWEEN_COLLECTIONS)
    _connections[:] = [connection]
    is_other = code != loaded_digest()
    with suppress(EOFError, OSError):  # the parent has ended
        while True:
            octets = connection.recv_bytes()
            if is_other:  # what a version has pickled, another one may read as something else
                _write(connection, (None, WorkerError(OTHER_CODE)))
                continue
            function, task = pickle.loads(octets)  # noqa: S301  from the parent
            answer: tuple[Any, Exception | None]
            try:
                answer = function(task), None
            except HushlistError as error:  # what it carries may not be picklable
                answer = None, WorkerError(str(error))
            except Exception as error:  # the parent raises it again, and has no trace of it
                error.add_note(traceback.format_exc())
                answer = None, error
            _write(connection, answer)


def _end_with_parent() -> None:
    """End this process when its parent ends; it would wait for tasks for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def _begin(make: Callable[[], Any]) -> None:
    _states[:] = [make()]


def _add(add: Callable[[Any, Any, Tell], object], task: object) -> None:
    add(_states[0], task, lambda step: _write(_connections[0], _Step(step)))


def _end(give: Callable[[Any], Any]) -> Any:
    return give(_states.pop())
