"""The addon in mitmproxy's own test context."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mitmproxy import connection, ctx, exceptions, http
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layer import NextLayer
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.test import taddons

from hushlist.proxy.addon import Hushlist

#: headers that keep other sites, caches and guesses about content away
GUARDS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def add_proxy_options(context: taddons.context) -> None:
    """Add the options of mitmproxy's own proxy server that the addon needs; the server is not part of the context."""
    context.options.add_option("connection_strategy", str, "eager", "")
    context.options.add_option("rawtcp", bool, True, "")
    context.options.add_option("validate_inbound_headers", bool, False, "")


def own_answer(hushlist: Hushlist, flow: http.HTTPFlow) -> http.Response:
    """What a page of the addon's own answers; the request goes no further, and no later addon sees it."""

    async def whole() -> None:
        if (awaited := hushlist.requestheaders(flow)) is not None:
            await awaited

    with pytest.raises(exceptions.AddonHalt):
        asyncio.run(whole())
    assert flow.response is not None
    return flow.response


@contextmanager
def mitmproxied(hushlist: Hushlist, policy: Path | None = None) -> Iterator[taddons.context]:
    """A context with the addon, by a policy if one is given, until the block ends."""
    with taddons.context(loadcore=False) as context:
        add_proxy_options(context)
        context.options.add_option("stream_large_bodies", str | None, None, "")
        context.master.addons.add(hushlist)
        if policy is not None:
            context.configure(hushlist, hushlist_policy=str(policy), hushlist_mode="block")
        yield context
        hushlist.done()
        context.master.event_loop.close()


def client_of(
    mode: str = "regular", port: int = 8080, sni: str | None = None, protocol: Any = "tcp"
) -> connection.Client:
    """A client of this machine, whose connection is open."""
    return connection.Client(
        peername=("127.0.0.1", 1234),
        sockname=("127.0.0.1", port),
        state=connection.ConnectionState.OPEN,
        proxy_mode=ProxyMode.parse(mode),
        transport_protocol=protocol,
        sni=sni,
    )


class ClientHandler:
    """In place of mitmproxy's handler of a client's connection."""

    def __init__(self, client: connection.Client) -> None:
        self.layer: Any = NextLayer(Context(client, None))  # type: ignore[arg-type]
        self.server = connection.Server(address=("192.0.2.1", 443))
        self.transports = {client: None, self.server: None}
        self.timeout_watchdog = SimpleNamespace(last_activity=0.0)
        self.closed: list[connection.Connection] = []

    def close_connection(self, closed: connection.Connection) -> None:
        self.closed.append(closed)


class ProxyConnections:
    """The connections of mitmproxy's own proxy server, as the addon finds them."""

    def __init__(self) -> None:
        self.handlers: dict[str, ClientHandler] = {}
        #: the addon does not keep what goes on
        self.kept: list[object] = []
        ctx.master.addons.add(SimpleNamespace(name="proxyserver", connections=self.handlers))

    def client(self, protocol: Any = "tcp") -> connection.Client:
        client = client_of(protocol=protocol)
        self.handlers[client.id] = ClientHandler(client)
        self.kept.append(client)
        return client
