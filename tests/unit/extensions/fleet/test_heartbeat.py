"""What a proxy says to the others, how often, and when it stops; tests/e2e/test_fleet.py has real ones."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import cast

import pytest
from mitmproxy import ctx
from mitmproxy.test import taddons

from hushlist import __version__
from hushlist.core.policy.policy_file import Policy
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.fleet import heartbeat
from hushlist.extensions.fleet.heartbeat import Heartbeat
from hushlist.extensions.fleet.proxy_records import ProxyRecord, ProxyRecords, default_path
from hushlist.proxy.runtime import Runtime

START = 1_800_000_000.0
NAME, INDEX = f"{socket.gethostname()}:8080", "1f" * 32


class Index(list[int]):
    """Rules, and the file that has them."""

    source = f"/cache/{INDEX}.index"


ENGINE = SimpleNamespace(policy=Policy("policy.yaml", (), digest="2e" * 32), index=Index([1, 2, 3]))
FULL = StoreError(Path("fleet.sqlite"), "the disk is full")


class Proxies:
    """The records of all proxies, and one heartbeat, by a clock that goes on while it sleeps."""

    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []
        self.records: list[ProxyRecord] = []
        self.seconds, self.late, self.fault, self.fails = 0.0, 0.0, False, False
        self.runtime = SimpleNamespace(
            engine=ENGINE,
            statistics=SimpleNamespace(total=0, started=START - 9),
            siblings=None,
            mode="block",
            reading=None,
            problem=None,
            script_fault=None,
            has_other_code=False,
            failure_policy=SimpleNamespace(status=lambda: ""),
            is_stopping=False,
            parts=SimpleNamespace(messages=lambda kind: ["a fault"] if self.fails else [], why_unready=()),
            part=lambda kind: None,
        )
        self.heartbeat = Heartbeat(cast(Runtime, self.runtime))

    def go(self, *changes: Callable[[], object]) -> list[float]:
        """Look once, and after each change; how long it sleeps behind each look."""
        waited, left = list[float](), list(changes)

        async def sleep(seconds: float) -> None:
            waited.append(seconds)
            self.seconds += seconds
            if not left:
                raise asyncio.CancelledError
            left.pop(0)()

        async def to_thread(work: Callable[..., object], *values: object) -> object:
            return work(*values)

        async def run() -> None:
            heartbeat.asyncio.sleep, heartbeat.asyncio.to_thread = sleep, to_thread  # type: ignore[assignment]
            self.heartbeat.running()
            assert self.heartbeat._task is not None
            with suppress(asyncio.CancelledError):
                await self.heartbeat._task

        asyncio.run(run())
        return waited

    def set(self, **values: object) -> None:
        vars(self.runtime).update(values)

    # what the heartbeat writes to

    def beat(self, record: ProxyRecord) -> None:
        self.events.append(("beat", self.seconds))
        if self.fault:
            raise FULL
        self.records.append(record)

    def all(self) -> list[ProxyRecord]:
        self.events.append(("look", self.seconds))
        return self.records[-1:]

    def leave(self, name: str, _: float) -> None:
        self.events.append(("leave", name))

    def close(self) -> None:
        self.events.append(("close",))


@pytest.fixture
def proxies(monkeypatch: pytest.MonkeyPatch) -> Proxies:
    own, names = Proxies(), ("get_running_loop", "CancelledError", "Task")
    addresses = [("0.0.0.0", 8080), ("::", 8080, 0, 0), ("0.0.0.0", 853)]
    server = SimpleNamespace(listen_addrs=lambda: addresses)
    monkeypatch.setattr(ctx, "master", SimpleNamespace(addons={"proxyserver": server}), raising=False)
    monkeypatch.setattr(heartbeat, "asyncio", SimpleNamespace(**{name: getattr(asyncio, name) for name in names}))
    monkeypatch.setattr(heartbeat, "monotonic", lambda: own.seconds)
    monkeypatch.setattr(heartbeat, "time", lambda: START + own.seconds - own.late)
    monkeypatch.setattr(heartbeat, "resident_octets", lambda: 4096)

    def opened(place: Path | PostgresAddress, clock: Callable[[], float]) -> Proxies:
        assert clock() == START + own.seconds - own.late
        own.events.append(("open", place))
        return own

    monkeypatch.setattr(heartbeat, "ProxyRecords", opened)
    return own


RECORD = ProxyRecord(
    NAME,
    START,
    started=START - 9,
    version=__version__,
    policy_digest="2e" * 32,
    index_digest=INDEX,
    mode="block",
    rules=3,
    memory=4096,
    ports="8080 853",
)


def test_a_record_says_what_the_proxy_runs_with(proxies: Proxies) -> None:
    proxies.go()
    assert proxies.records == [RECORD]
    states = {str(checked): SimpleNamespace(checked=checked) for checked in (5.0, 3.0, 4.0)}
    proxies.set(
        reading=SimpleNamespace(moment=7.0),
        part=lambda _: SimpleNamespace(states_by_url=states),
        problem="x" * 400,
        is_stopping=True,
    )
    fault = f"the last change is not used: {'x' * 400}"[:300]
    assert proxies.heartbeat._record() == RECORD._replace(
        at=START + 1, read=7.0, checked=3.0, unready="it is stopping", fault=fault
    )


def test_a_proxy_without_a_policy_or_a_port_has_a_record_too(proxies: Proxies, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "resident_octets", lambda: None)
    proxies.set(engine=None, without_policy=lambda: "there is none")
    ctx.master.addons.clear()  # type: ignore[attr-defined]
    proxies.go()
    bare = ProxyRecord(socket.gethostname(), START, started=START - 9, version=__version__, mode="block")
    assert proxies.records == [bare._replace(unready="there is none")]


def test_an_index_that_is_in_no_cache_has_no_digest(proxies: Proxies) -> None:
    index = Index()
    index.source = f"/cache/{INDEX}0.index"
    proxies.set(engine=SimpleNamespace(policy=ENGINE.policy, index=index))
    proxies.go()
    assert proxies.records == [RECORD._replace(index_digest="", rules=0)]


@pytest.mark.parametrize(
    ("state", "fault"),
    [
        ({"problem": "a", "fails": True}, "the last change is not used: a"),
        ({"fails": True}, "a fault"),
        ({"problem": None}, ""),
        ({"failure_policy": SimpleNamespace(status=lambda: "d")}, "d"),
    ],
)
def test_a_record_says_what_is_wrong(proxies: Proxies, state: dict[str, object], fault: str) -> None:
    proxies.fails = bool(state.pop("fails", False))
    proxies.set(**state)
    proxies.go()
    (record,) = proxies.records
    assert record.fault == fault


def test_it_beats_at_each_change_and_each_half_minute_and_looks_each_five_seconds(proxies: Proxies) -> None:
    changes = [lambda: None, lambda: proxies.set(mode="tag"), *[lambda: None] * 31]
    assert proxies.go(*changes) == [1.0] * 34
    looks = [("look", float(at)) for at in (2, 7, 12, 17, 22, 27, 32)]
    first = [("open", default_path()), ("beat", 0.0), ("look", 0.0)]
    assert proxies.events == [*first, ("beat", 2.0), *looks[:-1], ("beat", 32.0), looks[-1]]
    assert [one.mode for one in proxies.records] == ["block", "tag", "tag"]
    assert proxies.heartbeat.records == (proxies.records[-1],)


def test_figures_are_no_change_and_the_rate_is_that_since_the_record_before(proxies: Proxies) -> None:
    def more(number: int, **values: object) -> Callable[[], object]:
        return lambda: (proxies.set(**values), setattr(proxies.runtime.statistics, "total", number))

    def set_back() -> None:
        proxies.late = 100.0
        more(18, mode="off")()

    proxies.go(more(10), more(12, mode="tag"), set_back, lambda: None)
    assert [(one.at - START, one.requests, one.rate) for one in proxies.records] == [
        (0.0, 0, 0.0),
        (2.0, 12, 6.0),
        (-97.0, 18, 6.0),
    ]


def test_while_the_store_fails_it_tries_each_five_seconds_and_says_so_once(
    proxies: Proxies, caplog: pytest.LogCaptureFixture
) -> None:
    proxies.fault, told = True, list[str]()
    with caplog.at_level(logging.WARNING):
        said = [f"hushlist: other proxies hear nothing of this one: {FULL}"]
        assert proxies.go(lambda: told.extend(caplog.messages)) == [5.0, 5.0]
    assert proxies.heartbeat.fault == str(FULL)
    assert told == caplog.messages == said
    proxies.heartbeat.close()
    assert proxies.events[1:] == [("beat", 0.0), ("beat", 5.0), ("close",)]  # what cannot be written is not left
    proxies.fault, proxies.heartbeat = False, Heartbeat(cast(Runtime, proxies.runtime))
    proxies.heartbeat.fault = str(FULL)
    assert proxies.go() == [1.0]
    assert proxies.heartbeat.fault is None


def test_it_goes_where_the_policy_says(proxies: Proxies) -> None:
    other = PostgresAddress("postgresql:///other")
    policy = ENGINE.policy._replace(values={"store": other})
    proxies.go(lambda: proxies.set(engine=SimpleNamespace(policy=policy, index=ENGINE.index), mode="tag"))
    moved = [("leave", NAME), ("close",), ("open", other), ("beat", 1.0), ("look", 1.0)]
    assert proxies.events == [("open", default_path()), ("beat", 0.0), ("look", 0.0), *moved]


def test_at_its_end_it_takes_its_record_away_and_writes_no_other(proxies: Proxies) -> None:
    proxies.go()
    proxies.events.clear()
    own = proxies.heartbeat
    own.close()
    own.close()
    assert proxies.events == [("leave", NAME), ("close",)]
    own._beat(RECORD)  # as a thread would that waited
    assert own._look() == ()
    assert proxies.events == [("leave", NAME), ("close",)]
    assert own._task is None


def test_a_record_stays_where_its_end_comes_while_another_thread_writes(
    proxies: Proxies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "PATIENCE", 0.2)
    proxies.go()
    proxies.events.clear()
    with proxies.heartbeat._lock:
        proxies.heartbeat.close()
        assert proxies.heartbeat._leaving is not None
        proxies.heartbeat._leaving.join(60)
    assert proxies.events == [("close",)]  # so that what is written ends


def test_its_end_ends_its_task(proxies: Proxies) -> None:
    async def begun_and_ended() -> bool:
        async def sleep(_: float) -> None:
            await asyncio.sleep(3600)

        heartbeat.asyncio.sleep = sleep  # type: ignore[assignment]
        heartbeat.asyncio.to_thread = asyncio.to_thread
        proxies.heartbeat.running()
        task = proxies.heartbeat._task
        assert task is not None
        proxies.heartbeat.close()
        await asyncio.wait([task], timeout=60)
        return task.cancelled()

    assert asyncio.run(begun_and_ended())


@pytest.mark.parametrize("slow", ["beat", "leave"])
def test_a_store_that_gives_no_answer_keeps_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: str) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(heartbeat, "PATIENCE", 0.2)
    answered, has_beaten, closed = Event(), Event(), Event()

    def waits(name: str) -> None:
        has_beaten.set()
        if name == slow:
            answered.wait(60)

    monkeypatch.setattr(ProxyRecords, "beat", lambda *_: waits("beat"))
    monkeypatch.setattr(ProxyRecords, "leave", lambda *_: waits("leave"))
    monkeypatch.setattr(ProxyRecords, "close", lambda _: closed.set())

    async def live() -> None:
        with taddons.context():
            own = Heartbeat(Runtime())
            own.running()
            while not has_beaten.is_set():
                await asyncio.sleep(0.01)
            start = time.monotonic()
            own.close()
            assert time.monotonic() - start < 10
            if slow == "beat":
                assert closed.wait(60)  # so that what waits for the answer ends
            answered.set()
            assert closed.wait(60)

    asyncio.run(live())
