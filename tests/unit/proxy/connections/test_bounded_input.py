"""What mitmproxy keeps of what does not end, and of what is made to become more than was sent."""

import itertools
import ssl
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import process_time

import h2.connection
import pytest
import wsproto
from aioquic.buffer import encode_uint_var
from aioquic.h3.connection import FrameType, Setting, encode_frame, encode_settings
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection, QuicConnectionError
from aioquic.quic.packet import QuicStreamFrame
from h2.config import H2Configuration
from h2.events import DataReceived, RemoteSettingsChanged, RequestReceived, StreamReset
from h2.settings import SettingCodes, Settings
from h11 import Data, ProtocolError
from mitmproxy import http, tcp, websocket
from mitmproxy.addons import next_layer
from mitmproxy.net import check
from mitmproxy.net.dns import domain_names, types
from mitmproxy.net.http import url
from mitmproxy.net.http.http1 import read_request_head, read_response_head
from mitmproxy.options import Options
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import DNSLayer, tls
from mitmproxy.proxy.layers.http import _http1, _http2
from mitmproxy.proxy.layers.http._http_h2 import BufferedH2Connection
from mitmproxy.proxy.layers.quic import CloseQuicConnection, QuicStreamDataReceived
from mitmproxy.test import tflow, tutils
from wsproto.events import BytesMessage, CloseConnection, Message, Ping, Pong
from wsproto.extensions import PerMessageDeflate
from wsproto.frame_protocol import CloseReason

from e2e.origin import write_certificate
from hushlist.proxy.addon import Hushlist
from hushlist.proxy.connections import bounded_input
from hushlist.proxy.connections.bounded_input import (
    LARGEST_TABLE,
    LONGEST_HELLO,
    LONGEST_MESSAGE,
    MOST_ACKNOWLEDGED,
    MOST_AHEAD,
    MOST_FOLDS,
    MOST_MESSAGES,
    MOST_PIECES,
    MOST_QUESTIONS,
    MOST_WAITING,
    BoundedBuffer,
    BoundedDeflate,
    BoundedH2,
    BoundedH3,
    BoundedPackets,
    BoundedQuic,
    BoundedReceiver,
    BoundedWebsocket,
    ChunksAlone,
    bound_input,
    keep_last,
)
from hushlist.url.http_head import LONGEST_HEADERS
from unit.mitmproxied import mitmproxied


def filled(*pieces: bytes) -> BoundedBuffer:
    buffer = BoundedBuffer()
    for piece in pieces:
        buffer += piece
    return buffer


def test_mitmproxy_is_bounded_once() -> None:
    bound_input()
    bounded = tls.parse_client_hello
    bound_input()
    assert tls.parse_client_hello is bounded


@pytest.mark.parametrize(
    "pieces",
    [[b"GET / HTTP/1.1\r\n", *[b"X: y\r\n" * 9999] * 9], [b"a" * MOST_WAITING, b"\n\n"], [b"\r\n" * MOST_WAITING]],
)
def test_a_head_that_does_not_end_becomes_one_that_nobody_can_read(pieces: list[bytes]) -> None:
    buffer = filled(*pieces)
    assert len(buffer) <= MOST_WAITING
    lines = [bytes(line) for line in buffer.maybe_extract_lines() or []]
    for read in (read_request_head, read_response_head):
        with pytest.raises(ValueError, match="too long"):
            read(lines)


def test_what_is_no_longer_than_that_is_read() -> None:
    head = b"GET / HTTP/1.1\r\nX: " + b"y" * (MOST_WAITING - 23) + b"\r\n\r\n"
    assert len(head) == MOST_WAITING
    lines = filled(*(head[at : at + 65535] for at in range(0, len(head), 65535))).maybe_extract_lines()
    assert lines is not None
    assert read_request_head([bytes(line) for line in lines]).headers["x"] == "y" * (MOST_WAITING - 23)


