"""Checks inspect how a request is written, not where it goes. A policy blocks or tags by them.

Each has a code, a sentence that names the fault, and a function that finds it. Checks look at the octets as sent, since
canonicalization removes most of these faults.

Spec: RFC 3986, 7
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

from hushlist.core.errors import UrlError
from hushlist.core.extension import CheckRow, load
from hushlist.core.system.late_pattern import late_pattern
from hushlist.core.url.host import collapse_dots, idna_2003, parse_ipv4, parse_ipv6, separate_labels, to_ascii
from hushlist.core.url.normalization import percent_decode_repeatedly
from hushlist.core.url.parts import DEFAULT_PORTS
from hushlist.core.url.request import Request, canonical_host


class CheckedRequest(NamedTuple):
    """A request by one of its hosts, in raw octets."""

    scheme: bytes
    host: bytes
    port: int
    target: bytes
    userinfo: bytes | None
    #: media types that the request names, if they are known
    media: tuple[bytes, ...] = ()
    #: all hosts that the client names
    names: tuple[bytes, ...] = ()
    #: names and addresses that the hosts lead to, where they were looked up
    leads: tuple[bytes, ...] = ()


class Hint(bytes):
    """Evidence that is for reports alone: it tags a request, whatever the check's action is."""


class Check(NamedTuple):
    """The pattern of a rule that is a check."""

    code: str
    #: ports that ``well-known-port`` accepts, besides the scheme's default
    ports: frozenset[int] = frozenset()
    #: of an extension's check: its row, and the values of its keys, by their fields
    row: CheckRow | None = None
    values: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return f"check:{self.code}"

    @property
    def sentence(self) -> str:
        """The fault, for people."""
        return (self.row or CHECKS[self.code]).sentence

    @property
    def asks_media(self) -> bool:
        """Whether it looks at ``CheckedRequest.media``."""
        return self.code == "dns-over-https"

    @property
    def needs_request(self) -> bool:
        """Whether it looks at more than the names, the address and the port of a connection."""
        if self.row is not None:
            return self.row.needs_request
        return self.code not in ("well-known-port", "rare-ipv4", "names-disagree")

    @property
    def is_about_host(self) -> bool:
        """Whether it looks at whom a request goes to, and not at how it is made."""
        return self.row is not None and not self.row.needs_request

    def find(self, request: CheckedRequest) -> bytes | None:
        """Evidence that the request fails the check, or ``None``; it never has user information."""
        if self.row is not None:
            evidence: bytes | None = load(self.row.find)(request, **dict(self.values))
            return evidence
        return CHECKS[self.code].find(self, request)


_WELL_KNOWN = 1024


def _well_known_port(check: Check, request: CheckedRequest) -> bytes | None:
    """7.2: "a TCP port number within the "well-known port" range (0 - 1023)" that is another protocol's."""
    is_usual = request.port == DEFAULT_PORTS.get(request.scheme) or request.port in check.ports
    return b"port %d" % request.port if request.port < _WELL_KNOWN and not is_usual else None


def _encoded_nul(_: Check, request: CheckedRequest) -> bytes | None:
    """7.3: "the "%00" percent-encoding (NUL) ... should be rejected"."""
    return b"%00" if b"\0" in _decoded(request.target) else None


def _encoded_line_end(_: Check, request: CheckedRequest) -> bytes | None:
    """7.2: "percent-encoded octets that match the delimiters ... (for example, CR and LF characters"; in the path:
    in queries, forms send what people wrote on several lines."""
    path = _decoded(request.target.partition(b"?")[0])
    return next((b"%%%02X" % octet for octet in b"\r\n" if octet in path), None)


@lru_cache(maxsize=2)  # a target and its path are decoded once for all hosts of a request
def _decoded(octets: bytes) -> bytes:
    return percent_decode_repeatedly(octets) if b"%" in octets else octets


def _rare_ipv4(_: Check, request: CheckedRequest) -> bytes | None:
    """7.4: "the URI syntax for IPv4address only allows the common dotted-decimal form"."""
    address = _ipv4(request.host)
    return request.host if address is not None and address != request.host else None


#: a name whose last label begins with a letter, with nothing to decode: no address
_SURE_NAME = late_pattern(rb"(?:[A-Za-z0-9_-]+\.)*[A-Za-z][A-Za-z0-9_-]*")


