"""Finds public names that lead into a private network: DNS rebinding.

Spec: RFC 6303
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

from hushlist.core.match.checks import CheckedRequest
from hushlist.core.policy.key_types import choice, each_of
from hushlist.core.url.host import (
    is_address,
    is_of_internet,
    is_plain_name,
    names_above,
    parse_ipv4,
    parse_ipv6,
    to_ascii,
    tunnelled_ipv4,
)
from hushlist.core.url.parts import to_bytes
from hushlist.core.url.request import readable_host

#: top-level names that are nobody's in public (RFC 6761, RFC 6762, RFC 8375, RFC 9476 and ICANN's ``internal``)
_PRIVATE = frozenset((b"localhost", b"local", b"internal", b"alt", b"test", b"lan", b"home", b"corp", b"home.arpa"))


def _name_of(text: str) -> bytes | None:
    name = to_ascii(to_bytes(text.lower().strip(".")))
    return name if is_plain_name(name) else None


NAMES, RESOLVE = each_of(_name_of, "expected the name of a host"), choice(("auto", "on", "off"))


def find_private_answer(request: CheckedRequest, names: frozenset[bytes] = frozenset()) -> bytes | None:
    """The name and the address, where a public name leads to an address that is none in public."""
    if not request.leads:
        return None
    host = readable_host(request.host)
    if is_address(host) or b"." not in host or any(name in names or name in _PRIVATE for name in names_above(host, 32)):
        return None
    private = next(filter(is_special, request.leads), None)
    return None if private is None else host + b" leads to " + private


def is_special(lead: bytes) -> bool:
    """Whether a host is an address that is no server's in public.

    >>> hosts = b"10.0.0.1", b"[::ffff:127.0.0.1]", b"[64:ff9b::a00:1]", b"127.1", b"8.8.8.8", b"a.example"
    >>> [is_special(host) for host in hosts]
    [True, True, True, True, False, False]
    """
    lead = readable_host(lead)
    address: IPv4Address | IPv6Address | None
    address = parse_ipv6(lead[1:-1]) if lead.startswith(b"[") else parse_ipv4(lead) if lead[-1:].isdigit() else None
    if (inner := tunnelled_ipv4(lead)) is not None:
        address = IPv4Address(inner.decode())
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address is not None and not is_of_internet(address)
