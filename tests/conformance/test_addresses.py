"""Addresses as browsers test them, by reading 6 of addon/readings.md: what inet_aton accepts; the rest are names."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

from conformance.vectors import Row, needs, rows
from hushlist.core.errors import UrlError
from hushlist.core.url.host import parse_address, parse_ipv6
from hushlist.core.url.safebrowsing import SAFEBROWSING
from unit.rows import each_row


def address_of(url: str) -> str | None:
    """The address that a URL's canonical host is, in brackets where it is IPv6; ``None`` for a name or for no host."""
    try:
        parts = SAFEBROWSING.apply(SAFEBROWSING.parse(url))
    except UrlError:
        return None
    assert parts.host is not None
    return parts.host.decode() if parse_address(parts.host) else None


def expected_address(row: Row) -> str | None:
    """The address in the URL that a browser makes of it; the rest of that URL is not asked here."""
    if row["expected"] is None:
        return None
    authority = row["expected"].split("://", 1)[-1].split("/", 1)[0]
    host = authority[: authority.rindex("]") + 1] if "]" in authority else authority.split(":", 1)[0]
    try:
        IPv6Address(host[1:-1]) if host.startswith("[") else IPv4Address(host)
    except ValueError:
        return None
    return host


def is_bare(row: Row) -> bool:
    return row["note"] == "bare address text form"


#: input -> (why, what we make of it)
IPV4_EXCEPTIONS: dict[str, tuple[str, str | None]] = {
    "https://0x.0x.0": ("6: inet_aton reads no digits after 0x as an error", None),
    "https://0x.0x.0x.0x": ("6: inet_aton reads no digits after 0x as an error", None),
    "http://2001::1": ("an address without brackets is tolerated in lists", "[2001::1]"),
    "http://2001::1]": ("3: the port is dropped, whatever it is", "0.0.7.209"),
    "http://2001::1]:80": ("3: the port is dropped, whatever it is", "0.0.7.209"),
    "http://0..0x300/": ("Safe Browsing v4, host, 2: consecutive dots are one", "0.0.3.0"),
    "http://0..0x300./": ("Safe Browsing v4, host, 2: consecutive dots are one", "0.0.3.0"),
}
IPV6_EXCEPTIONS: dict[str, tuple[str, str | None]] = {
    "http://[1::2]:3:4": ("3: the port is dropped, whatever it is", "[1::2]"),
    "http://[::%31]": ("1: the URL is unescaped first", "[::1]"),
}


@needs("ipv4_wpt")
@each_row("row", [row for row in rows("ipv4_wpt") if row["input"] not in IPV4_EXCEPTIONS])
def test_ipv4(row: Row) -> None:
    assert address_of(row["input"]) == expected_address(row)


@needs("ipv6")
@each_row("row", [row for row in rows("ipv6") if not is_bare(row) and row["input"] not in IPV6_EXCEPTIONS])
def test_ipv6(row: Row) -> None:
    assert address_of(row["input"]) == expected_address(row)


@needs("ipv6")
@each_row("row", list(filter(is_bare, rows("ipv6"))))
def test_ipv6_text_form(row: Row) -> None:
    assert str(parse_ipv6(row["input"].encode())) == row["expected"]


@needs("ipv4_wpt")
@needs("ipv6")
@each_row(
    ("name", "url", "ours"),
    [
        *(("ipv4_wpt", url, ours) for url, (_, ours) in IPV4_EXCEPTIONS.items()),
        *(("ipv6", url, ours) for url, (_, ours) in IPV6_EXCEPTIONS.items()),
    ],
)
def test_by_a_settled_reading(name: str, url: str, ours: str | None) -> None:
    (row, *_) = (row for row in rows(name) if row["input"] == url)
    assert address_of(url) == ours
    assert expected_address(row) != ours, "no longer an exception"
