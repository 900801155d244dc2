"""Bounds what mitmproxy, and the packages by which it reads protocols, keep of a peer's input.

They keep a head until it ends, however long it is, and read what has begun again from its beginning with each piece
that arrives. A peer may also have them keep much more than it sends: by a gap in a QUIC stream, by a large table of
header fields, by pointers to names, or by compression. So one client could take all memory, or all time of the others.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Generator, MutableSequence, Sequence
from dataclasses import replace
from encodings.idna import dots
from functools import wraps
from itertools import product
from typing import Any

import aioquic.quic.connection
import aioquic.quic.stream
import h2.connection
import wsproto.extensions
from aioquic.h3.connection import ErrorCode, ProtocolError, Setting
from aioquic.h3.events import WebTransportStreamDataReceived
from aioquic.quic.connection import QuicConnection, QuicConnectionError
from aioquic.quic.events import DatagramFrameReceived, QuicEvent
from aioquic.quic.packet import QuicErrorCode
from aioquic.quic.rangeset import RangeSet
from aioquic.quic.recovery import QuicPacketSpace
from aioquic.quic.stream import QuicStreamReceiver
from h2.events import Event as H2Event
from h2.events import RequestReceived, StreamReset, UnknownFrameReceived
from h2.settings import SettingCodes
from h11 import EndOfMessage
from h11._readers import ChunkedReader
from h11._receivebuffer import ReceiveBuffer
from hpack import Encoder
from mitmproxy import dns, http, tcp, udp
from mitmproxy.addons import next_layer
from mitmproxy.net import check
from mitmproxy.net.dns import domain_names
from mitmproxy.net.http import url
from mitmproxy.net.http.http1 import read
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import DNSLayer, quic, tls
from mitmproxy.proxy.layers import websocket as websocket_layer
from mitmproxy.proxy.layers.http import HttpStream, _http1, _http2, _http3
from mitmproxy.proxy.layers.http._events import (
    RequestEndOfMessage,
    RequestProtocolError,
    RequestTrailers,
    ResponseEndOfMessage,
    ResponseProtocolError,
)
from mitmproxy.proxy.layers.http._http_h2 import BufferedH2Connection
from mitmproxy.proxy.layers.http._http_h3 import LayeredH3Connection
from mitmproxy.proxy.layers.tls import HTTP1_ALPNS
from mitmproxy.proxy.layers.websocket import WebsocketConnection
from mitmproxy.utils.strutils import always_str
from wsproto.events import CloseConnection, Event, Message, Ping, Pong
from wsproto.extensions import PerMessageDeflate
from wsproto.frame_protocol import CloseReason

from hushlist.proxy.flow_request import is_framed
from hushlist.url.http_head import LONGEST_HEADERS
from hushlist.url.parts import to_bytes

#: octets that wait to be read as HTTP/1: four times what any part of a head may have
MOST_WAITING = 1 << 18
#: octets of a ClientHello with its records: several times what a browser sends
LONGEST_HELLO = 1 << 14
#: lines of a header field
MOST_FOLDS = 1 << 6
#: octets of a name. Spec: RFC 1035, 2.3.4
_LONGEST_NAME = 255
#: of a name and of its last label, with a port behind them
_LONGEST_AUTHORITY, _LONGEST_LABEL = (own + len(":65535") for own in (_LONGEST_NAME, 63))
#: octets that are read of all names in a DNS message: by pointers, two octets are a whole name
MOST_OF_NAMES = 1 << 16
#: flows of one DNS connection
MOST_QUESTIONS = 1 << 10
#: what a pointer's first octet is at least
_POINTER = 0b1100_0000
#: a place that no name has, for the sum of their octets; what is not read yet
_SUM, _UNREAD = -1, ("", 0)
#: octets of a WebSocket's message, and of the last messages of a connection, of which there are no more than so many
LONGEST_MESSAGE, MOST_MESSAGES = 1 << 24, 100
#: octets of a QUIC connection's streams that wait for what is missing before them, gaps included: from then on, the
#: peer may send no more than it was allowed before
MOST_AHEAD = 1 << 24
#: pieces of a QUIC stream that wait, and ranges of packets that are acknowledged: all are looked at for each new one
MOST_PIECES, MOST_ACKNOWLEDGED = 1 << 10, 1 << 6
#: octets of the table that header fields are written with in HTTP/2: each is compared with all of it
LARGEST_TABLE = 1 << 12
#: the settings of HTTP/2 that there are
_SETTINGS = frozenset(map(int, SettingCodes))
#: no request line, no status line and no size of a chunk: whoever reads it ends the connection
_NOTHING = b"it is too long\n\n"


class BoundedBuffer(ReceiveBuffer):
    """Octets that wait to be read; if they are too many, they are replaced by what is no HTTP.

    So is a chunk's size with a line feed in it: h11 would try its white space in all ways.
    """

    def __iadd__(self, octets: bytes | bytearray) -> BoundedBuffer:
        super().__iadd__(octets)
        if len(self) > MOST_WAITING:
            self.maybe_extract_at_most(len(self))
            super().__iadd__(_NOTHING)
        return self

    def maybe_extract_next_line(self) -> bytearray | None:
        """The first line, if it is complete."""
        line = super().maybe_extract_next_line()
        return line if line is None or line.index(b"\n") == len(line) - 1 else bytearray(_NOTHING)


class ChunksAlone(ChunkedReader):
    """Reads chunks without the fields behind them, where mitmproxy fails, and nothing else of the connection goes on.

    Spec: RFC 9110, 6.5.1: what forwards a message may discard its trailers
    """

    def __call__(self, buffer: Any) -> Any:
        event = super().__call__(buffer)
        return EndOfMessage() if isinstance(event, EndOfMessage) else event


class BoundedEncoder(Encoder):
    """Writes header fields of HTTP/2, by a table that is no larger because the peer allows it.

    Spec: RFC 7541, 4.2: the encoder chooses a size "less than or equal to the maximum size set by the protocol"
    """

    @property
    def header_table_size(self) -> int:
        """The table's size in octets."""
        return self.header_table.maxsize

    @header_table_size.setter
    def header_table_size(self, allowed: int) -> None:
        self.header_table.maxsize = size = min(allowed, LARGEST_TABLE)
        if self.header_table.resized:
            self.table_size_changes.append(size)


