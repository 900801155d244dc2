"""Turns: a client that sends many requests at once waits for the others, and one that reads no answers for itself.

The event loop runs all that is ready before it looks at connections again. A hundred requests in one piece of HTTP/2
would all be decided, refused and answered before anybody else is read. And whoever sends thousands of them, and reads
nothing, could have the proxy keep as many pages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from time import perf_counter
from weakref import WeakKeyDictionary

from mitmproxy import connection

from hushlist.proxy.connections.client_connections import end_connection, handler_of, transport_of

#: seconds for which the requests of one connection are handled in a row
SLICE = 0.005
#: octets of the filter's own answers that wait for a client to read them, from which on none of its further requests is
#: looked at
MOST_UNREAD = 1 << 20
#: seconds after which a client that reads nothing loses its connection, as one that is quiet does by mitmproxy
UNREAD_PATIENCE = 600.0

#: octets of the filter's own answers for a client since few waited for it
_answered: WeakKeyDictionary[connection.Client, int] = WeakKeyDictionary()


def note_answer(client: connection.Client, octets: int) -> None:
    """Note that the filter itself has answered a client."""
    _answered[client] = _answered.get(client, 0) + octets


class Turns:
    """Who has had how much of this round of the event loop."""

    def __init__(self) -> None:
        #: when the first request of each client's connection began in this round, by its id
        self._begun: dict[str, float] = {}

    def wait(self, client: connection.Client) -> Awaitable[None] | None:
        """What a client's request has to wait for; mostly nothing."""
        if client in _answered and (reading := _until_read(client)) is not None:
            return reading
        return self._next_turn(client) if self._is_over(client) else None

    async def _next_turn(self, client: connection.Client) -> None:
        while self._is_over(client):
            await asyncio.sleep(0)

    def _is_over(self, client: connection.Client) -> bool:
        """Whether a client's turn is over; mostly not."""
        if not self._begun:
            try:
                asyncio.get_running_loop().call_soon(self._begun.clear)
            except RuntimeError:  # nothing runs beside it
                return False
        now = perf_counter()
        return now - self._begun.setdefault(client.id, now) > SLICE


def _until_read(client: connection.Client) -> Awaitable[None] | None:
    """What a client's request waits for until the client reads the filter's own answers; ``None``: few are unread.

    What an origin answers holds no other request: it waits for room before it is read.
    """
    transport = transport_of(client)
    if transport is None or transport.get_write_buffer_size() <= MOST_UNREAD:
        del _answered[client]
        return None
    return _drained(client) if _answered[client] > MOST_UNREAD else None


async def _drained(client: connection.Client) -> None:
    try:
        async with asyncio.timeout(UNREAD_PATIENCE):
            with suppress(ConnectionError):  # it is gone
                await handler_of(client).transports[client].writer.drain()
    except TimeoutError:
        end_connection(client)
