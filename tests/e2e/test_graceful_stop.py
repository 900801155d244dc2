"""A proxy that is stopped by SIGTERM or SIGHUP ends what is open, and says meanwhile that it is not ready."""

from __future__ import annotations

import itertools
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import StreamEnded
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from e2e.origin import LOOPBACK, PATIENCE, Origin
from e2e.plain_origin import PlainOrigin
from e2e.policies import replace, simple_policy
from e2e.proxy import Proxy, end_cleanly, eventually, read_answer, request_head
from support.waiting import wait_until

#: the type of a frame; spec: RFC 9113, 6.8
GOAWAY = 7
HEALTH = {"hushlist_health": f"{LOOPBACK}:0"}


class SlowOrigin(PlainOrigin):
    """Answers each request on a connection of its own, when it is told to, in two parts."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.arrived, self.go_on, self.end = threading.Semaphore(0), threading.Event(), threading.Event()
        self.port = self.http_port
        self.url = f"http://{LOOPBACK}:{self.port}/"
        self.head = request_head(self.url.encode(), f"{LOOPBACK}:{self.port}".encode())

    def _answer(self, connection: socket.socket) -> None:
        while connection.recv(65536):
            self.arrived.release()
            self.go_on.wait(PATIENCE)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nfirst ")
            self.end.wait(PATIENCE)
            connection.sendall(b"second")


@pytest.fixture
def slow() -> Iterator[SlowOrigin]:
    with SlowOrigin() as origin:
        yield origin
        origin.go_on.set()
        origin.end.set()


def health_of(proxy: Proxy) -> str:
    """Where the proxy answers load balancers."""
    return "http://" + proxy.log.wait_for(r"/healthz and /readyz at (127\.0\.0\.1:\d+)")[1]


def ask(url: str) -> tuple[int, str]:
    """Status and reason of one answer."""
    answer = httpx.get(url, timeout=PATIENCE, trust_env=False)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["ok"] is (answer.status_code == 200)
    return answer.status_code, answer.json()["reason"]


def terminate(proxy: Proxy, number: signal.Signals = signal.SIGTERM) -> None:
    """What systemd and containers do, seen by the proxy; with SIGHUP, what a terminal does that is closed."""
    proxy.process.send_signal(number)
    proxy.log.wait_for("stopping: what is open has 10 seconds to end")


def wait_until_closed(proxy: Proxy) -> None:
    """Return once nothing new is accepted."""
    proxy.log.wait_for(r"HTTP\(S\) proxy at .* stopped")


@contextmanager
def asking(proxy: Proxy, url: str) -> Iterator[list[httpx.Response]]:
    """A request in a thread of its own; its answer is there when the block ends."""
    answers: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: answers.append(proxy.get(url)))
    thread.start()
    try:
        yield answers
    finally:
        thread.join(PATIENCE)


@pytest.fixture
def start_filtered(tmp_path: Path, start: Callable[..., Proxy]) -> Callable[..., Proxy]:
    policy = simple_policy(tmp_path / "policy", "ads.test/")
    return lambda **options: start(policy=policy, options=options)


class TestHealth:
    def test_the_port_follows_the_policy(self, tmp_path: Path, start_filtered: Callable[..., Proxy]) -> None:
        proxy = start_filtered(**HEALTH)
        base = health_of(proxy)
        assert ask(f"{base}/healthz") == (200, "it decides")
        assert ask(f"{base}/readyz") == (200, "it is ready")
        policy = tmp_path / "policy" / "policy.yaml"
        good = policy.read_text()
        policy.write_text("layers: 7\n")
        proxy.log.wait_for("the change is not used")
        assert ask(f"{base}/healthz")[0] == 200
        assert ask(f"{base}/readyz") == (503, "the last change of the policy or its lists is not used: it has mistakes")
        before = len(proxy.log)
        policy.write_text(good)
        proxy.log.wait_for("1 rule of", before)
        assert ask(f"{base}/readyz")[0] == 200

    @pytest.mark.parametrize("scheme", ["http", "https"])
    def test_the_live_page_s_host_says_the_same(self, start_filtered: Callable[..., Proxy], scheme: str) -> None:
        proxy = start_filtered()
        for path, reason in (("healthz", "it decides"), ("readyz", "it is ready")):
            answer = proxy.get(f"{scheme}://hushlist.internal/{path}")
            assert (answer.status_code, answer.json()) == (200, {"ok": True, "reason": reason})

    def test_a_port_that_is_taken_ends_mitmdump_with_the_reason(self, start_filtered: Callable[..., Proxy]) -> None:
        with socket.create_server((LOOPBACK, 0)) as taken:
            place = "{}:{}".format(*taken.getsockname())
            with pytest.raises(AssertionError, match=f"hushlist_health cannot be {place}"):
                start_filtered(hushlist_health=place)


class TestStop:
    def test_it_is_not_ready_at_once_and_still_serves_what_load_balancers_send(
        self, start_filtered: Callable[..., Proxy], origin: Origin
    ) -> None:
        proxy = start_filtered(**HEALTH)
        base = health_of(proxy)
        terminate(proxy)
        assert ask(f"{base}/readyz") == (503, "it is stopping")
        assert ask(f"{base}/healthz")[0] == 200
        answer = proxy.get("http://fine.test/")
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        assert proxy.get("http://ads.test/").headers["connection"] == "close"
        assert proxy.process.wait(PATIENCE) == 0

    def test_a_request_that_is_open_ends(self, start_filtered: Callable[..., Proxy], slow: SlowOrigin) -> None:
        proxy = start_filtered(upstream_proxy=slow.port)
        with asking(proxy, slow.url) as answers:
            assert slow.arrived.acquire(timeout=PATIENCE)
            terminate(proxy)
            wait_until_closed(proxy)
            with pytest.raises(OSError):
                proxy.connect()
            time.sleep(2)  # longer than what counts as idle
            slow.go_on.set()
            time.sleep(2)
            assert proxy.process.poll() is None
            slow.end.set()
        (answer,) = answers
        assert (answer.status_code, answer.content) == (200, b"first second")
        assert proxy.process.wait(PATIENCE) == 0
        assert "unfinished" not in proxy.log.text()

    def test_idle_connections_do_not_hold_it(self, start_filtered: Callable[..., Proxy], origin: Origin) -> None:
        proxy = start_filtered()
        with proxy.client() as client, proxy.client(http2=True) as other, proxy.connect() as silent:
            assert client.get("http://fine.test/").status_code == 200
            assert other.get("https://fine.test/").status_code == 200
            start = time.monotonic()
            is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # by "nohup", and by the proxy, too
            terminate(proxy, signal.SIGTERM if is_ignored else signal.SIGHUP)
            assert silent.recv(1) == b""
            assert proxy.process.wait(PATIENCE) == 0
            assert time.monotonic() - start < 9, "it waited for connections on which nothing was asked"

    def test_a_slow_reader_gets_all_of_an_answer(self, start_filtered: Callable[..., Proxy], origin: Origin) -> None:
        """What mitmproxy has written, and the system not yet taken, is lost when the loop ends too early."""
        body = bytes(range(256)) * (64 << 10)
        origin.pages["/large"] = ("application/octet-stream", body)
        proxy = start_filtered()
        with proxy.connect() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
            connection.sendall(request_head(b"http://fine.test/large", b"fine.test"))
            connection.recv(1, socket.MSG_PEEK)
            terminate(proxy)
            wait_until_closed(proxy)
            time.sleep(2)
            assert read_answer(connection).body == body
        assert proxy.process.wait(PATIENCE) == 0

    @pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
    def test_a_second_signal_ends_it_at_once(
        self, start_filtered: Callable[..., Proxy], slow: SlowOrigin, second: signal.Signals
    ) -> None:
        proxy = start_filtered(upstream_proxy=slow.port)
        with proxy.connect() as connection:
            connection.sendall(slow.head)
            assert slow.arrived.acquire(timeout=PATIENCE)
            start = time.monotonic()
            terminate(proxy)
            proxy.process.send_signal(second)
            proxy.process.wait(PATIENCE)
            assert time.monotonic() - start < 9

    @pytest.mark.parametrize(
        "signals",
        [*(pytest.param(many * [signal.SIGTERM], marks=pytest.mark.thorough) for many in (2, 4)), [signal.SIGINT]],
        ids=len,
    )
    def test_whatever_is_open_it_ends_without_a_traceback(
        self, tmp_path: Path, start: Callable[..., Proxy], slow: SlowOrigin, signals: list[signal.Signals]
    ) -> None:
        """Tunnels that are passed through, TLS, a WebSocket, an upload, a download and HTTP/2, all in use."""
        policy = simple_policy(tmp_path / "policy", "ads.test/")
        replace(policy, f"{policy.read_text()}pass-through: ['={LOOPBACK}']\n")
        slow.go_on.set()
        proxy = start(policy=policy, options={"upstream_proxy": slow.port})
        with ExitStack() as opened, ThreadPoolExecutor(1) as threads:
            chat = threads.submit(chat_until_it_ends, proxy)
            passed = opened.enter_context(proxy.tunnel(LOOPBACK, slow.port))
            passed.sendall(b"not TLS")
            assert passed.recv(1)
            download, upload, silent = (opened.enter_context(proxy.connect()) for _ in range(3))
            download.sendall(slow.head)
            assert download.recv(1)
            head = b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 999\r\n\r\n"
            upload.sendall(head % (b"http://fine.test/", b"fine.test") + b"some")
            decrypted = proxy.tls().wrap_socket(proxy.tunnel("fine.test", 443), server_hostname="fine.test")
            opened.enter_context(decrypted)
            decrypted.sendall(head % (b"/", b"fine.test") + b"some")
            client = opened.enter_context(MultiplexingClient(proxy))
            client.ask("POST")
            assert client.answers(client.ask("GET"))
            assert eventually(lambda: len(re.findall("server connect fine.test", proxy.log.text())) == 4)
            assert "hushlist: 7 requests decided" in end_cleanly(proxy, *signals)
            assert silent.recv(1) == b""
            assert chat.result(PATIENCE) > 0

    def test_clients_that_keep_their_connections_lose_no_request(
        self, start_filtered: Callable[..., Proxy], origin: Origin
    ) -> None:
        """Each asks without a pause, until a load balancer would lead new connections elsewhere."""
        proxy, is_taken_out = start_filtered(**HEALTH), threading.Event()
        base = health_of(proxy)
        ways = [("http", False), ("https", False), ("https", True)]
        faults: list[Exception] = []
        #: from which ports each asked, in order
        ports: list[list[int]] = [[] for _ in ways]

        def browse(ports: list[int], scheme: str, http2: bool) -> None:
            with proxy.client(http2=http2) as client:
                try:
                    while not is_taken_out.is_set():
                        with client.stream("GET", f"{scheme}://fine.test/") as answer:
                            port = answer.extensions["network_stream"].get_extra_info("client_addr")[1]
                            assert answer.read() == b"from the origin"
                        ports.append(port)
                except Exception as error:
                    faults.append(error)

        threads = [threading.Thread(target=browse, args=[ports[number], *way]) for number, way in enumerate(ways)]
        for thread in threads:
            thread.start()
        wait_until(lambda: min(map(len, ports)) > 10 or bool(faults))
        kept = [set(numbers) for numbers in ports]
        terminate(proxy)
        wait_until(lambda: ask(f"{base}/readyz")[0] == 503)
        wait_until(
            lambda: all(set(numbers) - before for numbers, before in zip(ports, kept, strict=True)) or bool(faults)
        )
        is_taken_out.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert proxy.process.wait(PATIENCE) == 0
        assert faults == []
        assert [len(before) for before in kept] == [1, 1, 1]
        assert "unfinished" not in proxy.log.text()

    def test_what_never_ends_does_not_hold_it_and_short_requests_beside_it_are_answered(
        self, start_filtered: Callable[..., Proxy], origin: Origin, slow: SlowOrigin
    ) -> None:
        """An event stream, a WebSocket that is used, and HTTP/2 with a stream that is always open."""
        slow.go_on.set()  # its answer begins
        proxy = start_filtered(upstream_proxy=slow.port)
        with proxy.connect() as events, MultiplexingClient(proxy) as client, ThreadPoolExecutor(1) as threads:
            chat = threads.submit(chat_until_it_ends, proxy)
            events.sendall(slow.head)
            assert slow.arrived.acquire(timeout=PATIENCE)
            client.ask("POST")  # its body never ends
            assert client.answers(client.ask("GET"))
            start = time.monotonic()
            terminate(proxy)
            while not client.is_told:
                assert client.answers(client.ask("GET")), "a request that had begun before GOAWAY has no answer"
            assert 4 < time.monotonic() - start < 9
            assert chat.result(PATIENCE) > 0
            assert proxy.process.wait(PATIENCE) == 0
            assert 9 < time.monotonic() - start < 15
        proxy.log.wait_for("2 requests ended unfinished")


def chat_until_it_ends(proxy: Proxy) -> int:
    """How many messages of a WebSocket came back."""
    numbers = itertools.count()
    with connect("ws://fine.test/chat", proxy=proxy.url, open_timeout=PATIENCE) as chat, suppress(ConnectionClosed):
        while next(numbers) < 1000:
            chat.send("still here")
            chat.recv(PATIENCE)
            time.sleep(0.1)
    return next(numbers)


class MultiplexingClient:
    """A client with one HTTP/2 connection; a context manager."""

    def __init__(self, proxy: Proxy) -> None:
        trust = proxy.tls()
        trust.set_alpn_protocols(["h2"])
        self._tls = trust.wrap_socket(proxy.tunnel("fine.test", 443), server_hostname="fine.test")
        self._http = H2Connection(H2Configuration(header_encoding="utf-8"))
        self._http.initiate_connection()
        self._answered: set[int] = set()
        self._read = b""
        #: whether GOAWAY came
        self.is_told = False

    def __enter__(self) -> MultiplexingClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._tls.close()

    def ask(self, method: str) -> int:
        """Begin a request: the number of its stream. That of a POST does not end."""
        number = self._http.get_next_available_stream_id()
        head = [(":method", method), (":scheme", "https"), (":authority", "fine.test"), (":path", "/")]
        self._http.send_headers(number, head, end_stream=method == "GET")
        self._tls.sendall(self._http.data_to_send())
        return number

    def answers(self, number: int) -> bool:
        """Read until a request is answered; ``False`` if the connection ends before."""
        while number not in self._answered:
            octets = self._tls.recv(65536)
            if not octets:
                return False
            self._read += octets
            while len(self._read) >= 9 and len(self._read) >= (length := 9 + int.from_bytes(self._read[:3])):
                frame, self._read = self._read[:length], self._read[length:]
                if frame[3] == GOAWAY:  # by which h2 would give up what is open
                    self.is_told = True
                    continue
                for event in self._http.receive_data(frame):
                    if isinstance(event, StreamEnded) and event.stream_id is not None:
                        self._answered.add(event.stream_id)
            self._tls.sendall(self._http.data_to_send())
        return True
