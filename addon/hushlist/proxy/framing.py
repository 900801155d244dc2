"""Where a body ends that came by HTTP/2 or HTTP/3 and goes on by HTTP/1.1.

There, frames tell; and a request need not say how long its body is. mitmproxy writes such a body behind the head as it
is, so that an origin takes it for the next request, which nobody has decided.

Spec: RFC 9112, 6.3: without Content-Length and Transfer-Encoding, "the message body length is zero"
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

from mitmproxy import ctx, http

from hushlist.proxy.refusing import is_open

logger = logging.getLogger(__name__)

_LENGTH = "content-length"


def frame(flow: http.HTTPFlow) -> None:
    """Tell the length of a body that is there as a whole."""
    content = flow.request.raw_content
    if content and is_open(flow) and _is_unframed(flow.request):
        flow.request.headers[_LENGTH] = str(len(content))


def guard(flow: http.HTTPFlow) -> None:
    """Let no body be streamed without its end; mitmproxy may begin to at any octet of one of untold length."""
    request = flow.request
    if _is_unframed(request) and is_open(flow) and not request.stream and ctx.options.stream_large_bodies:
        request.stream = partial(_pass_on, flow)


def _pass_on(flow: http.HTTPFlow, chunk: bytes) -> bytes | Iterable[bytes]:
    """What is streamed of a body: all, or nothing where an origin could not tell its end."""
    if not chunk or flow.server_conn.alpn in (b"h2", b"h3"):
        return chunk
    if flow.killable:
        logger.warning("hushlist: a body of untold length is not streamed to %s by HTTP/1.1", flow.request.host)
        flow.kill()
    return ()


def _is_unframed(request: http.Request) -> bool:
    return (request.is_http2 or request.is_http3) and _LENGTH not in request.headers
