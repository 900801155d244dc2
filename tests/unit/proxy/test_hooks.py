"""What the addon's hooks do to flows and connections, in mitmproxy's own test context, by a policy without checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mitmproxy import connection, ctx, http
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from mitmproxy.test import taddons, tflow

from hushlist.proxy.addon import Hushlist
from hushlist.proxy.connections.own_proxies import OwnProxies
from support.flows import flow_of
from support.mitmproxied import mitmproxied
from support.policies import write_policy
from unit.proxy.connections.test_tunnels import (
    ADDRESS,
    GREETING,
    HARMLESS,
    connect_to,
    datagram_hello,
    offered,
    outcome,
)
from unit.rows import each_row


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    rules = (
        "rules:\n- blocked.example\n- {expression: warned.example, action: warn}\n"
        "- {expression: tagged.example, action: tag}\n"
    )
    return write_policy(tmp_path, "safe-search: strict", {"rules.yaml": rules})


@pytest.fixture
def context(policy: Path) -> Iterator[taddons.context]:
    with mitmproxied(Hushlist(), policy) as context:
        yield context


@pytest.fixture
def hushlist(context: taddons.context) -> Hushlist:
    found = context.master.addons.get("hushlist")
    assert isinstance(found, Hushlist)
    return found


# -- the name that was decided -----------------------------------------------------------------------------------------


@each_row(
    ("flow", "connected"),
    [
        (flow_of("http://198.51.100.1/", host="good.example", mode="transparent"), "good.example"),
        (flow_of("http://198.51.100.1/", host="Good.Example:80", mode="transparent"), "good.example"),
        (
            flow_of("https://198.51.100.1/", host="good.example", mode="transparent", sni="other.example"),
            "other.example",
        ),
        (flow_of("https://198.51.100.1/", host="good.example", mode="transparent", sni="good.example"), "good.example"),
        (flow_of("http://198.51.100.1/", host="198.51.100.2", mode="transparent"), "198.51.100.1"),
        (flow_of("http://good.example/", host="good.example"), "good.example"),
        (flow_of("http://tagged.example/", host="tagged.example", mode="socks5"), "tagged.example"),
    ],
)
def test_a_request_goes_to_the_name_that_was_decided(hushlist: Hushlist, flow: http.HTTPFlow, connected: str) -> None:
    named = flow.request.headers.get("host")
    hushlist.requestheaders(flow)
    hushlist.request(flow)
    assert flow.response is None
    assert (flow.request.data.host, flow.request.headers.get("host")) == (connected, named)


@each_row(
    ("flow", "named"),
    [
        (flow_of("http://good.example/"), "good.example"),
        (flow_of("http://good.example:81/"), "good.example:81"),
        (flow_of("https://good.example/", sni="good.example"), "good.example"),
        (flow_of("https://198.51.100.1/", mode="transparent", sni="good.example"), "good.example"),
        (flow_of("http://198.51.100.1/", mode="transparent"), "198.51.100.1"),
        (flow_of("http://[2001:db8::1]/", mode="socks5"), "[2001:db8::1]"),
        (flow_of("http://good.example/", host="Good.Example:80"), "Good.Example:80"),
    ],
)
@each_row("version", ["HTTP/1.0", "HTTP/1.1"])
def test_the_origin_is_told_who_was_decided(hushlist: Hushlist, flow: http.HTTPFlow, named: str, version: str) -> None:
    flow = flow.copy()
    flow.live, flow.request.http_version = True, version
    hushlist.requestheaders(flow)
    hushlist.request(flow)
    assert flow.response is None
    assert flow.request.headers.get_all("host") == [named]


@pytest.mark.parametrize(("authority", "named"), [("good.example", []), ("", ["good.example"])])
def test_a_request_over_http2_has_its_host_once(hushlist: Hushlist, authority: str, named: list[str]) -> None:
    flow = flow_of("https://good.example/")
    flow.request.http_version, flow.request.authority, flow.client_conn.alpn = "HTTP/2.0", authority, b"h2"
    hushlist.requestheaders(flow)
    assert flow.response is None
    assert flow.request.headers.get_all("host") == named


def test_what_was_led_to_its_name_is_not_decided_again(context: taddons.context, hushlist: Hushlist) -> None:
    flow = flow_of("http://198.51.100.1/", host="tagged.example", mode="transparent")
    hushlist.requestheaders(flow)
    assert flow.marked
    flow.marked = ""
    hushlist.request(flow)
    assert (flow.marked, flow.request.data.host) == ("", "tagged.example")


def test_a_connection_to_a_search_is_led_before_anything_is_asked_and_used_again(hushlist: Hushlist) -> None:
    search = flow_of("https://www.google.com/maps")
    client, ended = search.client_conn, list[object]()
    servers = [connection.Server(address=("www.google.com", 443)) for _ in range(2)]
    handler = handler_with(client, servers, ended)
    for server in servers:
        hushlist.server_connect(ServerConnectionHookData(server, client))
        assert server.address == ("forcesafesearch.google.com", 443)
        server.state = connection.ConnectionState.OPEN
        hushlist.server_connected(ServerConnectionHookData(server, client))
        assert server.address == ("www.google.com", 443)  # by which mitmproxy finds it for the next request
    hushlist.requestheaders(search)
    assert search.request.host == "www.google.com"
    assert ended == []
    assert handler.transports


def handler_with(client: connection.Client, servers: Iterable[connection.Server], ended: list[object]) -> Any:
    """What mitmproxy has for a client that has connections to servers; ``ended`` are those that are closed."""
    io = SimpleNamespace(writer=SimpleNamespace(close=lambda: None))
    handler = SimpleNamespace(transports=dict.fromkeys(servers, io), close_connection=ended.append)
    ctx.master.addons.add(SimpleNamespace(name="proxyserver", connections={client.id: handler}))
    return handler


def test_a_connection_that_was_begun_before_a_search_became_safe_is_ended(
    context: taddons.context, hushlist: Hushlist
) -> None:
    search, ended = flow_of("https://search.brave.com/?q=x"), list[object]()
    client = search.client_conn
    context.configure(hushlist, hushlist_mode="off")
    servers = {name: connection.Server(address=(name, 443)) for name in ("search.brave.com", "other.example")}
    handler_with(client, servers.values(), ended)
    for server in servers.values():
        hushlist.server_connect(ServerConnectionHookData(server, client))
    context.configure(hushlist, hushlist_mode="block")
    hushlist.requestheaders(search)
    assert ended == []  # none is connected yet
    for server in servers.values():
        hushlist.server_connected(ServerConnectionHookData(server, client))
    assert ended == [servers["search.brave.com"]]


# -- what people see ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["block", "tag", "off"])
def test_the_proxy_does_not_ask_itself_in_any_mode(context: taddons.context, hushlist: Hushlist, mode: str) -> None:
    context.configure(hushlist, hushlist_mode=mode)
    flow = flow_of("http://good.example/")
    client = flow.client_conn
    server = connection.Server(address=client.sockname, sockname=client.peername, peername=client.sockname)
    server.state = connection.ConnectionState.OPEN
    hushlist.server_connected(ServerConnectionHookData(server, flow.client_conn))
    hushlist.requestheaders(flow)
    assert flow.response is not None
    assert flow.response.status_code == 403
    assert "the proxy would ask itself for it" in (flow.response.text or "")


def test_a_connection_to_a_server_is_looked_at_for_other_proxies_of_this_machine(
    hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[ServerConnectionHookData]()
    monkeypatch.setattr(OwnProxies, "connected", lambda _, data: seen.append(data))
    data = ServerConnectionHookData(tflow.tserver_conn(), tflow.tclient_conn())
    hushlist.server_connected(data)
    assert seen == [data]


# -- tunnels -----------------------------------------------------------------------------------------------------------


@each_row(
    ("target", "is_refused"),
    [
        ("blocked.example:22", True),
        ("blocked.example:1023", True),
        ("blocked.example:80", False),
        ("blocked.example:443", False),
        ("blocked.example:1024", False),
        ("good.example:22", True),  # the server speaks first, and nobody passes it through
        ("good.example:1023", False),
    ],
)
def test_a_tunnel_to_a_port_of_another_protocol_can_show_no_page(
    hushlist: Hushlist, target: str, is_refused: bool
) -> None:
    flow = connect_to(target)
    hushlist.http_connect(flow)
    assert (flow.response is not None) is is_refused
    assert bool(flow.marked) is (target.startswith("blocked.") or is_refused)


def sent(done: list[commands.Command]) -> bytes:
    return b"".join(command.data for command in done if isinstance(command, commands.SendData))


@pytest.mark.parametrize("first", [[HARMLESS], [HARMLESS[:1], HARMLESS[1:]], [GREETING]])
def test_what_was_held_is_sent_once_and_what_follows_behind_it(hushlist: Hushlist, first: list[bytes]) -> None:
    nextlayer = offered(ADDRESS)
    client, server = nextlayer.context.client, nextlayer.context.server
    nextlayer.events = [events.Start(), events.DataReceived(client, first[0])]
    hushlist.next_layer(nextlayer)
    chosen = nextlayer.layer
    assert chosen is not None
    data = (events.DataReceived(client, octets) for octets in (*first[1:], b"more"))
    done = [command for event in (*nextlayer.events, *data) for command in chosen.handle_event(event)]
    (opening,) = (command for command in done if isinstance(command, commands.OpenConnection))
    server.state = connection.ConnectionState.OPEN
    done += chosen.handle_event(events.OpenConnectionCompleted(opening, None))
    done += chosen.handle_event(events.DataReceived(client, b" and more"))
    assert sent(done) == b"".join(first) + b"more and more"
    assert sent([*chosen.handle_event(events.DataReceived(server, b"answer"))]) == b"answer"


@pytest.mark.parametrize(
    ("datagram", "expected"),
    [
        (datagram_hello(b"good.example"), "passed"),
        (datagram_hello(b"good.example")[:13] + b"\2" + datagram_hello(b"good.example")[14:], "ended"),
        (datagram_hello(b"blocked.example"), "ended"),
    ],
)
def test_a_datagram_with_another_message_is_no_hello(hushlist: Hushlist, datagram: bytes, expected: str) -> None:
    assert outcome(hushlist, offered(ADDRESS, "udp"), datagram) == [expected]
