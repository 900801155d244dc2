"""A school's hour in a few minutes: does memory stay flat, is every request decided, whatever is done to the filter?

    pip install -e '.[bench,test]'
    python tests/bench/soak.py [--minutes N] [--check] [--folder FOLDER]

It needs Linux, nginx, and the real URLs of ../shared (HUSHLIST_SHARED may name another place). A real mitmdump filters
for clients of all kinds (``pupils.py``) at once. Meanwhile lists and policy are rewritten every few seconds, now and
then with a mistake in them; compiled lists are deleted and replaced by rubbish; and another process compiles. With
--check the exit code is 1 where memory grew by 5 % or more after the warm-up, or a request was undecided.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import data
import ours
import pupils
import servers
from mitmproxy.certs import CertStore
from timing import private

#: a part of the time that memory is given to settle
WARM_UP = 0.3
#: in percent, at most
GROWTH = 5.0
#: hosts that are asked over TLS: each takes a certificate, and there are not that many in an hour
TLS_HOSTS = 60
CLIENTS: dict[pupils.Client, int] = {
    pupils.plain: 8,
    pupils.tls: 3,
    pupils.http2: 1,
    pupils.slow: 6,
    pupils.dropping: 2,
    pupils.uploading: 1,
    pupils.clicking: 1,
}
_POLICY = """\
log: {what: all, folder: log, size: 1 GiB, rows: 1000}
layers:
- name: own
  lists:
  - {file: warned.domains, format: domains, action: warn}
  - {file: own.yaml}
- name: lists
  lists:
  - {file: steady.domains, format: domains, category: 'hrn://soak.example/steady'}
  - {file: changing.domains, format: domains}
"""
_MISTAKES = ("layers: [", "layers:\n- {name: x, lists: [absent.yaml]}\n", "layer: 1\n", "\xff\n")


@dataclass(slots=True)
class Sample:
    """The filter's process at a moment."""

    at: float
    #: octets
    resident: int
    #: octets that no other process shares
    private: int
    descriptors: int
    answered: int


