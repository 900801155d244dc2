"""Rules that no live URL can fit."""

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
from hushlist.tools.audit.findings import why_unmatchable
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