def test_a_hello_that_does_not_end_is_refused() -> None:
    bound_input()
    begun = b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes(LONGEST_HELLO)
    for module in (tls, next_layer):
        assert module.parse_client_hello(begun[:LONGEST_HELLO]) is None
        with pytest.raises(ValueError, match="too long"):
            module.parse_client_hello(begun)
        with pytest.raises(ValueError):
            module.parse_client_hello(b"GET / HTTP/1.1")


# -- time ----------------------------------------------------------------------------------------------------------


def takes_little_time(step: Callable[[], object]) -> bool:
    """Whether it does once in ten times: processor time grows, too, where others share the processor."""

    def seconds() -> float:
        start = process_time()
        with suppress(ValueError, struct.error, ProtocolError, next_layer.NeedsMoreData):
            step()
        return process_time() - start

    bound_input()
    return any(seconds() < 0.3 for _ in range(10))


#: letters of which no two are alike, which is what Punycode is slowest for
_LETTERS = "".join(chr(0x4E00 + number) for number in range(2000))
_PUNYCODE = b"xn--" + _LETTERS.encode("punycode")


@pytest.mark.parametrize("more", [b"", b".test", b":80"])
@pytest.mark.parametrize("host", [_LETTERS, _PUNYCODE, _PUNYCODE.decode(), b"xn--" + b"a" * 60000, "\u4e00." * 9000])
def test_a_long_host_takes_little_time(host: str | bytes, more: bytes) -> None:
    octets = (host.encode() if isinstance(host, str) else host) + more
    assert takes_little_time(lambda: read_request_head([b"GET http://%b/ HTTP/1.1" % octets]))
    assert takes_little_time(lambda: url.parse_authority(octets.decode(), check=True))
    assert url.parse_authority(octets, check=False) == (octets.decode(), None)
    assert takes_little_time(lambda: check.is_valid_host(octets))
    assert not check.is_valid_host(octets)


def test_a_host_is_read_as_before() -> None:
    bound_input()
    name = b".".join([b"a" * 63, b"b" * 63, b"c" * 63, b"d" * 61])
    for host in (name, name + b".", b"xn--bcher-kva.test", b"10.0.0.1", b"[::1]"):
        assert url.parse_authority(host + b":65535", check=True)[1] == 65535
    assert check.is_valid_host("b\u00fccher.test")
    with pytest.raises(ValueError, match="too long"):
        url.parse_authority(b"a" * 70 + b".test", check=True)


def test_many_folded_lines_are_refused() -> None:
    bound_input()
    few = [b"GET / HTTP/1.1", b"X: a", *[b" b"] * MOST_FOLDS]
    assert read_request_head(few).headers["x"] == "a" + "\r\n b" * MOST_FOLDS
    for read in (read_request_head, read_response_head):
        with pytest.raises(ValueError, match="folded"):
            read([b"HTTP/1.1 200 OK" if read is read_response_head else few[0], *few[1:], b"\tb"])


def test_white_space_in_a_chunk_s_size_takes_little_time() -> None:
    line = b"2;" + b" " * 30000 + b"\nx\r\nab\r\n"
    assert takes_little_time(lambda: ChunksAlone()(filled(line)))
    with pytest.raises(ProtocolError):
        ChunksAlone()(filled(line))
    data = ChunksAlone()(filled(b"2;x = y \t\r\nab\r\n"))
    assert isinstance(data, Data)
    assert data.data == b"ab"


@pytest.mark.parametrize(
    ("octets", "host"),
    [
        (b"GET / HTTP/1.1\r\nX: y\r\nhost: \t good.test:80 \r\n", "good.test:80"),
        (b"GET / HTTP/1.1\r\nX: y\r\n\r\nHost: good.test\r\n", None),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * LONGEST_HELLO, None),
        (b"GETTING\r\nHost: good.test\r\n", None),
    ],
)
def test_the_host_of_a_request_that_may_be_ignored_is_found(octets: bytes, host: str | None) -> None:
    bound_input()
    context = Context(tflow.tclient_conn(), Options())
    context.client.alpn = None
    assert next_layer.NextLayer._get_host_header(context, octets, b"") == host
    assert next_layer.NextLayer._get_host_header(context, octets, b"x") is None


