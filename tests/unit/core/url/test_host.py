"""Hosts: labels, dots, addresses."""

import socket
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hushlist.core.url.host import (
    collapse_dots,
    is_plain_name,
    normalize_address,
    parse_ipv4,
    parse_ipv6,
    separate_labels,
    to_ascii,
    tunnelled_ipv4,
)
from unit.rows import each_row


@given(st.text("az019xf.-_A", min_size=1).map(str.encode))
@example(b"0x7f.1")
@example(b"a..b")
@example(b"a.")
@example(b".a")
def test_a_plain_name_is_canonical_as_it_stands(host: bytes) -> None:
    canonical = normalize_address(collapse_dots(to_ascii(collapse_dots(separate_labels(host))))).lower()
    assert canonical == host or not is_plain_name(host)


@pytest.mark.parametrize("dot", ["\u3002", "\uff0e", "\uff61"])
def test_every_dot_of_a_browser_separates_labels(dot: str) -> None:
    assert separate_labels(f"a{dot}b{dot}".encode()) == b"a.b."


@each_row(
    ("host", "expected"),
    [
        ("bücher.example", b"xn--bcher-kva.example"),
        ("BÜCHER.Example", b"xn--bcher-kva.example"),
        ("bu\u0308cher.example", b"xn--bcher-kva.example"),  # decomposed
        ("straße.example", b"xn--strae-oqa.example"),  # non-transitional
        ("☃.example", b"xn--n3h.example"),  # IDNA 2008 refuses it, a browser sends it
        ("ｅｘａｍｐｌｅ.com", b"example.com"),
        ("１２７.０.０.１", b"127.0.0.1"),
        ("ex\u00adample.com", b"example.com"),  # a soft hyphen is ignored
        ("a。b．c.ü", b"a.b.c.xn--tda"),
        ("a.ü.", b"a.xn--tda."),
        ("pl_ü.example", b"xn--pl_-joa.example"),  # UseSTD3ASCIIRules=false
        ("x" * 64 + ".ü", b"x" * 64 + b".xn--tda"),  # VerifyDnsLength=false
    ],
)
def test_names_become_a_labels_as_in_a_browser(host: str, expected: bytes) -> None:
    assert to_ascii(host.encode()) == expected


@each_row(
    "host",
    [
        b"plain.EXAMPLE",
        b"xn--bcher-kva",
        b"\x01\x80.com",  # no UTF-8
        b"\xed\xa0\x80.com",  # a surrogate
        "\ufffd.com".encode(),  # disallowed by UTS 46
        "a／b.com".encode(),  # maps to a slash
        "a％41.com".encode(),  # maps to a percent sign
        "a＠b.com".encode(),
        "a：80".encode(),
        "［：：1］".encode(),
        "ü".encode() * 600,  # longer than any name
    ],
)
def test_a_name_that_is_refused_stays_as_it_is(host: bytes) -> None:
    assert to_ascii(host) == host


@each_row(
    ("host", "expected"),
    [
        (b"google.com...", b"google.com"),
        (b"..google...com", b"google.com"),
        (b"a.b", b"a.b"),
        (b"...", b""),
        (b"", b""),
    ],
)
def test_dots_are_single_and_between_labels(host: bytes, expected: bytes) -> None:
    assert collapse_dots(host) == expected


@each_row(
    ("host", "expected"),
    [
        (b"3279880203", "195.127.0.11"),
        (b"0xc37f000b", "195.127.0.11"),
        (b"0XC37F000B", "195.127.0.11"),
        (b"030337600013", "195.127.0.11"),
        (b"195.127.11", "195.127.0.11"),
        (b"195.8323083", "195.127.0.11"),
        (b"0303.0x7f.0.013", "195.127.0.11"),
        (b"127.1", "127.0.0.1"),
        (b"0", "0.0.0.0"),
        (b"0000", "0.0.0.0"),
        (b"0x0", "0.0.0.0"),
        (b"4294967295", "255.255.255.255"),
        (b"011.1.1.1", "9.1.1.1"),
        (b"0000000000000000000000177.0.0.1", "127.0.0.1"),
        (b"0x00000000000000000000007f.1", "127.0.0.1"),
        (b"1.2.65535", "1.2.255.255"),
        (b"1.16777215", "1.255.255.255"),
    ],
)
def test_every_form_of_inet_aton_is_an_address(host: bytes, expected: str) -> None:
    assert parse_ipv4(host) == IPv4Address(expected)


