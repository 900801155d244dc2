"""A school's day in a few minutes: do all pages come, does the filter stay quick, memory flat, and the log whole?

    pip install -e '.[bench,test]'
    python tests/bench/school.py [--minutes N] [--pupils N] [--pages N] [--workers N] [--check] [--folder FOLDER]

It needs Linux, nginx, and the recorded pages of ../shared (HUSHLIST_SHARED may name another place). The workers of
``hushlist proxy`` filter for pupils, each with an address of its own, who load recorded pages over TLS: connections,
requests, headers and sizes of HAR files, each page at a moment of the day that a seed fixes, however busy the proxy is.
All is decrypted and logged; the lists are UT1, a hosts file and EasyList. With --check the exit code is 1 where a
target is missed: a request failed, the log has other than one row for each request, one of 100 decisions took longer
than 2 ms, or memory grew by 5 % or more after the warm-up. Clients and origin share the machine: where pages begin
late, it is too small for so many.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import ssl
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path

import relaying
import servers
from soak import GROWTH, Sample, growth
from timing import private
from workbench import QUICK, Workbench

#: milliseconds that 99 of 100 decisions may take
LONGEST = 2.0
#: seconds for an answer
PATIENCE = 60.0
#: the addresses of pupils, all of them of this machine
FIRST_PUPIL = IPv4Address("127.1.0.1")
#: what the proxy answers and what it stops
_ANSWERED, _STOPPED = frozenset((b"200", b"206", b"204")), b"403"


@dataclass(slots=True)
class Day:
    """What became of a day."""

    counts: Counter[str] = field(default_factory=Counter)
    #: the first failures
    failures: list[str] = field(default_factory=list)
    #: seconds of page loads, and the most by which one began late
    loads: list[float] = field(default_factory=list)
    late: float = 0.0
    samples: list[Sample] = field(default_factory=list)

    def fail(self, why: str) -> None:
        """Count a failure."""
        self.counts["failed"] += 1
        if len(self.failures) < 20:
            self.failures.append(why[:200])


async def spend(day: Day, server: servers.Server, minutes: float, pupils: int, pages: int, seed: int = 1) -> None:
    """Load each pupil's pages, at moments of the day."""
    numbers, recorded, context = random.Random(seed), relaying.pages(), relaying.anything()
    moments = sorted(numbers.uniform(0, 60 * minutes) for _ in range(pupils * pages))
    watching = asyncio.create_task(_watch(day, server))
    start = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for moment in moments:
            await asyncio.sleep(max(0.0, start + moment - time.monotonic()))
            day.late = max(day.late, time.monotonic() - start - moment)
            address = str(FIRST_PUPIL + numbers.randrange(pupils))
            tasks.create_task(_load(day, server, numbers.choice(recorded), address, context))
    watching.cancel()


