"""HTTP/1 and HTTP/2: what does not end, and what is made to become more than was sent."""

import struct

import h2.connection
import pytest
from h2.config import H2Configuration
from h2.events import DataReceived, RemoteSettingsChanged, RequestReceived, StreamReset
from h2.settings import SettingCodes, Settings
from mitmproxy.addons import next_layer
from mitmproxy.http import Headers
from mitmproxy.net.http.http1 import read_request_head, read_response_head
from mitmproxy.options import Options
from mitmproxy.proxy import events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layer import CommandGenerator, Layer
from mitmproxy.proxy.layers.http import HttpStream, _http2
from mitmproxy.proxy.layers.http import _events as http_events
from mitmproxy.proxy.layers.http._http_h2 import BufferedH2Connection
from mitmproxy.test import tflow

from hushlist.proxy.bounds.bounded_http import (
    LARGEST_TABLE,
    MOST_FOLDS,
    MOST_WAITING,
    BoundedBuffer,
    BoundedH2,
    FinalHeads,
)
from hushlist.proxy.bounds.bounded_input import bound_input
from hushlist.proxy.bounds.bounded_names import LONGEST_HELLO
from unit.rows import each_row


def filled(*pieces: bytes) -> BoundedBuffer:
    buffer = BoundedBuffer()
    for piece in pieces:
        buffer += piece
    return buffer


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


@each_row(
    ("octets", "first"),
    [
        (b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\nHTTP/1.0 100\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", b"HTTP/1.1 101 Switching Protocols"),
        (b"HTTP/1.1 1000 ?\r\n\r\n", b"HTTP/1.1 1000 ?"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n", None),
    ],
)
def test_of_an_origin_the_final_head_alone_is_read(octets: bytes, first: bytes | None) -> None:
    buffer = FinalHeads()
    buffer += octets
    lines = buffer.maybe_extract_lines()
    assert (lines and bytes(lines[0])) == first


def test_many_folded_lines_are_refused() -> None:
    bound_input()
    few = [b"GET / HTTP/1.1", b"X: a", *[b" b"] * MOST_FOLDS]
    assert read_request_head(few).headers["x"] == "a" + "\r\n b" * MOST_FOLDS
    for read in (read_request_head, read_response_head):
        with pytest.raises(ValueError, match="folded"):
            read([b"HTTP/1.1 200 OK" if read is read_response_head else few[0], *few[1:], b"\tb"])


@each_row(
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


def test_more_is_awaited_until_a_host_may_have_come() -> None:
    bound_input()
    context = Context(tflow.tclient_conn(), Options())
    begun = b"GET / HTTP/1.1\r\nX: "
    with pytest.raises(next_layer.NeedsMoreData):
        next_layer.NextLayer._get_host_header(context, begun + b"y" * (LONGEST_HELLO - len(begun) - 1), b"")
    assert next_layer.NextLayer._get_host_header(context, begun + b"y" * (LONGEST_HELLO - len(begun)), b"") is None


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


_FIELDS = [(":method", "POST"), (":scheme", "https"), (":authority", "good.test"), (":path", "/")]


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
        client.send_headers(stream, _FIELDS)
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


_CODES = getattr(http_events, "ErrorCode", None)
#: how a stream has ended, as mitmproxy tells it; before version 12, by a status
RESET = 502 if _CODES is None else _CODES.CANCEL


@each_row(
    ("event", "passed"),
    [
        (http_events.RequestData(1, b"a"), "client: a"),
        (http_events.ResponseData(1, b"b"), "server: b"),
        (http_events.RequestEndOfMessage(1), "client ends"),
        (http_events.ResponseEndOfMessage(1), "server ends"),
        (http_events.RequestProtocolError(1, "it is reset", RESET), "client ends"),
        (http_events.ResponseProtocolError(1, "it is reset", RESET), "server ends"),
        (http_events.RequestTrailers(1, Headers()), None),
    ],
)
def test_a_tunnel_ends_however_its_stream_ends(event: http_events.HttpEvent, passed: str | None) -> None:
    bound_input()
    context = Context(tflow.tclient_conn(), Options())
    context.server = tflow.tserver_conn()
    seen: list[str] = []

    class Within(Layer):
        def _handle_event(self, event: events.Event) -> CommandGenerator[None]:
            assert isinstance(event, events.ConnectionEvent)
            side = "client" if event.connection is context.client else "server"
            seen.append(f"{side}: {event.data.decode()}" if isinstance(event, events.DataReceived) else f"{side} ends")
            yield from ()

    stream = HttpStream(context, 1)
    stream.flow = tflow.tflow(resp=True)
    stream.child_layer = Within(context)
    assert [*stream.passthrough(event)] == []
    assert seen == ([] if passed is None else [passed])
