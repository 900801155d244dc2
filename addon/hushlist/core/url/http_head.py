"""From a message's head to a ``Request``: raw octets, every host that it names, and faults that smuggle requests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum, auto
from functools import lru_cache, partial
from itertools import chain
from typing import Protocol

from hushlist.core.errors import Excess, UrlError
from hushlist.core.system.late_pattern import late_pattern
from hushlist.core.url.header_names import AS_READ, believed_values
from hushlist.core.url.host import DELIMITERS, LONGEST_NAME, idna_2003, is_address, parse_address
from hushlist.core.url.normalization import unescape_once
from hushlist.core.url.parts import rooted, split_web_authority, to_bytes
from hushlist.core.url.request import (
    LONGEST_TARGET,
    MOST_HOSTS,
    Request,
    canonical_host,
    readable_host,
    request_as_written,
)
from hushlist.core.url.request_bodies import LONGEST_WHOLE_BODY, may_be_request, values_of


class HeaderFields(Protocol):
    @property
    def fields(self) -> Sequence[Sequence[bytes]]:
        """Names and values, as sent."""


class HttpHead(Protocol):
    """A request's head as mitmproxy has it, on a flow or in a file of flows."""

    #: the target's, or the server's if the target has none
    host: str
    #: the server's
    port: int
    method: bytes
    #: the target's; empty for a tunnel
    scheme: bytes
    #: the target's; empty if it has none
    authority: bytes
    #: with query
    path: bytes
    #: the body, where it is there
    content: bytes | None

    @property
    def headers(self) -> HeaderFields:
        """The header fields."""


class Naming(Enum):
    """Who chose the destination of a connection."""

    #: the client, which knows that it uses a proxy
    CLIENT = auto()
    #: the client, but only as an address
    ADDRESS = auto()
    #: the administrator, in reverse mode
    ADMINISTRATOR = auto()


#: whether a canonical host is one of the policy's ``keep-headers``; ``None``: there are none
Keeps = Callable[[bytes], bool] | None


def request_of_head(
    head: HttpHead, server_name: str | None, naming: Naming, *, with_media: bool = False, keeps: Keeps = None
) -> Request:
    """The request. Its hosts are the target's, then those of authority and headers, then the TLS server name.

    If it has too many hosts to be read, the last ones are left out, since they may take long to read.
    ``with_media``: with the media types that it names. Where fields that servers believe are taken out before it goes
    on (``believed_names``), they say nothing.
    """
    scheme, fields = head.scheme.lower(), head.headers.fields
    telling = _telling(fields)
    if naming is Naming.CLIENT and scheme == b"http":
        server_name = None  # the request itself has no TLS, so this is the name of the proxy
    names = partial(_names_of, head, server_name, naming)
    hosts, destination, fault_of_hosts = names(listed := [value for _, header, value in telling if header == _HOST])
    authority, fault, others = head.authority, _fault(head, telling), list[bytes]()
    if naming is Naming.ADMINISTRATOR or (keeps is not None and any(keeps(readable_host(host)) for host in hosts)):
        more, targets, prefixes, others = believed_values(fields)
        if more:
            hosts, destination, fault_of_hosts = names([*listed, *more])
        if naming is Naming.ADMINISTRATOR:
            others += targets
            if prefixes:
                others += _below(head.path, prefixes)
                fault = fault or (_TOO_MANY if len(prefixes) > MOST_HOSTS else None)
        elif any(target != head.path for target in targets) or any(prefix.strip(b"/") for prefix in prefixes):
            fault = fault or "a header in it names another target"
    user, at, _ = authority.rpartition(b"@")
    media = tuple(_media(fields)) if with_media else ()
    fault = fault or fault_of_hosts
    user_information = user if at else None
    request = Request(
        scheme, hosts, head.port, head.path, None, user_information, fault, media, destination, head.method, fields
    )
    if others:
        request.others = tuple(_others(request, others))
    return request


def _names_of(
    head: HttpHead, server_name: str | None, naming: Naming, listed: list[bytes]
) -> tuple[tuple[bytes, ...], bytes | None, str | None]:
    """Every host of a request, also of those ``listed`` in its headers, the one that no client has named, and a fault
    in them."""
    host, authority, fault = head.host, head.authority, None
    octets = sum(map(len, listed), len(host) + len(authority))
    if octets > _LONGEST_NAMES:
        fault = Excess("its names are too long")
        host, authority, *listed = host[:LONGEST_NAME], *(name[:LONGEST_NAME] for name in (authority, *listed))
        del listed[MOST_HOSTS:]
    names = _names if octets <= _LONGEST_REMEMBERED else _names.__wrapped__
    hosts, destination, fault_of_hosts = names(host, authority, tuple(listed), server_name, naming)
    return hosts, destination, fault or fault_of_hosts


