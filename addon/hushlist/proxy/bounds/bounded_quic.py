"""Bounds of QUIC and HTTP/3: gaps in a stream, frames without end, tables of header fields."""

from __future__ import annotations

from typing import Any

import aioquic.quic.connection
import aioquic.quic.stream
from aioquic.h3.connection import ErrorCode, ProtocolError, Setting
from aioquic.h3.events import WebTransportStreamDataReceived
from aioquic.quic.connection import QuicConnectionError
from aioquic.quic.events import DatagramFrameReceived, QuicEvent
from aioquic.quic.packet import QuicErrorCode
from aioquic.quic.rangeset import RangeSet
from aioquic.quic.recovery import QuicPacketSpace
from aioquic.quic.stream import QuicStreamReceiver
from mitmproxy.proxy.layers import quic
from mitmproxy.proxy.layers.http import _http3
from mitmproxy.proxy.layers.http._http_h3 import LayeredH3Connection

from hushlist.core.url.http_head import HEAD_LIMIT
from hushlist.core.url.parts import to_bytes
from hushlist.proxy.bounds.flow_windows import FlowingQuic
from hushlist.proxy.flow_request import is_framed

#: octets of a QUIC connection's streams that wait for what is missing before them, gaps included: from then on, the
#: peer may send no more than it was allowed before
MOST_AHEAD = 1 << 24
#: streams of each kind that a peer may have open
MOST_STREAMS = 128
#: pieces of a QUIC stream that wait, and ranges of packets that are acknowledged: all are looked at for each new one
MOST_PIECES, MOST_ACKNOWLEDGED = 1 << 10, 1 << 6
#: where mitmproxy has its layers of QUIC
QUIC_LAYERS = getattr(quic, "_stream_layers", quic)


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
        if frame_data is not None and len(frame_data) > HEAD_LIMIT.octets:
            raise _TooLongError("header fields are too long")
        return super()._decode_headers(stream_id, frame_data)

    def handle_stream_event(self, event: Any) -> Any:
        """Read what has come; end the connection if a frame is too long."""
        # mitmproxy fails where it is told of WebTransport, which it does not offer
        h3_events = [
            h3_event
            for h3_event in super().handle_stream_event(event)
            if not isinstance(h3_event, WebTransportStreamDataReceived)
        ]
        stream = self._stream.get(event.stream_id)
        if stream is not None and len(stream.buffer) > HEAD_LIMIT.octets and not self._is_done:
            self.close_connection(ErrorCode.H3_EXCESSIVE_LOAD, reason_phrase="a frame is too long")
        return h3_events


class _FinishedStreams(set[int]):
    """The numbers of streams that are over at both ends, counted by kind: who opened it, and whether both send.

    Spec: RFC 9000, 2.1: "The two least significant bits from a stream ID" identify its type
    """

    def __init__(self) -> None:
        super().__init__()
        self.of_kind = [0, 0, 0, 0]

    def add(self, number: int) -> None:
        self.of_kind[number % 4] += 1
        super().add(number)


class BoundedQuic(FlowingQuic):
    """QUIC that allows a peer no more while much is missing, and no more streams at once than at the beginning.

    aioquic keeps room for what is missing, and doubles what it allows by the place of the last octet that came; and the
    number of streams by those that were opened, though none is over, so that answers to all of them wait.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._streams_finished: _FinishedStreams = _FinishedStreams()

    def _write_connection_limits(self, *arguments: Any, **named: Any) -> None:
        if sum(len(stream.receiver._buffer) for stream in self._streams.values()) > MOST_AHEAD:
            return
        for kind, limit in ((0, self._local_max_streams_bidi), (2, self._local_max_streams_uni)):
            allowed = self._streams_finished.of_kind[kind + self._is_client] + MOST_STREAMS
            limit.used = 0  # else it would be doubled
            if allowed - limit.value >= MOST_STREAMS // 2:
                limit.value = allowed
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


#: as in ``bounded_http``
REPLACED = (
    (_http3, "LayeredH3Connection", BoundedH3),
    (QUIC_LAYERS, "QuicConnection", BoundedQuic),
    (aioquic.quic.stream, "QuicStreamReceiver", BoundedReceiver),
    (aioquic.quic.connection, "QuicPacketSpace", BoundedPackets),
)
