"""What a rule fits, from its text."""

import pytest

from hushlist.errors import UrlError
from hushlist.lists.patterns import parse_address_range, parse_expression, parse_expression_hash


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
    ],
)
def test_an_expression_that_no_request_has_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UrlError) as caught:
        parse_expression(text)
    assert caught.value.reason == reason


@pytest.mark.parametrize("text", ["ba7816bf", "BA7816BF", "ba7816bf8f", "0" * 62, "0" * 64])
def test_a_hash_is_4_to_32_octets_in_hexadecimal(text: str) -> None:
    assert parse_expression_hash(text).value == bytes.fromhex(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ba7816", "expected 8 to 64 hexadecimal digits, not 6"),
        ("0" * 66, "expected 8 to 64 hexadecimal digits, not 66"),
        ("ba7816b", "expected pairs of hexadecimal digits"),
        ("ba7816bg", "expected pairs of hexadecimal digits"),
        ("ba 78 16 bf", "expected pairs of hexadecimal digits"),
        ("0xba7816bf", "expected pairs of hexadecimal digits"),
        ("ba7816bf\n", "expected pairs of hexadecimal digits"),
        ("１２３４５６７８", "expected pairs of hexadecimal digits"),
        ("", "expected pairs of hexadecimal digits"),
    ],
)
def test_nothing_else_is_a_hash(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_expression_hash(text)


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("10.0.0.0/255.0.0.0", "10.0.0.0/8"),
        ("10.1.2.3", "10.1.2.3/32"),
        ("2001:DB8::/32", "2001:db8::/32"),
        ("::1", "::1/128"),
        ("::/0", "::/0"),
    ],
)
def test_an_address_range_is_in_cidr_notation(text: str, network: str) -> None:
    assert str(parse_address_range(text)) == network


@pytest.mark.parametrize(
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
