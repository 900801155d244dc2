"""Rules that nothing can fit: no request that a browser makes, and a resolver answers, has such a canonical form.

>>> why_dead(Expression(b"256.1.2.3/"))
'a name that ends in a number is no address and cannot be resolved: browsers refuse it'
"""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network

from hushlist.match.hashing import full_hash
from hushlist.match.rule import Expression, ExpressionHash, Pattern
from hushlist.url.hashed import ALGORITHMS, HashedUri
from hushlist.url.host import parse_ipv4

#: Spec: RFC 1035, 2.3.4: "labels: 63 octets or less; names: 255 octets or less", of which two are not written
_LONGEST_LABEL, _LONGEST_NAME = 63, 253

# One look tells of nearly every rule that nothing is wrong with it.
_is_suspect = re.compile(rb"[^/]{64}|[^/\[]*[%<>:\[\]^|]|(?:[^/]*\.)?(?:[0-9]+|0[xX][0-9A-Fa-f]*)/").match
_ENDS_IN_NUMBER = re.compile(rb"(?:.*\.)?(?:[0-9]+|0[xX][0-9A-Fa-f]*)", re.DOTALL)
_FORBIDDEN = re.compile(rb"[<>:\[\]^|]")


def why_dead(pattern: Pattern) -> str | None:
    """Why no live URL can fit a pattern, for a person; ``None`` where one may."""
    match pattern:
        case Expression(value):
            return _host(value[: value.find(b"/")]) if _is_suspect(value) else None
        case ExpressionHash(value):
            return _NOTHING if value == _OF_NOTHING[: len(value)] else None
        case HashedUri(key, digest):
            return _NOTHING if digest == ALGORITHMS[key.algorithm](b"") else None
        case IPv4Network() | IPv6Network() as network:
            return "all its addresses are for multicast: no site has one" if network.is_multicast else None
    return None


_OF_NOTHING = full_hash(b"")
_NOTHING = "it is the hash of nothing, not of an expression"


def _host(host: bytes) -> str | None:
    if host.startswith(b"["):
        return None
    if b"%" in host:
        return "there is an escape in the host: browsers refuse it"
    if found := _FORBIDDEN.search(host):
        return f"there is {found[0].decode()!r} in the host: browsers refuse it"
    # Spec: URL Standard, host parsing: a host that "ends in a number" is an IPv4 address, or failure
    if _ENDS_IN_NUMBER.fullmatch(host):
        if parse_ipv4(host) is None:
            return "a name that ends in a number is no address and cannot be resolved: browsers refuse it"
        return None
    longest = max(map(len, host.split(b".")))
    if longest > _LONGEST_LABEL:
        return f"a label has {longest} octets: a name that is resolved has at most {_LONGEST_LABEL} in each"
    if len(host) > _LONGEST_NAME:
        return f"the host has {len(host)} octets: a name that is resolved has at most {_LONGEST_NAME}"
    return None
