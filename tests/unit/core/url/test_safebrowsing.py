"""The Safe Browsing profile."""

from hypothesis import given

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


@given(urls())
def test_the_canonical_url_has_the_expressions_of_the_raw_one(url: bytes) -> None:
    try:
        parts = SAFEBROWSING.apply(parse(url))
    except UrlError:
        return
    assert expressions(SAFEBROWSING.apply(parse(parts.join()))) == expressions(parts)
