"""Paths."""

from hushlist.core.url.normalization import (
    is_overlong,
    merge_slashes,
    resolve_dot_segments,
    shorten_overlong,
)
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


@each_row(
    ("path", "expected"), [(b"//a///b//", b"/a/b/"), (b"/a/b", b"/a/b"), (b"////", b"/"), (b"/a\\\\b", b"/a\\\\b")]
)
def test_runs_of_slashes_become_one(path: bytes, expected: bytes) -> None:
    assert merge_slashes(path) == expected


@each_row("path", [b"/\xc0", b"/\xc0x", b"/\xc2\xaf", b"/\xe0\x82\xaf", b"/\xe0\xa4\x81", b"/\xff\xaf"])
def test_what_is_broken_but_no_character_in_too_many_octets_stays(path: bytes) -> None:
    assert not is_overlong(path)
    assert shorten_overlong(path) == path
