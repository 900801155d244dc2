"""What happens at a signal to stop, step by step; tests/e2e/test_graceful_stop.py has real ones."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mitmproxy import http
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.test import tflow

from hushlist.proxy.runtime import Runtime
from hushlist.proxy.service import graceful_stop
from hushlist.proxy.service.graceful_stop import LONGEST, NOTICE, GracefulStop
from hushlist.proxy.service.siblings import Siblings


@pytest.mark.parametrize(("is_balanced", "notice"), [(True, NOTICE), (False, 0.0)])
@pytest.mark.parametrize(
    ("modes", "change"),
    [
        (["regular", "dns@5300"], {"server": False}),
        (["regular", "wireguard@51820"], {"mode": ["wireguard@51820"]}),
        (["local"], {"mode": ["local"]}),
    ],
)
def test_who_asks_whether_it_is_ready_has_time_to_see_that_it_is_not(
    monkeypatch: pytest.MonkeyPatch, is_balanced: bool, notice: float, modes: list[str], change: dict[str, object]
) -> None:
    steps: list[object] = []

    async def stopped() -> None:
        ended, loop = asyncio.Event(), asyncio.get_running_loop()

        async def sleep(seconds: float) -> None:
            steps.append(seconds)

        async def end_tunnelled() -> None:
            steps.append("tunnels")

        monkeypatch.setattr(graceful_stop, "end_tunnelled", end_tunnelled)
        options = SimpleNamespace(update=lambda **changes: steps.append(changes), mode=modes)
        master = SimpleNamespace(shutdown=ended.set, should_exit=ended, event_loop=loop)
        monkeypatch.setattr(graceful_stop, "ctx", SimpleNamespace(options=options, master=master))
        own = SimpleNamespace(sleep=sleep, get_running_loop=asyncio.get_running_loop)
        monkeypatch.setattr(graceful_stop, "asyncio", own)
        monkeypatch.setattr(graceful_stop, "all_connections", tuple)
        stop = GracefulStop(cast(Runtime, SimpleNamespace(is_stopping=False, siblings=None)))
        stop.run(is_balanced=is_balanced)
        stop.stop()
        await asyncio.wait_for(ended.wait(), 60)
        stop.close()
        # a third signal while it writes what it has does not cut that off
        assert loop.remove_signal_handler(signal.SIGTERM)

    asyncio.run(stopped())
    assert steps == [notice, change, "tunnels"]


@pytest.mark.parametrize(("mode", "is_refused"), [("wireguard", True), ("local", True), ("regular", False)])
def test_while_it_ends_nothing_new_comes_by_a_tunnel(
    monkeypatch: pytest.MonkeyPatch, mode: str, is_refused: bool
) -> None:
    monkeypatch.setattr(graceful_stop, "transport_of", lambda _: None)

    async def came() -> tuple[bool, bool]:
        stop, found = GracefulStop(cast(Runtime, SimpleNamespace(is_stopping=False, siblings=None))), list[bool]()
        for _ in range(2):
            client = tflow.tclient_conn()
            client.proxy_mode, client.error = ProxyMode.parse(mode), None
            stop.connected(client)
            found.append(client.error is not None)
            stop.stop()
        return found[0], found[1]

    options, master = SimpleNamespace(update=lambda **_: None, mode=[mode]), SimpleNamespace(shutdown=lambda: None)
    monkeypatch.setattr(graceful_stop, "ctx", SimpleNamespace(options=options, master=master))
    monkeypatch.setattr(graceful_stop, "all_connections", tuple)
    monkeypatch.setattr(graceful_stop, "end_tunnelled", lambda: asyncio.sleep(0))
    assert asyncio.run(came()) == (False, is_refused)


def test_a_second_signal_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    master = SimpleNamespace(shutdown=lambda: ended.append("now"))
    monkeypatch.setattr(graceful_stop, "ctx", SimpleNamespace(master=master))
    monkeypatch.setattr(graceful_stop, "monotonic", lambda: 90.0)
    runtime = cast(Runtime, SimpleNamespace(is_stopping=False, siblings=None))

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
    stop = GracefulStop(cast(Runtime, SimpleNamespace(is_stopping=False, siblings=None)))

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


class Program:
    """One that ends, by a clock of its own; whoever waits moves that on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.start = 1000.0
        self.connections: list[Any] = []
        #: by name, when each was closed
        self.closed: dict[str, float] = {}
        self.stop = GracefulStop(cast(Runtime, SimpleNamespace(is_stopping=False, siblings=None)))
        self._patch = monkeypatch
        for name, own in {
            "time": lambda: self.now,
            "monotonic": lambda: self.now,
            "all_connections": lambda: tuple(self.connections),
            "end_connection": self._end,
            "transport_of": lambda client: client.transport,
        }.items():
            monkeypatch.setattr(graceful_stop, name, own)

    def connect(self, name: str, quiet: float, transport_protocol: str = "tcp") -> Any:
        """A client on whose connection nothing has flowed for so many seconds."""
        client = tflow.tclient_conn()
        client.id, client.transport_protocol = name, transport_protocol  # type: ignore[assignment]
        last = SimpleNamespace(last_activity=self.now - quiet)
        self.connections.append(SimpleNamespace(client=client, timeout_watchdog=last))
        return client

    def ask(self, client: Any, **more: object) -> http.HTTPFlow:
        flow = tflow.tflow(client_conn=client)
        flow.live = True
        vars(flow).update(more)
        self.stop.note(flow)
        return flow

    def _end(self, client: Any) -> None:
        self.closed.setdefault(client.id, round(self.now - self.start, 2))

    def seconds(self, then: Callable[[float], None] = lambda _: None) -> float:
        """How long it takes to end; ``then`` is called with the seconds at each of its looks."""

        async def ends() -> None:
            ended = asyncio.Event()

            async def sleep(seconds: float) -> None:
                self.now += seconds
                then(self.now - self.start)

            options, master = (
                SimpleNamespace(update=lambda **_: None, mode=["regular"]),
                SimpleNamespace(shutdown=ended.set),
            )
            self._patch.setattr(graceful_stop, "ctx", SimpleNamespace(options=options, master=master))
            self._patch.setattr(graceful_stop, "end_tunnelled", lambda: asyncio.sleep(0))
            own = SimpleNamespace(sleep=sleep, get_running_loop=asyncio.get_running_loop)
            self._patch.setattr(graceful_stop, "asyncio", own)
            self.stop.stop()
            await asyncio.wait_for(ended.wait(), 60)

        asyncio.run(ends())
        return round(self.now - self.start, 2)


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    return Program(monkeypatch)


