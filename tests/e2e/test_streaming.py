"""Bodies go on while they arrive."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from h2.events import DataReceived, RequestReceived, StreamEnded, TrailersReceived

from e2e.h2_peer import H2Peer
from e2e.origin import PATIENCE
from e2e.plain_origin import PlainOrigin, Serve
from e2e.proxy import Proxy, mitmdump


@contextmanager
def serving(
    folder: Path,
    policy: Path,
    serve: Serve,
    *,
    encrypted: Path | None = None,
    protocol: str = "http/1.1",
    **options: Any,
) -> Iterator[Proxy]:
    """``encrypted``: a folder for the certificate of an origin over https, which speaks ``protocol``."""
    with (
        PlainOrigin(serve, encrypted, [protocol]) as origin,
        mitmdump(folder, origin, policy=policy, options=options) as proxy,
    ):
        yield proxy


def read_head(connection: socket.socket) -> bytes:
    """All up to an empty line, or to the end."""
    received = b""
    while not received.endswith(b"\r\n\r\n") and (octet := connection.recv(1)):
        received += octet
    return received


@pytest.mark.parametrize(
    "kind",
    [
        "text/event-stream",
        "text/plain",
        pytest.param("application/x-ndjson", marks=pytest.mark.thorough),
        pytest.param("audio/mpeg", marks=pytest.mark.thorough),
    ],
)
def test_an_answer_without_an_end_arrives_as_it_is_sent(tmp_path: Path, policy: Path, kind: str) -> None:
    has_arrived = threading.Semaphore(0)

    def serve(connection: socket.socket) -> None:
        read_head(connection)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head.encode())
        for number in range(5):
            connection.sendall(b"1\r\n%d\r\n" % number)
            assert has_arrived.acquire(timeout=PATIENCE)

    with (
        serving(tmp_path, policy, serve) as proxy,
        proxy.client() as client,
        client.stream("GET", "http://good.test/") as answer,
    ):
        arriving = answer.iter_raw()
        for number in range(5):
            assert next(arriving) == b"%d" % number
            has_arrived.release()


@contextmanager
def h2_client(proxy: Proxy) -> Iterator[H2Peer]:
    context = proxy.tls()
    context.set_alpn_protocols(["h2"])
    with closing(H2Peer(context.wrap_socket(proxy.tunnel("good.test", 443), server_hostname="good.test"))) as peer:
        yield peer


# -- both ways at once -------------------------------------------------------------------------------------------------


def echo_chunks(connection: socket.socket) -> None:
    """Answer at once, and send each chunk back as it comes."""
    read_head(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    reader = connection.makefile("rb")
    while size := int(reader.readline(), 16):
        chunk = reader.read(size + 2)
        connection.sendall(b"%x\r\n%b" % (size, chunk))
    connection.sendall(b"0\r\n\r\n")


def echo_frames(connection: socket.socket) -> None:
    """The same over HTTP/2, as gRPC has it: behind the body, fields say how it went."""
    with closing(H2Peer(connection, is_client=False)) as peer, suppress(ConnectionError):
        while True:
            for event in peer.receive():
                if isinstance(event, RequestReceived):
                    peer.h2.send_headers(event.stream_id, [(":status", "200"), ("content-type", "application/grpc")])
                elif isinstance(event, DataReceived) and event.data:
                    peer.h2.send_data(event.stream_id, event.data)
                elif isinstance(event, StreamEnded):
                    peer.h2.send_headers(event.stream_id, [("grpc-status", "0")], end_stream=True)
            peer.flush()


@pytest.mark.parametrize("is_http1", [True, False])
def test_a_call_goes_on_both_ways_at_once(tmp_path: Path, policy: Path, is_http1: bool) -> None:
    serve, protocol = (echo_chunks, "http/1.1") if is_http1 else (echo_frames, "h2")
    with serving(tmp_path, policy, serve, encrypted=tmp_path, protocol=protocol) as proxy, h2_client(proxy) as peer:
        number = peer.request("good.test", "/call", "POST", has_body=True, more=[("te", "trailers")])
        for round_number in range(1, 6):
            peer.h2.send_data(number, b"ping")
            peer.flush()
            while peer.octets.get(number, 0) < 4 * round_number:
                peer.receive()
        peer.h2.end_stream(number)
        peer.flush()
        found = []
        while number not in peer.ended:
            found += peer.receive()
        assert peer.octets[number] == 20
        heads = [dict(event.headers) for event in found if isinstance(event, TrailersReceived)]
        assert heads == ([] if is_http1 else [{"grpc-status": "0"}])


def test_over_http_1_a_body_comes_back_while_it_is_sent(tmp_path: Path, policy: Path) -> None:
    head = b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: chunked\r\n\r\n"
    with serving(tmp_path, policy, echo_chunks) as proxy, proxy.connect() as connection:
        connection.sendall(head)
        read_head(connection)
        for _ in range(5):
            connection.sendall(b"4\r\nping\r\n")
            assert read_exactly(connection, 9) == b"4\r\nping\r\n"
        connection.sendall(b"0\r\n\r\n")
        assert read_exactly(connection, 5) == b"0\r\n\r\n"


def read_exactly(connection: socket.socket, octets: int) -> bytes:
    received = b""
    while len(received) < octets:
        received += connection.recv(octets - len(received))
    return received


# -- what ends before its end ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ends", [False, True], ids=["goes on", "ends its side"])
def test_an_answer_before_the_end_of_an_upload_arrives_at_once(tmp_path: Path, policy: Path, ends: bool) -> None:
    def serve(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 413 No\r\nContent-Length: 4\r\n\r\nlong")
        if ends:
            connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass

    size = 8 << 20
    with serving(tmp_path, policy, serve) as proxy, proxy.client() as client:
        for content in (bytes(size), iter([bytes(1 << 16)] * (size >> 16))):
            answer = client.post("http://good.test/", content=content)
            assert (answer.status_code, answer.content) == (413, b"long")


@pytest.mark.parametrize("size", [10, 3 << 20])
def test_who_uploads_to_nobody_reads_why_it_failed(proxy: Proxy, size: int) -> None:
    with proxy.client() as client:
        assert client.post("http://good.test:9/", content=bytes(size)).status_code == 502


def test_what_is_streamed_has_the_bound_of_mitmproxy_s_option(tmp_path: Path, policy: Path) -> None:
    def serve(connection: socket.socket) -> None:
        head = read_head(connection)
        if head.startswith(b"POST"):
            while connection.recv(1 << 16):
                pass
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(100):
            connection.sendall(b"10000\r\n" + bytes(1 << 16) + b"\r\n")

    with serving(tmp_path, policy, serve, body_size_limit="1m") as proxy, proxy.client() as client:
        with pytest.raises(httpx.RemoteProtocolError), client.stream("GET", "http://good.test/") as answer:
            answer.read()
        parts = [bytes(1 << 16)] * 100
        assert client.post("http://good.test/", content=iter(parts)).status_code == 413
        for _ in range(20):  # the end of some comes while they wait for their turn
            assert client.post("http://good.test/", content=b"".join(parts), timeout=10).status_code == 413
