"""Requests that are made to hurt: to forge an answer, to teach the filter something, to take its time."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import monotonic, process_time, sleep

import httpx
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, StreamEnded
from mitmproxy import http
from mitmproxy.io import FlowWriter
from mitmproxy.test import tflow

from e2e.origin import LOOPBACK, Origin
from e2e.policies import simple_policy, write_list, write_policy
from e2e.proxy import PATIENCE, Proxy, read_answer, request_head
from e2e.test_tunnels import tls_over
from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.url.request import MOST_HOSTS, Request, canonical_forms
from hushlist.extensions.dashboard.dashboard_server import HOST

#: ip(7): the range of ports for one socket; the kernel may give it one that is in use towards another address
IP_LOCAL_PORT_RANGE = 51


@pytest.mark.parametrize("target", [b"/$reason", b"/${facts}", b"/$$", b"/%0d%0aSet-Cookie:%20a=b", b"/\xff\xfe<b>"])
def test_an_answer_is_made_of_nothing_that_the_request_says(proxy: Proxy, target: bytes) -> None:
    answer = proxy.send(request_head(b"http://ads.test" + target, b"ads.test"))
    assert answer.status in (400, 403)
    assert "set-cookie" not in answer.headers
    assert b"<b>" not in answer.body


def test_a_recorded_request_that_is_sent_again_is_decided_again(
    tmp_path: Path, start: Callable[..., Proxy], origin: Origin
) -> None:
    # As `mitmdump -C recorded.flow` does; the recording was made where nothing was blocked.
    recorded = tmp_path / "recorded.flow"
    with recorded.open("wb") as stream:
        for host, path in (("ads.test", b"/"), ("path.test", b"/secret/x"), ("good.test", b"/last")):
            flow = tflow.tflow(resp=True)
            flow.request.data.headers = http.Headers(host=host)
            flow.request.data.host, flow.request.data.port, flow.request.data.path = host, 80, path
            FlowWriter(stream).add(flow)
    with origin.watch() as arrived:
        start(options={"client_replay": recorded})
        deadline = monotonic() + PATIENCE
        while not (origin.requests and origin.requests[-1].target == b"/last") and monotonic() < deadline:
            sleep(0.05)
    assert [request.target for request in arrived.requests] == [b"/last"]


@pytest.mark.parametrize("path", ["/secret/x", "/other"])
def test_what_mitmproxy_makes_of_a_request_is_decided(start: Callable[..., Proxy], origin: Origin, path: str) -> None:
    proxy = start(options={"map_remote": r"|//old.test/(.*)|//path.test/\1"})
    with origin.watch() as arrived:
        answer = proxy.get(f"http://old.test{path}")
    passes = path == "/other"
    assert answer.status_code == (200 if passes else 403)
    assert [(seen.host, seen.target) for seen in arrived.requests] == [("path.test", path.encode())] * passes


def test_what_somebody_without_a_password_asks_for_is_in_no_log(start: Callable[..., Proxy]) -> None:
    proxy = start(options={"proxyauth": "jo:secret"})
    assert [proxy.get(f"http://{host}/").status_code for host in ("good.test", "ads.test")] == [407, 407]
    proxy.stop()
    assert "decided" not in proxy.log.text()


def test_an_origin_cannot_teach_the_filter_about_another(
    start: Callable[..., Proxy], origin: Origin, tmp_path: Path
) -> None:
    # Every name leads to the pupil's server, which redirects /folder to /folder/ by any of them.
    list_of = {"expression": "video.test/folder/", "action": "allow"}
    proxy = start(policy=simple_policy(tmp_path / "policy", "video.test/", list_of))
    with origin.watch() as arrived:
        for host in (b"video.test", b"VIDEO.test.", b"good.test, video.test"):
            proxy.send(request_head(b"http://good.test/folder", host))
            with proxy.tunnel("good.test", 80) as tunnel:
                tunnel.sendall(request_head(b"/folder", b"good.test", host))
                assert read_answer(tunnel).status == 403
        assert proxy.send(request_head(b"http://good.test/folder", b"good.test")).status == 301
        assert proxy.send(request_head(b"http://video.test/folder", b"video.test")).status == 403
    assert {request.host for request in arrived.requests} == {"good.test"}


@pytest.mark.parametrize(("mode", "unparsable"), [("block", "block"), ("tag", "pass"), ("off", "pass")])
def test_the_proxy_does_not_ask_itself_without_end(
    start: Callable[..., Proxy], tmp_path: Path, mode: str, unparsable: str
) -> None:
    proxy = start(policy=write_policy(tmp_path, unparsable=unparsable), mode=mode)
    own = b"self.test:%d" % proxy.port
    for host in (own, b"good.test:%d" % proxy.port):
        before = len(proxy.log)
        assert proxy.send(request_head(b"http://" + own + b"/", host)).status in (403, 502)
        assert proxy.log.text(before).count("client connect") <= 3
    with proxy.tunnel("self.test", proxy.port) as tunnel:
        tunnel.sendall(request_head(b"/", own))
        assert read_answer(tunnel).status == 403
    assert proxy.get("http://good.test/").status_code == 200


@pytest.mark.parametrize(
    "settings", [{"decrypt": "where-needed"}, {"decrypt": "never"}, {"pass-through": ["self.test"]}]
)
def test_nobody_is_taken_for_the_proxy_s_own_machine_by_way_of_undecrypted_tls(
    start: Callable[..., Proxy], origin: Origin, tmp_path: Path, settings: dict[str, object]
) -> None:
    write_list(tmp_path / "rules.yaml", "ads.test")
    groups = [{"name": "grown-ups", "clients": [LOOPBACK], "layers": []}]
    policy = write_policy(tmp_path, ["rules.yaml"], groups=groups, unparsable="pass", **settings)
    proxy = start(policy=policy)
    for host, port in (("ads.test", 443), ("good.test", 443), ("self.test", proxy.port)):
        with (
            origin.watch() as arrived,
            socket.create_connection((LOOPBACK, proxy.port), PATIENCE, ("127.0.0.9", 0)) as outer,
        ):
            outer.sendall(b"CONNECT self.test:%d HTTP/1.1\r\n\r\n" % proxy.port)
            assert read_answer(outer, "CONNECT").status == 200
            with tls_over(outer, "self.test") as inner:  # the proxy itself, to which clients may speak TLS, too
                inner.sendall(b"CONNECT %b:%d HTTP/1.1\r\n\r\n" % (host.encode(), port))
                assert read_answer(inner, "CONNECT").status == 403
        assert arrived.connections == 0


@pytest.mark.skipif(sys.platform != "linux", reason="no other system lets a client choose a port that is in use")
def test_a_client_of_this_machine_may_have_the_port_of_a_connection_to_an_origin(proxy: Proxy, origin: Origin) -> None:
    ends = re.compile(rf": 0100007F:([0-9A-F]{{4}}) 0100007F:{origin.http_port:04X} 01 ")
    head = request_head(b"http://good.test/", b"good.test").replace(b"Connection: close\r\n", b"")
    with proxy.connect() as first, socket.socket() as second:
        first.sendall(head)
        assert read_answer(first).status == 200
        port = int(ends.findall(Path("/proc/net/tcp").read_text())[-1], 16)
        try:
            second.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, (port << 16 | port).to_bytes(4, sys.byteorder))
        except OSError:
            pytest.skip("Linux has this since 6.3")
        second.connect((LOOPBACK, proxy.port))
        assert second.getsockname()[1] == port
        second.sendall(head)
        assert read_answer(second).status == 200


def test_nobody_sees_the_live_page_by_way_of_the_proxy_s_own_machine(start: Callable[..., Proxy]) -> None:
    proxy = start()
    page = HOST.encode()
    with proxy.tunnel("self.test", proxy.port) as tunnel:
        tunnel.sendall(request_head(b"/metrics", page))
        assert read_answer(tunnel).status == 403
    assert proxy.send(request_head(b"http://self.test:%d/metrics" % proxy.port, page)).status == 403
    assert proxy.send(request_head(b"http://%b/metrics" % page, page)).status == 200


_HELLO = b"CONNECT good.test:443 HTTP/1.1\r\n\r\n\x16\x03\x01\x00\x04\x01\xff\xff\xff"
#: what begins, and goes on
ENDLESS = {
    "a hello, an octet in each record": (_HELLO, b"\x16\x03\x01\x00\x01a" * 8000),
    "a hello, in long records": (_HELLO, b"\x16\x03\x01\x40\x00" + bytes(1 << 14)),
    "headers": (b"GET http://good.test/ HTTP/1.1\r\n", b"X: y\r\n" * 9000),
    "a header": (b"GET http://good.test/ HTTP/1.1\r\nX: ", b"y" * (1 << 16)),
    "a target": (b"GET http://good.test/", b"y" * (1 << 16)),
    "lines": (b"", b"\r\n" * (1 << 15)),
}


def send_without_end(connection: socket.socket, begin: bytes, more: bytes) -> None:
    """Send until the proxy ends it, or reads no more of it: mitmproxy 12 leaves the socket open."""
    connection.settimeout(2)
    connection.sendall(begin)
    for _ in range((1 << 25) // len(more)):
        connection.sendall(more)


@pytest.mark.parametrize("what", ENDLESS)
def test_a_client_that_never_comes_to_an_end_is_ended(proxy: Proxy, what: str) -> None:
    with proxy.connect() as connection, pytest.raises((ConnectionError, TimeoutError)):
        send_without_end(connection, *ENDLESS[what])
    with proxy.client() as other:
        assert other.get("http://good.test/").status_code == 200


def test_an_origin_that_never_comes_to_an_end_is_ended(start: Callable[..., Proxy]) -> None:
    proxy = start(options={"upstream_others": "true"})
    with socket.create_server((LOOPBACK, 0)) as server, proxy.connect() as client:
        client.sendall(request_head(b"http://good.test:%d/" % server.getsockname()[1], b"good.test"))
        with server.accept()[0] as origin, pytest.raises((ConnectionError, TimeoutError)):
            send_without_end(origin, b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 9000)
        assert read_answer(client).status == 502


def test_what_an_origin_says_before_its_answer_is_not_the_answer(start: Callable[..., Proxy]) -> None:
    proxy = start(options={"upstream_others": "true"})
    with socket.create_server((LOOPBACK, 0)) as server, proxy.connect() as client:
        client.sendall(request_head(b"http://good.test:%d/" % server.getsockname()[1], b"good.test"))
        with server.accept()[0] as origin:
            origin.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\nHTTP/1.1 1")
            sleep(0.1)
            origin.sendall(b"00 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            answer = read_answer(client)
    assert (answer.status, answer.body, "link" in answer.headers) == (200, b"ok", False)


@pytest.mark.thorough
def test_nothing_more_is_decided_for_a_client_that_reads_no_answer(proxy: Proxy) -> None:
    number, last = 1000, request_head(b"http://ads.test/", b"ads.test")
    head = last.replace(b"Connection: close\r\n", b"")
    counts = re.compile(r"^hushlist_decisions_total\{.*\} (\d+)", re.MULTILINE)

    def decided() -> int:
        return sum(map(int, counts.findall(proxy.get(f"http://{HOST}/metrics").text)))

    others = decided()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        connection.connect((LOOPBACK, proxy.port))
        connection.settimeout(PATIENCE)
        connection.sendall(head * (number - 1) + last)
        before, now = -1, 0
        while before < now < number:
            sleep(2)
            before, now = now, decided() - others
        assert 0 < now < number
        with connection.makefile("rb") as answers:
            assert sum(line.count(b"HTTP/1.1 403 ") for line in answers) == decided() - others == number


_LETTERS_OF_A_HOST = "".join(chr(0x4E00 + number) for number in range(20_000))
_POST = b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: chunked\r\n\r\n"
_CONNECT = b"CONNECT good.test:%d HTTP/1.1\r\n\r\n"
#: what mitmproxy, or what it reads with, would take minutes to read
SLOW = {
    "letters for Punycode in Host": b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % _LETTERS_OF_A_HOST.encode(),
    "Punycode in the target": b"GET http://xn--%b/ HTTP/1.1\r\n\r\n" % (b"a" * 250_000),
    "white space in a chunk's size": _POST + b"2;" + b" " * 200_000 + b"\nx\r\n",
    "white space before a host": _CONNECT % 80 + b"GET / HTTP/1.1\r\nHost:" + b" " * 15_000 + b"x",
}


def test_nobody_waits_for_what_takes_long_to_read(start: Callable[..., Proxy]) -> None:
    proxy = start(options={"ignore_hosts": "ignored.example"})
    for what, octets in SLOW.items():
        with proxy.connect() as connection, proxy.client(timeout=10) as other:
            connection.sendall(octets)
            sleep(0.2)
            assert other.get("http://good.test/").status_code == 200, what


_MANY_READINGS = b"/a;x%2f..;b/%5c..//%252e%252e/;y/%3f%23z%00/x.%20/%u002e/(A(x))/:$i"


def part_of_the_wait(proxy: Proxy) -> float:
    """How long another client waits that asks right behind 99 requests in one piece of HTTP/2, of the time of these."""
    fields = [(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"path.test"), (b":path", _MANY_READINGS)]
    config = H2Configuration(header_encoding=None, validate_outbound_headers=False, normalize_outbound_headers=False)
    protocol, context = H2Connection(config), proxy.tls()
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    with context.wrap_socket(proxy.connect(), server_hostname="path.test") as many, proxy.connect() as other:

        def receive(answers: int) -> None:
            while answers:
                for event in protocol.receive_data(many.recv(1 << 16)):
                    answers -= isinstance(event, StreamEnded)
                    if isinstance(event, DataReceived):
                        protocol.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                many.sendall(protocol.data_to_send())

        protocol.initiate_connection()
        protocol.send_headers(1, fields, end_stream=True)  # it fills the table of fields
        many.sendall(protocol.data_to_send())
        receive(1)
        for number in range(1, 100):
            protocol.send_headers(1 + 2 * number, fields, end_stream=True)
        octets = protocol.data_to_send()
        assert len(octets) < 3000
        many.sendall(octets)
        begun = monotonic()
        other.sendall(request_head(b"http://ads.test/", b"ads.test"))
        assert read_answer(other).status == 403
        waited = monotonic() - begun
        receive(99)
        return waited / (monotonic() - begun)


@pytest.mark.thorough
def test_nobody_waits_for_many_requests_of_many_readings(proxy: Proxy) -> None:
    assert median(part_of_the_wait(proxy) for _ in range(7)) < 0.65  # 0.9 where nobody takes turns, else 0.3


# -- time --------------------------------------------------------------------------------------------------------

#: how often something may take longer: processor time grows, too, where others share the processor
_TRIES = 10
_LENGTH = 1 << 16
_NAMES = tuple(b"a.b.c.d.e%d.test" % number for number in range(MOST_HOSTS))
#: 337 letters of which no two are alike, which is what Punycode is slowest for
_LETTERS = [chr(0x4E00 + number * 7919 % 20000).encode() for number in range(336 + MOST_HOSTS)]
COSTLY = {
    "a long path of dot segments": (_NAMES[:1], b"/a/..\\" * (_LENGTH // 6) + b"#"),
    "nested escapes, by many names": (_NAMES, b"/%" + b"25" * (_LENGTH // 2) + b"/..\\#"),
    "a host of many labels": ((b"a." * (_LENGTH // 2),), b"/..\\#"),
    "long expressions, by many names": (_NAMES, b"/" + b"a" * _LENGTH + b"/b/c/../d\\x/e//f//../..\\z#x?q"),
    "octets to escape": (_NAMES[:1], b"/" + b"\xff" * _LENGTH),
    "octets to escape, by many names": (_NAMES, b"/" + b"\xff" * _LENGTH + b"/b//c/..\\d#"),
    "a host of octets to escape": (("\u00fc".encode() * (_LENGTH // 2),), b"/"),
    "labels for Punycode": (
        tuple(b"".join(_LETTERS[number : number + 337]) for number in range(MOST_HOSTS)),
        b"/",
    ),
}


@pytest.mark.parametrize(("hosts", "target"), COSTLY.values(), ids=COSTLY)
def test_a_decision_takes_little_time(policy: Path, hosts: tuple[bytes, ...], target: bytes) -> None:
    engine = load_engine(policy)

    def seconds() -> float:
        canonical_forms(Request(b"http", (b"h", b"i"), 80, b"/"), b"h")  # nothing of the last time is kept
        start = process_time()
        engine.decide(Request(b"http", hosts, 80, target))
        return process_time() - start

    assert any(seconds() < 0.5 for _ in range(_TRIES))


@pytest.mark.parametrize(("limit", "http2"), [("64k", True), ("64k", False), ("256k", False)])
def test_how_long_a_head_may_be_is_an_option(start: Callable[..., Proxy], limit: str, http2: bool) -> None:
    """Where it is too long, the filter refuses it over HTTP/1.1, and mitmproxy ends the connection over HTTP/2."""
    proxy = start(options={"hushlist_longest_head": limit})
    headers = {f"X-{number}": "a" * 10_000 for number in range(20)}
    with proxy.client(http2=http2) as client:
        try:
            answered: int | None = client.get("https://good.test/", headers=headers).status_code
        except httpx.TransportError:
            answered = None
    assert answered in ({None if http2 else 403} if limit == "64k" else {200})
