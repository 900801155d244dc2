"""The rung above the others: what permanent redirects tell."""

from __future__ import annotations

import pytest

from hushlist.core.errors import UrlError
from hushlist.core.url.comparison import LADDER, is_slash_redirect, slash_twin
from hushlist.tools.reference.url_comparison import compare, redirected_profile
from unit.rows import each_row


@each_row(
    ("source", "location", "expected"),
    [
        # the draft's own example, 4.4
        ("http://example.com/data", "http://example.com/data/", True),
        ("http://example.com/data/", "http://example.com/data", True),
        ("http://example.com/data", "/data/", True),
        ("http://example.com/data", "data/", True),
        ("http://example.com/data?q=1", "/data/?q=1", True),
        ("http://example.com/%64ata", "HTTP://EXAMPLE.com:80/data/#top", True),
        ("http://example.com/data?q=1", "/data/", False),
        ("http://example.com/data", "/other/", False),
        ("http://example.com/data", "/data//", False),
        ("http://example.com/data", "https://example.com/data/", False),
        ("http://example.com/data", "http://www.example.com/data/", False),
        ("http://example.com/data", "http://example.com:81/data/", False),
        ("http://example.com/data", "http://me@example.com/data/", False),
        ("http://example.com/", "http://example.com", False),
        ("http://example.com/data", "", False),
    ],
)
def test_only_a_trailing_slash_tells_something(source: str, location: str, expected: bool) -> None:
    assert is_slash_redirect(source, location) is expected


def test_a_relative_source_is_refused() -> None:
    with pytest.raises(UrlError):
        is_slash_redirect("/data", "/data/")


@each_row(("path", "twin"), [(b"/a", b"/a/"), (b"/a/", b"/a"), (b"/a//", b"/a/"), (b"/", None), (b"", None)])
def test_twins(path: bytes, twin: bytes | None) -> None:
    assert slash_twin(path) == twin


@each_row(
    ("a", "b", "rung"),
    [
        ("http://h.example/data", "http://h.example/data/", "protocol"),
        ("http://h.example/data?x", "http://H.example:80/data/?x", "protocol"),
        ("http://h.example/data?x", "http://h.example/data/?y", None),
        ("http://h.example/other", "http://h.example/other/", None),
        ("http://i.example/data", "http://i.example/data/", None),
        ("https://h.example/data", "https://h.example/data/", None),
        ("http://h.example/data", "http://h.example/data", "simple"),
    ],
)
def test_what_was_redirected_is_equivalent_on_that_origin_alone(a: str, b: str, rung: str | None) -> None:
    ladder = (*LADDER, redirected_profile([("http://h.example/data", "/data/"), ("http://h.example/x", "/y")]))
    assert compare(a, b, ladder=ladder).rung == rung
    assert compare(b, a, ladder=ladder).rung == rung


def test_the_explanation_names_the_step() -> None:
    ladder = (*LADDER, redirected_profile([("http://h.example/data", "/data/")]))
    comparison = compare("http://h.example/data", "http://h.example/data/", ladder=ladder)
    assert [change.step for change in comparison.b.changes] == ["follow_permanent_redirects"]