# Spec: RFC 4918, 8.3: Simple-ref = absolute-URI | ( path-absolute [ "?" query ] ). Stores have paths without a slash.
_REFERENCE = late_pattern(
    rb"(?:(?:(?i:https?):|[A-Za-z][A-Za-z0-9+.-]*:(?=//))(?:[/\\]{2}([^/\\?#]*))?)?(.*)", re.DOTALL
)

_TOO_MANY = Excess("its headers name too many other targets")
#: octets of all references; by default, nginx and Apache take 8 KiB for a header field
_LONGEST_REFERENCES = 1 << 13


def _others(request: Request, references: Iterable[bytes]) -> Iterator[Request]:
    """What else of a server a request is about, by its own hosts and the reference's, which some servers do not read.

    Of more than a client could mean, the first ones are decided, of longer ones their beginnings; that is a fault.
    """
    distinct = list(dict.fromkeys(filter(None, references)))
    is_long = sum(map(len, distinct)) > _LONGEST_REFERENCES
    for number, reference in enumerate(distinct[: MOST_HOSTS + 1]):
        match = _REFERENCE.fullmatch(reference[:LONGEST_NAME] if is_long else reference)
        assert match is not None
        authority, target = match.groups()
        hosts, fault = looked_up([*request.hosts, *(_listed(authority) if authority else ())])
        if number == MOST_HOSTS:
            fault = fault or _TOO_MANY
        fault = fault or (Excess("its headers name other targets that are too long") if is_long else None)
        names = tuple(dict.fromkeys(hosts))[: MOST_HOSTS + 1]
        yield request._replace(hosts=names, target=rooted(target), fault=request.fault or fault)


def _below(path: bytes, prefixes: Sequence[bytes]) -> Iterator[bytes]:
    """What is left of the path, as sent and unescaped, without a prefix; of the first prefixes, if there are many."""
    for form in dict.fromkeys((path, unescape_once(path))):
        for prefix in prefixes[:MOST_HOSTS]:
            if form.startswith(prefix):
                yield rooted(form[len(prefix) :])


@lru_cache(1024)
def _names(
    host: str, authority: bytes, listed: tuple[bytes, ...], server_name: str | None, naming: Naming
) -> tuple[tuple[bytes, ...], bytes | None, str | None]:
    """Every host of a request, the one that no client has named, and a fault in them; cached, since sites recur."""
    hosts = [to_bytes(host)]
    if authority:
        hosts += _listed(authority)
    for value in listed:
        hosts += _listed(value)
    if server_name:
        hosts.append(to_bytes(server_name))
    if len(hosts) > MOST_HOSTS:
        hosts = list(dict.fromkeys(hosts))[: MOST_HOSTS + 1]
    hosts, fault = looked_up(hosts)
    return *named(hosts, naming), fault


def looked_up(hosts: list[bytes]) -> tuple[list[bytes], str | None]:
    """The hosts with all names that may be looked up for them, and a fault in them."""
    if _PLAIN_NAMES.fullmatch(b"".join(hosts)):
        return hosts, None
    hosts = hosts + [name for host in hosts if (name := idna_2003(host)) is not None]
    return hosts, _fault_of_hosts(hosts)


def request_of_target(url: bytes) -> Request:
    """The request for a URL that a proxy received; ``UrlError`` if the URL names no host, or its port is not valid.

    >>> request_of_target(b"http://h.example/a#b").target
    b'/a#b'

    Clients other than browsers may send a fragment or white space.
    """
    before, mark, fragment = url.partition(b"#")
    request = request_as_written(before)
    hosts, fault = looked_up(list(request.hosts))
    return request._replace(
        hosts=tuple(dict.fromkeys(hosts)),
        target=request.target + mark + fragment,
        fault=request.fault or _fault_of_target(url) or fault,
    )


def named(hosts: Iterable[bytes], naming: Naming) -> tuple[tuple[bytes, ...], bytes | None]:
    """The hosts of a request, each once, and its destination, if no client has named it.

    The first of ``hosts`` is the destination. If it is an address and there is a name, it comes last in the result.
    """
    unique = tuple(dict.fromkeys(hosts))
    if naming is Naming.CLIENT or len(unique) == 1:
        return unique, None
    first, *names = unique
    if naming is Naming.ADMINISTRATOR:
        return unique, first
    if is_address(readable_host(first)) and any(map(is_name, names)):
        return (*names, first), first
    return unique, None


