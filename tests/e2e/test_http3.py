"""HTTP/3 through a reverse proxy to a real origin that speaks it: what is blocked does not arrive."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.buffer import encode_uint_var
from aioquic.h3.connection import H3_ALPN, FrameType, H3Connection, StreamType
from aioquic.h3.events import DataReceived, H3Event, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, QuicEvent, StreamReset

from e2e.origin import LOOPBACK, Origin
from e2e.policies import simple_policy
from e2e.proxy import PATIENCE, Proxy, end_cleanly, mitmdump

#: seconds after which a request that is perhaps cut off is given up
CUT = 3.0
SIZE = 300_000
#: ports of the connections so far: for a minute, mitmproxy does not see a new connection from the port of an ended one
_past_ports: set[int] = set()


def new_port() -> int:
    """A free port from which no connection of these tests has come yet."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        probe.bind(("::", 0))
        port = int(probe.getsockname()[1])
        if port in _past_ports:
            return new_port()
    _past_ports.add(port)
    return port


def _at_free_port(address: str, port: int) -> socket.socket:
    """A socket for datagrams, at a port that is free for TCP too; of port 0, at any."""
    for is_last in (False, False, True):
        listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        listening.bind((address, port))
        try:
            socket.create_server(listening.getsockname()).close()
        except OSError:
            listening.close()
            if is_last:
                raise
        else:
            break
    return listening


class QuicOrigin(Origin):
    """The origin, which speaks HTTP/3 too, at the port of its TLS."""

    def __init__(self, folder: Path, address: str = LOOPBACK, ports: tuple[int, int] = (0, 0)) -> None:
        listening = _at_free_port(address, ports[1])
        super().__init__(folder, address=address, ports=(ports[0], listening.getsockname()[1]))
        listening.setblocking(False)
        self._config.listeners.quic_sockets.append(listening)
        self._config.quic_bind = [f"{address}:{self.https_port}"]

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._config.listeners.quic_sockets.clear()
        with warnings.catch_warnings():  # hypercorn does not close what it receives datagrams by
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


