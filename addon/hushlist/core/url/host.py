"""Hosts: dots, internationalized names, and addresses in every spelling."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network

from hushlist.core.system.late_pattern import late_pattern

# "Dots other than U+002E separate labels, as in a browser": ideographic, fullwidth and halfwidth full stop (UTS 46)
_OTHER_DOTS = late_pattern(b"|".join(dot.encode() for dot in "\u3002\uff0e\uff61"))
#: octets; a DNS name has at most 253 characters, each at most 4 octets in UTF-8, so no longer name exists
LONGEST_NAME = 4 * 253
#: characters; of so many, no A-label has 63 octets, the most of a DNS label. Punycode takes time that grows with their
#: square
_LONGEST_LABEL = 59
#: characters of a DNS label
_LONGEST_A_LABEL = 63
#: labels, and names, whose Punycode is kept: a request may have the same one several times
_MOST_KEPT = 256
#: delimiters that end or begin a host in a URL; no host has one
DELIMITERS = late_pattern(rb"[/?#@\\]")
#: characters that no browser accepts in a host; a name that maps to one could shift the URL's parts, and is refused
_FORBIDDEN = late_pattern(r"[\x00-\x20\x7f#%/:<>?@\[\\\]^|]")

#: Code points that are newer than Unicode 14, the age of the oldest Python's tables, and that Normalization Form C
#: orders or composes; as of Unicode 18. The tables of ``idna`` know them, but Pythons of different ages would normalize
#: them differently.
_NEWLY_NORMALIZED = (
    "[\u05c8\u05c9\u0897\u1acf-\u1af0\U000105c9\U000105d2\U000105da\U000105e4\U00010d69-\U00010d6d\U00010ecb-\U00010ecf"
    "\U00010ef0-\U00010efb\U00010efd-\U00010eff\U00011382-\U00011385\U0001138b\U0001138e\U00011390\U00011391\U000113b8"
    "\U000113bb\U000113c2\U000113c5\U000113c7-\U000113c9\U000113ce-\U000113d0\U00011f41\U00011f42\U0001611e-\U00016129"
    "\U0001612f\U00016d63\U00016d67-\U00016d6a\U0001d127\U0001d128\U0001d250-\U0001d252\U0001d25b\U0001d25c\U0001d25f"
    "\U0001d280\U0001d281\U0001e08f\U0001e4ec-\U0001e4ef\U0001e5ee\U0001e5ef\U0001e6e3\U0001e6e6\U0001e6ee\U0001e6ef"
    "\U0001e6f5]"
)


# In every spelling of an IPv4 address, the last label begins with a digit.
_PLAIN_NAME = re.compile(rb"(?:[a-z0-9_-]++\.)*+[a-z][a-z0-9_-]*+")


def is_plain_name(host: bytes) -> bool:
    """Whether a host is a name that is already canonical; nearly every host is.

    >>> is_plain_name(b"www.example.com"), is_plain_name(b"WWW.example.com"), is_plain_name(b"127.0.0.1")
    (True, False, False)
    """
    return _PLAIN_NAME.fullmatch(host) is not None


def separate_labels(host: bytes) -> bytes:
    """Write every dot that separates labels as U+002E."""
    return host if host.isascii() else _OTHER_DOTS.sub(b".", host)


def to_ascii(host: bytes) -> bytes:
    """A-labels of an internationalized name, by UTS 46; a name that UTS 46 refuses stays as it is.

    >>> to_ascii("bücher.example".encode()), to_ascii(b"\\x01\\x80.com")
    (b'xn--bcher-kva.example', b'\\x01\\x80.com')

    Deviation: IDNA 2008 allows fewer code points, which is not checked. A browser sends ``xn--n3h.com`` for U+2603.com,
    so a rule for it must become the same. A name with a newly normalized code point is refused, so that a host has one
    A-label whatever the Python (reading 7).

    Spec: UTS 46, 4.2 (non-transitional, UseSTD3ASCIIRules=false, VerifyDnsLength=false)
    """
    if host.isascii() or len(host) > LONGEST_NAME:
        return host
    import idna  # its tables take long to import, and few hosts need them

    try:
        mapped = idna.uts46_remap(host.decode(), std3_rules=False, transitional=False)
        labels = [_to_a_label(label) for label in mapped.split(".")]
    except UnicodeError:  # idna.IDNAError is one
        return host
    return b".".join(labels)


@lru_cache(_MOST_KEPT)
def idna_2003(host: bytes) -> bytes | None:
    """A non-ASCII name by IDNA 2003, which drops and maps more than UTS 46; mitmproxy looks that name up.

    >>> idna_2003("straße.example".encode()), idna_2003(b"a.example")
    (b'strasse.example', None)
    """
    if host.isascii() or len(host) > LONGEST_NAME:
        return None
    from encodings.idna import dots, nameprep

    try:
        name = host.decode()
        # Python writes a label in Punycode before it finds that it is too long
        is_long = any(len(nameprep(label)) > _LONGEST_A_LABEL for label in dots.split(name))
        return None if is_long else name.encode("idna")
    except UnicodeError:
        return None


@lru_cache(_MOST_KEPT)
def _to_a_label(label: str) -> bytes:
    if _FORBIDDEN.search(label) or re.search(_NEWLY_NORMALIZED, label):
        raise UnicodeError("forbidden in a host")
    if not label.isascii() and len(label) > _LONGEST_LABEL:
        raise UnicodeError("label too long")
    return label.encode() if label.isascii() else b"xn--" + label.encode("punycode")


_DOTS = late_pattern(rb"\.{2,}")


def collapse_dots(host: bytes) -> bytes:
    """Remove leading and trailing dots, replace consecutive dots with one.

    >>> collapse_dots(b".www..example...")
    b'www.example'

    Spec: Safe Browsing v4, Canonicalization, host, 1 and 2
    """
    return _DOTS.sub(b".", host.strip(b"."))


def normalize_address(host: bytes) -> bytes:
    """The canonical spelling of an address; a name stays as it is.

    >>> normalize_address(b"0x7f.1"), normalize_address(b"[0:0::1]"), normalize_address(b"[::ffff:1.2.3.4]")
    (b'127.0.0.1', b'[::1]', b'1.2.3.4')

    Spec: Safe Browsing v4, Canonicalization, host, 3: "all legal IP-address encodings, including octal, hex, and
    fewer than four components"; RFC 5952 for IPv6
    """
    address = parse_address(host)
    if address is None:
        return host
    return str(address).encode() if isinstance(address, IPv4Address) else b"[%s]" % str(address).encode()


def is_address(host: bytes) -> bool:
    """Whether a canonical host is an address, which has no parent domain."""
    return host.startswith(b"[") or (host[-1:].isdigit() and parse_ipv4(host) is not None)


def names_above(host: bytes, labels: int) -> Iterator[bytes]:
    """A host, and its suffixes after each of its last dots, with at most so many labels."""
    yield host
    dot = len(host)
    for _ in range(labels):
        dot = host.rfind(b".", 0, dot)
        if dot < 0:
            return
        yield host[dot + 1 :]


def parse_address(host: bytes) -> IPv4Address | IPv6Address | None:
    """A host's address, or ``None`` for a name; an IPv6 address that embeds an IPv4 address becomes that."""
    if not host.startswith(b"["):
        return parse_ipv4(host)
    address = parse_ipv6(host[1:-1]) if host.endswith(b"]") else None
    if address is not None and any(address in network for network in EMBEDDING):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