def _ipv4(host: bytes) -> bytes | None:
    """The address that a host is in any spelling, as four decimal numbers."""
    if _SURE_NAME.fullmatch(host):
        return None
    address = parse_ipv4(collapse_dots(to_ascii(collapse_dots(separate_labels(percent_decode_repeatedly(host))))))
    return None if address is None else str(address).encode()


def _user_information(_: Check, request: CheckedRequest) -> bytes | None:
    """7.5: a password in the URI "is deprecated and should be considered an error"."""
    return b"user information" if request.userinfo is not None else None


#: of an address that is written as one number, from 1.0.0.0 on; people's own numbers are mostly shorter
_DIGITS_OF_ADDRESS = 8
#: words in user information; nobody has more, and names that are not in ASCII take long
_MOST_WORDS = 64
_DELIMITERS = late_pattern(rb"[^A-Za-z0-9._\x80-\xff-]+")
_IPV6_LITERAL = late_pattern(rb"\[([0-9A-Fa-f:.]{2,45})\]")
_HOST_NAME = late_pattern(rb"(?:[a-z0-9_-]{1,63}\.)+[a-z][a-z0-9-]{1,62}(?![a-z0-9.-])", re.IGNORECASE)


def _misleading_user(_: Check, request: CheckedRequest) -> bytes | None:
    """7.6: "appearing to identify one (trusted) naming authority while actually identifying a different authority":
    anywhere in it stands a name of several labels, or an address."""
    if request.userinfo is None:
        return None
    text = percent_decode_repeatedly(request.userinfo)
    words = list(filter(None, _DELIMITERS.split(text)))
    is_misleading = len(words) > _MOST_WORDS or any(map(_looks_like_site, words))
    return b"user information" if is_misleading or any(map(parse_ipv6, _IPV6_LITERAL.findall(text))) else None


def _looks_like_site(word: bytes) -> bool:
    name = collapse_dots(separate_labels(word))
    if b"." not in name:
        return name.isdigit() and len(name) >= _DIGITS_OF_ADDRESS and _ipv4(name) is not None
    return _HOST_NAME.match(to_ascii(name)) is not None or _ipv4(name) is not None


# Spec: RFC 8484, 6; RFC 9230, 6; Google's and Cloudflare's resolvers also speak application/dns-json
_DNS_MEDIA = frozenset((b"application/dns-message", b"application/oblivious-dns-message"))
_DNS_JSON = frozenset((b"application/dns-json", b"application/dns+json"))


def _parameter(name: str) -> re.Pattern[bytes]:
    """A parameter with its value. Servers decode escapes in its name; older ones take ";" for "&", too."""
    letters = (f"(?:{letter}|%(?:25)*(?i:{ord(letter):x}))" for letter in name)
    return re.compile(f"[?&;]{''.join(letters)}=([^&;#]*)".encode())


_DNS_PARAMETER, _JSON_PARAMETER = _parameter("dns"), _parameter("name")
_BASE64URL = late_pattern(rb"[A-Za-z0-9_-]+")
#: some servers read either alphabet of base64
_TO_BASE64URL = bytes.maketrans(b"+/", b"-_")
#: of a message's header (RFC 1035, 4.1.1): its length in octets; the flags QR and Opcode; the counts of one question,
#: no answers and no authorities
_DNS_HEADER, _DNS_FLAGS, _DNS_COUNTS = 12, 0b1111_1000 << 8, b"\0\1\0\0\0\0"
#: the first octet of a pointer to where the rest of a name is
_POINTER = 0b1100_0000
#: octets that are read of a parameter with escapes, and without: header, the longest name, type and class. Behind
#: them, a message may have any padding (RFC 8467).
_MOST_OF_VALUE, _MOST_OF_QUERY = 1 << 12, 364


def _dns_over_https(_: Check, request: CheckedRequest) -> bytes | None:
    """A DNS query, to any host: nothing else has this form."""
    media = _DNS_MEDIA.intersection(request.media)
    if media:
        return min(media)
    if _DNS_JSON.intersection(request.media) and _JSON_PARAMETER.search(request.target):
        return b"application/dns-json"
    return b"?dns=" if any(map(_is_dns_query, _DNS_PARAMETER.findall(request.target))) else None


