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

import data
import decisions
import servers
import theirs
from timing import all_seconds, in_turns, processor_seconds
from workbench import Row, Workbench, at_least_times, at_most_times, row

sys.path.insert(0, str(data.ROOT / "tests"))

#: so many workers are measured
NUMBERS = (1, 2, 4)
SLICES = 4
PATHS = 5_000
#: of ApacheBench, in each round
REQUESTS = 3_000


def one_command(bench: Workbench) -> list[Row]:
    """Throughput of two workers of ``hushlist proxy``, and the processor time of a request, beside one mitmdump."""
    theirs.need_programs("nginx", "ab")
    folder, number = bench.folder / "one_command", 2
    policy = decisions.clear_policy(bench, bench.sizes.rules)
    options = {"flow_detail": 0, "hushlist_quiet": "true"}
    with servers.nginx(bench.folder / "nginx") as origin, ExitStack() as running:
        one = running.enter_context(servers.mitmdump(folder, origin, policy, options))
        several = running.enter_context(servers.mitmdump(folder, origin, policy, options, workers=number))
        runs = [partial(_answered, server, REQUESTS) for server in (one, several)]
        for run in runs:
            run()  # to warm up
        alone, together = (tuple(zip(*found, strict=True)) for found in in_turns(bench.sizes.rounds, *runs))
    what, peer = f"{number} workers of hushlist proxy", "one mitmdump with the filter"
    rates, times = f"{what}, new connections", f"{what}, processor time of a request"
    return [
        row(rates, "requests/s", together[0], peer=peer, theirs=alone[0], target=at_least_times(1.75)),
        row(times, "ms", together[1], scale=1e3, peer=peer, theirs=alone[1], target=at_most_times(1.05)),
    ]


def _answered(server: servers.Server, number: int) -> tuple[float, float]:
    """Requests a second of ApacheBench, each on a connection of its own, and the processor time of each in seconds."""
    before = all_seconds(server.process)
    command = ["ab", "-q", "-n", str(number), "-c", "16", "-X", f"{servers.LOOPBACK}:{server.port}"]
    done = subprocess.run([*command, f"http://{servers.HOST}/a"], capture_output=True, text=True, check=True)
    found = dict(re.findall(r"^(Failed requests|Requests per second): +([0-9.]+)", done.stdout, re.MULTILINE))
    if found["Failed requests"] != "0" or "Non-2xx" in done.stdout:
        raise RuntimeError(done.stdout)
    return float(found["Requests per second"]), (all_seconds(server.process) - before) / number


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
