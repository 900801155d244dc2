"""The parts of ``peers.py`` about TLS: what decrypting costs, what relaying costs, and how much can be relayed.

The proxy is mitmdump; its peers are itself without the filter, and ``plain_relay.py``, a relay in asyncio that is as
plain as can be. The octets of a connection that is relayed go through Python in both, so that processor time tells what
the layers of mitmproxy add. wrk speaks no CONNECT: threads here open its tunnels, and the system's splice carries them.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import data
import ours
import servers
import theirs
from timing import in_turns, processor_seconds
from workbench import Row, Workbench, at_most_times, row

sys.path.insert(0, str(data.ROOT / "tests"))

#: what wrk asks for, since it needs a name that the system knows
NAME = "localhost"
#: connections that a browser makes to a host, where they carry one request at a time
MOST = 6
#: connections that are open at a time while a page is loaded
AT_ONCE = 16
#: so many requests keep a connection busy
PATHS = 5_000
LARGE = servers.LARGEST >> 20
#: new connections to each proxy, in each round
NEW = 200
#: of them, in each turn of two proxies that run side by side
SLICE = 20
QUIET = {"ssl_insecure": "true", "flow_detail": 0, "termlog_verbosity": "error"}
#: mitmproxy's own way to relay: the peer of the filter's
IGNORE = {**QUIET, "ignore_hosts": "."}


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection of a recorded page."""

    host: str
    #: a path and its query, the request's other header lines, and the octets of its answer's body
    requests: list[tuple[str, tuple[str, ...], int]]


# -- The parts ---------------------------------------------------------------------------------------------------


def share(bench: Workbench) -> list[Row]:
    """How many of the connections of recorded pages have to be decrypted, by real lists of hosts and paths."""
    connections = [connection for page in pages() for connection in page]
    policy = ours.compile_policy(real_policy(bench, "share"))
    blocked, read = ours.decrypted_hosts(policy, {connection.host for connection in connections})
    passed = [connection for connection in connections if connection.host not in blocked]
    relayed = [connection for connection in passed if connection.host not in read]
    hosts, passed_hosts, relayed_hosts = (
        {connection.host for connection in some} for some in (connections, passed, relayed)
    )
    requests, passed_requests, relayed_requests = (
        [request for connection in some for request in connection.requests] for some in (connections, passed, relayed)
    )
    return [
        row(
            f"{what} of HAR files that need no decryption by UT1 and hosts",
            "%",
            [100 * len(some) / len(every)],
            note=f"of {len(every):,}, and {100 * len(some) / len(those):.0f} % of {len(those):,} not blocked by host",
        )
        for what, some, those, every in (
            ("connections", relayed, passed, connections),
            ("hosts", relayed_hosts, passed_hosts, hosts),
            ("requests", relayed_requests, passed_requests, requests),
        )
    ]


def tls(bench: Workbench) -> list[Row]:
    """Requests a second over TLS: decrypted with the filter and without it, and relayed."""
    theirs.need_programs("nginx", "wrk")
    folder = bench.folder / "tls"
    with _proxies(bench) as proxies, ExitStack() as opened:
        decide = ours.load(_decrypting(bench))
        urls = [f"https://{NAME}{path}" for path in data.paths(PATHS)]
        urls = [url for url in urls if not ours.is_blocked(decide(url.encode()))]  # EasyList blocks some
        fronts = {name: opened.enter_context(_tunnels(proxy)) for name, proxy in proxies.items() if proxy.wrks}
        runs = [partial(_load, folder, proxies[name].server, front, urls, bench) for name, front in fronts.items()]
        for run in runs:
            run()  # to warm up
        found = dict(zip(fronts, in_turns(bench.sizes.rounds, *runs), strict=True))
    rows = []
    for what, peer in (("decrypted", "decrypted, no filter"), ("relayed", "relayed, no filter")):
        own, other = found[what], found[peer]
        for unit, at, scale in (("requests/s", 0, 1.0), ("octets/s", 1, 1.0), ("ms", 2, 1e3)):
            measure = f"TLS {what}" + (", processor time of a request" if at == 2 else f", {unit.split('/')[0]}")
            ours_, theirs_ = ([one[at] for one in ones] for ones in (own, other))
            rows.append(row(measure, unit, ours_, scale=scale, peer=peer, theirs=theirs_))
    return rows


