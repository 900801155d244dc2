"""The Safe Browsing profile."""

import re

import pytest
from hypothesis import example, given

from hushlist.cli.specification_commands import Vector, vectors
from hushlist.core.errors import UrlError
from hushlist.core.match.expressions import expressions
from hushlist.core.url.request import canonical_forms, request_of
from hushlist.core.url.safebrowsing import SAFEBROWSING, canonicalize, parse
from unit.hostile import LONG, seconds, urls
from unit.rows import each_row

VECTORS = vectors("safebrowsing")
PRINTED = [vector for vector in VECTORS if vector.source.startswith("Safe Browsing")]


@each_row("vector", PRINTED)
def test_the_specification_s_own_vectors_hold(vector: Vector) -> None:
    assert len(PRINTED) == 33
    assert canonicalize(vector.url) == vector.canonical


@each_row("vector", [vector for vector in VECTORS if vector not in PRINTED])
def test_settled_readings_hold(vector: Vector) -> None:
    assert canonicalize(vector.url) == vector.canonical


@each_row("url", ["", ".", "http://.../", "http://\u00ad/", "http://%2F/", "http://%40/", "a%3ab%2f"])
def test_a_url_of_which_no_host_is_left_is_refused(url: str) -> None:
    with pytest.raises(UrlError, match="it names no host"):
        canonicalize(url)


_CANONICAL = re.compile(rb"[a-z][a-z0-9+.-]*://[^/?]+(/[^?]*)(\?.*)?")
_UNESCAPED = re.compile(rb"[\x00-\x20\x7f-\xff#]|%(?![0-9A-F]{2})")


@given(urls())
@example(b"http://" + b"." * 1100 + "ü.example/".encode())
@example(b"http://%2e%2e%2e")
def test_canonicalizing_is_idempotent_and_raises_nothing_but_our_error(url: bytes) -> None:
    try:
        canonical = canonicalize(url)
    except UrlError:
        return
    assert canonicalize(canonical) == canonical
    assert not _UNESCAPED.search(canonical)
    match = _CANONICAL.fullmatch(canonical)
    assert match is not None
    assert b"//" not in match[1]
    assert not {b".", b".."} & set(match[1].split(b"/"))


@given(urls())
def test_the_canonical_url_has_the_expressions_of_the_raw_one(url: bytes) -> None:
    try:
        parts = SAFEBROWSING.apply(parse(url))
    except UrlError:
        return
    assert expressions(SAFEBROWSING.apply(parse(parts.join()))) == expressions(parts)


@pytest.mark.parametrize(
    "url",
    [
        pytest.param(b"http://h/%" + b"25" * (LONG // 2), id="nested escapes in the path"),
        pytest.param(b"http://%" + b"25" * (LONG // 2), id="nested escapes in the host"),
        pytest.param(b"http://" + b"." * LONG, id="dots"),
        pytest.param(b"http://" + b"a." * (LONG // 2), id="labels"),
        pytest.param(b"http://" + "ü".encode() * (LONG // 2), id="unicode"),
        pytest.param(b"http://" + "。ü".encode() * (LONG // 5), id="unicode labels"),
        pytest.param(b"http://" + b"1" * LONG, id="digits"),
        pytest.param(b"http://" + b"0" * LONG + b"8", id="octal digits"),
        pytest.param(b"http://" + b"@" * LONG + b"h", id="users"),
        pytest.param(b"http://" + b"[" * LONG + b"]" * LONG, id="brackets"),
        pytest.param(b"http://" + b":" * LONG, id="colons"),
        pytest.param(b"http://h" + b"/.." * LONG, id="dot segments"),
        pytest.param(b"http://h" + b"/" * LONG, id="slashes"),
        pytest.param(b"http://h" + b"\\..//" * LONG, id="backslashes"),
        pytest.param(b"http://h?" + b"?" * LONG, id="question marks"),
        pytest.param(b"a" * LONG + b":", id="a scheme"),
        pytest.param(b" " * LONG + b"\t" * LONG, id="white space"),
    ],
)
def test_an_attack_costs_linear_time(url: bytes) -> None:
    def work() -> None:
        try:
            request = request_of(url)
            found = canonical_forms(request, request.hosts[0])
        except UrlError:
            return
        for parts in found:
            expressions(parts)

    assert seconds(work) < 2
