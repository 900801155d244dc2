"""Paths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.url.path import collapse_slashes, remove_dot_segments, slashes_from_backslashes
from unit.hostile import LONG, rfc3986_5_2_4, seconds


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"/a/b/c/./../../g", b"/a/g"),  # RFC 3986, 5.2.4
        (b"/blah/..", b"/"),  # Safe Browsing v4
        (b"/..", b"/"),
        (b"/.", b"/"),
        (b"/../../a", b"/a"),
        (b"/a/.", b"/a/"),
        (b"/a/b/..", b"/a/"),
        (b"/a/b/../", b"/a/"),
        (b"/a//../b", b"/a/b"),
        (b"/...", b"/..."),
        (b"/.a/..b/c.", b"/.a/..b/c."),
        (b"/a/.../b", b"/a/.../b"),
        (b"/", b"/"),
        (b"/a;x/../b", b"/b"),
    ],
)
def test_dot_segments_are_resolved(path: bytes, expected: bytes) -> None:
    assert remove_dot_segments(path) == expected


@given(st.lists(st.sampled_from([b"/", b"/.", b"/..", b"a", b".", b"\\"]), max_size=16).map(b"".join).map(b"/".__add__))
def test_agrees_with_the_rfc_word_for_word(path: bytes) -> None:
    assert remove_dot_segments(path) == rfc3986_5_2_4(path)


@pytest.mark.parametrize(
    ("path", "expected"), [(b"//a///b//", b"/a/b/"), (b"/a/b", b"/a/b"), (b"////", b"/"), (b"/a\\\\b", b"/a\\\\b")]
)
def test_runs_of_slashes_become_one(path: bytes, expected: bytes) -> None:
    assert collapse_slashes(path) == expected


def test_a_backslash_may_be_taken_for_a_slash() -> None:
    assert slashes_from_backslashes(b"/a\\..\\b") == b"/a/../b"


@pytest.mark.parametrize(
    "path", [b"/.." * LONG, b"/a" * LONG + b"/.." * LONG, b"/a/.." * LONG, b"/" * LONG, b"/." * LONG]
)
def test_an_attack_costs_linear_time(path: bytes) -> None:
    assert seconds(lambda: collapse_slashes(remove_dot_segments(path))) < 1
