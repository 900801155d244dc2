"""Leave to send, by streams of HTTP/2 and HTTP/3: none while much waits in the course of the stream's body.

Spec: RFC 9113, 5.2; RFC 9000, 4.1 (flow control)
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from itertools import groupby
from typing import Any
from weakref import WeakValueDictionary

from aioquic.quic.connection import QuicConnection
from aioquic.quic.stream import QuicStream
from h2.config import H2Configuration
from h2.events import DataReceived, StreamEnded, StreamReset
from h2.events import Event as H2Event
from h2.exceptions import ProtocolError
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.layers.http._http2 import Http2Client, Http2Server
from mitmproxy.proxy.layers.http._http3 import Http3Client, Http3Server
from mitmproxy.proxy.layers.http._http_h2 import BufferedH2Connection, SendH2Data
from mitmproxy.proxy.layers.quic import QuicStreamEvent
from mitmproxy.proxy.server import ConnectionHandler

from hushlist.proxy.bounds.back_pressure import Course, quic_of

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
    quic = quic_of(connection)
    if isinstance(event, events.Wakeup) and isinstance(event.command, WhenRoom):
        quic.stopped.pop(event.command.number, None)  # mitmproxy then sends whatever QUIC has to say
        return
    yield from handle(connection, event)
    if quic is not None and isinstance(event, QuicStreamEvent):
        course = quic.courses.get(event.stream_id)
        if course is not None and event.stream_id not in quic.stopped and not course.has_room:
            quic.stop(event.stream_id)
            yield WhenRoom(course, event.stream_id)


#: as in ``bounded_http``
WRAPPED = (
    (_wake_when_room, ("wakeup",), (ConnectionHandler,)),
    (_withhold, ("_handle_event",), (Http2Server, Http2Client)),
    (_stop_stream, ("_handle_event",), (Http3Server, Http3Client)),
)
