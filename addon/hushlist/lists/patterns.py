"""Patterns from text: expressions, hashes, address ranges.

The ``parse_...`` functions raise ``UrlError`` or ``ValueError`` with a reason for people; their callers know file and
line. The ``read_...`` functions are for third-party lists: they leave out a bad entry with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from hushlist.errors import UrlError
from hushlist.lists.list_source import ListDefaults, OwnTerms, ProblemReport
from hushlist.match.expressions import FULL_LENGTH, SHORTEST_PREFIX, own_expression
from hushlist.match.rule import Action, Expression, ExpressionHash
from hushlist.url import safebrowsing
from hushlist.url.host import EMBEDDING

_NO_WILDCARD = "'*' is no wildcard here; a rule fits its host, all hosts below it, and all paths below it"
#: text that is never a rule, in any list; compared without the scheme
_NO_RULE = (
    (re.compile(r".*\s.*", re.DOTALL), "there is white space in it"),
    (re.compile(r"[0-9]+"), "a number alone is no host; an address has dots or colons"),
    (re.compile(r"[^/?#]*\*.*"), _NO_WILDCARD),
    (re.compile(r"[^/?#]*[|^].*"), "'|' and '^' have no meaning here"),
)
_TWO_SCHEMES = (re.compile(r"[^/?#]*://.*"), "what stands in front of '://' is no host")
_ANY_PATH = (re.compile(r".*/\*"), _NO_WILDCARD)
_MAIL = (re.compile(r"[^/:@]+@[^/@]+"), "a mail address is no host")
#: text that is most likely a mistake in a rule that a person wrote; a list of URLs that were seen may have it
_MISTAKES = (
    (re.compile(r"[0-9.]+/[0-9]{1,2}"), "an address range is no expression; it is written as 'address: ...'"),
    _ANY_PATH,
    _TWO_SCHEMES,
    (re.compile(r"[^/?#]*/?#.*"), "the whole site would be meant: what stands behind '#' is never sent"),
    (re.compile(r"[^?#]*\\.*"), "a browser sends '/' for '\\'; write that, or %5C for one that it does not change"),
    _MAIL,
)
#: Text without a scheme that is never a URL; with a scheme, each could be one. Lists have URLs such as 192.0.2.16/28,
#: but no site has an address that ends in ".0".
_NO_ENTRY = (
    (re.compile(r"[0-9.]*\.0/[0-9]{1,2}"), "an address range is no URL; the format 'addresses' reads ranges"),
    _MAIL,
)
#: an octet that no host name in the DNS has: the entry is something else, or has several names
_ODD_OCTET = re.compile(rb"[^a-z0-9._%-]")
_IPV6 = re.compile(rb"\[[0-9a-f:]+\]")
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")


# Nearly every entry of a long list is already canonical. A name is, if all its labels are plain and the last begins
# with a letter: then it is not an address or a number. A path is, if no segment is empty or begins with a dot, and
# nothing in it concerns canonicalization, ``_NO_RULE`` or another path interpretation.
_NAME = r"(?:[a-z0-9_-]++\.)*+[a-z][a-z0-9_-]*+"
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_PATH = r"(?:/[A-Za-z0-9!$&'()+,:=@_~-][A-Za-z0-9!$&'()+,:=@_~.-]*+)*+/?+"
_is_plain_name = re.compile(_NAME).fullmatch
# A range of addresses looks like the page "/24" of an address.
_plain = re.compile(
    rf"(?:https?://|(?![0-9.]*\.0/[0-9]{{1,2}}$))((?:{_NAME}|{_OCTET}(?:\.{_OCTET}){{3}}){_PATH})"
).fullmatch


def plain_name(text: str) -> Expression | None:
    """The expression of a host name that is already canonical; ``None`` means only that a closer look is needed."""
    return Expression(text.encode() + b"/") if _is_plain_name(text) else None


def plain_expression(text: str) -> Expression | None:
    """The same for a host with a path, too.

    >>> str(plain_expression("video.example/live")), plain_expression("video.example/a/../live")
    ('video.example/live', None)
    """
    if match := _plain(text):
        plain = match[1]
        return Expression(plain.encode() if "/" in plain else plain.encode() + b"/")
    return None


_are_plain_names = re.compile(rf"(?:{_NAME}\n)*+{_NAME}".encode()).fullmatch


def plain_names(lines: bytes) -> list[bytes] | None:
    r"""The expressions of many lines, if each is such a name; ``None`` means only that a closer look is needed.

    >>> plain_names(b"a.example\nb.example\n"), plain_names(b"a.example\n127.1")
    ([b'a.example/', b'b.example/'], None)
    """
    lines = lines.removesuffix(b"\n")
    return (lines.replace(b"\n", b"/\n") + b"/").split(b"\n") if _are_plain_names(lines) else None


def parse_expression(text: str) -> Expression:
    """An expression in the clear, canonicalized like live traffic; a scheme, a port and the like are dropped.

    >>> str(parse_expression("https://Ads.Example:443/a/../b/"))
    'ads.example/b/'

    Raises ``UrlError`` if it names no host, or fits no URL.
    """
    return plain_expression(text) or canonicalize_expression(text)


def canonicalize_expression(text: str) -> Expression:
    """The same, without the short cut for text that is already canonical."""
    _refuse(_NO_RULE, text)
    parts = safebrowsing.SAFEBROWSING.apply(safebrowsing.parse(text))
    if b"*" in (parts.host or b""):
        raise UrlError(text, _NO_WILDCARD)
    return Expression(own_expression(parts))


def parse_written_expression(text: str) -> Expression:
    """An expression that a person wrote as a rule; ``UrlError`` also if its author most likely means something else."""
    _refuse(_MISTAKES, text)
    return plain_expression(text) or _with_plain_host(canonicalize_expression(text), text)


def parse_listed_expression(text: str) -> Expression:
    """An expression or a URL of a third-party list; ``UrlError`` also if it is not one URL."""
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
    """The SHA-256 of an expression in hexadecimal, or its first 4 to 31 octets; ``ValueError`` for anything else."""
    if not _HEX.fullmatch(text):
        raise ValueError("expected pairs of hexadecimal digits")
    value = bytes.fromhex(text)
    if not SHORTEST_PREFIX <= len(value) <= FULL_LENGTH:
        raise ValueError(f"expected {2 * SHORTEST_PREFIX} to {2 * FULL_LENGTH} hexadecimal digits, not {len(text)}")
    return ExpressionHash(value)


def parse_address_range(text: str) -> IPv4Network | IPv6Network:
    """An address or a range in CIDR notation; ``ValueError`` if it is neither, or bits are set after the prefix."""
    network = ip_network(text)
    if isinstance(network, IPv6Network) and any(map(network.subnet_of, EMBEDDING)):
        raise ValueError("addresses that stand for IPv4 ones are compared as these: write the range as IPv4")
    return network


_PATH_OR_QUERY = re.compile(r"[/?#@\\]")
#: the terms of a list's exception; only a list that blocks can have exceptions
EXCEPTION = OwnTerms(action=Action.ALLOW)


def read_expression(text: str, line: int, report: ProblemReport) -> Expression | None:
    """An expression in the clear, or ``None``; a leading "*." changes nothing."""
    try:
        return parse_listed_expression(text.removeprefix("*."))
    except UrlError as error:
        report.leave_out(line, text, error.reason)
        return None


def read_name(text: str, line: int, report: ProblemReport) -> Expression | None:
    """A domain, or ``None``."""
    if expression := plain_name(text):
        return expression
    if _PATH_OR_QUERY.search(text):
        report.leave_out(line, text, "a domain has neither user nor path")
        return None
    return read_expression(text, line, report)


def read_prefix(text: str, line: int, report: ProblemReport) -> tuple[Expression, ...]:
    """The expressions of an entry that is the beginning of a URL.

    A path means the page, and the folder of that name.

    >>> [str(expression) for expression in read_prefix("site.example/en", 1, ProblemReport("f"))]
    ['site.example/en', 'site.example/en/']
    """
    page = read_expression(text, line, report)
    if page is None:
        return ()
    if page.value.endswith(b"/") or page.value.find(b"?") >= 0:  # "find" is faster than "in"
        return (page,)
    return page, Expression(page.value + b"/")


def may_except(defaults: ListDefaults) -> bool:
    """Whether a list may have exceptions: a list that only tags must not allow anything."""
    return defaults.action in (None, Action.BLOCK)


@lru_cache(maxsize=64)  # most lists have only one
def is_sinkhole(text: str) -> bool | None:
    """Whether an address leads nowhere: it is unspecified or loopback.

    ``None`` if the text is not an address.

    >>> is_sinkhole("0.0.0.0"), is_sinkhole("::1"), is_sinkhole("192.0.2.1"), is_sinkhole("x")
    (True, True, False, None)
    """
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return address.is_unspecified or address.is_loopback


ONLY_FULL = "only a full hash of 64 hexadecimal digits can allow, not a prefix of one"


def may_be_rule(pattern: ExpressionHash, action: Action | None) -> bool:
    """Whether a hash can be a rule: "a prefix that an attacker can collide with must never open a door"."""
    return action is not Action.ALLOW or pattern.is_full
