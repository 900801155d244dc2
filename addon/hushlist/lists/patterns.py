"""What a rule fits, from its text: expressions, hashes, address ranges.

Raises ``UrlError`` or ``ValueError`` with a reason for a person; the readers know file and line.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network, ip_network

from hushlist.errors import UrlError
from hushlist.match.expressions import own_expression
from hushlist.match.hashing import FULL_LENGTH, SHORTEST_PREFIX
from hushlist.match.rule import Expression, ExpressionHash
from hushlist.url import safebrowsing
from hushlist.url.host import EMBEDDING

_WHITE_SPACE = re.compile(r"\s")


def parse_expression(text: str) -> Expression:
    """An expression in the clear, canonicalized as live traffic is; scheme, port and the like are tolerated.

    >>> str(parse_expression("https://Ads.Example:443/a/../b/"))
    'ads.example/b/'

    Raises:
        UrlError: it names no host, or means something that no URL can be.
    """
    if text.strip().isdecimal():
        raise UrlError(text, "a number alone is no host; an address has dots or colons")
    parts = safebrowsing.SAFEBROWSING.apply(safebrowsing.parse(text))
    assert parts.host is not None
    if b"*" in parts.host:
        raise UrlError(
            text, "'*' is no wildcard here; a rule fits its host, all hosts below it, and all paths below it"
        )
    if _WHITE_SPACE.search(text.strip()):
        raise UrlError(text, "there is white space in it")
    return Expression(own_expression(parts))


_HEX = re.compile(r"(?:[0-9A-Fa-f]{2})+")


def parse_expression_hash(text: str) -> ExpressionHash:
    """The SHA-256 of an expression in hexadecimal, or the first 4 to 31 octets of it.

    Raises:
        ValueError: it is no such thing.
    """
    if not _HEX.fullmatch(text):
        raise ValueError("expected pairs of hexadecimal digits")
    value = bytes.fromhex(text)
    if not SHORTEST_PREFIX <= len(value) <= FULL_LENGTH:
        raise ValueError(f"expected {2 * SHORTEST_PREFIX} to {2 * FULL_LENGTH} hexadecimal digits, not {len(text)}")
    return ExpressionHash(value)


def parse_address_range(text: str) -> IPv4Network | IPv6Network:
    """An address or an address range in CIDR notation.

    Raises:
        ValueError: it is none, or bits are set behind the prefix.
    """
    network = ip_network(text)
    if isinstance(network, IPv6Network) and any(map(network.subnet_of, EMBEDDING)):
        raise ValueError("addresses that stand for IPv4 ones are compared as these: write the range as IPv4")
    return network
