"""Which of its clients' connections the proxy has made itself."""

import pytest
from mitmproxy import connection
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from hushlist.proxy.flow_request import SelfConnections

_HERE = ("127.0.0.1", 8080)


def client_from(
    *peer: str | int, mode: str = "regular", protocol: connection.TransportProtocol = "tcp"
) -> connection.Client:
    host, port, *rest = peer
    return connection.Client(
        peername=(host, port, *rest),  # type: ignore[arg-type]  IPv6 has two numbers more
        sockname=_HERE,
        proxy_mode=ProxyMode.parse(mode),
        transport_protocol=protocol,
    )


def made_from(own: SelfConnections, *name: str | int) -> connection.Server:
    server = connection.Server(address=("self.example", 8080), sockname=name, peername=_HERE)  # type: ignore[arg-type]
    server.state = connection.ConnectionState.OPEN
    own.note(ServerConnectionHookData(server, client_from("192.0.2.1", 1)))
    return server


@pytest.mark.parametrize(
    ("client", "is_own"),
    [
        (client_from("127.0.0.1", 4000), True),
        (client_from("::ffff:127.0.0.1", 4000, 0, 0), True),
        (client_from("127.0.0.1", 4001), False),
        (client_from("192.0.2.1", 4000), False),
        (client_from("127.0.0.1", 4000, protocol="udp"), False),
    ],
)
def test_the_other_end_of_an_own_connection_is_known(client: connection.Client, is_own: bool) -> None:
    own = SelfConnections()
    server = made_from(own, "127.0.0.1", 4000)
    assert server.connected
    assert own.has(client) is is_own
    assert own.is_loop(client) is is_own


def test_ipv6_is_known() -> None:
    own = SelfConnections()
    server = made_from(own, "fe80::1", 4000, 0, 2)
    assert own.has(client_from("fe80::1", 4000, 0, 2))
    assert server.connected


def test_a_port_that_another_has_now_is_no_own_one() -> None:
    own = SelfConnections()
    server = made_from(own, "127.0.0.1", 4000)
    server.state = connection.ConnectionState.CLOSED
    assert not own.has(client_from("127.0.0.1", 4000))
    del server
    assert not own.has(client_from("127.0.0.1", 4000))


def test_the_proxy_may_ask_a_server_that_stands_behind_itself() -> None:
    own = SelfConnections()
    server = made_from(own, "127.0.0.1", 4000)
    client = client_from("127.0.0.1", 4000, mode="reverse:http://intranet.example@8081")
    assert own.has(client)
    assert not own.is_loop(client)
    assert server.connected
