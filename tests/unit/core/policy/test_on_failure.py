"""The policy's key ``on-failure``."""

from __future__ import annotations

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_nodes import MappingReader, read_document
from hushlist.core.policy.proxy_settings import FailureCause, OnFailure, read_on_failure
from unit.rows import each_row

ALL = {*FailureCause}


def read(text: str) -> tuple[OnFailure, list[str]]:
    report = ProblemReport("policy.yaml")
    document = read_document(text.encode(), report)
    assert document is not None
    return read_on_failure(MappingReader(document, ["on-failure", "layers"], report)), [*map(str, report.errors)]


@each_row(
    ("text", "opened"),
    [
        ("layers: []", set()),
        ("on-failure: closed", set()),
        ("on-failure: open", ALL),
        ("on-failure: {}", set()),
        ("on-failure: {default: open}", ALL),
        ("on-failure: {default: open, index: closed}", {FailureCause.START, FailureCause.ERROR}),
        ("on-failure: {error: open}", {FailureCause.ERROR}),
        ("on-failure: {start: open, error: closed}", {FailureCause.START}),
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
        ("\non-failure: opne", f"policy.yaml:2: on-failure: 'opne': {EXPECTED}"),
        ("on-failure: [open]", f"policy.yaml:1: on-failure: a list: {EXPECTED}"),
        ("on-failure:\n  reload: open", "policy.yaml:2: reload: unknown key (known: default, start, index, error)"),
        ("on-failure:\n  error: opne", "policy.yaml:2: error: opne: expected one of closed, open"),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_reads_as_closed(text: str, problem: str) -> None:
    found, errors = read(text)
    assert errors == [problem]
    assert found == OnFailure()