#: IPv6 addresses that embed IPv4 ones: mapped (RFC 4291, 2.5.5.2), NAT64's well-known prefix (RFC 6052, 2.1)
EMBEDDING = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))


#: an interface of ISATAP, but for the bit that says whether its IPv4 address is unique in the world (RFC 5214, 6.1)
_ISATAP, _UNIQUE = 0x5EFE, 0x02000000
#: IPv6 addresses whose last octets lead to an IPv4 address: NAT64 for local use, as prefixes of 96 bits (RFC 8215);
#: translated (RFC 2765, 2.1); compatible (RFC 4291, 2.5.5.1)
_LEADING = (IPv6Network("64:ff9b:1::/48"), IPv6Network("::ffff:0:0:0/96"), IPv6Network("::/96"))


#: what IANA's registries of special addresses have, and the tables of older Pythons do not: those for protocols (of
#: which the two anycast services lead to whatever is near), the relays of 6to4, 6to4, and the newer documentation
_SPECIAL = (
    IPv4Network("192.0.0.0/24"),
    IPv4Network("192.88.99.0/24"),
    IPv6Network("2002::/16"),
    IPv6Network("3fff::/20"),
)
#: the part of IPv6 that addresses of servers are given out from
_GLOBAL_UNICAST = IPv6Network("2000::/3")