@pytest.mark.parametrize(
    "octets", [b"A" * 60000, *(b"GET / HTTP/1.1\r\nHost:" + own * 9000 for own in (b" ", b" x", b" x\r\n\r"))]
)
def test_the_host_of_a_request_that_may_be_ignored_takes_little_time(octets: bytes) -> None:
    context = Context(tflow.tclient_conn(), Options())
    assert takes_little_time(lambda: next_layer.NextLayer._get_host_header(context, octets, b""))


def test_the_addon_sets_the_bounds_once() -> None:
    for _ in range(2):
        with mitmproxied(Hushlist()):
            parse = tls.parse_client_hello
            assert vars(_http1)["ReceiveBuffer"] is BoundedBuffer
    assert tls.parse_client_hello is parse


# -- HTTP/2 and HTTP/3 -------------------------------------------------------------------------------------------


def http2() -> tuple[h2.connection.H2Connection, BoundedH2]:
    """A client, and what reads it."""
    bound_input()
    assert _http2.BufferedH2Connection is BoundedH2  # type: ignore[attr-defined]
    client, own = h2.connection.H2Connection(), BoundedH2(H2Configuration(client_side=False))
    client.initiate_connection()
    own.initiate_connection()
    return client, own


def frame(kind: int, data: bytes, stream: int = 0) -> bytes:
    return len(data).to_bytes(3, "big") + bytes((kind, 0)) + stream.to_bytes(4, "big") + data


_ASKED = [(":method", "POST"), (":scheme", "https"), (":authority", "good.test"), (":path", "/")]


def test_what_nobody_knows_of_http_2_is_not_kept_and_not_told() -> None:
    client, own = http2()
    known = dict(own.remote_settings)
    more = b"".join(struct.pack("!HI", number, 7) for number in range(100, 2000))
    told = own.receive_data(client.data_to_send() + frame(4, more) + frame(0x77, b"x") * 9)
    assert {type(event) for event in told} == {RemoteSettingsChanged}
    assert dict(own.remote_settings) == {**known, **client.local_settings}
    own.receive_data(frame(4, struct.pack("!HI", SettingCodes.MAX_CONCURRENT_STREAMS, 7)))
    assert own.remote_settings.max_concurrent_streams == 7


def test_a_request_that_is_taken_back_at_once_is_none() -> None:
    client, own = http2()
    own.receive_data(client.data_to_send())
    for stream in (1, 3, 5):
        client.send_headers(stream, _ASKED)
        client.send_data(stream, b"abc")
    client.reset_stream(3)
    told = own.receive_data(client.data_to_send())
    assert [event.stream_id for event in told if isinstance(event, RequestReceived)] == [1, 5]
    assert [event.stream_id for event in told if isinstance(event, DataReceived)] == [1, 3, 5]
    client.reset_stream(1)
    (reset,) = own.receive_data(client.data_to_send())
    assert isinstance(reset, StreamReset)


def test_no_peer_makes_the_table_of_http_2_large() -> None:
    bound_input()
    server = BufferedH2Connection(H2Configuration(client_side=False, header_encoding=False))
    client = h2.connection.H2Connection(H2Configuration(header_encoding=False))
    client.local_settings = Settings(initial_values={SettingCodes.HEADER_TABLE_SIZE: 1 << 31})
    client.initiate_connection()
    server.initiate_connection()
    server.receive_data(client.data_to_send())
    client.receive_data(server.data_to_send())
    client.send_headers(1, [(":method", "GET"), (":scheme", "https"), (":authority", "h"), (":path", "/")])
    server.receive_data(client.data_to_send())
    fields = [(b":status", b"200"), *((b"x%d" % number, b"y" * 100) for number in range(100))]
    server.send_headers(1, fields)
    entries = server.encoder.header_table.dynamic_entries
    assert 0 < sum(32 + len(name) + len(value) for name, value in entries) <= LARGEST_TABLE
    (answer,) = (event for event in client.receive_data(server.data_to_send()) if hasattr(event, "headers"))
    assert [tuple(field) for field in answer.headers] == fields


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


