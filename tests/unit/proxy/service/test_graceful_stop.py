"""What happens at a signal to stop, step by step; tests/e2e/test_graceful_stop.py has real ones."""

from __future__ import annotations

import asyncio
import signal
from types import SimpleNamespace
from typing import cast

import pytest

from hushlist.proxy.runtime import Runtime
from hushlist.proxy.service import graceful_stop
from hushlist.proxy.service.graceful_stop import NOTICE, GracefulStop


@pytest.mark.parametrize(("is_balanced", "notice"), [(True, NOTICE), (False, 0.0)])
def test_who_asks_whether_it_is_ready_has_time_to_see_that_it_is_not(
    monkeypatch: pytest.MonkeyPatch, is_balanced: bool, notice: float
) -> None:
    steps: list[object] = []

    async def stopped() -> None:
        ended, loop = asyncio.Event(), asyncio.get_running_loop()

        async def sleep(seconds: float) -> None:
            steps.append(seconds)

        options = SimpleNamespace(update=lambda **changes: steps.append(changes))
        master = SimpleNamespace(shutdown=ended.set, event_loop=loop)
        monkeypatch.setattr(graceful_stop, "ctx", SimpleNamespace(options=options, master=master))
        own = SimpleNamespace(sleep=sleep, get_running_loop=asyncio.get_running_loop)
        monkeypatch.setattr(graceful_stop, "asyncio", own)
        stop = GracefulStop(cast(Runtime, SimpleNamespace(is_stopping=False)))
        stop.run(is_balanced=is_balanced)
        stop.stop()
        await asyncio.wait_for(ended.wait(), 60)
        stop.close()

    asyncio.run(stopped())
    assert steps == [notice, {"server": False}]


def test_a_signal_that_is_ignored_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """As "nohup" leaves SIGHUP."""
    taken: list[int] = []
    loop = SimpleNamespace(add_signal_handler=lambda number, _: taken.append(number))
    monkeypatch.setattr(graceful_stop, "asyncio", SimpleNamespace(get_running_loop=lambda: loop))
    handlers = {signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_IGN}
    monkeypatch.setattr(graceful_stop.signal, "getsignal", handlers.get)
    GracefulStop(cast(Runtime, SimpleNamespace(is_stopping=False))).run(is_balanced=False)
    assert taken == [signal.SIGTERM]
