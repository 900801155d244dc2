"""HTTP/1 as it is sent: where bodies end, which connections end, and who is told."""

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from mitmproxy import connection, http
from mitmproxy.connection import ConnectionState
from mitmproxy.options import Options
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import http as http_layer
from mitmproxy.proxy.layers.http import HTTPMode
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import (
    RequestData,
    RequestEndOfMessage,
    RequestHeaders,
    RequestTrailers,
    ResponseData,
    ResponseEndOfMessage,
    ResponseHeaders,
    ResponseTrailers,
)
from mitmproxy.test import tflow

from hushlist.proxy.bodies_flow import is_kept_whole
from hushlist.proxy.bounds.bounded_http import MOST_WAITING
from hushlist.proxy.bounds.bounded_input import bound_input
from hushlist.proxy.bounds.framed_http1 import (
    LONGEST_WHOLE_BODY,
    WRAPPED,
    FramedClient,
    FramedServer,
    as_answered,
    as_sent,
    let_switch,
)
from unit.rows import each_row

CLOSE = {"connection": "close"}
CHUNKED = {"transfer-encoding": "chunked"}


def request_of(
    headers: dict[str, str], *, method: str = "POST", version: str = "HTTP/1.1", body: bytes | None = None
) -> http.Request:
    request = http.Request.make(method, "http://good.example/", headers=http.Headers())
    request.headers.clear()
    request.headers.update(headers)
    request.http_version, request.data.content = version, body
    return request


def response_of(headers: dict[str, str], *, version: str = "HTTP/1.1", status: int = 200) -> http.Response:
    response = http.Response.make(status)
    response.headers.clear()
    response.headers.update(headers)
    response.http_version, response.data.content = version, None
    return response


@each_row(
    ("request_", "has_body", "sent"),
    [
        (request_of({"content-length": "4"}), True, {"content-length": "4", **CLOSE}),
        (request_of({"content-length": "4", "connection": "Keep-Alive, x"}), True, {"content-length": "4", **CLOSE}),
        (request_of(CHUNKED), True, {**CHUNKED, **CLOSE}),
        (request_of({}, version="HTTP/2.0"), True, {**CHUNKED, **CLOSE}),
        (request_of({}, version="HTTP/3"), True, {**CHUNKED, **CLOSE}),
        (request_of({}, version="HTTP/2.0", body=b"body"), True, {"content-length": "4", **CLOSE}),
        (request_of({"connection": "keep-alive"}), False, {"connection": "keep-alive"}),
        (request_of({"content-length": "0"}), False, {"content-length": "0"}),
        (request_of(CHUNKED), False, {"content-length": "0"}),
        (request_of(CHUNKED, method="GET"), False, {}),
        (request_of({"content-length": "4"}), False, {"content-length": "4", **CLOSE}),
    ],
)
def test_a_request_with_a_body_has_an_end_and_is_the_last_of_its_connection(
    request_: http.Request, has_body: bool, sent: dict[str, str]
) -> None:
    before = request_.headers.fields
    assert dict(as_sent(request_, has_body=has_body).headers) == sent
    assert request_.headers.fields == before  # what is kept of it, and how the client's connection ends, stay


