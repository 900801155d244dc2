"""Two workers behind HAProxy that can be stopped, killed and spoiled, and clients that never stop asking."""

from __future__ import annotations

import signal
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path

from e2e.haproxy import BALANCER, Balancer, haproxy
from e2e.origin import LOOPBACK, PATIENCE, Origin, free_ports
from e2e.policies import replace, simple_policy
from e2e.proxy import Proxy, mitmdump
from support.environment import environment

#: clients, each with an address of its own: some go to either worker
CLIENTS = 8
#: seconds between two requests of a client
PACE = 0.1
#: each so-many-th request is for what is blocked: this path
BLOCKED, SECRET = 4, "/secret/"
#: requests of a client on one connection, so that there are new connections all the time
KEPT = 5


@dataclass
class Traffic:
    """What became of the clients' requests."""

    answered: int = 0
    #: what clients saw in place of an answer
    lost: list[str] = field(default_factory=list)
    #: answers that are not as they have to be
    wrong: list[str] = field(default_factory=list)
    #: seconds
    longest: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def grown(self, number: int) -> bool:
        """Whether so many requests have been answered."""
        return self.answered >= number


class Worker:
    """A mitmdump on ports that stay the same."""

    def __init__(self, folder: Path, origin: Origin, policy: Path, port: int, health: int) -> None:
        self.ports = port, health
        self._folder, self._origin, self._policy = folder, origin, policy
        self._running = ExitStack()
        self.proxy: Proxy | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        port, health = self.ports
        options = {"hushlist_proxy_protocol": BALANCER, "hushlist_health": f"{LOOPBACK}:{health}"}
        mode = f"regular@{LOOPBACK}:{port}"
        started = mitmdump(self._folder, self._origin, policy=self._policy, proxy_mode=mode, options=options)
        self.proxy = self._running.enter_context(started)

    def send(self, number: int) -> None:
        """Send it a signal."""
        assert self.proxy is not None
        self.proxy.process.send_signal(number)

    def end(self, number: int = signal.SIGTERM) -> str:
        """End it by a signal; what it has printed."""
        assert self.proxy is not None
        self.send(number)
        self.proxy.process.wait(PATIENCE)
        self._running.close()
        text, self.proxy = self.proxy.log.text(), None
        return text

    def close(self) -> None:
        """End it if it runs."""
        self._running.close()


class FleetLab:
    """The whole."""

    def __init__(self, folder: Path, origin: Origin) -> None:
        self.folder, self.origin = folder, origin
        self.policy = folder / "policy.yaml"
        self.workers: list[Worker] = []
        self.balancer: Balancer
        folder.mkdir(parents=True, exist_ok=True)
        simple_policy(folder, f"fine.test{SECRET}")
        self.good = self.policy.read_text(encoding="utf-8")

    @contextmanager
    def running(self) -> Iterator[FleetLab]:
        """All of it, until the block ends."""
        folders = {"XDG_CACHE_HOME": self.folder / "cache", "XDG_STATE_HOME": self.folder / "state"}
        with environment(folders), ExitStack() as stack:
            ports = free_ports(4)
            for port, health in (ports[:2], ports[2:]):
                worker = Worker(self.folder, self.origin, self.policy, port, health)
                stack.callback(worker.close)
                worker.start()
                self.workers.append(worker)
            self.balancer = stack.enter_context(haproxy(self.folder, [worker.ports for worker in self.workers]))
            yield self

    def write_policy(self, text: str) -> None:
        """Write the policy that both workers use."""
        replace(self.policy, text)

    @contextmanager
    def under_load(self) -> Iterator[Traffic]:
        """Clients ask until the block ends, and some time before and after it."""
        proxy = self.workers[0].proxy
        assert proxy is not None
        with under_load(self.balancer.port, proxy.authority) as traffic:
            yield traffic


@contextmanager
def under_load(port: int, authority: Path, pace: float = PACE) -> Iterator[Traffic]:
    """Clients ask a proxy until the block ends, and some time before and after it."""
    traffic, over = Traffic(), threading.Event()
    context = ssl.create_default_context(cafile=str(authority))
    clients = [
        threading.Thread(
            target=_ask, args=(_connection(source, port, context), source, traffic, over, pace), daemon=True
        )
        for source in (f"127.0.1.{number}" for number in range(1, CLIENTS + 1))
    ]
    for client in clients:
        client.start()
    try:
        _wait_for(traffic, 5 * CLIENTS)
        yield traffic
        _wait_for(traffic, traffic.answered + 5 * CLIENTS)
    finally:
        over.set()
        for client in clients:
            client.join(2 * PATIENCE)


def _ask(connection: HTTPConnection, source: str, traffic: Traffic, over: threading.Event, pace: float) -> None:
    """What a client does: mostly on a connection that it keeps, if the proxy does."""
    number = 0
    while not over.wait(pace):
        number += 1
        is_blocked = number % BLOCKED == 0
        path = f"{SECRET if is_blocked else '/'}{source}/{number}"
        url = path if isinstance(connection, HTTPSConnection) else f"http://fine.test{path}"
        headers = {"Connection": "close"} if number % KEPT == 0 else {}
        start = time.monotonic()
        try:
            connection.request("GET", url, headers=headers)
            response = connection.getresponse()
            response.read()
            if headers:
                connection.close()  # as it has said that it would
        except (OSError, HTTPException) as error:
            connection.close()
            with traffic.lock:
                traffic.lost.append(f"{source} {number}: {error!r}")
            continue
        with traffic.lock:
            traffic.answered += 1
            traffic.longest = max(traffic.longest, time.monotonic() - start)
            if response.status != (403 if is_blocked else 200):
                traffic.wrong.append(f"{source} {number}: {response.status}")
    connection.close()


def _connection(source: str, port: int, context: ssl.SSLContext) -> HTTPConnection:
    """Half of the clients ask through tunnels, over TLS."""
    if int(source.rpartition(".")[2]) % 2:
        return HTTPConnection(LOOPBACK, port, PATIENCE, source_address=(source, 0))
    connection = HTTPSConnection(LOOPBACK, port, timeout=PATIENCE, source_address=(source, 0), context=context)
    connection.set_tunnel("fine.test", 443)
    return connection


def _wait_for(traffic: Traffic, number: int) -> None:
    end = time.monotonic() + PATIENCE
    while not traffic.grown(number):
        assert time.monotonic() < end, f"no answers: {traffic.lost[-3:]}"
        time.sleep(0.01)
