"""Bounds what mitmproxy, and what it reads protocols by, keep of a peer's input; and ends what it sends.

They keep a head until it ends, however long it is, and read what has begun again from its beginning with each piece
that arrives. A peer may also have them keep much more than it sends: by a gap in a QUIC stream, by a large table of
header fields, by pointers to names, or by compression. So one client could take all memory, or all time of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import product
from typing import Any

from mitmproxy.proxy.layers.http import _http1

from hushlist.proxy.bounds import (
    back_pressure,
    bounded_dns,
    bounded_http,
    bounded_names,
    bounded_quic,
    bounded_streams,
    bounded_websocket,
    flowing_bodies,
    framed_http1,
    printable_log,
)
from hushlist.proxy.connections import server_handshakes, tunnel_layers

_REPLACED: tuple[tuple[Any, str, Any], ...] = (
    *bounded_http.REPLACED,
    *framed_http1.REPLACED,
    *flowing_bodies.REPLACED,
    *bounded_quic.REPLACED,
    *bounded_websocket.REPLACED,
    *bounded_dns.REPLACED,
    *bounded_streams.REPLACED,
)
_WRAPPED: tuple[tuple[Callable[..., Any], tuple[str, ...], tuple[Any, ...]], ...] = (
    *bounded_http.WRAPPED,
    *back_pressure.WRAPPED,
    *framed_http1.WRAPPED,
    *bounded_names.WRAPPED,
    *tunnel_layers.WRAPPED,
    *printable_log.WRAPPED,
    *server_handshakes.WRAPPED,
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
                setattr(module, name, _called_by(bound, getattr(module, name)))


def _called_by(bound: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def call(*arguments: Any, **named: Any) -> Any:
        return bound(original, *arguments, **named)

    return call
