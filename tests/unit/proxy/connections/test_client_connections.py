"""Clients' connections: whose are refused before they have sent anything, and how they end."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from mitmproxy import connection
from mitmproxy.options import Options
from mitmproxy.proxy import events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layer import Layer
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.test import tflow

from hushlist.proxy.connections import client_connections
from hushlist.proxy.connections.client_connections import end_connection, refuse_forged


@pytest.mark.parametrize(
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