def test_a_request_is_waited_for_and_its_connection_is_then_closed(program: Program) -> None:
    flow = program.ask(program.connect("asking", quiet=60))

    def then(seconds: float) -> None:
        if seconds > 2:
            flow.live = False
        if seconds > 3:
            program.connections.clear()

    assert program.seconds(then) == 3.05
    assert program.closed == {"asking": 2.05}


def test_a_request_that_never_ends_holds_nobody_and_is_told_of(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    kept = program.ask(program.connect("asking", quiet=0))
    assert program.seconds() == pytest.approx(LONGEST, abs=0.06)
    assert (kept.live, program.closed) == (True, {})
    assert caplog.messages == ["hushlist: 1 request ended unfinished"]


@pytest.mark.parametrize(("quiet", "protocol", "closed"), [(1.0, "tcp", 0.0), (0.98, "tcp", 0.05), (60.0, "udp", None)])
def test_a_connection_without_a_request_is_closed_once_it_is_quiet(
    program: Program, quiet: float, protocol: str, closed: float | None
) -> None:
    program.connect("idle", quiet, protocol)

    def then(seconds: float) -> None:
        if program.closed:
            program.connections.clear()

    assert program.seconds(then) == (0.0 if closed is None else closed + 0.05)
    assert program.closed == ({} if closed is None else {"idle": closed})


def test_what_is_still_to_be_written_is_waited_for(program: Program) -> None:
    class Transport:
        left = 5

        def get_write_buffer_size(self) -> int:
            return self.left

    transport = Transport()
    program.stop.connected(cast(Any, SimpleNamespace(transport=None)))
    program.stop.connected(cast(Any, SimpleNamespace(transport=transport)))

    def then(seconds: float) -> None:
        transport.left = 0 if seconds > 0.5 else 1

    assert program.seconds(then) == 0.55


def test_what_a_worker_has_accepted_and_nobody_serves_yet_is_waited_for(program: Program) -> None:
    stopped: list[bool] = []
    siblings = SimpleNamespace(is_busy=True, stop=lambda: stopped.append(True))
    program.stop._runtime.siblings = cast(Siblings, siblings)

    def then(seconds: float) -> None:
        siblings.is_busy = seconds <= 0.5

    assert program.seconds(then) == 0.55
    assert stopped == [True]
