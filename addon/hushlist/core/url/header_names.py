"""What servers take header fields for, by their names: how they may read one, and by which a request is another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from hushlist.core.system.late_pattern import late_pattern

# Spec: RFC 3875, 4.1.18: "replacing all "-" characters with "_"": to a program behind CGI, and to what took its names
# over (WSGI, Rack, PHP), X_Host is X-Host. PHP replaces a dot, too.
AS_READ = bytes(range(256)).lower().translate(bytes.maketrans(b"_.", b"--"))


# What servers believe of a request beside its own line and Host. No browser sends such a field; in front of a server,
# another may have set it: then it is decided, too.
# Many servers take these for Host.
_OTHER_HOSTS = frozenset((b"x-host", b"x-forwarded-host", b"x-original-host", b"x-http-host-override"))
_OTHER_HOSTS |= {b"x-forwarded-server"}  # Jetty's ForwardedRequestCustomizer
_OTHER_HOSTS |= {b"x-wsgiproxy-http-host"}  # WSGIProxy's middleware, of which are the next two as well
_FORWARDED, _FORWARDED_HOST = b"forwarded", late_pattern(rb"(?:^|[;,])[ \t]*(?i:host)[ \t]*=[ \t]*\"?([^\";,]*)")
# Some servers (IIS, Symfony, Zend) take these for the target.
_TARGETS = frozenset((b"x-original-url", b"x-rewrite-url", b"x-original-uri", b"x-forwarded-uri", b"x-override-url"))
_TARGETS |= {b"x-forwarded-path", b"x-invoke-path", b"x-matched-path"}  # of these, Next.js takes the last two
_TARGETS |= {b"x-wsgiproxy-path-info"}
# What gunicorn, and snippets for Flask and Django that many have copied, take from the beginning of the path.
_PREFIXES = frozenset((b"script-name", b"x-script-name", b"x-forwarded-prefix"))
_PREFIXES |= {b"x-wsgiproxy-script-name", b"x-traversal-path"}
# Where a server is to copy or move to (WebDAV), or to copy from: Swift, S3, and the stores of Google, Azure, Alibaba,
# Tencent, Huawei, Baidu and Volcano Engine.
_OTHERS = frozenset((b"destination", b"x-copy-from", b"x-amz-rename-source", b"x-ms-rename-source"))
_OTHERS |= {b"x-%b-copy-source" % name for name in (b"amz", b"goog", b"ms", b"oss", b"cos", b"obs", b"bce", b"tos")}
_BELIEVED = _OTHER_HOSTS | _TARGETS | _PREFIXES | _OTHERS | {_FORWARDED}
_BELIEVED_SIZES = frozenset(map(len, _BELIEVED))
#: all of these, and what is like them, as a program behind CGI reads its name
_TAKEN_OUT = late_pattern(
    rb"""forwarded
       | x-forwarded-(?!(?:for|proto|port)\Z).*
       | x-(?:original|rewrite|wsgiproxy|invoke)-.*
       | x-(?:host|http-host-override|override-ur[il]|matched-path)
       | (?:.*-)?script-name
       | (?:.*-)?traversal-path
       | destination
       | x-(?:.*-)?(?:copy|move|rename|fetch)-(?:source|from|to|target|destination|ur[il])(?:-.*)?
    """,
    re.VERBOSE | re.DOTALL,
)
#: octets of a name that the cache keeps
_LONGEST_KNOWN_NAME = 64


def believed_names(fields: Iterable[Sequence[bytes]]) -> set[bytes]:
    """The names of header fields, as they were sent, by which servers take a request for another.

    >>> believed_names([(b"X_Forwarded-Host", b"a"), (b"X-Forwarded-For", b"b")])
    {b'X_Forwarded-Host'}
    """
    names: set[bytes] = set()
    for name, _ in fields:
        if _is_known(name) if len(name) <= _LONGEST_KNOWN_NAME else _is_known.__wrapped__(name):
            names.add(name)
    return names


def as_read(name: bytes) -> bytes:
    """The name of a field as servers may read it, such as those that make a variable of it.

    >>> as_read(b"X_Forwarded.Host")
    b'x-forwarded-host'
    """
    return name.translate(AS_READ)


def is_believed(name: bytes) -> bool:
    """Whether servers take a request for another by a field of this name."""
    return _TAKEN_OUT.fullmatch(as_read(name)) is not None


#: fields that say where a message ends or goes, by which client, proxy and server would come to disagree
_FRAMING = frozenset(
    (
        *(b"connection", b"content-encoding", b"content-length", b"content-range", b"expect", b"host", b"keep-alive"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade"),
    )
)


def is_bound(name: bytes) -> bool:
    """Whether a field of this name says where a message ends or goes, so that nobody may remove or set it."""
    return (read := as_read(name.lower())) in _FRAMING or is_believed(read)


_is_known = lru_cache(1024)(is_believed)


def believed_values(fields: Sequence[Sequence[bytes]]) -> tuple[list[bytes], list[bytes], list[bytes], list[bytes]]:
    """What header fields besides Host say that a server may take for its host, for the target, for a prefix of it that
    does not count, and for another one besides.

    Spec: RFC 9110, 7.2; RFC 7239, 5.3; RFC 4918, 10.3
    """
    # the length alone rules out most fields
    pairs = [
        (header, value)
        for name, value in fields
        if len(name) in _BELIEVED_SIZES and (header := name.translate(AS_READ)) in _BELIEVED
    ]
    listed: list[bytes] = []
    if not pairs:
        return listed, [], [], []
    for name, value in pairs:
        if name in _OTHER_HOSTS:
            listed.append(value)
        elif name == _FORWARDED:
            listed += _FORWARDED_HOST.findall(value)
    targets, prefixes, others = (
        [value.strip() for name, value in pairs if name in names] for names in (_TARGETS, _PREFIXES, _OTHERS)
    )
    return listed, targets, prefixes, others
