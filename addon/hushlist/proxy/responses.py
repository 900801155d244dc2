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


def keep_here(flow: http.HTTPFlow, mode: str, in_force: InForce) -> None:
    """Take ``Alt-Svc`` out of headers and trailers, wherever the filter is on; a recording stays as it is."""
    response = flow.response
    if response is None or mode == "off" or not flow.live:
        return
    for headers in (response.headers, response.trailers):
        if headers is None or not any(map(_leads_away, headers.fields)):
            continue
        if in_force.settings(client_of_flow(flow)).mode == "off":
            return
        headers.fields = tuple(field for field in headers.fields if not _leads_away(field))


def _leads_away(field: tuple[bytes, bytes]) -> bool:
    name, value = field  # the length alone rules nearly all of them out
    return len(name) == len(_ALT_SVC) and name.lower() == _ALT_SVC and value.strip() != _CLEAR
