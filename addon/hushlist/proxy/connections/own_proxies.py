"""Ends connections that lead to another proxy of this machine, or to the load balancer in front of all.

Any DNS name may lead there. The other proxy would take the client for a program on the machine, which may see the live
page and be allowed more; and what leads from one to the next has no end. A proxy knows its own connections again
(``SelfConnections``), but not those of another process.
"""

from __future__ import annotations

from collections.abc import Iterator

from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from hushlist.core.errors import logger_of
from hushlist.proxy.connections.client_connections import handler_of
from hushlist.proxy.connections.proxy_protocol import ProxyProtocol
from hushlist.proxy.flow_request import end_of
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)


class OwnProxies:
    """Knows the other proxies by what extensions say, and the load balancer by what it says of its clients."""

    def __init__(self, runtime: Runtime, proxy_protocol: ProxyProtocol) -> None:
        self._runtime, self._proxy_protocol = runtime, proxy_protocol

    def connected(self, data: ServerConnectionHookData) -> None:
        """mitmproxy's hook ``server_connected``, before anything is sent; the administrator's choice is left alone."""
        server, client = data.server, data.client
        if server.transport_protocol != "tcp" or server.peername is None or server.sockname is None:
            return
        if server.address == getattr(client.proxy_mode, "address", None):
            return
        fronts, end = self._proxy_protocol.fronts, end_of(server.peername)
        host, port = end
        is_here = host == end_of(server.sockname)[0] or host.startswith("127.") or host == "::1"
        if end in fronts or (is_here and port in {*(front_port for _, front_port in fronts), *self._neighbours()}):
            handler_of(client).transports[server].writer.transport.abort()
            logger.warning("hushlist: no connection for %s to %s: it leads back here", client.peername, server.address)

    def _neighbours(self) -> Iterator[int]:
        if self._runtime.siblings is not None:
            yield from self._runtime.siblings.ports
        for neighbours in self._runtime.parts.neighbours:
            yield from neighbours()
