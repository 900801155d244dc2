"""Reference resolution, and the ladder's steps for URIs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.errors import UrlError
from hushlist.core.url.iri import SCHEME, SYNTAX
from hushlist.core.url.rfc3986 import remove_dot_segments, resolve, split_generic
from hushlist.tools.reference.specification_commands import Vector, vectors
from unit.hostile import octets, rfc3986_5_2_4, urls
from unit.rows import each_row

# -- 5.2, 5.4: resolution ----------------------------------------------------------------------------------------

BASE = "http://a/b/c/d;p?q"


@each_row(
    ("reference", "target"),
    [
        # 5.4.1, normal examples
        ("g:h", "g:h"),
        ("g", "http://a/b/c/g"),
        ("./g", "http://a/b/c/g"),
        ("g/", "http://a/b/c/g/"),
        ("/g", "http://a/g"),
        ("//g", "http://g"),
        ("?y", "http://a/b/c/d;p?y"),
        ("g?y", "http://a/b/c/g?y"),
        ("#s", "http://a/b/c/d;p?q#s"),
        ("g#s", "http://a/b/c/g#s"),
        ("g?y#s", "http://a/b/c/g?y#s"),
        (";x", "http://a/b/c/;x"),
        ("g;x", "http://a/b/c/g;x"),
        ("g;x?y#s", "http://a/b/c/g;x?y#s"),
        ("", "http://a/b/c/d;p?q"),
        (".", "http://a/b/c/"),
        ("./", "http://a/b/c/"),
        ("..", "http://a/b/"),
        ("../", "http://a/b/"),
        ("../g", "http://a/b/g"),
        ("../..", "http://a/"),
        ("../../", "http://a/"),
        ("../../g", "http://a/g"),
        # 5.4.2, abnormal examples
        ("../../../g", "http://a/g"),
        ("../../../../g", "http://a/g"),
        ("/./g", "http://a/g"),
        ("/../g", "http://a/g"),
        ("g.", "http://a/b/c/g."),
        (".g", "http://a/b/c/.g"),
        ("g..", "http://a/b/c/g.."),
        ("..g", "http://a/b/c/..g"),
        ("./../g", "http://a/b/g"),
        ("./g/.", "http://a/b/c/g/"),
        ("g/./h", "http://a/b/c/g/h"),
        ("g/../h", "http://a/b/c/h"),
        ("g;x=1/./y", "http://a/b/c/g;x=1/y"),
        ("g;x=1/../y", "http://a/b/c/y"),
        ("g?y/./x", "http://a/b/c/g?y/./x"),
        ("g?y/../x", "http://a/b/c/g?y/../x"),
        ("g#s/./x", "http://a/b/c/g#s/./x"),
        ("g#s/../x", "http://a/b/c/g#s/../x"),
        ("http:g", "http:g"),  # "for strict parsers"
    ],
)
def test_references_resolve_as_in_the_specification(reference: str, target: str) -> None:
    assert resolve(reference, BASE) == target.encode()


@each_row("base", ["", "a/b", "//h/p", "/p", "?q", "1a://h/"])
def test_a_relative_base_is_refused(base: str) -> None:
    with pytest.raises(UrlError, match="a base has a scheme"):
        resolve("g", base)


@given(st.lists(st.sampled_from([b"/", b".", b"..", b"a", b"bc", b"/..", b"/."]), max_size=12).map(b"".join))
def test_dot_segments_are_removed_as_the_specification_says_of_any_path(path: bytes) -> None:
    assert remove_dot_segments(path) == rfc3986_5_2_4(path)


@given(octets() | urls())
def test_splitting_loses_nothing(uri: bytes) -> None:
    assert split_generic(uri).join() == uri


# -- 6.2.2: the syntax rung --------------------------------------------------------------------------------------


@each_row("vector", vectors("syntax", "RFC 3986"))
def test_syntax_rung(vector: Vector) -> None:
    assert SYNTAX.canonicalize(vector.url) == vector.canonical


# -- 6.2.3: the scheme rung --------------------------------------------------------------------------------------


@each_row("vector", vectors("scheme", "RFC 3986"))
def test_scheme_rung(vector: Vector) -> None:
    assert SCHEME.canonicalize(vector.url) == vector.canonical


# -- all ---------------------------------------------------------------------------------------------------------
