"""Messages of Safe Browsing as octets of protobuf and as JSON: a codec for dataclasses whose fields name their numbers.

>>> from hushlist.extensions.safe_browsing.v5_messages import SearchHashesRequest
>>> encode_message(SearchHashesRequest(hash_prefixes=(b"aaaa",))).hex()
'0a0461616161'
>>> decode_message(SearchHashesRequest, bytes.fromhex("0a0461616161"))
SearchHashesRequest(hash_prefixes=(b'aaaa',))
>>> message_to_json(SearchHashesRequest(hash_prefixes=(b"aaaa",)))
{'hashPrefixes': ['YWFhYQ==']}

Why by hand: the library ``protobuf`` would be a dependency of its own, since mitmproxy 11.0 and 12 do not bring it; and
generated code fits few of its versions. Nearly all octets of an update are one field, which is copied as it is, so this
codec costs no time that shows. And it refuses a message by the number of its parts while it reads, which the library
cannot.

What is read: fields in any order, unknown ones skipped, repeated numbers packed or not, as Firefox sends them; of a
field that should be there once, the last counts. What is written: no field that has its default, so absent and empty
sub-messages stay apart (``None`` is absent).

Spec: protobuf.dev, Encoding, and ProtoJSON Format
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, TypeVar

from hushlist.core.errors import MessageError

_Message = TypeVar("_Message")

#: a message's repeated parts: each number weighs 1, and anything else 32. So 131,072 full hashes, 4 million indices
MOST_WEIGHT = 1 << 22
_WEIGHT = 32
#: the number of an enum's value in JSON that has an unknown name
UNKNOWN = -1


class Kind(Enum):
    """The types of fields, by their names in protobuf."""

    INT32 = "int32"
    UINT32 = "uint32"
    INT64 = "int64"
    UINT64 = "uint64"
    FIXED64 = "fixed64"
    BOOL = "bool"
    ENUM = "enum"
    STRING = "string"
    BYTES = "bytes"
    MESSAGE = "message"
    #: google.protobuf.Duration; here seconds as a float, or ``None``
    DURATION = "duration"


_DEFAULTS: dict[Kind, object] = {
    Kind.BOOL: False,
    Kind.STRING: "",
    Kind.BYTES: b"",
    Kind.MESSAGE: None,
    Kind.DURATION: None,
}
_LENGTH_DELIMITED = {Kind.STRING, Kind.BYTES, Kind.MESSAGE, Kind.DURATION}
_SIGNED = {Kind.INT32, Kind.INT64, Kind.ENUM}
#: in JSON, a text of digits
_LONG = {Kind.INT64, Kind.UINT64, Kind.FIXED64}
_BITS = {Kind.INT32: 32, Kind.UINT32: 32, Kind.ENUM: 32}

_VARINT, _I64, _LEN, _I32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class WireField:
    """How a field of a message travels."""

    number: int
    kind: Kind
    #: the class of a sub-message, or the values of an enum
    of: Any = None
    is_repeated: bool = False
    #: written even with its default
    is_always_written: bool = False
    name: str = ""

    @property
    def json_name(self) -> str:
        first, *others = self.name.split("_")
        return first + "".join(map(str.capitalize, others))


def wire(number: int, kind: Kind, of: Any = None, repeated: bool = False, always: bool = False) -> Any:
    """A dataclass's field, with its number and kind; its default is protobuf's."""
    default = () if repeated else _DEFAULTS.get(kind, 0)
    return field(default=default, metadata={"wire": WireField(number, kind, of, repeated, always)})


_FIELDS: dict[type, Mapping[int, WireField]] = {}


def _wire_fields(of: type) -> Mapping[int, WireField]:
    """A message's fields by their numbers, in the order of its class."""
    if of not in _FIELDS:
        named = [(entry.name, entry.metadata["wire"]) for entry in fields(of)]
        _FIELDS[of] = {wire_field.number: replace(wire_field, name=name) for name, wire_field in named}
    return _FIELDS[of]


