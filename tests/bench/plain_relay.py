"""A proxy that answers CONNECT and relays octets, as plain as asyncio can: ``plain_relay.py PORT ORIGIN-PORT``."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from functools import partial

LOOPBACK = "127.0.0.1"
#: octets of a read, as mitmproxy reads them
CHUNK = 1 << 16


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry one direction until it ends."""
    with suppress(OSError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
    writer.close()


async def relay(origin: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer a CONNECT to whatever host, and relay to the origin."""
    with suppress(asyncio.IncompleteReadError):
        await reader.readuntil(b"\r\n\r\n")
        there, back = await asyncio.open_connection(LOOPBACK, origin)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(pump(reader, back), pump(there, writer))


async def serve(port: int, origin: int) -> None:
    """Listen until the process ends."""
    async with await asyncio.start_server(partial(relay, origin), LOOPBACK, port) as server:
        await server.serve_forever()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(*map(int, sys.argv[1:])))
