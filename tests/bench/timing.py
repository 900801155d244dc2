"""What the benchmarks share: medians of rounds in turns, fresh processes, what a process takes, where it ran."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import starmap
from multiprocessing import get_context
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def seconds(run: Callable[[], object]) -> float:
    """Median of five runs after one to warm up."""
    run()
    return statistics.median(once(run) for _ in range(5))


def once(run: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds that one run takes, by a clock."""
    start = clock()
    run()
    return clock() - start


def drain(function: Callable[..., object], *columns: Iterable[object]) -> float:
    """Seconds for one call with each row of the columns; nothing but the calls is in the loop."""
    calls = map(function, *columns)
    return once(lambda: deque(calls, maxlen=0))


def each(function: Callable[..., object], *columns: Iterable[object]) -> list[float]:
    """Seconds of every single call, less what reading the clock takes."""
    clock = time.perf_counter_ns
    ticks = []
    for _ in range(10_000):
        start = clock()
        ticks.append(clock() - start)
    overhead = statistics.median(ticks)
    times = []
    for row in zip(*columns, strict=False):
        start = clock()
        function(*row)
        times.append(clock() - start)
    return [(taken - overhead) / 1e9 for taken in times]


def first_and_again(function: Callable[..., object], rows: Sequence[Sequence[object]]) -> tuple[float, float]:
    """Seconds of processor time of one call: of the first with each row, and of the median of five later rounds."""
    taken = [once(lambda: deque(starmap(function, rows), maxlen=0), time.process_time) / len(rows) for _ in range(6)]
    return taken[0], statistics.median(taken[1:])


def percentile(values: Iterable[float], percent: float) -> float:
    """The smallest value that so many percent are not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def in_turns(rounds: int, *runs: Callable[[], T]) -> list[list[T]]:
    """The results of each run, one a round; every other round goes backwards, so that no one is always the first."""
    results: list[list[T]] = [[] for _ in runs]
    for number in range(rounds):
        places = range(len(runs))
        for place in reversed(places) if number % 2 else places:
            results[place].append(runs[place]())
    return results


def in_child(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """The function's result, from a fresh process: nothing is loaded there, cached, or fragmented."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments, **named).result()


def resident() -> int:
    """Octets of memory that this process holds: VmRSS, mapped files included."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise OSError("the system does not tell VmRSS")


def processor_seconds(process: int) -> float:
    """Seconds of processor time that a process has taken until now."""
    # the fields behind the name, which may hold anything: utime and stime are the 14th and 15th of all
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def all_seconds(process: int) -> float:
    """Seconds of processor time of a process, and of those that it has begun and that run."""
    begun = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return processor_seconds(process) + sum(map(processor_seconds, map(int, begun)))


def children_seconds() -> float:
    """Seconds of processor time that all processes begun from here took, and those that they waited for."""
    times = os.times()
    return times.children_user + times.children_system


def private(process: int) -> int:
    """Octets of memory that a process shares with no other."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("Private_Clean:", "Private_Dirty:")))


def processor() -> str:
    """The name of the processor, as far as the system tells."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())
