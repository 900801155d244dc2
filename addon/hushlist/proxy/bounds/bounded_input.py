"""Bounds what mitmproxy, and what it reads protocols by, keep of a peer's input; and ends what it sends.

They keep a head until it ends, however long it is, and read what has begun again from its beginning with each piece
that arrives. A peer may also have them keep much more than it sends: by a gap in a QUIC stream, by a large table of
header fields, by pointers to names, or by compression. So one client could take all memory, or all time of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import getattr_static
from typing import Any, NamedTuple

from hushlist.proxy import cheap_reads, immediate_hooks
from hushlist.proxy.bounds import (
    back_pressure,
    bounded_dns,
    bounded_http,
    bounded_names,
    bounded_quic,
    bounded_streams,
    bounded_websocket,
    flow_windows,
    flowing_bodies,
    framed_http1,
    printable_log,
)
from hushlist.proxy.connections import kept_certificates, server_handshakes, tunnel_layers
from hushlist.proxy.object_patches import untaken
from hushlist.proxy.service import shared_listening, upkeep


class Patch(NamedTuple):
    """One name of mitmproxy, or of what it reads protocols by, that stands for something of ours."""

    #: a module or a class, and the name in it
    owner: Any
    name: str
    #: what stands there; where it ``wraps``, it is called with what stood there before
    ours: Any
    wraps: bool

    @property
    def place(self) -> str:
        """Where it is, as one would import it."""
        return f"{getattr(self.owner, '__qualname__', None) or self.owner.__name__}.{self.name}"


_REPLACED: tuple[tuple[Any, str, Any], ...] = (
    *bounded_http.REPLACED,
    *framed_http1.REPLACED,
    *flowing_bodies.REPLACED,
    *bounded_quic.REPLACED,
    *bounded_websocket.REPLACED,
    *bounded_dns.REPLACED,
    *bounded_streams.REPLACED,
    *upkeep.REPLACED,
    *kept_certificates.REPLACED,
    *cheap_reads.REPLACED,
)
_WRAPPED: tuple[tuple[Callable[..., Any], tuple[str, ...], tuple[Any, ...]], ...] = (
    *bounded_http.WRAPPED,
    *back_pressure.WRAPPED,
    *flow_windows.WRAPPED,
    *framed_http1.WRAPPED,
    *bounded_names.WRAPPED,
    *tunnel_layers.WRAPPED,
    *printable_log.WRAPPED,
    *server_handshakes.WRAPPED,
    *shared_listening.WRAPPED,
    *immediate_hooks.WRAPPED,
)
#: all of them, in the order in which they are set; each has to be there in mitmproxy 11 and 12
PATCHES = (
    *(Patch(owner, name, ours, wraps=False) for owner, name, ours in _REPLACED),
    *(Patch(owner, name, ours, wraps=True) for ours, names, owners in _WRAPPED for owner in owners for name in names),
)
#: by owner and name, what stands there since ``bound_input``; and what had no such name
TAKEN: dict[tuple[int, str], tuple[Patch, Any]] = {}
MISSED: list[Patch] = []


def bound_input() -> None:
    """Have mitmproxy keep to the bounds, from the next connection on; once for a process."""
    if TAKEN:
        return
    for patch in PATCHES:
        owner, name, ours, wraps = patch
        if not hasattr(owner, name):
            MISSED.append(patch)
            continue
        setattr(owner, name, _called_by(ours, getattr(owner, name)) if wraps else ours)
        TAKEN[id(owner), name] = patch, getattr_static(owner, name)


def not_taken() -> list[str]:
    """The names that do not stand for what they have to: they are none of this mitmproxy, or somebody has changed them.

    What is there counts, not what was done: it is looked at each time.
    """
    missed = [patch.place for patch in MISSED]
    changed = [
        patch.place for patch, ours in TAKEN.values() if getattr_static(patch.owner, patch.name, None) is not ours
    ]
    return [*missed, *changed, *untaken()]


def _called_by(bound: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def call(*arguments: Any, **named: Any) -> Any:
        return bound(original, *arguments, **named)

    return call
