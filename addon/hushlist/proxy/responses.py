"""What is taken out of responses: what would lead a browser to where nothing is filtered.

Where a response redirects to is decided when that is requested. An ALTSVC frame of HTTP/2 ends at mitmproxy.
"""

from __future__ import annotations

from mitmproxy import http

from hushlist.proxy.in_force import InForce
from hushlist.proxy.wire import client_of_flow

_ALT_SVC = b"alt-svc"
#: "the origin requests all alternatives for that origin to be invalidated" (RFC 7838, 3): that leads back
_CLEAR = b"clear"


def keep_here(flow: http.HTTPFlow, headers: http.Headers | None, mode: str, in_force: InForce) -> None:
    """Take ``Alt-Svc`` out of a response's headers, or trailers, wherever the filter is on; a recording stays so."""
    if headers is None or mode == "off" or not flow.live:
        return
    fields = headers.fields  # of which the length of the name alone rules nearly all out
    kept = tuple([field for field in fields if len(field[0]) != len(_ALT_SVC) or not _leads_away(*field)])
    if len(kept) != len(fields) and in_force.settings(client_of_flow(flow)).mode != "off":
        headers.fields = kept


def _leads_away(name: bytes, value: bytes) -> bool:
    return name.lower() == _ALT_SVC and value.strip() != _CLEAR
