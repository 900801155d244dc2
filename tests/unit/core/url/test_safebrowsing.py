"""The Safe Browsing profile."""

import re

import pytest
from hypothesis import example, given

from hushlist.core.errors import UrlError
from hushlist.core.match.expressions import expressions
from hushlist.core.url.safebrowsing import SAFEBROWSING, canonicalize, parse
from hushlist.tools.reference.specification_commands import Vector, vectors
from unit.hostile import urls
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
