"""What a rule fits, from its text."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hushlist.core.errors import UrlError
from hushlist.core.lists.patterns import (
    canonicalize_expression,
    parse_address_range,
    parse_expression,
    parse_expression_hash,
    parse_written_expression,
    plain_expression,
    plain_name,
)
from unit.rows import each_row


@each_row(
    ("text", "expression"),
    [
        ("ads.example", "ads.example/"),
        ("ads.example/", "ads.example/"),
        ("video.example/live/", "video.example/live/"),
        ("video.example/live", "video.example/live"),
        ("https://me:pw@Ads.Example:443/a/../b/%2561?q#f", "ads.example/b/a?q"),
        ("//ads.example", "ads.example/"),
        ("ads.example:8080/x", "ads.example/x"),
        ("a.example/q?", "a.example/q"),
        ("BÜCHER.example", "xn--bcher-kva.example/"),
        ("0x7f.1/x", "127.0.0.1/x"),
        ("::ffff:1.2.3.4", "1.2.3.4/"),
        ("[::1]:80/x", "[::1]/x"),
        (" ads.example\t", "ads.example/"),
        (".ads.example", "ads.example/"),
        ("a.b.c.d.e.f.g.h/1/2/3/4/5/6", "a.b.c.d.e.f.g.h/1/2/3/4/5/6"),
        ("a.example/ü", "a.example/%C3%BC"),
    ],
)
def test_an_expression_is_canonicalized_as_live_traffic_is(text: str, expression: str) -> None:
    assert str(parse_expression(text)) == expression


@each_row(
    ("text", "reason"),
    [
        ("", "it names no host"),
        ("...", "it names no host"),
        ("/live/", "it names no host"),
        ("http://", "it names no host"),
        ("mailto:me@ads.example", "it names no host"),
        ("wss:/ads.example/", "expected '//' behind the scheme"),
        ("*.ads.example", "'*' is no wildcard here; a rule fits its host, all hosts below it, and all paths below it"),
        (
            "%2A.ads.example",
            "'*' is no wildcard here; a rule fits its host, all hosts below it, and all paths below it",
        ),
        ("ads.example other.example", "there is white space in it"),
        ("ads.example/a b", "there is white space in it"),
        ("ads\texample", "there is white space in it"),
        ("ads\u00a0.example/", "there is white space in it"),
        ("ads.example" + 65 * "/a", "its path has more than 64 names: block a folder above"),
        ("ads.example" + 65 * "/%61" + "/", "its path has more than 64 names: block a folder above"),
    ],
)
def test_an_expression_that_no_request_has_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UrlError) as caught:
        parse_expression(text)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("text", "line"),
    [("*.wikipedia.org", "wikipedia.org"), ("a.example/x/*", "a.example/x/"), ("*.a.example/*", "a.example/")],
)
def test_a_wildcard_is_refused_with_the_line_to_write(text: str, line: str) -> None:
    with pytest.raises(UrlError) as caught:
        parse_written_expression(text)
    assert caught.value.reason.endswith(f"all paths below it: write '{line}'")


LABELS = (
    "a",
    "www",
    "co",
    "uk",
    "xn--bcher-kva",
    "a_b",
    "-a-",
    "127",
    "1",
    "0",
    "255",
    "256",
    "01",
    "0x7f",
    "0xg",
    "8a",
)
HOSTILE = (
    *LABELS,
    *(
        "A",
        "ü",
        "ſ",
        "\u3002",
        "\u0130",
        ".",
        "..",
        ".",
        "/",
        "/",
        "//",
        "/.",
        "/..",
        "x.html",
        "~x",
        "%61",
        "%2e",
        "%",
    ),
    *("?", "q=1", "#", "\\", "*", "*.", ";", "|", "^", " ", "\t", "\n", "\r", "\x00", "\x7f", "\x85", "@", ":", ":80"),
    *("http://", "https://", "HTTP://", "http:", "//", "wss:/", "mailto:", "[::1]", "::1", "x" * 300),
)


def likely() -> st.SearchStrategy[str]:
    """Texts that are, or nearly are, a host with a path."""
    names = st.lists(st.sampled_from(LABELS), min_size=1, max_size=5).map(".".join)
    numbers = st.lists(st.sampled_from(("0", "7", "07", "00", "99", "255", "256", "1000")), min_size=4, max_size=4)
    hosts = names | numbers.map(".".join)
    paths = st.lists(st.text(st.sampled_from("aZ0.~-_!$&'()+,:=@|;*"), max_size=4), max_size=4).map("/".join)
    return st.tuples(st.sampled_from(("", "", "http://", "https://")), hosts, st.sampled_from(("", "/")), paths).map(
        "".join
    )


@given(text=likely() | st.lists(st.sampled_from(HOSTILE), max_size=8).map("".join) | st.text(max_size=20))
@example("123")
@example("127.1")
@example("0x7f.1")
@example("a.example.")
@example("256.1.1.1")
@example("1.2.3.4/x")
@example("1.2.3.08")
@example("01.2.3.4/x")
@example("a.example/x\n")
def test_what_is_taken_as_it_stands_is_what_canonicalization_makes_of_it(text: str) -> None:
    for plain in (plain_expression(text), plain_name(text)):
        assert plain is None or plain == canonicalize_expression(text)


@each_row("text", ["ba7816bf", "BA7816BF", "ba7816bf8f", "0" * 62, "0" * 64])
def test_a_hash_is_4_to_32_octets_in_hexadecimal(text: str) -> None:
    assert parse_expression_hash(text).value == bytes.fromhex(text)


@each_row(
    ("text", "reason"),
    [
        ("10.0.0.1/8", "10.0.0.1/8 has host bits set"),
        ("010.0.0.0/8", "does not appear to be an IPv4 or IPv6 network"),
        ("10.0.0.0/33", "does not appear to be an IPv4 or IPv6 network"),
        ("ads.example", "does not appear to be an IPv4 or IPv6 network"),
        ("", "does not appear to be an IPv4 or IPv6 network"),
        ("::ffff:10.0.0.0/104", "write the range as IPv4"),
        ("::ffff:0:0/96", "write the range as IPv4"),
        # they too are compared as IPv4, so that such a rule could never fit anything
        ("64:ff9b::/96", "write the range as IPv4"),
        ("64:ff9b::10.0.0.0/104", "write the range as IPv4"),
    ],
)
def test_a_range_that_no_address_is_in_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_address_range(text)
