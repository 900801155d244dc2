"""A body is read as fast as it is taken, and holds nobody else."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
from h2.events import DataReceived, RequestReceived, ResponseReceived, StreamEnded

from e2e.h2_peer import H2Peer
from e2e.origin import LOOPBACK, PATIENCE, write_certificate
from e2e.plain_origin import PlainOrigin, Serve
from e2e.policies import write_list, write_policy
from e2e.proxy import Proxy, eventually, mitmdump
from e2e.test_streaming import h2_client, read_head, serving
from e2e.test_tunnels import HAS_TUNNELS

LARGE = 48 << 20
#: octets that may wait on the way, in the kernel's buffers too
ON_THE_WAY = 24 << 20
_BLOCK = bytes(1 << 16)


class Way:
    """An origin's end of large bodies: how much it has sent or read, and whether it reads."""

    def __init__(self) -> None:
        self.octets = 0
        self.reads = threading.Event()


def write_body(connection: socket.socket, way: Way) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % LARGE)
    while way.octets < LARGE:
        connection.sendall(_BLOCK)
        way.octets += len(_BLOCK)


def read_body(connection: socket.socket, way: Way, head: bytes) -> None:
    assert way.reads.wait(PATIENCE)
    is_chunked, tail = b"chunked" in head.lower(), b""
    while not (tail.endswith(b"0\r\n\r\n") if is_chunked else way.octets >= LARGE):
        octets = connection.recv(1 << 20)
        way.octets += len(octets)
        tail = (tail + octets)[-5:]
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


@pytest.fixture
def way() -> Way:
    return Way()


@pytest.fixture
def over_http1(tmp_path: Path, policy: Path, way: Way) -> Iterator[Proxy]:
    """A proxy in front of an origin that speaks HTTP/1.1, also behind TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*write_certificate(tmp_path))

    def serve(connection: socket.socket) -> None:
        if connection.recv(1, socket.MSG_PEEK) == b"\x16":
            with context.wrap_socket(connection, server_side=True) as encrypted:
                answer(encrypted)
        else:
            answer(connection)

    def answer(connection: socket.socket) -> None:
        head = read_head(connection)
        if b" /down " in head:
            write_body(connection, way)
        elif b" /up " in head:
            read_body(connection, way, head)
        else:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with serving(tmp_path, policy, serve) as proxy:
        yield proxy


@pytest.fixture
def over_http2(tmp_path: Path, policy: Path, way: Way) -> Iterator[Proxy]:
    """A proxy in front of an origin that speaks HTTP/2, and gives no leave to send it a second window."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*write_certificate(tmp_path))
    context.set_alpn_protocols(["h2"])

    def serve(connection: socket.socket) -> None:
        paths: dict[int, str] = {}
        with (
            suppress(ConnectionError),
            closing(H2Peer(context.wrap_socket(connection, server_side=True), is_client=False)) as peer,
        ):
            while True:
                for event in peer.receive(gives_leave=way.reads.is_set()):
                    if isinstance(event, RequestReceived):
                        paths[event.stream_id] = dict(event.headers)[":path"]
                        peer.h2.send_headers(event.stream_id, [(":status", "200")])
                    elif isinstance(event, DataReceived):
                        way.octets += len(event.data)
                    elif isinstance(event, StreamEnded) and paths[event.stream_id] != "/down":
                        peer.h2.send_data(event.stream_id, b"ok", end_stream=True)
                for number in [number for number, path in paths.items() if path == "/down"]:
                    while way.octets < LARGE and (
                        part := min(peer.h2.local_flow_control_window(number), peer.h2.max_outbound_frame_size)
                    ):
                        way.octets += part
                        peer.h2.send_data(number, bytes(part), end_stream=way.octets >= LARGE)
                        peer.flush()
                        if way.octets >= LARGE:
                            del paths[number]
                for number in [number for number, path in paths.items() if path == "/up" and way.reads.is_set()]:
                    paths[number] = "/up, with leave to send all of it"
                    peer.h2.increment_flow_control_window(LARGE, number)
                    peer.h2.increment_flow_control_window(LARGE)
                peer.flush()

    with serving(tmp_path, policy, serve) as proxy:
        yield proxy


@pytest.fixture(params=["over_http1", pytest.param("over_http2", marks=pytest.mark.thorough)])
def peer(request: pytest.FixtureRequest) -> Iterator[H2Peer]:
    """A client over HTTP/2, of either origin."""
    with h2_client(request.getfixturevalue(request.param)) as peer:
        yield peer


def test_what_a_client_does_not_read_is_not_read_from_its_origin(over_http1: Proxy, way: Way) -> None:
    with over_http1.connect() as connection:
        connection.sendall(b"GET http://good.test/down HTTP/1.1\r\nHost: good.test\r\n\r\n")
        read_head(connection)
        _wait_for_silence(lambda: way.octets)
        assert way.octets < ON_THE_WAY
        octets = 0
        while octets < LARGE:
            octets += len(connection.recv(1 << 20))
    assert way.octets >= LARGE


