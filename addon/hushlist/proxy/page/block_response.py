"""The answer to a blocked request: a page, or content of the type that the client expects."""

from __future__ import annotations

import json
import re
from datetime import tzinfo
from enum import Enum, auto
from http import HTTPStatus
from urllib.parse import quote

from mitmproxy import http

from hushlist.core.decide.decision import Judgement
from hushlist.core.errors import logger_of, without_user
from hushlist.core.match.checks import Check
from hushlist.core.match.rule import Anything, Ordered, TimeLimit
from hushlist.core.match.rule_match import Match
from hushlist.core.url.safebrowsing import is_of_google
from hushlist.proxy.page.pages import HEADERS, Explanation, Offer, Verdict, page
from hushlist.proxy.page.template import Template, security_policy

logger = logger_of(__name__)

STATUS = 403
#: where nothing is stopped
_OTHER_STATUS = {Verdict.UNREACHED: HTTPStatus.BAD_GATEWAY, Verdict.GONE: HTTPStatus.NOT_FOUND}


class AnswerKind(Enum):
    """Where the client will use the answer."""

    PAGE = auto()
    IMAGE = auto()
    SCRIPT = auto()
    STYLE = auto()
    DATA = auto()
    MEDIA = auto()
    WEBSOCKET = auto()
    #: a CONNECT: no browser shows its answer
    TUNNEL = auto()


# Spec: Fetch Metadata Request Headers, 2.1; any other destination gets a page
_DESTINATIONS = {
    **dict.fromkeys(("script", "worker", "sharedworker", "serviceworker"), AnswerKind.SCRIPT),
    **dict.fromkeys(("audioworklet", "paintworklet"), AnswerKind.SCRIPT),
    **dict.fromkeys(("empty", "json", "manifest", "report"), AnswerKind.DATA),
    **dict.fromkeys(("audio", "video", "track", "font"), AnswerKind.MEDIA),
    "image": AnswerKind.IMAGE,
    "style": AnswerKind.STYLE,
}
_ENDINGS = {
    **dict.fromkeys((b"js", b"mjs"), AnswerKind.SCRIPT),
    **dict.fromkeys((b"gif", b"png", b"jpg", b"jpeg", b"webp", b"avif", b"ico", b"bmp", b"svg"), AnswerKind.IMAGE),
    b"css": AnswerKind.STYLE,
    b"json": AnswerKind.DATA,
}


def answer_kind_of(request: http.Request) -> AnswerKind:
    """The kind of answer that fits a request.

    Browsers send Sec-Fetch-Dest, but only over https. Otherwise Accept decides, and if that says "anything", the path.
    A browser that navigates always asks for text/html, so "anything" from a browser is a fetch.
    """
    headers = request.headers
    if request.method == "CONNECT":
        return AnswerKind.TUNNEL
    if headers.get("upgrade", "").lower() == "websocket":
        return AnswerKind.WEBSOCKET
    destination = headers.get("sec-fetch-dest")
    if destination == "empty" and headers.get("sec-fetch-mode") == "navigate":
        return AnswerKind.PAGE  # which the site's own service worker asks for
    if destination is not None:
        return _DESTINATIONS.get(destination.lower(), AnswerKind.PAGE)
    if headers.get("x-requested-with", "").lower() == "xmlhttprequest":
        return AnswerKind.DATA
    accept = headers.get("accept", "*/*").lower()
    if "text/html" in accept:
        return AnswerKind.PAGE
    if accept.startswith("image/"):
        return AnswerKind.IMAGE
    if accept.startswith("text/css"):
        return AnswerKind.STYLE
    if accept.startswith("application/json"):
        return AnswerKind.DATA
    by_ending = _ENDINGS.get(_ending(request.data.path))
    if by_ending is not None:
        return by_ending
    return AnswerKind.DATA if headers.get("user-agent", "").startswith("Mozilla/") else AnswerKind.PAGE


def _ending(target: bytes) -> bytes:
    """The text after the last dot of a path's last segment, in lower case."""
    name = target.partition(b"?")[0].rpartition(b"/")[2]
    return name.rpartition(b".")[2].lower() if b"." in name else b""


def explanation_of(judgement: Judgement, zone: tzinfo, kind: Verdict = Verdict.BLOCKED) -> Explanation:
    """The explanation of a decision; times are in ``zone``."""
    decision, reference, original = judgement.decision, judgement.reference, judgement.original
    # an unreadable URL is shown as it was sent, and may have user information in it
    url = str(without_user(decision.url.decode("ascii", "backslashreplace")))
    if decision.winner is None:
        return Explanation(url, fault=decision.fault, reference=reference, kind=kind, original=original)
    rule, until, server = decision.winner.rule, decision.winner.until, decision.winner.confirmed_by
    terms = rule.terms
    return Explanation(
        url=url,
        reason=terms.reason,
        category=terms.category,
        list=None if isinstance(rule.pattern, Ordered) else terms.label,  # its words are in no reader's language
        rule=rule.place,
        expression=decision.winner.text,
        until=None if until is None else until.astimezone(zone),
        reference=reference,
        kind=kind,
        original=original,
        text=_text_key(decision.winner),
        limit=rule.pattern if isinstance(rule.pattern, TimeLimit) else None,
        is_by_google=is_of_google(server) if server else False,
        file=None if decision.winner.file is None else str(decision.winner.file) or None,
    )


