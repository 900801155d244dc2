"""Rules that no live URL can fit, and entries that are read as another rule than they look like."""

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.errors import UrlError
from hushlist.core.lists.patterns import canonicalize_expression
from hushlist.core.match.expressions import full_hash
from hushlist.core.match.rule import Expression, ExpressionHash, WholeUrl
from hushlist.core.url.hashed_uri import ALGORITHMS, HashedUri, HashKey
from hushlist.core.url.request import canonical_host
from hushlist.tools.audit.findings import odd_lines, oddities, why_unmatchable
from unit.rows import each_row


@each_row(
    ("text", "why"),
    [
        ("256.1.2.3", "ends in a number"),
        ("1.2.3.4.5/x", "ends in a number"),
        ("h.example.0x1f", "ends in a number"),
        ("h.example.99", "ends in a number"),
        ("h%20x.example", "escape"),
        ("a<b.example", "'<'"),
        (f"{'a' * 64}.example", "a label has 64 octets"),
        (f"{'.'.join(['a' * 60] * 4)}.example.example", "the host has 259 octets"),
    ],
)
def test_a_host_that_no_resolver_takes_is_dead(text: str, why: str) -> None:
    assert why in (why_unmatchable(canonicalize_expression(text)) or "")
    assert why in (why_unmatchable(WholeUrl(f"http://{text.removesuffix('/x')}/".encode(), "scheme")) or "")


@each_row(
    "text",
    [
        *("h.example", "1.2.3.4", "1.2.3", "0x7f.1", "[2001:db8::1]/x", "_dmarc.h.example", "xn--a", "2024.example/a"),
        *("h.example/256.1.2.3", "h.example/%20", f"{'a' * 63}.example", f"h.example/{'a' * 300}", "h.0x1g"),
        f"{'.'.join(['a' * 60] * 4)}.examples",
    ],
)
def test_a_host_that_some_resolver_may_take_is_not(text: str) -> None:
    assert why_unmatchable(canonicalize_expression(text)) is None


@given(st.from_regex(r"[a-z0-9]{1,8}(\.[a-z0-9]{1,8}){1,4}", fullmatch=True))
def test_a_plain_name_is_dead_only_where_its_last_label_is_a_number(name: str) -> None:
    last = name.rpartition(".")[2]
    is_number = last.isdecimal() or (last.startswith("0x") and all(c in "0123456789abcdef" for c in last[2:]))
    try:
        host = canonical_host(name.encode())
    except UrlError:
        return
    is_address = host.count(b".") == 3 and all(part.isdigit() and int(part) < 256 for part in host.split(b"."))
    assert (why_unmatchable(Expression(host + b"/")) is not None) is (is_number and not is_address)


@pytest.mark.parametrize("octets", [4, 8, 32])
def test_the_hash_of_nothing_is_dead(octets: int) -> None:
    assert "hash of nothing" in (why_unmatchable(ExpressionHash(full_hash(b"")[:octets])) or "")
    assert why_unmatchable(ExpressionHash(full_hash(b"h.example/")[:octets])) is None


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_so_is_the_hashed_uri_of_nothing(algorithm: str) -> None:
    key = HashKey(algorithm, "n", query=False, fragment=False)
    assert why_unmatchable(HashedUri(key, ALGORITHMS[algorithm](b"")))
    assert why_unmatchable(HashedUri(key, ALGORITHMS[algorithm](b"http://h.example"))) is None


def test_multicast_addresses_are_nobody_s_site() -> None:
    assert why_unmatchable(ip_network("224.0.0.0/4"))
    assert why_unmatchable(ip_network("192.0.2.0/24")) is None


@each_row(
    ("line", "rule", "why"),
    [
        ("ftp://h.example/a", "h.example/a", "'ftp:'"),
        ("phishing.example/#login", "phishing.example/", "the rule fits all of phishing.example/"),
        ("https://h.example/p?q#top", "h.example/p?q", "'#'"),
        ("http://me:pw@h.example/", "h.example/", "user name"),
        ("h.example:99999/x", "h.example/x", "port 99999"),
        ("http://h.example:0/x", "h.example/x", "port 0"),
        ("  - expression: 'h.example/a#b'", "h.example/a", "'#'"),
        ('1,"gopher://h.example/x",3', "h.example/x", "'gopher:'"),
        ("http://h.example%2Fx", "h.example/x/", "encoded delimiter"),
        ("http://h.example/\u200fx", "h.example/%E2%80%8Fx", "character 18 is U+200F, which nobody sees"),
        ("\u202ah.example", "%E2%80%AAh.example/", "character 1 is U+202A"),
        ("- h.example%3fx", "h.example/?x/", "encoded delimiter"),
    ],
)
def test_what_is_in_no_request_is_found(line: str, rule: str, why: str) -> None:
    assert set(odd_lines(line.encode(), 7)) == {7}
    ((found, reason),) = oddities(line.encode())
    assert (str(found), why in reason) == (rule, True)


@each_row(
    "line",
    [
        *("h.example", "https://h.example:8443/x", "wss://h.example/", "h.example # see http://x.example/#a"),
        *("0.0.0.0 h.example", "# a comment", "HTTP://H.example/", "h.example/a?b=c:d", "[2001:db8::1]/"),
        *("h.example/%2F", "h%65.example/%2f", "h.example?%40"),
    ],
)
def test_what_is_as_it_looks_is_not(line: str) -> None:
    rules = [str(rule) for rule, _ in oddities(line.encode())]
    assert "h.example/" not in rules
    assert "h.example/x" not in rules
    assert "h.example/a?b=c:d" not in rules


def test_lines_have_their_numbers() -> None:
    text = b"a.example\nb.example/#x\n\nc.example\nftp://d.example\n"
    assert odd_lines(text, 10) == {11: b"b.example/#x", 14: b"ftp://d.example"}
