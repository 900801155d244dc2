"""Hosts: labels, dots, addresses."""

import socket
from ipaddress import IPv4Address

from hypothesis import example, given
from hypothesis import strategies as st

from hushlist.core.url.host import (
    collapse_dots,
    is_plain_name,
    normalize_address,
    parse_ipv4,
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
