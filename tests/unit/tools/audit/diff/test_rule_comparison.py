"""What would cover a pattern; a change as a line, and as JSON."""

from datetime import date
from ipaddress import ip_network

from hushlist.core.match.expressions import full_hash
from hushlist.core.match.rule import Action, Expression, ExpressionHash, Pattern
from hushlist.core.url.hashed_uri import HashedUri, HashKey
from hushlist.tools.audit.diff.rule_comparison import (
    ChangeKind,
    Grain,
    RuleChange,
    RuleMeaning,
    RuleState,
    broader,
    differences,
    grain_of,
)
from hushlist.tools.audit.report_codec import encode
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


@each_row(
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


ADS = RuleMeaning(Action.BLOCK, "hrn://c.example/ads", None, None, "lists", is_clear=True)


def test_all_that_differs_is_told() -> None:
    other = RuleMeaning(Action.WARN, None, "why", date(2027, 1, 31), "own", is_clear=False)
    ends = RuleState("old", 1, "a.example/", *ADS[:-1]), RuleState("new", 2, "sha256:00", *other[:-1])
    change = RuleChange(ChangeKind.CHANGED, *ends, tuple(differences(ADS, other)), None)
    assert str(change) == (
        "~ old:1 -> new:2: changed: a.example/ -> sha256:00 (action: block -> warn; category: hrn://c.example/ads -> "
        "none; reason: none -> why; expires: none -> 2027-01-31; layer: lists -> own; now hashed)"
    )


def test_json_has_both_ends() -> None:
    change = RuleChange(ChangeKind.ADDED, None, RuleState("new", 2, "co.uk/", *ADS[:-1]), (), "it is broad")
    assert str(change) == "+ new:2: co.uk/: broad: it is broad"
    assert encode(change) == {
        "kind": "added",
        "old": None,
        "new": {
            "source": "new",
            "line": 2,
            "rule": "co.uk/",
            "action": "block",
            "category": "hrn://c.example/ads",
            "reason": None,
            "expires": None,
            "layer": "lists",
        },
        "how": [],
        "broad": "it is broad",
    }
