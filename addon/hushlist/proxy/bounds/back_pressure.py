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
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import suppress
from itertools import groupby
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from aioquic.quic.connection import QuicConnection
from aioquic.quic.stream import QuicStream
from h2.config import H2Configuration
from h2.events import DataReceived, StreamEnded, StreamReset
from h2.events import Event as H2Event
from h2.exceptions import ProtocolError
from mitmproxy.connection import Client, Connection
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http import HttpLayer, HttpStream
from mitmproxy.proxy.layers.http._base import HttpConnection
from mitmproxy.proxy.layers.http._http2 import Http2Client, Http2Connection, Http2Server
from mitmproxy.proxy.layers.http._http3 import Http3Client, Http3Connection, Http3Server
from mitmproxy.proxy.layers.http._http_h2 import BufferedH2Connection, SendH2Data
from mitmproxy.proxy.layers.quic import ClientQuicLayer, QuicStreamEvent, ServerQuicLayer
from mitmproxy.proxy.server import ConnectionHandler

from hushlist.proxy.connections.client_connections import handler_of

#: octets that wait in a course, from which on nothing more is read for it, until there are few
MUCH, FEW = 1 << 18, 1 << 17
#: octets that wait for the peer who is read
MOST_OWN = 1 << 20
#: seconds after which a client that has left is looked for, and then looked for again, while nobody reads its upload
LEFT_PATIENCE = 10.0
#: octets that the peer may send of a stream of HTTP/2 or HTTP/3 before they are read: a client, and an origin, which
#: may be far away
CLIENT_WINDOW, ORIGIN_WINDOW = 1 << 23, 1 << 22
#: octets that a peer over HTTP/3 may send of all streams together; where nobody takes so many, all of them wait
QUIC_WINDOW = 3 << 24
#: octets that have been read before the peer gets leave to replace them: early, since curl waits long where it has none
SHARE = 1 << 17
#: streams of which that is noted before those are forgotten that are over
MOST_NOTED = 1 << 9


_Steps = Generator[Any, Any, Any]

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
            quic = _quic_of(end)
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
    return isinstance(end, Http2Connection) or (isinstance(end, Http3Connection) and _quic_of(end) is not None)


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


def _quic_of(end: Http3Connection) -> Any:
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
    stream = _quic_of(end)._streams.get(_number(end, number))
    return 0 if stream is None else len(stream.sender._buffer)


def _stalled_of(end: Any) -> set[Course]:
    stalled: set[Course] = (end.h2_conn if isinstance(end, Http2Connection) else _quic_of(end)).stalled
    return stalled


# -- HTTP/2 ------------------------------------------------------------------------------------------------------------


class _Counted(deque[SendH2Data]):
    """What waits in a stream of HTTP/2, and how many octets that is."""

    octets = 0

    def append(self, part: SendH2Data) -> None:
        self.octets += len(part.data)
        super().append(part)

    def appendleft(self, part: SendH2Data) -> None:
        self.octets += len(part.data)
        super().appendleft(part)

    def popleft(self) -> SendH2Data:
        part = super().popleft()
        self.octets -= len(part.data)
        return part


