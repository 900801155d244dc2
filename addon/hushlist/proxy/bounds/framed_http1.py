"""Where a message of HTTP/1 ends, and which connection ends behind it.

No part of a request's body may be taken for the next request, which nobody has decided. An HTTP/1.1 origin may answer
without reading the body, and go on reading after the head. So it is told that the connection carries no other request,
and the connection ends. That is between the proxy and the origin: the client's connection goes on, unless the client
wants it to end, or nothing else can end the answer. Then the client is told.

A body from HTTP/2 or HTTP/3 ends by its frames, and may have no stated length. mitmproxy would send it behind the head
as it is, and an HTTP/1.1 origin would take all of it for the next request; so its length is stated, or it is chunked.

Spec: RFC 9112, 6.3: without Content-Length and Transfer-Encoding, "the message body length is zero"; 9.6: of whom it
tells `close`, a server "MUST NOT process any further requests received on that connection"; RFC 9110, 7.6.1: Connection
is for the next recipient alone
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from dataclasses import replace
from http import HTTPStatus
from typing import Any
from weakref import WeakKeyDictionary

from mitmproxy import flow, http
from mitmproxy.connection import Connection, ConnectionState
from mitmproxy.net.http import http1, status_codes
from mitmproxy.net.http.http1.read import get_header_tokens
from mitmproxy.proxy import events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import http as http_layer
from mitmproxy.proxy.layers.http import HttpLayer, HttpStream, SendHttp, _events
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import (
    RequestData,
    RequestHeaders,
    RequestTrailers,
    ResponseData,
    ResponseHeaders,
    ResponseProtocolError,
    ResponseTrailers,
)
from mitmproxy.proxy.layers.http._hooks import HttpErrorHook
from mitmproxy.proxy.layers.http._http1 import Http1Client, Http1Server, should_make_pipe
from mitmproxy.proxy.layers.http._http2 import Http2Connection
from mitmproxy.proxy.layers.http._http3 import Http3Connection
from mitmproxy.proxy.server import ConnectionHandler
from mitmproxy.utils import human

from hushlist.proxy.bounds.bounded_http import MOST_WAITING
from hushlist.url.http_head import LONGEST_WHOLE_BODY, tells_body

_USUALLY_WITHOUT = frozenset(("GET", "HEAD", "OPTIONS", "TRACE"))
_LENGTH, _ENCODING, _CONNECTION = "content-length", "transfer-encoding", "connection"
_CLOSE, _CHUNKED, _HTTP_1_1 = "close", "chunked", "HTTP/1.1"
#: how mitmproxy tells that a request is too long; before version 12, by a status
_CODES: Any = getattr(_events, "ErrorCode", None)
_TOO_LARGE: Any = HTTPStatus.REQUEST_ENTITY_TOO_LARGE.value if _CODES is None else _CODES.REQUEST_TOO_LARGE

_Steps = Generator[Any, Any, Any]


class FramedClient(Http1Client):
    """Asks an origin: it is told where a body ends, and its connection ends behind one."""

    def send(self, event: Any) -> _Steps:
        """Send a part of a request; no empty part, which would end a body of chunks, and nothing behind the body."""
        if isinstance(event, RequestTrailers) or (isinstance(event, RequestData) and not event.data):
            return
        if isinstance(event, RequestHeaders):
            event = replace(event, request=as_sent(event.request, has_body=not event.end_stream))
        yield from super().send(event)

    def read_headers(self, event: Any) -> _Steps:
        """Read a response's head: that the origin ends its connection is for the proxy alone."""
        for command in super().read_headers(event):
            if isinstance(command, ReceiveHttp) and isinstance(command.event, ResponseHeaders):
                response = command.event.response
                if _CLOSE in get_header_tokens(response.headers, _CONNECTION):
                    self.response = response.copy()
                    _remove_close(response.headers)
            yield command


