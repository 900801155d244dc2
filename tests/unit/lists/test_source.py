"""Octets into lines, and the report."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.errors import Problem, SourceError
from hushlist.lists.source import LONGEST_LINE, Defaults, OwnTerms, Report, entries, numbered_lines, read_octets
from hushlist.match.rule import Action, Expression


def read(octets: bytes) -> tuple[list[tuple[int, str]], list[str]]:
    report = Report("f")
    lines = list(numbered_lines(octets, report))
    return lines, [str(problem) for problem in report.errors]


@pytest.mark.parametrize(
    ("octets", "lines"),
    [
        (b"a\nb", [(1, "a"), (2, "b")]),
        (b"a\r\nb\r\n", [(1, "a"), (2, "b"), (3, "")]),
        (b"\xef\xbb\xbfa", [(1, "a")]),
        (b"\xef\xbb\xbf\xef\xbb\xbfa", [(1, "\ufeffa")]),
        (b"a\rb", [(1, "a\rb")]),
        ("a\u2028b\x85c".encode(), [(1, "a\u2028b\x85c")]),
        (b"", [(1, "")]),
    ],
)
def test_a_line_ends_in_lf_or_crlf_and_a_byte_order_mark_is_skipped(octets: bytes, lines: list[object]) -> None:
    assert read(octets) == (lines, [])


@pytest.mark.parametrize(
    ("octets", "errors"),
    [
        ("a".encode("utf-16"), ["f:1: byte order mark: the file is in UTF-16; lists are in UTF-8"]),
        (b"\xfe\xff\x00a", ["f:1: byte order mark: the file is in UTF-16; lists are in UTF-8"]),
        (
            b"ok\nb\xffd\nok\n\xc3\xa9\xc3",
            ["f:2: b'\\xff': not UTF-8 (at octet 1)", "f:4: b'\\xc3': not UTF-8 (at octet 2)"],
        ),
        (b"\xed\xa0\x80", ["f:1: b'\\xed': not UTF-8 (at octet 0)"]),
        (b"\n" + b"a" * (LONGEST_LINE + 1), ["f:2: line: it is 65537 octets long; 65536 are the most"]),
    ],
)
def test_what_cannot_be_read_is_reported_with_its_line(octets: bytes, errors: list[str]) -> None:
    assert read(octets)[1] == errors


def test_the_lines_around_a_bad_one_are_read() -> None:
    assert read(b"a\n\xff\nb")[0] == [(1, "a"), (3, "b")]


def test_the_longest_line_is_read() -> None:
    assert read(b"a" * LONGEST_LINE) == ([(1, "a" * LONGEST_LINE)], [])


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("a.example # why", ["a.example"]),
        ("a.example\t#why", ["a.example"]),
        ("a.example/#x # why # not", ["a.example/#x"]),
        ("# all", []),
        (" \t # all", []),
        ("#", []),
        ("", []),
        ("a#b#c", ["a#b#c"]),
    ],
)
def test_a_comment_begins_at_a_sign_behind_white_space(line: str, entry: list[str]) -> None:
    assert [text for _, text in entries(line.encode(), Report("f"))] == entry


@given(st.binary(max_size=60))
def test_any_octets_give_lines_or_errors(octets: bytes) -> None:
    report = Report("f")
    numbers = [number for number, _ in entries(octets, report)] + [error.line for error in report.errors]
    assert len(numbers) <= octets.count(b"\n") + 1
    assert all(number >= 1 for number in numbers)


def test_what_is_shown_of_a_bad_value_is_short() -> None:
    report = Report("f")
    report.error(1, "x" * 121, "why")
    report.warn(1, "x" * 120, "why")
    assert str(report.errors[0]) == f"f:1: {'x' * 117}...: why"
    assert str(report.warnings[0]) == f"f:1: {'x' * 120}: why"


def test_a_rule_s_own_terms_come_first_then_the_list_s_then_block() -> None:
    own = OwnTerms(category="own")
    defaults = Defaults(action=Action.TAG, category="list's", reason="list's")
    rule = defaults.rule(Expression(b"h/"), Report("some/folder/ads.yaml"), 3, own)
    assert (rule.terms.action, rule.terms.category, rule.terms.reason) == (Action.TAG, "own", "list's")
    assert (rule.terms.list, rule.terms.source, rule.line) == ("ads", "some/folder/ads.yaml", 3)
    assert Defaults().rule(Expression(b"h/"), Report("f"), 1).terms.action is Action.BLOCK


def test_defaults_complete_others() -> None:
    completed = Defaults(name="own", category="own").behind(Defaults(name="policy's", action=Action.TAG))
    assert completed == Defaults(name="policy's", action=Action.TAG, category="own")


def test_a_file_that_cannot_be_opened_is_an_error_without_a_line(tmp_path: Path) -> None:
    report = Report("f")
    assert read_octets(tmp_path / "none.yaml", report) is None
    assert read_octets(tmp_path, report) is None
    assert list(map(str, report.errors)) == [
        "f: none.yaml: No such file or directory",
        f"f: {tmp_path.name}: Is a directory",
    ]


def test_an_error_carries_its_problems() -> None:
    problems = [Problem("f", 1, "a", "b"), Problem("f", 0, "c", "d")]
    error = SourceError(iter(problems))
    assert error.problems == tuple(problems)
    assert str(error) == "f:1: a: b\nf: c: d"
