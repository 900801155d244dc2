"""Hashed URIs: the grammar, section 4.4, Appendix A."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.errors import UrlError
from hushlist.core.url.hashed_uri import (
    ALGORITHMS,
    HASHED_N,
    HASHED_P,
    VARIANTS,
    HashedUri,
    HashKey,
    StringMemo,
    Target,
    UnknownAlgorithmError,
    hash_uri,
    hashed_string,
    matching_strings,
    parse_hashed_uri,
    plan_strings,
    web_origin,
    web_strings,
)
from hushlist.core.url.host import is_plain_name
from hushlist.core.url.parts import Parts, split_generic
from hushlist.tools.reference.specification_commands import Vector, vectors
from unit.core.match.plain_index import KEYS, plain_strings
from unit.hostile import octets, urls
from unit.rows import each_row

MD5 = HashKey("md5", "n", query=False, fragment=False)
SHA1 = HashKey("sha1", "n", query=False, fragment=False)
THUS_MD5 = "be96302a0468481aca954431cf293e05"
THUS_SHA1 = "87ed28009f511ed7ef630180a229ba257180a481"


@each_row(
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


@each_row("vector", [*vectors("hashed-n"), *vectors("hashed-p")])
def test_the_variants_of_appendix_a(vector: Vector) -> None:
    profile = {"hashed-n": HASHED_N, "hashed-p": HASHED_P}[vector.profile]
    assert profile.canonicalize(vector.url) == vector.canonical


#: schemes that say nothing of how their URIs are made canonical
_SILENT = st.sampled_from([b"s", b"FTP", b"file", b"x-y", b"mailto"])


@given(
    _SILENT,
    st.from_regex(rb"(?://[a-z0-9.]*)?(?:/[A-Za-z0-9%.]*){0,4}", fullmatch=True),
    st.sampled_from([b"", b"?a%2fb"]),
)
def test_variant_n_changes_scheme_and_host_alone_where_the_scheme_says_nothing(
    scheme: bytes, rest: bytes, query: bytes
) -> None:
    """4.3 (2): "any other changes depend on the specific scheme used"."""
    given_parts = split_generic(scheme + b":" + rest + query)
    made = HASHED_N.apply(given_parts)
    assert made.scheme == scheme.lower()
    assert (made.path.removeprefix(b"/.") if made.host is None else made.path, made.query) == (
        given_parts.path.removeprefix(b"/.") if made.host is None else given_parts.path,
        given_parts.query,
    )


@given(
    st.one_of(
        octets(),
        urls(),
        st.lists(
            st.sampled_from(
                [
                    *(b"http://h", b"file:", b"s:", b"HTTP:", b"/", b"//", b"/.", b"/..", b"/a", b".html", b".ram"),
                    *(
                        b"/index.htm",
                        b"/index.html",
                        b"/INDEX.jpeg",
                        b"%2e",
                        b"%2F",
                        b"%c3%bc",
                        b":080",
                        b"@",
                        b"[::0]",
                    ),
                ]
            ),
            max_size=8,
        ).map(b"".join),
    ).map(lambda text: text if b":" in text else b"http:" + text)
)
def test_the_canonical_form_is_its_own(uri: bytes) -> None:
    """A: "canonicalizing": what is canonical stays, in either variant."""
    for profile in (HASHED_N, HASHED_P):
        once = profile.canonicalize(uri)
        assert profile.canonicalize(once) == once


@each_row(
    ("uri", "other"),
    [
        ("http://h/test/", "http://h/test"),  # by the letter of (6)
        ("http://h/test/", "http://h/test/index.html"),  # by the example of (8)
        ("http://h/test", "http://h/test//"),
        ("http://h", "http://h/INDEX.HTM"),
    ],
)
def test_what_variant_p_takes_for_the_same_has_a_string_in_common(uri: str, other: str) -> None:
    key = SHA1._replace(variant="p")
    for a, b in ((uri, other), (other, uri)):
        (strings,) = matching_strings([split_generic(a.encode())], [key.kind])
        assert hashed_string(split_generic(b.encode()), key) in strings


def test_variant_p_tells_a_hidden_folder_from_another() -> None:
    """A (6): "all empty path_segments are removed", and no other."""
    assert HASHED_P.canonicalize("file:/.ssh/id") != HASHED_P.canonicalize("file:/ssh/id")


@each_row(
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


@each_row(
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


@each_row(
    ("name", "kind"),
    [
        *(("sha256", "algorithm"), ("sha-1", "algorithm"), ("...", "algorithm"), ("x-sha512", "private identifier")),
    ],
)
def test_an_unknown_algorithm_is_told_from_a_broken_uri(name: str, kind: str) -> None:
    with pytest.raises(UnknownAlgorithmError) as caught:
        parse_hashed_uri(f"hashed:{name}=0")
    assert caught.value.reason == f"unknown {kind} {name!r} (known: md5, sha1, x-sha256)"


@given(st.sampled_from(sorted(ALGORITHMS)), st.sampled_from(sorted(VARIANTS)), st.booleans(), st.booleans(), st.data())
def test_what_is_written_is_read_again(
    name: str, variant: str, query: bool, fragment: bool, data: st.DataObject
) -> None:
    size = len(ALGORITHMS[name](b""))
    digest = data.draw(st.binary(min_size=size, max_size=size))
    uri = HashedUri(HashKey(name, variant, query, fragment), digest)
    assert parse_hashed_uri(str(uri), variant) == uri


@each_row("uri", ["", "www.thus.net", "/p", "//h/p", "1:x"])
def test_a_relative_uri_is_refused(uri: str) -> None:
    with pytest.raises(UrlError, match="it has no scheme"):
        hash_uri(uri, SHA1)


def test_flags_keep_their_components() -> None:
    parts = split_generic(b"http://h/p?q#f")
    strings = [hashed_string(parts, SHA1._replace(query=q, fragment=f)) for q in (False, True) for f in (False, True)]
    assert strings == [b"http://h/p", b"http://h/p#f", b"http://h/p?q", b"http://h/p?q#f"]


@each_row(
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
    (strings,) = matching_strings([split_generic(uri)], [key.kind])
    assert len(strings) == len(expected)
    assert set(strings) == expected


_PATHS = (
    *(b"", b"/", b"//", b"/.", b"/..", b"a", b"/a", b"/A", b"/a/", b"/a//", b"/a/../b", b"/.a", b"*", b"a:b", b"/a:b"),
    *(b"/index.html", b"/index.htm", b"/INDEX.HTM", b"/a/index.html", b"index.html", b"/xindex.htm", b"/a.html/"),
    *(b"/a.HTML", b"/a.html", b"/.jpeg", b"/a.ram", b".text", b"/a.html.text", b"/%", b"/%2e/", b"/%41", b"/%c3%a9"),
    *(b"/a?b", b"/a#b", b'/"', b"/a|b", b"/a;b=c", b"/\xff", b"/~a", b"/a/b.jpeg", b"/a%2Fb", b"/a b"),
)
_HOSTS = (
    *(
        None,
        b"",
        b"h",
        b"H",
        b"a.example",
        b"a.EXAMPLE",
        b"a-b_c.example",
        b"a.example.",
        b".a",
        b"a..b",
        b"a.1",
        b"1.a",
    ),
    *(b"1.2.3.4", b"01.2.3.4", b"1.2", b"0x7f.1", b"[::1]", b"[0:0::1]", b"::1", b"[::ffff:1.2.3.4]", b"[", b"b%61c.d"),
    *("b\u00fccher.example".encode(), b"xn--bcher-kva.example", b"b%c3%bccher.d", b"a b", b"a/b", b"a@b", b"a:b", b"*"),
)
_ENDS = (
    None,
    b"",
    b"q",
    b"Q=1&b",
    b"%",
    b"%41",
    b"%2f",
    b"%2F",
    b"%%34%31",
    b"a b",
    b"\xc3\xa9",
    b"/../?#",
    b'"%7e',
    b"+",
)


def any_parts() -> st.SearchStrategy[Parts]:
    """Parts of URIs, most of them nearly canonical, some of them none that a reader of URLs gives."""
    paths = st.sampled_from(_PATHS)
    ends = st.sampled_from(_ENDS) | octets()
    return st.builds(
        Parts,
        st.sampled_from([b"http", b"http", b"https", b"https", b"HTTP", b"ftp", b"mailto", b"file", b"", None]),
        st.sampled_from([None, None, None, None, b"", b"me", b"M%65:%2f"]),
        st.sampled_from(_HOSTS) | st.sampled_from([b"h", b"a.example"]) | octets(),
        st.sampled_from([None, b"80", b"443", b"", b"0", b"080", b"8080", b"00", b"08080", b"x", b"-1", b"21", b"+80"]),
        paths | st.builds(bytes.__add__, paths, paths) | octets() | octets().map(b"/".__add__),
        ends,
        st.none() | ends,
    )


ONE_URI = st.builds(
    lambda parts, query: [parts, parts._replace(query=query)] if query else [parts],
    any_parts() | urls().map(split_generic),
    st.sampled_from([*_ENDS, None, None]),
)


@given(ONE_URI | st.lists(any_parts(), max_size=3), st.lists(st.sampled_from(KEYS), max_size=8, unique=True))
def test_the_quick_way_gives_the_strings_that_all_steps_give(uris: list[Parts], keys: list[HashKey]) -> None:
    expected = [list(dict.fromkeys(string for uri in uris for string in plain_strings(uri, key))) for key in keys]
    memo: StringMemo = {}
    matching_strings([uri._replace(host=b"other.example") for uri in uris], [key.kind for key in KEYS], memo)
    for known in (None, memo):
        found = matching_strings(uris, [key.kind for key in keys], known)
        assert [sorted(own) for own in found] == [sorted(own) for own in expected]


_WEB_PATHS = st.sampled_from(_PATHS) | urls().map(lambda url: split_generic(url).path) | octets()


@given(
    st.sampled_from([b"http", b"https"]),
    st.sampled_from([host for host in _HOSTS if host and is_plain_name(host)]),
    st.sampled_from([0, 1, 8, 80, 443, 8080, 65535]),
    st.lists(
        st.tuples(
            (_WEB_PATHS | st.builds(bytes.__add__, _WEB_PATHS, _WEB_PATHS)).map(b"/".__add__) | st.just(b""),
            st.none() | st.sampled_from(_ENDS).map(lambda end: end or b"") | octets(),
        ),
        min_size=1,
        max_size=3,
    ),
    st.lists(st.sampled_from(KEYS), max_size=8, unique=True),
)
def test_the_strings_of_the_web_are_those_of_any_uri(
    scheme: bytes, name: bytes, port: int, targets: list[Target], keys: list[HashKey]
) -> None:
    uris = [Parts(scheme, None, name, b"%d" % port, *target) for target in targets]
    expected = [{string for uri in uris for string in plain_strings(uri, key)} for key in keys]
    kinds = list(dict.fromkeys(key.kind for key in keys))
    found = web_strings(web_origin(scheme, name, port), scheme, targets, plan_strings(kinds), len(kinds))
    assert [sorted(found[kinds.index(key.kind)]) for key in keys] == [sorted(own) for own in expected]


def test_the_private_algorithm_is_sha_256() -> None:
    assert ALGORITHMS["x-sha256"](b"abc") == hashlib.sha256(b"abc").digest()
