"""What the head of a request or an answer says of the file that it carries."""

from __future__ import annotations

from mitmproxy import http

from hushlist.extensions.files.content_coding import codings_of
from hushlist.extensions.files.file_names import name_of_target, names_of_disposition
from hushlist.extensions.files.file_rules import FileFacts
from hushlist.extensions.files.upload_look import is_form, media_types_of


def facts_of_upload(request: http.Request) -> FileFacts:
    """What is sent, by the head of its request; a form has no kind of its own."""
    headers = request.headers
    kinds = frozenset[str]() if is_form(headers.get_all("content-type")) else None
    return FileFacts(True, media_types_of_head(headers), names_of(request, headers), length_of(headers), kinds)


def facts_of_download(request: http.Request, headers: http.Headers) -> FileFacts:
    """What a request gets, by the head of its answer."""
    return FileFacts(False, media_types_of_head(headers), names_of(request, headers), length_of(headers))


def codings_of_head(headers: http.Headers) -> str:
    """The codings of a body, the first that was applied first, with commas between them."""
    return codings_of((*headers.get_all("content-encoding"), *headers.get_all("transfer-encoding")))


def has_body(request: http.Request) -> bool:
    """Whether a request sends something."""
    headers = request.headers
    return bool(request.raw_content or request.stream) or "transfer-encoding" in headers or bool(length_of(headers))


def names_of(request: http.Request, headers: http.Headers) -> tuple[str, ...]:
    """The names of a file: that of Content-Disposition first, then that of the URL."""
    names = (*names_of_disposition(headers.get_all("content-disposition")), name_of_target(request.data.path))
    return tuple(filter(None, names))


def media_types_of_head(headers: http.Headers) -> tuple[str, ...]:
    """Its media types, as the head has them."""
    return media_types_of(headers.get_all("content-type"))


def length_of(headers: http.Headers) -> int | None:
    """Its octets; ``None`` if the head does not say."""
    text = headers.get("content-length", "")
    return int(text) if text.isdecimal() and len(text) < 20 else None