@pytest.mark.parametrize(
    ("stream", "begin"),
    [
        (0, encode_uint_var(FrameType.HEADERS) + _ENDLESS),
        (0, _GREASE + _ENDLESS),
        (0, _HEAD + encode_uint_var(FrameType.HEADERS) + _ENDLESS),
        (2, b"\0" + encode_uint_var(FrameType.SETTINGS) + _ENDLESS),
        (2, b"\0" + encode_frame(FrameType.SETTINGS, b"") + _GREASE + _ENDLESS),
    ],
    ids=["header fields", "an unknown frame", "trailers", "settings", "an unknown frame for all"],
)
def test_a_frame_of_http_3_that_does_not_end_ends_its_connection(stream: int, begin: bytes) -> None:
    assert fed((stream, begin), *((stream, piece) for piece in _PIECES[:-1]))[1] == []
    assert len(fed((stream, begin), *((stream, piece) for piece in (*_PIECES, b"x")))[1]) == 1


@pytest.mark.parametrize("more", [0, 1])
def test_long_header_fields_end_the_connection_though_they_come_at_once(more: int) -> None:
    fields = _FIELDS + b"\xdd" * (LONGEST_HEADERS - len(_FIELDS) + more)  # accept: */*
    found, ends = fed((0, encode_frame(FrameType.HEADERS, fields)))
    assert (len(found), len(ends)) == (1 - more, more)


def test_a_body_of_http_3_has_any_length() -> None:
    body = encode_uint_var(FrameType.DATA) + _ENDLESS
    found, ends = fed((0, _HEAD + body), *((0, piece) for piece in _PIECES * 4))
    assert (len(found), ends) == (1 + len(_PIECES * 4), [])


def test_nothing_is_made_of_webtransport() -> None:
    assert fed((0, encode_uint_var(FrameType.WEBTRANSPORT_STREAM) + b"\0x"), (2, b"\x40\x54\0x")) == ([], [])


def test_http_3_has_no_table_of_header_fields() -> None:
    connection = BoundedH3(tflow.tclient_conn(), is_client=False)
    assert connection.sent_settings[Setting.QPACK_MAX_TABLE_CAPACITY] == 0  # type: ignore[index]
    settings = encode_settings({Setting.QPACK_MAX_TABLE_CAPACITY: 1 << 30, Setting.QPACK_BLOCKED_STREAMS: 100})
    data = b"\0" + encode_frame(FrameType.SETTINGS, settings)
    connection.handle_stream_event(QuicStreamDataReceived(tflow.tclient_conn(), 2, data, end_stream=False))
    sizes = {len(connection._encode_headers(0, [(b"x-name", b"some value")])) for _ in range(4)}
    assert len(sizes) == 1
    assert sizes.pop() > len(b"some value") // 2


# -- QUIC --------------------------------------------------------------------------------------------------------


def test_gaps_make_no_peer_keep_what_was_never_sent(tmp_path: Path) -> None:
    trust = QuicConfiguration(alpn_protocols=["h3"], verify_mode=ssl.CERT_NONE)
    own = QuicConfiguration(is_client=False, alpn_protocols=["h3"])
    own.load_cert_chain(*write_certificate(tmp_path))
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
    client.send_stream_data(0, b"x")
    exchange()
    stream, before, length = client._streams[0], 0, 1
    while before < client._remote_max_data <= 4 * MOST_AHEAD:
        before = client._remote_max_data
        allowed = min(before, stream.max_stream_data_remote)
        client.send_stream_data(0, bytes(allowed - length))
        stream.sender._pending.subtract(length, allowed - 1)  # all but the last octet is never sent
        length = allowed
        exchange()
    assert MOST_AHEAD < client._remote_max_data <= 4 * MOST_AHEAD


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


# -- WebSockets --------------------------------------------------------------------------------------------------


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
    monkeypatch.setattr(bounded_input, "LONGEST_MESSAGE", 100)
    *before, end = received([frames((0x02, b""), *[(0x00, b"")] * 200)])
    assert len(before) == 100
    assert isinstance(end, CloseConnection)


