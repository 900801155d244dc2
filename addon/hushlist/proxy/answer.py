"""What a client gets for a blocked request: a page, or whatever fits the place where the answer would be used."""

from __future__ import annotations

import json
import logging
import re
from datetime import datetime
from enum import Enum, auto
from pathlib import PurePath

from mitmproxy import http

from hushlist.errors import without_user
from hushlist.policy.decision import Decision
from hushlist.proxy.explanation import Explanation, Unblock, Verdict
from hushlist.proxy.pages import HEADERS, page, security_policy
from hushlist.proxy.template import Template, load_template

__all__ = [
    "Explanation",
    "Kind",
    "Template",
    "Unblock",
    "Verdict",
    "answer",
    "explain",
    "failure",
    "kind_of",
    "load_template",
    "page",
]

logger = logging.getLogger(__name__)

STATUS = 403


class Kind(Enum):
    """Where the client will use the answer."""

    PAGE = auto()
    IMAGE = auto()
    SCRIPT = auto()
    STYLE = auto()
    DATA = auto()
    MEDIA = auto()
    WEBSOCKET = auto()
    #: a CONNECT: no browser shows what it is answered
    TUNNEL = auto()


# Spec: Fetch Metadata Request Headers, 2.1; a destination that is not here gets a page
_DESTINATIONS = {
    "image": Kind.IMAGE,
    "script": Kind.SCRIPT,
    "worker": Kind.SCRIPT,
    "sharedworker": Kind.SCRIPT,
    "serviceworker": Kind.SCRIPT,
    "audioworklet": Kind.SCRIPT,
    "paintworklet": Kind.SCRIPT,
    "style": Kind.STYLE,
    "empty": Kind.DATA,
    "json": Kind.DATA,
    "manifest": Kind.DATA,
    "report": Kind.DATA,
    "audio": Kind.MEDIA,
    "video": Kind.MEDIA,
    "track": Kind.MEDIA,
    "font": Kind.MEDIA,
}
_ENDINGS = {
    **dict.fromkeys((".js", ".mjs"), Kind.SCRIPT),
    **dict.fromkeys((".css",), Kind.STYLE),
    **dict.fromkeys((".gif", ".png", ".jpg", ".jpeg", ".webp", ".avif", ".ico", ".bmp", ".svg"), Kind.IMAGE),
    **dict.fromkeys((".json",), Kind.DATA),
}


def kind_of(request: http.Request) -> Kind:
    """What kind of answer fits a request.

    Browsers tell it by Sec-Fetch-Dest, but only over https; the rest is read from Accept and, where that says
    "anything", from the path. A browser that navigates always asks for text/html, so "anything" from one is a fetch.
    """
    headers = request.headers
    if request.method == "CONNECT":
        return Kind.TUNNEL
    if headers.get("upgrade", "").lower() == "websocket":
        return Kind.WEBSOCKET
    destination = headers.get("sec-fetch-dest")
    if destination is not None:
        return _DESTINATIONS.get(destination.lower(), Kind.PAGE)
    if headers.get("x-requested-with", "").lower() == "xmlhttprequest":
        return Kind.DATA
    accept = headers.get("accept", "*/*").lower()
    if "text/html" in accept:
        return Kind.PAGE
    if accept.startswith("image/"):
        return Kind.IMAGE
    if accept.startswith("text/css"):
        return Kind.STYLE
    if accept.startswith("application/json"):
        return Kind.DATA
    by_ending = _ENDINGS.get(PurePath(request.path.partition("?")[0].lower()).suffix)
    if by_ending is not None:
        return by_ending
    return Kind.DATA if headers.get("user-agent", "").startswith("Mozilla/") else Kind.PAGE


def explain(
    decision: Decision,
    *,
    kind: Verdict = Verdict.BLOCKED,
    until: datetime | None = None,
    reference: str | None = None,
) -> Explanation:
    """What to tell of a decision; until when it holds, and its number in the log, are known to whoever asks."""
    # what could not be read is shown as it was asked for, and may have a user in it
    url = str(without_user(decision.url.decode("ascii", "backslashreplace")))
    if decision.winner is None:
        return Explanation(url, fault=decision.fault, until=until, reference=reference, kind=kind)
    rule = decision.winner.rule
    terms = rule.terms
    return Explanation(
        url=url,
        reason=terms.reason,
        category=terms.category,
        list=terms.label,
        rule=rule.place,
        expression=decision.winner.text,
        until=until,
        reference=reference,
        kind=kind,
    )


#: one transparent pixel
_PIXEL = bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c000000000100010000020144003b")
#: what may stand in a header; a reference that is anything else is on the page alone
_TOKEN = re.compile(r"[!-~]{1,100}")


def answer(
    request: http.Request,
    explanation: Explanation,
    unblock: Unblock | None = None,
    template: Template | None = None,
) -> http.Response:
    """The response to a request that does not pass; only a page offers to have it unblocked."""
    kind = kind_of(request)
    if kind is Kind.PAGE:
        body, headers = page(explanation, request.headers.get("accept-language", ""), unblock, template)
    else:
        content_type, body = _body(kind, explanation)
        headers = _headers(content_type)
    # Of an image or a script this is all that says, in a browser's developer tools, what became of it.
    if explanation.reference is not None and _TOKEN.fullmatch(explanation.reference):
        headers["X-Hushlist-Reference"] = explanation.reference
    response = http.Response.make(STATUS, body, headers | _end(request))
    if request.method.upper() == "HEAD":
        response.raw_content = b""
        response.headers["Content-Length"] = str(len(body))
    return response


def failure(request: http.Request) -> http.Response:
    """The response where the filter itself failed: it tells nothing of the request, which may be what it failed on.

    Where not even the page can be made, it is made of nothing that could fail again.
    """
    try:
        if kind_of(request) is Kind.PAGE:
            return answer(request, Explanation("", kind=Verdict.FAILED))
    except Exception as error:
        logger.debug("hushlist: no page for the failure: %r", error)
    headers = _headers("text/plain; charset=utf-8") | _end(request)
    return http.Response.make(STATUS, b"The filter failed; nothing passes it unseen.\n", headers)


def _end(request: http.Request) -> dict[str, str]:
    """The connection ends with a tunnel that is refused: what a client sent for it must not be read as requests."""
    is_tunnel = request.method == "CONNECT" and (request.is_http10 or request.is_http11)
    return {"Connection": "close"} if is_tunnel else {}


def _headers(content_type: str) -> dict[str, str]:
    return {"Content-Type": content_type, **HEADERS, "Content-Security-Policy": security_policy()}


def _body(kind: Kind, explanation: Explanation) -> tuple[str, bytes]:
    """What fits in the place of anything but a page."""
    match kind:
        case Kind.IMAGE:
            return "image/gif", _PIXEL
        case Kind.SCRIPT:
            return "text/javascript; charset=utf-8", b""
        case Kind.STYLE:
            return "text/css; charset=utf-8", b""
        case Kind.DATA:
            return "application/json", json.dumps(explanation.as_dict()).encode()
        case Kind.WEBSOCKET | Kind.TUNNEL:
            words = f"Blocked: {explanation.in_english()}\n"
            return "text/plain; charset=utf-8", words.encode("utf-8", "backslashreplace")
        case _:
            return "text/plain; charset=utf-8", b""
