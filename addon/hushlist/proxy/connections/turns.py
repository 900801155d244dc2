"""Turns: a client that sends many requests at once waits for the others, and they do not wait for it.

The event loop runs all that is ready before it looks at connections again. A hundred requests in one piece of HTTP/2
would all be decided, refused and answered before anybody else is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from time import perf_counter

#: seconds for which the requests of one connection are handled in a row
SLICE = 0.005


class Turns:
    """Who has had how much of this round of the event loop."""

    def __init__(self) -> None:
        #: when the first request of each connection began in this round
        self._begun: dict[Hashable, float] = {}

    async def wait(self, connection: Hashable) -> None:
        """Wait until a connection's request has its turn."""
        while self.is_over(connection):
            await asyncio.sleep(0)

    def is_over(self, connection: Hashable) -> bool:
        """Whether a connection's request has to wait; mostly not."""
        if not self._begun:
            try:
                asyncio.get_running_loop().call_soon(self._begun.clear)
            except RuntimeError:  # nothing runs beside it
                return False
        now = perf_counter()
        return now - self._begun.setdefault(connection, now) > SLICE