def test_a_frame_is_handed_on_as_a_whole() -> None:
    text, octets = "\u00fcber".encode() * 400, bytes(range(256)) * 9
    data = frames((0x01, text), (0x80, text), (0x82, octets), (0x81, b""))
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
    whole = [event for event in received(pieces) if isinstance(event, Message)]
    assert [event.data for event in whole] == [text.decode(), text.decode(), octets, ""]
    assert [(event.frame_finished, event.message_finished) for event in whole] == [(True, own) for own in (0, 1, 1, 1)]


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


# -- DNS ---------------------------------------------------------------------------------------------------------


def question(name: bytes) -> bytes:
    return name + b"\0\x01\0\x01"


def message(*questions: bytes) -> bytes:
    return b"\0\x07\x01\0" + len(questions).to_bytes(2, "big") + bytes(6) + b"".join(questions)


def pointer(place: int) -> bytes:
    return (0xC000 | place).to_bytes(2, "big")


_LONG = b"\x01a" * 127
HOSTILE = {
    "one long name, many times": message(question(_LONG + b"\0"), *[question(pointer(12))] * 9000),
    "each name longer than that before it": message(
        question(b"\x01a\0"), *(question(b"\x01a" + pointer(max(12, 11 + 8 * at))) for at in range(1000))
    ),
    "a name of 257 letters": message(question(_LONG + b"\x03aaa\0")),
    "a pointer to a pointer, and so on": message(b"".join(map(pointer, range(14, 6014, 2))) + question(b"\0")),
    "no punycode": message(question(b"\x0cxn--99999999\0")),
}


@pytest.mark.parametrize("octets", HOSTILE.values(), ids=HOSTILE)
def test_a_dns_message_is_not_read_further_than_is_sensible(octets: bytes) -> None:
    bound_input()
    with pytest.raises(struct.error, match=r"too long|cannot be read|illegal characters"):
        type(tutils.tdnsreq()).unpack(octets)


def record(kind: int, data: bytes) -> bytes:
    return b"\0" + struct.pack("!HHIH", kind, 1, 1, len(data)) + data


def test_what_may_be_a_pointer_in_a_record_takes_little_time() -> None:
    """Each octet of the first record begins a name that is too long, and each two of the second one lead there."""
    number, start = 2000, 12 + 5 + 11
    pointers = b"".join(pointer(start + at) for at in range(number))
    octets = message(question(b"\0"))[:6] + b"\0\2" + bytes(4) + question(b"\0")
    octets += record(types.A, b"\1" * number) + record(types.TXT, pointers)
    unpack = type(tutils.tdnsreq()).unpack
    bound_input()
    assert len(unpack(octets).answers) == 2
    assert takes_little_time(lambda: unpack(octets))


def test_names_are_read_as_before() -> None:
    bound_input()
    octets = b"\3www\7example\0" + b"\3ftp" + pointer(4) + b"\x0dxn--bcher-kva" + pointer(12)
    cache = domain_names.cache()
    read = [domain_names.unpack_from_with_compression(octets, place, cache) for place in (0, 13, 19, 13)]
    assert read == [("www.example", 13), ("ftp.example", 6), ("b\u00fccher.", 16), ("ftp.example", 6)]
    for broken in (b"\3ab", b"\xc0", pointer(0), b"\1a" + pointer(0), b"\x40" + b"a" * 64, b""):
        with pytest.raises(struct.error):
            domain_names.unpack_from_with_compression(broken, 0, domain_names.cache())


def test_only_the_last_questions_of_a_connection_are_kept() -> None:
    bound_input()
    layer = DNSLayer(Context(tflow.tclient_conn(), Options()))
    for number in range(2 * MOST_QUESTIONS):
        layer.flows[number] = tflow.tdnsflow()
    assert list(layer.flows) == list(range(MOST_QUESTIONS, 2 * MOST_QUESTIONS))