class FlowingH2(BufferedH2Connection):
    """HTTP/2 whose peer has leave to send a bound of each stream, and no more while much waits in the stream's course.

    A connection as a whole has leave for any number of octets, so none of its streams holds another.
    """

    def __init__(self, config: H2Configuration) -> None:
        super().__init__(config)
        self.stream_buffers = defaultdict(_Counted)
        self.local_settings.initial_window_size = ORIGIN_WINDOW if config.client_side else CLIENT_WINDOW
        self.local_settings.acknowledge()
        #: the courses that streams are read for, and those that wait for room
        self.courses: WeakValueDictionary[int, Course] = WeakValueDictionary()
        self.stalled: set[Course] = set()
        #: octets of streams that have come, and that the peer has no leave to replace
        self.withheld: dict[int, int] = {}
        #: octets that have been read, and of which the peer is not told yet: in all, and by stream
        self._read = 0
        self._read_of: dict[int, int] = {}

    def acknowledge_received_data(self, acknowledged_size: int, stream_id: int) -> None:
        """Give leave to replace what has come of a stream, now or when there is room."""
        course = self.courses.get(stream_id)
        if course is not None and acknowledged_size and not course.has_room:
            self.withheld[stream_id] = self.withheld.get(stream_id, 0) + acknowledged_size
        else:
            self._give_leave(acknowledged_size, stream_id)

    def release(self, number: int) -> None:
        """Give leave to replace what has come of a stream, since there is room."""
        self._give_leave(self.withheld.pop(number, 0), number)

    def _give_leave(self, octets: int, number: int) -> None:
        self._read += octets
        octets += self._read_of.pop(number, 0)
        with suppress(ProtocolError):  # it is over
            if self._read >= SHARE:
                self.increment_flow_control_window(self._read)
                self._read = 0
            if number not in self.streams:
                return
            if octets >= SHARE:
                self.increment_flow_control_window(octets, number)
            else:
                self._read_of[number] = octets
                if len(self._read_of) > MOST_NOTED:
                    self._read_of = {
                        stream_id: read for stream_id, read in self._read_of.items() if stream_id in self.streams
                    }

    def receive_data(self, data: bytes) -> list[H2Event]:
        """Read what has come, what comes in a row of a stream at once; the peer may take more."""
        received = _in_one(super().receive_data(data))
        for event in received:
            if isinstance(event, StreamEnded | StreamReset):
                self._read_of.pop(event.stream_id, None)
        for course in list(self.stalled):
            course.look()
        return received


def _in_one(received: list[H2Event]) -> list[H2Event]:
    """Events of HTTP/2, with one for the data that follow each other: the rest of the way is as long for each."""
    joined: list[H2Event] = []
    for row_number, row in groupby(
        received, lambda event: event.stream_id if isinstance(event, DataReceived) else None
    ):
        events_of_row = list(row)
        if row_number is not None and len(events_of_row) > 1:
            first, last = events_of_row[0], events_of_row[-1]
            first.data = b"".join(event.data for event in events_of_row)
            first.flow_controlled_length = sum(event.flow_controlled_length for event in events_of_row)
            first.stream_ended = last.stream_ended
            joined.append(first)
        else:
            joined += events_of_row
    return joined


class WhenRoom(commands.RequestWakeup):
    """Wakes a connection when there is room in the course of one of its streams."""

    def __init__(self, course: Course, number: int) -> None:
        super().__init__(0.0)
        self.course, self.number = course, number


async def _wake_when_room(
    wake: Callable[..., Awaitable[None]], handler: ConnectionHandler, request: commands.RequestWakeup
) -> None:
    """Wake what waits for room."""
    if isinstance(request, WhenRoom):
        await request.course.until_room()
    await wake(handler, request)


def _withhold(handle: Callable[..., _Steps], connection: Any, event: Any) -> _Steps:
    """Handle an event of HTTP/2: wait for room where what has come of a stream is withheld, then give leave."""
    if isinstance(event, events.DataReceived):
        return _read_and_wait(handle(connection, event), connection.h2_conn)
    if isinstance(event, events.Wakeup) and isinstance(event.command, WhenRoom):
        return _give_leave(connection, event.command.number)
    return handle(connection, event)


def _read_and_wait(steps: _Steps, connection: FlowingH2) -> _Steps:
    before = len(connection.withheld)
    yield from steps
    for number in list(connection.withheld)[before:]:
        if (course := connection.courses.get(number)) is not None:
            yield WhenRoom(course, number)


def _give_leave(connection: Any, number: int) -> _Steps:
    connection.h2_conn.release(number)
    if octets := connection.h2_conn.data_to_send():
        yield commands.SendData(connection.conn, octets)


