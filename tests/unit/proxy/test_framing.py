"""Bodies: where they end, and what an origin that reads none of one makes of it."""

from collections.abc import Iterator

import pytest
from mitmproxy import connection, http, options, tls
from mitmproxy.proxy import context
from mitmproxy.test import taddons, tflow

from hushlist.proxy import flow_outcome
from hushlist.proxy.flow_outcome import Bodies
from unit.rows import each_row


@pytest.fixture
def mitmproxy_options() -> Iterator[taddons.context]:
    with taddons.context() as running:
        running.options.add_option("stream_large_bodies", str | None, None, "")
        yield running
        running.master.event_loop.close()


@pytest.fixture
def bodies() -> Bodies:
    return Bodies()


def flow_of(version: str, body: bytes = b"body", url: str = "http://good.example/", **headers: str) -> http.HTTPFlow:
    request = http.Request.make("POST", url, body)
    request.headers.clear()
    request.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    request.http_version = version
    return tflow.tflow(req=request)


@pytest.mark.parametrize(
    ("flow", "length"),
    [
        (flow_of("HTTP/2.0"), "4"),
        (flow_of("HTTP/3"), "4"),
        (flow_of("HTTP/2.0", b""), None),
        (flow_of("HTTP/2.0", content_length="4"), "4"),
        (flow_of("HTTP/1.1", transfer_encoding="chunked"), None),
    ],
)
def test_a_body_that_is_there_has_a_length(bodies: Bodies, flow: http.HTTPFlow, length: str | None) -> None:
    bodies.frame(flow)
    assert flow.request.headers.get("content-length") == length


def test_what_nobody_decides_behind_a_body_is_left_out(bodies: Bodies) -> None:
    answered = flow_of("HTTP/2.0")
    answered.response = http.Response.make()  # by an origin that did not wait for the body's end
    for flow in (flow_of("HTTP/2.0"), flow_of("HTTP/3", b""), answered):
        flow.request.trailers = http.Headers(((b"host", b"blocked.example"),))
        bodies.frame(flow)
        assert flow.request.trailers is None


def test_a_recording_stays_as_it_is(bodies: Bodies) -> None:
    flow = flow_of("HTTP/2.0")
    flow.live, flow.request.trailers = False, http.Headers(((b"x", b"y"),))
    bodies.frame(flow)
    assert "content-length" not in flow.request.headers
    assert flow.request.trailers


@pytest.mark.parametrize(
    ("flow", "option", "is_guarded"),
    [
        (flow_of("HTTP/2.0"), "3m", True),
        (flow_of("HTTP/2.0"), None, False),
        (flow_of("HTTP/2.0", content_length="4"), "3m", False),
        (flow_of("HTTP/1.1", transfer_encoding="chunked"), "3m", False),
    ],
)
def test_where_bodies_are_streamed_one_of_untold_length_is_guarded(
    mitmproxy_options: taddons.context, bodies: Bodies, flow: http.HTTPFlow, option: str | None, is_guarded: bool
) -> None:
    mitmproxy_options.options.stream_large_bodies = option
    bodies.guard(flow)
    assert callable(flow.request.stream) is is_guarded


@pytest.mark.parametrize(("protocol", "passed"), [(b"h2", [b"a", b""]), (b"h3", [b"a", b""]), (None, [(), b""])])
def test_a_body_is_streamed_where_frames_tell_its_end(
    mitmproxy_options: taddons.context, bodies: Bodies, protocol: bytes | None, passed: list[object]
) -> None:
    mitmproxy_options.options.stream_large_bodies = "3m"
    flow = flow_of("HTTP/2.0")
    bodies.guard(flow)
    flow.server_conn.alpn = protocol
    assert callable(flow.request.stream)
    assert [flow.request.stream(chunk) for chunk in (b"a", b"")] == passed
    assert (flow.error is None) is (protocol is not None)


def test_none_of_it_is_streamed_though_that_cannot_be_logged(
    mitmproxy_options: taddons.context, bodies: Bodies, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left")

    mitmproxy_options.options.stream_large_bodies = "3m"
    monkeypatch.setattr(flow_outcome.logger, "warning", fail)
    flow = flow_of("HTTP/2.0")
    bodies.guard(flow)
    assert callable(flow.request.stream)
    with pytest.raises(OSError, match="no space"):
        flow.request.stream(b"a")
    assert flow.error is not None
    assert flow.request.stream(b"b") == ()


# -- what is not read --------------------------------------------------------------------------------------------------


def established(bodies: Bodies, flow: http.HTTPFlow, server: connection.Server) -> None:
    """As mitmproxy calls it once TLS is there."""
    own = context.Context(flow.client_conn, options.Options())
    own.server = server
    bodies.established(tls.TlsData(server, own))


def server_of(flow: http.HTTPFlow, alpn: bytes | None = None) -> connection.Server:
    server = connection.Server(address=(flow.request.host, flow.request.port))
    server.sni, server.alpn = flow.request.host, alpn
    return server


@each_row(
    ("flow", "ends"),
    [
        (flow_of("HTTP/1.1", content_length="4"), True),
        (flow_of("HTTP/1.1", url="https://good.example/", content_length="4", connection="keep-alive"), True),
        (flow_of("HTTP/1.0", transfer_encoding="chunked"), True),
        (flow_of("HTTP/2.0", content_length="4"), True),
        (flow_of("HTTP/1.1", content_length="0", connection="keep-alive"), False),
        (flow_of("HTTP/1.1", connection="upgrade"), False),
    ],
)
def test_a_request_with_a_body_is_the_last_of_its_connection(
    mitmproxy_options: taddons.context, bodies: Bodies, flow: http.HTTPFlow, ends: bool
) -> None:
    bodies.guard(flow)
    assert (flow.request.headers.get("connection") == "close") is ends


@each_row("is_told", [True, False])
@each_row("version", ["HTTP/2.0", "HTTP/3"])
@each_row(("alpn", "ends"), [(None, True), (b"http/1.1", True), (b"h2", False), (b"h3", False)])
def test_behind_tls_that_is_said_once_it_is_known_what_the_origin_speaks(
    mitmproxy_options: taddons.context, bodies: Bodies, version: str, is_told: bool, alpn: bytes | None, ends: bool
) -> None:
    flow = flow_of(version, url="https://good.example/", **({"content-length": "4"} if is_told else {}))
    bodies.guard(flow)
    bodies.frame(flow)
    assert "connection" not in flow.request.headers
    established(bodies, flow, server_of(flow, alpn))
    assert (flow.request.headers.get("connection") == "close") is ends


def test_it_is_said_to_no_other_origin_and_to_no_proxy_on_the_way(
    mitmproxy_options: taddons.context, bodies: Bodies
) -> None:
    flow = flow_of("HTTP/2.0", url="https://good.example/", content_length="4")
    bodies.guard(flow)
    for address in (("other.example", 443), ("good.example", 8443)):
        other = server_of(flow)
        other.address, other.sni = address, address[0]
        established(bodies, flow, other)
    proxy, own = server_of(flow), context.Context(flow.client_conn, options.Options())
    bodies.established(tls.TlsData(proxy, own))
    assert "connection" not in flow.request.headers
    led = server_of(flow)
    led.address = ("safe.example", 443)
    established(bodies, flow, led)
    assert flow.request.headers["connection"] == "close"
