"""Bounds what mitmproxy keeps of a peer's input before it asks any addon: the head of a message, a ClientHello.

mitmproxy keeps a head until it ends, however long it is, and reads a ClientHello again from its beginning with each
piece that arrives. So one client could take all memory, or all time of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from h11._receivebuffer import ReceiveBuffer
from mitmproxy.addons import next_layer
from mitmproxy.proxy.layers import quic, tls
from mitmproxy.proxy.layers.http import _http1

#: octets that wait to be read as HTTP/1: four times what any part of a head may have
MOST_WAITING = 1 << 18
#: octets of a ClientHello with its records: several times what a browser sends
LONGEST_HELLO = 1 << 14
#: no request line, no status line and no size of a chunk: whoever reads it ends the connection
_NOTHING = b"it is too long\n\n"


class BoundedBuffer(ReceiveBuffer):
    """Octets that wait to be read; if they are too many, they are replaced by what is no HTTP."""

    def __iadd__(self, octets: bytes | bytearray) -> BoundedBuffer:
        super().__iadd__(octets)
        if len(self) > MOST_WAITING:
            self.maybe_extract_at_most(len(self))
            super().__iadd__(_NOTHING)
        return self


def _bounded(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A parser that refuses a ClientHello which is incomplete and too long already."""

    @wraps(parse)
    def bounded(data: bytes | list[bytes]) -> Any:
        hello = parse(data)
        if hello is None and (sum(map(len, data)) if isinstance(data, list) else len(data)) > LONGEST_HELLO:
            raise ValueError("it is too long")
        return hello

    return bounded


def bound_input() -> None:
    """Have mitmproxy keep to the bounds, from the next connection on; once for a process."""
    if vars(_http1)["ReceiveBuffer"] is BoundedBuffer:
        return
    setattr(_http1, "ReceiveBuffer", BoundedBuffer)  # noqa: B010  mitmproxy does not export it
    for module in (tls, next_layer, getattr(quic, "_stream_layers", quic)):
        for name in ("parse_client_hello", "dtls_parse_client_hello", "quic_parse_client_hello_from_datagrams"):
            if hasattr(module, name):
                setattr(module, name, _bounded(getattr(module, name)))
