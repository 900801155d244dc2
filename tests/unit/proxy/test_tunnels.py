"""Connections that mitmproxy asks about, in its own test context."""

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from mitmproxy import connection, ctx, http, tcp, tls
from mitmproxy.addons.next_layer import NextLayer
from mitmproxy.options import Options
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import HttpLayer, TCPLayer, UDPLayer
from mitmproxy.proxy.layers import tcp as tcp_layer
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from mitmproxy.test import taddons, tflow

from hushlist.decide.engine import Engine
from hushlist.proxy import tunnels
from hushlist.proxy.addon import Hushlist

POLICY = """
layers:
- name: rules
  checks: {well-known-port: block}
  lists: [rules.yaml]
log: {folder: log, what: all}
pass-through: {hosts: [bank.example, {file: pinned.txt}], failed-handshakes: add}
groups:
- {name: tried, ports: [8081], mode: tag}
- {name: free, ports: [8082], mode: off}
"""
RULES = """
rules:
- blocked.example
- blocked.bank.example
- path.example/secret/
- {expression: blocked.example/ok, action: allow}
- {address: 203.0.113.0/24}
"""


def client_hello(*names: bytes, more: bytes = b"") -> bytes:
    """A ClientHello of TLS 1.2 in one record; ``more`` stands behind its end. Spec: RFC 5246, 7.4.1.2; RFC 6066, 3."""
    extensions = b"\0\x17\0\0"
    for name in names:
        entry = b"\0" + len(name).to_bytes(2, "big") + name
        listed = len(entry).to_bytes(2, "big") + entry
        extensions += b"\0\0" + len(listed).to_bytes(2, "big") + listed
    suites = b"\0\4\x13\1\xc0\x2f\1\0"
    body = b"\3\3" + bytes(32) + b"\0" + suites + len(extensions).to_bytes(2, "big") + extensions
    body += b"\0\x18\0" + bytes((len(more),)) + more if more else b""
    message = b"\1" + len(body).to_bytes(3, "big") + body
    return b"\x16\3\1" + len(message).to_bytes(2, "big") + message


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    (tmp_path / "rules.yaml").write_text(RULES)
    (tmp_path / "pinned.txt").write_text("pinned.example\n192.0.2.0/24")
    (tmp_path / "policy.yaml").write_text(POLICY)
    return tmp_path / "policy.yaml"


@pytest.fixture
def hushlist(policy: Path) -> Iterator[Hushlist]:
    hushlist = Hushlist()
    with taddons.context(NextLayer()) as context:
        context.options.add_option("connection_strategy", str, "eager", "")
        context.options.add_option("rawtcp", bool, True, "")
        context.options.add_option("show_ignored_hosts", bool, False, "")
        context.options.add_option("stream_large_bodies", str | None, None, "")
        context.master.addons.add(hushlist)
        context.configure(hushlist, hushlist_policy=str(policy))
        yield hushlist
        hushlist.done()
        context.master.event_loop.close()


def client_of(mode: str = "regular", port: int = 8080, sni: str | None = None) -> connection.Client:
    return connection.Client(
        peername=("127.0.0.1", 1234),
        sockname=("127.0.0.1", port),
        state=connection.ConnectionState.OPEN,
        proxy_mode=ProxyMode.parse(mode),
        sni=sni,
    )


def connect_to(target: str, *hosts: str, port: int = 8080) -> http.HTTPFlow:
    name, _, number = target.rpartition(":")
    headers = http.Headers([(b"Host", host.encode()) for host in hosts])
    request = http.Request(
        name, int(number), b"CONNECT", b"", target.encode(), b"", b"HTTP/1.1", headers, b"", None, 0, 0
    )
    flow = tflow.tflow(req=request)
    flow.client_conn = client_of(port=port)
    return flow


