"""What happens at a signal to stop, step by step; tests/e2e/test_graceful_stop.py has real ones."""

from __future__ import annotations

import asyncio
import signal
from types import SimpleNamespace
from typing import cast

import pytest
from mitmproxy import http
from mitmproxy.test import tflow

from hushlist.proxy.runtime import Runtime
from hushlist.proxy.service import graceful_stop
from hushlist.proxy.service.graceful_stop import LONGEST, NOTICE, GracefulStop


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


def test_a_second_signal_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    master = SimpleNamespace(shutdown=lambda: ended.append("now"))
    monkeypatch.setattr(graceful_stop, "ctx", SimpleNamespace(master=master))
    monkeypatch.setattr(graceful_stop, "monotonic", lambda: 90.0)
    runtime = cast(Runtime, SimpleNamespace(is_stopping=False))

    async def stopped_twice() -> list[str]:
        stop = GracefulStop(runtime)
        stop.stop()
        assert (ended, runtime.is_stopping, stop._latest) == ([], True, 90.0 + LONGEST)
        stop.stop()
        assert ended == ["now"]
        return [task.get_name() for task in asyncio.all_tasks()]

    assert asyncio.run(stopped_twice()).count("hushlist: stop") == 1


def test_while_it_ends_an_answer_is_the_last_on_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    announced: list[object] = []
    monkeypatch.setattr(graceful_stop, "announce_end", lambda *told: announced.append(told))
    monkeypatch.setattr(graceful_stop, "monotonic", lambda: 90.0)
    monkeypatch.setattr(graceful_stop, "ctx", SimpleNamespace(master=SimpleNamespace(shutdown=lambda: None)))
    stop = GracefulStop(cast(Runtime, SimpleNamespace(is_stopping=False)))

    def answered(version: str, status: int = 200) -> tuple[str | None, list[object]]:
        flow = tflow.tflow(resp=http.Response.make(status))
        flow.request.http_version = version
        announced.clear()
        stop.answered(flow)
        assert flow.response is not None
        return flow.response.headers.get("connection"), [own == (flow.client_conn, 95.0) for own in announced]

    async def stopped() -> None:
        assert [answered(version) for version in ("HTTP/1.1", "HTTP/2.0")] == [(None, [])] * 2
        stop.stop()
        stop.answered(tflow.tflow())  # without an answer
        assert [answered(version) for version in ("HTTP/1.0", "HTTP/1.1")] == [("close", [])] * 2
        assert answered("HTTP/1.1", 101) == (None, [])  # a WebSocket goes on
        assert answered("HTTP/2.0") == (None, [True])

    asyncio.run(stopped())


def test_a_signal_that_is_ignored_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """As "nohup" leaves SIGHUP."""
    taken: list[int] = []
    loop = SimpleNamespace(add_signal_handler=lambda number, _: taken.append(number))
    monkeypatch.setattr(graceful_stop, "asyncio", SimpleNamespace(get_running_loop=lambda: loop))
    handlers = {signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_IGN}
    monkeypatch.setattr(graceful_stop.signal, "getsignal", handlers.get)
    GracefulStop(cast(Runtime, SimpleNamespace(is_stopping=False))).run(is_balanced=False)
    assert taken == [signal.SIGTERM]
