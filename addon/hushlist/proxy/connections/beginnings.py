"""Tells by its first octets whether a connection carries HTTP or TLS, and by its port who speaks first.

What is no HTTP for mitmproxy may be HTTP for a server that takes less care: see ``begins_http``.
"""

from __future__ import annotations

import re

#: ports of protocols in which the server speaks first, or that are nothing for a browser: those are decided at once
OTHER_PORTS = frozenset((21, 22, 23, 25, 110, 119, 143, 587, 1883, 3306, 4190, 5222, 5269, 5900))
#: the same, within TLS
OTHER_TLS_PORTS = OTHER_PORTS | {465, 563, 990, 992, 993, 994, 995, 5223, 6697, 8883}
#: ports on which a client sends a ClientHello or a request without being asked
CLIENT_FIRST_PORTS = frozenset(
    (80, 443, 465, 563, 636, 853, 989, 990, 992, 993, 994, 995, 5061, 5223, 6697, 8080, 8443, 8883)
)

#: octets of a first line that has not ended, from which on it is a request's
_LONGEST_LINE = 4096
_METHODS = (
    b"GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH PROPFIND PROPPATCH MKCOL COPY MOVE LOCK UNLOCK REPORT SEARCH"
).split()
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VERSION = re.compile(rb"HTTP/1\.[0-9]")
#: targets of HTTP/0.9, which names no version. Spec: RFC 1945, 4.1
_OLD_TARGET = re.compile(rb"/|\*|https?:")
_PART_OF_LINE = re.compile(rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+(?:[ \t][^\r\n]*\r?)?)?")


def begins_http(data: bytes) -> bool | None:
    r"""Whether a client begins with a request of HTTP/1, or line ends before one; ``None`` as long as it may be one.

    >>> begins_http(b"GET / HTTP/1.1\r\n"), begins_http(b"SSH-2.0-x\r\n"), begins_http(b"GET /"), begins_http(b"\x10")
    (True, False, None, False)
    """
    line, end, _ = data.lstrip(b"\r\n\t ").partition(b"\n")
    if end:
        method, *rest = line.split() or (b"",)
        if not rest or not _TOKEN.fullmatch(method):
            return False
        is_old = len(rest) == 1 and method in _METHODS and _OLD_TARGET.match(rest[0]) is not None
        return is_old or _VERSION.fullmatch(rest[-1]) is not None
    if not _PART_OF_LINE.fullmatch(line):
        return False
    return None if len(line) < _LONGEST_LINE else True


def may_become_http(data: bytes) -> bool:
    """Whether what has no line yet begins as requests do: many a protocol begins with letters.

    >>> may_become_http(b"GET /a"), may_become_http(b"P"), may_become_http(b"PING"), may_become_http(b"hello")
    (True, True, False, False)
    """
    line = data.lstrip(b"\r\n\t ")
    method, space, _ = line.partition(b" ")
    return method in _METHODS if space else bool(line) and any(name.startswith(method) for name in _METHODS)
