"""A flow as the engine's request: raw octets, and every host that it goes by."""

from __future__ import annotations

import re
from contextlib import suppress

from mitmproxy import http

from hushlist.policy.groups import Client
from hushlist.url.host import DELIMITERS
from hushlist.url.parts import split_web_authority, to_bytes
from hushlist.url.request import Request

#: all that a request is made of, as it stands on the flow
Seen = tuple[object, ...]


def seen_of_flow(flow: http.HTTPFlow) -> Seen:
    """All that ``request_of_flow`` looks at: where it is equal, so is the request, which costs more to make."""
    data = flow.request.data
    return (
        data.host,
        data.port,
        data.method,
        data.scheme,
        data.authority,
        data.path,
        tuple(map(tuple, data.headers.fields)),  # copied only where another addon has put lists in their place
        flow.client_conn.sni,
    )


def request_of_flow(flow: http.HTTPFlow) -> Request:
    """The request, by its target first, then by its Host headers or authority, then by the TLS server name."""
    data = flow.request.data
    hosts = tuple(dict.fromkeys(_hosts(data, flow.client_conn.sni)))
    user, at, _ = data.authority.rpartition(b"@")
    return Request(data.scheme.lower(), hosts, data.port, data.path, userinfo=user if at else None, fault=_fault(data))


# Spec: RFC 9110, 5.6.2 and 5.5; RFC 9112, 3.2
_METHOD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_USUAL_METHODS = frozenset((b"GET", b"POST", b"HEAD", b"OPTIONS", b"PUT", b"DELETE", b"PATCH", b"CONNECT"))
_NOT_IN_TARGET = bytes((*range(0x21), 0x7F))
_NUL, _LF, _CR = b"\0\n\r"  # an octet is found faster as a number


def _fault(data: http.RequestData) -> str | None:
    """What would make another request of it, or more than one, where it is written as HTTP/1.1.

    HTTP/2 can carry any octet anywhere, and a folded line or a bare CR is read in more ways than one.
    """
    method, path = data.method, data.path
    if method not in _USUAL_METHODS and not _METHOD.fullmatch(method):
        return "its method is none"
    if not path.startswith(b"/") and path != b"*" and method != b"CONNECT":
        return "its target is no path"
    if len(path.translate(None, _NOT_IN_TARGET)) != len(path):
        return "there is white space or a control character in its target"
    fields = b"".join((data.authority, *map(b"".join, data.headers.fields)))
    if _LF in fields or _CR in fields or _NUL in fields:
        return "there is a line end or a NUL in its headers"
    return None


def _hosts(data: http.RequestData, server_name: str | None) -> list[bytes]:
    hosts = [to_bytes(data.host)]
    if not data.host.isascii():
        with suppress(UnicodeError):
            hosts.append(data.host.encode("idna"))  # what is looked up: IDNA 2003 drops and maps more
    if data.authority:
        hosts.append(_host(data.authority))
    hosts += [
        _host(value.strip())
        for name, value in data.headers.fields
        if len(name) == len(_HOST) and name.lower() == _HOST  # the length alone rules nearly all of them out
    ]
    if server_name:
        hosts.append(to_bytes(server_name))
    return hosts


_HOST = b"host"


def _host(authority: bytes) -> bytes:
    """The host of an authority; one with a user in it is no host that a client would send, and stays as it is.

    So does one that would be a URL, whose scheme is not to be taken for the host.
    """
    return authority if DELIMITERS.search(authority) else split_web_authority(authority)[1]


def client_of_flow(flow: http.HTTPFlow) -> Client:
    """Who asks: the address, the user that mitmproxy's ``proxyauth`` has let in, and the port that was asked."""
    peer, own = flow.client_conn.peername, flow.client_conn.sockname
    known = flow.metadata.get("proxyauth")
    return Client(peer[0] if peer else "", known[0] if known else None, own[1] if own else None)
