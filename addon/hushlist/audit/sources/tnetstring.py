"""Tagged netstrings, which mitmproxy writes flows as: ``b"5:hello,"``, ``b"8:1:a,1:1#}"``, one after another.

>>> from io import BytesIO
>>> list(values(BytesIO(b"8:1:a,1:1#}4:true!"), longest=100))
[{'a': 1}, True]

Octets in one are not copied; one of very many values is refused, since each takes memory, however short it is.

Spec: https://tnetstrings.info, with ``;`` for texts of Unicode
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

#: levels of lists and dictionaries
_DEEPEST = 64
#: values within one: a WebSocket with a hundred thousand messages has fewer
_MOST_VALUES = 1 << 20
_CHUNK = 1 << 20
_LENGTH = re.compile(rb"([0-9]{1,12}):")
_MOST_DIGITS = 12


class TnetstringError(ValueError):
    """Something is no tagged netstring."""


def values(stream: BinaryIO, longest: int) -> Iterator[object]:
    """The values; a ``TnetstringError`` in place of one that is none, or longer than ``longest`` octets.

    Octets are given as a ``memoryview``.

    Raises:
        TnetstringError: the stream ends too early, or it cannot be known where the next one begins.
    """
    while (length := _read_length(stream)) is not None:
        if length >= longest:
            _skip(stream, length + 1)
            yield TnetstringError(f"it is longer than {longest:,} octets")
            continue
        octets = _read(stream, length + 1)
        try:
            yield _parse(memoryview(octets)[:length], octets[length], 0, iter(range(_MOST_VALUES)))
        except TnetstringError as error:
            yield error


def _read_length(stream: BinaryIO) -> int | None:
    digits = b""
    while (octet := stream.read(1)) != b":":
        if not octet and not digits:
            return None
        if not octet.isdigit() or len(digits) == _MOST_DIGITS:
            raise TnetstringError(_TOO_EARLY if not octet else "there is no length where the next one begins")
        digits += octet
    if not digits:
        raise TnetstringError("there is no length where the next one begins")
    return int(digits)


def _read(stream: BinaryIO, length: int) -> bytes:
    octets = stream.read(length)
    if len(octets) < length:
        raise TnetstringError(_TOO_EARLY)
    return octets


def _skip(stream: BinaryIO, length: int) -> None:
    while length:
        length -= len(_read(stream, min(length, _CHUNK)))


_TOO_EARLY = "it ends too early"


def _parse(octets: memoryview, tag: int, depth: int, left: Iterator[int]) -> object:
    """The value of a payload with its tag; ``left`` is used up by values."""
    if depth > _DEEPEST:
        raise TnetstringError("it is nested too deep")
    if next(left, None) is None:
        raise TnetstringError(f"it has more than {_MOST_VALUES:,} values")
    try:
        match chr(tag):
            case ",":
                return octets
            case ";":
                return str(octets, "utf-8", "surrogateescape")
            case "#":
                return int(bytes(octets))
            case "^":
                return float(bytes(octets))
            case "!":
                return {b"true": True, b"false": False}[bytes(octets)]
            case "~" if not octets:
                return None
            case "]":
                return list(_items(octets, depth + 1, left))
            case "}":
                items = list(_items(octets, depth + 1, left))
                if len(items) % 2:
                    raise TnetstringError("a dictionary has no value for each key")
                return dict(zip(map(_key, items[::2]), items[1::2], strict=True))
    except (ValueError, LookupError) as error:
        if isinstance(error, TnetstringError):
            raise
        raise TnetstringError("a number or word is none") from error
    raise TnetstringError(f"there is no type {chr(tag)!r}")


def _key(value: object) -> str:
    """A key; old versions wrote them as octets."""
    if isinstance(value, memoryview):
        return str(value, "utf-8", "surrogateescape")
    if isinstance(value, str):
        return value
    raise TnetstringError("a key is no text")


def _items(octets: memoryview, depth: int, left: Iterator[int]) -> Iterator[object]:
    at = 0
    while at < len(octets):
        found = _LENGTH.match(octets, at)
        if found is None:
            raise TnetstringError("there is no length within it")
        start = found.end()
        end = start + int(found[1])
        if end >= len(octets):
            raise TnetstringError("what is in it is longer than it")
        yield _parse(octets[start:end], octets[end], depth, left)
        at = end + 1