class BoundedH2(BufferedH2Connection):
    """HTTP/2 without settings and frames that nobody knows, of which h2 keeps and mitmproxy logs each one, and without
    requests that a client takes back at once: so it could begin any number of them, before anybody else has a turn.

    Spec: RFC 9113, 4.1 and 6.5.2: what is unknown is ignored; 5.4.2
    """

    def receive_data(self, data: bytes) -> list[H2Event]:
        """What has come."""
        found = super().receive_data(data)
        if len(self.remote_settings) > len(_SETTINGS):
            for unknown in {*self.remote_settings} - _SETTINGS:
                del self.remote_settings[unknown]
        reset = {event.stream_id for event in found if isinstance(event, StreamReset)}
        return [
            event
            for event in found
            if not isinstance(event, UnknownFrameReceived)
            and not (isinstance(event, RequestReceived) and event.stream_id in reset)
        ]


class _TooLongError(ProtocolError):
    error_code = ErrorCode.H3_EXCESSIVE_LOAD


class BoundedH3(LayeredH3Connection):
    """HTTP/3 without tables of header fields, in which an octet could stand for 4,096.

    All frames are kept until they are complete, but those of a body.
    """

    _max_table_capacity = property(lambda _: 0, lambda *_: None)
    _blocked_streams = property(lambda _: 0, lambda *_: None)

    def _validate_settings(self, settings: dict[int, int]) -> None:
        super()._validate_settings(settings)
        settings.pop(Setting.QPACK_MAX_TABLE_CAPACITY, None)

    def _decode_headers(self, stream_id: int, frame_data: bytes | None) -> Any:
        if frame_data is not None and len(frame_data) > LONGEST_HEADERS:
            raise _TooLongError("header fields are too long")
        return super()._decode_headers(stream_id, frame_data)

    def handle_stream_event(self, event: Any) -> Any:
        """Read what has come; end the connection if a frame is too long."""
        # mitmproxy fails where it is told of WebTransport, which it does not offer
        found = [
            one for one in super().handle_stream_event(event) if not isinstance(one, WebTransportStreamDataReceived)
        ]
        stream = self._stream.get(event.stream_id)
        if stream is not None and len(stream.buffer) > LONGEST_HEADERS and not self._is_done:
            self.close_connection(ErrorCode.H3_EXCESSIVE_LOAD, reason_phrase="a frame is too long")
        return found


