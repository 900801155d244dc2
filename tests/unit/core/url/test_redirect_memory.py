"""What origins have told: believed for a time, up to a number, and of themselves alone."""

from __future__ import annotations

import pytest

from hushlist.core.decide.engine import Engine
from hushlist.core.match.rule import Action
from hushlist.core.url import comparison as module
from hushlist.core.url.comparison import LIFETIME, LONGEST_PATH, RedirectMemory
from hushlist.core.url.request import Request
from support.clock import Clock
from support.engines import engine_of
from unit.rows import each_row

ORIGIN = (b"http", b"h.example", 80)


@each_row("path", [b"/data", b"/DATAX"])
def test_a_path_and_its_twin_are_known_once_one_is_learned(path: bytes) -> None:
    redirect_memory = RedirectMemory()
    redirect_memory.learn(ORIGIN, path)
    assert redirect_memory.knows(ORIGIN, path)
    assert redirect_memory.knows(ORIGIN, path + b"/")
    assert not redirect_memory.knows(ORIGIN, path + b"/x")


@pytest.mark.parametrize(
    "other", [(b"https", b"h.example", 80), (b"http", b"www.h.example", 80), (b"http", b"h.example", 81)]
)
def test_no_origin_speaks_for_another(other: module.Origin) -> None:
    redirect_memory = RedirectMemory()
    redirect_memory.learn(ORIGIN, b"/data")
    assert not redirect_memory.knows(other, b"/data")


def test_it_is_believed_for_a_time() -> None:
    clock = Clock(0.0)
    redirect_memory = RedirectMemory(clock)
    redirect_memory.learn(ORIGIN, b"/data")
    clock.now = LIFETIME - 1
    assert redirect_memory.knows(ORIGIN, b"/data")
    clock.now = LIFETIME
    assert not redirect_memory.knows(ORIGIN, b"/data")
    assert len(redirect_memory) == 0


def test_the_oldest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    redirect_memory = RedirectMemory()
    for path in (b"/1", b"/2", b"/3", b"/1", b"/4"):
        redirect_memory.learn(ORIGIN, path)
    assert [path for path in (b"/1", b"/2", b"/3", b"/4") if redirect_memory.knows(ORIGIN, path)] == [
        b"/1",
        b"/3",
        b"/4",
    ]


def test_a_path_that_is_too_long_is_not_kept() -> None:
    redirect_memory = RedirectMemory()
    redirect_memory.learn(ORIGIN, b"/" + b"a" * LONGEST_PATH)
    assert len(redirect_memory) == 0


# -- in the engine -----------------------------------------------------------------------------------------------------


def request(target: bytes, *hosts: bytes) -> Request:
    return Request(b"http", hosts or (b"h.example",), 80, target)


def engine(rules: str) -> Engine:
    made = engine_of(f"rules: {rules}")
    return Engine(made.policy, made.index, RedirectMemory())


@pytest.mark.parametrize(
    ("rule", "asked"), [("h.example/data", b"/data/"), ("h.example/data/", b"/data"), ("h.example/data/", b"/data?q")]
)
def test_a_rule_fits_the_twin_once_the_origin_has_redirected(rule: str, asked: bytes) -> None:
    filled = engine(f"[{rule}]")
    assert filled.decide(request(asked)).action is Action.PASS
    filled.learn(request(b"/data"), b"/data/")
    decision = filled.decide(request(asked))
    assert decision.action is Action.BLOCK
    assert decision.winner is not None
    assert "rung protocol" in str(decision)
    assert decision.winner.as_dict()["via"] == decision.winner.via


def test_a_blocked_site_is_not_opened_by_what_it_tells() -> None:
    filled = engine("[h.example, {expression: h.example/open/, action: allow}]")
    filled.learn(request(b"/bad"), b"/open/")
    assert filled.decide(request(b"/bad")).action is Action.BLOCK


@each_row(
    ("told_by", "location"),
    [
        (request(b"/data", b"h.example", b"other.example"), b"/data/"),
        (request(b"/data"), b"http://other.example/data/"),
        (request(b"/x/../data"), b"/data/"),
        (request(b"/data"), b"/data"),
        (request(b"/data"), b"http://["),
        (request(b"/data", b"a/b"), b"/data/"),
        (Request(b"http", (), 80, b"/data"), b"/data/"),
    ],
)
def test_what_is_not_certain_is_not_learned(told_by: Request, location: bytes) -> None:
    filled = engine("[h.example/data/]")
    filled.learn(told_by, location)
    assert filled.decide(request(b"/data")).action is Action.PASS


def test_what_two_threads_forget_at_once_is_forgotten() -> None:
    times = [0.0, LIFETIME, LIFETIME]

    def clock() -> float:
        now = times.pop(0)
        if len(times) == 1:
            redirect_memory.knows(ORIGIN, b"/a")  # the other thread
        return now

    redirect_memory = RedirectMemory(clock)
    redirect_memory.learn(ORIGIN, b"/a")
    assert not redirect_memory.knows(ORIGIN, b"/a")
    assert not len(redirect_memory)
