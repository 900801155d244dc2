"""IP literals of the grammar of URIs: IPv6 addresses, and addresses of future versions.

Each function reads ``text`` from ``start``; ``end`` is the end of the authority. Results and positions of errors are
offsets in the whole text. An error's position is that of the first octet that is not allowed.

Spec: RFC 3986, 3.2.2 and Appendix A; each rule is above the code that reads it
"""

from __future__ import annotations

import re

from hushlist.errors import UrlError

_HEXDIG = frozenset(b"0123456789ABCDEFabcdef")


def ip_literal(text: bytes, start: int, end: int) -> int:
    """The end of the literal whose "[" is at ``start``.

    >>> ip_literal(b"http://[::1]:80", 7, 15)
    12

    Raises:
        UrlError: it is not an IP literal; the position is that of the fault.
    """
    # 'IP-literal = "[" ( IPv6address / IPvFuture  ) "]"'
    is_future = text[start + 1 : start + 2] in (b"v", b"V")
    return (_ipv_future if is_future else _ipv6_address)(text, start + 1, end) + 1


# 'IPvFuture = "v" 1*HEXDIG "." 1*( unreserved / sub-delims / ":" )'
_VERSION = re.compile(rb"[vV][0-9A-Fa-f]*+")
_FUTURE_ADDRESS = re.compile(rb"[A-Za-z0-9\-._~!$&'()*+,;=:]*+")


def _ipv_future(text: bytes, start: int, end: int) -> int:
    dot = start + len(_take(_VERSION, text, start, end))
    if dot == start + 1 or not text.startswith(b".", dot, end):
        raise _expected(text, dot, end, "'v', hexadecimal digits and '.' begin an IP literal of a future version")
    close = dot + 1 + len(_take(_FUTURE_ADDRESS, text, dot + 1, end))
    if close == dot + 1 or not text.startswith(b"]", close, end):
        reason = "an IP literal of a future version has unreserved characters, sub-delims and ':' behind the '.'"
        raise _expected(text, close, end, reason)
    return close


def _expected(text: bytes, position: int, end: int, reason: str) -> UrlError:
    """The error at a position: the reason, or at the end of the authority what is missing."""
    return UrlError(text, "an IP literal ends with ']'" if position == end else reason, position)


# 'IPv6address =                            6( h16 ":" ) ls32
#              /                       "::" 5( h16 ":" ) ls32
#              / [               h16 ] "::" 4( h16 ":" ) ls32
#              / [ *1( h16 ":" ) h16 ] "::" 3( h16 ":" ) ls32
#              / [ *2( h16 ":" ) h16 ] "::" 2( h16 ":" ) ls32
#              / [ *3( h16 ":" ) h16 ] "::"    h16 ":"   ls32
#              / [ *4( h16 ":" ) h16 ] "::"              ls32
#              / [ *5( h16 ":" ) h16 ] "::"              h16
#              / [ *6( h16 ":" ) h16 ] "::"'
# 'ls32 = ( h16 ":" h16 ) / IPv4address'
# Together they mean: eight groups; or at most seven, and "::" once. The last two groups can be an IPv4address.
_GROUPS = 8
# 'h16 = 1*4HEXDIG'
_H16 = re.compile(rb"[0-9A-Fa-f]{1,4}+")
_SEPARATOR = re.compile(rb":{0,2}+")


def _ipv6_address(text: bytes, start: int, end: int) -> int:
    """The offset of the "]" after the address."""
    position, groups, most = start, 0, _GROUPS
    while True:
        separator = _take(_SEPARATOR, text, position, end)
        if separator and groups == most:
            raise _too_many_groups(text, position, most)
        if separator == b"::":
            if most < _GROUPS:
                raise UrlError(text, "an IPv6 address has '::' only once", position + 1)
            most = _GROUPS - 1
        elif separator == b":" and not groups:
            raise _expected(text, position + 1, end, "an IPv6 address can begin with '::', not with ':'")
        elif groups and not separator:
            raise _behind_group(text, position, end)
        position += len(separator)
        if separator == b"::" and text.startswith(b"]", position, end):
            return position
        group = _H16.match(text, position, end)
        if group is None:
            reason = "expected a group of an IPv6 address: one to four hexadecimal digits"
            raise _expected(text, position, end, reason)
        if groups == most:
            raise _too_many_groups(text, position, most)
        position = group.end()
        if text.startswith(b".", position, end):
            if groups + 2 > most or groups + 2 < most == _GROUPS:
                raise UrlError(text, "an IPv4 address stands only for the last two groups of an IPv6 address", position)
            return _ipv4_address(text, group, end)
        groups += 1
        if text.startswith(b"]", position, end):
            if groups < most == _GROUPS:
                raise UrlError(text, "an IPv6 address has eight groups, or '::' in the place of some", position)
            return position


def _too_many_groups(text: bytes, position: int, most: int) -> UrlError:
    beside = "" if most == _GROUPS else "; beside '::', at most seven"
    return UrlError(text, "an IPv6 address has at most eight groups" + beside, position)


def _behind_group(text: bytes, position: int, end: int) -> UrlError:
    if position < end and text[position] in _HEXDIG:
        return UrlError(text, "a group of an IPv6 address has at most four hexadecimal digits", position)
    if text.startswith(b"%", position, end):
        # 3.2.2: "This syntax does not support IPv6 scoped addressing zone identifiers."
        return UrlError(text, "an IPv6 address in a URI has no zone", position)
    return _expected(text, position, end, "an IPv6 address has only hexadecimal digits, ':' and '.'")


# 'dec-octet = DIGIT                 ; 0-9
#            / %x31-39 DIGIT         ; 10-99
#            / "1" 2DIGIT            ; 100-199
#            / "2" %x30-34 DIGIT     ; 200-249
#            / "25" %x30-35          ; 250-255'
_DEC_OCTET = re.compile(rb"25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9][0-9]|[0-9]")
# 'IPv4address = dec-octet "." dec-octet "." dec-octet "." dec-octet'
IPV4_ADDRESS = re.compile(rb"(?:%b)(?:\.(?:%b)){3}" % (_DEC_OCTET.pattern, _DEC_OCTET.pattern))
_NO_DEC_OCTET = "a number of an IPv4 address is one from 0 to 255, without leading zeros"


def _ipv4_address(text: bytes, first: re.Match[bytes], end: int) -> int:
    """The offset of the "]" after an IPv4address; ``first`` is its first number."""
    position = first.end()
    if not _DEC_OCTET.fullmatch(first[0]):
        raise UrlError(text, _NO_DEC_OCTET, position)
    for _ in range(3):
        if not text.startswith(b".", position, end):
            raise _expected(text, position, end, "an IPv4 address has four numbers with '.' between them")
        number = _DEC_OCTET.match(text, position + 1, end)
        if number is None:
            raise _expected(text, position + 1, end, _NO_DEC_OCTET)
        position = number.end()
        if text[position : position + 1].isdigit():
            raise UrlError(text, _NO_DEC_OCTET, position)
    if not text.startswith(b"]", position, end):
        raise _expected(text, position, end, "nothing follows the IPv4 address of an IPv6 address")
    return position


def _take(pattern: re.Pattern[bytes], text: bytes, start: int, end: int) -> bytes:
    """The longest beginning that the pattern allows; it may be empty."""
    match = pattern.match(text, start, end)
    return b"" if match is None else match[0]
