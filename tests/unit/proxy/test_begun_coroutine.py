"""Coroutines that are run at once, up to the first place where they wait."""

import asyncio

import pytest

from hushlist.proxy.hook_calls import BegunCoroutine, begin


def test_the_rest_is_awaited_also_by_another_task() -> None:
    steps = []

    async def waits() -> str:
        steps.append("begun")
        await asyncio.sleep(0.01)
        steps.append("slept")
        await asyncio.wait([asyncio.ensure_future(asyncio.sleep(0))], timeout=1)
        return "end"

    async def hook(begun: BegunCoroutine[str]) -> str:
        steps.append("awaited")
        return await begun

    async def main() -> None:
        begun = BegunCoroutine(waits())
        assert not begun.is_done
        assert await asyncio.create_task(hook(begun)) == "end"
        assert (begun.is_done, begun.result) == (True, "end")
        assert await begun == "end"

    asyncio.run(main())
    assert steps == ["begun", "awaited", "slept"]


def test_errors_and_cancellation_reach_both_sides() -> None:
    seen = []

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("later")

    async def waits() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def main() -> None:
        rest = begin(fails())
        assert rest is not None
        with pytest.raises(ValueError, match="later"):
            await rest
        begun = BegunCoroutine(waits())
        task = asyncio.ensure_future(begun)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert seen == ["cancelled"]
