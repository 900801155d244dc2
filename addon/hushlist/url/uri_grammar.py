"""A validating parser for URIs; it names each fault and its position.

>>> parse_uri("http://[2001:db8::7]:80/a%20b?q").host
b'[2001:db8::7]'
>>> parse_uri("http://example.com:8o/")
Traceback (most recent call last):
    ...
hushlist.errors.UrlError: 'http://example.com:8o/': a port has only digits (at position 20)

A fault's position is the offset of the first octet that is not allowed, or the length if something is missing. The text
before it is the beginning of some URI. Only one question needs a look ahead: an "@" anywhere in the authority decides
whether ``a:b`` begins user information or is a host with a port.

Text is read as UTF-8. Everything before a fault is US-ASCII, so its offset is the same in octets and characters.

``parts.split_generic`` splits any octets, and never fails. For valid URIs both give the same parts.

Spec: RFC 3986, Appendix A; each rule is above the code that reads it
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from hushlist.errors import UrlError
from hushlist.url.parts import Parts, to_bytes

# Each function raises ``UrlError`` if the text is not what it reads; the position is that of the fault.


def parse_uri(text: bytes | str) -> Parts:
    """Read a URI, which has a scheme and perhaps a fragment (RFC 3986, 3).

    >>> parse_uri("mailto:John.Doe@example.com").path
    b'John.Doe@example.com'
    """
    return _read(_uri, text)


def parse_uri_reference(text: bytes | str) -> Parts:
    """Read a URI, or a reference that is relative to one (RFC 3986, 4.1).

    >>> parse_uri_reference("../g;x?y#s")
    Parts(scheme=None, userinfo=None, host=None, port=None, path=b'../g;x', query=b'y', fragment=b's')
    """
    return _read(_uri_reference, text)


def parse_absolute_uri(text: bytes | str) -> Parts:
    """Read a URI without a fragment, as a base is (RFC 3986, 4.3)."""
    return _read(_absolute_uri, text)


HostRule = Literal["IPv6address", "IPvFuture", "IPv4address", "reg-name"]


def host_rule(host: bytes) -> HostRule:
    """The rule that a host, as in ``Parts``, matches.

    >>> [host_rule(host) for host in (b"192.0.2.16", b"192.0.2.256", b"[::1]", b"[v7.x]", b"")]
    ['IPv4address', 'reg-name', 'IPv6address', 'IPvFuture', 'reg-name']
    """
    end = _host(host, 0, len(host))
    if end < len(host):
        raise _stray(host, end, len(host), _REG_NAME)
    if host.startswith(b"["):
        return "IPvFuture" if host[1:2] in b"vV" else "IPv6address"
    # 3.2.2: "The syntax rule for host is ambiguous because it does not completely distinguish between an IPv4address
    # and a reg-name. In order to disambiguate the syntax, we apply the "first-match-wins" algorithm: If host matches
    # the rule for IPv4address, then it should be considered an IPv4 address literal and not a reg-name."
    return "IPv4address" if _IPV4_ADDRESS.fullmatch(host) else "reg-name"


def _read(rule: Callable[[bytes], Parts], text: bytes | str) -> Parts:
    try:
        return rule(to_bytes(text))
    except UrlError as error:
        raise UrlError(text, error.reason, error.position) from None


# -- characters ------------------------------------------------------------------------------------------------------

# 'unreserved = ALPHA / DIGIT / "-" / "." / "_" / "~"'
_UNRESERVED = rb"A-Za-z0-9\-._~"
# 'sub-delims = "!" / "$" / "&" / "'" / "(" / ")" / "*" / "+" / "," / ";" / "="'
_SUB_DELIMS = rb"!$&'()*+,;="


class _Characters(NamedTuple):
    """A rule that says only which characters a component may have."""

    #: the component, in words
    of: str
    #: matches up to the first character that is not allowed; it never backtracks
    pattern: re.Pattern[bytes]


def _any_of(of: str, also: bytes = b"") -> _Characters:
    """``*( unreserved / pct-encoded / sub-delims / also )``."""
    # 'pct-encoded = "%" HEXDIG HEXDIG'
    return _Characters(of, re.compile(rb"(?:[%b%b%b]++|%%[0-9A-Fa-f]{2})*+" % (_UNRESERVED, _SUB_DELIMS, also)))


# 'userinfo = *( unreserved / pct-encoded / sub-delims / ":" )'
_USERINFO = _any_of("user information", b":")
# 'reg-name = *( unreserved / pct-encoded / sub-delims )'
_REG_NAME = _any_of("a host")
# 'segment-nz-nc = 1*( unreserved / pct-encoded / sub-delims / "@" )'
_SEGMENT_NZ_NC = _any_of("the first segment of a relative path", b"@")
# '*( "/" segment )', where 'segment = *pchar' and 'pchar = unreserved / pct-encoded / sub-delims / ":" / "@"'; the
# delimiters before a path ensure the other rules of paths
_PATH = _any_of("a path", b":@/")
# 'query = *( pchar / "/" / "?" )'
_QUERY = _any_of("a query", b":@/?")
# 'fragment = *( pchar / "/" / "?" )'
_FRAGMENT = _any_of("a fragment", b":@/?")

_HEXDIG = frozenset(b"0123456789ABCDEFabcdef")


# Each function below reads ``text`` from ``start``; results and positions of errors are offsets in the whole text.


def _take(pattern: re.Pattern[bytes], text: bytes, start: int, end: int) -> bytes:
    """The longest beginning that the pattern allows; it may be empty."""
    match = pattern.match(text, start, end)
    return b"" if match is None else match[0]


def _require(characters: _Characters, text: bytes, start: int, end: int) -> bytes:
    """The octets from ``start`` to ``end``, if the rule allows all of them."""
    taken = _take(characters.pattern, text, start, end)
    if len(taken) < end - start:
        raise _stray(text, start + len(taken), end, characters)
    return taken


def _stray(text: bytes, position: int, end: int, characters: _Characters) -> UrlError:
    octet = text[position]
    if octet == ord("%"):
        first_is_digit = position + 1 < end and text[position + 1] in _HEXDIG
        return UrlError(text, "'%' must be followed by two hexadecimal digits", position + 1 + first_is_digit)
    if octet > 127:
        # 2: "The ABNF notation defines its terminal values to be non-negative integers (codepoints) based on the
        # US-ASCII coded character set"
        return UrlError(text, f"a URI has only US-ASCII characters: write this octet as %{octet:02X}", position)
    return UrlError(text, f"{chr(octet)!r} has no place in {characters.of}: write it as %{octet:02X}", position)


# -- URI, URI-reference, absolute-URI, relative-ref ------------------------------------------------------------------


def _uri(text: bytes) -> Parts:
    # 'URI = scheme ":" hier-part [ "?" query ] [ "#" fragment ]'
    colon = _scheme(text)
    return _behind_scheme(text[:colon], text, colon + 1)


def _absolute_uri(text: bytes) -> Parts:
    # 'absolute-URI = scheme ":" hier-part [ "?" query ]'
    parts = _uri(text.partition(b"#")[0])
    if b"#" in text:
        raise UrlError(text, "an absolute URI has no fragment", text.index(b"#"))
    return parts


def _uri_reference(text: bytes) -> Parts:
    # 'URI-reference = URI / relative-ref'; 4.1: "If the URI-reference's prefix does not match the syntax of a scheme
    # followed by its colon separator, then the URI-reference is a relative reference."
    return _uri(text) if _SCHEME_AND_COLON.match(text) else _relative_ref(text)


def _relative_ref(text: bytes) -> Parts:
    # 'relative-ref = relative-part [ "?" query ] [ "#" fragment ]'
    # 'relative-part = "//" authority path-abempty / path-absolute / path-noscheme / path-empty'
    if not text.startswith(b"/"):
        _segment_nz_nc(text)
    return _behind_scheme(None, text, 0)


# 'scheme = ALPHA *( ALPHA / DIGIT / "+" / "-" / "." )'
_SCHEME = re.compile(rb"[A-Za-z][A-Za-z0-9+\-.]*+")
_SCHEME_AND_COLON = re.compile(_SCHEME.pattern + b":")


def _scheme(text: bytes) -> int:
    """The offset of the colon after the scheme."""
    end = len(_take(_SCHEME, text, 0, len(text)))
    if not end:
        raise UrlError(text, "a URI begins with a scheme, and that with a letter", 0)
    if text[end : end + 1] != b":":
        raise UrlError(text, "a scheme has only letters, digits, '+', '-' and '.', and ends with ':'", end)
    return end


# Appendix B, without the scheme.
# 3.2: "The authority component is preceded by a double slash ("//") and is terminated by the next slash ("/"), question
# mark ("?"), or number sign ("#") character, or by the end of the URI."
_BEHIND_SCHEME = re.compile(rb"(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)


def _behind_scheme(scheme: bytes | None, text: bytes, start: int) -> Parts:
    """All parts; ``start`` is behind the scheme.

    A path without an authority cannot begin with "//" (3.3). No text can break that rule: with "//" it has an
    authority. Code that joins parts must ensure it, as ``rfc3986.protect_path`` does.
    """
    # 'hier-part = "//" authority path-abempty / path-absolute / path-rootless / path-empty', '[ "?" query ]',
    # '[ "#" fragment ]'
    match = _BEHIND_SCHEME.fullmatch(text, start)
    assert match is not None
    userinfo, host, port = (None,) * 3 if match[1] is None else _authority(text, *match.span(1))
    path = _require(_PATH, text, *match.span(2))
    query = None if match[3] is None else _require(_QUERY, text, *match.span(3))
    fragment = None if match[4] is None else _require(_FRAGMENT, text, *match.span(4))
    return Parts(scheme, userinfo, host, port, path, query, fragment)


_FIRST_SEGMENT = re.compile(rb"[^/?#]*")


def _segment_nz_nc(text: bytes) -> None:
    # 'path-noscheme = segment-nz-nc *( "/" segment )'
    end = len(_take(_FIRST_SEGMENT, text, 0, len(text)))
    stop = len(_take(_SEGMENT_NZ_NC.pattern, text, 0, end))
    if text[stop : stop + 1] == b":":
        # 4.2: "A path segment that contains a colon character (e.g., "this:that") cannot be used as the first segment
        # of a relative-path reference, as it would be mistaken for a scheme name."
        why = (
            "what stands before the ':' is no scheme; a relative path with a ':' in its first segment begins with './'"
        )
        raise UrlError(text, why, stop)
    _require(_SEGMENT_NZ_NC, text, stop, end)


# -- authority -------------------------------------------------------------------------------------------------------


def _authority(text: bytes, start: int, end: int) -> tuple[bytes | None, bytes, bytes | None]:
    # 'authority = [ userinfo "@" ] host [ ":" port ]'
    userinfo = None
    at = text.find(b"@", start, end)
    if at >= 0 and text[start] != ord("["):  # user information cannot begin with it
        userinfo, start = _require(_USERINFO, text, start, at), at + 1
    host = _host(text, start, end)
    if host == end:
        return userinfo, text[start:end], None
    if text[host] != ord(":"):
        if text[start] == ord("["):
            raise UrlError(text, "behind the ']' of an IP literal there can only be a port", host)
        raise _stray(text, host, end, _REG_NAME)
    # 'port = *DIGIT'
    if stray := _NOT_DIGIT.search(text, host + 1, end):
        raise UrlError(text, "a port has only digits", stray.start())
    return userinfo, text[start:host], text[host + 1 : end]


_NOT_DIGIT = re.compile(rb"[^0-9]")


def _host(text: bytes, start: int, end: int) -> int:
    # 'host = IP-literal / IPv4address / reg-name'; every IPv4address has the characters of a reg-name
    if text.startswith(b"[", start, end):
        return _ip_literal(text, start, end)
    return start + len(_take(_REG_NAME.pattern, text, start, end))


# -- IP literals -----------------------------------------------------------------------------------------------------


def _ip_literal(text: bytes, start: int, end: int) -> int:
    """The end of the literal whose "[" is at ``start``."""
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
_IPV4_ADDRESS = re.compile(rb"(?:%b)(?:\.(?:%b)){3}" % (_DEC_OCTET.pattern, _DEC_OCTET.pattern))
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