@pytest.mark.parametrize(
    ("flow", "status"),
    [
        (connect_to("good.example:443"), None),
        (connect_to("blocked.example:443"), None),  # for the page
        (connect_to("blocked.example:8443"), None),
        (connect_to("203.0.113.7:443"), None),
        (connect_to("blocked.example:22"), 403),
        (connect_to("good.example:22"), 403),  # a check
        (connect_to("good.example:80"), None),
        (connect_to("good.example:443", "blocked.example:443"), None),
        (connect_to("blocked.bank.example:443"), 403),  # nobody could decrypt it
        (connect_to("bank.example:443"), None),
        (connect_to("good.example:443", "a/b"), 403),
        (connect_to("blocked.example:22", port=8081), None),
        (connect_to("blocked.example:22", port=8082), None),
    ],
)
def test_a_tunnel_is_refused_where_no_page_can_be_shown_in_it(
    hushlist: Hushlist, flow: http.HTTPFlow, status: int | None
) -> None:
    hushlist.http_connect(flow)
    assert (flow.response and flow.response.status_code) == status
    if flow.response is not None:
        assert flow.response.text is not None
        assert flow.response.text.startswith("Blocked: ")
        assert flow.response.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize(("version", "is_killed"), [("HTTP/1.1", False), ("HTTP/2.0", True)])
def test_an_http_2_connection_carries_one_tunnel(hushlist: Hushlist, version: str, is_killed: bool) -> None:
    # mitmproxy gives all of them one server, and the target of the last CONNECT as its address.
    server = connection.Server(address=None)
    flows = [connect_to(target) for target in ("bank.example:443", "good.example:443", "blocked.example:22")]
    for flow in flows:
        flow.request.http_version, flow.server_conn = version, server
    flows[2].response = http.Response.make(407)  # another addon's; the address becomes this one's all the same
    for flow in flows:
        hushlist.http_connect(flow)
    assert flows[0].error is None
    assert flows[0].response is None
    assert [flow.error is not None for flow in flows[1:]] == [is_killed, is_killed]
    other = connect_to("good.example:443")
    other.request.http_version, other.server_conn = version, connection.Server(address=None)
    hushlist.http_connect(other)
    assert other.error is None


def test_without_a_policy_a_tunnel_is_opened_for_the_page_and_nothing_else_passes(hushlist: Hushlist) -> None:
    hushlist.runtime.engine = None
    flow = connect_to("bank.example:443")
    hushlist.http_connect(flow)
    assert flow.response is None
    data = hello_to(("bank.example", 443), "bank.example")
    hushlist.tls_clienthello(data)
    assert not data.ignore_connection
    assert refused(hushlist, data.context)


# -- TLS ---------------------------------------------------------------------------------------------------------------


class Hello:
    """A ClientHello, as far as it is looked at."""

    def __init__(self, sni: str | None, extensions: tuple[tuple[int, bytes], ...]) -> None:
        self.sni, self.extensions = sni, extensions

    def raw_bytes(self, *, wrap_in_record: bool) -> bytes:
        raise NotImplementedError  # as of DTLS


def hello_to(
    address: tuple[str, int] | None, sni: str | None, mode: str = "regular", port: int = 8080, *, hidden: bool = False
) -> tls.ClientHelloData:
    context = Context(client_of(mode, port), None)  # type: ignore[arg-type]
    context.server.address = address
    extensions = ((0, b"?"),) * ((sni is not None) + hidden)
    return tls.ClientHelloData(context, Hello(sni, extensions))  # type: ignore[arg-type]


def refused(hushlist: Hushlist, context: Context) -> bool:
    """Whether it is not connected to."""
    data = ServerConnectionHookData(client=context.client, server=context.server)
    hushlist.server_connect(data)
    return data.server.error is not None


ADDRESS = ("198.51.100.1", 443)


