"""The elements of an array, one at a time, whatever stands around it."""

from __future__ import annotations

import json
from contextlib import suppress
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.tools.audit.sources import json_stream
from hushlist.tools.audit.sources.json_stream import JsonError, elements
from unit.rows import each_row

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda own: st.lists(own, max_size=4) | st.dictionaries(st.text(), own, max_size=4),
    max_leaves=12,
)
KEYS = ("log", "entries")


def read(octets: bytes) -> list[object]:
    return [*elements(BytesIO(octets), KEYS)]


@given(
    JSON, st.lists(JSON, max_size=6), JSON, st.sampled_from([1, 2, 3, 7, 64]), st.booleans(), st.sampled_from([None, 2])
)
def test_what_json_has_is_read_in_pieces_of_any_size(
    before: object, values: list[object], after: object, chunk: int, ascii_only: bool, indent: int | None
) -> None:
    document = {"version": before, "log": {"pages": before, "entries": values, "end": after}, "more": after}
    octets = json.dumps(document, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "CHUNK", chunk)
        assert repr(read(octets)) == repr(values)


def test_a_byte_order_mark_and_octets_that_are_no_text_do_no_harm() -> None:
    assert read(b'\xef\xbb\xbf{"log": {"entries": ["\xff"]}}') == ["\udcff"]


@pytest.mark.parametrize("chunk", [1, 16])
@each_row(
    ("element", "why"),
    [
        ("{'a': 1}", "Expecting property name enclosed in double quotes"),
        ('{"a" 1}', "Expecting ':' delimiter"),
        ("nul", "Expecting value"),
        ('"\\x"', "Invalid \\escape"),
        (json.dumps("x" * 1000), "it is longer than"),
        (f"[{'{},' * 200}0]", "it has more than 100 values"),
        (f"[{'0,' * 101}0]", "it has more than 100 values"),
        (f"[{'[' * 101}{']' * 102}", "it has more than 100 values"),
    ],
)
def test_an_element_that_is_none_ends_the_document(
    element: str, why: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("CHUNK", chunk), ("LONGEST_ELEMENT", 500), ("MOST_VALUES", 100)):
        monkeypatch.setattr(json_stream, name, value)
    stream = elements(BytesIO(f'{{"log": {{"entries": [{{"a": 1}}, {element}]}}}}'.encode()), KEYS)
    assert next(stream) == {"a": 1}
    with pytest.raises(JsonError) as error:
        next(stream)
    assert str(error.value).startswith(why)


@each_row("element", [[0] * 100, "x" * 498])
def test_an_element_may_be_as_long_and_have_as_many_values(element: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("CHUNK", 16), ("LONGEST_ELEMENT", 500), ("MOST_VALUES", 100)):
            patch.setattr(json_stream, name, value)
        assert read(json.dumps({"log": {"entries": [element]}}, separators=(",", ":")).encode()) == [element]


def test_an_element_that_is_nested_too_deep_is_no_crash() -> None:
    with suppress(JsonError):  # whether it can be read depends on the version of Python
        read(f'{{"log": {{"entries": [1, {"[" * 100_000 + "]" * 100_000}, 2]}}}}'.encode())


@each_row(
    ("octets", "count", "why"),
    [
        (b"", 0, "the document ends too early"),
        (b"[]", 0, "expected '{', found '['"),
        (b"{}", 0, "there is no 'log.entries'"),
        (b'{"log": {"pages": [{"a": "}"}]}}', 0, "there is no 'log.entries'"),
        (b'{"log": {"entries": {}}}', 0, "expected '[', found '{'"),
        (b'{"log": {"entries": [1, 2', 2, "the document ends too early"),
        (b'{"log": {"entries": [1, {"a": [}]}]}}', 1, "Expecting value"),
        (b'{"log": {"entries": [1, {"a": "b', 1, "the document ends too early"),
        (b'{"log": {"entries": [1 2]}}', 1, "expected ']', found '2'"),
        (b'{"log" {"entries": []}}', 0, "expected ':', found '{'"),
    ],
)
def test_a_document_that_is_not_whole_says_so_behind_what_could_be_read(octets: bytes, count: int, why: str) -> None:
    found: list[object] = []
    with pytest.raises(JsonError) as error:
        found.extend(elements(BytesIO(octets), KEYS))
    assert (len(found), str(error.value)) == (count, why)
