"""Regular expressions that are compiled when they are first used."""

import re

import pytest

from hushlist.core.system.late_pattern import late_pattern


def test_an_expression_is_compiled_when_it_is_first_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[tuple[object, ...]] = []
    compile_now = re.compile
    monkeypatch.setattr(re, "compile", lambda *arguments: compiled.append(arguments) or compile_now(*arguments))
    word = late_pattern(rb"([a-z]+)", re.IGNORECASE)
    assert compiled == []
    for _ in range(2):
        assert [match[1] for match in word.finditer(b"a B")] == [b"a", b"B"]
    assert compiled == [(rb"([a-z]+)", re.IGNORECASE)]


def test_an_expression_that_is_none_is_told_when_it_is_used() -> None:
    wrong = late_pattern("(")
    for _ in range(2):
        with pytest.raises(re.error):
            wrong.match("a")


def test_what_no_expression_has_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="search_all"):
        _ = late_pattern("a").search_all  # type: ignore[attr-defined]
