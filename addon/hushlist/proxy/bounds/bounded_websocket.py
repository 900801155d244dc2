"""Bounds of WebSockets, and of what is kept of messages: long ones, many ones, compressed ones."""

from __future__ import annotations

import zlib
from collections.abc import Generator, MutableSequence
from dataclasses import dataclass, replace
from typing import Any

import wsproto.extensions
from mitmproxy import http, tcp, udp
from mitmproxy.proxy.layers import websocket as websocket_layer
from mitmproxy.proxy.layers.websocket import WebsocketConnection
from wsproto.events import CloseConnection, Event, Message, Ping, Pong
from wsproto.extensions import PerMessageDeflate
from wsproto.frame_protocol import CloseReason

#: octets of a WebSocket's message, by default, and of the last messages of a connection, of which there are no more
#: than so many
LONGEST_MESSAGE, MOST_MESSAGES = 1 << 24, 100


@dataclass
class MessageLimit:
    """How long a message may be."""

    octets: int = LONGEST_MESSAGE


#: what the proxy's option says
MESSAGE_LIMIT = MessageLimit()


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
        last: dict[type, Event] = {}
        for event in super().events():
            if isinstance(event, Ping | Pong):
                last[type(event)] = event
                continue
            if isinstance(event, CloseConnection):
                last.clear()  # nothing follows it
            if isinstance(event, Message):
                self._octets += 1 + len(event.data)  # a message may have any number of empty frames
                if self._octets > MESSAGE_LIMIT.octets:
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
            unpacked = self._decompressor.decompress(bytes(data), MESSAGE_LIMIT.octets)
        except zlib.error:
            return CloseReason.INVALID_FRAME_PAYLOAD_DATA
        return CloseReason.MESSAGE_TOO_BIG if self._decompressor.unconsumed_tail else unpacked


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
    while sum(len(message.content) for message in messages) > MESSAGE_LIMIT.octets:
        del messages[0]


#: as in ``bounded_http``
REPLACED = (
    (websocket_layer, "WebsocketConnection", BoundedWebsocket),
    (wsproto.extensions, "PerMessageDeflate", BoundedDeflate),
)
