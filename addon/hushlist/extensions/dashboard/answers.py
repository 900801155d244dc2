"""Answers of the proxy's pages, with headers that keep other sites out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus

from mitmproxy import http

from hushlist.proxy.page.pages import HEADERS

#: Spec: Content Security Policy Level 3; Fetch, 3.8 (Cross-Origin-Resource-Policy); HTML, 7.1.3 (opener policy)
_HEADERS = {
    **HEADERS,
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


def answer(octets: bytes, kind: str, status: int = HTTPStatus.OK, **more: str) -> http.Response:
    """An answer of a content type; in the names of more headers, underscores are hyphens."""
    headers = {name.replace("_", "-"): value for name, value in more.items()}
    return http.Response.make(status, octets, {"Content-Type": kind, **_HEADERS, **headers})


def html(octets: bytes, language: str, status: int = HTTPStatus.OK, **more: str) -> http.Response:
    more = {"Content_Language": language, "Vary": "Accept-Language", **more}
    return answer(octets, "text/html; charset=utf-8", status, **more)


def words(status: int, text: str, **more: str) -> http.Response:
    return answer(f"{text}\n".encode(), "text/plain; charset=utf-8", status, **more)


def as_json(status: int, value: Mapping[str, object], **more: str) -> http.Response:
    return answer(json.dumps(value).encode(), "application/json", status, **more)


def error(status: int, why: str, detail: Mapping[str, object] | None = None, **more: str) -> http.Response:
    return as_json(status, {"error": why} | ({} if detail is None else {"detail": detail}), **more)
