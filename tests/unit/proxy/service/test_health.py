"""What /healthz and /readyz say, and the port at which they answer."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import time
from types import SimpleNamespace
from typing import cast

import pytest
from mitmproxy.test import taddons

from hushlist.core.errors import Problem
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.proxy_settings import FailureCause, OnFailure
from hushlist.extensions.journal.journal import Journal
from hushlist.extensions.subscriptions.list_store import ListState
from hushlist.extensions.subscriptions.list_watch import ListWatch
from hushlist.extensions.unblock.unblock_handler import UnblockHandler
from hushlist.proxy.addon import Hushlist
from hushlist.proxy.runtime import Runtime
from hushlist.proxy.service.health import HEALTH_PATHS, Health, HealthPort
from hushlist.proxy.service.health import health_of as health_of_workers
from hushlist.proxy.service.siblings import Siblings
from support.mitmproxied import mitmproxied
from support.parts import part_of
from unit.rows import each_row

URL = "https://lists.example/ads.hosts"


@pytest.fixture
def context(hushlist: Hushlist, tmp_path: Path) -> Iterator[taddons.context]:
    subscribed = f"{{url: '{URL}', format: hosts, optional: true, max-age: 3d}}"
    (tmp_path / "own.yaml").write_text("rules: [blocked.example]\n")
    (tmp_path / "policy.yaml").write_text(f"layers:\n- name: lists\n  lists:\n  - own.yaml\n  - {subscribed}\n")
    with mitmproxied(hushlist, tmp_path / "policy.yaml") as context:
        yield context


def health_of(runtime: Runtime) -> tuple[bool, bool, str]:
    """Whether it decides, whether it is ready, and why it is, or is not."""
    healthy, ready = (HEALTH_PATHS[path](runtime) for path in ("/healthz", "/readyz"))
    return healthy.is_good, ready.is_good, ready.reason


@pytest.mark.usefixtures("context")
class TestReadiness:
    @pytest.fixture
    def runtime(self, hushlist: Hushlist) -> Runtime:
        part_of(hushlist.runtime, ListWatch).states_by_url = {URL: ListState(checked=time() - 60)}
        return hushlist.runtime

    def test_it_is_ready_with_the_policy_that_is_meant(self, runtime: Runtime) -> None:
        assert health_of(runtime) == (True, True, "it is ready")

    def test_it_is_not_when_it_stops(self, runtime: Runtime) -> None:
        runtime.is_stopping = True
        assert health_of(runtime) == (True, False, "it is stopping")

    def test_it_is_not_by_an_older_policy_than_is_meant_and_names_nothing_of_it(self, runtime: Runtime) -> None:
        runtime.problem = "/home/secret/policy.yaml:7: secret.example: odd"
        is_healthy, is_ready, reason = health_of(runtime)
        assert (is_healthy, is_ready) == (True, False)
        assert "the last change of the policy" in reason
        assert "secret" not in reason

    @pytest.mark.parametrize(
        ("age", "is_ready"), [(3 * 86400 - 60, True), (3 * 86400 + 60, False), (float("inf"), False), (-3600, True)]
    )
    def test_it_is_not_with_a_list_that_is_too_old(self, runtime: Runtime, age: float, is_ready: bool) -> None:
        part_of(runtime, ListWatch).states_by_url = {URL: ListState(checked=max(time() - age, 0))}
        reason = "it is ready" if is_ready else "the list in line 5 of the policy is older than its max-age"
        assert health_of(runtime) == (True, is_ready, reason)

    def test_nothing_is_said_of_a_list_of_which_nothing_is_known_yet(self, runtime: Runtime) -> None:
        part_of(runtime, ListWatch).states_by_url = {}
        assert health_of(runtime)[1]

    def test_it_says_what_fails_meanwhile_and_names_nothing(
        self, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert HEALTH_PATHS["/readyz"](runtime).warnings == ()
        for part in (Journal, UnblockHandler):
            monkeypatch.setattr(part, "fault", "/home/secret: No space left on device")
        part_of(runtime, ListWatch).states_by_url = {URL: ListState(checked=time() - 60, fault="secret", faults=3)}
        monkeypatch.setattr(Policy, "held_back", [Problem("/home/secret", 0, "list", "it is held back")])
        health = HEALTH_PATHS["/readyz"](runtime)
        assert health.is_good
        assert json.loads(health.body)["warnings"] == [
            "lists that are held back: 1; of each, an older version is in force (see hushlist lists)",
            "the store cannot be used: nothing can be unblocked, and new blocks and minutes of use are not kept",
            "the list in line 5 of the policy cannot be updated",
            "the log cannot be written; records wait",
        ]

    @pytest.mark.parametrize("opened", [(), (FailureCause.INDEX,)])
    def test_without_a_policy_it_is_neither(self, runtime: Runtime, opened: tuple[FailureCause, ...]) -> None:
        runtime.failure_policy.on_failure = OnFailure(frozenset(opened))
        runtime.give_up("somebody has changed it")
        is_healthy, is_ready, reason = health_of(runtime)
        assert not is_healthy
        assert not is_ready
        assert "no policy that can be used" in reason
        assert ("NOTHING IS FILTERED" in reason) is bool(opened)

    def test_a_decision_that_fails_is_no_health(self, runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object) -> None:
            raise OSError("secret")

        assert runtime.engine is not None
        monkeypatch.setattr(type(runtime.engine), "decide_url", fail)
        assert health_of(runtime) == (False, False, "a decision failed: OSError")

    def test_a_filter_that_is_off_on_purpose_is_healthy(self, runtime: Runtime) -> None:
        runtime.mode, runtime.engine = "off", None
        assert health_of(runtime)[:2] == (True, True)
        runtime.is_stopping = True
        assert health_of(runtime)[:2] == (True, False)


class TestAddress:
    @pytest.mark.parametrize("text", ["127.0.0.1:65536", "1.2.3:80", "127.0.0.1:٨", "[g]:80", "127.0.0.1:80 "])
    def test_what_is_no_address_with_a_port_is_refused(
        self, context: taddons.context, hushlist: Hushlist, caplog: pytest.LogCaptureFixture, text: str
    ) -> None:
        context.configure(hushlist, hushlist_health=text)
        assert f"hushlist_health cannot be {text!r}: " in caplog.text  # an error ends mitmdump at its start


async def ask(port: int, octets: bytes, *, ends: bool = False) -> bytes:
    """All that comes for these octets."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(octets)
    if ends:
        writer.write_eof()
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