class BoundedQuic(QuicConnection):
    """QUIC that allows a peer no more while much is missing.

    aioquic keeps room for what is missing, and doubles what it allows by the place of the last octet that came.
    """

    def _write_connection_limits(self, *arguments: Any, **named: Any) -> None:
        if sum(len(stream.receiver._buffer) for stream in self._streams.values()) <= MOST_AHEAD:
            super()._write_connection_limits(*arguments, **named)

    def next_event(self) -> QuicEvent | None:
        """The next event; no datagram of HTTP/3, since mitmproxy fails where it is told of one."""
        event = super().next_event()
        while isinstance(event, DatagramFrameReceived) and is_framed(to_bytes(self.tls.alpn_negotiated or "")):
            event = super().next_event()
        return event


class BoundedReceiver(QuicStreamReceiver):
    """Ends a QUIC connection that has too many gaps in a stream."""

    def handle_frame(self, frame: Any) -> Any:
        """Take a piece of the stream."""
        if len(self._ranges) > MOST_PIECES:
            raise QuicConnectionError(QuicErrorCode.INTERNAL_ERROR, 0, "too many gaps in a stream")
        return super().handle_frame(frame)


class _LastRanges(RangeSet):
    """Spec: RFC 9000, 13.2.3: "A receiver limits the number of ACK Ranges ... it remembers"."""

    def add(self, start: int, stop: int | None = None) -> None:
        super().add(start, stop)
        if len(self) > MOST_ACKNOWLEDGED:
            self.shift()


class BoundedPackets(QuicPacketSpace):
    """Acknowledges the last packets alone, if many are missing between those that came."""

    def __init__(self) -> None:
        super().__init__()
        self.ack_queue = _LastRanges()


class BoundedWebsocket(WebsocketConnection):
    """Ends a WebSocket with a message that is too long, and hands on whole frames: mitmproxy copies what it has with
    each piece. Of pings that come at once it hands on the last, since mitmproxy logs each; so of pongs.

    Spec: RFC 6455, 5.5.3: an endpoint "MAY elect to send a Pong frame for only the most recently processed Ping frame"
    """

    _octets = 0

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._frame = bytearray()

    def events(self) -> Generator[Event, None, None]:
        """What has come."""
        last: dict[type, Event] = {}
        for event in super().events():
            if isinstance(event, Ping | Pong):
                last[type(event)] = event
                continue
            if isinstance(event, CloseConnection):
                last.clear()  # nothing follows it
            if isinstance(event, Message):
                self._octets += 1 + len(event.data)  # a message may have any number of empty frames
                if self._octets > LONGEST_MESSAGE:
                    yield CloseConnection(CloseReason.MESSAGE_TOO_BIG, "it is too long")
                    return
                self._octets = 0 if event.message_finished else self._octets
                is_text = isinstance(event.data, str)
                self._frame += event.data.encode() if is_text else event.data
                if not event.frame_finished:
                    continue
                event = replace(event, data=self._frame.decode() if is_text else bytes(self._frame))
                self._frame.clear()
            yield event
        yield from last.values()


class BoundedDeflate(PerMessageDeflate):
    """Unpacks no more of a WebSocket's message than one may have."""

    def frame_inbound_payload_data(self, proto: Any, data: bytes) -> bytes | CloseReason:
        """Unpack a part of a frame."""
        if not (self._inbound_compressed and self._inbound_is_compressible and self._decompressor):
            return data
        try:
            unpacked = self._decompressor.decompress(bytes(data), LONGEST_MESSAGE)
        except zlib.error:
            return CloseReason.INVALID_FRAME_PAYLOAD_DATA
        return CloseReason.MESSAGE_TOO_BIG if self._decompressor.unconsumed_tail else unpacked


