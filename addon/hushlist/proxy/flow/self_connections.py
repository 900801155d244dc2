"""Connections from the proxy to itself.

Any DNS name may lead to the proxy's own port, and so do many spellings of its address, of which mitmproxy refuses only
a few. Such a request comes back from the proxy's own machine, which may be allowed more than the client. If its Host
header names the port, too, it comes back without end.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

from mitmproxy import connection
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from hushlist.proxy.flow.flow_request import naming_of
from hushlist.url.http_head import Naming

#: protocol, address and port of one end
_End = tuple[str, str, int]


class SelfConnections:
    """Keeps the proxy's own connections, and recognizes clients that are their other end."""

    def __init__(self) -> None:
        self._made: WeakValueDictionary[_End, connection.Server] = WeakValueDictionary()

    def note(self, data: ServerConnectionHookData) -> None:
        """Note a new connection of the proxy."""
        end = _end(data.server, data.server.sockname)
        if end is not None:
            self._made[end] = data.server

    def has(self, client: connection.Client) -> bool:
        """Whether a client's connection is the other end of one that the proxy has made.

        mitmproxy reports a connection before anything is sent over it, so it is noted in time.
        """
        end = _end(client, client.peername)
        server = None if end is None else self._made.get(end)
        return server is not None and server.connected

    def is_loop(self, client: connection.Client) -> bool:
        """The same, for a proxy mode in which the client names the destination, which may again be the proxy."""
        return self.has(client) and naming_of(client.proxy_mode) is not Naming.ADMINISTRATOR


def _end(one: connection.Connection, address: connection.Address | None) -> _End | None:
    if address is None:
        return None
    host, port, *_ = address
    return one.transport_protocol, host.removeprefix("::ffff:"), port  # a socket for both families has the prefix
