"""The policy's key ``on-failure``."""

from __future__ import annotations

from hushlist.core.policy.proxy_settings import FailureCause, OnFailure
from support.readings import read_key
from unit.rows import each_row

ALL = {*FailureCause}


def read(text: str) -> tuple[OnFailure, list[str]]:
    found, errors = read_key("on-failure", text, "policy.yaml")
    return OnFailure() if found is None else found, errors


@each_row(
    ("text", "opened"),
    [
        ("closed", set()),
        ("open", ALL),
        ("{}", set()),
        ("{default: open}", ALL),
        ("{default: open, index: closed}", {FailureCause.START, FailureCause.ERROR}),
        ("{error: open}", {FailureCause.ERROR}),
        ("{start: open, error: closed}", {FailureCause.START}),
    ],
)
def test_it_says_for_which_causes_requests_pass(text: str, opened: set[FailureCause]) -> None:
    found, errors = read(text)
    assert errors == []
    assert {cause for cause in FailureCause if found.passes(cause)} == opened


EXPECTED = "expected closed, open or a mapping with default, start, index, error"


@each_row(
    ("text", "problem"),
    [
        ("\nopne", f"policy.yaml:2: on-failure: 'opne': {EXPECTED}"),
        ("[open]", f"policy.yaml:1: on-failure: a list: {EXPECTED}"),
        ("\nreload: open", "policy.yaml:2: reload: unknown key (known: default, start, index, error)"),
        ("\nerror: opne", "policy.yaml:2: error: opne: expected one of closed, open"),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_reads_as_closed(text: str, problem: str) -> None:
    found, errors = read(text)
    assert errors == [problem]
    assert found == OnFailure()
