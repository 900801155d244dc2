"""What stands in the place of a method, or a part, of a single object: an addon, an event loop, a connection.

``OBJECT_PATCHES`` is the table; ``put_on`` is the only way to do it, and notices what has not taken.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import ReferenceType, ref

from h2.connection import H2Connection
from mitmproxy.addonmanager import AddonManager
from mitmproxy.addons.dns_resolver import DnsResolver
from mitmproxy.addons.errorcheck import ErrorCheck
from mitmproxy.proxy.layers.http import HttpStream
from mitmproxy.proxy.layers.http._http1 import Http1Client
from mitmproxy.proxy.layers.modes import DestinationKnown
from mitmproxy.proxy.server import ConnectionHandler


class ObjectPatch(NamedTuple):
    """A name of objects of a class that stands for something of ours on some of them."""

    owner: type
    name: str
    why: str
    #: whether there is one such object, which is looked at again each time
    is_single: bool = False

    @property
    def place(self) -> str:
        return f"{self.owner.__qualname__}.{self.name}"


OBJECT_PATCHES = (
    ObjectPatch(
        *(AddonManager, "trigger_event", "Ask the filter at each hook, and refuse what no filter was asked about."),
        is_single=True,
    ),
    ObjectPatch(
        *(AddonManager, "handle_lifecycle", "Look once through the addons for an event, and for what hears of all."),
        is_single=True,
    ),
    ObjectPatch(
        *(DnsResolver, "dns_request", "Ask name servers only after the filter has decided about a name."),
        is_single=True,
    ),
    ObjectPatch(
        asyncio.BaseEventLoop,
        "getaddrinfo",
        "Look names up in threads of their own, of which each client has a share.",
        is_single=True,
    ),
    ObjectPatch(ErrorCheck, "logger", "Count no error against the start that is no reason not to serve."),
    ObjectPatch(H2Connection, "data_to_send", "Tell a client of HTTP/2 that its connection ends, and answer the rest."),
    ObjectPatch(HttpStream, "_handle_event", "Pass on what comes behind a request that switched to another protocol."),
    ObjectPatch(DestinationKnown, "_handle_event", "End a connection of SOCKS that the filter has refused."),
    ObjectPatch(Http1Client, "buf", "Read no head of an origin but the final one."),
    ObjectPatch(ConnectionHandler, "layer", "Send nothing more to a client over UDP whose connection has ended."),
)
#: those that are not as they have to be, by place: their object has no such name, or did not keep what was put there
UNTAKEN: dict[str, ObjectPatch] = {}
#: the object of each that is single, as it was last set
SINGLE: dict[ObjectPatch, ReferenceType[Any]] = {}


def put_on(owner: object, name: str, ours: object) -> None:
    """Put something of ours on an object, by a row of the table; what cannot be is noted, and nothing is put there."""
    patch = _row_of(owner, name)
    if not hasattr(owner, name):
        UNTAKEN[patch.place] = patch
        return
    setattr(owner, name, ours)
    if getattr(owner, name) != ours:
        UNTAKEN[patch.place] = patch
    if patch.is_single:
        SINGLE[patch] = ref(owner)


def take_off(owner: object, name: str) -> None:
    """Have an object use the method of its class again."""
    vars(owner).pop(name, None)
    SINGLE.pop(_row_of(owner, name), None)


def filter_log_of(owner: object, name: str, wanted: Callable[[logging.LogRecord], bool]) -> None:
    """Have an object's handler of log messages take those alone that are wanted, by a row of the table."""
    patch, handler = _row_of(owner, name), getattr(owner, name, None)
    if not isinstance(handler, logging.Handler):
        UNTAKEN[patch.place] = patch
    elif wanted not in handler.filters:
        handler.addFilter(wanted)


def untaken() -> list[str]:
    """The places of the table where what is ours is not in use."""
    missing = [patch.place for patch in OBJECT_PATCHES if _lacks(patch)]
    changed = [
        patch.place
        for patch, reference in SINGLE.items()
        if (owner := reference()) is not None and not _is_ours(getattr(owner, patch.name, None))
    ]
    return list(dict.fromkeys([*missing, *UNTAKEN, *changed]))


def _row_of(owner: object, name: str) -> ObjectPatch:
    """The row of an object's name; where its class is another one, as in another mitmproxy, by the name alone."""
    rows = [patch for patch in OBJECT_PATCHES if patch.name == name]
    return next((patch for patch in rows if isinstance(owner, patch.owner)), rows[0])


#: names that objects get when they are made
_OF_INSTANCES = ("logger", "buf", "layer")


def _lacks(patch: ObjectPatch) -> bool:
    """Whether objects of the class can have no such name: its class tells, unless they get it when they are made."""
    return patch.name not in _OF_INSTANCES and not hasattr(patch.owner, patch.name)


def _is_ours(value: Any) -> bool:
    """Whether a function, a method or a part of a call is of this package."""
    function = getattr(value, "func", value)
    return str(getattr(getattr(function, "__func__", function), "__module__", "")).startswith("hushlist.")
