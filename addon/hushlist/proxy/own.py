"""Connections that the proxy has made to itself.

Any name of DNS may lead to the proxy's own port, and so do most spellings of its address; mitmproxy refuses but a few.
A request for that port comes back as one of the proxy's own machine, which may see and do more than whoever asked; and
one that names the port in its Host header too comes back without end.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

from mitmproxy import connection
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from hushlist.proxy.wire import naming_of
from hushlist.url.message import Naming

#: protocol, address and port of one end
_End = tuple[str, str, int]


class OwnConnections:
    """Knows the connections that the proxy has made, and tells which of its clients' they are."""

    def __init__(self) -> None:
        self._made: WeakValueDictionary[_End, connection.Server] = WeakValueDictionary()

    def note(self, data: ServerConnectionHookData) -> None:
        """A connection is made."""
        end = _end(data.server, data.server.sockname)
        if end is not None:
            self._made[end] = data.server

    def has(self, client: connection.Client) -> bool:
        """Whether what a client asks by is the other end of a connection that the proxy has made.

        It is made before anything is sent over it, and thus noted before anything can be asked.
        """
        end = _end(client, client.peername)
        server = None if end is None else self._made.get(end)
        return server is not None and server.connected

    def is_loop(self, client: connection.Client) -> bool:
        """The same, where who asks says where it goes, so that it may be the proxy again."""
        return self.has(client) and naming_of(client.proxy_mode) is not Naming.ADMINISTRATOR


def _end(one: connection.Connection, address: connection.Address | None) -> _End | None:
    if address is None:
        return None
    host, port, *_ = address
    return one.transport_protocol, host.removeprefix("::ffff:"), port  # a socket for both families has the latter
