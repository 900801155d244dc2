"""Sockets between programs of this machine, by paths and not by ports; Windows has none."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable

#: what serves a connection
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_MISSING = "programs of Windows cannot hand each other what they listen by"


def receive_sockets(sender: socket.socket, octets: int, most: int) -> tuple[bytes, list[socket.socket]]:
    """A message of at most so many octets, and the open sockets that came with it. ``OSError``: the sender is gone."""
    if sys.platform == "win32":
        raise OSError(_MISSING)
    else:
        message, descriptors, _, _ = socket.recv_fds(sender, octets, most)
        return message, [socket.socket(fileno=descriptor) for descriptor in descriptors]


async def open_local(path: os.PathLike[str], limit: int = 1 << 16) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to a program of this machine; ``limit``: octets of a line. ``OSError`` if it does not listen."""
    if sys.platform == "win32":
        raise OSError(_MISSING)
    else:
        return await asyncio.open_unix_connection(path, limit=limit)


async def serve_local(serve: Serve, path: os.PathLike[str], limit: int) -> asyncio.Server:
    """Listen for programs of this machine; ``limit``: octets of a line. ``OSError`` if it cannot be bound."""
    if sys.platform == "win32":
        raise OSError(_MISSING)
    else:
        return await asyncio.start_unix_server(serve, path, limit=limit)
