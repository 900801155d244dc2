"""Errors carry their data; what they say to people leaves out what is secret."""

import logging

import pytest

from hushlist.core.errors import (
    HushlistError,
    Lines,
    Problem,
    SourceError,
    UrlError,
    logger_of,
    printable,
    to_json,
    without_user,
)
from unit.rows import each_row

SECRET = "s3cr3t"


@each_row(
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


def test_a_source_error_has_every_problem_a_line() -> None:
    error = SourceError([Problem("a.yaml", 3, "x", "why"), Problem("b.yaml", 0, "y", "what for")])
    assert str(error) == "a.yaml:3: x: why\nb.yaml: y: what for"
    assert len(error.problems) == 2
    assert isinstance(error, HushlistError)


_STEERING = {
    "C0": range(0x20),
    "DEL and C1": range(0x7F, 0xA0),
    "marks": (0x061C, 0x200E, 0x200F),
    "embeddings and overrides": range(0x202A, 0x202F),
    "isolates": range(0x2066, 0x206A),
    "separators": (0x2028, 0x2029),
    "surrogates": range(0xD800, 0xE000),
    "tags": range(0xE0000, 0xE0080),
}


@each_row("kind", _STEERING)
def test_what_steers_a_terminal_is_an_escape(kind: str) -> None:
    for number in _STEERING[kind]:
        for shown in (printable(f"a{chr(number)}b"), to_json(f"a{chr(number)}b")):
            assert shown.isascii()
            assert shown.isprintable()
            assert len(shown) > 3


def test_messages_are_printable_whatever_is_in_them(caplog: pytest.LogCaptureFixture) -> None:
    forged = "a\nforged\x1b[2J"
    logger = logger_of("hushlist.test")
    assert logger_of("hushlist.test") is logger
    caplog.set_level(logging.INFO)
    logger.info("%s %d %.1f %r %s", forged, 7, 0.5, ValueError(forged), Lines(forged))
    assert caplog.messages == [r"a\nforged\x1b[2J 7 0.5 ValueError('a\nforged\x1b[2J') a" + "\nforged\\x1b[2J"]
    try:
        raise ValueError(forged)  # noqa: TRY301
    except ValueError:
        logger.exception("failed: %s", forged)
    first, *trace = caplog.messages[-1].split("\n")
    assert first == r"failed: a\nforged\x1b[2J"
    assert trace[-2:] == ["  ValueError: a", r"  forged\x1b[2J"]
    assert caplog.records[-1].exc_info is None