def _weight(wire_field: WireField) -> int:
    return _WEIGHT if wire_field.kind in _LENGTH_DELIMITED else 1


# -- protobuf ----------------------------------------------------------------------------------------------------------


def encode_message(message: Any) -> bytes:
    parts: list[bytes] = []
    for wire_field in _wire_fields(type(message)).values():
        value = getattr(message, wire_field.name)
        if wire_field.is_repeated and wire_field.kind not in _LENGTH_DELIMITED and value:
            packed = b"".join(_encode_value(wire_field, item) for item in value)
            parts += [_varint(wire_field.number << 3 | _LEN), _varint(len(packed)), packed]
        elif wire_field.is_repeated:
            parts += [part for item in value for part in _encode_field(wire_field, item)]
        elif wire_field.is_always_written or value != _DEFAULTS.get(wire_field.kind, 0):
            parts += _encode_field(wire_field, value)
    return b"".join(parts)


def _encode_field(wire_field: WireField, value: Any) -> tuple[bytes, ...]:
    octets = _encode_value(wire_field, value)
    if wire_field.kind in _LENGTH_DELIMITED:
        return _varint(wire_field.number << 3 | _LEN), _varint(len(octets)), octets
    return _varint(wire_field.number << 3 | (_I64 if wire_field.kind is Kind.FIXED64 else _VARINT)), octets


def _encode_value(wire_field: WireField, value: Any) -> bytes:
    match wire_field.kind:
        case Kind.BYTES:
            return bytes(value)
        case Kind.STRING:
            return str(value).encode()
        case Kind.MESSAGE:
            return encode_message(value)
        case Kind.DURATION:
            return encode_message(_Duration(*_whole_and_nanos(value)))
        case Kind.FIXED64:
            return int(value).to_bytes(8, "little")
        case _:
            return _varint(int(value) & (1 << 64) - 1)


