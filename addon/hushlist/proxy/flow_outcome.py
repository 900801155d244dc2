"""What the filter writes on a flow: the decision, a response in place of the origin's, and the end of its body.

``~meta hushlist``, ``~marker`` and ``~comment`` find the decision. Metadata has plain types only, so that saved flows
load again.
"""

from __future__ import annotations

from collections.abc import Callable

from mitmproxy import exceptions, http
from mitmproxy.flow import Flow

from hushlist.core.decide.decision import STOPPING, Decision, Judgement
from hushlist.core.match.rule import Action
from hushlist.core.url.header_names import as_read
from hushlist.proxy.connections.turns import note_answer

KEY = "hushlist"
#: key for the changes of safe search
SAFE_SEARCH = "hushlist_safe_search"
#: key for the names of fields that were taken out, since servers believe them
TAKEN_OUT = "hushlist_taken_out"
#: key of flows that no later addon may see: those of the live page, and of pages that wait for an answer
HIDDEN = "hushlist_live"
_COMMENT = "hushlist: "
BLOCKED = ":no_entry:"
WOULD_BLOCK = ":warning:"
TAGGED = ":label:"
_MARKERS = (BLOCKED, WOULD_BLOCK, TAGGED)
_LENGTH = "content-length"


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
    flow.marked = flow.marked or _marker(decision, would_block)
    if not flow.comment:
        verb = "would block" if would_block else decision.action.value
        flow.comment = f"{_COMMENT}{verb} {decision}"


def _marker(decision: Decision, would_block: bool) -> str:
    if decision.action in STOPPING:
        return WOULD_BLOCK if would_block else BLOCKED
    return TAGGED if decision.tags else ""


def is_open(flow: http.HTTPFlow) -> bool:
    """Whether the flow can still be changed: it is not a recording, and has no answer yet."""
    return flow.live and flow.response is None and flow.error is None


def refuse(flow: http.HTTPFlow, respond: Callable[[http.Request], http.Response]) -> bool:
    """Answer in place of the origin; whether that was possible."""
    if not is_open(flow):
        return False
    flow.response = answer = respond(flow.request)
    note_answer(flow.client_conn, len(answer.raw_content or b""))
    return True


def set_header(headers: http.Headers, name: str, value: str) -> None:
    """Set a field in place of all that servers may read as it; no proxy after this one is asked to remove it.

    Spec: RFC 9110, 7.6.1
    """
    read = as_read(name.encode())
    headers.fields = tuple(field for field in headers.fields if as_read(field[0]) != read)
    headers[name] = value
    nominated = headers.get("connection", "").split(",")
    kept = [each for each in nominated if as_read(each.strip().encode("utf-8", "surrogateescape")) != read]
    if len(kept) < len(nominated):
        headers["connection"] = ",".join(kept)


def frame(flow: http.HTTPFlow) -> None:
    """Set the length of a body that has arrived whole, and leave out what fields came behind it.

    Only the head is decided, and a server may take such a field for one of the head.
    Spec: RFC 9110, 6.5.1: what forwards a message may discard its trailers
    """
    request = flow.request
    if flow.live:
        request.trailers = None
    content = request.raw_content
    if content and is_open(flow) and (request.is_http2 or request.is_http3) and _LENGTH not in request.headers:
        request.headers[_LENGTH] = str(len(content))


def hide(flow: Flow) -> None:
    """Hide a flow that has ``HIDDEN`` from all later addons, whose views and files it would fill, by ``AddonHalt``."""
    if HIDDEN in flow.metadata and flow.live:
        raise exceptions.AddonHalt


def is_over(flow: http.HTTPFlow) -> bool:
    """Whether nothing more comes of a request: neither of its body, nor an answer, nor, by a WebSocket, a message."""
    lasts = flow.websocket or flow.response
    has_ended = flow.request.timestamp_end is not None and lasts is not None and lasts.timestamp_end is not None
    return flow.error is not None or has_ended
