"""What is read with less work is what mitmproxy reads, and fails where that fails."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy import http, optmanager
from mitmproxy.coretypes import multidict
from mitmproxy.utils import typecheck

from hushlist.proxy.cheap_reads import _check_types, _contains, _current, _get, _get_all
from unit.rows import each_row

NAMES = st.sampled_from([b"Host", b"host", b"HOST", b"Hos", b"Cookie", "n\u00e4me".encode(), b"\xff", b""])
FIELDS = st.lists(st.tuples(NAMES, st.binary(max_size=3)), max_size=5)


class Original(http.Headers):
    """Headers that mitmproxy itself looks through, by what it has in common with its other mappings."""

    def get_all(self, name: Any) -> list[str]:
        key = http._always_bytes(name)
        return [http._native(value) for value in multidict.MultiDict.get_all(self, key)]

    get = multidict.MultiDict.get
    __contains__ = multidict.MultiDict.__contains__


@given(FIELDS, NAMES, st.booleans())
def test_a_field_is_looked_up_as_mitmproxy_does(fields: list[tuple[bytes, bytes]], name: bytes, is_text: bool) -> None:
    asked = name.decode("utf-8", "surrogateescape") if is_text else name
    ours, theirs = http.Headers(fields), Original(fields)
    assert _get_all(ours, asked) == theirs.get_all(asked)
    assert _get(ours, asked, 7) == theirs.get(asked, 7)
    assert _contains(ours, asked) == (asked in theirs)


def test_a_name_that_is_no_text_is_refused_or_is_no_field() -> None:
    headers = http.Headers(host="h.example")
    with pytest.raises(TypeError):
        _get_all(headers, 7)  # type: ignore[arg-type]
    assert not _contains(headers, 7)


def _message(**parts: object) -> http.RequestData:
    request = http.Request.make("GET", "http://h.example/").data
    vars(request).update(parts)
    return request


@each_row(
    "parts",
    [
        {},
        {"content": None, "trailers": http.Headers(), "timestamp_end": 7},
        {"timestamp_start": 7},
        {"timestamp_start": "7"},
        {"host": b"h.example"},
        {"method": "GET"},
        {"headers": ()},
        {"headers": None},
        {"trailers": 7},
        {"content": "text"},
        {"port": "80"},
        {"port": None},
        {"port": True},
    ],
)
def test_the_types_of_a_message_are_those_of_mitmproxy(parts: dict[str, object]) -> None:
    def fault(check: Any) -> str | None:
        try:
            check(_message(**parts))
        except TypeError as error:
            return str(error)
        return None

    def original(message: http.MessageData) -> None:
        for name, field in type(message).__dataclass_fields__.items():
            typecheck.check_option_type(name, getattr(message, name), field.type)

    assert fault(_check_types) == fault(original)


@each_row(
    ("kind", "default", "value"),
    [(str, "a", "b"), (bool, False, True), (int, 1, 2), (str | None, None, "b"), (Sequence[str], ["a"], ["b"])],
)
def test_an_option_s_value_is_mitmproxy_s_and_nobody_changes_it_in_place(kind: Any, default: Any, value: Any) -> None:
    option = optmanager._Option("name", kind, default, "", None)
    for wanted in (default, value):
        if wanted is value:
            option.set(value)
        read = _current(option)
        assert read == wanted
        if isinstance(read, list):
            read.append("more")
            assert _current(option) == wanted
