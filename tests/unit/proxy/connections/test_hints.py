"""What is said in the log about what to write."""

import pytest

from hushlist.proxy.connections import hints
from hushlist.proxy.connections.hints import AGAIN, MOST_A_MINUTE, Hints


def test_each_is_said_once_in_a_while_and_only_so_many_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    known = Hints(lambda: now)
    for _ in range(3):
        known.say(("a",), "this")
    assert caplog.messages == ["hushlist: this"]
    now = AGAIN
    known.say(("a",), "this")
    assert caplog.messages == ["hushlist: this"] * 2
    caplog.clear()
    for number in range(1000):
        known.say((number,), "another")
    assert caplog.messages == [
        *["hushlist: another"] * (MOST_A_MINUTE - 1),
        "hushlist: more lines of this kind are left out for a minute",
    ]
    now += 60
    known.say((999,), "the last")
    assert caplog.messages[-1] == "hushlist: the last"
    monkeypatch.setattr(hints, "MOST_KNOWN", 2)
    few = Hints(lambda: now)
    for number in (1, 2, 3, 3, 1):  # what was said longest ago is forgotten
        few.say((number,), "more")
    assert caplog.messages.count("hushlist: more") == 4
