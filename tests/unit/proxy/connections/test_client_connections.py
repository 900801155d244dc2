"""Clients' connections: whose are refused before they have sent anything, and how they end."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from mitmproxy import connection
from mitmproxy.options import Options
from mitmproxy.proxy import events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layer import Layer
from mitmproxy.proxy.layers.http._http2 import Http2Server
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.test import tflow

from hushlist.proxy.connections import client_connections
from hushlist.proxy.connections.client_connections import (
    announce_end,
    end_connection,
    is_of_this_machine,
    refuse_forged,
)
from unit.rows import each_row


@each_row(
    ("mode", "address", "is_refused"),
    [
        ("wireguard", "127.0.0.1", True),
        ("wireguard", "127.9.9.9", True),
        ("wireguard", "::1", True),
        ("wireguard", "::ffff:127.0.0.1", True),
        ("tun", "127.0.0.1", True),
        ("wireguard", "10.0.0.1", False),
        ("regular", "127.0.0.1", False),
        ("local", "127.0.0.1", False),
        ("transparent", "::1", False),
    ],
)
def test_nothing_out_of_a_tunnel_is_of_the_machine_itself(mode: str, address: str, is_refused: bool) -> None:
    client = connection.Client(
        peername=(address, 50000), sockname=("192.0.2.1", 80), proxy_mode=ProxyMode.parse(mode), timestamp_start=1.0
    )
    refuse_forged(client)
    assert (client.error is not None) is is_refused


@each_row(
    ("mode", "own", "peer", "said", "is_here"),
    [
        ("regular", "192.0.2.1", "192.0.2.1", None, True),
        ("socks5", "192.0.2.1", "192.0.2.1", None, True),
        ("upstream:http://h.example", "::ffff:192.0.2.1", "::ffff:192.0.2.1", None, True),
        ("regular", "192.0.2.1", "192.0.2.2", None, False),
        ("regular", "fe80::1%eth0", "fe80::1%eth1", None, False),
        # what a load balancer says of its clients: one is on its machine, one says that it is here
        ("regular", "192.0.2.1", "192.0.2.1", ("192.0.2.9", "192.0.2.9"), False),
        ("regular", "192.0.2.1", "192.0.2.7", ("192.0.2.1", "192.0.2.1"), False),
        # the own end is the origin's
        ("transparent", "192.0.2.1", "192.0.2.1", None, False),
        ("local", "192.0.2.1", "192.0.2.1", None, False),
        ("wireguard", "192.0.2.1", "192.0.2.1", None, False),
    ],
)
def test_a_machine_that_leads_to_itself_is_the_proxy_s(
    monkeypatch: pytest.MonkeyPatch, mode: str, own: str, peer: str, said: tuple[str, str] | None, is_here: bool
) -> None:
    ends = {"peername": (peer, 50000), "sockname": (own, 8080)}
    transport = SimpleNamespace(get_extra_info=ends.get)
    monkeypatch.setattr(client_connections, "transport_of", lambda _: transport)
    told = (peer, own) if said is None else said
    client = connection.Client(
        peername=(told[0], 50000 if said is None else 50001),
        sockname=(told[1], 8080),
        proxy_mode=ProxyMode.parse(mode),
        timestamp_start=1.0,
    )
    assert is_of_this_machine(client) is is_here


@pytest.mark.parametrize(
    ("protocol", "is_waited_for", "ended"),
    [
        ("tcp", False, ["client"]),
        ("tcp", True, ["writer"]),  # by a hook, which mitmproxy lets finish
        ("udp", False, ["server"]),
    ],
)
def test_a_connection_is_ended_as_mitmproxy_ends_it(
    monkeypatch: pytest.MonkeyPatch, protocol: str, is_waited_for: bool, ended: list[str]
) -> None:
    client, server = tflow.tclient_conn(), tflow.tserver_conn()
    client.transport_protocol = protocol  # type: ignore[assignment]
    found, names = list[str](), {client: "client", server: "server"}
    writer = SimpleNamespace(close=lambda: found.append("writer"))
    before = Layer(Context(client, Options()))
    handler = SimpleNamespace(
        layer=before,
        transports={
            client: SimpleNamespace(handler=None if is_waited_for else object(), writer=writer),
            server: SimpleNamespace(handler=object(), writer=writer),
        },
        close_connection=lambda own: found.append(names[own]),
    )
    monkeypatch.setattr(client_connections, "handler_of", {client: handler}.get)
    end_connection(client)
    assert found == ended
    assert (handler.layer is before) is (protocol == "tcp")
    if protocol == "udp":  # what still comes begins nothing
        assert list(handler.layer.handle_event(events.DataReceived(client, b"x"))) == []
    end_connection(tflow.tclient_conn())  # of which mitmproxy does not know any more
    assert found == ended


@pytest.mark.parametrize(("is_open", "latest", "is_told"), [(False, 9e9, True), (True, 9e9, False), (True, 0.0, True)])
def test_a_client_over_http_2_is_told_once_that_its_connection_ends(
    monkeypatch: pytest.MonkeyPatch, is_open: bool, latest: float, is_told: bool
) -> None:
    """Spec: RFC 9113, 6.8."""
    options = SimpleNamespace(validate_inbound_headers=True)
    context = Context(tflow.tclient_conn(), options)  # type: ignore[arg-type]
    http2 = Http2Server(context)
    monkeypatch.setattr(client_connections, "handler_of", lambda _: SimpleNamespace(layer=http2))
    announce_end(context.client, latest)
    if is_open:
        monkeypatch.setattr(type(http2.h2_conn), "open_inbound_streams", 1)
    end = b"\0\0\x08\x07\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0"
    assert http2.h2_conn.data_to_send() == b""
    for number, expected in ((1, is_told), (2, False)):
        http2.h2_conn.ping(bytes(7) + bytes((number,)))
        assert http2.h2_conn.data_to_send().endswith(end) is expected
