"""Nothing more is read of who sends a body than who reads it takes.

mitmproxy waits, behind whatever it has read, until all that it has written for a client is sent: one slow reader holds
all of the client's requests. What it has for a stream of HTTP/2 or HTTP/3 whose reader gives no leave to send, it keeps
without a bound; so it does with what waits in a request that waits for its addons, or for its origin.

Here each body has its course, from the connection that it comes by to the one that it goes on by. While much waits in
it, an HTTP/1 connection is not read, and a stream of HTTP/2 or HTTP/3 gets no leave to send more: the others of its
connection go on.

Spec: RFC 9113, 5.2; RFC 9000, 4.1 (flow control)
"""

from __future__ import annotations

import asyncio
import select
import sys
from asyncio import StreamWriter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from mitmproxy.connection import Client, Connection
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.events import DataReceived
from mitmproxy.proxy.layers.http import HttpLayer, HttpStream
from mitmproxy.proxy.layers.http._base import HttpConnection
from mitmproxy.proxy.layers.http._http2 import Http2Client, Http2Connection
from mitmproxy.proxy.layers.http._http3 import Http3Client, Http3Connection
from mitmproxy.proxy.layers.quic import ClientQuicLayer, ServerQuicLayer
from mitmproxy.proxy.server import ConnectionHandler

from hushlist.proxy.connections.client_connections import handler_of, layers_of
from hushlist.proxy.immediate_hooks import OF_AN_EVENT

#: octets that wait in a course, from which on nothing more is read for it, until there are few
MUCH, FEW = 1 << 18, 1 << 17
#: octets of memory of what waits for hooks of its connection, and seconds between two looks at what still does
MOST_HELD, HELD_LOOK = 1 << 20, 0.05
#: octets that wait for the peer who is read
MOST_OWN = 1 << 20
#: seconds after which a client that has left is looked for, and then looked for again, while nobody reads its upload
LEFT_PATIENCE = 10.0
#: the course that an HTTP/1 connection is read for, by the connection's ``id``
_course_of: WeakValueDictionary[str, Course] = WeakValueDictionary()
#: clients with several requests at once
_multiplexed: WeakSet[Connection] = WeakSet()