@each_row(
    ("headers", "sent"),
    [
        (
            {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2-settings": "AAMAAABkAAQAAP__"},
            {},
        ),
        ({"connection": "upgrade, x", "upgrade": "foo, H2C"}, {"connection": "upgrade, x", "upgrade": "foo"}),
        ({"connection": "upgrade", "upgrade": "tcp"}, {"connection": "upgrade", "upgrade": "tcp"}),
        ({"upgrade": "h2c", "content-length": "4"}, {"content-length": "4", **CLOSE}),
    ],
)
def test_no_switch_to_http_2_is_asked_for(headers: dict[str, str], sent: dict[str, str]) -> None:
    assert dict(as_sent(request_of(headers), has_body="content-length" in headers).headers) == sent
    assert dict(as_sent(request_of(headers), has_body=True, may_switch=True).headers).items() >= headers.items()


NTLM = {"authorization": "NTLM TlRMTVNTUAABAAAA"}


@each_row(
    ("headers", "body", "ends", "is_whole"),
    [
        (NTLM, b'{"a": 1}', False, True),
        ({"authorization": "negotiate YII"}, b"a=1", False, True),
        ({"authorization": "Basic YTpi"}, b"a=1", True, False),
        ({"authorization": "NTLMX"}, b"a=1", True, False),
        (NTLM, b"GET / HTTP/1.1\r\n\r\n", True, True),
        (NTLM, b"{ /x?", True, True),
        (NTLM, b" /x?", True, True),
        (NTLM, None, True, False),
        (NTLM, b"a" * LONGEST_WHOLE_BODY, False, True),
        (NTLM, b"a" * (LONGEST_WHOLE_BODY + 1), False, False),
    ],
)
def test_a_sign_in_keeps_the_origin_s_connection_where_no_body_can_be_taken_for_a_request(
    headers: dict[str, str], body: bytes | None, ends: bool, is_whole: bool
) -> None:
    length = CHUNKED if body is None else {"content-length": str(len(body))}
    request = request_of({**headers, **length}, body=body)
    assert (as_sent(request, has_body=True).headers.get("connection") == "close") is ends
    assert is_kept_whole(request) is is_whole
    client, _ = asking(request, b"a")
    answer = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
    assert closes(client.handle_event(events.DataReceived(client.conn, answer))) is ends


NEW, OLD = request_of({}), request_of({}, version="HTTP/1.0")
KEPT, ENDING = request_of({"connection": "keep-alive"}, version="HTTP/1.0"), request_of(CLOSE)
SIZE = {"content-length": "2"}


@each_row(
    ("request_", "response", "version", "answered"),
    [
        (NEW, response_of(SIZE), "HTTP/1.1", SIZE),
        (NEW, response_of(SIZE, version="HTTP/1.0"), "HTTP/1.1", SIZE),
        (NEW, response_of({}), "HTTP/1.1", CHUNKED),
        (NEW, response_of({}, version="HTTP/1.0"), "HTTP/1.1", CHUNKED),
        (NEW, response_of({}, version="HTTP/2.0"), "HTTP/1.1", CHUNKED),
        (NEW, response_of({}, version="HTTP/3"), "HTTP/1.1", CHUNKED),
        (NEW, response_of(SIZE, version="HTTP/3"), "HTTP/1.1", SIZE),
        (NEW, response_of({}, status=204), "HTTP/1.1", {}),
        (NEW, response_of({}, status=304), "HTTP/1.1", {}),
        (NEW, response_of({}, status=100), "HTTP/1.1", {}),
        (NEW, response_of({"upgrade": "x"}, status=101), "HTTP/1.1", {"upgrade": "x"}),
        (request_of({}, method="HEAD"), response_of({}), "HTTP/1.1", {}),
        (request_of({}, method="CONNECT", version="HTTP/1.0"), response_of({}), "HTTP/1.1", {}),
        # it has no other end
        (NEW, response_of({"transfer-encoding": "gzip"}), "HTTP/1.1", {"transfer-encoding": "gzip", **CLOSE}),
        (OLD, response_of({}), "HTTP/1.1", CLOSE),
        (KEPT, response_of({}), "HTTP/1.1", CLOSE),
        # the client wants it, or the proxy
        (OLD, response_of(SIZE), "HTTP/1.1", {**SIZE, **CLOSE}),
        (KEPT, response_of(SIZE), "HTTP/1.1", SIZE),
        (KEPT, response_of(SIZE, version="HTTP/1.0"), "HTTP/1.0", {**SIZE, **CLOSE}),
        (ENDING, response_of(SIZE), "HTTP/1.1", {**SIZE, **CLOSE}),
        (ENDING, response_of({}, version="HTTP/2.0"), "HTTP/1.1", {**CHUNKED, **CLOSE}),
        (NEW, response_of({**SIZE, **CLOSE}), "HTTP/1.1", {**SIZE, **CLOSE}),
        (NEW, response_of({"content-length": "x"}), "HTTP/1.1", {"content-length": "x"}),
    ],
)
def test_an_answer_has_an_end_or_says_that_the_connection_ends(
    request_: http.Request, response: http.Response, version: str, answered: dict[str, str]
) -> None:
    before = response.headers.fields
    given = as_answered(request_, response)
    assert (given.http_version, dict(given.headers)) == (version, answered)
    assert response.headers.fields == before


# -- on the wire -------------------------------------------------------------------------------------------------------


def context() -> Context:
    own = Context(tflow.tclient_conn(), Options())
    own.server = tflow.tserver_conn()
    own.client.alpn = None
    return own


def written(found: Iterable[Any]) -> bytes:
    return b"".join(one.data for one in found if isinstance(one, commands.SendData))


def closes(found: Iterable[Any]) -> bool:
    return any(isinstance(one, commands.CloseConnection) for one in found)


def asking(request: http.Request, *parts: bytes) -> tuple[FramedClient, list[Any]]:
    """A client that has sent a request, and what it did."""
    client = FramedClient(context())
    found = [*client.handle_event(events.Start())]
    for event in (
        RequestHeaders(1, request, not parts),
        *(RequestData(1, part) for part in parts),
        RequestTrailers(1, http.Headers(((b"host", b"blocked.example"),))),
        RequestEndOfMessage(1),
    ):
        found += client.handle_event(event)
    return client, found


def test_a_connection_that_did_not_switch_ends_behind_a_body_though_the_origin_is_not_told() -> None:
    request = request_of({"content-length": "2", "connection": "upgrade", "upgrade": "tcp"})
    let_switch(request)
    client, found = asking(request, b"ab")
    assert written(found).endswith(b"connection: upgrade\r\nupgrade: tcp\r\n\r\nab")
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    assert closes(client.handle_event(events.DataReceived(client.conn, answer)))


def test_no_empty_part_ends_chunks_and_no_field_follows_them() -> None:
    _, found = asking(request_of({}, version="HTTP/2.0"), b"ab", b"", b"GET / HTTP/1.1\r\n\r\n")
    assert written(found).endswith(
        b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n2\r\nab\r\n12\r\nGET / HTTP/1.1\r\n\r\n\r\n0\r\n\r\n"
    )


@each_row(
    ("parts", "told", "shown", "ends"),
    [
        ((), "", None, False),
        ((b"ab",), "", None, True),
        ((), "Connection: close\r\n", None, True),
        ((), "Connection: keep-alive, close, x\r\n", "keep-alive, x", True),
    ],
)
def test_the_end_of_an_origin_s_connection_is_for_the_proxy_alone(
    parts: tuple[bytes, ...], told: str, shown: str | None, ends: bool
) -> None:
    client, _ = asking(request_of({"content-length": "2"} if parts else {}), *parts)
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{told}\r\nok".encode()
    found = [*client.handle_event(events.DataReceived(client.conn, answer))]
    (response,) = (
        one.event.response for one in found if isinstance(one, ReceiveHttp) and isinstance(one.event, ResponseHeaders)
    )
    assert response.headers.get("connection") == shown
    assert closes(found) is ends


def answering(payload: bytes, response: http.Response, *parts: bytes) -> list[Any]:
    """What a server does that is sent a request without a body, and is to answer it."""
    server = FramedServer(context())
    found = [*server.handle_event(events.Start())]
    found += server.handle_event(events.DataReceived(server.conn, payload))
    for event in (
        ResponseHeaders(1, response),
        *(ResponseData(1, part) for part in parts),
        ResponseTrailers(1, http.Headers(((b"x", b"y"),))),
        ResponseEndOfMessage(1),
    ):
        found += server.handle_event(event)
    return found


@each_row(
    ("version", "told", "end", "ends"),
    [
        (b"1.1", b"", b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", False),
        (
            b"1.1",
            b"Connection: close\r\n",
            b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
            True,
        ),
        (b"1.0", b"", b"connection: close\r\n\r\nabc", True),
    ],
)
def test_an_answer_that_no_length_ends_is_chunked_where_it_can_be(
    version: bytes, told: bytes, end: bytes, ends: bool
) -> None:
    payload = b"GET http://good.example/ HTTP/%b\r\n%b\r\n" % (version, told)
    found = answering(payload, response_of({}, version="HTTP/2.0"), b"ab", b"", b"c")
    assert written(found) == b"HTTP/1.1 200 OK\r\n" + end
    assert closes(found) is ends


# -- what is sent behind an open request -----------------------------------------------------------------------------


def served(found: Iterable[Any]) -> list[object]:
    """What a server has read: the targets of requests, and octets of bodies."""
    read = list[object]()
    for one in found:
        event = one.event if isinstance(one, ReceiveHttp) else None
        if isinstance(event, RequestHeaders):
            read.append(event.request.path)
        elif isinstance(event, RequestData):
            read.append(len(event.data))
    return read


def receive(server: FramedServer, *pieces: bytes) -> list[Any]:
    return [found for piece in pieces for found in server.handle_event(events.DataReceived(server.conn, piece))]


def answer(server: FramedServer, stream: int) -> list[Any]:
    given = [ResponseHeaders(stream, response_of(SIZE)), ResponseData(stream, b"ok"), ResponseEndOfMessage(stream)]
    return [found for event in given for found in server.handle_event(event)]


def beginning() -> FramedServer:
    bound_input()
    server = FramedServer(context())
    [*server.handle_event(events.Start())]
    return server


GET = b"GET http://good.example/%d HTTP/1.1\r\n\r\n"
PUT = b"PUT http://good.example/%d HTTP/1.1\r\nContent-Length: %d\r\n\r\n"


def test_an_upload_that_waits_is_read_in_its_turn() -> None:
    server, piece = beginning(), bytes(1 << 16)
    pieces = MOST_WAITING // len(piece) + 2
    found = receive(server, GET % 1 + PUT % (2, pieces * len(piece)), *[piece] * pieces, PUT % (3, 1), b"a", GET % 4)
    assert served(found) == ["/1"]
    found = answer(server, 1)
    assert served(found) == ["/2", *[len(piece)] * pieces]
    assert written(found).endswith(b"ok")
    assert served(answer(server, 3)) == ["/3", 1]
    assert served(answer(server, 5)) == ["/4"]
    assert served(answer(server, 7) + receive(server, GET % 5)) == ["/5"]


def test_what_waits_for_a_protocol_that_is_switched_to_is_handed_on() -> None:
    server = beginning()
    receive(server, b"GET http://good.example/ HTTP/1.1\r\nUpgrade: x\r\n\r\n", b"ab", b"c")
    given = [ResponseHeaders(1, response_of({"upgrade": "x"}, status=101)), ResponseEndOfMessage(1)]
    assert served(found for event in given for found in server.handle_event(event)) == [2, 1]


class Handler:
    """What a connection handler has that reads a client."""

    def __init__(self, client: connection.Client) -> None:
        self.client = client
        self.transports: dict[Any, Any] = {}
        self.drained = 0

    async def drain_writers(self) -> None:
        self.drained += 1


def test_while_much_waits_nothing_more_is_read_of_the_client() -> None:
    async def run() -> None:
        server = beginning()
        handler: Any = Handler(server.conn)  # type: ignore[arg-type]
        [(wait, _, _)] = [one for one in WRAPPED if one[1] == ("drain_writers",)]

        async def read() -> None:
            await wait(Handler.drain_writers, handler)

        receive(server, GET % 1, *[bytes(1 << 16)] * 4)
        await asyncio.create_task(read())
        receive(server, b"a")
        await asyncio.create_task(read())  # a server's connection is read
        reading = asyncio.create_task(read())
        handler.transports[server.conn] = SimpleNamespace(handler=reading)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (handler.drained, reading.done()) == (3, False)
        answer(server, 1)
        await reading

    asyncio.run(run())


# -- what is kept of it ------------------------------------------------------------------------------------------------


@pytest.fixture
def layer() -> http_layer.HttpLayer:
    bound_input()
    return http_layer.HttpLayer(context(), HTTPMode.regular)


def ended(layer: http_layer.HttpLayer, state: ConnectionState = ConnectionState.CLOSED) -> connection.Server:
    server = connection.Server(address=("good.example", 80), peername=("192.0.2.7", 80))
    server.state = state
    layer.connections[server] = http_layer.HttpClient(layer.context)
    return server


def test_it_is_forgotten_when_it_ends_and_what_is_left_of_it_is_skipped(layer: http_layer.HttpLayer) -> None:
    gone = ended(layer)
    handled = list[object]()

    class Noting(http_layer.HttpClient):
        def handle_event(self, event: events.Event) -> Any:
            handled.append(event)
            yield from ()

    layer.connections[gone] = Noting(layer.context)
    end = events.ConnectionClosed(gone)
    assert [*layer._handle_event(end)] == []
    assert (handled, gone in layer.connections) == ([end], False)
    for late in (events.DataReceived(gone, b"x"), end):
        assert [*layer._handle_event(late)] == []
    assert handled == [end]


# -- bodies that wait for their end ------------------------------------------------------------------------------------


def begun(method: str, limit: str | None = None) -> http_layer.HttpStream:
    bound_input()
    own = context()
    own.options.add_option("body_size_limit", str | None, limit, "")
    own.options.add_option("stream_large_bodies", str | None, "1", "")
    stream = http_layer.HttpStream(own, 1)
    stream.flow = tflow.tflow(req=request_of(CHUNKED, method=method))
    stream.flow.live = True
    return stream


@each_row(
    ("limit", "size", "is_long"),
    [
        (None, LONGEST_WHOLE_BODY, False),
        (None, LONGEST_WHOLE_BODY + 1, True),
        ("9", 10, True),
        ("9m", LONGEST_WHOLE_BODY + 1, True),
    ],
)
def test_a_body_that_waits_is_bounded(limit: str | None, size: int, is_long: bool) -> None:
    stream = begun("GET", limit)
    stream.client_state = stream.state_consume_request_body
    stream.request_body_buf += bytes(size)
    found = [*stream.check_body_size(True)]
    assert bool(found) is is_long
    assert (stream.client_state == stream.state_errored) is is_long
    assert len(stream.request_body_buf) == (0 if is_long else size)