def new_connections(bench: Workbench) -> list[Row]:
    """Processor time of a new TLS connection that is decrypted: to a host that the proxy has seen, and to a new one."""
    theirs.need_programs("nginx")
    rows = []
    with _proxies(bench) as proxies:
        pair = [proxies[name].server for name in ("decrypted", "decrypted, no filter")]
        for what, is_new in (("a host that was seen before", False), ("a new host", True)):
            runs = [partial(_connect_anew, server, count(), is_new=is_new) for server in pair]
            for run in runs:
                run()  # to warm up
            filtered, bare = ([one / NEW for one in found] for found in in_turns(bench.sizes.rounds, *runs))
            measure, unit, peer = f"a new TLS connection to {what}", "ms of processor time", "mitmproxy, no filter"
            limit = at_most_times(1.1)
            rows.append(row(measure, unit, filtered, scale=1e3, peer=peer, theirs=bare, target=limit))
    return rows


def restarts(bench: Workbench) -> list[Row]:
    """Processor time of the first TLS connection to each host after a start, with kept certificates and without.

    Both proxies run side by side and are asked in turns; the one reads what a proxy before it has kept, the other none.
    """
    theirs.need_programs("nginx")
    folder, policy = bench.folder / "tls", ours.compile_policy(_decrypting(bench))
    folder.mkdir(parents=True, exist_ok=True)
    figures = []
    with servers.nginx(folder / "nginx", certificate(folder)) as origin:
        start = partial(servers.mitmdump, folder, origin, policy, QUIET)
        for _ in range(bench.sizes.rounds):
            ours.forget_certificates(policy)
            with start() as before:
                _connect_anew(before, count(), is_new=True)
            with start() as keeping:
                _connect_anew(keeping, count(NEW), is_new=True, number=SLICE)  # to warm up
                ours.forget_certificates(policy)  # it has read them
                with start() as making:
                    _connect_anew(making, count(NEW), is_new=True, number=SLICE)
                    runs = [
                        partial(_connect_anew, server, count(), is_new=True, number=SLICE)
                        for server in (keeping, making)
                    ]
                    figures.append([sum(slices) / NEW for slices in in_turns(NEW // SLICE, *runs)])
    kept, made = zip(*figures, strict=True)
    measure = "the first TLS connection to a host after a restart"
    unit, peer = "ms of processor time", "certificates not kept"
    return [row(measure, unit, kept, scale=1e3, peer=peer, theirs=made, target=at_most_times(0.95))]


def _connect_anew(server: servers.Server, numbers: Iterator[int], *, is_new: bool, number: int = NEW) -> float:
    """Seconds of processor time that so many connections take, each with one request."""

    def ask(host: str) -> None:
        with socket.create_connection((servers.LOOPBACK, server.port)) as client:
            client.sendall(b"CONNECT %b:443 HTTP/1.1\r\n\r\n" % host.encode())
            answer = b""
            while not answer.endswith(b"\r\n\r\n"):
                answer += client.recv(1)
            with context.wrap_socket(client, server_hostname=host) as tls:
                tls.sendall(b"GET /a HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n" % host.encode())
                answer = tls.recv(1 << 16)
                if b" 200 " not in answer:
                    raise RuntimeError(answer[:200])
                while tls.recv(1 << 16):
                    pass

    context = anything()
    hosts = [f"www.site{next(numbers)}.example" if is_new else "www.site.example" for _ in range(number)]
    return _taken(server, lambda: [ask(host) for host in hosts])


def megabyte(bench: Workbench) -> list[Row]:
    """Processor time of a megabyte through the proxy, relayed and decrypted, beside a plain relay."""
    theirs.need_programs("nginx", "curl")
    with _proxies(bench) as proxies:
        names = list(proxies)
        runs = [partial(_taken, proxies[name].server, partial(_download, proxies[name].server)) for name in names]
        found = dict(zip(names, in_turns(bench.sizes.rounds, *runs), strict=True))
    plain = [taken / LARGE for taken in found["plain relay"]]
    return [
        row(
            f"a megabyte {name}",
            "ms of processor time",
            [taken / LARGE for taken in found[name]],
            scale=1e3,
            peer="plain relay",
            theirs=plain,
            target=at_most_times(2) if name == "relayed" else None,
            note=f"{LARGE} MB by curl",
        )
        for name in names
        if name != "plain relay"
    ]


def page(bench: Workbench) -> list[Row]:
    """Processor time of the load of a page, as HAR files have its connections and requests."""
    theirs.need_programs("nginx")
    loads = pages()[: bench.sizes.pages]
    with _proxies(bench) as proxies:
        names = list(proxies)
        runs = [
            partial(
                _taken, proxies[name].server, lambda proxy=proxies[name].server: asyncio.run(_load_all(proxy, loads))
            )
            for name in names
        ]
        for run in runs:
            run()  # to warm up: each host's certificate is made
        found = dict(zip(names, in_turns(bench.sizes.rounds, *runs), strict=True))
    count = sum(len(load) for load in loads)
    note = f"{len(loads)} pages, {count:,} connections"
    peer = "decrypted, no filter"
    per_page = {name: [taken / len(loads) for taken in times] for name, times in found.items()}
    return [
        row(f"a page {name}", "ms of processor time", times, scale=1e3, peer=peer, theirs=per_page[peer], note=note)
        for name, times in per_page.items()
        if name != peer
    ]


# -- Recorded pages ----------------------------------------------------------------------------------------------


def pages() -> list[list[Connection]]:
    """The TLS connections of each page of the HAR files.

    These files do not tell connections. HTTP/2 has one a host; otherwise a host has as many as requests to it were
    under way at the same time, six at most.
    """
    found = []
    for file in sorted((data.DATA / "har").glob("*.har")):
        by_page: defaultdict[str, defaultdict[str, list[dict]]] = defaultdict(lambda: defaultdict(list))
        for entry in json.loads(file.read_text("utf-8-sig"))["log"]["entries"]:
            url = urlsplit(entry["request"]["url"])
            if url.scheme == "https" and url.hostname:
                by_page[entry.get("pageref", "")][url.hostname].append(entry)
        found += [
            [one for host, entries in by_host.items() for one in _connections(host, entries)]
            for by_host in by_page.values()
        ]
    return found


def _connections(host: str, entries: list[dict]) -> Iterator[Connection]:
    is_shared = any(
        entry["request"]["httpVersion"].lower() in ("h2", "http/2", "http/2.0", "spdy") for entry in entries
    )
    spans = [(_seconds(entry["startedDateTime"]), max(0.0, entry["time"] or 0.0) / 1000) for entry in entries]
    under_way = (sum(start <= at < start + taken for start, taken in spans) for at, _ in spans)
    count = 1 if is_shared else max(1, min(MOST, max(under_way)))
    requests = [_request(entry) for entry in entries]
    return (Connection(host, requests[number::count]) for number in range(count))


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def _request(entry: dict) -> tuple[str, tuple[str, ...], int]:
    url = urlsplit(entry["request"]["url"])
    left_out = ("host", "connection", "range", "content-length", "accept-encoding", "transfer-encoding", "expect")
    lines = tuple(
        f"{field['name']}: {field['value']}"
        for field in entry["request"]["headers"]
        if not field["name"].startswith(":") and field["name"].lower() not in left_out
    )
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    return target, lines, min(servers.LARGEST, max(1, entry["response"]["content"].get("size") or 0))


async def _load_all(proxy: servers.Server, loads: Sequence[Sequence[Connection]]) -> None:
    """Load one page after the other."""
    context = anything()
    for load in loads:
        limit = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            for connection in load:
                tasks.create_task(_carry(proxy, connection, context, limit))


async def _carry(proxy: servers.Server, asked: Connection, context: ssl.SSLContext, limit: asyncio.Semaphore) -> None:
    """Send what a connection has carried; a whole answer is read before the next request."""
    async with limit:
        reader, writer = await asyncio.open_connection(servers.LOOPBACK, proxy.port)
        writer.write(b"CONNECT %b:443 HTTP/1.1\r\n\r\n" % asked.host.encode())
        await reader.readuntil(b"\r\n\r\n")
        await writer.start_tls(context, server_hostname=asked.host)
        for target, lines, size in asked.requests:
            head = (f"GET {target} HTTP/1.1", f"Host: {asked.host}", *lines, f"Range: bytes=0-{size - 1}", "", "")
            writer.write("\r\n".join(head).encode("utf-8", "replace"))
            answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            _, _, length = answer.partition("\r\ncontent-length:")
            await reader.readexactly(int(length.split()[0]) if length else 0)
            if "\r\nconnection: close" in answer:
                break
        writer.close()


# -- Proxies and their clients -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Measured:
    server: servers.Server
    #: whether wrk asks it
    wrks: bool = True


@contextmanager
def _proxies(bench: Workbench) -> Iterator[dict[str, _Measured]]:
    """A proxy for each way to treat TLS, the filter's first."""
    folder = bench.folder / "tls"
    folder.mkdir(parents=True, exist_ok=True)
    decrypting = ours.compile_policy(_decrypting(bench))
    relaying = ours.compile_policy(real_policy(bench, "needed", decrypt="where-needed"))
    if any(ours.decrypted_hosts(relaying, {NAME})):
        raise RuntimeError(f"{relaying} does not relay {NAME}")
    with ExitStack() as running:
        origin = running.enter_context(servers.nginx(folder / "nginx", certificate(folder)))
        started = {
            name: running.enter_context(servers.mitmdump(folder, origin, policy, options))
            for name, policy, options in (
                ("decrypted", decrypting, QUIET),
                ("relayed", relaying, QUIET),
                ("decrypted, no filter", None, QUIET),
                ("relayed, no filter", None, IGNORE),
            )
        }
        plain = running.enter_context(servers.plain_relay(folder, origin))
        yield {**{name: _Measured(one) for name, one in started.items()}, "plain relay": _Measured(plain)}


def _decrypting(bench: Workbench) -> Path:
    return real_policy(bench, "all", filters=True, decrypt="all")


def real_policy(bench: Workbench, name: str, *, filters: bool = False, **settings: object) -> Path:
    """Real lists: UT1 and hosts; with filters also EasyList, many of which name no host: all has to be decrypted."""
    easylist = bench.lists / "easylist.txt"
    bench.lists.mkdir(parents=True, exist_ok=True)
    if not easylist.is_file():
        easylist.write_bytes(gzip.decompress((data.DATA / "adblock" / "easylist.txt.gz").read_bytes()))
    lists = [
        *({"file": str(folder), "format": "squidguard"} for folder in sorted(data.DATA.glob("ut1/*/"))),
        *({"file": str(file), "format": "hosts"} for file in sorted(data.DATA.glob("hosts/*.hosts"))),
        *([{"file": str(easylist), "format": "adblock"}] if filters else []),
    ]
    return ours.write_lists(bench.folder / "policies" / f"tls-{name}", *lists, **settings)


def certificate(folder: Path) -> Path:
    """A certificate and its key, in one file."""
    from e2e.origin import write_certificate

    both = folder / "both.pem"
    both.write_bytes(b"".join(file.read_bytes() for file in write_certificate(folder)))
    return both


def anything() -> ssl.SSLContext:
    """TLS that accepts whatever certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _taken(server: servers.Server, run: Callable[[], object]) -> float:
    """Seconds of processor time that a server takes meanwhile."""
    before = processor_seconds(server.process)
    run()
    return processor_seconds(server.process) - before


def _load(
    folder: Path, server: servers.Server, front: int, urls: Sequence[str], bench: Workbench
) -> tuple[float, float, float]:
    """Requests and octets of bodies a second, and seconds of processor time of a request."""
    before = processor_seconds(server.process)
    answered = servers.wrk(folder, servers.Server(front, 0), urls, bench.sizes.pair_seconds, f"https://{NAME}")
    taken = processor_seconds(server.process) - before
    rate = answered.requests / answered.seconds
    return rate, rate * servers.SMALL, taken / answered.requests


def _download(proxy: servers.Server) -> None:
    url = f"https://{NAME}{servers.LARGE_PATH}"
    command = ["curl", "-sSkf", "-x", f"http://{servers.LOOPBACK}:{proxy.port}", "--noproxy", "", "-o", os.devnull, url]
    subprocess.run(command, check=True)


@contextmanager
def _tunnels(measured: _Measured) -> Iterator[int]:
    """A port of loopback on which each connection is one through the proxy's CONNECT."""
    with socket.create_server((servers.LOOPBACK, 0)) as listening:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listening.accept()
                    proxy = socket.create_connection((servers.LOOPBACK, measured.server.port))
                    proxy.sendall(b"CONNECT %b:443 HTTP/1.1\r\n\r\n" % NAME.encode())
                    answer = b""
                    while not answer.endswith(b"\r\n\r\n"):
                        answer += proxy.recv(1)
                    for pair in ((client, proxy), (proxy, client)):
                        pair[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        threading.Thread(target=_splice, args=pair, daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def _splice(source: socket.socket, target: socket.socket) -> None:
    """Carry one direction of a connection until it ends."""
    end, start = os.pipe()
    with suppress(OSError):
        while count := os.splice(source.fileno(), start, 1 << 16):
            while count:
                count -= os.splice(end, target.fileno(), count)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
    os.close(end)
    os.close(start)
