"""Bounds what mitmproxy, and the packages by which it reads protocols, keep of a peer's input.

They keep a head until it ends, however long it is, and read what has begun again from its beginning with each piece
that arrives. A peer may also have them keep much more than it sends: by a gap in a QUIC stream, by a large table of
header fields, by pointers to names, or by compression. So one client could take all memory, or all time of the others.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from mitmproxy.proxy.layers.http import _http1

from hushlist.proxy.bounds import (
    bounded_dns,
    bounded_http,
    bounded_log,
    bounded_names,
    bounded_quic,
    bounded_websocket,
)

_REPLACED: tuple[tuple[Any, str, Any], ...] = (
    *bounded_http.REPLACED,
    *bounded_quic.REPLACED,
    *bounded_websocket.REPLACED,
    *bounded_dns.REPLACED,
)
_WRAPPED: tuple[tuple[Any, tuple[str, ...], tuple[Any, ...]], ...] = (
    *bounded_http.WRAPPED,
    *bounded_dns.WRAPPED,
    *bounded_names.WRAPPED,
    *bounded_log.WRAPPED,
)


def bound_input() -> None:
    """Have mitmproxy keep to the bounds, from the next connection on; once for a process."""
    if vars(_http1)["ReceiveBuffer"] is bounded_http.BoundedBuffer:
        return
    for module, name, bounded in _REPLACED:
        setattr(module, name, bounded)
    for bound, names, modules in _WRAPPED:
        for module, name in product(modules, names):
            if hasattr(module, name):
                setattr(module, name, bound(getattr(module, name)))