async def _load(
    day: Day, server: servers.Server, page: Sequence[relaying.Connection], address: str, context: ssl.SSLContext
) -> None:
    start, limit = time.monotonic(), asyncio.Semaphore(relaying.AT_ONCE)

    async def carry(asked: relaying.Connection) -> None:
        async with limit:
            try:
                await asyncio.wait_for(_carry(day, server, asked, address, context), PATIENCE * len(asked.requests))
            except (OSError, ssl.SSLError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
                day.fail(f"{asked.host}: {error!r}")

    async with asyncio.TaskGroup() as tasks:
        for asked in page:
            tasks.create_task(carry(asked))
    day.loads.append(time.monotonic() - start)


async def _carry(
    day: Day, server: servers.Server, asked: relaying.Connection, address: str, context: ssl.SSLContext
) -> None:
    """A connection of a page, which is opened anew where it ends before its last request."""
    left = list(asked.requests)
    while left:
        reader, writer = await asyncio.open_connection(servers.LOOPBACK, server.port, local_addr=(address, 0))
        try:
            day.counts["tunnels"] += 1
            writer.write(b"CONNECT %b:443 HTTP/1.1\r\n\r\n" % asked.host.encode())
            if b" 200 " not in await reader.readuntil(b"\r\n\r\n"):
                day.counts["tunnels stopped"] += 1
                return
            await writer.start_tls(context, server_hostname=asked.host)
            is_over = False
            while left and not is_over:
                is_over = await _ask(day, reader, writer, asked.host, *left.pop(0))
        finally:
            writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _ask(
    day: Day,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    host: str,
    target: str,
    lines: Sequence[str],
    size: int,
) -> bool:
    """Ask, and read the whole answer; whether the connection ends with it."""
    head = (f"GET {target} HTTP/1.1", f"Host: {host}", *lines, f"Range: bytes=0-{size - 1}", "", "")
    day.counts["requests"] += 1
    writer.write("\r\n".join(head).encode("utf-8", "replace"))
    answer = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = re.search(rb"\r\ncontent-length: *(\d+)", answer)
    await reader.readexactly(int(length[1]) if length else 0)
    status = answer.split(maxsplit=2)[1]
    if status in _ANSWERED:
        day.counts["answered by the origin"] += 1
    elif status == _STOPPED and b"\r\nx-hushlist-reference" in answer:
        day.counts["blocked"] += 1
    else:
        day.fail(f"{host}{target}: {status.decode()}")
    return b"\r\nconnection: close" in answer


async def _watch(day: Day, server: servers.Server) -> None:
    """Look at the workers every second."""
    start = time.monotonic()
    while True:
        workers = list(_workers(server.process))
        statuses = [Path(f"/proc/{worker}/status").read_text() for worker in workers]
        resident = sum(int(re.search(r"^VmRSS:\s*(\d+)", status, re.M)[1]) * 1024 for status in statuses)
        descriptors = sum(len(list(Path(f"/proc/{worker}/fd").iterdir())) for worker in workers)
        answered = day.counts["answered by the origin"] + day.counts["blocked"]
        own = sum(map(private, workers))
        day.samples.append(Sample(time.monotonic() - start, resident, own, descriptors, answered))
        await asyncio.sleep(1)


def _workers(process: int) -> Iterator[int]:
    """The workers of ``hushlist proxy``."""
    for task in Path(f"/proc/{process}/task").iterdir():
        yield from map(int, (task / "children").read_text().split())


def own_times(log: Path) -> list[float]:
    """The milliseconds of each decision in a log, by the clock: also while another process had the processor."""
    return [json.loads(line)["duration"] / 1e3 for path in sorted(log.glob("*.jsonl")) for line in path.open("rb")]


def main(argv: Sequence[str] | None = None) -> int:
    """Spend a day, and print what became of it; 1 with --check where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20, metavar="N", help="that the day takes: %(default)s")
    parser.add_argument("--pupils", type=int, default=2000, metavar="N", help="default: %(default)s")
    parser.add_argument("--pages", type=int, default=2, metavar="N", help="that each loads: %(default)s")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="default: %(default)s")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a target is missed")
    parser.add_argument("--folder", type=Path, help="to work in, and to keep; default: a new one that goes")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="hushlist-school-") as temporary:
        missed = _run((arguments.folder or Path(temporary)).absolute(), arguments)
    return missed if arguments.check else 0


def _run(folder: Path, arguments: argparse.Namespace) -> int:
    bench, day = Workbench(folder, QUICK), Day()
    log = {"what": "all", "folder": "log", "size": "1 GiB", "rows": 1000}
    policy = relaying.real_policy(bench, "school", filters=True, decrypt="all", log=log)
    folder.mkdir(parents=True, exist_ok=True)
    with servers.nginx(folder / "nginx", relaying.certificate(folder)) as origin:
        options = {**relaying.QUIET, "termlog_verbosity": "info", "hushlist_quiet": "true"}
        with servers.mitmdump(folder / "proxy", origin, policy, options, workers=arguments.workers) as server:
            asyncio.run(spend(day, server, arguments.minutes, arguments.pupils, arguments.pages))
            said = servers.mitmdump_log(folder / "proxy", server.port).read_text(errors="replace")
    return _report(day, own_times(policy.parent / "log"), said)


def _report(day: Day, times: Sequence[float], said: str) -> int:
    """Print the figures; 1 where a target is missed."""
    print(f"pages: {len(day.loads):,}, each one of {len(relaying.pages())} recorded ones")
    for name, number in sorted(day.counts.items()):
        print(f"{name}: {number:,}")
    print(*day.failures, sep="\n")
    print(f"a page: {statistics.median(day.loads):.2f} s, 99th percentile {_percentile(day.loads, 99):.2f} s")
    print(f"a page began late by {day.late:.2f} s at most")
    print("seconds  memory, MB  private, MB  descriptors  answered")
    for one in day.samples[:: max(1, len(day.samples) // 20)]:
        memory = f"{one.resident / 1e6:10.1f}  {one.private / 1e6:11.1f}"
        print(f"{one.at:7.0f}  {memory}  {one.descriptors:11}  {one.answered:8,}")
    longest, grown = _percentile(times, 99), growth(day.samples)
    print(f"the filter's own time of a decision: median {statistics.median(times):.3f} ms")
    print(f"{said.count('Traceback')} tracebacks in the proxy's log")
    rows = {
        "requests failed": (day.counts["failed"], 0),
        "requests without a row in the log, or rows without one": (abs(len(times) - day.counts["requests"]), 0),
        "the filter's own time, 99th percentile, in ms": (longest, LONGEST),
        "memory grew after the warm-up, in %": (grown, GROWTH),
    }
    for name, (number, most) in rows.items():
        print(f"{name}: {number:.3g} (at most {most:g}): {'met' if number <= most else 'MISSED'}")
    return int(any(number > most for number, most in rows.values()))


def _percentile(numbers: Sequence[float], percent: int) -> float:
    return sorted(numbers)[min(len(numbers) - 1, len(numbers) * percent // 100)]


if __name__ == "__main__":
    sys.exit(main())
