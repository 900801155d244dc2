"""Turns to sign in: one at a time, the best known first, and nobody twice."""

from __future__ import annotations

import asyncio

import pytest

from hushlist.extensions.dashboard.sign_in_turns import MOST_SIGN_INS, NoTurnError, SignInTurns


def test_strangers_keep_nobody_waiting_who_is_known() -> None:
    async def run() -> list[str]:
        turns, done, first = SignInTurns(), list[str](), asyncio.Event()

        async def sign_in(rank: int, name: str) -> None:
            async with turns.taken(rank, name):
                await first.wait()
                done.append(name)

        strangers = [asyncio.create_task(sign_in(2, str(number))) for number in range(MOST_SIGN_INS)]
        await asyncio.sleep(0)
        with pytest.raises(NoTurnError):
            await sign_in(2, "one more")
        known = [asyncio.create_task(sign_in(1, "address")), asyncio.create_task(sign_in(0, "browser"))]
        await asyncio.sleep(0)
        with pytest.raises(NoTurnError):
            await sign_in(0, "browser")
        first.set()
        await asyncio.gather(*strangers, *known)
        return done

    assert asyncio.run(run()) == ["0", "browser", "address", *map(str, range(1, MOST_SIGN_INS))]


def test_who_goes_away_holds_nobody_back() -> None:
    async def run() -> list[str]:
        turns, done = SignInTurns(), list[str]()

        async def sign_in(name: str, seconds: float) -> None:
            async with turns.taken(2, name):
                await asyncio.sleep(seconds)
                done.append(name)

        tasks = [asyncio.create_task(sign_in(name, 60 if name == "a" else 0)) for name in "abc"]
        await asyncio.sleep(0)
        tasks[1].cancel()  # while it waits
        tasks[0].cancel()  # while it has its turn
        await asyncio.gather(*tasks, return_exceptions=True)
        return done

    assert asyncio.run(run()) == ["c"]
