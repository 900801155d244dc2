"""A flow as the engine's request: raw octets, and every host that it goes by."""

from __future__ import annotations

from collections.abc import Iterator

from mitmproxy import http

from hushlist.engine import Request
from hushlist.url.parts import split_web_authority, to_bytes


def request_of_flow(flow: http.HTTPFlow) -> Request:
    """The request, by its target first, then by its Host headers or authority, then by the TLS server name."""
    data = flow.request.data
    hosts = tuple(dict.fromkeys(_hosts(flow)))
    user, at, _ = data.authority.rpartition(b"@")
    return Request(data.scheme.lower(), hosts, data.port, data.path, userinfo=user if at else None)


def _hosts(flow: http.HTTPFlow) -> Iterator[bytes]:
    data = flow.request.data
    yield to_bytes(data.host)
    if data.authority:
        yield _host(data.authority)
    for name, value in data.headers.fields:
        if name.lower() == b"host":
            yield _host(value.strip())
    if flow.client_conn.sni:
        yield to_bytes(flow.client_conn.sni)


def _host(authority: bytes) -> bytes:
    """The host of an authority; one with a user in it is no host that a client would send, and stays as it is."""
    return authority if b"@" in authority else split_web_authority(authority)[1]
