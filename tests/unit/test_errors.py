"""Errors carry their data; what they say to people leaves out what is secret."""

import pytest

from hushlist.errors import HushlistError, Problem, SourceError, UrlError, without_user
from hushlist.lists.source import Report

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"http://me:{SECRET}@h.example/", "http://h.example/"),
        (f"//{SECRET}@h.example:80/@x", "//h.example:80/@x"),
        (f"http://\xff{SECRET}@h.example/".encode("latin-1"), b"http://h.example/"),
        ("http://h.example/@x?a@b", "http://h.example/@x?a@b"),
        ("me@h.example", "me@h.example"),
        ("", ""),
    ],
)
def test_user_information_is_left_out(url: bytes | str, shown: bytes | str) -> None:
    assert without_user(url) == shown
    error = UrlError(url, "reason", 3)
    assert str(error) == f"{repr(shown).removeprefix('b')}: reason (at position 3)"
    assert (error.value, error.reason, error.position) == (url, "reason", 3)


def test_a_user_that_is_too_long_to_show_is_left_out_whole() -> None:
    url = f"http://{SECRET * 100}@h.example/{'a' * 300}"
    assert SECRET not in str(UrlError(url, "reason"))
    report = Report("list.yaml")
    report.error(1, url, "why")
    assert SECRET not in str(report.errors[0])
    assert len(str(report.errors[0])) < 200


def test_a_source_error_has_every_problem_a_line() -> None:
    error = SourceError([Problem("a.yaml", 3, "x", "why"), Problem("b.yaml", 0, "y", "what for")])
    assert str(error) == "a.yaml:3: x: why\nb.yaml: y: what for"
    assert len(error.problems) == 2
    assert isinstance(error, HushlistError)
