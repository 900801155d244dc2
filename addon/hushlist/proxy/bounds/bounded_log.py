"""Bounds of mitmproxy's log: what is wrong with a peer's input, it says with all of that input."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from mitmproxy.proxy.server import ConnectionHandler

#: characters of a message about a connection
LONGEST_LOGGED = 1000


def _with_short_messages(log: Callable[..., None]) -> Callable[..., None]:
    """What logs about a connection: a client that sends nonsense would fill the log with four times of it."""

    @wraps(log)
    def bounded(handler: ConnectionHandler, message: str, *arguments: object, **named: object) -> None:
        if len(message) > LONGEST_LOGGED:
            message = f"{message[:LONGEST_LOGGED]}... ({len(message):,} characters)"
        log(handler, message, *arguments, **named)

    return bounded


#: as in ``bounded_http``
WRAPPED = ((_with_short_messages, ("log",), (ConnectionHandler,)),)
