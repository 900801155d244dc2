"""The parts of ``peers.py`` that go through a real proxy: proxy, instructions, private memory, reload.

The proxy is mitmdump; its peer is itself without the filter. Where it is to answer as much as it can, wrk asks: it is
in C, and with nginx it needs little of the second processor, while a client in Python would be slower than the
proxy. Where requests come at a fixed rate, a client of our own asks: it sends each when its time has come, whatever
became of those before, and counts from then, so that a proxy which stops for a while cannot hide it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

import data
import decisions
import ours
import servers
import theirs
from timing import in_turns, once, percentile, processor_seconds
from workbench import Row, Workbench, at_least_times, at_most, at_most_times, row

#: so many that no cache of single URLs makes them cheap
PATHS = 5_000
#: mitmproxy as the filter changes it, without the filter
CHANGED = Path(__file__).with_name("changed_mitmproxy.py")
#: how often each proxy of a pair is asked for a while
SLICES = 4
#: what a host is answered with once it is on the list
BLOCKED = 403
#: seconds between two looks whether new rules are in force
LOOK = 0.05
#: of a list, in the part "update"
UPDATES = 5
SHIPPED = "the shipped policy"
#: seconds for which a proxy is counted that nobody asks
IDLE = 5.0
#: seconds after its start in which a proxy does what it does once; valgrind makes them long
SETTLING = 30.0


def _urls() -> list[str]:
    return [f"http://{servers.HOST}{path}" for path in data.paths(PATHS)]


def proxy(bench: Workbench) -> list[Row]:
    """Throughput of the proxy with the filter, beside that without it, in pairs."""
    theirs.need_programs("nginx", "wrk")
    peer, note = "without the filter", f"{bench.sizes.pairs} pairs; a change of how mitmproxy calls its addons included"
    rows = []
    for name, policy in _policies(bench).items():
        with servers.nginx(bench.folder / "nginx") as origin:
            own, other = zip(*(_pair(bench, origin, policy) for _ in range(bench.sizes.pairs)), strict=True)
        rates, bare_rates = ([one.rate for one in ones] for ones in (own, other))
        times, bare_times = ([one.processor for one in ones] for ones in (own, other))
        left = [rate / bare * 100 for rate, bare in zip(rates, bare_rates, strict=True)]
        what = f"proxy with {name}"
        rows += [
            row(what, "requests/s", rates, peer=peer, theirs=bare_rates),
            row(f"{what}, throughput that is left", "%", left, note=note),
            row(f"{what}, processor time of a request", "ms", times, scale=1e3, peer=peer, theirs=bare_times),
        ]
    return rows


def logging(bench: Workbench) -> list[Row]:
    """What a log of all requests costs a proxy: requests and processor time, beside one without a log."""
    theirs.need_programs("nginx", "wrk")
    source = {"file": str(data.domain_list(bench.lists, bench.sizes.rules)), "format": "domains"}
    policies = [
        ours.compile_policy(ours.write_lists(bench.folder / "logging" / name, source, **settings))
        for name, settings in (("all", {"log": {"what": "all", "folder": "log"}}), ("none", {}))
    ]
    with servers.nginx(bench.folder / "nginx") as origin:
        logged, unlogged = zip(*(_pair(bench, origin, *policies) for _ in range(bench.sizes.pairs)), strict=True)
    rates, bare_rates, times, bare_times = (
        [getattr(carried, name) for carried in ones] for name in ("rate", "processor") for ones in (logged, unlogged)
    )
    measure, peer = "proxy that logs all", "without a log"
    return [
        row(measure, "requests/s", rates, peer=peer, theirs=bare_rates, target=at_least_times(0.97)),
        row(f"{measure}, processor time of a request", "ms", times, scale=1e3, peer=peer, theirs=bare_times),
    ]


def _policies(bench: Workbench) -> dict[str, Path]:
    """With which a proxy is measured, compiled."""
    return {
        SHIPPED: decisions.shipped_policy(bench),
        f"{bench.sizes.rules:,} domains": decisions.clear_policy(bench, bench.sizes.rules),
    }


@dataclass(frozen=True, slots=True)
class _Carried:
    """What one proxy of a pair carried."""

    #: requests a second
    rate: float
    #: seconds of processor time that each took, which tells more where others use the machine too
    processor: float


def _pair(bench: Workbench, origin: servers.Server, policy: Path, other_policy: Path | None = None) -> list[_Carried]:
    """What was carried with one policy and with another one, or without the filter.

    Both proxies are started anew; they are asked in turns, so that what else the machine does falls on both alike.
    """
    folder, urls, seconds = bench.folder / "proxy", _urls(), bench.sizes.pair_seconds / SLICES
    with servers.mitmdump(folder, origin, policy) as first, servers.mitmdump(folder, origin, other_policy) as second:
        proxies = (first, second)
        for one in proxies:
            servers.wrk(folder, one, urls, 1)  # to warm up
        before = [processor_seconds(one.process) for one in proxies]
        answered = in_turns(SLICES, *(partial(servers.wrk, folder, one, urls, seconds) for one in proxies))
        taken = [processor_seconds(one.process) - start for one, start in zip(proxies, before, strict=True)]
    return [_carried(slices, seconds) for slices, seconds in zip(answered, taken, strict=True)]


def _carried(slices: list[servers.Answered], processor: float) -> _Carried:
    requests = sum(one.requests for one in slices)
    return _Carried(requests / sum(one.seconds for one in slices), processor / requests)


# -- Instructions ------------------------------------------------------------------------------------------------


def instructions(bench: Workbench) -> list[Row]:
    """Instructions that the proxy spends on a request, more with the filter than with its changes of mitmproxy alone.

    The rest of the machine hardly changes them, where throughput differs from one process to the next. Only those of
    some requests are counted, after others; so nothing of the start is among them.
    """
    theirs.need_programs("nginx", "valgrind", "callgrind_control")
    policies, folder = _policies(bench), bench.folder / "instructions"
    with servers.nginx(bench.folder / "nginx") as origin, ThreadPoolExecutor(os.cpu_count()) as pool:
        each = [
            pool.submit(_counted, folder / str(number), origin, policy, bench.sizes.counted, (CHANGED,) * (number == 1))
            for number, policy in enumerate((None, None, *policies.values()))
        ]
        bare, changed, *own = [one.result() for one in each]
    return [
        row(
            f"instructions that the filter adds to those of a request in mitmproxy as it changes it, {name}",
            "%",
            [(count / changed - 1) * 100],
            target=at_most(6 if name == SHIPPED else 4),
            note=f"{count:,.0f}; {changed:,.0f} with its changes alone, {bare:,.0f} without them",
        )
        for name, count in zip(policies, own, strict=True)
    ]


def _counted(
    folder: Path, origin: servers.Server, policy: Path | None, requests: int, scripts: Sequence[Path] = ()
) -> float:
    """Instructions of a proxy for one of so many requests, one after the other, when half as many were answered.

    Under valgrind, a request takes a hundred times as long. What a proxy does by itself each second would then count
    for more than it takes; so it is counted alone for a while, and left out. What it does once after its start, such as
    reading its code to notice when that changes, is over before.
    """
    out = folder / "callgrind"
    for old in folder.glob("callgrind.*"):
        old.unlink()
    runner = ("valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}")
    with servers.mitmdump(folder, origin, policy, runner=runner, scripts=scripts) as server:
        client = HTTPConnection(servers.LOOPBACK, server.port, timeout=servers.PATIENCE)
        urls = itertools.cycle(_urls())
        _ask(client, itertools.islice(urls, requests // 2))
        time.sleep(SETTLING)
        _control(server, "-i", "on")
        taken = once(lambda: _ask(client, itertools.islice(urls, requests)))
        _control(server, "-d")
        idle = once(lambda: time.sleep(IDLE))
        _control(server, "-d")
        _control(server, "-i", "off")
        client.close()
    busy, alone = (_total(out.with_name(f"{out.name}.{number}")) for number in (1, 2))
    return (busy - alone / idle * taken) / requests


def _total(counts: Path) -> int:
    """The instructions in a file of callgrind's."""
    if not (total := re.search(r"^totals: (\d+)", counts.read_text(), re.MULTILINE)):
        raise RuntimeError(f"callgrind counted nothing: {counts}")
    return int(total[1])


