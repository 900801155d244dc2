"""What waits is counted, and whoever sends has to wait for it."""

from __future__ import annotations

import asyncio
import random
import socket
from asyncio import StreamReader, StreamWriter
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aioquic.quic.configuration import QuicConfiguration
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, StreamEnded
from mitmproxy.proxy import events
from mitmproxy.proxy.server import ConnectionHandler, ConnectionIO
from mitmproxy.test import tflow

from hushlist.proxy.bounds import back_pressure
from hushlist.proxy.bounds.back_pressure import FEW, HELD_LOOK, MOST_HELD, MUCH, Course
from hushlist.proxy.bounds.bounded_input import bound_input
from hushlist.proxy.bounds.flow_windows import CLIENT_WINDOW, QUIC_WINDOW, SHARE, FlowingH2, FlowingQuic
from unit.proxy.bounds.test_bounded_quic import connected
from unit.proxy.bounds.test_flowing_bodies import Exchange


@pytest.fixture
def course() -> Course:
    """That of a request that is asked about: what waits, waits in the stream itself."""
    exchange = Exchange(held="request")
    exchange.begin(content_length="4")
    return Course(exchange.stream, is_answer=False)


def test_a_course_has_room_until_much_waits_and_again_when_few_do(course: Course) -> None:
    async def wait() -> None:
        course.queued = MUCH
        assert course.has_room
        course.queued = MUCH + 1
        assert not course.has_room
        waiting = asyncio.create_task(course.until_room())
        await asyncio.sleep(0)
        course.queued = FEW + 1
        course.look()
        await asyncio.sleep(0)
        assert not waiting.done()
        assert not course.has_room
        course.queued = FEW
        course.look()
        await waiting
        assert course.has_room

    asyncio.run(wait())


def test_courses_that_wait_look_again_whenever_something_comes() -> None:
    looks = list[str]()

    class Waiting:
        def __init__(self, name: str) -> None:
            self.name = name

        def look(self) -> None:
            looks.append(self.name)

    client, server, _ = h2_pair(1)
    server.stalled.add(Waiting("h2"))  # type: ignore[arg-type]
    client.ping(bytes(8))
    server.receive_data(client.data_to_send())
    quic = FlowingQuic(configuration=QuicConfiguration())
    quic.stalled.add(Waiting("h3"))  # type: ignore[arg-type]
    quic.receive_datagram(b"", ("192.0.2.1", 443), 0.0)
    assert looks == ["h2", "h3"]


def test_who_waits_for_a_body_that_is_over_waits_no_longer(course: Course) -> None:
    async def wait() -> None:
        course.queued = MUCH + 1
        waiting = asyncio.create_task(course.until_room())
        await asyncio.sleep(0)
        course.end()
        await waiting

    asyncio.run(wait())


# -- HTTP/2 ------------------------------------------------------------------------------------------------------------


def h2_pair(streams: int) -> tuple[H2Connection, FlowingH2, list[int]]:
    """A client that has begun uploads, and who reads it."""
    client = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
    server = FlowingH2(H2Configuration(client_side=False, header_encoding="utf-8"))
    client.initiate_connection()
    server.initiate_connection()
    numbers = [1 + 2 * number for number in range(streams)]
    for number in numbers:
        fields = [(":method", "POST"), (":scheme", "https"), (":authority", "good.test"), (":path", "/")]
        client.send_headers(number, fields)
    server.receive_data(client.data_to_send())
    client.receive_data(server.data_to_send())
    return client, server, numbers


def test_leave_is_given_of_what_is_taken_and_withheld_of_what_waits(course: Course) -> None:
    client, server, (number,) = h2_pair(1)
    assert client.local_flow_control_window(number) == CLIENT_WINDOW
    server.courses[number] = course

    def send() -> None:
        for _ in range(SHARE >> 14):
            client.send_data(number, bytes(1 << 14))
        for event in server.receive_data(client.data_to_send()):
            if isinstance(event, DataReceived):
                server.acknowledge_received_data(event.flow_controlled_length, number)
        client.receive_data(server.data_to_send())

    send()
    assert client.local_flow_control_window(number) == CLIENT_WINDOW
    course.queued = MUCH + 1
    send()
    send()
    assert client.local_flow_control_window(number) == CLIENT_WINDOW - 2 * SHARE
    assert server.withheld == {number: 2 * SHARE}
    course.queued = 0
    server.release(number)
    client.receive_data(server.data_to_send())
    assert (client.local_flow_control_window(number), server.withheld) == (CLIENT_WINDOW, {})


