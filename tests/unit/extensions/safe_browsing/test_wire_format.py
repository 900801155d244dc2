"""Messages as protobuf and JSON."""

from __future__ import annotations

import json
from dataclasses import fields
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushlist.core.errors import MessageError
from hushlist.extensions.safe_browsing import v4_messages, v5_messages, wire_format
from hushlist.extensions.safe_browsing.v4_messages import (
    FindFullHashesResponse,
    RiceDeltaEncoding,
)
from hushlist.extensions.safe_browsing.v5_messages import HashList, SearchHashesResponse
from hushlist.extensions.safe_browsing.wire_format import (
    Kind,
    decode_json,
    decode_message,
    encode_message,
    message_of_json,
    message_to_json,
    octets_of_base64,
)
from unit.rows import each_row

MESSAGES = [
    of
    for module in (v4_messages, v5_messages)
    for of in vars(module).values()
    if isinstance(of, type) and of.__module__ == module.__name__ and hasattr(of, "__dataclass_fields__")
]

#: each is tried with every message
HALF = settings(max_examples=settings.default.max_examples // 2)

SCALARS: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.INT32: st.integers(-(1 << 31), (1 << 31) - 1),
    Kind.UINT32: st.integers(0, (1 << 32) - 1),
    Kind.INT64: st.integers(-(1 << 63), (1 << 63) - 1),
    Kind.UINT64: st.integers(0, (1 << 64) - 1),
    Kind.FIXED64: st.integers(0, (1 << 64) - 1),
    Kind.BOOL: st.booleans(),
    Kind.STRING: st.text(max_size=9),
    Kind.BYTES: st.binary(max_size=9),
    Kind.DURATION: st.none() | st.integers(-1000, 10**6).map(float) | st.just(8.0000005),
}


@cache
def any_message(of: type) -> st.SearchStrategy[Any]:
    own = {}
    for entry in fields(of):
        field = entry.metadata["wire"]
        if field.kind is Kind.MESSAGE:
            value = any_message(field.of)
            value = value if field.is_repeated else st.none() | value
        else:
            value = st.sampled_from(list(field.of)) if field.kind is Kind.ENUM else SCALARS[field.kind]
        own[entry.name] = st.lists(value, max_size=3).map(tuple) if field.is_repeated else value
    return st.builds(of, **own)


@pytest.mark.parametrize("of", MESSAGES)
@HALF
@given(st.data())
def test_every_message_reads_as_it_was_written(of: type, data: st.DataObject) -> None:
    message = data.draw(any_message(of))
    assert decode_message(of, encode_message(message)) == message
    assert decode_json(of, json.dumps(message_to_json(message)).encode()) == message


def test_the_first_value_of_v4_is_written_even_if_it_is_0() -> None:
    assert encode_message(RiceDeltaEncoding()).hex() == "0800"  # Firefox refuses a message without it
    assert message_to_json(RiceDeltaEncoding()) == {"firstValue": "0"}


def test_repeated_numbers_may_be_packed_or_not() -> None:
    packed, unpacked = bytes.fromhex("12020102"), bytes.fromhex("10011002")
    for octets in (packed, unpacked):
        assert decode_message(v5_messages.FullHashDetail, octets).attributes == (1, 2)


@each_row(
    ("octets", "why"),
    [
        ("0a05616161", "inside a field"),
        ("0affffffffffffffffff01", "inside a field"),
        ("09000000", "inside a field"),
        ("80", "inside a number"),
        ("08ffffffffffffffffffff01", "more than ten octets"),
        ("0b", "wire type 3"),
        ("0801", "the field name has the wire type 0"),
        ("0a02ffff", "the field name is no UTF-8"),
        ("320a08808080808080808001", "a duration of"),
    ],
)
def test_octets_that_are_no_message(octets: str, why: str) -> None:
    with pytest.raises(MessageError, match=why):
        decode_message(HashList, bytes.fromhex(octets))


def test_a_message_of_too_many_parts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MessageError, match="too many parts"):
        message_of_json(SearchHashesResponse, {"fullHashes": [{}] * 1_000_000})
    monkeypatch.setattr(wire_format, "MOST_WEIGHT", 64)  # two parts, or 64 numbers
    parts, numbers = bytes.fromhex("0a00"), bytes.fromhex("0a40") + b"\1" * 64
    assert len(decode_message(SearchHashesResponse, parts * 2).full_hashes) == 2
    with pytest.raises(MessageError, match="too many parts"):
        decode_message(SearchHashesResponse, parts * 3)
    assert len(decode_message(v4_messages.RawIndices, numbers).indices) == 64
    with pytest.raises(MessageError, match="too many parts"):
        decode_message(v4_messages.RawIndices, numbers + bytes.fromhex("0801"))
    with pytest.raises(MessageError, match="too many parts"):
        decode_message(v4_messages.RawIndices, bytes.fromhex("0a8105") + b"\1" * 641)


@each_row(
    ("plain", "why"),
    [
        ([], "HashList is no object"),
        ({"name": 1}, "name is no string"),
        ({"version": "***"}, "base64"),
        ({"partialUpdate": 1}, "partialUpdate is no bool"),
        ({"minimumWaitDuration": "300"}, "minimumWaitDuration is no duration"),
        ({"minimumWaitDuration": 300}, "minimumWaitDuration is no duration"),
        ({"compressedRemovals": {"firstValue": -1}}, "firstValue is no uint32"),
        ({"compressedRemovals": {"firstValue": 1 << 32}}, "firstValue is no uint32"),
        ({"compressedRemovals": {"firstValue": True}}, "firstValue is no uint32"),
        ({"metadata": {"threatTypes": "MALWARE"}}, "threatTypes is no array"),
        ({"metadata": {"hashLength": 1.5}}, "hashLength is no enum"),
    ],
)
def test_json_that_is_no_message(plain: object, why: str) -> None:
    with pytest.raises(MessageError, match=why):
        message_of_json(HashList, plain)


def test_durations() -> None:
    answer = message_of_json(FindFullHashesResponse, {"negativeCacheDuration": "120.000000009s"})
    assert answer.negative_cache_duration == pytest.approx(120.000000009)
    assert message_to_json(answer) == {"negativeCacheDuration": "120.000000009s"}
    assert message_to_json(FindFullHashesResponse(negative_cache_duration=-1.5)) == {
        "negativeCacheDuration": "-1.500000000s"
    }


def test_base64_of_either_alphabet() -> None:
    for text in ("++++/w==", "++++/w", "----_w==", "----_w"):
        assert octets_of_base64(text).hex() == "fbefbeff"
    for text in ("a", "=a==a", "a b=", "é"):
        with pytest.raises(MessageError, match="base64"):
            octets_of_base64(text)
