"""The elements of an array, one at a time, whatever stands around it."""

from __future__ import annotations

import json
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


@pytest.mark.parametrize(
    "broken",
    ["{'a': 1}", '{"a" 1}', "{1: 2}", "nul", '["]", x]', '"\\x"', "\x01"],
)
@pytest.mark.parametrize("chunk", [1, 5, 1 << 18])
def test_an_element_that_is_none_does_not_stop_the_rest(
    broken: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_stream, "CHUNK", chunk)
    found = read(f'{{"log": {{"entries": [{{"a": 1}}, {broken}, 2]}}}}'.encode())
    assert [found[0], found[-1], len(found)] == [{"a": 1}, 2, 3]
    assert isinstance(found[1], JsonError)


def test_an_element_that_is_nested_too_deep_does_not_stop_the_rest() -> None:
    deep = "[" * 100_000 + "]" * 100_000  # whether that can be read depends on the version of Python
    assert read(f'{{"log": {{"entries": [1, {deep}, 2]}}}}'.encode())[::2] == [1, 2]


@pytest.mark.parametrize("chunk", [16, 1 << 16])
def test_an_element_that_is_too_long_is_passed_over(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "CHUNK", chunk)
    monkeypatch.setattr(json_stream, "LONGEST_ELEMENT", 100)
    long = json.dumps({"a": 'x]}"\\' * 100})
    first, error, last = read(f'{{"log": {{"entries": [1, {long}, 3]}}}}'.encode())
    assert (first, str(error), last) == (1, "it is longer than 100 characters", 3)


@pytest.mark.parametrize("short", ["{},", "[],", "0,", "[["])
def test_an_element_of_very_many_values_is_passed_over(short: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "CHUNK", 16)
    monkeypatch.setattr(json_stream, "MOST_VALUES", 100)
    dense = f"[{short * 200}0{']' * 2 * 200 * (short == '[[')}]"
    first, error, last = read(f'{{"log": {{"entries": [1, {dense}, "{"x" * 500}"]}}}}'.encode())
    assert (first, str(error), last) == (1, "it has more than 100 values", "x" * 500)


def test_an_element_may_have_as_many_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "CHUNK", 16)
    monkeypatch.setattr(json_stream, "MOST_VALUES", 100)
    assert read(b'{"log": {"entries": [[%b0]]}}' % (b"0," * 99)) == [[0] * 100]
    (error,) = read(b'{"log": {"entries": [[%b0]]}}' % (b"0," * 100))
    assert str(error) == "it has more than 100 values"


@each_row(
    ("octets", "count", "why"),
    [
        (b"", 0, "the document ends too early"),
        (b"[]", 0, "expected '{', found '['"),
        (b"{}", 0, "there is no 'log.entries'"),
        (b'{"log": {"pages": [{"a": "}"}]}}', 0, "there is no 'log.entries'"),
        (b'{"log": {"entries": {}}}', 0, "expected '[', found '{'"),
        (b'{"log": {"entries": [1, 2', 2, "the document ends too early"),
        (b'{"log": {"entries": [1, {"a": [}]}]}}', 2, "expected ']', found '}'"),
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
