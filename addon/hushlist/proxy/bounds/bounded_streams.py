"""Bounds of what mitmproxy_rs has of clients: how long a port gets no answer, how many are remembered, and an end that
is told.

mitmproxy makes a connection of the datagrams from a client's port, and closes it after 20 seconds of silence.
mitmproxy_rs remembers the closed connection for a minute after the last datagram, and drops all that comes in it: so
whoever asks from that port again, as every tenth look-up of a busy household does, is heard by nobody, and each further
try begins the minute anew. Here, the stream of a port is never closed. One connection after another is made of it.

By TCP in a tunnel, mitmproxy_rs hands on a connection before the client has confirmed it. One that is closed until then
is over for the proxy, and its client is told nothing, whatever it sends. So it is closed a moment later.
"""

from __future__ import annotations

import asyncio
from asyncio import StreamWriter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import Any, Protocol

from mitmproxy import ctx
from mitmproxy.proxy import mode_servers
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.dns import DNSLayer
from mitmproxy.proxy.mode_servers import ProxyConnectionHandler
from mitmproxy.proxy.mode_specs import ProxyMode

#: ports that send nothing now, and whose next datagram begins a connection
MOST_PORTS = 1 << 14
#: seconds for which nothing is looked at when a connection was refused, or has ended with data on their way; twice as
#: long each time, since whoever goes on to send would be decided, and logged, with each datagram
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0
#: seconds for a client in a tunnel to confirm its connection; no longer than that is an end kept back
_CONFIRMATION = 1.0
#: octets that are read at once; mitmproxy_rs reads one datagram, whatever is said
_READ = 65535
#: seconds for all ports to be closed, as the program ends
_LONGEST_CLOSING = 1.0


class Stream(Protocol):
    """What mitmproxy_rs has of a port."""

    def read(self, n: int) -> Awaitable[bytes]: ...
    def write(self, data: bytes) -> object: ...
    def drain(self) -> Awaitable[None]: ...
    def close(self) -> object: ...
    def get_extra_info(self, name: str, default: Any = None) -> Any: ...