@each_row(
    "host",
    [
        *(b"276.2.3", b"4294967296", b"0x100000000", b"040000000000", b"1.16777216", b"1.2.65536", b"1.2.3.256"),
        *(b"08", b"1.2.3.09", b"0x", b"0xg", b"0x1x", b"1x", b"x1", b"1e3", b"ff.1.1.1", b"1.2.3.4.5", b"1..2", b".1"),
        *(b"1.", b"", b"-1", b"+1", b" 1", b"1 ", b"1\n", b"1_0", "١".encode(), b"1.2.3.4x", b"a.1.2.3", b"9" * 5000),
    ],
)
def test_nothing_else_is_an_ipv4_address(host: bytes) -> None:
    assert parse_ipv4(host) is None


def numbers() -> st.SearchStrategy[str]:
    values = st.integers(0, 300) | st.integers(0, 2**24 + 2) | st.integers(2**32 - 3, 2**32 + 3) | st.integers(0)
    forms = st.sampled_from(["{}", "0{:o}", "00{:o}", "0x{:x}", "0X{:X}", "0x00{:x}", "0{}", "{:x}"])
    return st.builds(str.format, forms, values) | st.text("0178xXaf", max_size=4)


@given(st.lists(numbers(), min_size=1, max_size=5).map(".".join))
@example("0x.0x.0")
def test_agrees_with_inet_aton(text: str) -> None:
    # There is no white space in the texts: behind it, inet_aton lets anything pass.
    try:
        expected = IPv4Address(socket.inet_aton(text))
    except OSError:
        expected = None
    assert parse_ipv4(text.encode()) == expected


@each_row(
    ("text", "expected"),
    [
        (b"::1", "::1"),
        (b"2001:DB8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
        (b"fe80::1%25eth0", "fe80::1"),
        (b"fe80::1%", "fe80::1"),
        (b"::ffff:1.2.3.4", "::ffff:1.2.3.4"),
    ],
)
def test_ipv6_addresses_lose_their_zone(text: bytes, expected: str) -> None:
    assert parse_ipv6(text) == IPv6Address(expected)


@each_row(
    "text",
    [b"", b":", b":::", b"1", b"1:2", b"::g", b"::1.2.3", b"1:2:3:4:5:6:7:8:9", "::１".encode(), b"::1 ", b"\xff:"],
)
def test_nothing_else_is_an_ipv6_address(text: bytes) -> None:
    assert parse_ipv6(text) is None


@each_row(
    ("host", "expected"),
    [
        (b"0x7f.1", b"127.0.0.1"),
        (b"[0:0::1]", b"[::1]"),
        (b"[2001:0DB8:0000::1]", b"[2001:db8::1]"),
        (b"[::FFFF:1.2.3.4]", b"1.2.3.4"),
        (b"[::ffff:7f00:1]", b"127.0.0.1"),
        (b"[64:ff9b::1.2.3.4]", b"1.2.3.4"),
        (b"[::1.2.3.4]", b"[::102:304]"),  # IPv4-compatible, not mapped
        (b"[fe80::1%25eth0]", b"[fe80::1]"),
        (b"name.example", b"name.example"),
        (b"[name]", b"[name]"),
        (b"[::1", b"[::1"),
        (b"::1", b"::1"),
        (b"", b""),
    ],
)
def test_an_address_has_one_spelling(host: bytes, expected: bytes) -> None:
    assert normalize_address(host) == normalize_address(expected) == expected


@each_row(
    ("host", "expected"),
    [
        (b"[2002:a14:1e28::1]", b"10.20.30.40"),
        (b"[2001:0:c000:201:0:f227:f5eb:e1d7]", b"10.20.30.40"),
        (b"[64:ff9b:1::a14:1e28]", b"10.20.30.40"),
        (b"[64:ff9b:1:fffe::a14:1e28]", b"10.20.30.40"),
        (b"[fe80::5efe:a14:1e28]", b"10.20.30.40"),
        (b"[2001:db8::200:5efe:a14:1e28]", b"10.20.30.40"),
        (b"[::ffff:0:a14:1e28]", b"10.20.30.40"),
        (b"[::a14:1e28]", b"10.20.30.40"),
        *((host, None) for host in (b"[::]", b"[::1]", b"[64:ff9b:1::]", b"[2002::1]", b"[2001:db8::a14:1e28]")),
        *((host, None) for host in (b"[2001:db8::100:5efe:a14:1e28]", b"10.20.30.40", b"2002:a14:1e28::1", b"[", b"")),
    ],
)
def test_what_leads_to_an_ipv4_address_is_known(host: bytes, expected: bytes | None) -> None:
    assert tunnelled_ipv4(host) == expected
