"""Bodies whose end only HTTP/2 tells."""

from collections.abc import Iterator

import pytest
from mitmproxy import http
from mitmproxy.test import taddons, tflow

from hushlist.proxy.framing import frame, guard


@pytest.fixture
def context() -> Iterator[taddons.context]:
    with taddons.context() as context:
        context.options.add_option("stream_large_bodies", str | None, None, "")
        yield context
        context.master.event_loop.close()


def flow_of(version: str, body: bytes = b"body", **headers: str) -> http.HTTPFlow:
    request = http.Request.make("POST", "http://good.example/", body)
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
def test_a_body_that_is_there_has_a_length(flow: http.HTTPFlow, length: str | None) -> None:
    frame(flow)
    assert flow.request.headers.get("content-length") == length


def test_a_recording_stays_as_it_is() -> None:
    flow = flow_of("HTTP/2.0")
    flow.live = False
    frame(flow)
    assert "content-length" not in flow.request.headers


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
    context: taddons.context, flow: http.HTTPFlow, option: str | None, is_guarded: bool
) -> None:
    context.options.stream_large_bodies = option
    guard(flow)
    assert callable(flow.request.stream) is is_guarded


@pytest.mark.parametrize(("protocol", "passed"), [(b"h2", [b"a", b""]), (b"h3", [b"a", b""]), (None, [(), b""])])
def test_a_body_is_streamed_where_frames_tell_its_end(
    context: taddons.context, protocol: bytes | None, passed: list[object]
) -> None:
    context.options.stream_large_bodies = "3m"
    flow = flow_of("HTTP/2.0")
    guard(flow)
    flow.server_conn.alpn = protocol
    assert callable(flow.request.stream)
    assert [flow.request.stream(chunk) for chunk in (b"a", b"")] == passed
    assert (flow.error is None) is (protocol is not None)