def is_of_internet(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address may be a server's on the internet. One that embeds another says nothing of that.

    Spec: RFC 6890, the IANA special-purpose address registries; RFC 4291, 2.4

    >>> [is_of_internet(IPv4Address(text)) for text in ("8.8.8.8", "192.0.0.8", "192.88.99.1", "10.0.0.1")]
    [True, False, False, False]
    >>> [is_of_internet(IPv6Address(text)) for text in ("2606:4700::1", "fec0::1", "5f00::1", "3fff::1", "2001:db8::1")]
    [True, False, False, False, False]
    """
    if address.is_multicast or (isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST):
        return False
    return address.is_global and not any(address in network for network in _SPECIAL)


def tunnelled_ipv4(host: bytes) -> bytes | None:
    """The IPv4 address that a tunnel or a translator sends to for a canonical host; ``None``: none is in it.

    It may be that of another machine, which only passes packets on, so rules for either hold.

    >>> tunnelled_ipv4(b"[2002:a14:1e28::1]"), tunnelled_ipv4(b"[2001:0:5db8:1::f5eb:e1d7]"), tunnelled_ipv4(b"[::1]")
    (b'10.20.30.40', b'10.20.30.40', None)
    """
    address = parse_ipv6(host[1:-1]) if host.startswith(b"[") else None
    if address is None:
        return None
    number, ipv4 = int(address), None
    if address.sixtofour is not None:  # RFC 3056
        ipv4 = int(address.sixtofour)
    elif address.teredo is not None:  # RFC 4380, 4: the server's, then the client's, whose bits are inverted
        ipv4 = int(address.teredo[1])
    elif number >> 32 & 0xFFFFFFFF & ~_UNIQUE == _ISATAP or any(address in network for network in _LEADING):
        ipv4 = number & 0xFFFFFFFF
    # no host has one of 0.0.0.0/8, and ``::1`` is none of these
    return str(IPv4Address(ipv4)).encode() if ipv4 is not None and ipv4 >> 24 else None


def parse_ipv6(text: bytes) -> IPv6Address | None:
    """An IPv6 address from text without brackets, or ``None``; a zone is dropped."""
    if b":" not in text or not text.isascii():
        return None
    try:
        return IPv6Address(text.split(b"%", 1)[0].decode())
    except AddressValueError:
        return None


_IPV4_PARTS = late_pattern(rb"[0-9a-fA-FxX]+(?:\.[0-9a-fA-FxX]+){0,3}")
_IPV4_PART = late_pattern(rb"0[xX](?P<hex>[0-9a-fA-F]+)|0(?P<octal>[0-7]*)|(?P<decimal>[1-9][0-9]*)")
_BASES = {"hex": 16, "octal": 8, "decimal": 10}
#: octal digits of 2**32 - 1; a part with more significant digits is too large in any base
_MOST_DIGITS = 11


def parse_ipv4(host: bytes) -> IPv4Address | None:
    """An IPv4 address in any form that ``inet_aton`` reads, or ``None``.

    >>> parse_ipv4(b"3279880203"), parse_ipv4(b"0x12.0x43.0104.1"), parse_ipv4(b"276.2.3")
    (IPv4Address('195.127.0.11'), IPv4Address('18.67.68.1'), None)
    """
    if not host[:1].isdigit() or not _IPV4_PARTS.fullmatch(host):
        return None
    *parts, last = (_part_value(part) for part in host.split(b"."))
    if last is None or last >> 8 * (4 - len(parts)):
        return None
    value = last
    for position, part in enumerate(parts):
        if part is None or part > 255:
            return None
        value |= part << 8 * (3 - position)
    return IPv4Address(value)


def _part_value(part: bytes) -> int | None:
    match = _IPV4_PART.fullmatch(part)
    if match is None or match.lastgroup is None:
        return None
    digits = match[match.lastgroup].lstrip(b"0")
    return int(digits or b"0", _BASES[match.lastgroup]) if len(digits) <= _MOST_DIGITS else None
