"""What mitmproxy reads dozens of times for each request, read with less work: the same values, and the same errors.

mitmproxy copies an option's value each time it is read, works out for each message which types its parts may have, and
looks for a field of a header by seven functions, and by an exception where there is none.
"""

from __future__ import annotations

import copy
from dataclasses import fields
from functools import cache, lru_cache
from types import NoneType
from typing import Any, get_args

from mitmproxy import http, optmanager
from mitmproxy.utils import strutils, typecheck

#: types of values that nobody can change in place
_UNCHANGEABLE = frozenset((bool, int, float, str, NoneType))


def _current(option: Any) -> Any:
    """Read an option without a copy where its value cannot be changed in place."""
    value = option._default if option.value is optmanager.unset else option.value
    return value if type(value) in _UNCHANGEABLE else copy.deepcopy(value)


def _check_types(message: http.MessageData) -> None:
    """Check the types of a message's parts by a table, which is made once."""
    values = vars(message)
    for name, types, declared in _types_of(type(message)):
        if not isinstance(values[name], types):
            typecheck.check_option_type(name, values[name], declared)


@cache
def _types_of(kind: type[http.MessageData]) -> tuple[tuple[str, tuple[type, ...], Any], ...]:
    """For each part of a kind of message: its name, which types are certainly right, and which mitmproxy declares."""
    declared = [(field.name, get_args(field.type) or (field.type,), field.type) for field in fields(kind)]
    return tuple((name, tuple(member for member in types if type(member) is type), of) for name, types, of in declared)


#: characters of a name that the cache keeps
_LONGEST_KNOWN_NAME = 64


@lru_cache(1024)
def _key_of(name: str | bytes) -> bytes:
    """The octets of a field's name, in lower case."""
    return strutils.always_bytes(name, "utf-8", "surrogateescape").lower()


def _get_all(headers: http.Headers, name: str | bytes) -> list[str]:
    """Look for the values of a field in one loop."""
    key = _key_of(name) if len(name) <= _LONGEST_KNOWN_NAME else _key_of.__wrapped__(name)
    size = len(key)
    return [
        value.decode("utf-8", "surrogateescape")
        for field, value in headers.fields
        if len(field) == size and field.lower() == key
    ]


def _get(headers: http.Headers, name: str | bytes, default: Any = None) -> Any:
    """Look for a field without an exception where there is none."""
    values = headers.get_all(name)
    return headers._reduce_values(values) if values else default


def _contains(headers: http.Headers, name: object) -> bool:
    """Look whether there is a field without an exception where there is none."""
    return isinstance(name, str | bytes) and bool(headers.get_all(name))


#: as in ``bounded_http``
REPLACED = (
    (optmanager._Option, "current", _current),
    (http.MessageData, "__post_init__", _check_types),
    (http.Headers, "get_all", _get_all),
    (http.Headers, "get", _get),
    (http.Headers, "__contains__", _contains),
)
