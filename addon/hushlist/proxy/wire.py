"""A flow as the engine's request: raw octets, and every host that it goes by."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from mitmproxy import http

from hushlist.engine import Request
from hushlist.url.host import DELIMITERS
from hushlist.url.parts import split_web_authority, to_bytes


def request_of_flow(flow: http.HTTPFlow) -> Request:
    """The request, by its target first, then by its Host headers or authority, then by the TLS server name."""
    data = flow.request.data
    hosts = tuple(dict.fromkeys(_hosts(flow)))
    user, at, _ = data.authority.rpartition(b"@")
    return Request(data.scheme.lower(), hosts, data.port, data.path, userinfo=user if at else None, fault=_fault(data))


# Spec: RFC 9110, 5.6.2 and 5.5; RFC 9112, 3.2
_METHOD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_IN_TARGET = re.compile(rb"[\x00-\x20\x7f]")
_NOT_IN_FIELD = re.compile(rb"[\x00\r\n]")


def _fault(data: http.RequestData) -> str | None:
    """What would make another request of it, or more than one, where it is written as HTTP/1.1.

    HTTP/2 can carry any octet anywhere, and a folded line or a bare CR is read in more ways than one.
    """
    if not _METHOD.fullmatch(data.method):
        return "its method is none"
    if not data.path.startswith(b"/") and data.path != b"*" and data.method != b"CONNECT":
        return "its target is no path"
    if _NOT_IN_TARGET.search(data.path):
        return "there is white space or a control character in its target"
    if _NOT_IN_FIELD.search(b"".join((data.authority, *map(b"".join, data.headers.fields)))):
        return "there is a line end or a NUL in its headers"
    return None


def _hosts(flow: http.HTTPFlow) -> Iterator[bytes]:
    data = flow.request.data
    yield to_bytes(data.host)
    if not data.host.isascii():
        with suppress(UnicodeError):
            yield data.host.encode("idna")  # the name that is looked up: by IDNA 2003, which drops and maps more
    if data.authority:
        yield _host(data.authority)
    for name, value in data.headers.fields:
        if name.lower() == b"host":
            yield _host(value.strip())
    if flow.client_conn.sni:
        yield to_bytes(flow.client_conn.sni)


def _host(authority: bytes) -> bytes:
    """The host of an authority; one with a user in it is no host that a client would send, and stays as it is.

    So does one that would be a URL, whose scheme is not to be taken for the host.
    """
    return authority if DELIMITERS.search(authority) else split_web_authority(authority)[1]
