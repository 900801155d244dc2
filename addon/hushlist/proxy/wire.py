"""A flow as the engine's request: raw octets, and every host that it goes by."""

from __future__ import annotations

from mitmproxy import http

from hushlist.policy.groups import Client
from hushlist.url.message import request_of_head
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
    """The request, by all its names."""
    return request_of_head(flow.request.data, flow.client_conn.sni)


def client_of_flow(flow: http.HTTPFlow) -> Client:
    """Who asks: the address, the user that mitmproxy's ``proxyauth`` has let in, and the port that was asked."""
    peer, own = flow.client_conn.peername, flow.client_conn.sockname
    known = flow.metadata.get("proxyauth")
    return Client(peer[0] if peer else "", known[0] if known else None, own[1] if own else None)
