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
from collections.abc import Awaitable, Callable, Generator, Iterable
from dataclasses import replace
from http import HTTPStatus
from logging import INFO
from typing import Any
from weakref import WeakKeyDictionary

from mitmproxy import flow, http
from mitmproxy.connection import Connection, ConnectionState, Server
from mitmproxy.net.http import http1, status_codes
from mitmproxy.net.http.http1.read import get_header_tokens
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import TCPLayer
from mitmproxy.proxy.layers import http as http_layer
from mitmproxy.proxy.layers.http import HttpLayer, HttpStream, SendHttp, _events
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import (
    RequestData,
    RequestHeaders,
    RequestTrailers,
    ResponseData,
    ResponseEndOfMessage,
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

from hushlist.core.errors import printable
from hushlist.core.url.http_head import tells_body
from hushlist.core.url.request_bodies import LONGEST_WHOLE_BODY, may_join_request
from hushlist.proxy.bodies_flow import USUALLY_WITHOUT, is_kept_whole, signs_in
from hushlist.proxy.bounds.bounded_http import MOST_WAITING
from hushlist.proxy.object_patches import put_on

_LENGTH, _ENCODING, _CONNECTION = "content-length", "transfer-encoding", "connection"
_UPGRADE, _SETTINGS, _H2C = "upgrade", "http2-settings", "h2c"
_CLOSE, _CHUNKED, _HTTP_1_1 = "close", "chunked", "HTTP/1.1"
#: fields that say where a message ends, and what becomes of its connection, as they are in ``Headers.fields``: to look
#: at these costs a tenth of asking ``Headers`` for a name
_FRAMING = frozenset(name.encode() for name in (_LENGTH, _ENCODING, _CONNECTION, _UPGRADE))
_BY_LENGTH_ALONE = {_LENGTH.encode()}
#: how mitmproxy tells that a request is too long; before version 12, by a status
_CODES: Any = getattr(_events, "ErrorCode", None)
_TOO_LARGE: Any = HTTPStatus.REQUEST_ENTITY_TOO_LARGE.value if _CODES is None else _CODES.REQUEST_TOO_LARGE

_Steps = Generator[Any, Any, Any]


class FramedClient(Http1Client):
    """Asks an origin: it is told where a body ends, and its connection ends behind one."""

    #: whether the connection may become one for another protocol, and whether it ends behind the answer
    _may_switch = _ends = _is_chunked = False

    def send(self, event: Any) -> Any:
        """Send a part of a request; nothing behind the body."""
        if isinstance(event, RequestData):
            assert self.stream_id == event.stream_id
            return _sent_part(self.conn, event.data, is_chunked=self._is_chunked)
        if isinstance(event, RequestTrailers):
            return ()
        if isinstance(event, RequestHeaders):
            self._may_switch = _may_switch(event.request)
            self._ends = not event.end_stream and not _keeps_origin(event.request)
            sent = as_sent(event.request, has_body=not event.end_stream, may_switch=self._may_switch)
            self._is_chunked = not event.end_stream and _is_in_chunks(sent)
            if sent is not event.request:
                event = replace(event, request=sent)
        return super().send(event)

    def read_headers(self, event: Any) -> _Steps:
        """Read a response's head: that the origin ends its connection is for the proxy alone. So is that it has
        switched to a protocol in which nobody would decide anything."""
        for command in super().read_headers(event):
            if isinstance(command, ReceiveHttp) and isinstance(command.event, ResponseHeaders):
                response = command.event.response
                if response.status_code == HTTPStatus.SWITCHING_PROTOCOLS and not self._can_switch(response):
                    yield from self._refuse_switch(response)
                    return
                has_option = b"connection" in _framing_of(response)
                if has_option and _CLOSE in get_header_tokens(response.headers, _CONNECTION):
                    self.response = response.copy()
                    _remove_close(response.headers)
            yield command

    def _can_switch(self, response: http.Response) -> bool:
        """Whether the protocol is WebSocket, by what mitmproxy goes by, or any may be switched to."""
        is_websocket = response.headers.get(_UPGRADE, "").lower() == "websocket"
        version = self.request.headers.get("sec-websocket-version") if self.request is not None else None
        return self._may_switch or (is_websocket and version == "13" and self.context.options.websocket)

    def _refuse_switch(self, response: http.Response) -> _Steps:
        assert self.request is not None
        assert self.stream_id is not None
        host, protocol = self.request.host, response.headers.get(_UPGRADE, "a protocol without a name")
        why = (
            f"{host} has switched to {printable(protocol)[:100]}, which the filter cannot read, and nobody passes it "
            f"through. To do so, name {host} under pass-through in the policy."
        )
        yield commands.Log(f"hushlist: {why}", INFO)
        yield commands.CloseConnection(self.conn)
        self.state = self.done
        yield ReceiveHttp(_error_of_origin(self.stream_id, why))

    def mark_done(self, *, request: bool = False, response: bool = False) -> _Steps:
        """End the connection behind a body, also where the origin was not told, since it may switch protocols."""
        yield from super().mark_done(request=request, response=response)
        if self._ends and self.state == self.read_headers and self.request is None:
            yield commands.CloseConnection(self.conn)
            self.state = self.done


class FramedServer(Http1Server):
    """Answers a client: its connection ends only behind an answer that says so. What it sends behind an open request
    is no head of so many octets; it waits, and when there is much of it, nothing more is read of the connection.

    Spec: RFC 9112, 9.3.2: a client "MAY pipeline its requests"
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._waiting: deque[bytes] = deque()
        self._waits = 0
        self._is_chunked = False

    def _handle_event(self, event: Any) -> _Steps:
        if self.state == self.wait and isinstance(event, events.DataReceived) and self._can_wait():
            return self._let_wait(event.data)
        steps: _Steps = super()._handle_event(event)
        return steps

    def _let_wait(self, data: bytes) -> _Steps:
        self._waiting.append(data)
        self._waits += len(data)
        if self._waits > MOST_WAITING:
            _full.setdefault(self.conn, asyncio.Event())
        yield from ()

    def _can_wait(self) -> bool:
        """Whether nothing else waits with it: over HTTP/2, the client's leave to send it the answer would."""
        ends = (layer.connections.get(self.conn) for layer in self.context.layers if isinstance(layer, HttpLayer))
        return not any(isinstance(end, Http2Connection | Http3Connection) for end in ends)

    def mark_done(self, *, request: bool = False, response: bool = False) -> _Steps:
        """Go on to the next request when one has ended, and its answer."""
        yield from super().mark_done(request=request, response=response)
        while self._waiting and self.state not in (self.wait, self.done):
            data = self._waiting.popleft()
            self._waits -= len(data)
            yield from self._handle_event(events.DataReceived(self.conn, data))
        if self._waits <= MOST_WAITING and (full := _full.pop(self.conn, None)) is not None:
            full.set()

    def send(self, event: Any) -> Any:
        """Send a part of a response; nothing behind the body."""
        if isinstance(event, ResponseData):
            assert self.stream_id == event.stream_id
            return _sent_part(self.conn, event.data, is_chunked=self._is_chunked)
        if isinstance(event, ResponseTrailers):
            return ()
        if isinstance(event, ResponseHeaders):
            if self.request is not None:
                answered = as_answered(self.request, event.response)
                if answered is not event.response:
                    event = replace(event, response=answered)
            self._is_chunked = _is_in_chunks(event.response)
        return super().send(event)


def _framing_of(message: http.Message) -> set[bytes]:
    """Which of the fields a message has that say where it ends, and what becomes of its connection."""
    return {name for key, _ in message.headers.fields if (name := key.lower()) in _FRAMING}


def _is_in_chunks(message: http.Message) -> bool:
    return b"transfer-encoding" in _framing_of(message) and _CHUNKED in message.headers[_ENCODING].lower()


def _sent_part(to: Connection, data: bytes, *, is_chunked: bool) -> Iterable[commands.Command]:
    """What sends a part of a body; no empty part, which would end a body of chunks."""
    if not data:
        return ()
    return (commands.SendData(to, b"%x\r\n%b\r\n" % (len(data), data) if is_chunked else data),)


def _error_of_origin(stream_id: int, why: str) -> ResponseProtocolError:
    return ResponseProtocolError(stream_id, why, *(() if _CODES is None else (_CODES.GENERIC_SERVER_ERROR,)))


def as_sent(request: http.Request, *, has_body: bool, may_switch: bool = False) -> http.Request:
    """A request as an HTTP/1 origin gets it."""
    has_upgrade = not may_switch and b"upgrade" in _framing_of(request)
    keeps_upgrade = not has_upgrade or _H2C not in request.headers[_UPGRADE].lower()
    if not has_body and keeps_upgrade and not tells_body(request.headers.fields):
        return request
    sent = request.copy()
    headers = sent.headers
    if not keeps_upgrade:
        _remove_h2c(headers)
    if has_body:
        if _LENGTH not in headers and _ENCODING not in headers:
            content = sent.raw_content
            headers[_LENGTH if content else _ENCODING] = str(len(content)) if content else _CHUNKED
    elif _ENCODING in headers:
        del headers[_ENCODING]
        if sent.method.upper() not in USUALLY_WITHOUT:
            headers[_LENGTH] = "0"
        return sent
    ends = has_body or tells_body(headers.fields)
    if ends and not (may_switch and _UPGRADE in headers) and not _keeps_origin(sent):
        headers[_CONNECTION] = _CLOSE
    return sent


def _keeps_origin(request: http.Request) -> bool:
    """Whether the origin's connection goes on behind a body: a sign-in needs it, and not even an origin that takes all
    of the body for the next request, or for its beginning, finds another target than one that is decided."""
    content = request.raw_content
    if content is None or not signs_in(request) or request.method.upper() in USUALLY_WITHOUT:
        return False
    return not may_join_request(content)


def as_answered(request: http.Request, response: http.Response) -> http.Response:
    """A response as an HTTP/1 client gets it: with an end, or with the word that its connection ends behind it.

    Spec: RFC 9112, 2.3: who forwards a message sends its own version; 9.6: a server that ends a connection "SHOULD
    send a "close" connection option"
    """
    is_usual = request.data.http_version == response.data.http_version == b"HTTP/1.1"
    if is_usual and _framing_of(response) == _BY_LENGTH_ALONE and b"connection" not in _framing_of(request):
        return response  # as most: it has an end, and the connection goes on
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


def _remove_h2c(headers: http.Headers) -> None:
    """Ask for no switch to HTTP/2, which clients ask for in case that an origin knows it; mitmproxy does not."""
    _remove(headers, _UPGRADE, _H2C)
    headers.pop(_SETTINGS, None)
    for name in (_SETTINGS, *([] if _UPGRADE in headers else [_UPGRADE])):
        _remove(headers, _CONNECTION, name)


def _remove_close(headers: http.Headers) -> None:
    _remove(headers, _CONNECTION, _CLOSE)


def _remove(headers: http.Headers, name: str, removed: str) -> None:
    tokens = get_header_tokens(headers, name)
    kept = [token for token in tokens if token.lower() != removed]
    if kept:
        headers[name] = ", ".join(kept)
    elif tokens:
        del headers[name]


# -- other protocols ---------------------------------------------------------------------------------------------------

#: requests behind which a connection may become one for a protocol that nobody reads, and where to
_switching: WeakKeyDictionary[http.Request, tuple[str, int]] = WeakKeyDictionary()


def let_switch(request: http.Request) -> None:
    """Let the connection of a request become one for any other protocol (``Upgrade``), if it goes where it does now."""
    _switching[request] = request.host, request.port


def _may_switch(request: http.Request) -> bool:
    return request in _switching and _switching[request] == (request.host, request.port)


def _relay_behind_switch(end: Callable[..., _Steps], stream: HttpStream) -> _Steps:
    """End a request; behind one by which the protocol was switched, pass on what comes, as mitmproxy does with its
    option ``rawtcp``."""
    response = stream.flow.response
    is_switched = response is not None and response.status_code == HTTPStatus.SWITCHING_PROTOCOLS
    if not is_switched or stream.flow.websocket or not _may_switch(stream.flow.request):
        yield from end(stream)
        return
    stream.flow.live = False
    stream.child_layer = TCPLayer(stream.context)
    put_on(stream, "_handle_event", stream.passthrough)
    yield from stream.child_layer.handle_event(events.Start())
    yield SendHttp(ResponseEndOfMessage(stream.stream_id), stream.context.client)


#: clients of whom much waits; until it has been read, nothing more is
_full: WeakKeyDictionary[Connection, asyncio.Event] = WeakKeyDictionary()


def _read_no_more(drain: Callable[..., Awaitable[None]], handler: ConnectionHandler) -> Awaitable[None]:
    """Wait, behind what was read of a connection, until more may be read of it."""
    return _until_not_full(drain(handler), handler) if _full else drain(handler)


async def _until_not_full(drained: Awaitable[None], handler: ConnectionHandler) -> None:
    await drained
    full, io = _full.get(handler.client), handler.transports.get(handler.client)
    if full is not None and io is not None and io.handler is asyncio.current_task():
        await full.wait()


# -- what waits for its end --------------------------------------------------------------------------------------------


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
    ended = [connection for connection in layer.connections if connection.state is ConnectionState.CLOSED]
    if not ended:
        return
    used = {stream.context.server for stream in layer.streams.values()} | {layer.context.server, layer.context.client}
    for connection in ended:
        if not _is_opening(connection) and connection not in used and connection not in layer.waiting_for_establishment:
            del layer.connections[connection]


def _is_opening(connection: Any) -> bool:
    """Whether a server is being connected to for a tunnel: mitmproxy says of it, too, that it is closed."""
    has_own = isinstance(connection, Server) and connection.transport_protocol == "tcp" and connection.via is None
    return has_own and connection.peername is None and connection.error is None and connection.timestamp_end is None


def _connect_anew(connect: Callable[..., _Steps], layer: HttpLayer, event: Any, **named: Any) -> _Steps:
    """Find a connection to an origin among those that have not ended: mitmproxy keeps all, for as long as the client's
    lasts, and looks at each for every request."""
    _forget_ended(layer)
    yield from connect(layer, event, **named)


def _handle_known(handle: Callable[..., _Steps], layer: HttpLayer, event: Any) -> _Steps:
    """Handle an event, unless it comes from a connection that is forgotten."""
    is_end = isinstance(event, events.ConnectionClosed)
    if is_end or (isinstance(event, events.ConnectionEvent) and event.connection.state is ConnectionState.CLOSED):
        return _handle_ended(handle, layer, event, is_end=is_end)
    return handle(layer, event)


def _handle_ended(handle: Callable[..., _Steps], layer: HttpLayer, event: Any, *, is_end: bool) -> _Steps:
    is_closed = event.connection.state is ConnectionState.CLOSED
    if not is_closed or event.connection in layer.connections or event.connection is layer.context.server:
        yield from handle(layer, event)
    if is_end:
        _forget_ended(layer)


#: as in ``bounded_http``
REPLACED = (
    (http_layer, "Http1Client", FramedClient),
    (http_layer, "Http1Server", FramedServer),
)
WRAPPED = (
    (_stream_no_whole_body, ("start_request_stream",), (HttpStream,)),
    (_bound_whole_body, ("check_body_size",), (HttpStream,)),
    (_relay_behind_switch, ("flow_done",), (HttpStream,)),
    (_connect_anew, ("get_connection",), (HttpLayer,)),
    (_handle_known, ("_handle_event",), (HttpLayer,)),
    (_read_no_more, ("drain_writers",), (ConnectionHandler,)),
)
