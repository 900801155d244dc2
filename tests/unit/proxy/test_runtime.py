"""What a runtime does when it takes another policy, and when it has none any more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from hushlist.decide.engine import Engine
from hushlist.proxy import runtime as module
from hushlist.proxy.runtime import Runtime

EVENTS: list[tuple[str, tuple[str, ...]]] = []
#: policies whose quotas are counted, and settings of logs
OPENED: list[object] = []


class Channels:
    """In place of a notifier."""

    def use(self, names: tuple[str, ...]) -> None:
        EVENTS.append(("used", names))

    def close(self) -> None:
        EVENTS.append(("closed", ()))


class Log:
    """In place of what writes a log."""

    def __init__(self, settings: str) -> None:
        if settings == "broken":
            raise RuntimeError("it cannot be written")
        self.settings = settings
        OPENED.append(settings)

    def close(self) -> None:
        OPENED.append(f"{self.settings} is closed")


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    monkeypatch.setattr(module, "Notifier", Channels)
    monkeypatch.setattr(Runtime, "open_quotas", lambda _, policy: OPENED.append(policy))
    monkeypatch.setattr(module, "LogWriter", Log)
    EVENTS.clear()
    OPENED.clear()
    return Runtime()


def engine_of(*notify: str, log: str | None = None) -> Engine:
    policy = SimpleNamespace(notify=notify, log=log, on_failure=f"as {notify} say")
    return cast(Engine, SimpleNamespace(policy=policy))


def test_the_channels_are_those_of_the_policy_and_closed_at_the_end(runtime: Runtime) -> None:
    for names in ((), ("a",), ("b",)):
        runtime.use(engine_of(*names), None)
    runtime.close()
    assert EVENTS == [("used", ()), ("used", ("a",)), ("used", ("b",)), ("closed", ())]


def test_a_log_is_opened_anew_where_a_policy_says_something_else_of_it(runtime: Runtime) -> None:
    engines = [engine_of(log=log) for log in (None, "a", "a", "b")]
    for engine in engines:
        runtime.use(engine, None)
    runtime.close()
    none, first, same, other = (engine.policy for engine in engines)
    told = [none, first, "a", same, other, "a is closed", "b", "b is closed"]
    assert told == OPENED


def test_a_log_that_cannot_be_written_leaves_none(runtime: Runtime) -> None:
    runtime.use(engine_of(log="a"), None)
    assert isinstance(runtime.journal, Log)
    runtime.use(engine_of(log="broken"), None)
    assert runtime.journal is None


def test_who_keeps_what_a_policy_said_is_told_that_there_is_another_or_none(runtime: Runtime) -> None:
    engine, numbers = engine_of("a"), [runtime.policies]
    runtime.problem = "the last change has mistakes"
    runtime.use(engine, None)
    assert (runtime.engine, runtime.problem) == (engine, None)
    assert runtime.failure_policy.on_failure == "as ('a',) say"  # type: ignore[comparison-overlap]
    numbers.append(runtime.policies)
    runtime.give_up("somebody has changed the index")
    assert (runtime.engine, runtime.problem) == (None, "somebody has changed the index")
    numbers.append(runtime.policies)
    assert len({*numbers}) == 3
    runtime.close()