def _text_key(winner: Match) -> str | None:
    """The key of a page's text for a reason in the filter's own words."""
    if isinstance(winner.rule.pattern, Check):
        return f"check_{winner.rule.pattern.code}"
    if isinstance(winner.rule.pattern, Anything):
        return "default_reason" if winner.until is None else "default_reason_now"
    if winner.confirmed_by is not None and winner.rule.terms.reason is None:
        return "suspected_reason" if winner.confirmed_by else "unconfirmed_reason"
    return None


#: one transparent pixel
_PIXEL = bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c000000000100010000020144003b")
#: a reference that may be in a header; any other is on the page alone
_TOKEN = re.compile(r"[!-~]{1,100}")


def block_response(
    request: http.Request,
    explanation: Explanation,
    offer: Offer | None = None,
    template: Template | None = None,
) -> http.Response:
    """The response to a stopped request, or in the place of a site that cannot be reached; only a page has an offer."""
    kind = answer_kind_of(request)
    if kind is AnswerKind.PAGE:
        body, headers = page(explanation, request.headers.get("accept-language", ""), offer, template)
    else:
        content_type, body = _body(kind, explanation)
        headers = _headers(content_type)
    # For an image or a script, only these headers say in a browser's developer tools what happened.
    if explanation.reference is not None and _TOKEN.fullmatch(explanation.reference):
        headers["X-Hushlist-Reference"] = explanation.reference
    response = http.Response.make(_OTHER_STATUS.get(explanation.kind, STATUS), body, headers | _end(request))
    if request.method.upper() == "HEAD":
        response.raw_content = b""
    return response


def gone_response(request: http.Request, template: Template | None) -> http.Response:
    """The response at an address of the filter where nothing is, or is no more."""
    return block_response(request, Explanation("", kind=Verdict.GONE), None, template)


#: characters that need no escape in a target. Spec: RFC 3986, 2.2 and 2.3
_PLAIN = "/?:@!$&'()*+,;=-._~%[]"


def led_to(target: bytes) -> http.Response:
    """A redirect to another target, always on the same origin."""
    path = quote(target, safe=_PLAIN)
    # "//name" would be another origin; resolving the reference removes the dot segment.
    # Spec: RFC 3986, 4.2 and 5.2.4
    location = f"/.{path}" if path.startswith("//") else path
    headers = {"Location": location, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    return http.Response.make(HTTPStatus.SEE_OTHER, b"", headers)


LOOP = "the proxy would ask itself for it"


def loop_response(request: http.Request) -> http.Response:
    """The response to a request of the proxy to itself."""
    return block_response(request, Explanation("", fault=LOOP))


def failure(request: http.Request) -> http.Response:
    """The response if the filter itself failed; it quotes nothing of the request, which may be the cause.

    If the page cannot be made either, the response is plain text that cannot fail.
    """
    try:
        if answer_kind_of(request) is AnswerKind.PAGE:
            return block_response(request, Explanation("", kind=Verdict.FAILED))
    except Exception as error:
        logger.debug("hushlist: no page for the failure: %r", error)
    headers = _headers(_TEXT) | _end(request)
    return http.Response.make(STATUS, b"The filter failed; nothing passes it unseen.\n", headers)


def _end(request: http.Request) -> dict[str, str]:
    """Close the connection with a refused tunnel: data that the client sent for it must not be read as requests."""
    is_tunnel = request.method == "CONNECT" and (request.is_http10 or request.is_http11)
    return {"Connection": "close"} if is_tunnel else {}


def _headers(content_type: str) -> dict[str, str]:
    return {"Content-Type": content_type, **HEADERS, "Content-Security-Policy": security_policy()}


_TEXT = "text/plain; charset=utf-8"
_EMPTY = {AnswerKind.SCRIPT: "text/javascript; charset=utf-8", AnswerKind.STYLE: "text/css; charset=utf-8"}


def _body(kind: AnswerKind, explanation: Explanation) -> tuple[str, bytes]:
    """The content type and body for any kind but a page."""
    match kind:
        case AnswerKind.IMAGE:
            return "image/gif", _PIXEL
        case AnswerKind.DATA:
            return "application/json", json.dumps(explanation.as_dict()).encode()
        case AnswerKind.WEBSOCKET | AnswerKind.TUNNEL:
            verb = "" if explanation.kind is Verdict.UNREACHED else "Blocked: "
            return _TEXT, f"{verb}{explanation.in_english()}\n".encode("utf-8", "backslashreplace")
    return _EMPTY.get(kind, _TEXT), b""
