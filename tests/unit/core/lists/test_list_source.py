"""Octets into lines, and the report."""

import pickle
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushlist.core.lists.list_formats import FOLDERS, FORMATS
from hushlist.core.lists.list_source import (
    LONGEST_LINE,
    MOST_KEPT,
    ListDefaults,
    ProblemReport,
    entries,
    numbered_lines,
    read_octets,
)
from hushlist.core.match.rule import Action, Rule
from unit.rows import each_row


def read(octets: bytes) -> tuple[list[tuple[int, str]], list[str]]:
    report = ProblemReport("f")
    lines = list(numbered_lines(octets, report))
    return lines, [str(problem) for problem in report.errors]


@each_row(
    ("octets", "lines"),
    [
        (b"a\nb", [(1, "a"), (2, "b")]),
        (b"a\r\nb\r\n", [(1, "a"), (2, "b"), (3, "")]),
        (b"\xef\xbb\xbfa", [(1, "a")]),
        (b"\xef\xbb\xbf\xef\xbb\xbfa\n\xe2\x80\x8b\xef\xbb\xbfb", [(1, "a"), (2, "b")]),
        (b"a \xe2\x80\x8bb", [(1, "a \u200bb")]),  # in a document, a text may have it
        (b"# \xff\na", [(1, ""), (2, "a")]),
        (b"a\rb", [(1, "a\rb")]),
        ("a\u2028b\x85c".encode(), [(1, "a\u2028b\x85c")]),
        (b"", [(1, "")]),
    ],
)
def test_a_line_ends_in_lf_or_crlf_and_a_byte_order_mark_is_skipped(octets: bytes, lines: list[object]) -> None:
    assert read(octets) == (lines, [])


@each_row(
    ("octets", "errors"),
    [
        ("a".encode("utf-16"), ["f:1: byte order mark: the file is in UTF-16; lists are in UTF-8"]),
        (b"\x1f\x8b\x08\x00", ["f:1: gzip: the file is compressed; unpack it first"]),
        (b"PK\x03\x04\x14", ["f:1: zip: the file is compressed; unpack it first"]),
        (b"\xfe\xff\x00a", ["f:1: byte order mark: the file is in UTF-16; lists are in UTF-8"]),
        (
            b"ok\nb\xffd\nok\n\xc3\xa9\xc3",
            ["f:2: b'\\xff': not UTF-8 (at octet 1)", "f:4: b'\\xc3': not UTF-8 (at octet 2)"],
        ),
        (b"\xed\xa0\x80", ["f:1: b'\\xed': not UTF-8 (at octet 0)"]),
        (b"\n" + b"a" * (LONGEST_LINE + 1), ["f:2: line: it is longer than 65536 octets"]),
    ],
)
def test_what_cannot_be_read_is_reported_with_its_line(octets: bytes, errors: list[str]) -> None:
    assert read(octets)[1] == errors