@pytest.mark.parametrize(
    ("data", "passed_to", "is_refused"),
    [
        (hello_to(("bank.example", 443), "bank.example"), "bank.example", False),
        (hello_to(("bank.example", 443), "www.bank.example"), "bank.example", False),
        (hello_to(("bank.example", 443), None), "bank.example", False),
        (hello_to(("bank.example", 443), None, hidden=True), None, False),
        (hello_to(("bank.example", 443), "bank.example", hidden=True), None, False),  # one of two
        (hello_to(("192.0.2.7", 443), "other.example", hidden=True), None, False),
        (hello_to(("bank.example", 443), "other.example"), None, False),
        (hello_to(("other.example", 443), "bank.example"), None, False),
        (hello_to(("bank.example", 443), "blocked.bank.example"), None, True),
        (hello_to(("blocked.example", 443), "bank.example"), None, True),
        (hello_to(("bank.example", 22), "bank.example"), None, True),
        (hello_to(ADDRESS, "bank.example"), None, False),
        (hello_to(("192.0.2.7", 443), "other.example"), "192.0.2.7", False),
        (hello_to(("192.0.2.7", 443), "blocked.example"), None, True),
        (hello_to(ADDRESS, "bank.example", "transparent"), "bank.example", False),
        (hello_to(ADDRESS, "bank.example", "socks5"), "bank.example", False),
        (hello_to(ADDRESS, None, "transparent"), None, False),
        (hello_to(("192.0.2.7", 443), None, "transparent"), "192.0.2.7", False),
        (hello_to(("203.0.113.7", 443), "bank.example", "transparent"), None, True),
        (hello_to(("bank.example", 443), "evil.example", "socks5"), None, False),
        (hello_to(("192.0.2.7", 443), "public.example", "reverse:https://192.0.2.7"), "192.0.2.7", False),
        (hello_to(("blocked.bank.example", 443), None, port=8081), "blocked.bank.example", False),
        (hello_to(("blocked.bank.example", 443), None, port=8082), "blocked.bank.example", False),
        (hello_to(None, "bank.example"), None, False),  # TLS with the proxy itself
    ],
)
def test_tls_is_passed_through_where_every_name_is_covered_and_none_blocked(
    hushlist: Hushlist, data: tls.ClientHelloData, passed_to: str | None, is_refused: bool
) -> None:
    before = data.context.server.address
    hushlist.tls_clienthello(data)
    assert data.ignore_connection is (passed_to is not None)
    assert refused(hushlist, data.context) is is_refused
    after = data.context.server.address
    assert after == (before if passed_to is None or before is None else (passed_to, before[1]))


def test_what_another_addon_passes_is_decided(hushlist: Hushlist) -> None:
    blocked, good = (hello_to((host, 443), None) for host in ("blocked.example", "good.example"))
    hidden = hello_to(("good.example", 443), "good.example", hidden=True)
    for hello in (blocked, good, hidden):
        hello.ignore_connection = True
        hushlist.tls_clienthello(hello)
    assert [hello.ignore_connection for hello in (blocked, good, hidden)] == [False, True, False]


def broken(*_: object, **__: object) -> None:
    raise RuntimeError("broken by the test")


def test_whatever_fails_nothing_is_connected(
    hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Engine, "decide_host", broken)
    flow = connect_to("good.example:443")
    hushlist.http_connect(flow)
    assert flow.response is not None
    assert flow.response.status_code == 403
    data = hello_to(("bank.example", 443), None)
    data.ignore_connection = True
    hushlist.tls_clienthello(data)
    assert not data.ignore_connection
    assert refused(hushlist, data.context)
    raw = raw_flow(("good.example", 9000))
    hushlist.tcp_start(raw)
    assert refused(hushlist, Context(raw.client_conn, None)) is False  # type: ignore[arg-type]
    data_of_raw = ServerConnectionHookData(client=raw.client_conn, server=raw.server_conn)
    hushlist.server_connect(data_of_raw)
    assert data_of_raw.server.error == "blocked by hushlist: the filter failed"
    assert hushlist.runtime.failure_policy.refused == 3
    assert "the filter failed on a connection, it is refused" in caplog.text


# -- raw ---------------------------------------------------------------------------------------------------------------


def raw_flow(address: tuple[str, int], mode: str = "regular", sni: str | None = None) -> tcp.TCPFlow:
    flow = tflow.ttcpflow()
    flow.live = True
    flow.client_conn = client_of(mode, sni=sni)
    flow.server_conn = connection.Server(address=address)
    return flow


