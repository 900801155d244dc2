from __future__ import annotations

import asyncio

import pytest

from hushlist.proxy.connections import turns
from hushlist.proxy.connections.turns import SLICE, Turns


def test_who_sends_much_waits_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    moment, done = [0.0], list[str]()
    monkeypatch.setattr(turns, "perf_counter", lambda: moment[0])

    async def handle(own: Turns, connection: str) -> None:
        if own.is_over(connection):
            await own.wait(connection)
        moment[0] += SLICE * 0.6
        done.append(connection)

    async def whole() -> None:
        own = Turns()
        many = [asyncio.ensure_future(handle(own, "many")) for _ in range(20)]
        await asyncio.sleep(0)
        other = asyncio.ensure_future(handle(own, "other"))  # its octets are read when the loop looks again
        await asyncio.gather(*many, other)

    asyncio.run(whole())
    assert done.count("many") == 20
    assert done.index("other") <= 5
