"""Lists that are fetched while a proxy runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hushlist.core.errors import Problem
from hushlist.core.policy.policy_file import Policy, PolicyError
from hushlist.extensions.subscriptions import list_watch
from hushlist.extensions.subscriptions.list_watch import RETRY, ListWatch
from hushlist.proxy.runtime import Runtime

URL = "https://h.example/list"


@pytest.fixture
def fetching(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[object]]:
    """Has a list watched at some moments; what fetching gives is as told. Returns what was fetched, and when."""

    def run(moments: list[float], *results: list[tuple[bool, str]] | Exception, ends: bool = False) -> list[object]:
        left, asked, clock = list(results), list[object](), SimpleNamespace(now=0.0)
        state = SimpleNamespace(is_due=lambda now: bool(left) and now > 0)
        own = SimpleNamespace(subscription=SimpleNamespace(url=URL), store=SimpleNamespace(state=lambda: state))

        class Compiler:
            def __init__(compiler, own_ports: tuple[int, ...] = ()) -> None:  # noqa: N805
                compiler.ports = own_ports

            def update(compiler: Any, path: Path) -> list[tuple[bool, str]]:  # noqa: N805
                asked.append((clock.now, compiler.ports, str(path)))
                if ends:
                    watch.leave()
                result = left.pop(0)
                if isinstance(result, Exception):
                    raise result
                return result

            def stop(self) -> None:
                """It does nothing in the background."""

        monkeypatch.setattr(list_watch, "BackgroundCompiler", Compiler)
        monkeypatch.setattr(list_watch, "monotonic", lambda: clock.now)
        watch = ListWatch(cast(Runtime, SimpleNamespace(own_ports=(8080,))))
        for clock.now in moments:
            watch.watch(cast(Policy, SimpleNamespace(source="policy.yaml", subscribed=[own])))
            assert [*watch.states_by_url] == [URL]
        return asked

    return run


def test_lists_that_are_due_are_fetched_and_what_became_of_them_is_told(
    fetching: Callable[..., list[object]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    wrong = PolicyError([Problem("policy.yaml", 7, "lists", "no such thing")], {})
    moments = [0.0, 1.0, RETRY, RETRY + 1, 2 * RETRY, 2 * RETRY + 1]
    asked = fetching(moments, [(True, "it is new"), (False, "it is held back")], wrong, RuntimeError("odd"))
    assert [(one.levelno, one.getMessage().partition("\n  Traceback")[0]) for one in caplog.records] == [
        (logging.INFO, "hushlist: it is new"),
        (logging.WARNING, "hushlist: it is held back"),
        (logging.ERROR, "hushlist: no list could be fetched:\npolicy.yaml:7: lists: no such thing"),
        (logging.ERROR, "hushlist: no list could be fetched"),
    ]
    # what stays due, as on a full disk, waits for a while
    assert asked == [(moment, (8080,), "policy.yaml") for moment in (0.0, RETRY, 2 * RETRY)]


def test_the_end_is_no_fault(fetching: Callable[..., list[object]], caplog: pytest.LogCaptureFixture) -> None:
    ended = PolicyError([Problem("policy.yaml", 0, "compile", "the process ended")], {})
    assert len(fetching([0.0, RETRY], ended, ended, ends=True)) == 1
    assert not caplog.records