@pytest.mark.parametrize(
    ("flow", "is_refused", "connected"),
    [
        (raw_flow(("good.example", 9000)), False, "good.example"),
        (raw_flow(("blocked.example", 9000)), True, "blocked.example"),
        (raw_flow(("good.example", 22)), True, "good.example"),
        (raw_flow(("203.0.113.7", 9000)), True, "203.0.113.7"),
        (raw_flow(("198.51.100.1", 9000), "transparent", "blocked.example"), True, "198.51.100.1"),
        (raw_flow(("198.51.100.1", 9000), "transparent", "good.example"), False, "good.example"),
        (raw_flow(("good.example", 9000), sni="blocked.example"), False, "good.example"),  # of the proxy itself
    ],
)
def test_raw_tcp_is_decided_by_names_address_and_port(
    hushlist: Hushlist, policy: Path, flow: tcp.TCPFlow, is_refused: bool, connected: str
) -> None:
    hushlist.tcp_start(flow)
    data = ServerConnectionHookData(client=flow.client_conn, server=flow.server_conn)
    hushlist.server_connect(data)
    assert (data.server.error is not None) is is_refused
    assert data.server.address is not None
    assert data.server.address[0] == connected
    hushlist.done()
    (line,) = (policy.parent / "log" / "decisions.jsonl").read_text().splitlines()
    record = json.loads(line)
    assert record["method"] == "CONNECT"
    assert record["url"].startswith("tcp://")
    assert record["action"] == ("block" if is_refused else "pass")


def test_raw_udp_is_decided(hushlist: Hushlist) -> None:
    flow = tflow.tudpflow()
    flow.client_conn, flow.server_conn = client_of("transparent"), connection.Server(address=("203.0.113.7", 3478))
    flow.server_conn.transport_protocol = "udp"
    hushlist.udp_start(flow)
    data = ServerConnectionHookData(client=flow.client_conn, server=flow.server_conn)
    hushlist.server_connect(data)
    assert data.server.error is not None
    assert flow.comment.startswith("hushlist: block 203.0.113.7")


@pytest.mark.parametrize(
    ("address", "data", "mode", "via", "passes"),
    [
        (("good.example", 80), b"\x00\x01\x02", "regular", False, True),
        (("blocked.example", 80), b"\x00\x01\x02", "regular", False, False),
        (("198.51.100.1", 80), b"GET / HTTP/1.1\r\nHost: blocked.example:80\r\n\r\n", "transparent", False, False),
        (("198.51.100.1", 80), b"GET / HTTP/1.1\r\nHost: good.example\r\n\r\n", "transparent", False, True),
        (("blocked.example", 80), b"\x00", "upstream:http://127.0.0.1:1", True, False),
    ],
)
def test_what_mitmproxy_s_options_pass_is_decided(
    hushlist: Hushlist, address: tuple[str, int], data: bytes, mode: str, via: bool, passes: bool
) -> None:
    one = Context(client_of(mode), ctx.options)
    one.server.address = address
    one.server.via = ("http", ("127.0.0.1", 1)) if via else None
    nextlayer = layer.NextLayer(one)
    nextlayer.events = [events.DataReceived(one.client, data)]
    nextlayer.layer = TCPLayer(one, ignore=not via)
    hushlist.next_layer(nextlayer)
    assert isinstance(nextlayer.layer, TCPLayer) is passes
    if not passes:
        closing = list(nextlayer.layer.handle_event(events.Start()))
        assert [type(command) for command in closing] == [commands.CloseConnection]
        assert list(nextlayer.layer.handle_event(events.DataReceived(one.client, b"x"))) == []


def offered(address: tuple[str, int], protocol: str = "tcp", *, is_shown: bool = False) -> layer.NextLayer:
    """A connection that mitmproxy passes as it is, in transparent mode."""
    one = Context(client_of("transparent"), ctx.options)
    one.client.transport_protocol = protocol  # type: ignore[assignment]
    one.server.address = address
    nextlayer = layer.NextLayer(one)
    nextlayer.layer = TCPLayer(one, ignore=not is_shown) if protocol == "tcp" else UDPLayer(one, ignore=not is_shown)
    return nextlayer


def outcome(hushlist: Hushlist, nextlayer: layer.NextLayer, *pieces: bytes) -> list[str]:
    """What becomes of it with each piece: "held", "ended", or "passed"."""
    found, chosen = [], nextlayer.layer
    client = nextlayer.context.client
    for piece in pieces:
        received = events.DataReceived(client, piece)
        if nextlayer.layer is chosen and not found:
            nextlayer.events = [events.Start(), received]
            hushlist.next_layer(nextlayer)
            done = [one for event in nextlayer.events for one in nextlayer.layer.handle_event(event)]  # type: ignore[union-attr]
        else:
            done = list(nextlayer.layer.handle_event(received))  # type: ignore[union-attr]
        kinds = {type(command) for command in done}
        is_passed = commands.OpenConnection in kinds or kinds & {tcp_layer.TcpStartHook, commands.SendData}
        found.append("ended" if commands.CloseConnection in kinds else "passed" if is_passed else "held")
    return found


