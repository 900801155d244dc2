"""Paths."""

from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.url.normalization import (
    backslashes_to_slashes,
    is_overlong,
    merge_slashes,
    remove_parameters,
    resolve_dot_segments,
    shorten_overlong,
    unescape_all_but_slashes,
    unescape_once,
    unescape_unreserved,
)
from unit.hostile import rfc3986_5_2_4
from unit.rows import each_row


@each_row(
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
    assert resolve_dot_segments(path) == expected


@given(st.lists(st.sampled_from([b"/", b"/.", b"/..", b"a", b".", b"\\"]), max_size=16).map(b"".join).map(b"/".__add__))
def test_agrees_with_the_rfc_word_for_word(path: bytes) -> None:
    assert resolve_dot_segments(path) == rfc3986_5_2_4(path)


@each_row(
    ("path", "expected"), [(b"//a///b//", b"/a/b/"), (b"/a/b", b"/a/b"), (b"////", b"/"), (b"/a\\\\b", b"/a\\\\b")]
)
def test_runs_of_slashes_become_one(path: bytes, expected: bytes) -> None:
    assert merge_slashes(path) == expected


def test_escapes_are_decoded_once_all_or_some_of_them() -> None:
    assert unescape_once(b"%252f%2f") == b"%2f/"
    assert unescape_all_but_slashes(b"%252f%2f%2F") == b"%2f%2f%2F"
    assert unescape_unreserved(b"%2e%2f%41") == b".%2fA"


def test_the_parameters_of_every_segment_are_removed() -> None:
    assert remove_parameters(b"/a;b=c/..;/d;e") == b"/a/../d"


def test_a_backslash_may_be_taken_for_a_slash() -> None:
    assert backslashes_to_slashes(b"/a\\..\\b") == b"/a/../b"


def written_in(octets: int, character: int) -> bytes:
    """A character in as many octets as asked for, by the scheme that UTF-8 began with (RFC 2279, 2)."""
    first = (0xFF00 >> octets) & 0xFF
    rest = [character >> 6 * place & 0x3F for place in reversed(range(octets))]
    return bytes((first | rest[0], *(0x80 | bits for bits in rest[1:])))


@given(st.text(), st.integers(0, 0x7F), st.integers(2, 6), st.text())
def test_a_character_in_too_many_octets_is_read(before: str, character: int, octets: int, behind: str) -> None:
    path = b"/" + before.encode() + written_in(octets, character) + behind.encode()
    assert is_overlong(path)
    assert shorten_overlong(path) == b"/" + before.encode() + bytes((character,)) + behind.encode()


@each_row("path", [b"/\xc0", b"/\xc0x", b"/\xc2\xaf", b"/\xe0\x82\xaf", b"/\xe0\xa4\x81", b"/\xff\xaf"])
def test_what_is_broken_but_no_character_in_too_many_octets_stays(path: bytes) -> None:
    assert not is_overlong(path)
    assert shorten_overlong(path) == path
