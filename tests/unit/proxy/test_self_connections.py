"""Which of its clients' connections the proxy has made itself."""

from time import time

import pytest
from mitmproxy import connection
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from hushlist.proxy.flow_request import SelfConnections
from unit.rows import each_row

_HERE = ("127.0.0.1", 8080)
#: a client, and the server of its connection
Ends = tuple[connection.Client, connection.Server]


def ends_from(
    *peer: str | int,
    mode: str = "regular",
    protocol: connection.TransportProtocol = "tcp",
    at: connection.Address = _HERE,
    destination: connection.Address | None = None,
) -> Ends:
    host, port, *rest = peer
    client = connection.Client(
        peername=(host, port, *rest),  # type: ignore[arg-type]  IPv6 has two numbers more
        sockname=at,
        proxy_mode=ProxyMode.parse(mode),
        transport_protocol=protocol,
    )
    return client, connection.Server(address=destination)


def made_from(own: SelfConnections, *name: str | int, to: connection.Address | None = _HERE) -> connection.Server:
    server = connection.Server(address=("self.example", 8080), sockname=name, peername=to)  # type: ignore[arg-type]
    server.state = connection.ConnectionState.OPEN
    own.note(ServerConnectionHookData(server, ends_from("192.0.2.1", 1)[0]))
    return server


@each_row(
    ("ends", "is_own"),
    [
        (ends_from("127.0.0.1", 4000), True),
        (ends_from("::ffff:127.0.0.1", 4000, 0, 0), True),
        (ends_from("127.0.0.1", 4000, at=("::ffff:127.0.0.1", 8080)), True),
        (ends_from("127.0.0.1", 4000, mode="socks5"), True),
        (ends_from("127.0.0.1", 4001), False),
        (ends_from("192.0.2.1", 4000), False),
        (ends_from("127.0.0.1", 4000, at=("127.0.0.1", 8081)), False),
        (ends_from("127.0.0.1", 4000, protocol="udp"), False),
    ],
)
def test_the_other_end_of_an_own_connection_is_known(ends: Ends, is_own: bool) -> None:
    own = SelfConnections()
    server = made_from(own, "127.0.0.1", 4000)
    assert server.connected
    assert own.is_loop(*ends) is is_own


@pytest.mark.parametrize(("mode", "is_own"), [("transparent", True), ("regular", False)])
def test_a_connection_that_a_firewall_leads_here_is_known_by_its_address(mode: str, is_own: bool) -> None:
    own = SelfConnections()
    server = made_from(own, "192.0.2.7", 4000, to=("198.51.100.1", 80))
    assert own.is_loop(*ends_from("192.0.2.7", 4000, mode=mode, destination=("198.51.100.1", 80))) is is_own
    assert not own.is_loop(*ends_from("192.0.2.7", 4000, mode=mode, destination=("198.51.100.2", 80)))
    assert server.connected


def test_a_port_that_another_has_now_is_no_own_one() -> None:
    own = SelfConnections()
    server = made_from(own, "127.0.0.1", 4000)
    server.state, server.timestamp_end = connection.ConnectionState.CLOSED, time()
    ends = ends_from("127.0.0.1", 4000)
    ends[0].timestamp_start = server.timestamp_end + 1
    assert not own.is_loop(*ends)
    del server
    assert not own.is_loop(*ends_from("127.0.0.1", 4000))


@pytest.mark.parametrize("state", [connection.ConnectionState.CAN_READ, connection.ConnectionState.CLOSED])
def test_a_client_that_ends_its_side_does_not_hide_who_asks(state: connection.ConnectionState) -> None:
    own, ends = SelfConnections(), ends_from("127.0.0.1", 4000)
    server = made_from(own, "127.0.0.1", 4000)
    server.state = state
    assert own.has(*ends)
    server.timestamp_end = time()
    assert own.has(*ends)  # what was sent before is still read


def test_the_proxy_may_ask_a_server_that_stands_behind_itself() -> None:
    own = SelfConnections()
    server = made_from(own, "127.0.0.1", 4000)
    ends = ends_from("127.0.0.1", 4000, mode="reverse:http://intranet.example@8081")
    assert own.has(*ends)
    assert not own.is_loop(*ends)
    assert server.connected
