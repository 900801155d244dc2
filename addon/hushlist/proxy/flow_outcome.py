"""What the filter writes on a flow: the decision, a response in place of the origin's, and the end of its body.

``~meta hushlist``, ``~marker`` and ``~comment`` find the decision. Metadata has plain types only, so that saved flows
load again.

No part of a request's body may be taken for the next request, which nobody has decided. An HTTP/1.1 origin may answer
without reading the body, and go on reading after the head. So it is told that the connection carries no other request.
A body from HTTP/2 or HTTP/3 ends by its frames, and may have no stated length. mitmproxy would send it after the head
unchanged, and an HTTP/1.1 origin would take all of it for the next request.

Spec: RFC 9112, 6.3: without Content-Length and Transfer-Encoding, "the message body length is zero"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from weakref import WeakKeyDictionary, WeakSet

from mitmproxy import connection, ctx, http, tls
from mitmproxy.flow import Flow
from mitmproxy.net.http.http1.read import expected_http_body_size

from hushlist.decide.decision import STOPPING, Judgement
from hushlist.errors import logger_of
from hushlist.match.rule import Action
from hushlist.proxy.flow_request import is_framed
from hushlist.url.http_head import tells_body

logger = logger_of(__name__)

KEY = "hushlist"
#: key for the changes of safe search
SAFE_SEARCH = "hushlist_safe_search"
#: key of flows that no later addon may see: those of the live page, and of pages that wait for an answer
HIDDEN = "hushlist_live"
_COMMENT = "hushlist: "
BLOCKED = ":no_entry:"
WOULD_BLOCK = ":warning:"
TAGGED = ":label:"
_MARKERS = (BLOCKED, WOULD_BLOCK, TAGGED)
_LENGTH = "content-length"
_NO_BODY = ("GET", "HEAD", "OPTIONS", "TRACE")


def annotate(flow: Flow, judgement: Judgement) -> None:
    """Write a decision in place of an earlier one; a decision without match or fault writes nothing.

    A person's own marker and comment stay.
    """
    decision = judgement.decision
    if flow.metadata:
        flow.metadata.pop(KEY, None)
    if flow.marked and flow.marked in _MARKERS:
        flow.marked = ""
    if flow.comment and flow.comment.startswith(_COMMENT):
        flow.comment = ""
    if decision.action is Action.PASS and decision.fault is None:
        return
    would_block = judgement.would_block
    flow.metadata[KEY] = {**decision.as_dict(), "original": judgement.original, "would_block": would_block}
    flow.marked = flow.marked or _marker(judgement)
    if not flow.comment:
        verb = "would block" if would_block else decision.action.value
        flow.comment = f"{_COMMENT}{verb} {decision}"


def _marker(judgement: Judgement) -> str:
    if judgement.decision.action in STOPPING:
        return WOULD_BLOCK if judgement.would_block else BLOCKED
    return TAGGED if judgement.decision.tags else ""


def is_open(flow: http.HTTPFlow) -> bool:
    """Whether the flow can still be changed: it is not a recording, and has no answer yet."""
    return flow.live and flow.response is None and flow.error is None


def refuse(flow: http.HTTPFlow, respond: Callable[[http.Request], http.Response]) -> bool:
    """Answer in place of the origin; whether that was possible."""
    if not is_open(flow):
        return False
    if _may_stream(flow.request):
        if flow.killable:
            flow.kill()
        return False
    flow.response = respond(flow.request)
    return True


def _may_stream(request: http.Request) -> bool:
    """Whether mitmproxy streams the body, or may begin to: then no answer can be set, and the flow is killed.

    HTTP/2 and HTTP/3 need not announce a body. For methods that usually have none, an answer is set nevertheless:
    mitmproxy ends the connection if a body comes that it would have to stream.
    """
    if request.stream:
        return True
    if not ctx.options.stream_large_bodies:
        return False
    if not request.is_http10 and not request.is_http11 and _LENGTH not in request.headers:
        return request.method.upper() not in _NO_BODY
    try:
        return expected_http_body_size(request, None) is None
    except ValueError:
        return True


class Bodies:
    """Marks the end of the bodies of requests that pass."""

    def __init__(self) -> None:
        #: by client connection: requests with a body, whose origin's protocol is not known yet
        self._waiting: WeakKeyDictionary[connection.Client, WeakSet[http.HTTPFlow]] = WeakKeyDictionary()

    def guard(self, flow: http.HTTPFlow) -> None:
        """Before a body: let none be streamed without its end; mitmproxy may begin to stream at any octet."""
        request = flow.request
        if not is_open(flow):
            return
        if tells_body(request.headers.fields):
            self._end_behind(flow)
        elif _is_unframed(request) and not request.stream and ctx.options.stream_large_bodies:
            request.stream = partial(_pass_on, flow)

    def frame(self, flow: http.HTTPFlow) -> None:
        """Set the length of a body that has arrived whole, and leave out what fields came behind it.

        Only the head is decided, and a server may take such a field for one of the head.
        Spec: RFC 9110, 6.5.1: what forwards a message may discard its trailers
        """
        if flow.live:
            flow.request.trailers = None
        content = flow.request.raw_content
        if content and is_open(flow) and _is_unframed(flow.request):
            flow.request.headers[_LENGTH] = str(len(content))
            self._end_behind(flow)

    def established(self, data: tls.TlsData) -> None:
        """Handle a new TLS connection to an origin: its protocol is known, and nothing has been sent."""
        server = data.conn
        if server is not data.context.server or server.address is None:
            return  # an upstream proxy
        waiting = self._waiting.get(data.context.client, WeakSet())
        for flow in list(waiting):
            host, port = flow.request.host, flow.request.port
            if port == server.address[1] and host in (server.address[0], server.sni):
                waiting.discard(flow)
                if not is_framed(server.alpn):
                    _end(flow.request)

    def _end_behind(self, flow: http.HTTPFlow) -> None:
        """Let the origin's connection end after a request; HTTP/2 has no header for that, and needs none."""
        request = flow.request
        if request.scheme == "https" and (request.is_http2 or request.is_http3):
            self._waiting.setdefault(flow.client_conn, WeakSet()).add(flow)
        else:
            _end(request)


def _end(request: http.Request) -> None:
    """Spec: RFC 9112, 9.6: the server "MUST NOT process any further requests received on that connection"."""
    request.headers["Connection"] = "close"


def _pass_on(flow: http.HTTPFlow, chunk: bytes) -> bytes | Iterable[bytes]:
    """The chunk to stream; nothing if the origin could not see the body's end."""
    if not chunk or is_framed(flow.server_conn.alpn):
        return chunk
    if flow.killable:
        flow.kill()
        logger.warning("hushlist: a body of untold length is not streamed to %s by HTTP/1.1", flow.request.host)
    return ()


def _is_unframed(request: http.Request) -> bool:
    return (request.is_http2 or request.is_http3) and _LENGTH not in request.headers