def _ask(client: HTTPConnection, urls: Iterable[str]) -> None:
    for url in urls:
        client.request("GET", url)
        answer = client.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{url} was answered with {answer.status}")


def _control(server: servers.Server, *what: str) -> None:
    """Have callgrind begin to count, write what it has counted, or end."""
    subprocess.run(["callgrind_control", *what, str(server.process)], check=True, capture_output=True)


# -- Memory ------------------------------------------------------------------------------------------------------


def private(bench: Workbench) -> list[Row]:
    """Memory that the filter adds to a proxy after a while of what ``soak.py`` asks for."""
    theirs.need_programs("nginx")
    theirs.need_package("httpx")
    import soak

    policy, minutes = decisions.clear_policy(bench, bench.sizes.rules), bench.sizes.soak_minutes
    (own, answered), (bare, _) = (soak.private_memory(bench.folder / "soak", minutes, one) for one in (policy, None))
    return [
        row(
            f"private memory that {bench.sizes.rules:,} domains add to the proxy",
            "MB",
            [own - bare],
            scale=1e-6,
            target=at_most(30),
            note=f"{own / 1e6:.0f} MB with the filter, {bare / 1e6:.0f} without; {answered:,} answers of soak.py's",
        )
    ]


# -- Reloading ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Load:
    """What became of requests that came at a fixed rate."""

    #: seconds from when it was to be sent to the end of its answer
    times: list[float] = field(default_factory=list)
    failed: int = 0
    #: seconds from a change of a list until it was in force
    reloads: list[float] = field(default_factory=list)