def test_parts_in_a_row_are_one_and_keep_their_place() -> None:
    client, server, numbers = h2_pair(3)
    chance, sent, order = random.Random(7), dict.fromkeys(numbers, b""), list[int]()
    for turn in range(200):
        number = chance.choice(numbers)
        part = b"%d," % turn
        client.send_data(number, part)
        sent[number] += part
        order += [] if order[-1:] == [number] else [number]
    client.end_stream(order[-1])
    events = server.receive_data(client.data_to_send())
    data = [event for event in events if isinstance(event, DataReceived)]
    assert [event.stream_id for event in data] == order + ([order[-1]] if data[-1].data == b"" else [])
    assert {number: b"".join(event.data for event in data if event.stream_id == number) for number in numbers} == sent
    assert sum(event.flow_controlled_length for event in data) == sum(map(len, sent.values()))
    assert isinstance(events[-1], StreamEnded)


# -- HTTP/3 ------------------------------------------------------------------------------------------------------------


def test_streams_that_nobody_takes_hold_a_connection_of_quic_when_they_are_many(tmp_path: Path) -> None:
    client, server, exchange = connected(tmp_path)

    def allowed() -> int:
        return int(client._remote_max_data - client._remote_max_data_used)

    client.send_stream_data(0, b"x")
    exchange()
    assert QUIC_WINDOW // 2 <= allowed() <= QUIC_WINDOW
    server.stop(0)
    come = QUIC_WINDOW // 4 * 3
    server._streams[0].receiver.highest_offset += come  # as if so many had come
    server._local_max_data.used += come
    before = server._local_max_data.value
    client.send_stream_data(4, b"x")
    exchange()
    assert server._local_max_data.value == before
    server.stopped.clear()
    client.send_stream_data(4, b"x")
    exchange()
    assert server._local_max_data.value >= server._local_max_data.used + QUIC_WINDOW // 2


# -- connections -------------------------------------------------------------------------------------------------------


class Ends:
    """A proxy's connections to a client and to an origin, and the other ends of both."""

    #: what handles their events
    layer: Any = None

    async def open(self) -> None:
        bound_input()
        self.client, self.server = tflow.tclient_conn(), tflow.tserver_conn()
        self.transports: dict[Any, Any] = {}
        self.closed: list[object] = []
        self.peers: dict[Any, socket.socket] = {}
        for end in (self.client, self.server):
            ours, theirs = socket.socketpair()
            reader, writer = await asyncio.open_connection(sock=ours)
            self.transports[end] = _io(reader, writer)
            self.peers[end] = theirs
        self.transports[self.client].handler = asyncio.current_task()

    def close_connection(self, end: object) -> None:
        self.closed.append(end)

    def drain(self) -> Any:
        return ConnectionHandler.drain_writers(self)  # type: ignore[arg-type]

    def close(self) -> None:
        for io in self.transports.values():
            io.writer.transport.abort()
        for peer in self.peers.values():
            peer.close()


def _io(reader: StreamReader, writer: StreamWriter) -> ConnectionIO:
    return ConnectionIO(handler=None, reader=reader, writer=writer)


def test_a_client_is_read_on_when_its_origin_has_taken_what_came() -> None:
    async def upload() -> None:
        own = Ends()
        await own.open()
        await own.drain()  # nothing waits
        own.transports[own.server].writer.write(bytes(1 << 22))
        waiting = asyncio.ensure_future(_awaited(own))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        taking = own.peers[own.server]
        taking.settimeout(10)
        left = 1 << 22
        while left:
            left -= len(await asyncio.to_thread(taking.recv, 1 << 20))
        await asyncio.wait_for(waiting, 10)
        own.close()

    asyncio.run(upload())


@pytest.mark.posix
def test_a_client_is_read_on_when_hooks_have_taken_what_came() -> None:
    async def send() -> None:
        own = Ends()
        await own.open()
        held = deque(events.DataReceived(own.client, octets) for octets in (bytes(MOST_HELD), b"x"))
        own.layer = SimpleNamespace(octets=MOST_HELD + 1, _paused_event_queue=held)
        waiting = asyncio.ensure_future(_awaited(own))
        await asyncio.sleep(3 * HELD_LOOK)
        assert not waiting.done()
        held.popleft()
        await asyncio.wait_for(waiting, 10)
        assert own.layer.octets == 0
        own.close()

    asyncio.run(send())


async def _awaited(own: Ends) -> None:
    own.transports[own.client].handler = asyncio.current_task()
    await own.drain()


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.posix
def test_a_client_that_leaves_a_stalled_upload_takes_its_connections_along(
    leaves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(back_pressure, "LEFT_PATIENCE", 0.02)

    async def upload() -> None:
        own = Ends()
        await own.open()
        own.peers[own.client].sendall(b"more of the body, which is not read")
        own.transports[own.server].writer.write(bytes(1 << 22))
        waiting = asyncio.ensure_future(_awaited(own))
        if leaves:
            own.peers[own.client].close()
        await asyncio.wait([waiting], timeout=10 if leaves else 0.2)
        assert own.closed == ([own.client] if leaves else [])
        assert own.transports[own.server].writer.is_closing() is leaves
        waiting.cancel()
        own.close()

    asyncio.run(upload())