HARMLESS, HARMFUL = client_hello(b"good.example"), client_hello(b"blocked.example")
GREETING = b"\x00\x01\x02"


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([HARMLESS], ["passed"]),
        ([client_hello()], ["passed"]),
        ([HARMFUL], ["ended"]),
        ([HARMLESS[:1], HARMLESS[1:7], HARMLESS[7:]], ["held", "held", "passed"]),
        ([HARMFUL[:1], HARMFUL[1:7], HARMFUL[7:]], ["held", "held", "ended"]),
        ([b"\x16\x03\x05" + HARMFUL[3:]], ["ended"]),
        ([b"\x16\x03\x01\x00\x00" + HARMFUL], ["ended"]),
        ([b"\x15\x03\x01\x00\x02\x01\x00" + HARMFUL], ["ended"]),
        ([HARMLESS[:5] + b"\x00" + HARMLESS[6:]], ["ended"]),
        ([client_hello(b"good.example", b"blocked.example")], ["ended"]),
        ([client_hello(b"good.example", more=b"\0")], ["ended"]),
        ([b"\x16\x03\x01\x40\x00\x01\x00\xff\xff", bytes(1 << 14)], ["held", "ended"]),
        ([GREETING], ["passed"]),
    ],
)
@pytest.mark.parametrize("is_shown", [False, True])
def test_what_a_client_begins_with_is_read_before_it_passes(
    hushlist: Hushlist, pieces: list[bytes], expected: list[str], is_shown: bool
) -> None:
    assert outcome(hushlist, offered(ADDRESS, is_shown=is_shown), *pieces) == expected


def test_whoever_leaves_before_it_can_be_read_is_left(hushlist: Hushlist) -> None:
    nextlayer = offered(ADDRESS)
    assert outcome(hushlist, nextlayer, HARMLESS[:3]) == ["held"]
    assert nextlayer.layer is not None
    (command,) = nextlayer.layer.handle_event(events.ConnectionClosed(nextlayer.context.client))
    assert isinstance(command, commands.CloseConnection)


@pytest.mark.parametrize(("port", "expected"), [(8081, ["held", "passed"]), (8082, ["passed"])])
def test_where_nothing_is_blocked_nothing_that_cannot_be_read_is_ended(
    hushlist: Hushlist, port: int, expected: list[str]
) -> None:
    nextlayer = offered(ADDRESS)
    nextlayer.context.client.sockname = ("127.0.0.1", port)
    pieces = [HARMFUL[:1], HARMFUL[1:]] if len(expected) > 1 else [b"\x16\x03\x05"]
    assert outcome(hushlist, nextlayer, *pieces) == expected


def test_what_the_filter_fails_on_is_ended(hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "decide_host", broken)
    assert outcome(hushlist, offered(ADDRESS), HARMLESS[:1], HARMLESS[1:]) == ["held", "ended"]


def datagrams(name: str) -> list[bytes]:
    """With which a client of QUIC begins."""
    client = QuicConnection(configuration=QuicConfiguration(server_name=name, alpn_protocols=["h3"]))
    client.connect(("192.0.2.7", 443), now=0.0)
    return [octets for octets, _ in client.datagrams_to_send(now=0.0)]


def datagram_hello(name: bytes, cut: int = 0) -> bytes:
    """A ClientHello of DTLS; of which so many octets are to come. Spec: RFC 6347, 4.1 and 4.2.2."""
    body = client_hello(name)[9:]
    body = body[:35] + b"\0" + body[35:]
    part = body[: len(body) - cut]
    message = b"\1" + len(body).to_bytes(3, "big") + bytes(5) + len(part).to_bytes(3, "big") + part
    return b"\x16\xfe\xfd" + bytes(8) + len(message).to_bytes(2, "big") + message


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (datagrams("good.example")[:1], ["passed"]),
        (datagrams("blocked.example")[:1], ["ended"]),
        ([b"\xc0\x6b\x33\x43\xcf" + datagrams("blocked.example")[0][5:]], ["ended"]),  # of another version
        ([datagram_hello(b"good.example")], ["passed"]),
        ([datagram_hello(b"blocked.example")], ["ended"]),
        ([datagram_hello(b"good.example", 9)], ["ended"]),  # a part of one
        ([datagram_hello(b"good.example")[:20], b""], ["held", "held"]),
        ([b"\x15\xfe\xfd" + bytes(20)], ["ended"]),
        ([b"\x80\x00" + bytes(40)], ["passed"]),  # RTP
        ([GREETING], ["passed"]),
    ],
)
def test_the_first_datagrams_are_read_before_they_pass(
    hushlist: Hushlist, pieces: list[bytes], expected: list[str]
) -> None:
    assert outcome(hushlist, offered(ADDRESS, "udp"), *pieces) == expected


