"""Bodies that have arrived whole."""

import pytest
from mitmproxy import http
from mitmproxy.test import tflow

from hushlist.proxy.flow_outcome import frame


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


def test_what_nobody_decides_behind_a_body_is_left_out() -> None:
    answered = flow_of("HTTP/2.0")
    answered.response = http.Response.make()  # by an origin that did not wait for the body's end
    for flow in (flow_of("HTTP/2.0"), flow_of("HTTP/3", b""), answered):
        flow.request.trailers = http.Headers(((b"host", b"blocked.example"),))
        frame(flow)
        assert flow.request.trailers is None