class FramedServer(Http1Server):
    """Answers a client: its connection ends only behind an answer that says so. What it sends behind an open request
    is no head of so many octets; it waits, and when there is much of it, nothing more is read of the connection.

    Spec: RFC 9112, 9.3.2: a client "MAY pipeline its requests"
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._waiting: deque[bytes] = deque()
        self._waits = 0

    def _handle_event(self, event: Any) -> _Steps:
        if isinstance(event, events.DataReceived) and self.state == self.wait and self._can_wait():
            self._waiting.append(event.data)
            self._waits += len(event.data)
            if self._waits > MOST_WAITING:
                _full.setdefault(self.conn, asyncio.Event())
        else:
            yield from super()._handle_event(event)

    def _can_wait(self) -> bool:
        """Whether nothing else waits with it: over HTTP/2, the client's leave to send it the answer would."""
        own = (one.connections.get(self.conn) for one in self.context.layers if isinstance(one, HttpLayer))
        return not any(isinstance(one, Http2Connection | Http3Connection) for one in own)

    def mark_done(self, *, request: bool = False, response: bool = False) -> _Steps:
        """Go on to the next request when one has ended, and its answer."""
        yield from super().mark_done(request=request, response=response)
        while self._waiting and self.state not in (self.wait, self.done):
            data = self._waiting.popleft()
            self._waits -= len(data)
            yield from self._handle_event(events.DataReceived(self.conn, data))
        if self._waits <= MOST_WAITING and (full := _full.pop(self.conn, None)) is not None:
            full.set()

    def send(self, event: Any) -> _Steps:
        """Send a part of a response; no empty part, which would end a body of chunks, and nothing behind the body."""
        if isinstance(event, ResponseTrailers) or (isinstance(event, ResponseData) and not event.data):
            return
        if isinstance(event, ResponseHeaders) and self.request is not None:
            event = replace(event, response=as_answered(self.request, event.response))
        yield from super().send(event)


def as_sent(request: http.Request, *, has_body: bool) -> http.Request:
    """A request as an HTTP/1 origin gets it."""
    if not has_body and not tells_body(request.headers.fields):
        return request
    sent = request.copy()
    headers = sent.headers
    if has_body:
        if _LENGTH not in headers and _ENCODING not in headers:
            content = sent.raw_content
            headers[_LENGTH if content else _ENCODING] = str(len(content)) if content else _CHUNKED
    elif _ENCODING in headers:
        del headers[_ENCODING]
        if sent.method.upper() not in _USUALLY_WITHOUT:
            headers[_LENGTH] = "0"
        return sent
    headers[_CONNECTION] = _CLOSE
    return sent


def as_answered(request: http.Request, response: http.Response) -> http.Response:
    """A response as an HTTP/1 client gets it: with an end, or with the word that its connection ends behind it.

    Spec: RFC 9112, 2.3: who forwards a message sends its own version; 9.6: a server that ends a connection "SHOULD
    send a "close" connection option"
    """
    if response.status_code < HTTPStatus.OK or should_make_pipe(request, response):
        return response
    try:
        size = http1.expected_http_body_size(request, response)
    except ValueError:
        return response
    headers, is_new = response.headers, request.http_version == _HTTP_1_1
    is_framed = response.is_http2 or response.is_http3
    version = _HTTP_1_1 if is_new or is_framed else response.http_version
    has_no_end = size == -1
    can_end = has_no_end and is_new and _ENCODING not in headers
    ends = (
        (has_no_end and not can_end)
        or http1.connection_close(request.http_version, request.headers)
        or http1.connection_close(version, headers)
    )
    tells = ends and _CLOSE not in get_header_tokens(headers, _CONNECTION)
    if not (can_end or tells or version != response.http_version):
        return response
    answered = response.copy()
    answered.http_version = version
    if is_framed:
        answered.reason = status_codes.RESPONSES.get(answered.status_code, "")
    if can_end:
        content = answered.raw_content
        headers = answered.headers
        headers[_ENCODING if content is None else _LENGTH] = _CHUNKED if content is None else str(len(content))
    if tells:
        answered.headers[_CONNECTION] = _CLOSE
    return answered


def _remove_close(headers: http.Headers) -> None:
    kept = [token for token in get_header_tokens(headers, _CONNECTION) if token != _CLOSE]
    if kept:
        headers[_CONNECTION] = ", ".join(kept)
    else:
        del headers[_CONNECTION]


