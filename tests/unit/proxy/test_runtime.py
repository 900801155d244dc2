"""What a runtime does when it takes another policy, and when it has none any more."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import cast

import pytest

from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.decide.engine import Engine
from hushlist.core.policy.groups import Client
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.proxy_settings import OnFailure
from hushlist.core.url.request import Request, request_of
from hushlist.extensions.journal import log_writer
from hushlist.extensions.journal.journal import log_of
from hushlist.extensions.journal.log_keys import LoggedClients
from hushlist.proxy.runtime import Runtime

#: settings of logs
OPENED: list[object] = []
#: logs are closed while it is set
GATE = Event()
PATIENCE = 60.0


class Settings(str):
    """What a policy says of a log."""

    __slots__ = ()
    clients = LoggedClients.KEEP


class Log:
    """In place of what writes a log."""

    def __init__(self, settings: str) -> None:
        if settings == "broken":
            raise RuntimeError("it cannot be written")
        self.settings = settings
        OPENED.append(settings)

    def close(self) -> None:
        GATE.wait(PATIENCE)
        OPENED.append(f"{self.settings} is closed")


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    monkeypatch.setattr(log_writer, "LogWriter", Log)
    OPENED.clear()
    GATE.set()
    return Runtime()


def engine_of(log: str | None = None, on_failure: str = "") -> Engine:
    policy = Policy("policy.yaml", (), values={"log": log and Settings(log)}, on_failure=cast(OnFailure, on_failure))
    return cast(Engine, SimpleNamespace(policy=policy, asks_media=False, asks_leads=False, keeps=None))


def test_a_log_is_opened_anew_where_a_policy_says_something_else_of_it(runtime: Runtime) -> None:
    engines = [engine_of(log=log) for log in (None, "a", "a", "b")]
    for engine in engines:
        runtime.use(engine, None)
    runtime.close()
    closed = ["a is closed", "b is closed"]
    assert [one for one in OPENED if one not in closed] == ["a", "b"]
    wait_for_closed(*closed)


def wait_for_closed(*closed: str) -> None:
    end = time.monotonic() + PATIENCE
    while not {*closed} <= {*map(str, OPENED)}:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_no_request_waits_for_a_log_before_to_end(runtime: Runtime) -> None:
    """Its database may be away, which it waits for: another policy is in use at once."""
    GATE.clear()
    runtime.use(engine_of(log="a"), None)
    runtime.use(engine_of(log="b"), None)
    assert cast(Log, log_of(runtime)).settings == "b"
    assert "a is closed" not in OPENED
    GATE.set()
    wait_for_closed("a is closed")


def test_who_keeps_what_a_policy_said_is_told_that_there_is_another_or_none(runtime: Runtime) -> None:
    engine, numbers = engine_of(on_failure="as it says"), [runtime.policies]
    runtime.problem = "the last change has mistakes"
    runtime.use(engine, None)
    assert (runtime.engine, runtime.problem) == (engine, None)
    assert runtime.failure_policy.on_failure == "as it says"  # type: ignore[comparison-overlap]
    numbers.append(runtime.policies)
    runtime.give_up("somebody has changed the index")
    assert (runtime.engine, runtime.problem) == (None, "somebody has changed the index")
    numbers.append(runtime.policies)
    assert len({*numbers}) == 3
    runtime.close()


def engine_by(folder: Path, name: str, text: str) -> Engine:
    path = folder / name
    path.write_text(f"layers: [{{name: own}}]\n{text}")
    return load_engine(path)


def test_a_policy_that_comes_while_a_request_waits_decides_it(runtime: Runtime, tmp_path: Path) -> None:
    """With all that it asks about, too: else a request would pass by rules that are not in force any more."""
    lenient, stern = engine_by(tmp_path, "lenient.yaml", ""), engine_by(tmp_path, "stern.yaml", "resolve: on\n")
    asked, client = list[Engine | None](), Client("10.0.0.1")

    async def look_up(request: Request, _: Client) -> Request:
        asked.append(runtime.engine)
        if runtime.engine is lenient:
            runtime.use(stern, None)
            runtime.parts.look_up = (look_up,)
            return request
        return request._replace(fault="it leads to the machine itself")

    runtime.use(lenient, None)
    runtime.asks_leads, runtime.parts.look_up = True, (look_up,)
    judgement = runtime.judge(request_of(b"http://a.example/"), client)
    settled = asyncio.run(runtime.confirmed(judgement))
    assert judgement is not None
    assert settled is not None
    assert (asked, judgement.stops, settled.stops) == ([lenient, stern], False, True)
    runtime.give_up("somebody has changed the index")
    runtime.close()


def test_what_is_off_in_a_policy_that_comes_waits_for_nothing_more(runtime: Runtime, tmp_path: Path) -> None:
    engines = [engine_by(tmp_path, f"{mode}.yaml", f"mode: {mode}\n") for mode in ("block", "off")]

    async def look_up(request: Request, _: Client) -> Request:
        runtime.use(engines[1], None)
        return request

    runtime.use(engines[0], None)
    runtime.asks_leads, runtime.parts.look_up = True, (look_up,)
    judgement = runtime.judge(request_of(b"http://a.example/"), Client("10.0.0.1"))
    assert asyncio.run(runtime.confirmed(judgement)) is None
    runtime.close()
