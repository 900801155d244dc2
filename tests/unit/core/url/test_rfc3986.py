"""Reference resolution, and the ladder's steps for URIs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.errors import UrlError
from hushlist.core.url.iri import SCHEME, SIMPLE, SYNTAX
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


@each_row(
    ("reference", "base", "target"),
    [
        # 5.2.1: the base's fragment plays no part; 5.2.2: the reference's is the target's
        ("", "http://a/b?q#f", "http://a/b?q"),
        ("#", "http://a/b?q#f", "http://a/b?q#"),
        ("?", "http://a/b?q", "http://a/b?"),
        # 5.2.3: "If the base URI has a defined authority component and an empty path"
        ("g", "http://a", "http://a/g"),
        ("g", "http://a?q/r", "http://a/g"),
        ("../g", "http://a", "http://a/g"),
        # "excluding the entire base URI path if it does not contain any "/" characters"
        ("c", "mailto:a@b", "mailto:c"),
        ("../x", "s:a/b", "s:/x"),
        ("x", "s:", "s:x"),
        # whole authorities are taken over
        ("g", "http://u:p@h:8/x", "http://u:p@h:8/g"),
        ("//h:8/x/../y", "http://u@a/b", "http://h:8/y"),
        # nothing but dot segments is normalized; a scheme of the reference's own makes it absolute
        ("%7e/É", "HTTP://A/b", "HTTP://A/%7e/É"),
        ("s:/a/../b", BASE, "s:/b"),
        # 4.2: what cannot be a scheme is a segment
        ("./this:that", BASE, "http://a/b/c/this:that"),
        ("1:2", BASE, "http://a/b/c/1:2"),
    ],
)
def test_references_resolve_against_any_base(reference: str, base: str, target: str) -> None:
    assert resolve(reference, base) == target.encode()


@each_row("base", ["", "a/b", "//h/p", "/p", "?q", "1a://h/"])
def test_a_relative_base_is_refused(base: str) -> None:
    with pytest.raises(UrlError, match="a base has a scheme"):
        resolve("g", base)


@pytest.mark.parametrize(
    ("reference", "base", "target"),
    [("/a/..//b", "s:/x", b"s:/.//b"), ("..//b", "s:a/b", b"s:/.//b"), ("/a/..//b", "s://h", b"s://h//b")],
)
def test_no_target_is_misread_as_having_an_authority(reference: str, base: str, target: bytes) -> None:
    """Deviation from 5.3: it would recompose ``s://b``."""
    assert resolve(reference, base) == target
    assert split_generic(target).host == split_generic(base.encode()).host


@given(st.lists(st.sampled_from([b"/", b".", b"..", b"a", b"bc", b"/..", b"/."]), max_size=12).map(b"".join))
def test_dot_segments_are_removed_as_the_specification_says_of_any_path(path: bytes) -> None:
    assert remove_dot_segments(path) == rfc3986_5_2_4(path)


@given(octets() | urls())
def test_splitting_loses_nothing(uri: bytes) -> None:
    assert split_generic(uri).join() == uri


@pytest.mark.parametrize(
    ("uri", "user", "host", "port"),
    [
        (b"http://::1/", None, b"", b":1"),
        (b"//@1::2?//", b"", b"1", b":2"),
        (b"http://[::1]:80/", None, b"[::1]", b"80"),
    ],
)
def test_a_malformed_authority_is_not_repaired(uri: bytes, user: bytes | None, host: bytes, port: bytes | None) -> None:
    parts = split_generic(uri)
    assert (parts.userinfo, parts.host, parts.port) == (user, host, port)


# -- 6.2.2: the syntax rung --------------------------------------------------------------------------------------


@each_row("vector", vectors("syntax", "RFC 3986"))
def test_syntax_rung(vector: Vector) -> None:
    assert SYNTAX.canonicalize(vector.url) == vector.canonical


# -- 6.2.3: the scheme rung --------------------------------------------------------------------------------------


@each_row("vector", vectors("scheme", "RFC 3986"))
def test_scheme_rung(vector: Vector) -> None:
    assert SCHEME.canonicalize(vector.url) == vector.canonical


# -- all ---------------------------------------------------------------------------------------------------------

DENSE = st.lists(
    st.sampled_from([*b"%%%%0123456789ABCDEFabcdefxyz://?#@[].,~", *"éÉ。\u00ad".encode()]), max_size=30
).map(bytes)
SCHEMES = st.sampled_from([b"http:", b"http://", b"file://", b"mailto:", b"s:", b"s:/", b"//", b""])
REFERENCES = octets() | urls() | st.builds(bytes.__add__, SCHEMES, DENSE)


@pytest.mark.parametrize("profile", [SIMPLE, SYNTAX, SCHEME])
@given(uri=REFERENCES)
def test_every_profile_is_idempotent(profile, uri: bytes) -> None:
    normal = profile.canonicalize(uri)
    assert profile.canonicalize(normal) == normal
