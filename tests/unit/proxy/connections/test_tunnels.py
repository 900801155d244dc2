"""Connections that mitmproxy asks about, in its own test context."""

import asyncio
import json
import logging
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from mitmproxy import connection, ctx, http, tcp, tls
from mitmproxy.addons.next_layer import NextLayer
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import HttpLayer, TCPLayer, UDPLayer, modes
from mitmproxy.proxy.layers import tcp as tcp_layer
from mitmproxy.proxy.layers.quic import RawQuicLayer
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from mitmproxy.test import taddons, tflow

from hushlist.core.decide.decision import Judgement
from hushlist.core.decide.engine import Engine
from hushlist.core.extension import REFUSED_CERTIFICATE
from hushlist.core.policy.proxy_settings import FailureCause, OnFailure
from hushlist.proxy.addon import Hushlist
from hushlist.proxy.connections import tunnels
from support.mitmproxied import add_proxy_options, client_of
from support.policies import write_policy
from unit.rows import each_row

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
    return write_policy(tmp_path, POLICY, {"rules.yaml": RULES, "pinned.txt": "pinned.example\n192.0.2.0/24"})


@pytest.fixture
def hushlist(policy: Path) -> Iterator[Hushlist]:
    hushlist = Hushlist()
    with taddons.context(NextLayer()) as context:
        add_proxy_options(context)
        context.options.add_option("show_ignored_hosts", bool, False, "")
        context.options.add_option("stream_large_bodies", str | None, None, "")
        context.master.addons.add(hushlist)
        context.configure(hushlist, hushlist_policy=str(policy))
        yield hushlist
        hushlist.done()
        context.master.event_loop.close()


def connect_to(target: str, *hosts: str, port: int = 8080) -> http.HTTPFlow:
    name, _, number = target.rpartition(":")
    headers = http.Headers([(b"Host", host.encode()) for host in hosts])
    request = http.Request(
        name, int(number), b"CONNECT", b"", target.encode(), b"", b"HTTP/1.1", headers, b"", None, 0, 0
    )
    flow = tflow.tflow(req=request)
    flow.client_conn = client_of(port=port)
    return flow