@dataclass(slots=True)
class Disturbances:
    """What is done to the filter's files."""

    folder: Path
    hosts: list[str]
    counts: Counter[str] = field(default_factory=Counter)
    numbers: random.Random = field(default_factory=lambda: random.Random(2))

    def begin(self, steady: Iterable[str]) -> Path:
        """Write the files; the policy's path."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write("steady.domains", "".join(f"{host}\n" for host in steady))
        self._write("warned.domains", "warned.example\n")
        self._write("own.yaml", "rules: [own.example]\n")
        self._write("changing.domains", "")
        self._write("policy.yaml", _POLICY)
        return self.folder / "policy.yaml"

    async def rewrite(self) -> None:
        """Change a list every few seconds, or make a mistake and mend it."""
        while True:
            await asyncio.sleep(self.numbers.uniform(2, 4))
            some = self.numbers.sample(self.hosts, len(self.hosts) // 3)
            self._write("changing.domains", "".join(f"{host}\n" for host in some), at_once=self.numbers.random() < 0.7)
            self.counts["lists rewritten"] += 1
            if self.numbers.random() < 0.3:
                wrong = self.numbers.random() < 0.5
                name, right = ("policy.yaml", _POLICY) if wrong else ("own.yaml", "rules: [own.example]\n")
                self._write(name, self.numbers.choice(_MISTAKES))
                await asyncio.sleep(3)
                self._write(name, right + f"# {self.counts['mistakes']}\n")
                self.counts["mistakes"] += 1

    async def replace_compiled(self) -> None:
        """Delete a compiled list, or put rubbish in its place, as a new file."""
        while True:
            await asyncio.sleep(5)
            files = sorted((self.folder / "cache").rglob("*.index"))
            if not files:
                continue
            file = self.numbers.choice(files)
            with suppress(OSError):
                octets = file.read_bytes()
                file.unlink()
                if self.numbers.random() < 0.6:
                    cut = octets[: self.numbers.randrange(len(octets) + 1)]
                    file.write_bytes(self.numbers.choice([b"", b"rubbish", cut, cut + octets]))
            self.counts["compiled lists replaced"] += 1

    async def compile(self) -> None:
        """Compile by another process."""
        policy = self.folder / "policy.yaml"
        while True:
            await asyncio.sleep(15)
            process = await asyncio.create_subprocess_exec(
                *ours.compile_command(policy),
                env=ours.environment(policy),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            await process.wait()
            self.counts["compiled by another process"] += 1

    def _write(self, name: str, text: str, *, at_once: bool = True) -> None:
        path = self.folder / name
        if not at_once:
            path.write_text(text, "latin-1")
            return
        draft = path.with_suffix(".draft")
        draft.write_text(text, "latin-1")
        draft.replace(path)


async def watch(process: int, school: pupils.School, samples: list[Sample]) -> None:
    """Look at the process every second."""
    start = time.monotonic()
    while True:
        status = Path(f"/proc/{process}/status").read_text()
        resident = int(re.search(r"^VmRSS:\s*(\d+)", status, re.M)[1]) * 1024
        descriptors = len(os.listdir(f"/proc/{process}/fd"))  # noqa: PTH208
        answered = school.counts["from the origin"] + school.counts["blocked"]
        samples.append(Sample(time.monotonic() - start, resident, private(process), descriptors, answered))
        await asyncio.sleep(1)


async def soak(
    school: pupils.School, process: int, minutes: float, *others: Coroutine[None, None, None]
) -> list[Sample]:
    """All clients at once, and what others do meanwhile, for so long."""
    samples: list[Sample] = []
    works = [pupils.forever(client, school) for client, number in CLIENTS.items() for _ in range(number)]
    works += [*others, watch(process, school, samples)]
    tasks = [asyncio.create_task(work) for work in works]
    done, _ = await asyncio.wait(tasks, timeout=60 * minutes, return_when=asyncio.FIRST_EXCEPTION)
    pending = set(tasks)
    while pending:  # a client may swallow it, where its connection breaks just then
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=1)
    for task in done:
        task.result()  # raises what ended it
    return samples


def growth(samples: Sequence[Sample]) -> float:
    """Of memory, in percent: the median of the last fifth of the time as against that behind the warm-up."""
    end = samples[-1].at
    first = [one.resident for one in samples if WARM_UP * end <= one.at < (WARM_UP + 0.2) * end]
    last = [one.resident for one in _last_fifth(samples)]
    return 100 * (statistics.median(last) / statistics.median(first) - 1)


def _last_fifth(samples: Sequence[Sample]) -> list[Sample]:
    return [one for one in samples if one.at >= 0.8 * samples[-1].at]


def private_memory(folder: Path, minutes: float, policy: Path | None) -> tuple[float, int]:
    """Octets of a proxy that no other process shares, after so long, and the answers until then.

    The filter is there where a policy is given. Its files are left alone.
    """
    with _proxy(folder, policy) as (server, context):
        nobody = partial(_is_in, set())
        school = pupils.School(server.port, context, _urls()[0], nobody, nobody)
        samples = asyncio.run(soak(school, server.process, minutes))
    return statistics.median(one.private for one in _last_fifth(samples)), samples[-1].answered


@contextmanager
def _proxy(folder: Path, policy: Path | None) -> Iterator[tuple[servers.Server, ssl.SSLContext]]:
    """A mitmdump for HTTP and TLS, and what its clients trust."""
    CertStore.from_store(folder, "mitmproxy", 2048)
    context = ssl.create_default_context(cafile=str(folder / "mitmproxy-ca-cert.pem"))
    options = {"ssl_insecure": "true", "flow_detail": 0, "termlog_verbosity": "warn"}
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    with (
        servers.nginx(folder / "nginx", folder / "mitmproxy-ca.pem") as origin,
        servers.mitmdump(folder, origin, policy, options) as server,
    ):
        yield server, context


def main(argv: Sequence[str] | None = None) -> int:
    """Soak, and print what became of it; 1 with --check where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5, metavar="N", help="default: %(default)s")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a target is missed")
    parser.add_argument("--folder", type=Path, help="to work in, and to keep; default: a new one that goes")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="hushlist-soak-") as temporary:
        folder = (arguments.folder or Path(temporary)).absolute()
        missed = _run(folder, arguments.minutes)
    return missed if arguments.check else 0


