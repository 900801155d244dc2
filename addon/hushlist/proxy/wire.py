"""A flow as the engine's request: raw octets, and every host that it goes by."""

from __future__ import annotations

import re
from contextlib import suppress

from mitmproxy import dns, http
from mitmproxy.flow import Flow
from mitmproxy.net.dns import op_codes

from hushlist.policy.groups import Client
from hushlist.url.message import request_of_head
from hushlist.url.parts import to_bytes
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


def request_of_flow(flow: http.HTTPFlow, *, with_media: bool = False) -> Request:
    """The request, by all its names; ``with_media``: with the media types that it names."""
    return request_of_head(flow.request.data, flow.client_conn.sni, with_media=with_media)


# Spec: RFC 1035, 4.1.1; RFC 4501 for the URL
_QUERY = 0
_DELIMITERS_OF_AUTHORITY = re.compile(rb"[/?#@\\:\[\]]")


def request_of_question(message: dns.Message) -> Request:
    """The request for all names that a message of DNS asks for."""
    hosts = dict.fromkeys(host for question in message.questions for host in hosts_of_name(question.name))
    return Request(b"dns", tuple(hosts), 53, b"/", fault=_fault_of_message(message))


def hosts_of_name(name: str) -> list[bytes]:
    """A name of DNS as hosts: as mitmproxy has it, and as mitmproxy asks for it.

    In a name any octet may stand. No URL has a host with one that delimits its parts; what is decided is the name with
    another octet there, which is below the same domains.
    """
    hosts = [_DELIMITERS_OF_AUTHORITY.sub(b"-", to_bytes(name))]
    if not name.isascii():
        with suppress(UnicodeError):
            hosts.append(_DELIMITERS_OF_AUTHORITY.sub(b"-", name.encode("idna")))
    return hosts


def _fault_of_message(message: dns.Message) -> str | None:
    if not message.query:
        return "it is no query"
    if message.op_code != _QUERY:
        return f"its operation is {op_codes.to_str(message.op_code)}"
    return None


def client_of_flow(flow: Flow) -> Client:
    """Who asks: the address, the user that mitmproxy's ``proxyauth`` has let in, and the port that was asked."""
    peer, own = flow.client_conn.peername, flow.client_conn.sockname
    known = flow.metadata.get("proxyauth")
    return Client(peer[0] if peer else "", known[0] if known else None, own[1] if own else None)
