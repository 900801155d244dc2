"""Lists of addresses."""

from hushlist.core.lists.plain_lists import read_addresses
from support.readings import read_rules
from unit.rows import each_row

_NONE = "it is no address, and no range of them"
_EMBEDDED = "addresses that stand for IPv4 ones are compared as these: write the range as IPv4"
_ORDER = "a range goes from a lower to a higher address of one kind"


@each_row(
    ("text", "rules"),
    [
        ("192.0.2.1\n2001:DB8::1", ["1:192.0.2.1/32", "2:2001:db8::1/128"]),
        ("192.0.2.0/24\r\n2001:db8::/32\r\n192.0.2.0/255.255.255.128",
         ["1:192.0.2.0/24", "2:2001:db8::/32", "3:192.0.2.0/25"]),
        ("# x\n; x\n\n192.0.2.0/24 ; SBL1\n192.0.2.1#x", ["4:192.0.2.0/24", "5:192.0.2.1/32"]),
        ("192.0.2.0-192.0.2.255\n192.0.2.4 - 192.0.2.9", ["1:192.0.2.0/24", "2:192.0.2.4/30", "2:192.0.2.8/31"]),
        ("192.0.2.1-192.0.2.1\n2001:db8::-2001:db8::1", ["1:192.0.2.1/32", "2:2001:db8::/127"]),
    ],
)  # fmt: skip
def test_addresses_and_ranges_are_rules(text: str, rules: list[str]) -> None:
    assert read_rules(read_addresses, text) == (rules, [])


@each_row(
    ("line", "why"),
    [
        ("x.example", _NONE),
        ("192.0.2", _NONE),
        ("192.0.2.1/33", _NONE),
        ("192.0.2.1 x", _NONE),
        ("192.0.2.01", _NONE),
        ("fe80::1%eth0", _NONE),
        ("192.0.2.0/24-192.0.3.0/24", _NONE),
        ("192.0.2.1-", _NONE),
        ("192.0.2.9-192.0.2.1", _ORDER),
        ("192.0.2.9-2001:db8::", _ORDER),
        ("::ffff:192.0.2.1", _EMBEDDED),
        ("::ffff:192.0.2.1-::ffff:192.0.2.2", _EMBEDDED),
    ],
)
def test_what_is_no_address_is_left_out(line: str, why: str) -> None:
    rules, warnings = read_rules(read_addresses, f"192.0.2.7\n{line}\n192.0.2.8")
    assert rules == ["1:192.0.2.7/32", "3:192.0.2.8/32"]
    assert warnings == [f"2: {line}: left out: {why}"]


def test_a_range_is_covered_by_few_networks() -> None:
    rules, warnings = read_rules(read_addresses, "0.0.0.1-255.255.255.254\n2001:db8::1-2001:db8::ffff:ffff")
    assert (len(rules), warnings) == (62 + 32, [])
    first_and_last = "2001:db8::1-2001:db8:ffff:ffff:ffff:ffff:ffff:fffe"
    why = f"1: {first_and_last}: left out: a range that is more than 64 networks"
    assert read_rules(read_addresses, first_and_last) == ([], [why])
