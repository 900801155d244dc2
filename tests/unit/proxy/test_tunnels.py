"""Connections that mitmproxy asks about, in its own test context."""

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from mitmproxy import connection, ctx, http, tcp, tls
from mitmproxy.addons.next_layer import NextLayer
from mitmproxy.options import Options
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import HttpLayer, TCPLayer
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from mitmproxy.test import taddons, tflow

from hushlist.engine import Engine
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
    hushlist.in_force.engine = None
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
    assert hushlist.in_force.failing.refused == 3
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
    for host in ("blocked.example", "path.example", "www.path.example", "x%y", "a b"):
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
    hushlist.in_force.load(policy)
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
    assert "; 3 hosts and networks are passed through" in hushlist.in_force.status("block")


def test_a_datagram_with_packets_in_the_wrong_order_is_no_hello() -> None:
    # an Initial packet (RFC 9001, A.2), which cannot be read, and behind it one that would have to stand behind another
    datagram = bytes.fromhex("c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11") + bytes(1168)
    packets = datagram + b"GET / HTTP/1.1\r\nA: b\r\nHost: \tblocked.example :80\r\n\r\n\0\0"
    context = Context(
        connection.Client(peername=("192.0.2.1", 1), sockname=("", 0), transport_protocol="udp"), Options()
    )
    assert tunnels._hello_of(context, packets) is None