class TestPort:
    def answers(self, *questions: bytes, runtime: Runtime | None = None, ends: bool = False) -> list[bytes]:
        async def all_answers() -> list[bytes]:
            port = HealthPort(runtime or Runtime())
            port.open(("127.0.0.1", 0))
            assert port._listener is not None
            try:
                number = port._listener.getsockname()[1]
                return [await ask(number, one, ends=ends) for one in questions]
            finally:
                port.close()

        return asyncio.run(all_answers())

    @pytest.mark.parametrize("target", [b"/healthz", b"/readyz", b"/readyz?x=1"])
    @pytest.mark.parametrize("version", [b"1.0", b"1.1"])
    def test_it_answers_with_a_line_of_json(self, target: bytes, version: bytes) -> None:
        (answer,) = self.answers(b"GET %s HTTP/%s\r\nHost: x\r\n\r\n" % (target, version))
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert b"Connection: close" in head
        assert b"Content-Length: %d\r\n" % len(body) in head + b"\r\n"
        reason = "no policy that can be used: every request is refused"
        assert json.loads(body) == {"ok": False, "reason": reason}
        assert body.count(b"\n") == 1

    def test_a_good_answer_is_200(self) -> None:
        runtime = Runtime()
        runtime.mode = "off"
        (answer,) = self.answers(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n", runtime=runtime)
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")

    def test_head_is_the_same_without_the_body(self) -> None:
        got, head = self.answers(*(b"%s /healthz HTTP/1.1\r\n\r\n" % method for method in (b"GET", b"HEAD")))
        assert head == got.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"

    @pytest.mark.parametrize(
        ("head", "status"),
        [
            (b"GET / HTTP/1.1", 404),
            (b"GET /metrics HTTP/1.1", 404),
            (b"GET /healthz/.. HTTP/1.1", 404),
            (b"GET http://origin.example/healthz HTTP/1.1", 400),
            (b"CONNECT origin.example:443 HTTP/1.1", 400),
            (b"POST /healthz HTTP/1.1", 400),
            (b"GET /healthz HTTP/2.0", 400),
            (b"GET  /healthz HTTP/1.1", 400),
            (b"\x16\x03\x01", 400),
        ],
    )
    def test_it_leads_to_nothing_else(self, head: bytes, status: int) -> None:
        (answer,) = self.answers(head + b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 %d " % status)

    def test_a_long_head_has_no_answer_and_the_next_one_has(self) -> None:
        first, second = self.answers(b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 70_000, b"HEAD /healthz HTTP/1.1\r\n\r\n")
        assert first == b""
        assert second

    def test_half_a_head_has_none(self) -> None:
        assert self.answers(b"GET /healthz HTTP/1.1\r\n", ends=True) == [b""]

    def test_a_slow_head_has_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("hushlist.proxy.service.health.PATIENCE", 0.05)
        assert self.answers(b"GET /healthz HTTP/1.1\r\n") == [b""]

    def test_only_so_many_wait_at_once_and_keep_nobody_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("hushlist.proxy.service.health.MOST_CONNECTIONS", 2)
        monkeypatch.setattr("hushlist.proxy.service.health.PATIENCE", 60.0)

        async def idle_and_asking() -> None:
            port = HealthPort(Runtime())
            port.open(("127.0.0.1", 0))
            assert port._listener is not None
            number = port._listener.getsockname()[1]
            idle = [await asyncio.open_connection("127.0.0.1", number) for _ in range(3)]
            try:
                assert await idle[0][0].read() == b""  # the oldest has to go
                assert (await ask(number, b"GET /healthz HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 503 ")
            finally:
                for _, writer in idle:
                    writer.close()
                port.close()

        asyncio.run(asyncio.wait_for(idle_and_asking(), 20))

    def test_of_many_that_come_at_once_each_one_too_many_ends_the_oldest(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("hushlist.proxy.service.health.MOST_CONNECTIONS", 2)
        ended: list[int] = []

        class Writer:
            def __init__(self, number: int) -> None:
                self.transport = SimpleNamespace(abort=partial(ended.append, number))

            def write(self, octets: bytes) -> None:
                raise AssertionError(f"nobody has asked, and got {octets!r}")

            def close(self) -> None:
                pass

        async def come_at_once() -> None:
            port = HealthPort(Runtime())
            for number in range(4):
                serving = port._serve(asyncio.StreamReader(), cast(asyncio.StreamWriter, Writer(number)))
                tasks.append(asyncio.create_task(serving))
            await asyncio.sleep(0)

        tasks: list[asyncio.Task[None]] = []
        asyncio.run(come_at_once())
        assert ended == [0, 1]

    def test_a_port_that_is_taken_is_an_error(self) -> None:
        async def open_twice() -> None:
            port = HealthPort(Runtime())
            with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError):
                port.open(("127.0.0.1", taken.getsockname()[1]))
            port.close()

        asyncio.run(open_twice())


@each_row(
    ("others", "expected"),
    [
        ([], Health(False, "it is stopping")),
        ([{"ok": False, "reason": "it is stopping, too"}], Health(False, "it is stopping")),
        ([{"ok": True, "reason": "it is ready"}], Health(True, "it is ready", ("a worker is not: it is stopping",))),
        (
            [{"ok": False, "reason": "x"}, {"ok": True, "reason": "it is ready", "warnings": ["a list is old"]}],
            Health(True, "it is ready", ("a worker is not: it is stopping", "a list is old")),
        ),
    ],
)
def test_of_several_workers_one_is_enough(others: list[dict[str, object]], expected: Health) -> None:
    async def ask(*_: str) -> list[str]:
        return [json.dumps(other) for other in others]

    runtime = Runtime()
    runtime.is_stopping = True
    runtime.siblings = cast(Siblings, SimpleNamespace(ask=ask))
    assert asyncio.run(health_of_workers(runtime, "/readyz")) == expected
