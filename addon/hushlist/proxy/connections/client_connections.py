"""A client's connection as mitmproxy's proxy server has it: when something happened on it, and its end."""

from __future__ import annotations

import asyncio
import struct
from asyncio import StreamWriter, WriteTransport
from time import monotonic
from typing import Any

from mitmproxy import connection, ctx
from mitmproxy.proxy import events, layer
from mitmproxy.proxy.layers.http._http2 import Http2Server
from mitmproxy.proxy.layers.http._http_h2 import BufferedH2Connection
from mitmproxy.proxy.mode_specs import ProxyMode

from hushlist.core.errors import logger_of
from hushlist.core.policy.groups import Client
from hushlist.core.policy.proxy_settings import LOOPBACK
from hushlist.proxy.flow_request import is_sent_to
from hushlist.proxy.object_patches import put_on

logger = logger_of(__name__)

#: modes in which packets come past the kernel, which would drop those from elsewhere that say they are from here
_PAST_KERNEL = ("wireguard", "tun")
#: modes in which clients' connections are in a tunnel that ends with mitmproxy
_TUNNELS = (*_PAST_KERNEL, "local")
#: seconds for the ends of connections to go through a tunnel, before it ends itself
_LAST_WORDS = 0.3
#: seconds for all connections to end as the program does, and between two looks
_LONGEST_END, _LOOK = 1.0, 0.01


class _Silent(layer.Layer):
    """Drops whatever comes."""

    def _handle_event(self, _: events.Event) -> layer.CommandGenerator[None]:
        yield from ()


def refuse_forged(client: connection.Client) -> None:
    """Have mitmproxy end a connection that comes out of a tunnel with an address of this machine itself."""
    if client.proxy_mode.type_name in _PAST_KERNEL and LOOPBACK.fits(Client(client.peername[0])):
        client.error = "it says that it is the proxy's own machine, and comes out of a tunnel"
        logger.warning("hushlist: no connection for %s: %s", client.peername, client.error)


def is_of_this_machine(client: connection.Client) -> bool:
    """Whether a connection comes from the address that it leads to, which no other machine can have and be answered.

    By the socket of a client that sends to the proxy: what a load balancer says is of another machine's connection, and
    where the network leads connections here, their address is the origin's.
    """
    transport = transport_of(client)
    if transport is None or not is_sent_to(client):
        return False
    peer, sockname = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    return bool(peer and sockname) and client.peername == peer and peer[0] == sockname[0]


def is_tunnel(mode: ProxyMode) -> bool:
    """Whether mitmproxy itself is the end of a tunnel that clients' connections are in."""
    return mode.type_name in _TUNNELS


async def end_tunnelled() -> None:
    """End each connection that is in a tunnel of mitmproxy's, and let its client hear of it."""
    within = [
        handler.client
        for handler in all_connections()
        if is_tunnel(handler.client.proxy_mode) and handler.client.connected
    ]
    for client in within:
        end_connection(client)
    if within:
        await asyncio.sleep(_LAST_WORDS)


async def end_all() -> None:
    """End each connection, as the program does, and wait a moment until all have ended: what is in the midst of
    something is not cut off by the end of the event loop."""
    ends = monotonic() + _LONGEST_END
    while (handlers := all_connections()) and monotonic() < ends:
        for handler in handlers:
            if not is_gone(handler.client):
                end_connection(handler.client)
        if all(handler.client.transport_protocol == "udp" for handler in handlers):
            return  # their port ends them
        await asyncio.sleep(_LOOK)


def handler_of(client: connection.Client) -> Any:
    """What serves the connection: mitmproxy's ``ConnectionHandler``, or ``None`` where there is none."""
    server = ctx.master.addons.get("proxyserver")
    return None if server is None else server.connections.get(client.id)


def all_connections() -> list[Any]:
    """mitmproxy's handler of each client's connection."""
    server = ctx.master.addons.get("proxyserver")
    return [] if server is None else list(server.connections.values())


def last_activity(client: connection.Client) -> float:
    """A number that is another one whenever octets have flowed, in either direction."""
    handler = handler_of(client)
    return 0.0 if handler is None else float(handler.timeout_watchdog.last_activity)


