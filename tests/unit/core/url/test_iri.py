"""IRIs: the preparation before they are compared, and the rungs."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.errors import UrlError
from hushlist.core.url.iri import SCHEME, SIMPLE, SYNTAX, normalize_own_syntax
from hushlist.core.url.parts import Parts
from hushlist.core.url.rfc3986 import split_generic
from hushlist.tools.reference.abnf import find_rule
from hushlist.tools.reference.iri_text import (
    convert_to_ucs,
    direction_faults,
    undo_base64,
    undo_chunked,
    undo_html_escapes,
    undo_xml_escapes,
)
from hushlist.tools.reference.specification_commands import Vector, vectors
from unit.hostile import octets, urls
from unit.rows import each_row

COMPOSED = "http://www.example.org/r\u00e9sum\u00e9.html"
DECOMPOSED = "http://www.example.org/re\u0301sume\u0301.html"

# -- 3: preparation ----------------------------------------------------------------------------------------------


@each_row("escape", ["&eacute;", "&#233;", "&#xE9;", "&#XE9;", "&#0233;", "&eacute", "&#233", "&#xe9"])
def test_html_escapes_are_undone(escape: str) -> None:
    """The draft's three examples, and what else HTML reads so."""
    assert undo_html_escapes("http://example.org/ros" + escape) == "http://example.org/rosé"


@pytest.mark.parametrize("escape", ["&#233;", "&#xE9;", "&#0233;"])
def test_xml_escapes_are_undone(escape: str) -> None:
    assert undo_xml_escapes("http://example.org/ros" + escape) == "http://example.org/rosé"


@each_row(
    ("text", "undone"),
    [
        ("?a&amp;b", "?a&b"),
        ("?a&amp;amp;b", "?a&amp;b"),
        # behind a name without ";", "=" and alphanumerics leave it as it stands
        ("?a=1&copy=2", "?a=1&copy=2"),
        ("?a=1&copyx", "?a=1&copyx"),
        ("?a=1&copyx;", "?a=1&copyx;"),
        ("?a=1&copy/", "?a=1©/"),
        ("?a=1&copy;=2", "?a=1©=2"),
        ("?a&b=c&&#&#x;", "?a&b=c&&#&#x;"),
        ("&#128;", "€"),
        ("&#0;&#xD800;&#x110000;&#99999999999;", "\ufffd" * 4),
    ],
)
def test_html_escapes_in_queries(text: str, undone: str) -> None:
    assert undo_html_escapes(text) == undone


@each_row(
    ("text", "undone"),
    [
        ("&amp;&lt;&gt;&quot;&apos;", "&<>\"'"),
        ("&amp;amp;", "&amp;"),
        ("&eacute;&copy&#233&#XE9;", "&eacute;&copy&#233&#XE9;"),
        ("&#x1F600;", "\U0001f600"),
    ],
)
def test_xml_escapes_are_those_of_xml_alone(text: str, undone: str) -> None:
    assert undo_xml_escapes(text) == undone


def test_text_in_another_encoding_is_converted_to_nfc() -> None:
    """4.2.2: "a direct transcoding from the windows-1258 character encoding leads to" a combining dot below."""
    octets_1258 = b"Vi\xea\xf2t Nam"
    assert octets_1258.decode("windows-1258") == "Vi\u00ea\u0323t Nam"
    assert convert_to_ucs(octets_1258, "windows-1258") == "Vi\u1ec7t Nam"


@each_row("encoding", ["utf-8", "UTF8", "utf-8-sig", "utf-16", "utf-16-le", "UTF-32", "utf-7"])
def test_text_already_in_unicode_is_not_normalized(encoding: str) -> None:
    """4.2.2: "IRIs already in Unicode MUST NOT be normalized before parsing or interpreting"."""
    assert convert_to_ucs(DECOMPOSED.encode(encoding), encoding) == DECOMPOSED


@each_row("encoding", ["no-such", "", "a\0b", "rot13"])
def test_unknown_encodings_are_refused(encoding: str) -> None:
    with pytest.raises(UrlError, match="no known character encoding"):
        convert_to_ucs(b"a", encoding)


def test_octets_that_are_no_text_are_refused() -> None:
    with pytest.raises(UrlError, match="no text in shift_jis"):
        convert_to_ucs(b"\xff\xff", "shift_jis")


