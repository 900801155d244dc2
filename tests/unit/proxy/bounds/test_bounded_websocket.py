"""WebSockets: long messages, and many of them."""

import zlib
from collections.abc import Iterator, Sequence

import pytest
import wsproto
from mitmproxy import http, tcp, websocket
from mitmproxy.test import tflow
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong
from wsproto.extensions import PerMessageDeflate
from wsproto.frame_protocol import CloseReason

from hushlist.proxy.bounds.bounded_input import bound_input
from hushlist.proxy.bounds.bounded_websocket import (
    LONGEST_MESSAGE,
    MESSAGE_LIMIT,
    MOST_MESSAGES,
    BoundedDeflate,
    BoundedWebsocket,
    keep_last,
)


def frames(*frames: tuple[int, bytes]) -> bytes:
    """Frames of a client: first octet and content."""
    return b"".join(_frame(*frame) for frame in frames)


def _frame(first: int, data: bytes) -> bytes:
    size = len(data)
    kind, octets = (size, 0) if size < 126 else (126, 2) if size < 1 << 16 else (127, 8)
    return bytes((first, 0x80 | kind)) + (size.to_bytes(octets, "big") if octets else b"") + bytes(4) + data


def received(data: Sequence[bytes], *extensions: PerMessageDeflate) -> Iterator[wsproto.events.Event]:
    connection = BoundedWebsocket(wsproto.ConnectionType.SERVER, list(extensions), conn=tflow.tclient_conn())
    for piece in data:
        connection.receive_data(piece)
        yield from connection.events()


_MEGABYTE = bytes(1 << 20)


def test_a_message_that_is_too_long_ends_its_websocket() -> None:
    whole = received([frames((0x82, bytes(LONGEST_MESSAGE)))])
    assert [event.code for event in whole if isinstance(event, CloseConnection)] == [CloseReason.MESSAGE_TOO_BIG]
    parts = frames((0x02, _MEGABYTE), *[(0x00, _MEGABYTE)] * 14)
    *before, end = received([parts, frames((0x00, _MEGABYTE))])
    assert len(before) == 15
    assert isinstance(end, CloseConnection)
    several = frames((0x82, _MEGABYTE * 8), (0x02, _MEGABYTE * 8), (0x80, b"x" * 70000))
    assert all(isinstance(event, BytesMessage) for event in received([several]))


def test_empty_frames_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MESSAGE_LIMIT, "octets", 100)
    *before, end = received([frames((0x02, b""), *[(0x00, b"")] * 200)])
    assert len(before) == 100
    assert isinstance(end, CloseConnection)


def test_of_pings_that_come_at_once_the_last_is_handed_on() -> None:
    pings = frames((0x89, b"1"), (0x8A, b"2"), (0x82, b"x"), *[(0x89, b"3"), (0x8A, b"4")] * 1000)
    assert list(received([pings, frames((0x89, b"5"))])) == [
        BytesMessage(b"x"),
        Ping(b"3"),
        Pong(b"4"),
        Ping(b"5"),
    ]
    *_, end = received([frames((0x89, b"1"), (0x88, b"\x03\xe8"))])
    assert isinstance(end, CloseConnection)


@pytest.mark.parametrize(("length", "passes"), [(1 << 20, True), (LONGEST_MESSAGE + 1, False)])
def test_a_message_is_not_unpacked_further(length: int, passes: bool) -> None:
    bound_input()
    assert wsproto.extensions.PerMessageDeflate is BoundedDeflate
    packing = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = (packing.compress(bytes(length)) + packing.flush(zlib.Z_SYNC_FLUSH))[:-4]
    assert len(packed) < LONGEST_MESSAGE // 900
    extension = BoundedDeflate()
    extension.finalize("permessage-deflate")
    found = list(received([frames((0xC2, packed))], extension))
    assert isinstance(found[-1], BytesMessage if passes else CloseConnection)
    assert sum(len(event.data) for event in found if isinstance(event, BytesMessage)) == (length if passes else 0)


def test_what_is_no_deflate_ends_its_websocket() -> None:
    extension = BoundedDeflate()
    extension.finalize("permessage-deflate")
    plain, end = received([frames((0x82, b"x"), (0xC2, b"\xff" * 4))], extension)
    assert isinstance(plain, BytesMessage)
    assert isinstance(end, CloseConnection)
    assert end.code == CloseReason.INVALID_FRAME_PAYLOAD_DATA


def test_only_the_last_messages_are_kept() -> None:
    socket, raw = tflow.twebsocketflow(), tflow.ttcpflow()
    assert isinstance(socket.websocket, websocket.WebSocketData)
    for number in range(3 * MOST_MESSAGES):
        socket.websocket.messages.append(websocket.WebSocketMessage(2, True, b"%d" % number))
        raw.messages.append(tcp.TCPMessage(True, _MEGABYTE))
        keep_last(socket)
        keep_last(raw)
    assert [message.content for message in socket.websocket.messages] == [b"%d" % number for number in range(200, 300)]
    assert len(raw.messages) == LONGEST_MESSAGE // len(_MEGABYTE)
    plain = tflow.tflow()
    assert isinstance(plain, http.HTTPFlow)
    keep_last(plain)