def reload(bench: Workbench) -> list[Row]:
    """Latency and losses while one change of the list after another is compiled."""
    theirs.need_programs("nginx")
    folder = bench.folder / "reload"
    folder.mkdir(parents=True, exist_ok=True)
    rules = folder / "changing.domains"
    shutil.copyfile(data.domain_list(bench.lists, bench.sizes.rules), rules)
    policy = ours.compiled(folder, rules, "domains")
    with servers.nginx(bench.folder / "nginx") as origin, servers.mitmdump(folder, origin, policy) as server:
        client = _Client(server.port, bench.sizes.rate, bench.sizes.reload_seconds)
        client.run(None)  # to warm up
        changed, unchanged = in_turns(bench.sizes.rounds, lambda: client.run(rules), lambda: client.run(None))
    reloads = [taken for load in changed for taken in load.reloads]
    if not reloads:
        raise RuntimeError("no change of the list came into force")
    peer = "without a reload"
    note = f"{bench.sizes.rate} requests/s for {bench.sizes.reload_seconds:g} s a round, one reload after another"
    rows = [
        row(
            f"reload, {percent:g}th percentile",
            "ms",
            [percentile(load.times, percent) for load in changed],
            scale=1e3,
            peer=peer,
            theirs=[percentile(load.times, percent) for load in unchanged],
            target=at_most_times(1.5) if percent == 99 else None,
            note=note,
        )
        for percent in (50, 99)
    ]
    lost = sum(load.failed for load in changed)
    asked = sum(len(load.times) + load.failed for load in changed)
    kept = [sum(load.failed for load in unchanged)]
    what = "reload, requests lost"
    rows.append(row(what, "requests", [lost], peer=peer, theirs=kept, target=at_most(0), note=f"of {asked:,}"))
    note = f"{bench.sizes.rules:,} rules; {len(reloads)} reloads"
    rows.append(row("reload, from a change until it is in force", "s", reloads, note=note))
    return rows


def update(bench: Workbench) -> list[Row]:
    """From a list of which 1 % of the lines have changed until it is in force, in a proxy that does nothing else."""
    theirs.need_programs("nginx")
    folder = bench.folder / "update"
    shutil.rmtree(folder, ignore_errors=True)  # the changes are those of an earlier run, whose indexes would be found
    folder.mkdir(parents=True)
    rules, numbers = folder / "updated.domains", random.Random(1)
    shutil.copyfile(data.domain_list(bench.lists, bench.sizes.rules), rules)
    policy = ours.compiled(folder, rules, "domains")
    with servers.nginx(bench.folder / "nginx") as origin, servers.mitmdump(folder, origin, policy) as server:
        client = _Client(server.port, 0, 0)
        taken = asyncio.run(client.updates(partial(_update, rules, numbers), UPDATES))
    note = f"{bench.sizes.rules:,} rules, one of 200 gone, and as many new ones; {UPDATES} times"
    return [
        row("an update of 1 %, from the changed file until it is in force", "s", taken, target=at_most(1), note=note)
    ]