class Port:
    """What comes from one port of a client to one address; over when nothing came for a minute.

    A datagram is never lost to whoever stops to wait for it: mitmproxy_rs hands each to the first who has asked.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._coming: asyncio.Future[bytes] | None = None
        #: when the last datagram came
        self._last = monotonic()
        self._pause = FIRST_PAUSE

    async def read(self) -> bytes:
        """The next datagram; none if the port is over."""
        if self._coming is None:
            self._coming = asyncio.ensure_future(self.stream.read(_READ))
        data = await asyncio.shield(self._coming)
        if data:
            self._coming, self._last = None, monotonic()
        return data

    async def next(self) -> bytes:
        """The datagram that begins the next connection; meanwhile, the port counts as silent."""
        _SILENT[self] = None
        if len(_SILENT) > MOST_PORTS:
            next(iter(_SILENT)).end()
        try:
            return await self.read()
        finally:
            del _SILENT[self]

    def close(self) -> None:
        """Hear nothing more; mitmproxy_rs does so for a minute."""
        _PORTS.pop(self, None)
        self.end()

    def end(self) -> None:
        """Have whoever reads from it hear that it is over."""
        _ended(self.stream.close)

    async def pause(self) -> None:
        """Drop what comes for a while, unless nothing has come for as long."""
        end = self._last + self._pause
        if end <= monotonic():
            self._pause = FIRST_PAUSE
            return
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        try:
            async with asyncio.timeout(end - monotonic()):
                while await self.read():
                    pass
        except TimeoutError:
            pass


#: all ports, with who serves them on; and those that are silent, the one that is silent for longest first
_PORTS: dict[Port, asyncio.Task[None] | None] = {}
_SILENT: dict[Port, None] = {}


def close_ports() -> Awaitable[None] | None:
    """Close all, and wait for it, as the program ends: Python crashes if mitmproxy_rs tells it of anything behind its
    last moment."""
    for port in list(_PORTS):
        port.end()
    return _until_closed() if _PORTS else None


async def _until_closed() -> None:
    end = monotonic() + _LONGEST_CLOSING
    while _PORTS and monotonic() < end:
        await asyncio.sleep(_LONGEST_CLOSING / 20)
    await asyncio.sleep(_LONGEST_CLOSING / 20)  # what was to be told of the last is told


class Turn:
    """A connection of a port, from its first datagram on, in the place of mitmproxy_rs's stream."""

    #: of the layers that serve it
    context: Context | None = None

    def __init__(self, port: Port, first: bytes = b"") -> None:
        self._port, self._first = port, first
        self._is_closed = False

    async def read(self, _: int) -> bytes:
        if self._first:
            data, self._first = self._first, b""
            return data
        return b"" if self._is_closed else await self._port.read()

    def write(self, data: bytes) -> None:
        if self._is_closed:
            raise OSError("connection closed")
        self._port.stream.write(data)

    async def drain(self) -> None:
        await self._port.stream.drain()

    def write_eof(self) -> None:
        """Nothing: datagrams have no end."""

    def close(self) -> None:
        self._is_closed = True

    def is_closing(self) -> bool:
        return self._is_closed

    async def wait_closed(self) -> None:
        """Nothing: it is closed at once."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._port.stream.get_extra_info(name, default)

    @property
    def is_of_questions(self) -> bool:
        """Whether each datagram stands for itself, and has an answer of its own."""
        return self.context is not None and any(isinstance(layer, DNSLayer) for layer in self.context.layers)


class TunnelledStream:
    """A client's connection by TCP in a tunnel, in the place of mitmproxy_rs's stream.

    Its end waits until the client has confirmed the connection, by data or by time.
    """

    def __init__(self, stream: Any) -> None:
        self._stream, self._begun = stream, monotonic()
        self._is_confirmed = self._is_closed = False

    def read(self, number: int) -> Awaitable[bytes]:
        coming: Awaitable[bytes] = self._stream.read(number)
        return coming if self._is_confirmed else self._first(coming)

    async def _first(self, coming: Awaitable[bytes]) -> bytes:
        data = await coming
        self._is_confirmed = True
        return data

    def write(self, data: bytes) -> None:
        if self._is_closed:
            raise OSError("connection closed")
        self._stream.write(data)

    def drain(self) -> Awaitable[None]:
        waiting: Awaitable[None] = self._stream.drain()
        return waiting

    def write_eof(self) -> None:
        self._when_confirmed(self._stream.write_eof)

    def close(self) -> None:
        self._is_closed = True
        self._when_confirmed(self._stream.close)

    def is_closing(self) -> bool:
        return self._is_closed or bool(self._stream.is_closing())

    async def wait_closed(self) -> None:
        """Nothing, as there."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._stream.get_extra_info(name, default)

    def _when_confirmed(self, end: Callable[[], object]) -> None:
        missing = self._begun + _CONFIRMATION - monotonic()
        if self._is_confirmed or missing <= 0:
            end()
        else:
            asyncio.get_running_loop().call_later(missing, _ended, end)


def _ended(end: Callable[[], object]) -> None:
    with suppress(OSError):  # the tunnel, or the server, has ended
        end()


class PortHandler(ProxyConnectionHandler):
    """Serves a connection; one of datagrams has others behind it, for as long as mitmproxy_rs has the port.

    mitmproxy looks for this class with each connection. Servers that were there before the filter know all else.
    """

    def __init__(self, master: Any, reader: Any, writer: Any, options: Any, mode: ProxyMode) -> None:
        self._port: Port | None = None
        if not isinstance(writer, StreamWriter | Turn):
            if writer.get_extra_info("transport_protocol", "tcp") == "udp":
                self._port = Port(writer)
                reader = writer = Turn(self._port)
            else:
                reader = writer = TunnelledStream(writer)
        super().__init__(master, reader, writer, options, mode)
        if isinstance(writer, Turn):
            writer.context, self._turn = self.layer.context, writer

    async def handle_client(self) -> None:
        """Serve it to its end."""
        if self._port is None:
            # only the end of the event loop cancels it, and asyncio prints a traceback then, before Python 3.12
            with suppress(asyncio.CancelledError):
                await super().handle_client()
            return
        port = self._port
        _PORTS[port] = None
        try:
            await super().handle_client()
        except BaseException:
            port.close()
            raise
        _PORTS[port] = asyncio.create_task(_serve_on(port, self._turn, self.client.proxy_mode))


async def _serve_on(port: Port, turn: Turn, mode: ProxyMode) -> None:
    """Serve what comes from a port behind its first connection."""
    try:
        while True:
            if not turn.is_of_questions:
                await port.pause()
            first = await port.next()
            servers = ctx.master.addons.get("proxyserver").servers
            if not first or mode not in [server.mode for server in servers]:
                return
            turn = Turn(port, first)
            await servers[mode].handle_stream(turn, turn)
    finally:
        port.close()


#: as in ``bounded_http``
REPLACED = ((mode_servers, "ProxyConnectionHandler", PortHandler),)
