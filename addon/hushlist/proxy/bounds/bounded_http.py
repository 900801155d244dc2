"""Bounds of HTTP/1 and HTTP/2: heads without end, folded lines, tables of header fields, requests taken back; and what
mitmproxy takes for a final answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import Any

import h2.connection
from h2.events import Event as H2Event
from h2.events import RequestReceived, StreamReset, UnknownFrameReceived
from h2.settings import SettingCodes
from h11 import EndOfMessage
from h11._readers import ChunkedReader
from h11._receivebuffer import ReceiveBuffer
from hpack import Encoder
from mitmproxy import http
from mitmproxy.addons import next_layer
from mitmproxy.net.http.http1 import read
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http import HttpStream, _http1, _http2
from mitmproxy.proxy.layers.http._events import (
    RequestEndOfMessage,
    RequestProtocolError,
    RequestTrailers,
    ResponseEndOfMessage,
    ResponseProtocolError,
)
from mitmproxy.proxy.layers.tls import HTTP1_ALPNS

from hushlist.core.url.http_head import HEAD_LIMIT, LONGEST_HEADERS
from hushlist.proxy.bounds.bounded_names import LONGEST_HELLO
from hushlist.proxy.bounds.flow_windows import FlowingH2
from hushlist.proxy.object_patches import put_on

#: octets that wait to be read as HTTP/1, by default: four times what a head may have
MOST_WAITING = 4 * LONGEST_HEADERS
#: lines of a header field
MOST_FOLDS = 1 << 6
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
        if len(self) > 4 * HEAD_LIMIT.octets:
            self.maybe_extract_at_most(len(self))
            super().__iadd__(_NOTHING)
        return self

    def maybe_extract_next_line(self) -> bytearray | None:
        """The first line, if it is complete."""
        line = super().maybe_extract_next_line()
        return line if line is None or line.index(b"\n") == len(line) - 1 else bytearray(_NOTHING)


_INTERIM = re.compile(rb"HTTP/1\.[0-9] 1(?!01)[0-9]{2}(?: |$)")


class FinalHeads(BoundedBuffer):
    """What waits to be read of an origin, without the heads before the final one, such as early hints: mitmproxy would
    take the first of them for the answer, and what follows for nonsense.

    Spec: RFC 9110, 15.2: a client has to read them "even if it does not expect one"
    """

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """The lines of the first head that is final, if it is complete."""
        lines = super().maybe_extract_lines()
        while lines and _INTERIM.match(lines[0]):
            lines = super().maybe_extract_lines()
        return lines


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


class BoundedH2(FlowingH2):
    """HTTP/2 without settings and frames that nobody knows, of which h2 keeps and mitmproxy logs each one, and without
    requests that a client takes back at once: so it could begin any number of them, before anybody else has a turn.

    Spec: RFC 9113, 4.1 and 6.5.2: what is unknown is ignored; 5.4.2
    """

    @property
    def DEFAULT_MAX_HEADER_LIST_SIZE(self) -> int:  # noqa: N802
        """In the place of a constant of ``H2Connection``."""
        return HEAD_LIMIT.octets

    def receive_data(self, data: bytes) -> list[H2Event]:
        events = super().receive_data(data)
        if len(self.remote_settings) > len(_SETTINGS):
            for unknown in {*self.remote_settings} - _SETTINGS:
                del self.remote_settings[unknown]
        reset = {event.stream_id for event in events if isinstance(event, StreamReset)}
        return [
            event
            for event in events
            if not isinstance(event, UnknownFrameReceived)
            and not (isinstance(event, RequestReceived) and event.stream_id in reset)
        ]


def _read_few_folds(read_headers: Callable[..., http.Headers], lines: list[bytes]) -> http.Headers:
    """Read header fields: no field has many lines, each of which would copy those before it."""
    if sum(line[:1] in (b" ", b"\t") for line in lines) > MOST_FOLDS:
        raise ValueError("too many folded lines")
    return read_headers(lines)


def _begin_with_final_heads(begin: Callable[..., None], client: _http1.Http1Client, context: Context) -> None:
    """Begin to read an origin: no head but the final one."""
    begin(client, context)
    put_on(client, "buf", FinalHeads())


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
    match = _HOST_LINE.search(data_client)
    if match is None and len(data_client) < LONGEST_HELLO:
        raise next_layer.NeedsMoreData
    host = match[1] if match else None
    return host.strip().decode("utf-8", "surrogateescape") if host else None


def _pass_on_any_end(
    pass_on: Callable[..., Generator[Any, Any, None]], stream: HttpStream, event: Any
) -> Generator[Any, Any, None]:
    """Pass a tunnel's octets on: it ends however its stream ends, where mitmproxy fails, and has no trailers."""
    if isinstance(event, RequestProtocolError):
        event = RequestEndOfMessage(event.stream_id)
    elif isinstance(event, ResponseProtocolError):
        event = ResponseEndOfMessage(event.stream_id)
    return _no_steps() if isinstance(event, RequestTrailers) else pass_on(stream, event)


def _no_steps() -> Generator[Any, Any, None]:
    yield from ()


#: what stands in the place of what mitmproxy reads with; and what is called in the place of functions of it, which it
#: gets first: their names and modules
REPLACED = (
    (_http1, "ReceiveBuffer", BoundedBuffer),
    (_http1, "ChunkedReader", ChunksAlone),
    (h2.connection, "Encoder", BoundedEncoder),
    (_http2, "BufferedH2Connection", BoundedH2),
    (next_layer.NextLayer, "_get_host_header", staticmethod(_host_header)),
)
WRAPPED = (
    (_read_few_folds, ("_read_headers",), (read,)),
    (_pass_on_any_end, ("passthrough",), (HttpStream,)),
    (_begin_with_final_heads, ("__init__",), (_http1.Http1Client,)),
)
