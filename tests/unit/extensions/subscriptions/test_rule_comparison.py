"""The digest of a pattern, and what would cover it."""

from __future__ import annotations

from ipaddress import ip_network

from hushlist.core.match.checks import CHECKS, Check
from hushlist.core.match.expressions import full_hash
from hushlist.core.match.rule import Anything, Expression, ExpressionHash, Pattern
from hushlist.core.url.hashed_uri import HashedUri, HashKey, hash_uri
from hushlist.extensions.subscriptions.rule_comparison import Grain, broader, digest_of
from unit.rows import each_row

ALL = Grain(frozenset({4, 8}), frozenset({(4, 8), (4, 24), (6, 32)}))
FULL = full_hash(b"h.example/")


@each_row(
    ("pattern", "covers"),
    [
        (Expression(b"h.example/"), [f"sha256:{FULL[:8].hex()}", f"sha256:{FULL[:4].hex()}", "example/"]),
        (ExpressionHash(FULL), [f"sha256:{FULL[:8].hex()}", f"sha256:{FULL[:4].hex()}"]),
        (ExpressionHash(FULL[:8]), [f"sha256:{FULL[:4].hex()}"]),
        (ExpressionHash(FULL[:4]), []),
        (ip_network("10.1.2.0/25"), ["10.1.2.0/24", "10.0.0.0/8"]),
        (ip_network("10.1.2.0/24"), ["10.0.0.0/8"]),
        (ip_network("2001:db8:1::/48"), ["2001:db8::/32"]),
        (HashedUri(HashKey("sha1", "n", query=False, fragment=False), bytes(20)), []),
    ],
)
def test_the_next_cover_comes_first(pattern: Pattern, covers: list[str]) -> None:
    assert [str(own) for own in broader(pattern, ALL)] == covers


def test_an_address_is_covered_by_ranges() -> None:
    ranges = Grain(ranges=frozenset({(4, 32), (4, 8), (6, 32)}))
    assert [str(own) for own in broader(Expression(b"10.1.2.3/x"), ranges)] == [
        "10.1.2.3/",
        "10.1.2.3/32",
        "10.0.0.0/8",
    ]
    assert [str(own) for own in broader(Expression(b"[2001:db8::1]/"), ranges)] == ["2001:db8::/32"]


def test_a_top_level_name_covers_what_is_below_it_and_its_hash_does_not() -> None:
    assert [str(own) for own in broader(Expression(b"h.example/"), Grain())] == ["example/"]
    assert [str(own) for own in broader(Expression(b"192.0.2.1/"), Grain())] == []


PATTERNS: list[Pattern] = [
    Expression(b"h.example/"),
    ExpressionHash(full_hash(b"h.example/")[:4]),
    ip_network("192.0.2.0/24"),
    ip_network("192.0.2.0/25"),
    ip_network("2001:db8::/32"),
    hash_uri("http://h.example/", HashKey("sha1", "n", query=True, fragment=False)),
    hash_uri("http://h.example/", HashKey("sha1", "p", query=True, fragment=False)),
    *map(Check, CHECKS),
    Anything(),
]


def test_each_pattern_has_a_digest_of_its_own() -> None:
    digests = [*map(digest_of, PATTERNS)]
    assert len(set(digests)) == len(digests)
    assert {len(digest) for digest in digests} == {32}
    assert digests == [*map(digest_of, PATTERNS)]


def test_an_expression_and_its_hash_are_one_pattern() -> None:
    digest = full_hash(b"h.example/")
    assert digest_of(Expression(b"h.example/")) == digest_of(ExpressionHash(digest)) == digest
