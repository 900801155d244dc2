"""Answering in the origin's place, or cutting the connection where no answer can be given any more."""

from __future__ import annotations

from collections.abc import Callable

from mitmproxy import ctx, http
from mitmproxy.net.http.http1.read import expected_http_body_size

_NO_BODY = ("GET", "HEAD", "OPTIONS", "TRACE")


def is_open(flow: http.HTTPFlow) -> bool:
    """Whether there is anything to change: a flow that is recorded, or has its answer, stays as it is."""
    return flow.live and flow.response is None and flow.error is None


def refuse(flow: http.HTTPFlow, respond: Callable[[http.Request], http.Response]) -> bool:
    """Answer in the origin's place; whether that was possible."""
    if not is_open(flow):
        return False
    if _may_stream(flow.request):
        if flow.killable:
            flow.kill()
        return False
    flow.response = respond(flow.request)
    return True


def _may_stream(request: http.Request) -> bool:
    """Whether mitmproxy streams the body on, or may begin to: then no answer can be set, and the flow is killed.

    HTTP/2 and HTTP/3 need not tell whether a body comes. Where none is usual, an answer is set all the same: mitmproxy
    ends the connection if a body comes that it would have to stream.
    """
    if request.stream:
        return True
    if not ctx.options.stream_large_bodies:
        return False
    if not request.is_http10 and not request.is_http11 and "content-length" not in request.headers:
        return request.method.upper() not in _NO_BODY
    try:
        return expected_http_body_size(request, None) is None
    except ValueError:
        return True
