"""Clients' connections: whose are refused before they have sent anything."""

from __future__ import annotations

import pytest
from mitmproxy import connection
from mitmproxy.proxy.mode_specs import ProxyMode

from hushlist.proxy.connections.client_connections import refuse_forged


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
