"""What a client gets for a blocked request: a page, or whatever fits the place where the answer would be used.

Everything that came with the request is escaped in one place, and the page needs nothing from outside.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from html import escape
from importlib.resources import files
from pathlib import PurePath
from string import Template

from mitmproxy import http

from hushlist.match.index import Match
from hushlist.policy.decision import Decision

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


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a blocked person is told."""

    url: str
    reason: str
    category: str | None = None
    list: str | None = None
    #: where the rule stands: the file's name, without its folder, and the line
    rule: str | None = None
    expression: str | None = None

    def as_dict(self) -> dict[str, object]:
        """For programs."""
        return {
            "blocked": True,
            "url": self.url,
            "reason": self.reason,
            "category": self.category,
            "list": self.list,
            "rule": self.rule,
            "expression": self.expression,
        }


def explain(decision: Decision) -> Explanation:
    """What to tell of a decision."""
    url = decision.url.decode("ascii", "backslashreplace")
    if decision.winner is None:
        return Explanation(url, f"The address cannot be read: {decision.fault}.")
    return _explain_rule(url, decision.winner)


def _explain_rule(url: str, winner: Match) -> Explanation:
    _, terms, line = winner.rule
    return Explanation(
        url=url,
        reason=terms.reason or "A rule of the filter blocks it.",
        category=terms.category,
        list=terms.label,
        rule=f"{PurePath(terms.source).name}:{line}",
        expression=winner.text,
    )


#: one transparent pixel
_PIXEL = bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c000000000100010000020144003b")
_TEMPLATE = Template(files("hushlist.proxy").joinpath("block_page.html").read_text(encoding="utf-8"))
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'; sandbox",
}


def answer(request: http.Request, explanation: Explanation) -> http.Response:
    """The response to a blocked request."""
    content_type, body = _body(kind_of(request), explanation)
    headers = {"Content-Type": content_type, **_HEADERS}
    response = http.Response.make(STATUS, body, headers)
    if request.method.upper() == "HEAD":
        response.raw_content = b""
        response.headers["Content-Length"] = str(len(body))
    return response


def failure(_: http.Request) -> http.Response:
    """The response where the filter itself failed: made of nothing that could fail again."""
    headers = {"Content-Type": "text/plain; charset=utf-8", **_HEADERS}
    return http.Response.make(STATUS, b"The filter failed; nothing passes it unseen.\n", headers)


def _body(kind: Kind, explanation: Explanation) -> tuple[str, bytes]:
    match kind:
        case Kind.PAGE:
            return "text/html; charset=utf-8", page(explanation).encode("utf-8", "backslashreplace")
        case Kind.IMAGE:
            return "image/gif", _PIXEL
        case Kind.SCRIPT:
            return "text/javascript; charset=utf-8", b""
        case Kind.STYLE:
            return "text/css; charset=utf-8", b""
        case Kind.DATA:
            return "application/json", json.dumps(explanation.as_dict()).encode()
        case Kind.MEDIA:
            return "text/plain; charset=utf-8", b""
        case Kind.WEBSOCKET:
            return "text/plain; charset=utf-8", f"Blocked: {explanation.reason}\n".encode("utf-8", "backslashreplace")


def page(explanation: Explanation) -> str:
    """The block page."""
    facts: Mapping[str, str | None] = {
        "Address": explanation.url,
        "Category": explanation.category,
        "List": explanation.list,
        "Rule": explanation.rule,
        "Matched": explanation.expression,
    }
    rows = "\n".join(
        f"      <dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items() if value is not None
    )
    return _TEMPLATE.substitute(reason=escape(explanation.reason), facts=rows)