#: clients of whom much waits; until it has been read, nothing more is
_full: WeakKeyDictionary[Connection, asyncio.Event] = WeakKeyDictionary()


async def _read_no_more(drain: Callable[..., Awaitable[None]], handler: ConnectionHandler) -> None:
    """Wait, behind what was read of a connection, until more may be read of it."""
    await drain(handler)
    full, io = _full.get(handler.client), handler.transports.get(handler.client)
    if full is not None and io is not None and io.handler is asyncio.current_task():
        await full.wait()


# -- what waits for its end --------------------------------------------------------------------------------------------


def is_kept_whole(request: http.Request) -> bool:
    """Whether no part of a request goes on before its body has ended: it is decided by the body, too.

    Most requests of these methods have none, which nobody knows before the end where it is chunked, or in HTTP/2.
    """
    return request.method.upper() in _USUALLY_WITHOUT


def _stream_no_whole_body(start: Callable[..., _Steps], stream: HttpStream) -> _Steps:
    """Begin to send a request whose body has not ended, unless it is to be kept whole, whoever wants it streamed."""
    if not is_kept_whole(stream.flow.request):
        yield from start(stream)
        return
    stream.flow.request.stream = False
    stream.client_state = stream.state_consume_request_body


def _bound_whole_body(check: Callable[..., _Steps], stream: HttpStream, request: bool) -> _Steps:
    """Whether a message is too long, and was refused; what is kept whole is never too long to be kept."""
    if not (request and is_kept_whole(stream.flow.request)):
        return (yield from check(stream, request))
    most = human.parse_size(stream.context.options.body_size_limit)
    most = LONGEST_WHOLE_BODY if most is None else min(most, LONGEST_WHOLE_BODY)
    if len(stream.request_body_buf) <= most:
        return False
    if stream.flow.response is not None:  # it goes nowhere, and is answered at its end
        stream.request_body_buf.clear()
        return False
    why = f"A body of {stream.flow.request.method} has {most:,} octets at most."
    stream.request_body_buf.clear()
    stream.flow.error = flow.Error(why)
    yield HttpErrorHook(stream.flow)
    yield SendHttp(ResponseProtocolError(stream.stream_id, why, _TOO_LARGE), stream.context.client)
    stream.client_state = stream.state_errored
    stream.flow.live = False
    return True


# -- what is kept of connections that have ended -----------------------------------------------------------------------


def _forget_ended(layer: HttpLayer) -> None:
    used = {stream.context.server for stream in layer.streams.values()} | {layer.context.server, layer.context.client}
    for connection in [one for one in layer.connections if one.state is ConnectionState.CLOSED]:
        if connection not in used and connection not in layer.waiting_for_establishment:
            del layer.connections[connection]


def _connect_anew(connect: Callable[..., _Steps], layer: HttpLayer, event: Any, **named: Any) -> _Steps:
    """Find a connection to an origin among those that have not ended: mitmproxy keeps all, for as long as the client's
    lasts, and looks at each for every request."""
    _forget_ended(layer)
    yield from connect(layer, event, **named)


def _handle_known(handle: Callable[..., _Steps], layer: HttpLayer, event: Any) -> _Steps:
    """Handle an event, unless it comes from a connection that is forgotten."""
    is_known = True
    if isinstance(event, events.ConnectionEvent) and event.connection.state is ConnectionState.CLOSED:
        is_known = event.connection in layer.connections or event.connection is layer.context.server
    if is_known:
        yield from handle(layer, event)
    if isinstance(event, events.ConnectionClosed):
        _forget_ended(layer)


#: as in ``bounded_http``
REPLACED = (
    (http_layer, "Http1Client", FramedClient),
    (http_layer, "Http1Server", FramedServer),
)
WRAPPED = (
    (_stream_no_whole_body, ("start_request_stream",), (HttpStream,)),
    (_bound_whole_body, ("check_body_size",), (HttpStream,)),
    (_connect_anew, ("get_connection",), (HttpLayer,)),
    (_handle_known, ("_handle_event",), (HttpLayer,)),
    (_read_no_more, ("drain_writers",), (ConnectionHandler,)),
)