@each_row(
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


def looped_connection(hushlist: Hushlist, client: connection.Client) -> connection.Server:
    """A connection that the proxy has made, and whose other end is this client."""
    server = connection.Server(address=("self.example", 8080), sockname=client.peername, peername=client.sockname)
    server.state = connection.ConnectionState.OPEN
    hushlist.server_connected(ServerConnectionHookData(server, client))
    return server


@pytest.mark.parametrize("port", [8080, 8081, 8082])
def test_nothing_that_the_proxy_itself_asks_for_passes(hushlist: Hushlist, policy: Path, port: int) -> None:
    policy.write_text(POLICY + "unparsable: pass\ndecrypt: never\n")
    hushlist.policy_watch.load(policy)
    flow = connect_to("good.example:443", port=port)
    data = hello_to(("good.example", 443), "good.example", "transparent", port)
    raw = offered(("good.example", 443))
    raw.context.client = client_of("socks5", port)
    made = [
        looped_connection(hushlist, client) for client in (flow.client_conn, data.context.client, raw.context.client)
    ]
    hushlist.http_connect(flow)
    assert flow.response is not None
    assert "the proxy would ask itself for it" in (flow.response.text or "")
    hushlist.tls_clienthello(data)
    assert refused(hushlist, data.context)
    assert not data.ignore_connection
    assert outcome(hushlist, raw, b"SSH-2.0-x\r\n") == ["ended"]
    assert all(server.connected for server in made)


# -- TLS ---------------------------------------------------------------------------------------------------------------


class Hello:
    """A ClientHello, as far as it is looked at."""

    def __init__(self, sni: str | None, extensions: tuple[tuple[int, bytes], ...]) -> None:
        self.sni, self.extensions = sni, extensions
        self.alpn_protocols: list[bytes] = []

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


@each_row(
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


@pytest.fixture
def broken_record(hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be recorded, and what is undecided passes."""
    monkeypatch.setattr(hushlist.runtime, "record", broken)
    hushlist.runtime.failure_policy.on_failure = OnFailure(frozenset(FailureCause))


@pytest.mark.usefixtures("broken_record")
def test_what_is_blocked_stays_so_where_it_cannot_be_recorded(hushlist: Hushlist) -> None:
    raw = raw_flow(("blocked.example", 9000))
    hushlist.tcp_start(raw)
    data = ServerConnectionHookData(client=raw.client_conn, server=raw.server_conn)
    hushlist.server_connect(data)
    assert (data.server.error or "").startswith("blocked by hushlist: blocked.example/ by ")
    flow = connect_to("blocked.example:22")
    hushlist.http_connect(flow)
    assert flow.response is not None
    assert outcome(hushlist, offered(ADDRESS), HARMFUL) == ["ended"]
    assert outcome(hushlist, offered(ADDRESS), HARMLESS) == ["passed"]
    assert hushlist.runtime.failure_policy.refused == 3


@pytest.mark.usefixtures("broken_record")
def test_a_second_tunnel_ends_where_that_cannot_be_reported(
    hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = connect_to("good.example:443"), connect_to("good.example:443")
    second.client_conn, second.server_conn = first.client_conn, first.server_conn
    monkeypatch.setattr(tunnels.logger, "info", broken)
    for flow in (first, second):
        flow.request.http_version = "HTTP/2.0"
        with suppress(RuntimeError):
            hushlist.http_connect(flow)
    assert first.error is None
    assert second.error is not None


# -- what is decrypted -------------------------------------------------------------------------------------------------


def is_relayed(hushlist: Hushlist, policy: Path, how: str, asked: tls.ClientHelloData) -> tuple[bool, bool]:
    """Whether a connection is not decrypted by a policy with ``decrypt``, and whether its server is refused."""
    policy.write_text(POLICY + f"decrypt: {how}\nalways-decrypt: [cdn.example]\nsafe-search: strict\n")
    hushlist.policy_watch.load(policy)
    context = Context(asked.context.client, None)  # type: ignore[arg-type]
    context.server.address = asked.context.server.address
    data = tls.ClientHelloData(context, asked.client_hello)
    hushlist.tls_clienthello(data)
    return data.ignore_connection, refused(hushlist, context)


REVERSE = "reverse:https://good.example"


@pytest.mark.slow
@each_row(
    ("data", "where_needed", "never"),
    [
        (hello_to(("good.example", 443), "good.example"), (True, False), (True, False)),
        (hello_to(("good.example", 8443), None), (True, False), (True, False)),
        (hello_to(("good.example", 443), "other.example"), (True, False), (True, False)),
        (hello_to(("good.example", 443), "www.path.example"), (False, False), (True, False)),
        (hello_to(("path.example", 443), "good.example"), (False, False), (True, False)),
        (hello_to(("good.example", 443), "blocked.example"), (False, True), (True, True)),
        (hello_to(("blocked.example", 443), "good.example"), (False, True), (True, True)),
        (hello_to(("good.example", 22), "good.example"), (False, True), (True, True)),
        (hello_to(("good.example", 443), "good.example", hidden=True), (False, False), (True, True)),
        (hello_to(("good.example", 443), None, hidden=True), (False, False), (True, True)),
        (hello_to(("a/b", 443), None), (False, True), (True, True)),
        (hello_to(("www.cdn.example", 443), None), (False, False), (True, False)),
        (hello_to(("www.google.com", 443), None), (False, False), (True, False)),
        (hello_to(("hushlist.internal", 443), None), (False, False), (True, False)),
        (hello_to(ADDRESS, None), (False, False), (True, False)),
        (hello_to(ADDRESS, "good.example"), (False, False), (True, False)),
        (hello_to(ADDRESS, None, "transparent"), (False, False), (True, False)),
        (hello_to(ADDRESS, "good.example", "transparent"), (True, False), (True, False)),
        (hello_to(ADDRESS, "path.example", "transparent"), (False, False), (True, False)),
        (hello_to(("203.0.113.7", 443), "good.example", "transparent"), (False, True), (True, True)),
        (hello_to(("good.example", 443), "good.example", REVERSE), (False, False), (True, False)),
        (hello_to(("good.example", 443), None, REVERSE), (False, False), (True, False)),
        (hello_to(("bank.example", 443), "bank.example"), (True, False), (True, False)),
        (hello_to(("blocked.example", 443), None, port=8081), (False, False), (True, False)),
        (hello_to(("blocked.example", 443), None, port=8082), (True, False), (True, False)),
        (hello_to(None, "good.example"), (False, False), (False, False)),
    ],
)
def test_what_need_not_be_decrypted_is_relayed_if_no_name_of_it_is_blocked(
    hushlist: Hushlist,
    policy: Path,
    data: tls.ClientHelloData,
    where_needed: tuple[bool, bool],
    never: tuple[bool, bool],
) -> None:
    assert is_relayed(hushlist, policy, "where-needed", data) == where_needed
    assert is_relayed(hushlist, policy, "never", data) == never
    is_passed = (data.context.server.address or ("",))[0] == "bank.example"
    assert is_relayed(hushlist, policy, "all", data)[0] is is_passed


@each_row(
    ("data", "without_pages"),
    [
        (hello_to(("good.example", 443), "good.example"), (True, False)),
        (hello_to(("www.path.example", 443), None), (False, False)),
        (hello_to(("good.example", 443), "blocked.bank.example"), (True, True)),
        (hello_to(("good.example", 443), "www.blocked.bank.example", hidden=True), (False, True)),
        (hello_to(("good.example", 443), "blocked.example"), (False, True)),  # a part of it is allowed
        (hello_to(("203.0.113.7", 443), "good.example", "transparent"), (True, True)),
        (hello_to(("blocked.bank.example", 443), None, port=8081), (True, False)),
    ],
)
def test_what_is_blocked_as_a_whole_is_not_decrypted_where_no_page_is_wanted(
    hushlist: Hushlist, policy: Path, data: tls.ClientHelloData, without_pages: tuple[bool, bool]
) -> None:
    assert is_relayed(hushlist, policy, "without-pages", data) == without_pages


@each_row(
    ("address", "mode", "protocols", "relayed"),
    [
        (ADDRESS, "transparent", [b"h2", b"http/1.1"], False),
        (ADDRESS, "transparent", [b"h3"], False),
        (ADDRESS, "transparent", [b"http/1.1"], True),
        (ADDRESS, "socks5", [b"h2"], False),
        (("good.example", 443), "socks5", [b"h2"], True),
        (("good.example", 443), "regular", [b"h2"], True),
    ],
)
def test_a_connection_that_may_be_used_for_another_name_is_relayed_only_where_its_client_names_each_destination(
    hushlist: Hushlist, policy: Path, address: tuple[str, int], mode: str, protocols: list[bytes], relayed: bool
) -> None:
    data = hello_to(address, "good.example", mode)
    data.client_hello.alpn_protocols.extend(protocols)
    assert is_relayed(hushlist, policy, "where-needed", data) == (relayed, False)
    assert is_relayed(hushlist, policy, "never", data) == (True, False)


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


@each_row(
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
@each_row("is_shown", [False, True])
def test_what_a_client_begins_with_is_read_before_it_passes(
    hushlist: Hushlist, pieces: list[bytes], expected: list[str], is_shown: bool
) -> None:
    assert outcome(hushlist, offered(ADDRESS, is_shown=is_shown), *pieces) == expected


@pytest.mark.parametrize(("piece", "end"), [(HARMLESS, "passed"), (HARMFUL, "ended")])
def test_nothing_passes_before_its_client_has_begun(hushlist: Hushlist, piece: bytes, end: str) -> None:
    nextlayer = offered(ADDRESS)
    nextlayer.events = [events.Start()]
    hushlist.next_layer(nextlayer)
    assert nextlayer.layer is not None
    assert list(nextlayer.layer.handle_event(events.Start())) == []
    kinds = {type(one) for one in nextlayer.layer.handle_event(events.DataReceived(nextlayer.context.client, piece))}
    assert ("ended" if commands.CloseConnection in kinds else "passed" if kinds else "held") == end


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


@each_row(
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
        ([b"\x4f" + bytes(40)], ["ended"]),  # of a connection that goes on after a pause
        ([b"\x80\x00" + bytes(40)], ["passed"]),  # RTP
        ([GREETING], ["passed"]),
    ],
)
def test_the_first_datagrams_are_read_before_they_pass(
    hushlist: Hushlist, pieces: list[bytes], expected: list[str]
) -> None:
    assert outcome(hushlist, offered(ADDRESS, "udp"), *pieces) == expected


def undecided(address: tuple[str, int]) -> layer.NextLayer:
    nextlayer = offered(address)
    nextlayer.layer = None
    nextlayer.events = [events.Start(), events.DataReceived(nextlayer.context.client, GREETING)]
    return nextlayer


@pytest.mark.parametrize(("host", "is_refused"), [("203.0.113.7", True), ("198.51.100.7", False)])
def test_mitmproxy_is_asked_first_which_layer_it_would_take(hushlist: Hushlist, host: str, is_refused: bool) -> None:
    ctx.options.update(ignore_hosts=[re.escape(host)])
    nextlayer = undecided((host, 4711))
    hushlist.next_layer(nextlayer)
    assert isinstance(nextlayer.layer, tunnels.Refused if is_refused else TCPLayer)


def datagrams(kind: type[UDPLayer | RawQuicLayer], mode: str, host: str, sni: str | None) -> layer.NextLayer:
    """What mitmproxy makes of datagrams that it does not read."""
    one = Context(client_of(mode, sni=sni), ctx.options)
    one.client.transport_protocol = one.server.transport_protocol = "udp"
    one.server.address = (host, 4711)
    nextlayer = layer.NextLayer(one)
    nextlayer.events = [events.DataReceived(one.client, b"\x01" + bytes(147))]
    nextlayer.layer = UDPLayer(one) if kind is UDPLayer else RawQuicLayer(one, force_raw=True)
    return nextlayer


@each_row("kind", [UDPLayer, RawQuicLayer])
@each_row(
    ("mode", "host", "sni", "udp_hosts", "passes"),
    [
        ("wireguard", "198.51.100.1", None, [], False),
        ("wireguard", "198.51.100.1", "good.example", [], False),
        ("wireguard", "2001:db8::1", None, [], False),
        ("local", "198.51.100.1", None, [], False),
        ("wireguard", "203.0.113.1", None, ["203"], False),  # a rule blocks it
        ("wireguard", "198.51.100.1", None, ["198"], True),
        ("wireguard", "198.51.100.1", "Good.example", ["^good"], True),
        ("wireguard", "198.51.100.1", "www.bank.example", [], True),  # of pass-through
        ("wireguard", "198.51.100.1", "blocked.bank.example", [], False),
        ("wireguard", "198.51.100.1", "a/b", [], False),
        ("reverse:udp://198.51.100.1:4711", "198.51.100.1", None, [], True),
    ],
)
def test_datagrams_in_which_nothing_can_be_read_pass_only_to_places_that_are_named(
    hushlist: Hushlist,
    kind: type[UDPLayer | RawQuicLayer],
    mode: str,
    host: str,
    sni: str | None,
    udp_hosts: list[str],
    passes: bool,
) -> None:
    ctx.options.update(udp_hosts=udp_hosts)
    nextlayer = datagrams(kind, mode, host, sni)
    hushlist.next_layer(nextlayer)
    is_refused = isinstance(nextlayer.layer, tunnels.Refused)
    if kind is UDPLayer and not is_refused:  # another hook decides it by its names and address
        flow = tflow.tudpflow()
        flow.client_conn, flow.server_conn = nextlayer.context.client, nextlayer.context.server
        hushlist.udp_start(flow)
        is_refused = refused(hushlist, nextlayer.context)
    assert is_refused is not passes
    address = nextlayer.context.server.address
    assert address is not None
    if passes and sni is not None:
        assert address[0] == sni.lower()


@pytest.mark.parametrize("passes", [False, True])
def test_where_no_layer_can_be_chosen_the_connection_is_ended_unless_failures_pass(
    hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch, passes: bool
) -> None:
    monkeypatch.setattr(NextLayer, "next_layer", broken)
    hushlist.runtime.failure_policy.on_failure = OnFailure(frozenset(FailureCause) if passes else frozenset())
    nextlayer = undecided(("198.51.100.7", 4711))
    hushlist.next_layer(nextlayer)
    assert isinstance(nextlayer.layer, tunnels.Refused) is not passes


@pytest.mark.parametrize("state", ["off", "off for the group", "not live", "no address"])
def test_raw_data_that_is_not_decided_is_not_touched(hushlist: Hushlist, state: str) -> None:
    flow = raw_flow(("blocked.example", 25))
    if state == "off":
        hushlist.runtime.mode = "off"
    elif state == "off for the group":
        flow.client_conn.sockname = ("127.0.0.1", 8082)
    elif state == "not live":
        flow.live = False
    else:
        flow.server_conn.address = None
    hushlist.tcp_start(flow)
    assert (flow.marked, flow.metadata) == ("", {})
    data = ServerConnectionHookData(client=flow.client_conn, server=flow.server_conn)
    hushlist.server_connect(data)
    assert data.server.error is None


def in_tunnel(
    address: tuple[str, int], mode: str = "regular", port: int = 8080, *, is_tls: bool = False
) -> layer.NextLayer:
    """A connection that has begun, and of which nobody knows what it carries."""
    one = Context(client_of(mode, port), ctx.options)
    one.server.address, one.server.tls = address, is_tls
    modes.TransparentProxy(one)  # the layer around it
    ctx.options.update(rawtcp=False)  # as the addon has it
    return layer.NextLayer(one)


@pytest.mark.parametrize("host", ["good.example", "blocked.example", "bank.example"])
def test_http_is_left_to_its_requests(hushlist: Hushlist, host: str) -> None:
    for pieces in (
        [b"GET / HTTP/1.1\r\n"],
        [b"\r\nGET / HTTP/1.1\r\n\r\n"],
        [b"ODD x HTTP/1.0\r\n"],
        [b"GET /old\r\n"],
    ):
        nextlayer = in_tunnel((host, 80))
        nextlayer.events = [events.DataReceived(nextlayer.context.client, piece) for piece in pieces]
        hushlist.next_layer(nextlayer)
        assert isinstance(nextlayer.layer, HttpLayer), pieces


@each_row(
    ("pieces", "expected"),
    [
        ([b"SSH-2.0-x\r\n"], ["ended"]),
        ([b"\x00"], ["ended"]),
        ([b"EHLO x", b"\r\n"], ["held", "ended"]),
        ([b"G", b"ET / HTTP/1.1\r\n\r\n"], ["held", "passed"]),
        ([HARMLESS[:1], HARMLESS[1:2], HARMLESS[2:]], ["held", "held", "passed"]),
        ([b"\x16\x04\x01\x00\x10"], ["ended"]),
        ([b"\x17", b"\x03", b"\x03"], ["held", "held", "ended"]),
        ([b"x" * 5000], ["passed"]),  # a line that is too long is read as HTTP, which has a bound
    ],
)
@pytest.mark.parametrize("host", ["good.example", "bank.example"])
def test_what_is_neither_http_nor_tls_ends_as_soon_as_that_is_clear(
    hushlist: Hushlist, pieces: list[bytes], expected: list[str], host: str
) -> None:
    nextlayer = in_tunnel((host, 80))
    found: list[str] = []
    for piece in pieces:
        received = events.DataReceived(nextlayer.context.client, piece)
        if not found:
            nextlayer.events = [events.Start(), received]
            hushlist.next_layer(nextlayer)
            assert nextlayer.layer is not None
            done = [one for event in nextlayer.events for one in nextlayer.layer.handle_event(event)]
        else:
            assert nextlayer.layer is not None
            done = list(nextlayer.layer.handle_event(received))
        is_held = isinstance(nextlayer.layer, tunnels.Held) and not nextlayer.layer.is_decided
        is_ended = any(isinstance(command, commands.CloseConnection) for command in done)
        found.append("ended" if is_ended else "held" if is_held else "passed")
    assert found == expected


@each_row(
    ("nextlayer", "kind"),
    [
        (("bank.example", 9000), tunnels.EarlyRelay),
        (("www.bank.example", 443), tunnels.EarlyRelay),
        (("192.0.2.7", 9000), tunnels.EarlyRelay),
        (("good.example", 9000), None),
        (("blocked.bank.example", 9000), None),
        (("blocked.bank.example", 143), tunnels.RefusedAtStart),
        (("good.example", 143), tunnels.RefusedAtStart),
        (("good.example", 993), None),
        (("good.example", 993, {"is_tls": True}), tunnels.RefusedAtStart),
        (("bank.example", 993, {"is_tls": True}), tunnels.RefusedAtStart),
        (("bank.example", 443, {"is_tls": True}), None),
        (("198.51.100.1", 3306, {"mode": "transparent"}), tunnels.RefusedAtStart),
        (("192.0.2.7", 3306, {"mode": "transparent"}), tunnels.EarlyRelay),
        (("192.0.2.7", 5353, {"mode": "transparent"}), None),  # DNS is read
        (("192.0.2.7", 5353, {"mode": "socks5"}), tunnels.EarlyRelay),
        (("good.example", 143, {"mode": "reverse:tcp://good.example:143"}), None),
        (("good.example", 143, {"port": 8081}), tunnels.EarlyRelay),  # a dry run
        (("good.example", 143, {"port": 8082}), tunnels.EarlyRelay),  # nothing is decided
    ],
)
def test_what_is_known_when_a_connection_begins_decides_what_nobody_reads(
    hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch, nextlayer: tuple[object, ...], kind: type[layer.Layer] | None
) -> None:
    host, port, *more = nextlayer
    asked = in_tunnel((host, port), **(more[0] if more else {}))  # type: ignore[arg-type]
    quiet: list[layer.NextLayer] = []
    monkeypatch.setattr(hushlist._tunnels, "end_if_quiet", quiet.append)
    hushlist.hushlist_begun(asked)
    assert (asked.layer and type(asked.layer)) is kind
    may_be_quiet = kind is None and not asked.context.client.proxy_mode.full_spec.startswith("reverse") and port != 5353
    assert quiet == [asked] * may_be_quiet


@pytest.mark.parametrize("passes", [False, True])
def test_where_the_filter_fails_nothing_is_relayed_unless_failures_pass(
    hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch, *, passes: bool
) -> None:
    monkeypatch.setattr(Engine, "decide_host", broken)
    if passes:
        hushlist.runtime.failure_policy.on_failure = OnFailure(frozenset(FailureCause))
    asked, socks = (
        in_tunnel(("bank.example", 9000)),
        tunnels.SocksRequest(in_tunnel(("good.example", 25)).context, is_refused=False),
    )
    hushlist.hushlist_begun(asked)
    hushlist.hushlist_socks(socks)
    assert isinstance(asked.layer, tunnels.RefusedAtStart) is not passes
    assert socks.is_refused is not passes


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
    told = list[tuple[str, str, str]]()
    hushlist.runtime.parts.happened = (lambda what, client, about: told.append((what, client.address, about)),)
    for _ in range(3):
        fail(hushlist, "app.example")
    assert told == [(REFUSED_CERTIFICATE, "127.0.0.1", "app.example")] * 3
    hushlist.tls_established_client(handshake("good.example"))
    fail(hushlist, "once.example")
    for host in ("blocked.example", "blocked.bank.example", "path.example", "www.path.example", "x%y", "a b"):
        for _ in range(3):
            fail(hushlist, host)
    fail(hushlist, "closed.example", "connection closed")
    fail(hushlist, "closed.example", "connection closed")
    assert pinned.read_text() == before
    assert hushlist.runtime.statistics.total == 12  # two that are blocked, and two that are no names
    fail(hushlist, "app.example")
    fail(hushlist, "app.example")
    added = pinned.read_text().removeprefix(before)
    assert added.startswith("\n=app.example  # 20")
    assert added.endswith(" UTC: 127.0.0.1 refuses the certificate\n")
    assert added.count("\n") == 2


def test_a_refusal_does_no_harm_where_the_filter_fails_or_has_no_policy(
    hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hushlist.runtime.engine = None
    hushlist.runtime.failure_policy.on_failure = OnFailure(frozenset(FailureCause))
    fail(hushlist, "app.example")
    assert "refuses" not in caplog.text
    monkeypatch.setattr(hushlist.runtime, "judge", broken)
    fail(hushlist, "app.example")
    assert "a client that refuses a certificate was not seen to" in caplog.text


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


# -- another policy, while somebody is asked ---------------------------------------------------------------------------


@pytest.fixture
def comes_meanwhile(hushlist: Hushlist, policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a connection is decided, a policy comes that passes nothing through."""
    runtime, texts = hushlist.runtime, [re.sub("(?m)^pass-through.*$", "", POLICY)]

    async def confirmed(judgement: Judgement, **how: bool) -> Judgement | None:
        if texts:
            policy.write_text(texts.pop())
            hushlist.policy_watch.load(policy)
        return runtime.judge(judgement.request, judgement.client, **how)

    monkeypatch.setattr(runtime, "confirmed", confirmed)


@pytest.mark.usefixtures("comes_meanwhile")
def test_a_connection_goes_by_one_policy_alone(hushlist: Hushlist) -> None:
    data = hello_to(("bank.example", 443), "bank.example")
    hushlist.tls_clienthello(data)
    assert not data.ignore_connection


def test_the_first_tunnel_of_an_http_2_connection_is_decided(hushlist: Hushlist) -> None:
    flow = connect_to("blocked.example:22")
    flow.request.http_version = "HTTP/2.0"
    hushlist.http_connect(flow)
    assert flow.response is not None
    assert flow.response.status_code == 403
