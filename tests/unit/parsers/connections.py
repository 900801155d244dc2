"""The readers of what opens a connection, and of the head of what is asked on it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

from mitmproxy import http
from mitmproxy.proxy.mode_specs import ProxyMode

from hushlist.core.decide.trace import trace
from hushlist.core.errors import printable
from hushlist.core.policy.groups import Client
from hushlist.core.routes import ActionError
from hushlist.core.url.http_head import Naming, request_of_head
from hushlist.extensions.dashboard import api_requests, dashboard_server
from hushlist.extensions.dashboard.actions import explain
from hushlist.proxy.addon import Hushlist
from hushlist.proxy.connections import tunnels
from hushlist.proxy.connections.client_hello import IncompleteError, hides_name, read_hello
from hushlist.proxy.connections.proxy_protocol import read_header
from hushlist.proxy.flow_request import name_to_ask, request_of_connect, request_of_connection
from hushlist.proxy.runtime import Runtime
from support.administrators import ACTIONS
from unit.parsers.lines import engine
from unit.parsers.table import NOON, Parser, put, text_of
from unit.parsers.urls import URLS
from unit.parsers.wire import REQUESTS, flow_of_octets

PARSERS: dict[str, Parser] = {}
add = partial(put, PARSERS)

_HEADS = (b"Host: h.example\n", b"Host: a, b\n", b"Host: a@", b"\xc3\xbc.", b"accept: text/html;q=1,\n", b"a, ")
_MODES = tuple(map(ProxyMode.parse, ("regular", "transparent", "reverse:https://h.example")))


@add("proxy head", *REQUESTS, units=_HEADS)
def _head(octets: bytes) -> None:
    flow = flow_of_octets(octets)
    server_name = flow.client_conn.sni
    for naming in Naming:
        for name in (None, server_name):
            request = request_of_head(flow.request.data, name, naming, with_media=True)
            assert request.hosts
            name_to_ask(request, name)
            engine().decide(request, NOON)
    engine().decide_host(request_of_connect(flow), NOON)


# -- the first octets of a connection ----------------------------------------------------------------------------------


def _client_hello(*names: bytes, records: int = 1) -> bytes:
    """A ClientHello of TLS 1.2. Spec: RFC 5246, 7.4.1.2; RFC 6066, 3."""
    listed = b"".join(b"\0" + len(name).to_bytes(2, "big") + name for name in names)
    named = len(listed).to_bytes(2, "big") + listed
    more = b"\0\0" + len(named).to_bytes(2, "big") + named + b"\0\x10\0\5\0\3\2h2"
    body = b"\3\3" + bytes(32) + b"\0" + b"\0\4\x13\1\xc0\x2f" + b"\1\0" + len(more).to_bytes(2, "big") + more
    message = b"\1" + len(body).to_bytes(3, "big") + body
    size = -(-len(message) // records)
    pieces = (message[at : at + size] for at in range(0, len(message), size))
    return b"".join(b"\x16\3\1" + len(piece).to_bytes(2, "big") + piece for piece in pieces)


def _datagram_hello(name: bytes) -> bytes:
    """The same in a datagram of DTLS 1.2. Spec: RFC 6347, 4.1 and 4.2.2."""
    body = _client_hello(name)[9:]
    with_cookie = body[:35] + b"\0" + body[35:]
    size = len(with_cookie).to_bytes(3, "big")
    message = b"\1" + size + b"\0\0" + b"\0\0\0" + size + with_cookie
    return b"\x16\xfe\xfd" + bytes(8) + len(message).to_bytes(2, "big") + message


#: a client's Initial packet. Spec: RFC 9001, A.2, protected, of which the first octets are enough to be read
_INITIAL = bytes.fromhex("c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11") + bytes(1168)


def _opened(transport: str, octets: bytes) -> None:
    to = ("192.0.2.7", 443)
    client, server = SimpleNamespace(transport_protocol=transport), SimpleNamespace(address=to)
    context: Any = SimpleNamespace(client=client, server=server)
    try:
        hello = read_hello(context, [octets])
    except (ValueError, IncompleteError):
        return
    names = [] if hello is None or hello.sni is None else [hello.sni]
    if hello is not None:
        assert hides_name(hello) in (True, False)
    named = tunnels._HOST_LINE.search(octets)
    if hello is None and named is not None:
        names.append(named[1].strip().decode("utf-8", "surrogateescape"))
    for mode in _MODES:
        request = request_of_connection(transport.encode(), to, names, mode)
        name_to_ask(request)
        decision = engine().decide_host(request, NOON)
        assert printable(str(decision)).isprintable()


_HTTP = b"GET / HTTP/1.1\r\nA: b\r\nHost: \tblocked.example :80\r\n\r\n"
_FIRST = (b"\r\nhost:", b"\r\nhost: \t", b"\x16\3\1\0\1\0", b"\x16\3\1\0\0", b"\0\0\0\0", b"\0\x10\0\5\0\3\2h2")


def _tcp_samples() -> list[bytes]:
    return [_client_hello(b"blocked.example"), _client_hello(b"h.example", b"x", records=4), _client_hello(), _HTTP]


def _udp_samples() -> list[bytes]:
    return [_datagram_hello(b"blocked.example"), _INITIAL, _HTTP]


PARSERS["proxy first octets, tcp"] = Parser(partial(_opened, "tcp"), _tcp_samples, units=_FIRST)
PARSERS["proxy first octets, udp"] = Parser(
    partial(_opened, "udp"), _udp_samples, units=(*_FIRST, b"\x16\xfe\xfd" + bytes(10))
)


# -- the live page -----------------------------------------------------------------------------------------------------


@cache
def _runtime() -> Runtime:
    runtime = Hushlist().runtime
    runtime.mode, runtime.engine = "block", engine()
    return runtime


def _explained(url: object, at: object = "", client: object = "", user: object = "") -> None:
    with suppress(ActionError):
        assert explain(engine(), _runtime(), str(url), str(client), str(user), str(at)).option == "block"


_EXPLAIN, _LIVE = (next(one for one in ACTIONS if one.path == path) for path in ("/explain", "/live"))
_QUESTIONS = (
    b"/api/v1/explain?url=http%3A%2F%2Fblocked.example%2F&at=2026-12-24T22%3A30&client=192.0.2.7&user=jo",
    b"/api/v1/live?since=12&of=1.0",
)


@add(
    "live queries",
    *_QUESTIONS,
    b"/api/v1/explain?url=http://path.example/live/%ff&at=9999-12-31T23:59:59-23:59&client=[::1]",
    b"/api/v1/explain?url=x&at=0001-01-01T00:00:00%2B23:59",
    units=(b"&a=b", b"%25", b"a;", b"&url=http://h.example", b"&since=9"),
)
def _queries(octets: bytes) -> None:
    request = http.Request.make("GET", "http://hushlist.internal/")
    request.data.path = octets
    query = request.path.partition("?")[2]
    dashboard_server._query(request, "of")
    with suppress(api_requests.InputError):
        assert 0 <= api_requests.values_in(_LIVE, request, query, {})["since"] < 1 << 53
    with suppress(api_requests.InputError):
        _explained(**api_requests.values_in(_EXPLAIN, request, query, {}))


@add("live moment", "2026-12-24T22:30", "2026-W52-4", "9999-12-31T23:59-14:00", "0001-01-01", "20261224T2230Z")
def _moment(octets: bytes) -> None:
    _explained("h.example", at=text_of(octets))


@add("trace", *URLS, b"http://path.example/live/a;b?c", units=(b"/a", b"%2525", b"a.", b";a"))
def _trace(octets: bytes) -> None:
    # the live page takes no more; the command is asked by whoever waits for it
    found = trace(
        engine(), octets[: _EXPLAIN.takes[0].kind.most], NOON, Client(text_of(octets[:20]), text_of(octets[-9:]))
    )
    assert found.as_dict()["layers"] is not None


def _of_balancer(octets: bytes) -> None:
    async def run() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(octets)
        reader.feed_eof()
        await read_header(reader)

    with suppress(asyncio.IncompleteReadError):
        asyncio.run(run())


add(
    "PROXY protocol",
    b"PROXY TCP4 10.0.0.7 192.0.2.1 51000 8080\r\nGET /",
    b"PROXY TCP6 2001:db8::7 2001:db8::1 65535 1\r\n",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x0a\0\0\x07\xc0\0\2\1\xc7\x38\x1f\x90GET /",
    b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
    units=(b"PROXY ", b"1.", b"\r\n\r\n\0\r\nQUIT\n"),
)(_of_balancer)