def test_http_is_left_to_its_requests(hushlist: Hushlist) -> None:
    one = Context(client_of(), None)  # type: ignore[arg-type]
    one.server.address = ("blocked.example", 80)
    nextlayer = layer.NextLayer(one)
    chosen = nextlayer.layer = object.__new__(HttpLayer)
    hushlist.next_layer(nextlayer)
    assert nextlayer.layer is chosen


# -- clients that refuse the certificate -------------------------------------------------------------------------------

REFUSAL = "The client does not trust the proxy's certificate for x (tlsv1 alert unknown ca)"


def fail(hushlist: Hushlist, host: str, error: str = REFUSAL, port: int = 8080) -> None:
    data = handshake(host, port)
    data.conn.error = error
    asyncio.run(hushlist.tls_failed_client(data))


def handshake(host: str, port: int = 8080) -> tls.TlsData:
    context = Context(client_of(port=port), None)  # type: ignore[arg-type]
    context.server.address = (host, 443)
    return tls.TlsData(context.client, context)


def test_a_host_is_added_for_a_client_that_trusts_the_proxy_and_refuses_twice(hushlist: Hushlist, policy: Path) -> None:
    pinned = policy.parent / "pinned.txt"
    before = pinned.read_text()
    for _ in range(3):
        fail(hushlist, "app.example")
    hushlist.tls_established_client(handshake("good.example"))
    fail(hushlist, "once.example")
    for host in ("blocked.example", "blocked.bank.example", "path.example", "www.path.example", "x%y", "a b"):
        for _ in range(3):
            fail(hushlist, host)
    fail(hushlist, "closed.example", "connection closed")
    fail(hushlist, "closed.example", "connection closed")
    assert pinned.read_text() == before
    fail(hushlist, "app.example")
    fail(hushlist, "app.example")
    added = pinned.read_text().removeprefix(before)
    assert added.startswith("\n=app.example  # 20")
    assert added.endswith(" UTC: 127.0.0.1 refuses the certificate\n")
    assert added.count("\n") == 2


def test_a_refusal_is_reported_once_for_each_host_with_the_line_to_add(
    hushlist: Hushlist, policy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policy.write_text(POLICY.replace("add}", "report}"))
    hushlist.policy_watch.load(policy)
    caplog.set_level(logging.WARNING)
    for host in ("app.example", "app.example", "other.example"):
        fail(hushlist, host)
    told = [one.getMessage() for one in caplog.records if "refuses" in one.getMessage()]
    assert told == [
        f"hushlist: a client in group default refuses the certificate for {host}; "
        f"to pass it through undecrypted, add to pass-through in {policy}:7:  - ={host}"
        for host in ("app.example", "other.example")
    ]


def test_the_status_counts_what_is_passed_through(hushlist: Hushlist) -> None:
    assert "; 3 hosts and networks are passed through" in hushlist.runtime.status()


def test_a_datagram_with_packets_in_the_wrong_order_is_no_hello() -> None:
    # an Initial packet (RFC 9001, A.2), which cannot be read, and behind it one that would have to stand behind another
    datagram = bytes.fromhex("c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11") + bytes(1168)
    packets = datagram + b"GET / HTTP/1.1\r\nA: b\r\nHost: \tblocked.example :80\r\n\r\n\0\0"
    context = Context(
        connection.Client(peername=("192.0.2.1", 1), sockname=("", 0), transport_protocol="udp"), Options()
    )
    with pytest.raises(ValueError, match="no ClientHello"):
        tunnels._hello_of(context, [packets])