def transport_of(client: connection.Client, end: connection.Connection | None = None) -> WriteTransport | None:
    """What writes to a client over TCP, while its connection is open; ``end``: to a server, for the client."""
    io = getattr(handler_of(client), "transports", {}).get(client if end is None else end)
    return io.writer.transport if io is not None and isinstance(io.writer, StreamWriter) else None


def file_of(client: connection.Client, end: connection.Connection) -> int | None:
    """The number of the open file of a connection over TCP: that of the client, or one to a server for it."""
    transport = transport_of(client, end)
    socket = None if transport is None else transport.get_extra_info("socket")
    return None if socket is None else int(socket.fileno())


def announce_end(client: connection.Client, latest: float) -> None:
    """Tell a client over HTTP/2 to ask nothing more on its connection: behind the last answer that is open.

    Where another is always open, it is told when ``monotonic()`` is ``latest``. Clients such as Python's httpx give up
    what is open when they are told; browsers do not.
    """
    handler = handler_of(client)
    for inner in () if handler is None else layers_of(handler.layer):
        if isinstance(inner, Http2Server) and inner.conn is client and "data_to_send" not in vars(inner.h2_conn):
            put_on(inner.h2_conn, "data_to_send", _GoAway(inner.h2_conn, latest).data_to_send)


class _GoAway:
    """What an HTTP/2 connection has to send, and then that it ends.

    The h2 package itself sends nothing behind a GOAWAY, not even what is open. It disclaims no request: whatever still
    comes is answered. Spec: RFC 9113, 6.8
    """

    _FRAME = struct.pack(">BHBBIII", 0, 8, 7, 0, 0, (1 << 31) - 1, 0)

    def __init__(self, connection: BufferedH2Connection, latest: float) -> None:
        self._connection, self._latest, self._is_told = connection, latest, False
        self._send = connection.data_to_send

    def data_to_send(self, amount: int | None = None) -> bytes:
        """In the place of the method of ``h2.connection.H2Connection``."""
        octets: bytes = self._send(amount)
        if octets and not self._is_told and (not self._connection.open_inbound_streams or monotonic() >= self._latest):
            self._is_told = True
            octets += self._FRAME
        return octets


def layers_of(top: Any) -> list[Any]:
    """A layer, and all within it: it has them as attributes, in mappings, or only as who handles its events."""
    layers = [top]
    for outer in layers:
        for value in vars(outer).values():
            for part in value.values() if isinstance(value, dict) else (value,):
                within = getattr(part, "__self__", part)
                if isinstance(within, layer.Layer) and within not in layers:
                    layers.append(within)
    return layers


def is_gone(client: connection.Client) -> bool:
    """Whether a client's connection is over. A client that has ended its own side may read on."""
    return client.state is connection.ConnectionState.CLOSED


def servers_of(client: connection.Client) -> list[connection.Server]:
    """The servers that mitmproxy has a connection to for a client."""
    transports = getattr(handler_of(client), "transports", {})
    return [end for end in transports if isinstance(end, connection.Server)]


def end_server(client: connection.Client, server: connection.Server) -> None:
    """End a connection to a server: what is open on it fails, nothing more is sent, the next request has another."""
    handler = handler_of(client)
    handler.close_connection(server)
    handler.transports[server].writer.close()


def end_connection(client: connection.Client) -> None:
    """End a client's connection as mitmproxy does one on which nothing happens.

    A datagram that comes later would begin a connection of which no name is known. So the client's end of UDP stays,
    without a server, until nothing has come for a while.
    """
    handler = handler_of(client)
    if handler is None:
        return
    if client.transport_protocol != "udp":
        io = handler.transports.get(client)
        if io is not None and io.handler is None:  # mitmproxy still waits for what a hook finds out about the client
            io.writer.close()
        else:
            handler.close_connection(client)
        return
    put_on(handler, "layer", _Silent(handler.layer.context))
    for other in set(handler.transports) - {client}:
        handler.close_connection(other)
