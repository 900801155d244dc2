"""Looks up the names of servers: a client whose names take long keeps nobody else waiting.

asyncio does so in the threads that it has for all that waits, some 6 on two cores. A name server that never answers
holds a thread for 20 seconds, and anybody may have one. So one client could stop everybody's requests, and a change of
the policy with them. Here, names have threads of their own, and each client has a share of these.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from mitmproxy import connection

from hushlist.core.policy.groups import address_text
from hushlist.proxy.object_patches import put_on, take_off

#: names that are looked up at once, and of one client: others wait for their turn
MOST_LOOKUPS, MOST_OF_CLIENT = 128, 16

#: the address of the client for whom a task connects to a server
_asking: ContextVar[str] = ContextVar("_asking", default="")
#: the name that a task connects to, and the addresses of it that were decided
_decided: ContextVar[tuple[str, tuple[str, ...]]] = ContextVar("_decided", default=("", ()))


def look_up_for(client: str) -> None:
    """Have the present task look names up for a client's address."""
    _asking.set(client)


def connect_only_to(name: str, addresses: tuple[str, ...]) -> None:
    """Have the present task connect to a name at these addresses, in their order, without another look-up."""
    _decided.set((name, addresses))


class NameLookups:
    """Looks names up in the place of the event loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MOST_LOOKUPS, "hushlist: names")
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self) -> None:
        """Begin; called in the event loop."""
        self._loop = asyncio.get_running_loop()
        put_on(self._loop, "getaddrinfo", self.look_up)

    def close(self) -> None:
        """Leave it to the event loop again."""
        if self._loop is not None and vars(self._loop).get("getaddrinfo") == self.look_up:
            take_off(self._loop, "getaddrinfo")
        self._threads.shutdown(wait=False, cancel_futures=True)

    def note(self, client: connection.Client) -> None:
        """Note for whom the present task connects to a server."""
        _asking.set(address_text(client.peername[0]) if client.peername else "")

    async def look_up(self, host: Any, port: Any, **more: int) -> list[Any]:
        """As the method of the event loop. A turn is over when its thread is, though nobody may wait any longer."""
        name, addresses = _decided.get()
        if addresses and host == name:
            return [
                info
                for address in addresses
                for info in socket.getaddrinfo(address, port, **{**more, "flags": socket.AI_NUMERICHOST})
            ]
        loop, client = asyncio.get_running_loop(), _asking.get()
        turn = self._turns.setdefault(client, asyncio.Semaphore(MOST_OF_CLIENT))
        await turn.acquire()
        try:
            lookup = self._threads.submit(partial(socket.getaddrinfo, host, port, **more))
        except RuntimeError as error:  # there is no thread left, or the program ends
            turn.release()
            raise OSError(f"no name can be looked up: {error}") from error
        lookup.add_done_callback(lambda _: _release(loop, turn))
        return await asyncio.wrap_future(lookup)


def _release(loop: asyncio.AbstractEventLoop, turn: asyncio.Semaphore) -> None:
    with suppress(RuntimeError):  # the program has ended
        loop.call_soon_threadsafe(turn.release)
