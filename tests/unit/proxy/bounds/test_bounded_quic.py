"""QUIC and HTTP/3: gaps, and frames that do not end."""

import itertools
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from aioquic.buffer import encode_uint_var
from aioquic.h3.connection import FrameType, Setting, encode_frame, encode_settings
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection, QuicConnectionError
from aioquic.quic.packet import QuicStreamFrame
from mitmproxy.proxy.layers.quic import CloseQuicConnection, QuicStreamDataReceived
from mitmproxy.test import tflow

from e2e.origin import write_certificate
from hushlist.core.url.http_head import LONGEST_HEADERS
from hushlist.proxy.bounds.bounded_quic import (
    MOST_ACKNOWLEDGED,
    MOST_AHEAD,
    MOST_PIECES,
    MOST_STREAMS,
    BoundedH3,
    BoundedPackets,
    BoundedQuic,
    BoundedReceiver,
)
from unit.rows import each_row


def fed(*events: tuple[int, bytes]) -> tuple[list[object], list[object]]:
    """What a connection of HTTP/3 makes of data on its streams, and the commands that end it."""
    client = tflow.tclient_conn()
    connection = BoundedH3(client, is_client=False)
    found = [
        one
        for stream, data in events
        for one in connection.handle_stream_event(QuicStreamDataReceived(client, stream, data, end_stream=False))
    ]
    return found, [command for command in connection.transmit() if isinstance(command, CloseQuicConnection)]


_FIELDS = b"\0\0\xd1\xd7\x50\x01h\xc1"  # GET, https, h and /
_HEAD = encode_frame(FrameType.HEADERS, _FIELDS)
_ENDLESS = encode_uint_var(1 << 40)
_PIECES = [bytes(LONGEST_HEADERS // 8)] * 8
_GREASE = encode_uint_var(0x21)


@each_row(
    ("stream", "begin"),
    [
        (0, encode_uint_var(FrameType.HEADERS) + _ENDLESS),
        (0, _GREASE + _ENDLESS),
        (0, _HEAD + encode_uint_var(FrameType.HEADERS) + _ENDLESS),
        (2, b"\0" + encode_uint_var(FrameType.SETTINGS) + _ENDLESS),
        (2, b"\0" + encode_frame(FrameType.SETTINGS, b"") + _GREASE + _ENDLESS),
    ],
)
def test_a_frame_of_http_3_that_does_not_end_ends_its_connection(stream: int, begin: bytes) -> None:
    assert fed((stream, begin), *((stream, piece) for piece in _PIECES[:-1]))[1] == []
    assert len(fed((stream, begin), *((stream, piece) for piece in (*_PIECES, b"x")))[1]) == 1


@pytest.mark.parametrize("more", [0, 1])
def test_long_header_fields_end_the_connection_though_they_come_at_once(more: int) -> None:
    fields = _FIELDS + b"\xdd" * (LONGEST_HEADERS - len(_FIELDS) + more)  # accept: */*
    found, ends = fed((0, encode_frame(FrameType.HEADERS, fields)))
    assert (len(found), len(ends)) == (1 - more, more)


def test_http_3_has_no_table_of_header_fields() -> None:
    connection = BoundedH3(tflow.tclient_conn(), is_client=False)
    assert connection.sent_settings[Setting.QPACK_MAX_TABLE_CAPACITY] == 0  # type: ignore[index]
    settings = encode_settings({Setting.QPACK_MAX_TABLE_CAPACITY: 1 << 30, Setting.QPACK_BLOCKED_STREAMS: 100})
    data = b"\0" + encode_frame(FrameType.SETTINGS, settings)
    connection.handle_stream_event(QuicStreamDataReceived(tflow.tclient_conn(), 2, data, end_stream=False))
    sizes = {len(connection._encode_headers(0, [(b"x-name", b"some value")])) for _ in range(4)}
    assert len(sizes) == 1
    assert sizes.pop() > len(b"some value") // 2


def connected(folder: Path) -> tuple[QuicConnection, BoundedQuic, Callable[[], None]]:
    """A client, a server, and what has them exchange datagrams until neither has more to say."""
    trust = QuicConfiguration(alpn_protocols=["h3"], verify_mode=ssl.CERT_NONE)
    own = QuicConfiguration(is_client=False, alpn_protocols=["h3"])
    own.load_cert_chain(*write_certificate(folder))
    client = QuicConnection(configuration=trust)
    client.connect(("server", 443), now=0)
    first = client.original_destination_connection_id
    server = BoundedQuic(configuration=own, original_destination_connection_id=first)
    moments = itertools.count()

    def exchange() -> None:
        for now in itertools.islice(moments, 8):
            for sender, receiver in ((client, server), (server, client)):
                for datagram, _ in sender.datagrams_to_send(now / 100):
                    receiver.receive_datagram(datagram, ("peer", 1), now / 100)

    exchange()
    return client, server, exchange


@pytest.mark.slow
def test_gaps_make_no_peer_keep_what_was_never_sent(tmp_path: Path) -> None:
    client, _, exchange = connected(tmp_path)
    client.send_stream_data(0, b"x")
    exchange()
    stream, allowed, length = client._streams[0], 0, 1
    while allowed < min(client._remote_max_data, stream.max_stream_data_remote) <= 4 * MOST_AHEAD:
        allowed = min(client._remote_max_data, stream.max_stream_data_remote)
        client.send_stream_data(0, bytes(allowed - length))
        stream.sender._pending.subtract(length, allowed - 1)  # all but the last octet is never sent
        length = allowed
        exchange()
    assert MOST_AHEAD < client._remote_max_data <= 4 * MOST_AHEAD


@pytest.mark.slow
def test_a_peer_has_only_so_many_streams_open_and_as_many_as_it_likes_in_turn(tmp_path: Path) -> None:
    client, server, exchange = connected(tmp_path)

    def open_all() -> set[int]:
        """All streams that the client may open, of both kinds; those of the server that are there then."""
        for kind, most in ((0, client._remote_max_streams_bidi), (2, client._remote_max_streams_uni)):
            for number in range(most):
                if not (client._streams.get(own := 4 * number + kind) or own in client._streams_finished):
                    client.send_stream_data(own, b"x", end_stream=kind == 2 and number % 2 == 0)
            exchange()
        return {number for number in server._streams if number % 4 == 0}

    for _ in range(8):  # nothing is answered
        assert len(open_all()) == MOST_STREAMS
    for _ in range(8):
        for number in open_all():
            server.send_stream_data(number, b"y", end_stream=True)
            client.send_stream_data(number, b"", end_stream=True)
        exchange()
        exchange()
        assert len(open_all()) <= MOST_STREAMS
    assert client._remote_max_streams_bidi > 8 * MOST_STREAMS


def test_a_stream_with_many_gaps_ends_its_connection() -> None:
    receiver = BoundedReceiver(0, readable=True)
    for number in range(MOST_PIECES + 1):
        receiver.handle_frame(QuicStreamFrame(data=b"x", offset=2 * number + 1))
    with pytest.raises(QuicConnectionError, match="gaps"):
        receiver.handle_frame(QuicStreamFrame(data=b"x", offset=0))


def test_only_so_many_packets_are_acknowledged() -> None:
    space = BoundedPackets()
    for number in range(3 * MOST_ACKNOWLEDGED):
        space.ack_queue.add(2 * number)
    assert len(space.ack_queue) == MOST_ACKNOWLEDGED
    assert space.ack_queue.bounds() == range(4 * MOST_ACKNOWLEDGED, 6 * MOST_ACKNOWLEDGED - 1)
