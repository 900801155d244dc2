"""What a server that reads no body takes for the next request."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.url.request_bodies import may_join_request
from unit.rows import each_row

DECIDED = b"POST /decided HTTP/1.1\r\nHost: good.test\r\n\r\n"
#: how servers find the target in a line: its second word, whatever the first is, and whatever they take for a space
READERS: list[Callable[[bytes], list[bytes]]] = [
    lambda line: line.split(b" "),
    lambda line: line.split(),
    lambda line: [word.encode("latin-1") for word in line.decode("latin-1").split()],
    lambda line: re.split(rb"[ \t]", line),
    lambda line: re.split(rb"[ \t]+", line.lstrip(b" \t")),
    lambda line: [b"", *line.split()] if line[:1].isspace() else line.split(),
]
_NO_TARGET = re.compile(rb'["\[\]{}].*|(?:true|false|null|-?[0-9.]+)(?:[,}\]].*)?', re.DOTALL)


def targets(sent: bytes) -> Iterator[bytes]:
    for line in re.split(rb"\r\n|\r|\n", sent):
        for read in READERS:
            words = read(line)
            if len(words) > 1 and words[1]:
                yield words[1]


def is_told(body: bytes) -> bool:
    """Whether some server may find another target, where no line is a header field."""
    heads = body + DECIDED.partition(b"\r\n")[0]
    return not all(target == b"/decided" or _NO_TARGET.fullmatch(target) for target in targets(heads))


ODD = st.lists(
    st.sampled_from([b"{", b" ", b"\t", b"\r\n", b"\n", b"/x?", b'"', b"a", b"1", b",", b"}", b"true", b"="])
)


@given(ODD.map(b"".join) | st.binary(max_size=20))
def test_what_may_be_kept_joins_no_other_target(body: bytes) -> None:
    assert may_join_request(body) or not is_told(body)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.decimals(0, 1000, places=2).map(float)
    | st.text("abc /:?", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text("abc", min_size=1, max_size=4), VALUES, min_size=1, max_size=4))
def test_json_as_programs_write_it_may_be_kept(value: object) -> None:
    assert not may_join_request(json.dumps(value, separators=(",", ": ")).encode())


@each_row(
    ("body", "joins"),
    [
        (b'{"key": "value"}', False),
        (b'{\n  "key": [\n    {"a": null}\n  ],\n  "n": 1.5,\n  "t": true\n}\n', False),
        (b"user=anna&text=a+b", False),
        (b"", False),
        (b"\x00\x01", True),
        (b"{ /x?", True),
        (b"{\t/x?", True),
        (b"{ http://other.test/?", True),
        (b"{ secret/?", True),
        (b" /x?", True),
        (b"\n /x?", True),
        (b'{"a":1} ', True),
        (b'{"a": 1', True),
        (b'{"a": true', True),
        (b"<a b", True),
        (b"--x\r\nContent-Disposition: form-data", True),
        (b"GET / HTTP/1.1\r\n\r\n", True),
        (b"{}HTTP/1.1", True),
    ],
)
def test_another_target(body: bytes, joins: bool) -> None:
    assert may_join_request(body) is joins