def _update(rules: Path, numbers: random.Random, host: str) -> None:
    """Put a new version of a list in place of one: with a host more, others in between, and without some."""
    lines = rules.read_bytes().splitlines(keepends=True)
    for at in sorted(numbers.sample(range(1, len(lines)), len(lines) // 100), reverse=True):
        lines[at : at + 1] = [lines[at], b"new%d.%b" % (numbers.randrange(10**9), lines[at])] if at % 2 else []
    draft = rules.with_suffix(".draft")
    draft.write_bytes(b"".join(lines) + f"{host}\n".encode())
    draft.replace(rules)


class _Client:
    """Sends requests at a fixed rate through a proxy, over as many connections as that takes."""

    #: over all rounds, so that no host is added to the list twice
    markers = itertools.count()

    def __init__(self, port: int, rate: int, seconds: float) -> None:
        self._port, self._rate, self._seconds = port, rate, seconds
        self._urls = _urls()
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    def run(self, rules: Path | None) -> Load:
        """The load, while ``rules`` is changed again and again if it is given."""
        return asyncio.run(self._run(rules))

    async def _run(self, rules: Path | None) -> Load:
        load = Load()
        self._free = []
        end = time.monotonic() + self._seconds
        changing = asyncio.create_task(self._change(rules, load, end)) if rules else None
        start = time.monotonic()
        requests = []
        for number in range(int(self._rate * self._seconds)):
            due = start + number / self._rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            requests.append(asyncio.create_task(self._request(self._urls[number % len(self._urls)], due, load)))
        await asyncio.gather(*requests)
        if changing:
            await changing
        for _, writer in self._free:
            writer.close()
        return load

    async def _request(self, url: str, due: float, load: Load) -> None:
        if await self._status(url) == 200:
            load.times.append(time.monotonic() - due)
        else:
            load.failed += 1

    async def _status(self, url: str) -> int:
        """The status of the answer, or 0 where there is none."""
        try:
            return await asyncio.wait_for(self._ask(url), 30)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            return 0

    async def _ask(self, url: str) -> int:
        """Ask over a connection that is free, or else a new one; the whole answer is read."""
        reader, writer = self._free.pop() if self._free else await asyncio.open_connection(servers.LOOPBACK, self._port)
        host = url.split("/")[2]
        writer.write(f"GET {url} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        _, _, length = head.partition("\r\ncontent-length:")
        await reader.readexactly(int(length.split()[0]) if length else 0)
        if "\r\nconnection: close" in head:
            writer.close()
        else:
            self._free.append((reader, writer))
        return int(head.split()[1])

    async def _change(self, rules: Path, load: Load, end: float) -> None:
        """Add a host to the list, wait until it is blocked, and so on; each reload begun is waited for."""

        def add(host: str) -> None:
            with rules.open("a") as file:
                file.write(f"{host}\n")

        while time.monotonic() < end:
            load.reloads.append(await self.until_in_force(add, load))

    async def updates(self, change: Callable[[str], object], number: int) -> list[float]:
        """The seconds of so many changes, one after the other."""
        return [await self.until_in_force(change) for _ in range(number)]

    async def until_in_force(self, change: Callable[[str], object], load: Load | None = None) -> float:
        """Have a host added to the list, and wait until it is blocked; the seconds."""
        load, host = load or Load(), f"marker{next(self.markers)}.reload.example"
        change(host)
        start = time.monotonic()
        while time.monotonic() - start < servers.PATIENCE:
            await asyncio.sleep(LOOK)
            status = await self._status(f"http://{host}/")
            load.failed += not status
            if status == BLOCKED:
                return time.monotonic() - start
        raise RuntimeError(f"{host} is not blocked after {servers.PATIENCE:g} s")
