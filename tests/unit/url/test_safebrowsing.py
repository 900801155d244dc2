"""The Safe Browsing profile."""

import re

import pytest
from hypothesis import example, given

from hushlist.errors import UrlError
from hushlist.match.expressions import expressions
from hushlist.url.request import canonical_forms, request_of
from hushlist.url.safebrowsing import SAFEBROWSING, canonicalize, parse
from unit.hostile import LONG, seconds, urls

# Safe Browsing v4, URLs and Hashing: every vector that it prints, in its order
PRINTED = [
    ("http://host/%25%32%35", "http://host/%25"),
    ("http://host/%25%32%35%25%32%35", "http://host/%25%25"),
    ("http://host/%2525252525252525", "http://host/%25"),
    ("http://host/asdf%25%32%35asd", "http://host/asdf%25asd"),
    ("http://host/%%%25%32%35asd%%", "http://host/%25%25%25asd%25%25"),
    ("http://www.google.com/", "http://www.google.com/"),
    (
        "http://%31%36%38%2e%31%38%38%2e%39%39%2e%32%36/%2E%73%65%63%75%72%65/%77%77%77%2E%65%62%61%79%2E%63%6F%6D/",
        "http://168.188.99.26/.secure/www.ebay.com/",
    ),
    (
        "http://195.127.0.11/uploads/%20%20%20%20/.verify/.eBaysecure=updateuserdataxplimnbqmn-xplmvalidateinfoswqpcmlx"
        "=hgplmcx/",
        "http://195.127.0.11/uploads/%20%20%20%20/.verify/.eBaysecure=updateuserdataxplimnbqmn-xplmvalidateinfoswqpcmlx"
        "=hgplmcx/",
    ),
    (
        "http://host%23.com/%257Ea%2521b%2540c%2523d%2524e%25f%255E00%252611%252A22%252833%252944_55%252B",
        "http://host%23.com/~a!b@c%23d$e%25f^00&11*22(33)44_55+",
    ),
    ("http://3279880203/blah", "http://195.127.0.11/blah"),
    ("http://www.google.com/blah/..", "http://www.google.com/"),
    ("www.google.com/", "http://www.google.com/"),
    ("www.google.com", "http://www.google.com/"),
    ("http://www.evil.com/blah#frag", "http://www.evil.com/blah"),
    ("http://www.GOOgle.com/", "http://www.google.com/"),
    ("http://www.google.com.../", "http://www.google.com/"),
    ("http://www.google.com/foo\tbar\rbaz\n2", "http://www.google.com/foobarbaz2"),
    ("http://www.google.com/q?", "http://www.google.com/q?"),
    ("http://www.google.com/q?r?", "http://www.google.com/q?r?"),
    ("http://www.google.com/q?r?s", "http://www.google.com/q?r?s"),
    ("http://evil.com/foo#bar#baz", "http://evil.com/foo"),
    ("http://evil.com/foo;", "http://evil.com/foo;"),
    ("http://evil.com/foo?bar;", "http://evil.com/foo?bar;"),
    (b"http://\x01\x80.com/", "http://%01%80.com/"),
    ("http://notrailingslash.com", "http://notrailingslash.com/"),
    ("http://www.gotaport.com:1234/", "http://www.gotaport.com/"),
    ("  http://www.google.com/  ", "http://www.google.com/"),
    ("http:// leadingspace.com/", "http://%20leadingspace.com/"),
    ("http://%20leadingspace.com/", "http://%20leadingspace.com/"),
    ("%20leadingspace.com/", "http://%20leadingspace.com/"),
    ("https://www.securesite.com/", "https://www.securesite.com/"),
    ("http://host.com/ab%23cd", "http://host.com/ab%23cd"),
    ("http://host.com//twoslashes?more//slashes", "http://host.com/twoslashes?more//slashes"),
]


@pytest.mark.parametrize(("url", "canonical"), PRINTED)
def test_the_specification_s_own_vectors_hold(url: str | bytes, canonical: str) -> None:
    assert canonicalize(url) == canonical.encode()


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        # reading 1 of addon/README.md: text is UTF-8
        ("http://h/\x80", "http://h/%C2%80"),
        (b"http://h/\x80", "http://h/%80"),
        # 3: port, user and password are dropped, an empty query is kept
        ("http://me:pw@h:8080/?", "http://h/?"),
        # 4: escapes in upper case
        ("http://h/%c3%bc%1b", "http://h/%C3%BC%1B"),
        # 6: addresses
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://276.2.3/", "http://276.2.3/"),
        ("http://1.2.3.4./", "http://1.2.3.4/"),
        ("http://[::FFFF:1.2.3.4]:80/", "http://1.2.3.4/"),
        ("http://[2001:0db8::0001]", "http://[2001:db8::1]/"),
        ("http://%5b::1%5D/", "http://[::1]/"),
        ("http://１２７.１/", "http://127.0.0.1/"),
        # 7: internationalized names
        ("http://BÜCHER.example/", "http://xn--bcher-kva.example/"),
        ("http://b%C3%BCcher.example/", "http://xn--bcher-kva.example/"),
        ("http://b%25C3%25BCcher.example/", "http://xn--bcher-kva.example/"),
        ("http://a\ufffdB.example/", "http://a%EF%BF%BDb.example/"),
        # 8: dots
        ("http://a。b．c｡example/", "http://a.b.c.example/"),
        ("http://a%E3%80%82example/", "http://a.example/"),
        # the host is the one that a browser would ask
        ("http://good%2F@bad/", "http://bad/"),
        ("http://bad%2F@good/", "http://good/"),
        ("http://good\\@bad/", "http://good/\\@bad/"),
        ("http://bad%00.example/", "http://bad%00.example/"),
        ("http%3A%2F%2Fh%2Fx/", "http://h/x/"),
        ("HTTP://H/P", "http://h/P"),
        ("\x00\x1f http://h/ \x0b", "http://h/"),
        ("http://h/a%3Fb/../c", "http://h/a?b/../c"),
        ("http://h/a%2F..%2Fb", "http://h/b"),
        ("http://h/a/%2e%2E/b", "http://h/b"),
        ("http://h//a/..//b", "http://h/b"),
        ("http://h/a?/../b//c", "http://h/a?/../b//c"),
        ("ht\ntp://h\t/", "http://h/"),
    ],
)
def test_settled_readings_hold(url: str | bytes, canonical: str) -> None:
    assert canonicalize(url) == canonical.encode()


@pytest.mark.parametrize("url", ["", ".", "http://.../", "http://\u00ad/", "http://%2F/", "http://%40/", "a%3ab%2f"])
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