def is_name(host: bytes) -> bool:
    """Whether a host is a name, not an address."""
    canonical = readable_host(host)
    return bool(canonical) and not is_address(canonical)


def _media(fields: Sequence[Sequence[bytes]]) -> Iterator[bytes]:
    """Media types without their parameters, in lower case."""
    for name, value in fields:
        if name.lower() in (b"content-type", b"accept") and len(value) <= LONGEST_HEADERS:
            for media_type in value.split(b","):
                yield media_type.partition(b";")[0].strip().lower()


def tells_body(fields: Iterable[Sequence[bytes]]) -> bool:
    """Whether header fields announce a body; in HTTP/2 they need not.

    Spec: RFC 9112, 6: "The presence of a message body in a request is signaled by a Content-Length or Transfer-Encoding
    header field"
    """
    return any(_is_of_body(header, value) for _, header, value in _telling(fields))


#: a field that says whose, or how long, a request is: its name as sent, its name as servers may read it, its value
_Telling = tuple[bytes, bytes, bytes]


def _telling(fields: Iterable[Sequence[bytes]]) -> list[_Telling]:
    """The fields that may say whose, or how long, a request is; the length of its name rules out nearly all others."""
    return [(name, name.translate(AS_READ), value) for name, value in fields if len(name) in _SIZES]


def _is_of_body(header: bytes, value: bytes) -> bool:
    return header == _ENCODING or (header == _LENGTH and bool(value.strip(b"0 \t")))


_HAS_BODY = "it has a body, which its method does not have"
_MAY_BE_REQUEST = "a line of its body may be taken for another request: send it by POST"
_TOO_LONG = f"its body has more than {LONGEST_WHOLE_BODY:,} octets: send it by POST"
_FORM = b"application/x-www-form-urlencoded"


def sends_form(head: HttpHead) -> bool:
    """Whether a request sends a form as a query has it; a server may take for one what has no type."""
    types = [value.strip().lower() for value in values_of(head.headers.fields, b"content-type")]
    return head.method != b"GET" and (not any(types) or any(_FORM in media_type for media_type in types))


def fault_of_body(head: HttpHead) -> str | None:
    """A fault in a body that was waited for; ``None`` where there is none."""
    if not head.content or head.method.upper() not in _WITHOUT_BODY:
        return None
    return _fault_of_body(head, _telling(head.headers.fields))


def _fault_of_body(head: HttpHead, telling: Iterable[_Telling]) -> str | None:
    """A fault by a body where the method has none: an origin may take it for the next request.

    Some programs ask by GET, and a body, for what a body of POST would be better for (Elasticsearch). That passes where
    nothing in it can be taken for a request. Whether there is a body that is told in chunks is not known at its head.
    """
    is_get = head.method == b"GET"
    for name, header, value in telling:
        if header in (_HOST, _CONNECTION) or not _is_of_body(header, value):  # the first is quick
            continue
        if head.method == b"CONNECT" or name.lower() != header or (header == _LENGTH and not is_get):
            return _HAS_BODY
        if header == _LENGTH and not (value.strip().isdigit() and len(value) < 20 and int(value) <= LONGEST_WHOLE_BODY):
            return _TOO_LONG
    if not head.content:
        return None
    return (_MAY_BE_REQUEST if may_be_request(head.content) else None) if is_get else _HAS_BODY


def decides_believed(request: Request, naming: Naming, keeps: Keeps = None) -> bool:
    """Whether what servers believe of a request by its ``believed_names`` is decided with it: then they go on."""
    if naming is Naming.ADMINISTRATOR:
        return True
    hosts = (host for host in request.hosts if host != request.destination or len(request.hosts) == 1)
    return keeps is not None and all(keeps(readable_host(host)) for host in hosts)


_HOST = b"host"
_LENGTH, _ENCODING = b"content-length", b"transfer-encoding"
_CONNECTION = b"connection"
_SIZES = frozenset(map(len, (_HOST, _LENGTH, _ENCODING, _CONNECTION)))
#: octets of a request's host names, in all, up to which the cache keeps them: with longer ones, a flood would fill it
_LONGEST_REMEMBERED = 512
#: octets of a request's host names, in all; longer ones cannot be read
_LONGEST_NAMES = 2 * MOST_HOSTS * LONGEST_NAME
#: octets of the authority and all header fields; for HTTP/2, mitmproxy itself takes no more
LONGEST_HEADERS = 1 << 16


class HeadLimit:
    """How long a head may be."""

    def __init__(self) -> None:
        self.octets = LONGEST_HEADERS


#: what the proxy's option says
HEAD_LIMIT = HeadLimit()

