"""Listening by the sockets that several proxies share (``proxy/service/siblings.py``), in place of mitmproxy's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mitmproxy.proxy.mode_servers import AsyncioServerInstance, ServerInstance
from mitmproxy.proxy.mode_specs import ProxyMode, ReverseMode

from hushlist.proxy.service.siblings import siblings


def fault_of_mode(mode: ProxyMode) -> str:
    """Why several proxies cannot serve a mode together; empty if they can.

    >>> fault_of_mode(ProxyMode.parse("regular")), fault_of_mode(ProxyMode.parse("reverse:https://site.example"))
    ('', '')
    >>> fault_of_mode(ProxyMode.parse("dns"))
    'dns: several workers cannot share this mode, only those over TCP: start a mitmdump of its own for it'
    """
    is_https = isinstance(mode, ReverseMode) and mode.scheme == "https"  # by TCP: nothing leads clients to HTTP/3
    if mode.transport_protocol == "tcp" or is_https:
        return ""
    why = "several workers cannot share this mode, only those over TCP"
    return f"{mode.full_spec}: {why}: start a mitmdump of its own for it"


async def _start(original: Callable[..., Awaitable[None]], instance: ServerInstance[Any]) -> None:
    """Start no mode that several proxies cannot share, if this is one of several."""
    if siblings() is not None and (fault := fault_of_mode(instance.mode)):
        raise ValueError(fault)
    await original(instance)


async def _listen(
    original: Callable[..., Awaitable[list[Any]]], instance: AsyncioServerInstance[Any], host: str, port: int
) -> list[Any]:
    """Listen by the sockets that all proxies of a parent share, if this is one of several."""
    shared = siblings()
    if shared is None:
        return await original(instance, host, port)
    return [shared.serve(bound, instance.handle_stream) for bound in shared.bind(host, port)]


#: as in ``bounded_http``
WRAPPED = (
    (_start, ("start",), (ServerInstance,)),
    (_listen, ("listen",), (AsyncioServerInstance,)),
)