@each_row(
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
    assert [text for _, text in entries(line.encode(), ProblemReport("f"))] == entry


BY_LINE = {
    **{f"squidguard/{name}": form.read for name, form in FOLDERS["squidguard"].items() if form.is_by_line},
    **{name: form.read for name, form in FORMATS.items() if form.is_by_line},
}
LINES = (
    *(
        "a.example",
        "0.0.0.0 a.example",
        "b.example/x",
        "||a.example^",
        "@@||b.example^$important",
        "192.0.2.1 - 192.0.2.9",
    ),
    *("address=/a.example/", "server=/a/1.2.3.4", "local=", "61626364", f"hashed:sha1={'0' * 40}+frag", "hashed:x=00"),
    *("##.ad", "/banner/", "*", "# x", "! x", "", " ", "...", "a b", "\x00", "A.Example\r", "ü", "\u2028", "\ufeff"),
)


def pieces(octets: bytes, cuts: list[bool]) -> list[tuple[int, bytes]]:
    """``(first line, octets)`` of what is between the line ends at which to cut."""
    ends = [place + 1 for place, octet in enumerate(octets) if octet == ord("\n")]
    chosen = [end for end, cut in zip(ends, cuts, strict=False) if cut]
    return [
        (octets.count(b"\n", 0, start) + 1, octets[start:end]) for start, end in pairwise((0, *chosen, len(octets)))
    ]


@pytest.mark.parametrize("name", BY_LINE)
@settings(max_examples=settings.default.max_examples // 2)
@given(
    lines=st.lists(
        st.tuples(
            st.sampled_from(LINES).map(str.encode)
            | st.text(st.sampled_from('a.e* \t#/:@[]0$|^!;"(),-=%\rü\0'), max_size=12).map(str.encode)
            | st.binary(max_size=4),
            st.sampled_from((1, 1, 1, 2, 25)),
        ),
        max_size=12,
    ),
    cuts=st.lists(st.booleans(), max_size=100),
)
def test_what_is_read_in_pieces_is_what_is_read_at_once(
    name: str, lines: list[tuple[bytes, int]], cuts: list[bool]
) -> None:
    octets = b"\n".join(line for line, times in lines for _ in range(times))
    whole = ProblemReport("f")
    rules = list(BY_LINE[name](octets, ListDefaults(), whole))

    def read_pieces() -> tuple[list[Rule], list[ProblemReport]]:
        reports = [(ProblemReport("f", first), piece) for first, piece in pieces(octets, cuts)]
        found = [rule for report, piece in reports for rule in BY_LINE[name](piece, ListDefaults(), report)]
        return found, [pickle.loads(pickle.dumps(report)) for report, _ in reports]

    found, (merged, *others) = read_pieces()
    for other in others:
        merged.merge(other)
    if not octets.startswith((b"\xff\xfe", b"\xfe\xff")):
        assert found == rules
    assert (merged.errors, merged.warnings, merged.refused) == (whole.errors, whole.warnings, whole.refused)
    assert merged.to_plain() == whole.to_plain()

    _, (*others, behind) = read_pieces()
    for other in reversed(others):
        other.merge(behind)
        behind = other
    assert behind.to_plain() == whole.to_plain()


def test_what_is_shown_of_a_bad_value_is_short() -> None:
    report = ProblemReport("f")
    report.error(1, "x" * 121, "why")
    report.warn(1, "x" * 120, "why")
    assert str(report.errors[0]) == f"f:1: {'x' * 117}...: why"
    assert str(report.warnings[0]) == f"f:1: {'x' * 120}: why"


PAGES = (
    b"<!DOCTYPE html>\n<html>",
    b"\xef\xbb\xbf\n  <HTML lang=en>a.example",
    b"<?xml version='1.0'?>",
    b"\r\n\t<script>location = 'http://login.example/'</script>\nads.example",
    b"<!-- moved -->\nads.example\n",
)


@each_row("form", sorted(FORMATS.keys() - {"safebrowsing-raw"}))
@each_row("page", PAGES)
def test_a_web_page_is_no_list_of_any_format(form: str, page: bytes) -> None:
    report = ProblemReport("f")
    assert list(FORMATS[form].read(page, ListDefaults(), report)) == []
    (error,) = report.errors
    assert error.what.startswith("<")
    assert error.line == page.count(b"\n", 0, page.index(b"<")) + 1
    assert error.why == "the file begins as a web page does (HTML), and is no list"
    behind = ProblemReport("f", first_line=100)
    behind.error(100, "x", "why")
    report.merge(behind)
    assert report.errors == [error]


def test_of_many_errors_and_warnings_the_first_are_kept_and_the_rest_is_counted() -> None:
    report, behind = ProblemReport("f"), ProblemReport("f", first_line=MOST_KEPT)
    for line in range(1, MOST_KEPT):
        report.error(line, "x", "why")
        report.warn(line, "x", "why")
    for line in range(MOST_KEPT, 3 * MOST_KEPT):
        behind.error(line, "x", "why")
        behind.skip(line, "x", "why")
    report.merge(behind)
    assert [problem.line for problem in report.errors] == [*range(1, MOST_KEPT + 1), 0]
    assert str(report.errors[-1]) == "f: errors: 1,999 more are not shown"
    assert str(report.warnings[0]) == "f: warnings: 1,999 more are not shown"
    assert (len(report.warnings), report.refused) == (MOST_KEPT + 1, 2 * MOST_KEPT)


def test_a_rule_s_own_terms_come_first_then_the_list_s_then_block() -> None:
    defaults = ListDefaults(action=Action.TAG, category="list's", reason="list's")
    terms = defaults.terms("some/folder/ads.yaml", category="own")
    assert (terms.action, terms.category, terms.reason) == (Action.TAG, "own", "list's")
    assert (terms.list, terms.source) == ("ads", "some/folder/ads.yaml")
    assert ListDefaults().terms("f").action is Action.BLOCK


def test_a_file_that_cannot_be_opened_is_an_error_without_a_line(tmp_path: Path) -> None:
    report = ProblemReport("f")
    assert read_octets(tmp_path / "none.yaml", report) is None
    assert read_octets(tmp_path, report) is None
    assert list(map(str, report.errors)) == [
        "f: none.yaml: No such file or directory",
        f"f: {tmp_path.name}: Is a directory",
    ]


def test_what_is_skipped_is_a_warning_each_and_counts_as_refused() -> None:
    report, behind = ProblemReport("f"), ProblemReport("f", first_line=30)
    for line in range(1, 26):
        report.skip(line, "x", "why")
    behind.skip(30, "y", "why")
    behind.leave_out(31, "z", "why not")
    report.merge(behind)
    assert report.refused == 27
    assert list(map(str, report.warnings))[-3:] == [
        *("f:25: x: skipped: why", "f:30: y: skipped: why", "f:31: z: left out: why not")
    ]
    assert len(report.warnings) == 27


def test_the_longest_line_is_read() -> None:
    assert read(b"a" * LONGEST_LINE) == ([(1, "a" * LONGEST_LINE)], [])


@each_row("length", [LONGEST_LINE // 2 - 1, LONGEST_LINE // 2, LONGEST_LINE - 1, LONGEST_LINE])
def test_long_lines_are_read_wherever_they_stand(length: int) -> None:
    texts = ["x" * length, "a", "y" * length, "", "z" * (length - 1) + "\r", "b"]
    octets = "\n".join(texts).encode()
    assert read(octets) == (list(enumerate((text.removesuffix("\r") for text in texts), 1)), [])
    assert [number for number, _ in read(b"\xff\n" + octets)[0]] == [2, 3, 4, 5, 6, 7]