def _bounded(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A parser that refuses a ClientHello which is incomplete and too long already."""

    @wraps(parse)
    def bounded(data: bytes | list[bytes]) -> Any:
        hello = parse(data)
        if hello is None and (sum(map(len, data)) if isinstance(data, list) else len(data)) > LONGEST_HELLO:
            raise ValueError("it is too long")
        return hello

    return bounded


def _with_few_folds(read_headers: Callable[..., http.Headers]) -> Callable[..., http.Headers]:
    """What reads header fields: no field has many lines, each of which would copy those before it."""

    @wraps(read_headers)
    def bounded(lines: list[bytes]) -> http.Headers:
        if sum(line[:1] in (b" ", b"\t") for line in lines) > MOST_FOLDS:
            raise ValueError("too many folded lines")
        return read_headers(lines)

    return bounded


_METHOD_AND_VERSION = re.compile(rb"[A-Z]{3,}+.*?HTTP/", re.IGNORECASE)
_HOST_LINE = re.compile(rb"\r\n(?:Host:[ \t]++([^\r\n]*+))?\r\n", re.IGNORECASE)


def _host_header(context: Context, data_client: bytes, data_server: bytes) -> str | None:
    """The Host header of the request that a client begins with; ``None`` if there is none, or too much before it.

    mitmproxy asks for it where hosts are ignored; its own expression takes a time that grows with the cube of what is
    sent. Spec: RFC 9112, 3.2
    """
    is_http = context.client.transport_protocol == "tcp" and not data_server
    if not is_http or not (context.client.alpn in HTTP1_ALPNS or _METHOD_AND_VERSION.match(data_client)):
        return None
    found = _HOST_LINE.search(data_client)
    if found is None and len(data_client) < LONGEST_HELLO:
        raise next_layer.NeedsMoreData
    host = found[1] if found else None
    return host.strip().decode("utf-8", "surrogateescape") if host else None


class _LastQuestions(dict[int, dns.DNSFlow]):
    """The last flows of a DNS connection by their numbers: mitmproxy keeps the answered ones, too."""

    def __setitem__(self, number: int, flow: dns.DNSFlow) -> None:
        super().__setitem__(number, flow)
        if len(self) > MOST_QUESTIONS:
            del self[next(iter(self))]


def _with_last_questions(begin: Callable[..., None]) -> Callable[..., None]:
    """What makes a layer of DNS."""

    @wraps(begin)
    def begun(own: DNSLayer, context: Context) -> None:
        begin(own, context)
        own.flows = _LastQuestions()

    return begun


def _is_long(host: bytes | str) -> bool:
    """Whether a host or an authority is longer than any, or has a longer label.

    Python's Punycode takes a time that grows with the square of a label's length, before it finds it too long.
    """
    labels: Sequence[bytes | str] = dots.split(host) if isinstance(host, str) else host.split(b".")
    return len(host) > _LONGEST_AUTHORITY or max(map(len, labels)) > _LONGEST_LABEL


def _bounded_validity(is_valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """What says whether a host is one."""

    @wraps(is_valid)
    def bounded(host: bytes | str) -> bool:
        return not _is_long(host) and is_valid(host)

    return bounded


def _bounded_authority(parse: Callable[..., Any]) -> Callable[..., Any]:
    """What reads host and port of an authority."""

    @wraps(parse)
    def bounded(authority: bytes | str, check: bool) -> Any:
        if not _is_long(authority):
            return parse(authority, check)
        if check:
            raise ValueError("its host is too long")
        return always_str(authority, "utf-8", "surrogateescape"), None

    return bounded


def _read_name(buffer: bytes, offset: int, cache: dict[int, Any]) -> tuple[str, int]:
    """A name of a DNS message, and the number of its octets there: by pointers, the rest of it stands elsewhere.

    All that is read of a message counts. mitmproxy itself reads on to its end before it finds a name too long,
    and does so for each octet of a record's data that may be a pointer. It fails where it is told of another error.
    Spec: RFC 1035, 2.3.4: names have "255 octets or less"
    """
    if cache.get(offset, _UNREAD) is None:
        raise struct.error("a name leads back to itself")
    _spend(cache, 1)
    if offset not in cache:
        cache[offset] = None
        try:
            cache[offset] = _read_labels(buffer, offset, cache)
        except (IndexError, RecursionError, UnicodeError) as error:
            raise struct.error("a name cannot be read") from error
    found: tuple[str, int] = cache[offset]
    _spend(cache, len(found[0]))
    if len(found[0]) > _LONGEST_NAME:
        raise struct.error("a name is too long")
    return found


def _read_labels(buffer: bytes, start: int, cache: dict[int, Any]) -> tuple[str, int]:
    labels, offset = list[str](), start
    while size := buffer[offset]:
        if size >= _POINTER:
            (pointer,) = struct.unpack_from("!H", buffer, offset)
            labels.append(_read_name(buffer, pointer - (_POINTER << 8), cache)[0])
            return ".".join(labels), offset + 2 - start
        _spend(cache, 1 + size)
        offset += domain_names._unpack_label_into(labels, buffer, offset)
        if offset - start >= _LONGEST_NAME:
            raise struct.error("a name is too long")
    return ".".join(labels), offset + 1 - start


def _spend(cache: dict[int, Any], octets: int) -> None:
    cache[_SUM] = spent = cache.get(_SUM, 0) + octets
    if spent > MOST_OF_NAMES:
        raise struct.error("the names of a message are too long")


def _with_any_end(pass_on: Callable[..., Generator[Any, Any, None]]) -> Callable[..., Generator[Any, Any, None]]:
    """What passes a tunnel's octets on: it ends however its stream ends, where mitmproxy fails, and has no trailers."""

    @wraps(pass_on)
    def passed_on(stream: HttpStream, event: Any) -> Generator[Any, Any, None]:
        if isinstance(event, RequestProtocolError):
            event = RequestEndOfMessage(event.stream_id)
        elif isinstance(event, ResponseProtocolError):
            event = ResponseEndOfMessage(event.stream_id)
        if not isinstance(event, RequestTrailers):
            yield from pass_on(stream, event)

    return passed_on


_QUIC_LAYERS = getattr(quic, "_stream_layers", quic)
#: what stands in the place of what others read with
_IN_PLACE: tuple[tuple[Any, str, Any], ...] = (
    (_http1, "ReceiveBuffer", BoundedBuffer),
    (_http1, "ChunkedReader", ChunksAlone),
    (h2.connection, "Encoder", BoundedEncoder),
    (_http2, "BufferedH2Connection", BoundedH2),
    (_http3, "LayeredH3Connection", BoundedH3),
    (_QUIC_LAYERS, "QuicConnection", BoundedQuic),
    (aioquic.quic.stream, "QuicStreamReceiver", BoundedReceiver),
    (aioquic.quic.connection, "QuicPacketSpace", BoundedPackets),
    (websocket_layer, "WebsocketConnection", BoundedWebsocket),
    (wsproto.extensions, "PerMessageDeflate", BoundedDeflate),
    (domain_names, "unpack_from_with_compression", _read_name),
    (next_layer.NextLayer, "_get_host_header", staticmethod(_host_header)),
)
_HELLOS = ("parse_client_hello", "dtls_parse_client_hello", "quic_parse_client_hello_from_datagrams")
#: what bounds functions, their names, and the modules that have them
_BOUND: tuple[tuple[Callable[[Any], Any], Sequence[str], Sequence[Any]], ...] = (
    (_bounded, _HELLOS, (tls, next_layer, _QUIC_LAYERS)),
    (_bounded_validity, ("is_valid_host",), (check, url)),
    (_bounded_authority, ("parse_authority",), (url,)),
    (_with_few_folds, ("_read_headers",), (read,)),
    (_with_last_questions, ("__init__",), (DNSLayer,)),
    (_with_any_end, ("passthrough",), (HttpStream,)),
)


def bound_input() -> None:
    """Have mitmproxy keep to the bounds, from the next connection on; once for a process."""
    if vars(_http1)["ReceiveBuffer"] is BoundedBuffer:
        return
    for module, name, bounded in _IN_PLACE:
        setattr(module, name, bounded)
    for bound, names, modules in _BOUND:
        for module, name in product(modules, names):
            if hasattr(module, name):
                setattr(module, name, bound(getattr(module, name)))


def keep_last(flow: http.HTTPFlow | tcp.TCPFlow | udp.UDPFlow) -> None:
    """mitmproxy's hooks for a message of a WebSocket, or of raw TCP or UDP: keep no more than the last ones.

    mitmproxy keeps all, for as long as the connection lasts.
    """
    messages: MutableSequence[Any] | None = getattr(
        flow.websocket if isinstance(flow, http.HTTPFlow) else flow, "messages", None
    )
    if messages is None:
        return
    del messages[:-MOST_MESSAGES]
    while sum(len(message.content) for message in messages) > LONGEST_MESSAGE:
        del messages[0]
