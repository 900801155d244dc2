"""The patterns that would cover another: all that it fits, and more.

>>> [str(own) for own in broader(Expression(b"x.h.example/a?q"), Grain())]
['x.h.example/a', 'x.h.example/', 'h.example/a?q', 'h.example/a', 'h.example/']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import NamedTuple

from hushlist.match.expressions import host_suffixes, path_prefixes
from hushlist.match.hashing import FULL_LENGTH, full_hash
from hushlist.match.rule import Expression, ExpressionHash, Pattern
from hushlist.url.host import parse_address


class Grain(NamedTuple):
    """What lengths there are to cover by."""

    #: octets of hash prefixes
    prefixes: frozenset[int] = frozenset()
    #: (IP version, bits of the prefix) of address ranges
    ranges: frozenset[tuple[int, int]] = frozenset()

    def joined(self, other: Grain) -> Grain:
        """Those of both."""
        return Grain(self.prefixes | other.prefixes, self.ranges | other.ranges)


def grain_of(pattern: Pattern) -> Grain:
    """Its own length."""
    match pattern:
        case ExpressionHash(value) if len(value) < FULL_LENGTH:
            return Grain(prefixes=frozenset({len(value)}))
        case IPv4Network() | IPv6Network():
            return Grain(ranges=frozenset({(pattern.version, pattern.prefixlen)}))
    return Grain()


def broader(pattern: Pattern, grain: Grain) -> Iterator[Pattern]:
    """The patterns that cover one, the next first."""
    match pattern:
        case Expression(value):
            yield from _of_expression(value, grain)
        case ExpressionHash(value):
            yield from _prefixes(value, grain)
        case IPv4Network() | IPv6Network():
            yield from _ranges(pattern, grain, least=pattern.prefixlen)


def expressions_above(value: bytes) -> list[bytes]:
    """The expressions that cover one in the clear, the next first.

    >>> expressions_above(b"x.h.example/")
    [b'h.example/']
    """
    host, _, rest = value.partition(b"/")
    hosts = host_suffixes(host, deepest=host.count(b".") + 1)
    if not rest:
        return [suffix + b"/" for suffix in hosts[1:]]
    page, mark, query = rest.partition(b"?")
    paths = path_prefixes(b"/" + page, query if mark else None, deepest=page.count(b"/") + 1)
    return [expression for suffix in hosts for path in paths if (expression := suffix + path) != value]


def _of_expression(value: bytes, grain: Grain) -> Iterator[Pattern]:
    yield from _prefixes(full_hash(value), grain)
    for expression in expressions_above(value):
        yield Expression(expression)
        yield from _prefixes(full_hash(expression), grain)
    address = parse_address(value.partition(b"/")[0]) if grain.ranges else None
    if address is not None:
        yield from _ranges(ip_network(address), grain, least=address.max_prefixlen + 1)


def _prefixes(digest: bytes, grain: Grain) -> Iterable[ExpressionHash]:
    lengths = sorted((length for length in grain.prefixes if length < len(digest)), reverse=True)
    return (ExpressionHash(digest[:length]) for length in lengths)


def _ranges(network: IPv4Network | IPv6Network, grain: Grain, least: int) -> Iterable[IPv4Network | IPv6Network]:
    """Those around it whose prefix is shorter than so many bits."""
    own = sorted((bits for version, bits in grain.ranges if version == network.version and bits < least), reverse=True)
    return (network.supernet(new_prefix=bits) for bits in own)
