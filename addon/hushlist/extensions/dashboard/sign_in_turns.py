"""Turns for what is slow on purpose: one passphrase is checked at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

#: who may wait, of those who are known equally well; each of them once
MOST_SIGN_INS = 16


class NoTurnError(Exception):
    """Too many wait."""


class SignInTurns:
    """Turns for what is slow on purpose: one passphrase is checked at a time, that of who is known best first.

    So a flood of strangers, from however many addresses, keeps nobody waiting who has signed in before. Only the event
    loop uses them.
    """

    def __init__(self) -> None:
        #: rank and name of each that is there, in the order in which they came -> done when it is its turn
        self._there: dict[tuple[int, str], asyncio.Future[None]] = {}
        self._now: tuple[int, str] | None = None

    @asynccontextmanager
    async def taken(self, rank: int, name: str) -> AsyncIterator[None]:
        """A turn, before all that have a higher rank.

        Raises:
            NoTurnError: too many of this rank are there, or one of this name.
        """
        place = rank, name
        if place in self._there or sum(other == rank for other, _ in self._there) >= MOST_SIGN_INS:
            raise NoTurnError
        self._there[place] = asyncio.get_running_loop().create_future()
        self._begin_next()
        try:
            await self._there[place]
            yield
        finally:
            del self._there[place]
            self._now = None if self._now == place else self._now
            self._begin_next()

    def _begin_next(self) -> None:
        waiting = [place for place, turn in self._there.items() if not turn.done()]  # done: it was cancelled
        if self._now is None and waiting:
            self._now = min(waiting, key=lambda place: place[0])
            self._there[self._now].set_result(None)
