"""The parsers of URLs."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from functools import partial

from hushlist.core.url.comparison import is_slash_redirect
from hushlist.core.url.hashed_uri import VARIANTS, HashKey, hash_uri, parse_hashed_uri
from hushlist.core.url.host import is_address, parse_address, to_ascii
from hushlist.core.url.hrn import parse_hrn
from hushlist.core.url.normalization import percent_decode_repeatedly, percent_encode
from hushlist.core.url.path_interpretations import path_interpretations
from hushlist.core.url.request import canonical_forms, canonical_url, request_of
from hushlist.core.url.rfc3986 import resolve
from hushlist.tools.reference.abnf import GrammarError, find_rule
from hushlist.tools.reference.iri_text import convert_to_ucs, undo_html_escapes, undo_xml_escapes
from hushlist.tools.reference.uri_extraction import extract
from hushlist.tools.reference.url_comparison import PROFILES, compare, redirected_profile
from shared import SHARED
from unit.parsers.table import Parser, put, text_of

PARSERS: dict[str, Parser] = {}
add = partial(put, PARSERS)

URLS = (
    b"http://www.example.com/a/b/../c;x=1?q=%25%32%35&r#f",
    b"HTTPS://User:pass@\xc3\xbc.Example.:0443//x/./%2e%2E/%u002f\\y?",
    b"http://0x7f.1:80/%%%25252541",
    b"ftp://[::ffff:1.2.3.4%25eth0]:21/;type=a",
    b"mailto:Me@Example.COM?subject=x",
    b"//h.example\t/\r\n..//..",
    b"http://h.example/data?x\nhttp://h.example/data/?x",
    "http://例え。テスト/引き割り.html?ü=ß#e\u0301".encode(),
)


def url_samples() -> Iterator[bytes]:
    """Real ones, where there are any, and some that have everything."""
    yield from URLS
    recorded = SHARED / "data" / "requests" / "requests.tsv.gz"
    if recorded.is_file():
        with gzip.open(recorded) as lines:
            yield from (line.split(b"\t")[0][:2000] for number, line in enumerate(lines) if number % 997 == 0)


def add_url(name: str, read: Callable[[bytes], object]) -> None:
    PARSERS[name] = Parser(read, url_samples, units=(b"http://h.example/", b"http://", b"xn--a."))


def _profile(name: str, octets: bytes) -> None:
    profile = PROFILES[name]
    canonical_octets = profile.canonicalize(octets)
    if len(octets) < 1000:
        assert [*profile.trace(octets)][-1][1] == canonical_octets


def _request(octets: bytes) -> None:
    request = request_of(octets)
    for host in request.hosts:
        for parts in canonical_forms(request, host):
            assert parts.join()
    assert request.url


def _compare(octets: bytes) -> None:
    one, _, other = octets.partition(b"\n")
    assert compare(one, one).rung is not None
    compare(one, other, base=b"http://h.example/x/", network_action=True)


def _abnf(octets: bytes) -> None:
    rule, text = find_rule("IRI-reference"), text_of(octets)
    try:
        assert rule.parse(text).end == len(text)
    except GrammarError as error:
        assert error.expected  # noqa: PT017


def _protocol(octets: bytes) -> None:
    one, _, other = octets.partition(b"\n")
    is_slash_redirect(one, other)
    redirected_profile([(one, other), (other, one)]).canonicalize(one)


def _host(octets: bytes) -> None:
    to_ascii(octets)
    assert is_address(octets) in (True, False)
    parse_address(octets)


def _escapes(octets: bytes) -> None:
    assert percent_encode(percent_decode_repeatedly(octets)).isascii()
    undo_html_escapes(text_of(octets))
    undo_xml_escapes(text_of(octets))


def _hash(octets: bytes) -> None:
    for variant in VARIANTS:
        hash_uri(octets, HashKey("x-sha256", variant, query=True, fragment=True))


for _name in PROFILES:
    add_url(f"url profile {_name}", partial(_profile, _name))
add_url("url request_of", _request)
add_url("url canonical_url", canonical_url)
add_url("url readings", lambda octets: path_interpretations(b"/" + octets, octets))
add_url("url compare", _compare)
add_url("url abnf", _abnf)
add_url("url resolve", lambda octets: resolve(octets, b"http://a/b/c/d;p?q"))
add_url("url protocol", _protocol)
add_url("url host", _host)
add_url("url escapes", _escapes)
add_url("url hash_uri", _hash)


@add("url hashed", "hashed:sha1=ae96302a0468481aca954431cf293e05aca95443+query+frag", "HASHED:x-sha256=00ff")
def _hashed(octets: bytes) -> None:
    for variant in VARIANTS:
        assert str(parse_hashed_uri(text_of(octets), variant)).startswith("hashed:")


@add("url hrn", "hrn://c.example/web/games%20and%20fun", "hrn:urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6/x")
def _hrn(octets: bytes) -> None:
    found = parse_hrn(text_of(octets))
    assert str(parse_hrn(str(found))) == str(found)


@add(
    "url extract",
    'See <URL:http://a.example/b c\n  d>, (www.h.example), "ftp://x.example/;y" and mailto:me@h.example.',
    "[http://h.example/(x)]. <http://b.example/>\u201chttps://\u00fc.example\u201d",
    units=(b"<URL:http://", b"<http:\n ", b"(http://h.example", b'"www.'),
)
def _extract(octets: bytes) -> None:
    for found in extract(text_of(octets)):
        assert found.candidates


@add("url encoding", b"utf-8\n\xc3\xbc", b"windows-1258\nVi\xea\xf2t", b"utf-7\n+AGE-", b"idna\nxn--a", b"hex\n00")
def _encoding(octets: bytes) -> None:
    name, _, rest = octets.partition(b"\n")
    convert_to_ucs(rest, text_of(name))
