"""The parts of ``peers.py`` about several workers: those of ``hushlist proxy``, and those behind HAProxy, as
``examples/fleet`` has them.

Everything shares the processors of one machine: wrk, nginx, HAProxy and the workers. So more workers than processors
carry no more; the processor time of a request tells what HAProxy costs.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from statistics import median
from time import perf_counter

import data
import decisions
import servers
import theirs
from timing import all_seconds, children_seconds, in_turns, processor_seconds
from workbench import Row, Workbench, at_least_times, at_most_times, row

from hushlist.core.system.platform import number_of_cores

sys.path.insert(0, str(data.ROOT / "tests"))

#: so many workers are measured
NUMBERS = (1, 2, 4)
SLICES = 4
PATHS = 5_000
#: of ApacheBench, in each round, by so many clients at once
REQUESTS = 3_000
CLIENTS = 16


def one_command(bench: Workbench) -> list[Row]:
    """Throughput of two workers of ``hushlist proxy``, and the processor time of a request, beside one mitmdump.

    Two mitmdumps at two ports, each with an ApacheBench of its own, show what the machine can do: they share nothing.
    Client and origin need the same processors; what they take, and what is left, stands in the note.
    """
    theirs.need_programs("nginx", "ab")
    folder, number = bench.folder / "one_command", 2
    policy = decisions.clear_policy(bench, bench.sizes.rules)
    options = {"flow_detail": 0, "hushlist_quiet": "true"}
    with servers.nginx(bench.folder / "nginx") as origin, ExitStack() as running:
        single, other = (running.enter_context(servers.mitmdump(folder, origin, policy, options)) for _ in range(2))
        several = running.enter_context(servers.mitmdump(folder, origin, policy, options, workers=number))
        runs = [partial(_answered, REQUESTS, origin, *which) for which in ((single,), (single, other), (several,))]
        for run in runs:
            run()  # to warm up
        alone, apart, together = (tuple(zip(*rounds, strict=True)) for rounds in in_turns(bench.sizes.rounds, *runs))
    peer, new, time = "one mitmdump with the filter", "new connections", "processor time of a request"
    what, bound = f"{number} workers of hushlist proxy", f"{number} mitmdumps at {number} ports"
    (rate, taken, others), cores = map(median, alone), number_of_cores()
    note = f"client and origin take {others * 1e3:.2f} ms of a request; so there is room for "
    note += f"{min(number / taken, cores / (taken + others)) / rate:.2f} times one mitmdump's"
    return [
        row(
            f"{what}, {new}",
            "requests/s",
            together[0],
            peer=peer,
            theirs=alone[0],
            target=at_least_times(1.75),
            note=note,
        ),
        row(
            f"{what}, {time}",
            "ms",
            together[1],
            scale=1e3,
            peer=peer,
            theirs=alone[1],
            target=at_most_times(1.05),
        ),
        row(f"{what}, {new}", "requests/s", together[0], peer=bound, theirs=apart[0]),
        row(f"{what}, {time}", "ms", together[1], scale=1e3, peer=bound, theirs=apart[1]),
    ]


def own_workers(bench: Workbench) -> list[Row]:
    """The processor time of a request by some workers of ``hushlist proxy``, beside that by one of them."""
    theirs.need_programs("nginx", "ab")
    folder, policy = bench.folder / "one_command", decisions.clear_policy(bench, bench.sizes.rules)
    options = {"flow_detail": 0, "hushlist_quiet": "true"}
    with servers.nginx(bench.folder / "nginx") as origin, ExitStack() as running:
        proxies = [
            running.enter_context(servers.mitmdump(folder, origin, policy, options, workers=number))
            for number in NUMBERS
        ]
        runs = [partial(_answered, REQUESTS, origin, proxy) for proxy in proxies]
        for run in runs:
            run()  # to warm up
        alone, *several = ([taken for _, taken, _ in rounds] for rounds in in_turns(bench.sizes.rounds, *runs))
    peer, target = "1 worker of hushlist proxy", at_most_times(1.05)
    return [
        row(
            f"{number} workers of hushlist proxy, processor time of a request",
            "ms",
            times,
            scale=1e3,
            peer=peer,
            theirs=alone,
            target=target,
        )
        for number, times in zip(NUMBERS[1:], several, strict=True)
    ]


def _answered(number: int, origin: servers.Server, *proxies: servers.Server) -> tuple[float, float, float]:
    """Requests a second, each on a connection of its own, and the processor time of each in seconds: what the proxies
    take, and what the clients and the origin do.

    Each proxy has its share of the ``number`` of requests, by an ApacheBench of its own.
    """

    def taken() -> tuple[float, float]:
        of_proxies = sum(all_seconds(proxy.process) for proxy in proxies)
        return of_proxies, children_seconds() + all_seconds(origin.process)

    before, start = taken(), perf_counter()
    running = [
        subprocess.Popen(
            [
                *("ab", "-q", "-n", str(number // len(proxies)), "-c", str(CLIENTS // len(proxies))),
                *("-X", f"{servers.LOOPBACK}:{proxy.port}", f"http://{servers.HOST}/a"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for proxy in proxies
    ]
    for process in running:
        printed = process.communicate()[0]
        if process.returncode or "Non-2xx" in printed or not re.search(r"^Failed requests: +0$", printed, re.MULTILINE):
            raise RuntimeError(printed)
    seconds = perf_counter() - start
    of_proxies, of_others = (now - then for now, then in zip(taken(), before, strict=True))
    return number / seconds, of_proxies / number, of_others / number


def workers(bench: Workbench) -> list[Row]:
    """Throughput of some workers behind HAProxy, beside that of one worker without it."""
    theirs.need_programs("nginx", "wrk", "haproxy")
    from e2e.haproxy import BALANCER, haproxy
    from e2e.origin import free_ports

    folder, seconds = bench.folder / "workers", bench.sizes.pair_seconds / SLICES
    policy = decisions.clear_policy(bench, bench.sizes.rules)
    urls = [f"http://{servers.HOST}{path}" for path in data.paths(PATHS)]
    with servers.nginx(bench.folder / "nginx") as origin, ExitStack() as running:
        options = {"hushlist_proxy_protocol": BALANCER, "flow_detail": 0, "termlog_verbosity": "error"}
        health = free_ports(max(NUMBERS))
        mitmdumps = [
            running.enter_context(
                servers.mitmdump(folder, origin, policy, options | {"hushlist_health": f"{servers.LOOPBACK}:{port}"})
            )
            for port in health
        ]
        fronts = [servers.Server(mitmdumps[0].port, mitmdumps[0].process)]
        for number in NUMBERS:
            own = folder / f"haproxy-{number}"
            own.mkdir(exist_ok=True)
            ports = [(one.port, port) for one, port in zip(mitmdumps[:number], health, strict=False)]
            front = running.enter_context(haproxy(own, ports, adapt=_spread))
            fronts.append(servers.Server(front.port, front.pid))
        asked = [partial(_carried, folder, front, mitmdumps, urls, seconds) for front in fronts]
        for ask in asked:
            ask()  # to warm up
        without, *behind = in_turns(SLICES, *asked)
    return [*_rows(without, dict(zip(NUMBERS, behind, strict=True)))]


def _spread(configuration: str) -> str:
    """All connections come from one address here, so that they must not stay with one worker."""
    return configuration.replace("    balance source\n    hash-type consistent\n", "    balance leastconn\n")


def _carried(
    folder, front: servers.Server, mitmdumps: list[servers.Server], urls: list[str], seconds: float
) -> tuple[float, float]:
    """Requests a second, and the processor time of each in seconds."""
    processes = {front.process, *(one.process for one in mitmdumps)}
    before = sum(map(processor_seconds, processes))
    answered = servers.wrk(folder, front, urls, seconds)
    taken = sum(map(processor_seconds, processes)) - before
    return answered.requests / answered.seconds, taken / answered.requests


def _rows(without: list[tuple[float, float]], behind: dict[int, list[tuple[float, float]]]) -> Iterator[Row]:
    peer = "one worker without HAProxy"
    bare_rates, bare_times = zip(*without, strict=True)
    for number, carried in behind.items():
        rates, times = zip(*carried, strict=True)
        what = f"{number} worker{'' if number == 1 else 's'} behind HAProxy"
        yield row(what, "requests/s", rates, peer=peer, theirs=bare_rates)
        yield row(f"{what}, processor time of a request", "ms", times, scale=1e3, peer=peer, theirs=bare_times)