#: hosts that IDNA does not change, and that are certainly valid
_PLAIN_NAMES = re.compile(rb"[a-z0-9._-]*")

# Spec: RFC 9110, 5.6.2 and 5.5; RFC 9112, 3.2
_METHOD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_USUAL_METHODS = frozenset((b"GET", b"POST", b"HEAD", b"OPTIONS", b"PUT", b"DELETE", b"PATCH", b"CONNECT"))
# Spec: RFC 9110, 9.3.1 and 9.3.2: content "might lead some implementations to reject the request and close the
# connection because of its potential as a request smuggling attack"; 9.3.6: "does not have content", which mitmproxy
# would take for the tunnel's, and fail at its end; 9.3.8: a client "MUST NOT send content"
_WITHOUT_BODY = frozenset((b"GET", b"HEAD", b"CONNECT", b"TRACE"))
_NOT_IN_TARGET = bytes((*range(0x21), 0x7F))
_NUL, _LF, _CR = b"\0\n\r"  # an octet is found faster as a number


def _fault(head: HttpHead, telling: Iterable[_Telling]) -> str | None:
    """A fault that would make it another request, or several, when it is sent on as HTTP/1.1.

    HTTP/2 can carry any octet anywhere, and servers differ in how they read a folded line or a bare CR. An origin that
    expects no body takes a body for the next request.
    """
    method, path = head.method, head.path
    if method not in _USUAL_METHODS and not _METHOD.fullmatch(method):
        return "its method is none"
    if len(path) > LONGEST_TARGET:
        return None  # ``Request`` reports it
    if method.upper() in _WITHOUT_BODY and (fault := _fault_of_body(head, telling)) is not None:
        return fault
    if not path.startswith(b"/") and path != b"*" and method != b"CONNECT":
        return "its target is no path"
    fault = _fault_of_target(path)
    if fault is not None:
        return fault
    fields = b"".join((head.authority, *chain.from_iterable(head.headers.fields)))
    if len(fields) > HEAD_LIMIT.octets:
        return Excess(f"its headers have more than {HEAD_LIMIT.octets:,} octets")
    if _LF in fields or _CR in fields or _NUL in fields:
        return "there is a line end or a NUL in its headers"
    for name, _, value in telling:
        if name.lower() == _CONNECTION and _nominates(value):
            return "its Connection names a header that is no server's to remove"
    return None


_FOR_ALL = frozenset((_HOST, _LENGTH, _ENCODING))


def _nominates(value: bytes) -> bool:
    """Whether a Connection field has servers remove the one that says whose, or how long, the request is; what is
    behind them would answer for whichever of its hosts is the first, or take the body for the next request
    (CVE-2022-45059).

    Spec: RFC 9110, 7.6.1: it "MUST NOT" name "a field intended for all recipients of the content"
    """
    return not _FOR_ALL.isdisjoint(name.strip() for name in value.translate(AS_READ).split(b","))


def _fault_of_target(target: bytes) -> str | None:
    if len(target.translate(None, _NOT_IN_TARGET)) != len(target):
        return "there is white space or a control character in its target"
    return None


# Spec: RFC 3986, 3.2.2, reg-name, without escapes, which are decoded by then
_NAME = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=-]*")


def _fault_of_hosts(hosts: Iterable[bytes]) -> str | None:
    """A fault if a host is still not valid after canonicalization; no browser sends such a host.

    A server may still take it for a blocked host, if it cuts the host off or drops octets that are not valid.
    """
    for host in hosts:
        try:
            name = canonical_host(host)
        except UrlError:
            continue  # the engine reports it
        if not _NAME.fullmatch(name) and parse_address(name) is None:
            return "there is an octet in its host that none has"
    return None


def _listed(value: bytes) -> list[bytes]:
    """The hosts of a Host header or an authority: usually one; more if a server may take it for several lines.

    Spec: RFC 9110, 5.3: lines of one name may be combined, "in order, separated by commas"
    """
    value = value.strip()
    if _COMMA not in value and _SPACE not in value and _TAB not in value:
        return _hosts(value)
    return [_hosts(value)[0], *chain.from_iterable(map(_hosts, value.replace(b",", b" ").split()))]


_COMMA, _SPACE, _TAB = b", \t"


def _hosts(authority: bytes) -> list[bytes]:
    """The host of an authority. One with a user in it, or a whole URL, stays as it is.

    No client sends a user there, and a URL's scheme must not be taken for the host. Where the port is no number, all of
    it comes second, which nobody can decide: a server may go by how it ends.
    """
    if DELIMITERS.search(authority):
        return [authority]
    _, host, port = split_web_authority(authority)
    return [host, authority] if port and not port.isdigit() else [host]
