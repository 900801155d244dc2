"""What would cover a pattern."""

from ipaddress import ip_network

import pytest

from hushlist.audit.diff.rule_comparison import Grain, broader, grain_of
from hushlist.match.expressions import full_hash
from hushlist.match.rule import Expression, ExpressionHash, Pattern
from hushlist.url.hashed_uri import HashedUri, HashKey

ALL = Grain(frozenset({4, 8}), frozenset({(4, 8), (4, 24), (6, 32)}))
FULL = full_hash(b"h.example/")


@pytest.mark.parametrize(
    ("pattern", "covers"),
    [
        (Expression(b"h.example/"), [f"sha256:{FULL[:8].hex()}", f"sha256:{FULL[:4].hex()}"]),
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


def test_a_top_level_domain_covers_nothing() -> None:
    assert [str(own) for own in broader(Expression(b"h.example/"), Grain())] == []


@pytest.mark.parametrize(
    ("pattern", "grain"),
    [
        (ExpressionHash(FULL[:5]), Grain(prefixes=frozenset({5}))),
        (ExpressionHash(FULL), Grain()),
        (Expression(b"h.example/"), Grain()),
        (ip_network("10.0.0.0/8"), Grain(ranges=frozenset({(4, 8)}))),
    ],
)
def test_the_grain_of_a_pattern_is_its_own_length(pattern: Pattern, grain: Grain) -> None:
    assert grain_of(pattern) == grain
