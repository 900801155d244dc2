"""Hashed URIs: the grammar, section 4.4, Appendix A."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.errors import UrlError
from hushlist.url.hashed_uri import (
    ALGORITHMS,
    HASHED_N,
    HASHED_P,
    VARIANTS,
    HashedUri,
    HashKey,
    UnknownAlgorithmError,
    hash_uri,
    hashed_string,
    matching_strings,
    parse_hashed_uri,
)
from hushlist.url.parts import split_generic
from unit.hostile import octets, urls

MD5 = HashKey("md5", "n", query=False, fragment=False)
SHA1 = HashKey("sha1", "n", query=False, fragment=False)
THUS_MD5 = "be96302a0468481aca954431cf293e05"
THUS_SHA1 = "87ed28009f511ed7ef630180a229ba257180a481"


@pytest.mark.parametrize(
    ("url", "key", "expected"),
    [
        # draft-feather-hashed-uri-03, 4.4
        ("mailto:clive@demon.net", MD5, "hashed:md5=cd933f3b87ee60e58917448c9678ee32"),
        ("http://www.thus.net", MD5, f"hashed:md5={THUS_MD5}"),
        ("http://www.thus.net", SHA1, f"hashed:sha1={THUS_SHA1}"),
        ("http://www.thus.net#end", SHA1, f"hashed:sha1={THUS_SHA1}"),
        (
            "http://www.thus.net#end",
            SHA1._replace(fragment=True),
            "hashed:sha1=31a79a96e0404778a3b95cb426b04b6114a604a5+frag",
        ),
        ("HTTP://www.Thus.net", MD5, f"hashed:md5={THUS_MD5}"),
        ("http://10.20.30.40/a%62c", MD5, "hashed:md5=754a2c63a13aa2e8153d027066e31f8f"),
        # a flag stands for a component that is there
        ("http://www.thus.net", SHA1._replace(fragment=True, query=True), f"hashed:sha1={THUS_SHA1}"),
    ],
)
def test_the_draft_s_examples_are_generated(url: str, key: HashKey, expected: str) -> None:
    assert str(hash_uri(url, key)) == expected


@pytest.mark.parametrize(
    ("url", "n", "p"),
    [
        # Appendix A
        (
            "http://Fred@WWW.Thus.net:0112/Test/index.html",
            "http://Fred@www.thus.net:112/Test/",
            "http://fred@www.thus.net:112/test/",
        ),
        (
            "http://111.011.101.001/test//Image.jpeg",
            "http://111.11.101.1/test//Image.jpeg",
            "http://111.11.101.1/test/image.jpg",
        ),
        # (3) default ports
        ("http://h:80/", "http://h/", "http://h"),
        ("https://h:0443/x", "https://h/x", "https://h/x"),
        ("http://h:443/x", "http://h:443/x", "http://h:443/x"),
        ("http://h:/x", "http://h/x", "http://h/x"),
        ("x://h:080/x", "x://h:80/x", "x://h:80/x"),
        # (5) zeroes
        ("http://000.0.0.000/x", "http://0.0.0.0/x", "http://0.0.0.0/x"),
        ("http://[2001:0db8:0::01]/x", "http://[2001:db8::1]/x", "http://[2001:db8::1]/x"),
        # (7) endings, only of the last segment
        ("http://h/a.html/B.TEXT", "http://h/a.html/B.TEXT", "http://h/a.html/b.txt"),
        ("http://h/a.ram", "http://h/a.ram", "http://h/a.ra"),
        # (8) "http" only
        ("http://h/index.htm", "http://h/", "http://h/"),
        ("https://h/index.html", "https://h/index.html", "https://h/index.htm"),
        ("http://h/myindex.html", "http://h/myindex.html", "http://h/myindex.htm"),
        ("http://h/Index.html", "http://h/Index.html", "http://h/"),
        # (9) empty user
        ("http://@h/x", "http://h/x", "http://h/x"),
        # 4.3 (2)
        ("HTTP://h/%7Eme/%2f", "http://h/~me/%2F", "http://h/~me/%2f"),
        ("ftp://h/%7Eme", "ftp://h/%7Eme", "ftp://h/%7eme"),
        ("http://h/a/../b/./c", "http://h/b/c", "http://h/b/c"),
        ("MAILTO:Me@H/../X.html", "mailto:Me@H/../X.html", "mailto:Me@H/../X.html"),
    ],
)
def test_the_variants_of_appendix_a(url: str, n: str, p: str) -> None:
    assert HASHED_N.canonicalize(url) == n.encode()
    assert HASHED_P.canonicalize(url) == p.encode()


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (f"hashed:sha1={THUS_SHA1}", SHA1),
        (f"HASHED:SHA1={THUS_SHA1.upper()}+FRAG", SHA1._replace(fragment=True)),
        (f"hashed:sha1={THUS_SHA1}+query+frag", SHA1._replace(query=True, fragment=True)),
        (f"hashed:sha1={THUS_SHA1}+frag+frag", SHA1._replace(fragment=True)),
        (f"hashed:md5={THUS_MD5}", MD5),
        (f"hashed:x-sha256={'ab' * 32}", HashKey("x-sha256", "n", query=False, fragment=False)),
    ],
)
def test_the_grammar_is_read_without_regard_to_case(text: str, key: HashKey) -> None:
    uri = parse_hashed_uri(text)
    assert uri.key == key
    assert uri.digest.hex() in text.lower()


@pytest.mark.parametrize(
    ("text", "reason", "position"),
    [
        ("", "a hashed URI begins with 'hashed:'", 0),
        ("hash:sha1=00", "a hashed URI begins with 'hashed:'", 0),
        (" hashed:sha1=00", "a hashed URI begins with 'hashed:'", 0),
        ("hashed:", "expected the name of a hash algorithm", 7),
        ("hashed:=00", "expected the name of a hash algorithm", 7),
        ("hashed:sha1", "expected '=' behind the name of the algorithm", 11),
        ("hashed:sha_1=00", "expected '=' behind the name of the algorithm", 10),
        ("hashed:sha1=", "expected hexadecimal digits", 12),
        ("hashed:sha1=+frag", "expected hexadecimal digits", 12),
        ("hashed:sha1=00g", "expected '+frag', '+query' or the end", 14),
        ("hashed:sha1=00+", "expected '+frag', '+query' or the end", 14),
        ("hashed:sha1=00+fragment", "expected '+frag', '+query' or the end", 14),
        ("hashed:sha1=00+frag ", "expected '+frag', '+query' or the end", 19),
        ("hashed:sha1=00+frag+frags", "expected '+frag', '+query' or the end", 19),
        ("hashed:sha1=00", "sha1 has 40 hexadecimal digits, not 2", 14),
        ("hashed:md5=" + "0" * 33, "md5 has 32 hexadecimal digits, not 33", 44),
        ("hashed:x-sha256=" + "0" * 40, "x-sha256 has 64 hexadecimal digits, not 40", 56),
        ("hashed:ſha1=00", "expected the name of a hash algorithm", 7),  # lower case must not make it an s
        ("hashed:sha1=\uff10", "expected hexadecimal digits", 12),
    ],
)
def test_a_fault_in_the_grammar_is_placed(text: str, reason: str, position: int) -> None:
    with pytest.raises(UrlError) as caught:
        parse_hashed_uri(text)
    assert (caught.value.reason, caught.value.position) == (reason, position)
    assert not isinstance(caught.value, UnknownAlgorithmError)


@pytest.mark.parametrize("name", ["sha256", "x-sha512", "sha-1", "..."])
def test_an_unknown_algorithm_is_told_from_a_broken_uri(name: str) -> None:
    with pytest.raises(UnknownAlgorithmError) as caught:
        parse_hashed_uri(f"hashed:{name}=0")
    assert caught.value.reason == f"unknown algorithm {name!r} (known: md5, sha1, x-sha256)"


@given(st.sampled_from(sorted(ALGORITHMS)), st.sampled_from(sorted(VARIANTS)), st.booleans(), st.booleans(), st.data())
def test_what_is_written_is_read_again(
    name: str, variant: str, query: bool, fragment: bool, data: st.DataObject
) -> None:
    size = len(ALGORITHMS[name](b""))
    digest = data.draw(st.binary(min_size=size, max_size=size))
    uri = HashedUri(HashKey(name, variant, query, fragment), digest)
    assert parse_hashed_uri(str(uri), variant) == uri


@given(st.text(max_size=30).map("hashed:".__add__) | st.text(max_size=10))
def test_any_text_is_a_hashed_uri_or_our_error(text: str) -> None:
    with pytest.raises(UrlError):
        parse_hashed_uri(text)


@given(octets() | urls(), st.sampled_from(sorted(VARIANTS)), st.booleans(), st.booleans())
def test_any_absolute_uri_can_be_hashed(uri: bytes, variant: str, query: bool, fragment: bool) -> None:
    hashed = hash_uri(b"X:" + uri, HashKey("x-sha256", variant, query, fragment))
    assert len(hashed.digest) == 32


@pytest.mark.parametrize("uri", ["", "www.thus.net", "/p", "//h/p", "1:x"])
def test_a_relative_uri_is_refused(uri: str) -> None:
    with pytest.raises(UrlError, match="it has no scheme"):
        hash_uri(uri, SHA1)


def test_flags_keep_their_components() -> None:
    parts = split_generic(b"http://h/p?q#f")
    strings = [hashed_string(parts, SHA1._replace(query=q, fragment=f)) for q in (False, True) for f in (False, True)]
    assert strings == [b"http://h/p", b"http://h/p#f", b"http://h/p?q", b"http://h/p?q#f"]


@pytest.mark.parametrize(
    ("uri", "key", "expected"),
    [
        (b"http://h/", SHA1, {b"http://h", b"http://h/"}),
        (b"http://h", SHA1, {b"http://h", b"http://h/"}),
        (b"http://h/p?q", SHA1, {b"http://h/p"}),
        (b"http://h/p?q", SHA1._replace(query=True), {b"http://h/p?q"}),
        (b"http://h/p", SHA1._replace(query=True), set()),
        (b"http://h/p?q", SHA1._replace(fragment=True), set()),
        (b"http://h/?", SHA1._replace(query=True), {b"http://h/?", b"http://h?"}),
    ],
)
def test_a_request_is_compared_with_what_a_publisher_may_have_hashed(
    uri: bytes, key: HashKey, expected: set[bytes]
) -> None:
    assert set(matching_strings(split_generic(uri), key)) == expected


def test_the_private_algorithm_is_sha_256() -> None:
    assert ALGORITHMS["x-sha256"](b"abc") == hashlib.sha256(b"abc").digest()
