"""How a policy says that blocked names are answered."""

from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from hushlist.core.policy.proxy_settings import NameAnswers
from support.policies import read_whole
from unit.rows import each_row

IPV4, IPV6 = IPv4Address("192.0.2.80"), IPv6Address("2001:db8::80")


def read(folder: Path, dns: str) -> tuple[NameAnswers | None, list[str]]:
    policy, errors = read_whole(folder, f"layers: []\n{dns}\n")
    return policy.name_answers, errors


@each_row(
    ("dns", "expected"),
    [
        ("", NameAnswers()),
        ("dns: {}", NameAnswers()),
        ("dns: {blocked: nxdomain}", NameAnswers()),
        ("dns: {blocked: refused}", NameAnswers(refused=True)),
        ("dns: {blocked: 192.0.2.80}", NameAnswers(addresses=(IPV4,))),
        ("dns: {blocked: '2001:db8::80'}", NameAnswers(addresses=(IPV6,))),
        ("dns: {blocked: ['2001:db8::80', 192.0.2.80]}", NameAnswers(addresses=(IPV6, IPV4))),
    ],
)
def test_what_can_be_said(tmp_path: Path, dns: str, expected: NameAnswers) -> None:
    assert read(tmp_path, dns) == (expected, [])
    assert bool(expected.addresses) is ("80" in dns)


_EXPECTED = "expected nxdomain, refused, an IPv4 address, an IPv6 address, or a list of one of each"


@each_row(
    ("dns", "error"),
    [
        ("dns: {blocked: drop}", f"2: blocked: 'drop': {_EXPECTED}"),
        ("dns: {blocked: []}", f"2: blocked: {_EXPECTED}, not an empty list"),
        ("dns: {blocked: [nxdomain, '::1']}", f"2: blocked: 'nxdomain': {_EXPECTED}"),
        ("dns: {blocked: [[]]}", f"2: blocked: a list: {_EXPECTED}"),
        ("dns: {blocked: {}}", f"2: blocked: a mapping: {_EXPECTED}"),
        ("dns: {blocked: 'fe80::1%eth0'}", f"2: blocked: 'fe80::1%eth0': {_EXPECTED}"),
        ("dns: {blocked: [1.2.3.4, 1.2.3.5]}", "2: blocked: '1.2.3.5': an IPv4 address is given twice"),
        ("dns: {odd: x}", "2: odd: unknown key (known: blocked)"),
        ("dns: off", "2: 'off': expected a mapping with blocked"),
    ],
)
def test_what_cannot_be_used_is_reported(tmp_path: Path, dns: str, error: str) -> None:
    assert read(tmp_path, dns)[1] == [error]
