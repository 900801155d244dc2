"""Limits, and what they make of signals."""

from hushlist.tools.visit import signals
from hushlist.tools.visit.page_verdict import Verdict, harm, limits, verdict
from hushlist.tools.visit.signals import Signal
from unit.rows import each_row
from unit.tools.visit.samples import visit


def test_each_signal_has_limits_with_a_reason() -> None:
    names = {make(visit(), visit()).name for make in (signals._page_blocked, *signals._SIGNALS)}
    assert names == {*limits()}
    for limit in limits().values():
        assert limit.says
        assert limit.because
        assert limit.broken is None or 0 < limit.suspect <= limit.broken


@each_row(
    "found, expected",
    [
        ([], Verdict.FINE),
        ([Signal("errors", 9)], Verdict.SUSPECT),  # an error alone never breaks a page
        ([Signal("words", 0.1)], Verdict.FINE),
        ([Signal("words", 0.2)], Verdict.SUSPECT),
        ([Signal("words", 0.3)], Verdict.BROKEN),
        ([Signal("errors", 1), Signal("locked", 1)], Verdict.BROKEN),
    ],
)
def test_the_worst_signal_decides(found: list[Signal], expected: Verdict) -> None:
    assert verdict(found) is expected


def test_pages_that_are_harmed_more_come_first() -> None:
    assert (
        harm([Signal("words", 0.9), Signal("locked", 1)]) > harm([Signal("words", 0.9)]) > harm([Signal("words", 0.1)])
    )
