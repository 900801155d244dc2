"""A client's connection as mitmproxy's proxy server has it: when something happened on it, and its end."""

from __future__ import annotations

from asyncio import StreamWriter, WriteTransport
from typing import Any

from mitmproxy import connection, ctx
from mitmproxy.proxy import events, layer


class _Silent(layer.Layer):
    """Drops whatever comes."""

    def _handle_event(self, _: events.Event) -> layer.CommandGenerator[None]:
        yield from ()


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


def transport_of(client: connection.Client) -> WriteTransport | None:
    """What writes to a client over TCP, while its connection is open."""
    io = getattr(handler_of(client), "transports", {}).get(client)
    return io.writer.transport if io is not None and isinstance(io.writer, StreamWriter) else None


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
    handler.layer = _Silent(handler.layer.context)
    for other in set(handler.transports) - {client}:
        handler.close_connection(other)