class Course:
    """The way of one body: of a request, or of its answer. It is made at the first octets."""

    def __init__(self, stream: HttpStream, *, is_answer: bool) -> None:
        self._stream, self._is_answer = stream, is_answer
        #: octets that wait in the stream itself
        self.queued = 0
        #: what has to wait for room asks for it by this
        self._room: asyncio.Future[None] | None = None
        self._ends: list[tuple[Any, int]] | None = None
        self._handler: Any = None
        #: what writes to who reads it
        self._reader: Connection | None = None
        self._note_source()

    def _note_source(self) -> None:
        stream, client = self._stream, self._stream.context.client
        end, by = _end_of(stream, stream.flow.server_conn if self._is_answer else client)
        if isinstance(end, Http2Connection):
            connection: Any = end.h2_conn
            connection.courses[_number(end, stream.stream_id)] = self
        elif isinstance(end, Http3Connection):
            quic = quic_of(end)
            if quic is not None:
                quic.courses[_number(end, stream.stream_id)] = self
        else:
            _course_of[by.id] = self

    def waiting(self) -> int:
        """How many octets wait."""
        if self._ends is None:
            self._find_ends()
        octets = self.queued
        for end, number in self._ends or ():
            octets += _waiting_in(end, number)
        writer = self._writer
        return octets if writer is None else octets + _size_of(writer)

    @property
    def has_room(self) -> bool:
        """Whether more may be read for it."""
        return self.waiting() <= (MUCH if self._room is None else FEW)

    async def until_room(self) -> None:
        """Wait until more may be read for it."""
        while self.waiting() > FEW:
            writer = self._writer
            if writer is not None and _size_of(writer) > FEW // 2:
                with suppress(ConnectionError):
                    await writer.drain()
                if writer.is_closing():
                    return
                continue
            if self._room is None:
                self._room = asyncio.get_running_loop().create_future()
            for end, _ in self._ends or ():
                _stalled_of(end).add(self)
            try:
                await asyncio.shield(self._room)
            finally:
                for end, _ in self._ends or ():
                    _stalled_of(end).discard(self)

    def look(self) -> None:
        """Let go on who waits, if there is room again."""
        if self._room is not None and self.waiting() <= FEW:
            self._look_again()

    def go_on(self) -> None:
        """Note that nothing waits in the stream itself any longer."""
        self.queued = 0
        self._look_again()

    def end(self) -> None:
        """Let go on who waits: the body is over."""
        self._ends, self._handler = [], None
        self.go_on()

    def _look_again(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    @property
    def _writer(self) -> Any:
        io = None if self._handler is None else self._handler.transports.get(self._reader)
        return io.writer if io is not None and isinstance(io.writer, StreamWriter) else None

    def _find_ends(self) -> None:
        """Find out by what it goes on; of a request, that is known when its origin is connected to."""
        stream, client = self._stream, self._stream.context.client
        if self._is_answer:
            self._ends = [(end, number) for end, number in _ends_of_client(stream.context) if _can_wait(end)]
            self._reader = client
        elif stream.child_layer is not None:
            servers = [server for server, by in _layer_of(stream).connections.items() if by is stream]
            if not servers:
                return
            self._ends, self._reader = [], servers[-1]
        else:
            server = stream.flow.server_conn
            if not server.connected or server not in _layer_of(stream).connections:
                return
            end, self._reader = _end_of(stream, server)
            self._ends = [(end, stream.stream_id)] if _can_wait(end) else []
        self._handler = handler_of(client)


def _size_of(writer: Any) -> int:
    """How many octets wait to be sent."""
    return int(writer.transport.get_write_buffer_size()) if isinstance(writer, StreamWriter) else 0


def _takes_more(writer: Any) -> bool:
    """Whether nothing waits to be sent, as for most that read."""
    return isinstance(writer, StreamWriter) and not writer.transport.get_write_buffer_size() and not writer.is_closing()


def _can_wait(end: Any) -> bool:
    return isinstance(end, Http2Connection) or (isinstance(end, Http3Connection) and quic_of(end) is not None)


def _layer_of(stream: HttpStream) -> HttpLayer:
    layers = stream.context.layers
    layer = layers[layers.index(stream) - 1]
    assert isinstance(layer, HttpLayer)
    return layer


def _end_of(stream: HttpStream, connection: Connection) -> tuple[Any, Connection]:
    """What reads and writes a connection of a request, and the connection that carries it: a proxy's, maybe."""
    top: Any = _layer_of(stream).connections.get(connection)
    by = getattr(top, "tunnel_connection", connection)
    while top is not None and not isinstance(top, HttpConnection):
        top = getattr(top, "child_layer", None)
    return top, by


def carries_tunnel(stream: HttpStream) -> bool:
    """Whether a tunnel comes by a stream of HTTP/2 or HTTP/3, beside others; mitmproxy lets nothing come back by it."""
    end = _layer_of(stream).connections.get(stream.context.client)
    return stream.child_layer is not None and isinstance(end, HttpConnection) and _can_wait(end)


def _ends_of_client(context: Context) -> Iterator[tuple[Any, int]]:
    """What writes to a client for a request, and for the tunnels that the request comes by: with their numbers."""
    layers = context.layers
    for place, layer in enumerate(layers):
        if isinstance(layer, HttpStream):
            outer = layers[place - 1]
            assert isinstance(outer, HttpLayer)
            yield outer.connections.get(context.client), layer.stream_id


def _number(end: Any, number: int) -> int:
    """A stream's number on a connection to an origin, which has numbers of its own."""
    return int(end.our_stream_id.get(number, -1)) if isinstance(end, Http2Client | Http3Client) else number


def quic_of(end: Http3Connection) -> Any:
    layers = [
        layer
        for layer in end.context.layers
        if isinstance(layer, ClientQuicLayer | ServerQuicLayer) and layer.conn is end.conn
    ]
    return layers[-1].quic if layers else None


def _waiting_in(end: Any, number: int) -> int:
    if isinstance(end, Http2Connection):
        if isinstance(end, Http2Client) and number in end.stream_queue:
            return MUCH + 1  # the origin has as many requests as it takes
        waiting: Any = end.h2_conn.stream_buffers.get(_number(end, number))
        return 0 if waiting is None else int(waiting.octets)
    stream = quic_of(end)._streams.get(_number(end, number))
    return 0 if stream is None else len(stream.sender._buffer)


def _stalled_of(end: Any) -> set[Course]:
    stalled: set[Course] = (end.h2_conn if isinstance(end, Http2Connection) else quic_of(end)).stalled
    return stalled


# -- what is read ------------------------------------------------------------------------------------------------------


def _note_multiplexed(begin: Callable[..., None], connection: Any, context: Context, conn: Connection) -> None:
    """Begin a connection of several streams, and note it, so that each stream can be held back alone."""
    begin(connection, context, conn)
    if isinstance(conn, Client):
        _multiplexed.add(conn)


class _Nothing:
    """What waits for nothing."""

    def __await__(self) -> Iterator[Any]:
        return iter(())


_NOTHING = _Nothing()


def _drain_readers(_: Callable[..., Awaitable[None]], handler: ConnectionHandler) -> Any:
    """Wait, behind what was read of a connection, until those have read it who get it; mostly nothing waits."""
    task, source, waits = asyncio.current_task(), None, False
    for connection, io in handler.transports.items():
        if io.handler is task:
            source = connection
        waits = waits or not (io.writer is None or _takes_more(io.writer))
    if source is None:
        return _NOTHING
    if getattr(handler.layer, "octets", 0) > MOST_HELD and source.transport_protocol == "tcp":
        return _while_there(handler, _until_handled(handler))
    course = _course_of.get(source.id)
    if not waits and (course is None or course.has_room):
        return _NOTHING
    waiting = _until_read(handler, source, course)
    return _while_there(handler, waiting) if source is handler.client else waiting


async def _until_handled(handler: Any) -> None:
    """Wait until few octets wait for hooks: mitmproxy reads on while a layer waits for one, and keeps what comes."""
    while _held_by(handler) > MOST_HELD:
        await asyncio.sleep(HELD_LOOK)
    handler.layer.octets = 0  # others of the connection have taken them


def _held_by(handler: Any) -> int:
    """Octets of memory of what waits in the layers of a connection."""
    held = 0
    for layer in layers_of(handler.layer):
        waiting = (*getattr(layer, "_paused_event_queue", ()), *(getattr(layer, "events", None) or ()))
        held += sum(len(event.data) + OF_AN_EVENT for event in waiting if isinstance(event, DataReceived))
    return held


async def _while_there(handler: ConnectionHandler, waiting: Awaitable[None]) -> None:
    """Wait until a client is read, unless it has left."""
    leaving = _Leaving(handler)
    try:
        await waiting
    finally:
        leaving.close()


class _Leaving:
    """Ends the connections of a client that has left while nobody reads its upload: of whom is not read, nobody else
    hears that."""

    def __init__(self, handler: ConnectionHandler) -> None:
        self._handler, self._loop = handler, asyncio.get_running_loop()
        self._timer = self._loop.call_later(LEFT_PATIENCE, self._look, False)

    def close(self) -> None:
        self._timer.cancel()

    def _look(self, had_left: bool) -> None:
        transports, client = self._handler.transports, self._handler.client
        has_left = _has_ended(transports.get(client))
        if not (has_left and had_left):
            self._timer = self._loop.call_later(LEFT_PATIENCE, self._look, has_left)
            return
        for connection, io in transports.items():
            if connection is not client and isinstance(io.writer, StreamWriter):
                io.writer.transport.abort()  # it would not end before all is sent
        self._handler.close_connection(client)


def _has_ended(io: Any) -> bool:
    """Whether the peer of a connection has ended its side, though not all is read that it has sent."""
    if sys.platform == "linux" and io is not None and isinstance(io.writer, StreamWriter):
        socket = io.writer.get_extra_info("socket")
        if socket is not None and socket.fileno() >= 0:
            looking = select.poll()
            looking.register(socket.fileno(), select.POLLRDHUP)
            return bool(looking.poll(0))
    return False


async def _until_read(handler: ConnectionHandler, source: Connection, course: Course | None) -> None:
    client = handler.client
    readers: list[Connection] = []
    if client in _multiplexed:
        to_source, to_client = handler.transports[source].writer, handler.transports.get(client)
        if to_source is not None and _size_of(to_source) > MOST_OWN:
            readers = [source]  # it is sent answers to what it sends, such as PING, and reads none
        if source is not client and to_client is not None and not isinstance(to_client.writer, StreamWriter):
            readers.append(client)  # out of a tunnel: what waits for it cannot be measured
    elif source is client:
        readers = [connection for connection in handler.transports if connection is not client]
    else:
        readers = [client]
    for reader in readers:
        to_reader = handler.transports.get(reader)
        if to_reader is None or to_reader.writer is None or _takes_more(to_reader.writer):
            continue
        try:
            await to_reader.writer.drain()
        except OSError as error:
            if to_reader.handler is not None:
                to_reader.handler.cancel(f"Error sending data: {error}")
    if course is not None and not course.has_room:
        await course.until_room()


async def _close_at_end(
    handle: Callable[..., Awaitable[None]], handler: ConnectionHandler, connection: Connection
) -> None:
    """Handle a connection until it ends, and close it, also where its end comes while it waits for its turn.

    mitmproxy leaves it open then: the peer would go on sending, and nobody would read.
    """
    writer = handler.transports[connection].writer
    try:
        await handle(handler, connection)
    finally:
        if writer is not None and not writer.is_closing():
            with suppress(OSError):
                writer.close()
            handler.transports.pop(connection, None)


#: as in ``bounded_http``
WRAPPED = (
    (_close_at_end, ("handle_connection",), (ConnectionHandler,)),
    (_drain_readers, ("drain_writers",), (ConnectionHandler,)),
    (_note_multiplexed, ("__init__",), (Http2Connection, Http3Connection)),
)
