"""Reports as plain types, and back: nothing is lost, and nothing else is taken for a report."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.tools.audit.report_codec import Flat, ReportError, decode, encode
from unit.rows import each_row


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


class Place(NamedTuple):
    source: str
    line: int


@dataclass(frozen=True, slots=True)
class Inner:
    octets: bytes
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Outer:
    place: Flat[Place]
    share: float
    is_so: bool
    color: Color
    inner: dict[str, Inner]
    pair: tuple[str, int]
    many: tuple[Inner, ...]
    flat: Flat[Inner]


COUNTS = st.integers(0, (1 << 63) - 1)
MOMENTS = st.datetimes(datetime(1000, 1, 1), datetime(8999, 12, 31), timezones=st.just(UTC))
INNER = st.builds(Inner, st.binary(), st.none() | MOMENTS)
OUTER = st.builds(
    Outer,
    st.builds(Place, st.text(), COUNTS),
    st.floats(-1e11, 1e11),
    st.booleans(),
    st.sampled_from(Color),
    st.dictionaries(st.text(), INNER, max_size=3),
    st.tuples(st.text(), COUNTS),
    st.lists(INNER, max_size=3).map(tuple),
    INNER,
)
VALUE = Outer(
    Place("s", 1), 0.5, True, Color.RED, {"a": Inner(b"", None)}, ("x", 1), (Inner(b"\xff", None),), Inner(b"", None)
)


@given(OUTER)
def test_whatever_a_report_has_comes_back(one: Outer) -> None:
    assert decode(Outer, json.loads(json.dumps(encode(one)))) == one


def test_keys_are_fields_in_their_order_and_those_of_a_flat_one_stand_in_its_place() -> None:
    plain = encode(VALUE)
    assert [*plain] == ["source", "line", "share", "is_so", "color", "inner", "pair", "many", "octets", "at"]
    assert plain["many"] == [{"octets": "\udcff", "at": None}]
    assert type(plain["color"]) is str


def test_other_keys_do_not_matter() -> None:
    assert decode(Outer, {**encode(VALUE), "other": []}) == VALUE


@each_row(
    ("change", "why"),
    [
        ({"source": 1}, "source: expected a text, found 1"),
        ({"line": True}, "line: expected a count, found True"),
        ({"line": -1}, "line: expected a count, found -1"),
        ({"line": 1 << 63}, "line: expected a count, found 9223372036854775808"),
        ({"line": 10**400}, f"line: expected a count, found 1{'0' * 39}"),
        ({"line": 1.0}, "line: expected a count, found 1.0"),
        ({"share": float("nan")}, "share: expected a number, found nan"),
        ({"share": -(10**400)}, f"share: expected a number, found -1{'0' * 38}"),
        ({"share": False}, "share: expected a number, found False"),
        ({"is_so": 1}, "is_so: expected true or false, found 1"),
        ({"color": "green"}, "color: expected one of red, blue, found 'green'"),
        ({"color": []}, "color: expected one of red, blue, found list"),
        ({"inner": None}, "inner: expected an object, found None"),
        ({"inner": {"b": {"octets": b"", "at": None}}}, "inner.b.octets: expected a text, found bytes"),
        ({"inner": {"b": {"octets": "", "at": "now"}}}, "inner.b.at: expected a moment, found 'now'"),
        ({"pair": ["x"]}, "pair: expected an array of 2, found list"),
        ({"pair": ["x", "y"]}, "pair[1]: expected a count, found 'y'"),
        ({"many": {}}, "many: expected an array, found dict"),
        ({"many": [{"octets": ""}]}, "many[0]: there is no 'at'"),
        ({"at": ""}, "at: expected a moment, found ''"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(change: dict[str, Any], why: str) -> None:
    with pytest.raises(ReportError) as error:
        decode(Outer, {**encode(VALUE), **change})
    assert str(error.value) == why


@each_row("plain", [None, [], "x", 1])
def test_a_report_is_an_object(plain: object) -> None:
    with pytest.raises(ReportError, match=r"^expected an object, found"):
        decode(Outer, plain)


def test_what_no_report_has_is_not_encoded() -> None:
    with pytest.raises(TypeError, match="no report has a set"):
        encode({"a": {1}})