def _whole_and_nanos(seconds: float) -> tuple[int, int]:
    nanos = round(abs(seconds) * 1e9)
    sign = -1 if seconds < 0 else 1
    return sign * (nanos // 10**9), sign * (nanos % 10**9)


def _varint(number: int) -> bytes:
    octets = bytearray()
    while number > 0x7F:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    octets.append(number)
    return bytes(octets)


def decode_message(of: type[_Message], octets: bytes) -> _Message:
    """Octets as a message; ``MessageError`` if they are none, or it has more parts than ``MOST_WEIGHT`` allows."""
    return _decode(of, octets, [MOST_WEIGHT])


def _decode(of: type[_Message], octets: bytes, budget: list[int]) -> _Message:
    wire_fields, values, at = _wire_fields(of), dict[str, Any](), 0
    while at < len(octets):
        tag, at = _read_varint(octets, at)
        form, raw, at = tag & 7, b"", at
        number = 0
        if form == _VARINT:
            number, at = _read_varint(octets, at)
        elif form == _LEN:
            length, at = _read_varint(octets, at)
            raw, at = octets[at : at + length], at + length
        elif form in (_I64, _I32):
            size = 8 if form == _I64 else 4
            number, at = int.from_bytes(octets[at : at + size], "little"), at + size
        else:
            raise MessageError(f"protobuf: a field of the unknown wire type {form}")
        if at > len(octets):
            raise MessageError("protobuf: the message ends inside a field")
        wire_field = wire_fields.get(tag >> 3)
        if wire_field is None:
            continue
        decoded = _decode_value(wire_field, form, number, raw, budget)
        if wire_field.is_repeated:
            budget[0] -= len(decoded) * _weight(wire_field)
            if budget[0] < 0:
                raise MessageError("protobuf: the message has too many parts")
            values.setdefault(wire_field.name, []).extend(decoded)
        elif decoded:
            values[wire_field.name] = decoded[-1]
    for wire_field in wire_fields.values():
        if wire_field.is_repeated and wire_field.name in values:
            values[wire_field.name] = tuple(values[wire_field.name])
    return of(**values)


def _decode_value(wire_field: WireField, form: int, number: int, raw: bytes, budget: list[int]) -> list[Any]:
    """The values of one field on the wire: one, or more where numbers are packed."""
    expected = _LEN if wire_field.kind in _LENGTH_DELIMITED else _I64 if wire_field.kind is Kind.FIXED64 else _VARINT
    if wire_field.is_repeated and form == _LEN and expected == _VARINT:
        if len(raw) > budget[0] * 10:
            raise MessageError("protobuf: the message has too many parts")
        return _unpack(wire_field, raw)
    if form != expected:
        raise MessageError(f"protobuf: the field {wire_field.name} has the wire type {form}")
    match wire_field.kind:
        case Kind.BYTES:
            return [raw]
        case Kind.STRING:
            try:
                return [raw.decode()]
            except UnicodeDecodeError:
                raise MessageError(f"protobuf: the field {wire_field.name} is no UTF-8") from None
        case Kind.MESSAGE:
            return [_decode(wire_field.of, raw, budget)]
        case Kind.DURATION:
            duration = _decode(_Duration, raw, budget)
            return [_duration(duration.seconds, duration.nanos)]
        case _:
            return [_number(wire_field.kind, number)]


def _unpack(wire_field: WireField, raw: bytes) -> list[int]:
    numbers, at = list[int](), 0
    while at < len(raw):
        number, at = _read_varint(raw, at)
        numbers.append(_number(wire_field.kind, number))
    return numbers


def _number(kind: Kind, number: int) -> int:
    if kind is Kind.BOOL:
        return bool(number)
    bits = _BITS.get(kind, 64)
    number &= (1 << bits) - 1
    return number - (1 << bits) if kind in _SIGNED and number >> (bits - 1) else number


def _read_varint(octets: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(octets):
            raise MessageError("protobuf: the message ends inside a number")
        octet = octets[at]
        at += 1
        number |= (octet & 0x7F) << shift
        if octet < 0x80:
            return number & (1 << 64) - 1, at
    raise MessageError("protobuf: a number of more than ten octets")


@dataclass(frozen=True, slots=True)
class _Duration:
    seconds: int = wire(1, Kind.INT64)
    nanos: int = wire(2, Kind.INT32)


#: seconds. Spec: google.protobuf.Duration, "from -315,576,000,000 to +315,576,000,000 inclusive"
_LONGEST = 315_576_000_000


def _duration(seconds: int, nanos: int) -> float:
    if abs(seconds) > _LONGEST:
        raise MessageError(f"a duration of {seconds:,} seconds")
    return seconds + nanos / 1e9


# -- JSON --------------------------------------------------------------------------------------------------------------


def message_to_json(message: Any) -> dict[str, Any]:
    """A message as an object of JSON, which ``json.dumps`` takes."""
    plain: dict[str, Any] = {}
    for wire_field in _wire_fields(type(message)).values():
        value = getattr(message, wire_field.name)
        if wire_field.is_repeated and value:
            plain[wire_field.json_name] = [_value_to_json(wire_field, item) for item in value]
        elif not wire_field.is_repeated and (
            wire_field.is_always_written or value != _DEFAULTS.get(wire_field.kind, 0)
        ):
            plain[wire_field.json_name] = _value_to_json(wire_field, value)
    return plain


def _value_to_json(wire_field: WireField, value: Any) -> object:
    match wire_field.kind:
        case Kind.BYTES:
            return b64encode(value).decode()
        case Kind.MESSAGE:
            return message_to_json(value)
        case Kind.DURATION:
            whole, nanos = _whole_and_nanos(value)
            sign = "-" if value < 0 else ""
            return f"{sign}{abs(whole)}{f'.{abs(nanos):09}' if nanos else ''}s"
        case Kind.ENUM:
            return wire_field.of(value).name if value in set(wire_field.of) else int(value)
        case kind if kind in _LONG:
            return str(value)
        case _:
            return value


def message_of_json(of: type[_Message], plain: object) -> _Message:
    """An object of JSON as a message. Unknown keys are ignored, and ``null`` is as if the key were not there.

    Raises:
        MessageError: it is no such message, with the key that is wrong.
    """
    return _read_json(of, plain, of.__name__)


def decode_json(of: type[_Message], octets: bytes) -> _Message:
    """Octets of JSON as a message; raises as ``message_of_json`` does."""
    try:
        plain = json.loads(octets)
    except (ValueError, RecursionError):
        raise MessageError("JSON: it cannot be read") from None
    return message_of_json(of, plain)


def _read_json(of: type[_Message], plain: object, where: str) -> _Message:
    if not isinstance(plain, dict):
        raise MessageError(f"JSON: {where} is no object")
    values: dict[str, Any] = {}
    for wire_field in _wire_fields(of).values():
        value = plain.get(wire_field.json_name)
        if value is None:
            continue
        if not wire_field.is_repeated:
            values[wire_field.name] = _read_json_value(wire_field, value)
        elif isinstance(value, list) and len(value) * _weight(wire_field) > MOST_WEIGHT:
            raise MessageError("JSON: the message has too many parts")
        elif isinstance(value, list):
            values[wire_field.name] = tuple(_read_json_value(wire_field, item) for item in value)
        else:
            raise MessageError(f"JSON: {wire_field.json_name} is no array")
    return of(**values)


_JSON_DURATION = re.compile(r"(-?)([0-9]{1,12})(?:\.([0-9]{1,9}))?s")
_JSON_INTEGER = re.compile(r"-?[0-9]{1,20}")


def _read_json_value(wire_field: WireField, value: object) -> object:
    text = value if isinstance(value, str) else None
    match wire_field.kind:
        case Kind.MESSAGE:
            return _read_json(wire_field.of, value, wire_field.json_name)
        case Kind.STRING if text is not None:
            return text
        case Kind.BYTES if text is not None:
            return octets_of_base64(text)
        case Kind.BOOL if isinstance(value, bool):
            return value
        case Kind.DURATION if text is not None and (match := _JSON_DURATION.fullmatch(text)):
            sign = -1 if match[1] else 1
            return _duration(sign * int(match[2]), sign * int((match[3] or "0").ljust(9, "0")))
        case Kind.ENUM if text is not None:
            return wire_field.of[text] if text in wire_field.of.__members__ else UNKNOWN
        case Kind.BOOL | Kind.STRING | Kind.BYTES | Kind.DURATION:
            raise MessageError(f"JSON: {wire_field.json_name} is no {wire_field.kind.value}")
    if text is not None and _JSON_INTEGER.fullmatch(text):
        value = int(text)
    bits = _BITS.get(wire_field.kind, 64)
    lowest, end = (-(1 << bits - 1), 1 << bits - 1) if wire_field.kind in _SIGNED else (0, 1 << bits)
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value < end:
        raise MessageError(f"JSON: {wire_field.json_name} is no {wire_field.kind.value}")
    return value


_BASE64 = re.compile(r"[A-Za-z0-9+/]*")


def octets_of_base64(text: str) -> bytes:
    """Base64 of either alphabet, with its padding or without: clients send all four.

    >>> octets_of_base64("++++/w=="), octets_of_base64("----_w")
    (b'\\xfb\\xef\\xbe\\xff', b'\\xfb\\xef\\xbe\\xff')

    Raises:
        MessageError: it is no base64.
    """
    plain = text.replace("-", "+").replace("_", "/").rstrip("=")
    if not _BASE64.fullmatch(plain) or len(plain) % 4 == 1:
        raise MessageError("base64: it cannot be read")
    return b64decode(plain + "=" * (-len(plain) % 4))
