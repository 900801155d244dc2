"""Typed reports as plain types for JSON, and back: the fields of a dataclass or named tuple are the keys of an object.

>>> from hushlist.core.errors import Problem
>>> encode(Problem("ads.yaml", 7, "'com..'", "it names no host"))
{'source': 'ads.yaml', 'line': 7, 'what': "'com..'", 'why': 'it names no host'}
>>> decode(Problem, {"source": "ads.yaml", "line": -1})
Traceback (most recent call last):
    ...
hushlist.tools.audit.report_codec.ReportError: line: expected a count, found -1
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import date, datetime
from enum import StrEnum
from functools import cache, partial
from types import NoneType
from typing import Annotated, Any, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

from hushlist.core.errors import HushlistError
from hushlist.core.policy.recurrence import parse_moment
from hushlist.core.url.parts import to_bytes
from hushlist.tools.audit.sources.recorded_request import text_of

T = TypeVar("T")
#: the keys of such a field stand among those of the object that has the field
Flat: TypeAlias = Annotated[T, "flat"]
#: such a field is written, and not read again
Unread: TypeAlias = Annotated[T | None, "unread"]

#: makes a value from plain types, or raises ``_MisfitError``
PlainReader: TypeAlias = Callable[[Any], Any]

#: larger than any count, and any other number; one with unlimited digits could not be written
_LARGEST_COUNT, _LARGEST_NUMBER = 1 << 63, 1e12


class ReportError(HushlistError):
    """Reports cannot be merged, or a file is not a report."""


# -- to plain types ----------------------------------------------------------------------------------------------------


def encode(value: object) -> Any:
    """Plain types; octets that are not UTF-8 become lone surrogates, so that none is lost.

    What has plain types of its own, by ``as_dict``, gets these. ``TypeError`` if it is nothing that a report has.
    """
    match value:
        case str():
            return str(value)
        case None | int() | float():
            return value
        case bytes():
            return text_of(value)
        case date():
            return value.isoformat()
        case Mapping():
            return {str(key): encode(item) for key, item in value.items()}
    if hasattr(value, "as_dict"):
        return value.as_dict()
    kind: Any = type(value)
    if keys := _keys(kind):
        plain: dict[str, Any] = {}
        for name, is_flat, _ in keys:
            item = encode(getattr(value, name))
            plain |= item if is_flat else {name: item}
        return plain
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    raise TypeError(f"no report has a {kind.__name__}")


@cache
def _keys(of: Any) -> list[tuple[str, bool, Any]]:
    """The fields of a class: the name, whether it is flat, and the type; none of a class that has no fields."""
    names: Iterable[str] = getattr(of, "__dataclass_fields__", getattr(of, "_fields", ()))
    hints = get_type_hints(of, include_extras=True) if names else {}
    return [(name, "flat" in getattr(hints[name], "__metadata__", ()), hints[name]) for name in names]


# -- and back ----------------------------------------------------------------------------------------------------------


class _MisfitError(ValueError):
    """A value is not of its type; the path to it grows from its end."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.path: list[str | int] = []


def decode(of: type[T], plain: object) -> T:
    """The value that ``encode`` has made plain; ignores keys that its class does not have.

    Raises:
            ReportError: there is no such value; says where and why.
    """
    try:
        value: T = _reader(cast(Any, of))(plain)
    except _MisfitError as error:
        path = "".join(f".{step}" if isinstance(step, str) else f"[{step}]" for step in reversed(error.path))
        raise ReportError(f"{path.removeprefix('.')}: {error}" if path else str(error)) from None
    return value


@cache
def _reader(of: Any) -> PlainReader:
    """The function that makes a value of a type."""
    origin, inner = get_origin(of), get_args(of)
    if of in _LEAVES:
        return _LEAVES[of]
    if origin is Annotated:
        return _reader(inner[0]) if "flat" in inner else lambda plain: None
    if NoneType in inner:
        read = _reader(inner[0])
        return lambda plain: None if plain is None else read(plain)
    if origin is dict:
        return partial(_read_dict, _reader(inner[1]))
    if origin is tuple:
        return partial(_read_array, [_reader(item) for item in inner if item is not ...], inner[-1] is ...)
    if issubclass(of, StrEnum):
        return partial(_read_leaf, f"one of {', '.join(of)}", _is_text, of)
    return partial(_read_object, of, [(name, is_flat, _reader(item)) for name, is_flat, item in _keys(of)])


def _misfit(expected: str, value: object) -> _MisfitError:
    shown = f"{value!r:.40}" if isinstance(value, str | int | float | None) else type(value).__name__
    return _MisfitError(f"expected {expected}, found {shown}")


def _at(step: str | int, read: PlainReader, plain: object) -> Any:
    try:
        return read(plain)
    except _MisfitError as error:
        error.path.append(step)
        raise


def _read_dict(read: PlainReader, plain: object) -> dict[str, Any]:
    if not isinstance(plain, dict):
        raise _misfit("an object", plain)
    return {key: _at(key, read, value) for key, value in plain.items()}


def _read_array(reads: list[PlainReader], is_open: bool, plain: object) -> tuple[Any, ...]:
    if not isinstance(plain, list):
        raise _misfit("an array", plain)
    if is_open:
        reads = reads * len(plain)
    elif len(plain) != len(reads):
        raise _misfit(f"an array of {len(reads)}", plain)
    return tuple(_at(place, *pair) for place, pair in enumerate(zip(reads, plain, strict=True)))


def _read_object(of: type, keys: list[tuple[str, bool, PlainReader]], plain: object) -> Any:
    if not isinstance(plain, dict):
        raise _misfit("an object", plain)
    try:
        return of(*(read(plain) if is_flat else _at(name, read, plain[name]) for name, is_flat, read in keys))
    except KeyError as error:
        raise _MisfitError(f"there is no {error}") from None


def _read_leaf(expected: str, fits: Callable[[Any], bool], make: PlainReader, plain: object) -> Any:
    if fits(plain):
        with suppress(ValueError, OverflowError):
            return make(plain)
    raise _misfit(expected, plain)


def _is_text(plain: object) -> bool:
    return isinstance(plain, str)


_LEAVES: dict[object, PlainReader] = {
    str: partial(_read_leaf, "a text", _is_text, str),
    bytes: partial(_read_leaf, "a text", _is_text, to_bytes),
    datetime: partial(_read_leaf, "a moment", _is_text, parse_moment),
    bool: partial(_read_leaf, "true or false", lambda plain: isinstance(plain, bool), bool),
    int: partial(_read_leaf, "a count", lambda plain: type(plain) is int and 0 <= plain < _LARGEST_COUNT, int),
    # NaN is not less than anything.
    float: partial(
        _read_leaf, "a number", lambda plain: type(plain) in (int, float) and abs(plain) < _LARGEST_NUMBER, float
    ),
}
