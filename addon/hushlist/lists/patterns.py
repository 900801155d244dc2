"""What a rule fits, from its text: expressions, hashes, address ranges.

Raises ``UrlError`` or ``ValueError`` with a reason for a person; the readers know file and line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network

from hushlist.errors import UrlError
from hushlist.match.expressions import own_expression
from hushlist.match.hashing import FULL_LENGTH, SHORTEST_PREFIX
from hushlist.match.rule import Expression, ExpressionHash
from hushlist.url import safebrowsing
from hushlist.url.host import EMBEDDING

_NO_WILDCARD = "'*' is no wildcard here; a rule fits its host, all hosts below it, and all paths below it"
#: what no rule can be, wherever it comes from; the scheme is left out
_NO_RULE = (
    (re.compile(r".*\s.*", re.DOTALL), "there is white space in it"),
    (re.compile(r"[0-9]+"), "a number alone is no host; an address has dots or colons"),
    (re.compile(r"[^/?#]*\*.*"), _NO_WILDCARD),
    (re.compile(r"[^/?#]*[|^].*"), "'|' and '^' have no meaning here"),
)
_TWO_SCHEMES = (re.compile(r"[^/?#]*://.*"), "what stands in front of '://' is no host")
_ANY_PATH = (re.compile(r".*/\*"), _NO_WILDCARD)
_MAIL = (re.compile(r"[^/:@]+@[^/@]+"), "a mail address is no host")
#: what the author of a rule hardly means; a list of URLs that were seen may well have them
_MISTAKES = (
    (re.compile(r"[0-9.]+/[0-9]{1,2}"), "an address range is no expression; it is written as 'address: ...'"),
    _ANY_PATH,
    _TWO_SCHEMES,
    (re.compile(r"[^/?#]*/?#.*"), "the whole site would be meant: what stands behind '#' is never sent"),
    (re.compile(r"[^?#]*\\.*"), "a browser sends '/' for '\\'; write that, or %5C for one that it does not change"),
    _MAIL,
)
#: What is no URL that was seen either, without a scheme, which a URL may have in front of any of them. Lists have
#: URLs such as 192.0.2.16/28, but no site has an address that ends in ".0".
_NO_ENTRY = (
    (re.compile(r"[0-9.]*\.0/[0-9]{1,2}"), "an address range is no URL; the format 'addresses' reads ranges"),
    _MAIL,
)
#: what no name of a host has that can be looked up: it tells that the entry is something else, or several of them
_ODD_OCTET = re.compile(rb"[^a-z0-9._%-]")
_IPV6 = re.compile(rb"\[[0-9a-f:]+\]")
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")


# Nearly every entry of a long list is canonical as it stands. A name is so where it has none but plain labels, and the
# last begins with a letter: it is no address then, and no number. A path is so without empty segments, without those
# that begin with a dot, and without everything that canonicalization, ``_NO_RULE`` or a server's reading could change.
_NAME = r"(?:[a-z0-9_-]++\.)*+[a-z][a-z0-9_-]*+"
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_PATH = r"(?:/[A-Za-z0-9!$&'()+,:=@_~-][A-Za-z0-9!$&'()+,:=@_~.-]*+)*+/?+"
_is_plain_name = re.compile(_NAME).fullmatch
# A range of addresses looks like the page "/24" of one.
_plain = re.compile(
    rf"(?:https?://|(?![0-9.]*\.0/[0-9]{{1,2}}$))((?:{_NAME}|{_OCTET}(?:\.{_OCTET}){{3}}){_PATH})"
).fullmatch


def plain_name(text: str) -> Expression | None:
    """The expression of a host's name that is canonical as it stands; ``None`` is no verdict."""
    return Expression(text.encode() + b"/") if _is_plain_name(text) else None


def plain_expression(text: str) -> Expression | None:
    """The same of a text with a path, too.

    >>> str(plain_expression("video.example/live")), plain_expression("video.example/a/../live")
    ('video.example/live', None)
    """
    if match := _plain(text):
        plain = match[1]
        return Expression(plain.encode() if "/" in plain else plain.encode() + b"/")
    return None


_are_plain_names = re.compile(rf"(?:{_NAME}\n)*+{_NAME}".encode()).fullmatch


def plain_names(lines: bytes) -> list[bytes] | None:
    r"""The expressions of many lines with nothing but such names; ``None`` is no verdict.

    >>> plain_names(b"a.example\nb.example\n"), plain_names(b"a.example\n127.1")
    ([b'a.example/', b'b.example/'], None)
    """
    lines = lines.removesuffix(b"\n")
    return (lines.replace(b"\n", b"/\n") + b"/").split(b"\n") if _are_plain_names(lines) else None


def parse_expression(text: str) -> Expression:
    """An expression in the clear, canonicalized as live traffic is; scheme, port and the like are tolerated.

    >>> str(parse_expression("https://Ads.Example:443/a/../b/"))
    'ads.example/b/'

    Raises:
        UrlError: it names no host, or means something that no URL can be.
    """
    return plain_expression(text) or canonicalize_expression(text)


def canonicalize_expression(text: str) -> Expression:
    """The same without a look at whether it is canonical as it stands.

    Raises:
        UrlError: as above.
    """
    _refuse(_NO_RULE, text)
    parts = safebrowsing.SAFEBROWSING.apply(safebrowsing.parse(text))
    if b"*" in (parts.host or b""):
        raise UrlError(text, _NO_WILDCARD)
    return Expression(own_expression(parts))


def parse_written_expression(text: str) -> Expression:
    """An expression that a person wrote as a rule.

    Raises:
        UrlError: as above, or it would be read as something else than its author means.
    """
    _refuse(_MISTAKES, text)
    return plain_expression(text) or _with_plain_host(canonicalize_expression(text), text)


def parse_listed_expression(text: str) -> Expression:
    """An expression or a URL of somebody else's list.

    Raises:
        UrlError: as above, or it is something else than one URL.
    """
    if expression := plain_expression(text):
        return expression
    if not _SCHEME.match(text):
        _refuse(_NO_ENTRY, text)
    _refuse((_ANY_PATH, _TWO_SCHEMES), text)
    return _with_plain_host(canonicalize_expression(text), text)


def _with_plain_host(expression: Expression, text: str) -> Expression:
    host = expression.value.partition(b"/")[0]
    if not _IPV6.fullmatch(host) and (odd := _ODD_OCTET.search(host)):
        raise UrlError(text, f"no name of a host has {odd[0].decode('ascii', 'backslashreplace')!r} in it")
    return expression


def _refuse(mistakes: Iterable[tuple[re.Pattern[str], str]], text: str) -> None:
    behind_scheme = _SCHEME.sub("", text.strip(), count=1)
    for mistake, why in mistakes:
        if mistake.fullmatch(behind_scheme):
            raise UrlError(text, why)


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
