"""Audits many requests by a list of many domains: requests a second, and what each process takes.

    .venv/bin/python tests/bench/audit.py --requests 10000000

The requests are recorded ones, of which three in four are changed so that nobody has asked for that URL before, and a
tenth goes to hosts of the list instead; what was made once in a folder is used again.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import data
import timing

#: of the requests, those that go to a host of the list, and those to another path than the recorded one
TO_LIST, TO_NEW = 0.1, 0.65
#: seconds between two looks at the memory
PAUSE = 0.2


def requests(domains: Path, count: int) -> Iterator[bytes]:
    """So many lines of URL, page and type."""
    recorded = data.DATA / "requests" / "requests.tsv.gz"
    rows = (
        [line.split(b"\t")[:3] for line in gzip.decompress(recorded.read_bytes()).splitlines()]
        if recorded.is_file()
        else [[url, b"", b"script"] for url in data.urls()]
    )
    hosts = domains.read_bytes().split()[::7]
    numbers = random.Random(1)
    for number in range(count):
        url, page, kind = numbers.choice(rows)
        chance = numbers.random()
        if chance < TO_LIST:
            url = b"http://%s/a/%d" % (numbers.choice(hosts), number % 5000)
        elif chance < TO_LIST + TO_NEW:
            url = b"%s/%d?x=%d" % (url.partition(b"?")[0].rstrip(b"/"), numbers.randrange(100_000), number)
        yield b"%s\t%s\t%s\n" % (url, page, kind)


def prepared(folder: Path, count: int, rules: int) -> tuple[Path, Path]:
    """The policy and the requests."""
    domains = data.domain_list(folder / "lists", rules)
    policy = folder / f"audit-{rules}.yaml"
    policy.write_text(f"layers:\n- name: lists\n  lists:\n  - {{file: '{domains}', format: domains}}\n")
    log = folder / f"requests-{count}-{rules}.tsv"
    if not log.is_file():
        unfinished = log.with_name(log.name + ".unfinished")
        with unfinished.open("wb", 1 << 20) as file:
            file.writelines(requests(domains, count))
        unfinished.replace(log)
    return policy, log


@dataclass(slots=True)
class Taken:
    """What a process took: the most memory, in octets, all of it and what it shares with no file; processor seconds."""

    resident: int = 0
    own: int = 0
    seconds: float = 0.0


def look(process: int, taken: dict[int, Taken]) -> None:
    """At what a process takes, and those that it has started."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        for one in (process, *map(int, children)):
            status = dict(line.split(":", 1) for line in Path(f"/proc/{one}/status").read_text().splitlines())
            most = taken.setdefault(one, Taken())
            most.resident = max(most.resident, _octets(status["VmRSS"]))
            most.own = max(most.own, _octets(status["RssAnon"]))
            most.seconds = timing.processor_seconds(one)
    except (OSError, LookupError):  # one has just ended
        pass


def _octets(kilobytes: str) -> int:
    return int(kilobytes.split()[0]) << 10


def watched(command: list[str], out: Path, environment: dict[str, str], look: Callable[[int], object]) -> float:
    """Seconds that a command takes, when it is looked at now and then."""
    start = time.perf_counter()
    errors = out.with_suffix(".errors")
    with (
        out.open("wb") as file,
        errors.open("wb") as error,
        subprocess.Popen(command, stdout=file, stderr=error, env=environment) as process,
    ):
        while process.poll() is None:
            look(process.pid)
            time.sleep(PAUSE)
    taken = time.perf_counter() - start
    if process.returncode:
        raise SystemExit(f"{command} has failed: {errors.read_text()}")
    return taken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1_000_000, metavar="N", help="default: %(default)s")
    parser.add_argument("--rules", type=int, default=1_000_000, metavar="N", help="default: %(default)s")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes (default: one a core)")
    parser.add_argument("--folder", type=Path, help="to work in, and to keep; default: a new one that goes")
    arguments = parser.parse_args()
    place: AbstractContextManager[str | Path] = (
        TemporaryDirectory() if arguments.folder is None else nullcontext(arguments.folder)
    )
    with place as name:
        folder = Path(name)
        policy, log = prepared(folder, arguments.requests, arguments.rules)
        environment = {**os.environ, "PYTHONPATH": str(data.ROOT / "addon"), "XDG_CACHE_HOME": str(folder / "cache")}
        hushlist = [sys.executable, "-m", "hushlist"]
        compiling = [*hushlist, "compile", "--policy", str(policy)]
        watched(compiling, folder / "compiled.txt", environment, lambda _: None)
        jobs = [] if arguments.jobs is None else ["--jobs", str(arguments.jobs)]
        taken: dict[int, Taken] = {}
        out = folder / "report.json"
        command = [*hushlist, "audit", "--policy", str(policy), "--json", *jobs, str(log)]
        whole = watched(command, out, environment, lambda process: look(process, taken))
        report = json.loads(out.read_bytes())
    print(f"URLs: {data.urls_used()}")
    print(f"{report['records']:,} requests, {arguments.rules:,} rules, {report['workers']} processes")
    speed, seconds = report["records_a_second"], report["seconds"]
    print(f"{speed:,} requests a second; {seconds:.1f} s, and {whole:.1f} s with the report")
    print(f"{len(report['rules']):,} rules have fired, at {len(report['sites']['requests']['counts']):,} sites")
    for number, one in enumerate(taken.values()):
        who = f"worker {number}" if number else "parent"
        memory = f"at most {one.resident / 1e6:.0f} MB, of which {one.own / 1e6:.0f} MB are its own"
        print(f"{who}: {memory}; {one.seconds:.1f} processor seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