def _is_dns_query(value: bytes) -> bool:
    """Whether a parameter is a DNS query. RFC 8484, 4.1.1: "encoded with base64url"."""
    text = percent_decode_repeatedly(value[:_MOST_OF_VALUE]).translate(_TO_BASE64URL).rstrip(b"=")[:_MOST_OF_QUERY]
    if not _BASE64URL.fullmatch(text):
        return False
    try:
        octets = urlsafe_b64decode(text + b"=" * (-len(text) % 4))
    except ValueError:
        return False
    is_query = int.from_bytes(octets[2:4]) & _DNS_FLAGS == 0
    return is_query and octets[4:10] == _DNS_COUNTS and _ends_as_name(octets, _DNS_HEADER)


def _ends_as_name(octets: bytes, at: int) -> bool:
    """Whether a name begins there, followed by type and class; its end may be a pointer (RFC 1035, 4.1.4)."""
    while at < len(octets) and 0 < octets[at] < 64:
        at += 1 + octets[at]
    if at < len(octets) and octets[at] >= _POINTER:
        at += 1
    elif at >= len(octets) or octets[at]:
        return False
    return at + 5 <= len(octets)


def _names_disagree(_: Check, request: CheckedRequest) -> bytes | None:
    """RFC 9110, 7.4: misdirected requests, if the request itself names another host.

    The two spellings of an internationalized name, by IDNA 2003 and by UTS 46, are one name.
    """
    if len(request.names) < 2:
        return None
    spellings = {spelling for name in request.names if (spelling := idna_2003(name)) is not None}
    names: dict[bytes, None] = {}
    for name in request.names:
        with suppress(UrlError):  # the engine decides names that cannot be read
            if name and name not in spellings:
                names[canonical_host(name)] = None
    return b" and ".join(names) if len(names) > 1 else None


class _CheckDefinition(NamedTuple):
    sentence: str
    find: Callable[[Check, CheckedRequest], bytes | None]


CHECKS: dict[str, _CheckDefinition] = {
    "well-known-port": _CheckDefinition("The port belongs to another protocol.", _well_known_port),
    "encoded-nul": _CheckDefinition("The address has an encoded NUL in it.", _encoded_nul),
    "encoded-line-end": _CheckDefinition("The address has an encoded line end in its path.", _encoded_line_end),
    "rare-ipv4": _CheckDefinition("The address is an IPv4 address in a rare spelling.", _rare_ipv4),
    "user-information": _CheckDefinition("The address has a user name in it.", _user_information),
    "misleading-user": _CheckDefinition("The address has a user name that looks like a site.", _misleading_user),
    "dns-over-https": _CheckDefinition("It asks a resolver for a name, past the network's own.", _dns_over_https),
    "names-disagree": _CheckDefinition("The request goes by several names that disagree.", _names_disagree),
}

_PERCENT, _NUL, _LF, _CR, _EQUALS = b"%\0\n\r="  # an octet is found faster as a number
#: escapes that are, or may make, a NUL, a line end, or a letter of "dns"; the last may be completed by an escape
_SUSPICIOUS_ESCAPE = late_pattern(rb"%(?:25)*+(?:0[0ADad]|64|6[Ee]|73|[0-9A-Fa-f]?%)")
_EVERY_DNS_MEDIA = _DNS_MEDIA | _DNS_JSON


def may_fail(request: Request, host: bytes, canonical: bytes) -> bool:
    """Whether any check may find something in a request by a host; a quick look, which nearly always says no.

    ``canonical`` is the canonical host. A host that is canonical is no address in a rare spelling.
    """
    target, names = request.target, request.hosts
    return (
        host != canonical
        or request.userinfo is not None
        or (request.port < _WELL_KNOWN and request.port != DEFAULT_PORTS.get(request.scheme))
        or (_PERCENT in target and _SUSPICIOUS_ESCAPE.search(target) is not None)
        or _NUL in target
        or _LF in target
        or _CR in target
        or (_EQUALS in target and b"dns=" in target)
        or (request.media and not _EVERY_DNS_MEDIA.isdisjoint(request.media))
        or (len(names) > 1 and not (len(names) == 2 and request.destination in names))
    )