@each_row("encoding", ["windows-1258", "viscii", "iso-8859-1", "shift_jis", "euc_kr", "mac_roman", "big5"])
def test_every_encoding_that_is_not_one_of_unicode_is_normalized(encoding: str) -> None:
    """4.2.2: "In these cases, NFC or a normalizing transcoder using NFC MUST be used for interoperability"."""
    if encoding == "viscii":
        with pytest.raises(UrlError, match="no known character encoding"):  # Python has none of it
            convert_to_ucs(b"a", encoding)
        return
    every = bytes(range(0x20, 0x100))
    text = convert_to_ucs(every.decode(encoding, "ignore").encode(encoding, "ignore"), encoding)
    assert text == unicodedata.normalize("NFC", text) != ""


@each_row(
    ("encoded", "text"),
    [
        (b"", b""),
        (b"aA==", b"h"),
        (b"a\r\nH R0\tcA==", b"http"),
        (b"*a-H_R0cA==", b"http"),  # "other characters not found in Table 1 must be ignored"
    ],
)
def test_base64_is_undone(encoded: bytes, text: bytes) -> None:
    """3: "Content Transfer Encodings in MIME"."""
    assert undo_base64(encoded) == text


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=5), st.sampled_from([b"", b";a", b' ; a="b"']))
def test_chunks_are_undone(chunks: list[bytes], extension: bytes) -> None:
    """3: "encodings such as Transfer Codings in HTTP"."""
    body = b"".join(b"%x%b\r\n%b\r\n" % (len(own), extension, own) for own in chunks) + b"0\r\nA: b\r\n\r\n"
    assert undo_chunked(body) == b"".join(chunks)


@each_row("body", [b"", b"x", b"5\r\nabc\r\n0\r\n\r\n", b"3\r\nabc\r\n", b"3\r\nabc", b"-1\r\n", b"fffffffff\r\na"])
def test_chunks_that_are_not_whole_are_refused(body: bytes) -> None:
    with pytest.raises(UrlError):
        undo_chunked(body)


# -- 4.1: simple -------------------------------------------------------------------------------------------------


@each_row("iri", ["http://rosé/ros%c3%a9", COMPOSED, DECOMPOSED, "http://xn--rsum-bpad.example.org"])
def test_a_simple_comparison_maps_nothing(iri: str) -> None:
    """4.1: "the comparison function MUST NOT map IRIs to URIs"."""
    assert SIMPLE.canonicalize(iri) == iri.encode()


@given(st.text(), st.text())
def test_texts_have_equal_octets_only_if_they_have_equal_characters(a: str, b: str) -> None:
    """4.1: "codepoint by codepoint after conversion to a common character encoding form"."""
    assert (SIMPLE.canonicalize(a) == SIMPLE.canonicalize(b)) == (a == b)


# -- 4.2, 4.3: syntax and scheme ---------------------------------------------------------------------------------


@each_row("vector", vectors("syntax", "draft-ietf"))
def test_syntax_rung(vector: Vector) -> None:
    assert SYNTAX.canonicalize(vector.url) == vector.canonical


@each_row("vector", vectors("scheme", "draft-ietf"))
def test_scheme_rung(vector: Vector) -> None:
    assert SCHEME.canonicalize(vector.url) == vector.canonical


@given(octets() | urls())
def test_a_normal_form_has_only_characters_of_a_uri(iri: bytes) -> None:
    scheme, *_ = split_generic(iri)
    for profile in (SYNTAX, SCHEME):
        normal = profile.canonicalize(iri)
        assert normal.isascii()
        assert not set(normal) & set(b' "<>\\^`{|}\x7f' + bytes(range(0x20)))
        assert split_generic(normal).scheme == (scheme and scheme.lower())


def test_arabic_digits_alone_have_a_label_follow_the_bidi_rule() -> None:
    iri = "http://www.ab\N{ARABIC-INDIC DIGIT ZERO}.example/"
    ((place, why),) = direction_faults(iri, find_rule("IRI").parse(iri))
    assert place == iri.index("ab")
    assert "RFC 5893" in why


def test_a_name_with_other_octets_than_those_of_us_ascii_stays_as_it_is() -> None:
    parts = Parts(b"hrn", None, b"c.example", None, b"/\xff")
    assert normalize_own_syntax(parts) == parts