def _run(folder: Path, minutes: float) -> int:
    """Soak in a school; 1 where a target is missed."""
    print(f"URLs: {data.urls_used()}")
    urls, hosts = _urls()
    steady, changing = set(hosts[::9]), set(hosts[4::9])
    files = Disturbances(folder / "policy", sorted(changing))
    policy = files.begin(sorted(steady))
    proxy_folder = folder / "proxy"
    with _proxy(proxy_folder, policy) as (server, context):
        school = pupils.School(server.port, context, urls, partial(_is_in, steady), partial(_is_in, changing))
        others = (files.rewrite(), files.replace_compiled(), files.compile())
        samples = asyncio.run(soak(school, server.process, minutes, *others))
        log = servers.mitmdump_log(proxy_folder, server.port).read_text(errors="replace")
    decided = sum(1 for path in (policy.parent / "log").glob("*.jsonl") for _ in path.open("rb"))
    return _report(samples, school, files, log, decided)


def _urls() -> tuple[list[str], list[str]]:
    """Real URLs with a host that is one and no port, and the hosts; TLS is for those that are asked the most.

    Another port leads nowhere here.
    """
    found = []
    for url in (octets.decode("ascii", "replace") for octets in data.urls()):
        with suppress(ValueError):
            host = urlsplit(url).hostname or ""
            if re.match(r"https?://[a-z0-9-]+(\.[a-z0-9-]+)+(?=[/?#]|\Z)", url) and url.isascii() and len(url) < 4000:
                found.append((re.sub(r"[\x00-\x20]|#.*", "", url), host))
    asked = Counter(host for _, host in found)
    often = {host for host, _ in asked.most_common(TLS_HOSTS)}
    urls = [url if host in often else re.sub("^https", "http", url) for url, host in found]
    return urls, sorted(asked)


def _is_in(hosts: set[str], host: str) -> bool:
    """Whether a host or one above it is among them."""
    labels = host.split(".")
    return any(".".join(labels[start:]) in hosts for start in range(len(labels)))


def _report(samples: Sequence[Sample], school: pupils.School, files: Disturbances, log: str, decided: int) -> int:
    """Print the figures; 1 where a target is missed."""
    print("seconds  memory, MB  private, MB  descriptors  answered")
    for one in samples[:: max(1, len(samples) // 20)]:
        memory = f"{one.resident / 1e6:10.1f}  {one.private / 1e6:11.1f}"
        print(f"{one.at:7.0f}  {memory}  {one.descriptors:11}  {one.answered:8,}")
    for what, counts in (("requests", school.counts), ("files", files.counts)):
        print(f"{what}: " + ", ".join(f"{number:,} {name}" for name, number in sorted(counts.items())))
    answered = samples[-1].answered
    print(f"decisions in the filter's own log: {decided:,}")
    print(*school.undecided, sep="\n")
    kinds = Counter(re.sub(r"\d+|'[^']*'", "…", line)[14:100] for line in log.splitlines())
    print(f"the proxy's log: {len(log.splitlines())} lines, {log.count('Traceback')} tracebacks; most often:")
    for kind, number in kinds.most_common(12):
        print(f"{number:7} {kind}")
    grown = growth(samples)
    print(f"answered: {answered:,}; undecided: {school.counts['undecided']}; memory grew by {grown:.1f} %")
    return int(grown >= GROWTH or school.counts["undecided"] > 0)


if __name__ == "__main__":
    sys.exit(main())
