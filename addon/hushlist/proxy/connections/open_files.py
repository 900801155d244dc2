"""Keeps files free: when connections take nearly all that the process may open, the client with the most loses some.

mitmproxy keeps a connection for ten minutes in which nothing happens. Without a free file nobody else can connect, and
neither list nor log can be opened. So one client could stop the proxy for all. Datagrams come to one socket, but what
each port of a client asks goes on by another: a question for a second or two, all else for 20 seconds at least. A
connection through WireGuard has no file, but counts as one: each takes some 33 kB, and nothing else would bound how
many there are.
"""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from typing import Any

from mitmproxy import connection

from hushlist.core.errors import logger_of
from hushlist.core.policy.groups import network_text
from hushlist.core.system.platform import most_open_files
from hushlist.proxy.connections.client_connections import all_connections, end_connection, file_of, transport_of

logger = logger_of(__name__)

#: files that may be open, though the system may allow a million: connections take memory, too
_MOST = 1 << 14
#: of the files that may be open, the part that stays free: asyncio accepts 100 connections at once, and again before
#: the first of them is known here
_FREE = 1 / 3
#: of a client's connections, the part that ends at once: to find the client, all are looked at
_PART = 1 / 3


class OpenFiles:
    """Makes room when files run out. Only the event loop uses it."""

    def __init__(self) -> None:
        #: whether files are about to be closed
        self._is_closing = False

    def connected(self, client: connection.Client, end: connection.Connection) -> None:
        """Look at a new connection of a client, or one to a server for it."""
        if not self._is_closing and _is_full(client, end):
            self._make_room()

    def _make_room(self) -> None:
        by_client: defaultdict[str, list[Any]] = defaultdict(list)
        for handler in all_connections():
            if handler.client.connected and _files_of(handler):
                by_client[network_text(handler.client.peername[0])].append(handler)
        most = max(by_client.values(), key=lambda handlers: sum(map(_files_of, handlers)))
        most.sort(key=lambda handler: handler.timeout_watchdog.last_activity)
        ended = [handler.client for handler in most[: 1 + int(_PART * len(most))]]
        for client in ended:
            transport = transport_of(client)
            end_connection(client)
            if transport is not None:
                transport.abort()  # which closes the file before anybody else connects
        self._is_closing = True
        asyncio.get_running_loop().call_soon(self._closed)
        logger.warning(
            "hushlist: nearly as many files are open as may be: ended %d of %d connections of %s",
            *(len(ended), len(most), ended[0].peername[0]),
        )

    def _closed(self) -> None:
        self._is_closing = False


def _is_full(client: connection.Client, end: connection.Connection) -> bool:
    """Whether few files are free: the newest has the lowest number of all free ones. Those of datagrams and of tunnels
    tell none, and are counted."""
    bound, number = most_files() * (1 - _FREE), file_of(client, end)
    if number is None:
        every = all_connections()
        return 0 < bound < len(every) and sum(map(_files_of, every)) > bound
    return number > bound > 0 and _next_file(number) > bound


def _files_of(handler: Any) -> int:
    """How many files a client's connection and those to servers for it have."""
    client: connection.Client = handler.client
    return len(handler.transports) - (client.transport_protocol == "udp")  # whose datagrams all come to one socket


def most_files() -> int:
    """How many files may be open; 0: that is not known."""
    return min(most_open_files(), _MOST)


def _next_file(number: int) -> int:
    """The number that the next file would have."""
    try:
        copy = os.dup(number)
    except OSError:
        return number
    os.close(copy)
    return copy