class Client(QuicConnectionProtocol):
    """Sends one request, and gathers what comes back."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._http = H3Connection(self._quic)
        self.events: list[H3Event] = []
        self.is_over = asyncio.Event()

    def quic_event_received(self, event: QuicEvent) -> None:
        found = self._http.handle_event(event)
        self.events += found
        is_end = any(getattr(one, "stream_ended", False) for one in found)
        if is_end or isinstance(event, StreamReset | ConnectionTerminated):
            self.is_over.set()

    def send(self, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        number = self._quic.get_next_available_stream_id()
        self._http.send_headers(number, headers, end_stream=not body)
        for start in range(0, len(body), 10_000):
            self._http.send_data(number, body[start : start + 10_000], end_stream=start + 10_000 >= len(body))
        self.transmit()


@asynccontextmanager
async def connected(proxy: Proxy, server_name: str = "good.test", address: str = LOOPBACK) -> AsyncIterator[Client]:
    """A connection to the proxy; it may send datagrams."""
    trust = QuicConfiguration(
        alpn_protocols=H3_ALPN, server_name=server_name, cafile=str(proxy.authority), max_datagram_frame_size=65536
    )
    async with connect(
        address, proxy.port, configuration=trust, create_protocol=Client, local_port=new_port()
    ) as client:
        assert isinstance(client, Client)
        yield client


def ask(
    proxy: Proxy,
    authority: str,
    path: str,
    *,
    server_name: str = "good.test",
    body: bytes = b"",
    more: list[tuple[bytes, bytes]] | None = None,
    patience: float = PATIENCE,
    address: str = LOOPBACK,
) -> tuple[int | None, bytes]:
    """Status and body of the answer; no status where the stream, or the connection, is cut off or refused."""

    async def request() -> Client:
        async with connected(proxy, server_name, address) as client:
            method = b"POST" if body else b"GET"
            pseudo = [(b":method", method), (b":scheme", b"https"), (b":authority", authority.encode())]
            client.send([*pseudo, (b":path", path.encode()), *(more or [])], body)
            with suppress(TimeoutError):
                await asyncio.wait_for(client.is_over.wait(), patience)
            return client

    try:
        events = asyncio.run(request()).events
    except ConnectionError:
        return None, b""
    heads = [dict(event.headers) for event in events if isinstance(event, HeadersReceived)]
    content = b"".join(event.data for event in events if isinstance(event, DataReceived))
    return (int(heads[0][b":status"]) if heads else None), content


@pytest.fixture(scope="module")
def quic_origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuicOrigin]:
    with QuicOrigin(tmp_path_factory.mktemp("quic")) as running:
        yield running


#: those of one protocol share a proxy
PROTOCOLS = [pytest.param(name, marks=pytest.mark.xdist_group(f"reverse {name}")) for name in ("http3", "https")]


@pytest.fixture(scope="module", params=PROTOCOLS)
def reverse(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, quic_origin: QuicOrigin, policy: Path
) -> Iterator[Proxy]:
    target = f"reverse:{request.param}://{LOOPBACK}:{quic_origin.https_port}"
    options = {"keep_host_header": "true", "stream_large_bodies": "50k"}
    folder = tmp_path_factory.mktemp("reverse")
    with mitmdump(folder, quic_origin, policy=policy, proxy_mode=target, options=options) as running:
        yield running


def test_an_allowed_request_and_upload_arrive(reverse: Proxy, quic_origin: QuicOrigin) -> None:
    before = len(quic_origin.requests)
    assert ask(reverse, "good.test", "/page") == (200, b"from the origin")
    assert ask(reverse, "good.test", "/upload", body=bytes(SIZE))[0] == 200
    arrived = quic_origin.requests[before:]
    assert [(one.http_version, one.target, one.body) for one in arrived] == [
        ("3", b"/page", 0),
        ("3", b"/upload", SIZE),
    ]


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.thorough), signal.SIGINT])
def test_a_connection_that_is_open_does_not_make_a_traceback_of_the_end(
    tmp_path: Path, quic_origin: QuicOrigin, policy: Path, number: signal.Signals
) -> None:
    target = f"reverse:http3://{LOOPBACK}:{quic_origin.https_port}"

    async def ask_and_end(proxy: Proxy) -> None:
        async with connected(proxy) as client:
            pseudo = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"good.test"), (b":path", b"/")]
            client.send(pseudo, b"")
            await asyncio.wait_for(client.is_over.wait(), PATIENCE)
            await asyncio.to_thread(end_cleanly, proxy, number)

    options = {"keep_host_header": "true"}
    with mitmdump(tmp_path, quic_origin, policy=policy, proxy_mode=target, options=options) as running:
        asyncio.run(ask_and_end(running))


@pytest.mark.parametrize(
    ("authority", "path"),
    [
        ("ads.test", "/"),
        ("ADS.test", "/"),
        ("ads.test.", "/"),
        ("www.ads.test:443", "/"),
        ("path.test", "/secret/"),
        ("path.test", "/%73ecret/x"),
        ("path.test", "//secret/"),
        ("path.test", "/a/../secret/x"),
        ("path.test", "/./secret/x"),
        ("path.test", "/secret/?q"),
        ("path.test", "/%2573ecret/"),
        ("path.test", "\\secret\\"),
        ("path.test", "/secret/;x"),
        ("10.1.2.3", "/"),
        ("0x0a.1.2.3", "/"),
        ("good.test", "https://ads.test/"),
    ],
)
def test_a_blocked_request_gets_the_page_and_does_not_arrive(
    reverse: Proxy, quic_origin: QuicOrigin, authority: str, path: str
) -> None:
    before = len(quic_origin.requests)
    status, content = ask(reverse, authority, path)
    assert status == 403
    assert b"<html" in content
    assert quic_origin.requests[before:] == []


@pytest.mark.parametrize("authority", ["%61ds.test", "me@ads.test", "ads.test:x", ""])
def test_what_is_no_authority_does_not_arrive(reverse: Proxy, quic_origin: QuicOrigin, authority: str) -> None:
    before = len(quic_origin.requests)
    assert ask(reverse, authority, "/", server_name="ads.test", patience=CUT)[0] != 200
    assert quic_origin.requests[before:] == []


def test_a_blocked_host_header_or_server_name_is_enough(reverse: Proxy, quic_origin: QuicOrigin) -> None:
    before = len(quic_origin.requests)
    assert ask(reverse, "good.test", "/", more=[(b"host", b"ads.test")], patience=CUT)[0] != 200
    assert ask(reverse, "good.test", "/", server_name="ads.test")[0] == 403
    assert quic_origin.requests[before:] == []


@pytest.mark.parametrize("length", [True, False], ids=["content-length", "no length"])
def test_nothing_of_a_blocked_upload_arrives(reverse: Proxy, quic_origin: QuicOrigin, length: bool) -> None:
    before = len(quic_origin.requests)
    more = [(b"content-length", str(SIZE).encode())] if length else []
    assert ask(reverse, "path.test", "/secret/", body=bytes(SIZE), more=more, patience=CUT)[0] in (403, None)
    assert quic_origin.requests[before:] == []
    assert ask(reverse, "good.test", "/after")[0] == 200


def _send_without_end(client: Client) -> None:
    number = client._quic.get_next_available_stream_id()
    client._quic.send_stream_data(
        number, encode_uint_var(FrameType.HEADERS) + encode_uint_var(1 << 40) + bytes(1 << 17)
    )


def _send_many_pieces(client: Client) -> None:
    """Every second octet of a stream."""
    number = client._quic.get_next_available_stream_id()
    client._quic.send_stream_data(number, bytes(2500))
    sender = client._quic._streams[number].sender
    for place in range(0, 2500, 2):
        sender._pending.subtract(place, place + 1)


@pytest.mark.parametrize("send", [_send_without_end, pytest.param(_send_many_pieces, marks=pytest.mark.thorough)])
def test_a_client_that_never_comes_to_an_end_is_ended(reverse: Proxy, send: Callable[[Client], None]) -> None:
    async def ended() -> bool:
        async with connected(reverse) as client:
            send(client)
            client.transmit()
            await asyncio.wait_for(client.is_over.wait(), PATIENCE)
            return bool(client._quic._close_event)

    assert asyncio.run(ended())
    assert ask(reverse, "good.test", "/after")[0] == 200


def test_datagrams_and_webtransport_go_nowhere_and_do_no_harm(reverse: Proxy, quic_origin: QuicOrigin) -> None:
    async def send() -> None:
        async with connected(reverse) as client:
            for _ in range(3):
                client._quic.send_datagram_frame(b"\0some data")
            for is_unidirectional, kind in ((False, FrameType.WEBTRANSPORT_STREAM), (True, StreamType.WEBTRANSPORT)):
                number = client._quic.get_next_available_stream_id(is_unidirectional)
                client._quic.send_stream_data(number, encode_uint_var(kind) + b"\0some data")
            pseudo = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"good.test"), (b":path", b"/last")]
            client.send(pseudo, b"")
            await asyncio.wait_for(client.is_over.wait(), PATIENCE)

    before, lines = len(quic_origin.requests), len(reverse.log)
    asyncio.run(send())
    assert [one.target for one in quic_origin.requests[before:]] == [b"/last"]
    assert "Traceback" not in reverse.log.text(lines)


def test_a_download_ends_when_a_rule_begins(tmp_path: Path, quic_origin: QuicOrigin) -> None:
    size = 64 << 20
    quic_origin.pages["/large"] = "application/octet-stream", bytes(size)
    policy = simple_policy(tmp_path / "own", "ads.test")
    target = f"reverse:http3://{LOOPBACK}:{quic_origin.https_port}"
    options = {"keep_host_header": "true", "stream_large_bodies": "50k"}

    def received(client: Client) -> int:
        return sum(len(event.data) for event in client.events if isinstance(event, DataReceived))

    async def download() -> int:
        async with connected(proxy) as client:
            pseudo = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"good.test")]
            client.send([*pseudo, (b":path", b"/large")], b"")
            while not received(client):
                await asyncio.sleep(0.05)
            simple_policy(tmp_path / "own", "ads.test", "good.test")
            await asyncio.to_thread(proxy.log.wait_for, "no connection for .* to https://good.test/large")
            await asyncio.sleep(0.2)
            before = received(client)
            await asyncio.sleep(0.5)
            assert received(client) == before
            return before

    (tmp_path / "mitmdump").mkdir()
    with mitmdump(tmp_path / "mitmdump", quic_origin, policy=policy, proxy_mode=target, options=options) as proxy:
        assert 0 < asyncio.run(download()) < size