def test_what_an_origin_does_not_read_is_not_read_from_its_client(over_http1: Proxy, way: Way) -> None:
    with over_http1.connect() as connection:
        head = f"POST http://good.test/up HTTP/1.1\r\nHost: good.test\r\nContent-Length: {LARGE}\r\n\r\n"
        connection.sendall(head.encode())
        connection.settimeout(1)
        sent = 0
        with suppress(TimeoutError):
            while sent < LARGE:
                sent += connection.send(_BLOCK)
        assert sent < ON_THE_WAY
        way.reads.set()
        connection.settimeout(PATIENCE)
        while sent < LARGE:
            sent += connection.send(_BLOCK[: LARGE - sent])
        assert read_head(connection).startswith(b"HTTP/1.1 200 ")


def test_an_answer_of_http_2_that_is_not_read_holds_no_other(peer: H2Peer, way: Way) -> None:
    number = peer.request("good.test", "/down")
    peer.read_until_silence()
    assert 0 < peer.octets[number] < 1 << 17
    assert way.octets < ON_THE_WAY
    peer.h2.increment_flow_control_window(1 << 20)  # of the connection, not of the stream
    assert peer.read_to_end(peer.request("good.test", "/other"), gives_leave=False) == 2
    peer.h2.increment_flow_control_window(1 << 30)
    peer.h2.increment_flow_control_window(1 << 30, number)
    peer.flush()
    assert peer.read_to_end(number) == LARGE


def test_an_upload_by_http_2_that_is_not_read_holds_no_other(peer: H2Peer, way: Way) -> None:
    number = peer.request("good.test", "/up", "POST", has_body=True)
    sent = peer.send_while_allowed(number, LARGE)
    assert 0 < sent < ON_THE_WAY
    assert peer.read_to_end(peer.request("good.test", "/other")) == 2
    way.reads.set()
    peer.request("good.test", "/other")  # has an origin over HTTP/2 give leave to send
    assert sent + peer.send_while_allowed(number, LARGE - sent) == LARGE
    peer.h2.end_stream(number)
    peer.flush()
    assert peer.read_to_end(number) == 2
    assert way.octets >= LARGE  # and the sizes of chunks


def _wait_for_silence(measure: Callable[[], int]) -> None:
    """Wait until a number has not changed for a second."""
    before, pause = -1, threading.Event()
    while measure() != before:
        before = measure()
        pause.wait(1)


# -- tunnels over the proxy's own HTTP/2 -------------------------------------------------------------------------------


@contextmanager
def h2_tunnel(tmp_path: Path, serve: Serve) -> Iterator[tuple[H2Peer, int]]:
    """A tunnel that is relayed to a server of a protocol that nobody knows, as a stream of HTTP/2."""
    folder = tmp_path / "passing"
    folder.mkdir()
    write_list(folder / "rules.yaml", "ads.test")
    with PlainOrigin(serve) as server, ExitStack() as running:
        policy = write_policy(folder, ["rules.yaml"], **{"pass-through": [f"bank.test:{server.http_port}"]})
        origin = running.enter_context(PlainOrigin(lambda _: None))
        options = {"upstream_others": "true"}
        proxy = running.enter_context(mitmdump(tmp_path, origin, policy=policy, options=options))
        context = proxy.tls()
        context.set_alpn_protocols(["h2"])
        peer = H2Peer(context.wrap_socket(proxy.connect(), server_hostname=LOOPBACK))
        running.enter_context(closing(peer))
        number = int(peer.h2.get_next_available_stream_id())
        target = f"bank.test:{server.http_port}"
        # the h2 package asks for what a CONNECT does not have
        fields = [(":method", "CONNECT"), (":scheme", "https"), (":authority", target), (":path", "/")]
        peer.h2.send_headers(number, fields)
        peer.flush()
        yield peer, number


@HAS_TUNNELS
def test_what_comes_by_a_tunnel_over_http_2_is_taken_as_its_server_reads(tmp_path: Path, way: Way) -> None:
    def listen(connection: socket.socket) -> None:
        assert way.reads.wait(PATIENCE)
        while octets := connection.recv(1 << 20):
            way.octets += len(octets)

    with h2_tunnel(tmp_path, listen) as (peer, number):
        while not any(isinstance(event, ResponseReceived) for event in peer.receive()):
            pass
        sent = peer.send_while_allowed(number, LARGE)
        assert 0 < sent < ON_THE_WAY
        way.reads.set()
        assert sent + peer.send_while_allowed(number, LARGE - sent) == LARGE
        assert eventually(lambda: way.octets == LARGE)