def _note_multiplexed(begin: Callable[..., None], connection: Any, context: Context, conn: Connection) -> None:
    """Begin a connection of several streams, and note it, so that each stream can be held back alone."""
    begin(connection, context, conn)
    if isinstance(conn, Client):
        _multiplexed.add(conn)


# -- HTTP/3 ------------------------------------------------------------------------------------------------------------


class FlowingQuic(QuicConnection):
    """QUIC whose peer has leave to send a bound of each stream, and no more while much waits in the stream's course.

    aioquic doubles what a peer may send whenever half of it has come, whether or not anybody has read it.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        #: as those of ``FlowingH2``
        self.courses: WeakValueDictionary[int, Course] = WeakValueDictionary()
        self.stalled: set[Course] = set()
        #: streams that wait for room, and how many octets of each had come when they began to
        self.stopped: dict[int, int] = {}

    def stop(self, number: int) -> None:
        """Give no more leave to send of a stream."""
        self.stopped[number] = self._come(number)

    def _come(self, number: int) -> int:
        stream = self._streams.get(number)
        return 0 if stream is None else stream.receiver.highest_offset

    def _write_stream_limits(self, builder: Any, space: Any, stream: QuicStream) -> None:
        limit, come = stream.max_stream_data_local, stream.receiver.highest_offset
        if limit and limit - come < CLIENT_WINDOW // 2 and stream.stream_id not in self.stopped:
            limit = (come + CLIENT_WINDOW) // 2 * 2
        stream.max_stream_data_local = _undoubled(limit, come)
        super()._write_stream_limits(builder, space, stream)

    def _write_connection_limits(self, *arguments: Any, **named: Any) -> None:
        limit = self._local_max_data
        withheld = sum(max(self._come(number) - before, 0) for number, before in self.stopped.items())
        wanted = (limit.used + QUIC_WINDOW - withheld) // 2 * 2
        if wanted - limit.value >= QUIC_WINDOW // 2:
            limit.value = wanted
        limit.value = _undoubled(limit.value, limit.used)
        super()._write_connection_limits(*arguments, **named)

    def receive_datagram(self, *arguments: Any, **named: Any) -> None:
        """Read what has come; the peer may take more."""
        super().receive_datagram(*arguments, **named)
        for course in list(self.stalled):
            course.look()


def _undoubled(limit: int, come: int) -> int:
    """What to set for a limit: of less than twice of what has come, aioquic makes the double."""
    return limit // 2 if 4 * come > limit else limit


def _stop_stream(handle: Callable[..., _Steps], connection: Any, event: Any) -> _Steps:
    """Read an event of HTTP/3; wait for room if much waits in the stream's course."""
    quic = _quic_of(connection)
    if isinstance(event, events.Wakeup) and isinstance(event.command, WhenRoom):
        quic.stopped.pop(event.command.number, None)  # mitmproxy then sends whatever QUIC has to say
        return
    yield from handle(connection, event)
    if quic is not None and isinstance(event, QuicStreamEvent):
        course = quic.courses.get(event.stream_id)
        if course is not None and event.stream_id not in quic.stopped and not course.has_room:
            quic.stop(event.stream_id)
            yield WhenRoom(course, event.stream_id)


# -- what is read ------------------------------------------------------------------------------------------------------


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
    course = _course_of.get(source.id)
    if not waits and (course is None or course.has_room):
        return _NOTHING
    waiting = _until_read(handler, source, course)
    return _while_there(handler, waiting) if source is handler.client else waiting


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
    (_wake_when_room, ("wakeup",), (ConnectionHandler,)),
    (_note_multiplexed, ("__init__",), (Http2Connection, Http3Connection)),
    (_withhold, ("_handle_event",), (Http2Server, Http2Client)),
    (_stop_stream, ("_handle_event",), (Http3Server, Http3Client)),
)
