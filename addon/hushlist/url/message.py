"""The head of a message as a request: raw octets, every host that it goes by, and what would make two of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from enum import Enum, auto
from functools import lru_cache
from typing import Protocol

from hushlist.errors import UrlError
from hushlist.url.host import DELIMITERS, idna_2003, is_address, parse_address
from hushlist.url.parts import split_web_authority, to_bytes
from hushlist.url.request import MOST_HOSTS, Request, canonical_host


class Fields(Protocol):
    """Header fields."""

    @property
    def fields(self) -> Sequence[Sequence[bytes]]:
        """Names and values, as they stand on the wire."""


class Head(Protocol):
    """A request's head as mitmproxy has it, on a flow or in a file of flows."""

    @property
    def host(self) -> str:
        """Of the target, or of the server where the target names none."""

    @property
    def port(self) -> int:
        """The server's."""

    @property
    def method(self) -> bytes:
        """``b"GET"``."""

    @property
    def scheme(self) -> bytes:
        """Of the target; empty for a tunnel."""

    @property
    def authority(self) -> bytes:
        """Of the target; empty where it names none."""

    @property
    def path(self) -> bytes:
        """With the query."""

    @property
    def headers(self) -> Fields:
        """The header fields."""


class Naming(Enum):
    """Who has named where a request goes, before it says so itself."""

    #: the client, as of a proxy that it knows
    CLIENT = auto()
    #: nobody: the client has looked an address up, and connected to that
    ADDRESS = auto()
    #: the administrator, in front of whose server the proxy stands
    ADMINISTRATOR = auto()


def request_of_head(head: Head, server_name: str | None, naming: Naming, *, with_media: bool = False) -> Request:
    """The request, by its target first, then by its Host headers or authority, then by the TLS server name.

    Where it has too many hosts to be read, the last ones are left out, which may take long to look at.
    ``with_media``: with the media types that it names.
    """
    scheme, fields = head.scheme.lower(), head.headers.fields
    if naming is Naming.CLIENT and scheme == b"http":
        server_name = None  # without TLS of the request's own, it is by this that the client asks for the proxy itself
    # the length alone rules nearly all of them out
    listed = [value for name, value in fields if len(name) == len(_HOST) and name.lower() == _HOST]
    octets = sum(map(len, listed), len(head.host) + len(head.authority))
    names = _names if octets <= _LONGEST_REMEMBERED else _names.__wrapped__
    hosts, destination, fault = names(head.host, head.authority, tuple(listed), server_name, naming)
    user, at, _ = head.authority.rpartition(b"@")
    return Request(
        scheme,
        hosts,
        head.port,
        head.path,
        userinfo=user if at else None,
        fault=_fault(head) or fault,
        media=tuple(_media(fields)) if with_media else (),
        destination=destination,
    )


@lru_cache(1024)
def _names(
    host: str, authority: bytes, listed: tuple[bytes, ...], server_name: str | None, naming: Naming
) -> tuple[tuple[bytes, ...], bytes | None, str | None]:
    """Every host that a request goes by, that of them which no client has named, and what is wrong with them.

    A client asks the same site again and again.
    """
    hosts = [to_bytes(host)]
    if authority:
        hosts += _listed(authority)
    for value in listed:
        hosts += _listed(value)
    if server_name:
        hosts.append(to_bytes(server_name))
    if len(hosts) > MOST_HOSTS:
        hosts = list(dict.fromkeys(hosts))[: MOST_HOSTS + 1]
    fault = None
    if not _PLAIN_NAMES.fullmatch(b"".join(hosts)):
        hosts += [name for host in hosts if (name := idna_2003(host)) is not None]
        fault = _fault_of_hosts(hosts)
    return *named(hosts, naming), fault


def named(hosts: Iterable[bytes], naming: Naming) -> tuple[tuple[bytes, ...], bytes | None]:
    """The hosts of a request, of which the first is where it goes; and that one, where no client has named it.

    What was but an address comes last, if there is a name.
    """
    unique = tuple(dict.fromkeys(hosts))
    if naming is Naming.CLIENT or len(unique) == 1:
        return unique, None
    first, *names = unique
    if naming is Naming.ADMINISTRATOR:
        return unique, first
    if _is_address(first) and any(map(is_name, names)):
        return (*names, first), first
    return unique, None


def _is_address(host: bytes) -> bool:
    with suppress(UrlError):
        return is_address(canonical_host(host))
    return False


def is_name(host: bytes) -> bool:
    """Whether a host is one, and no address."""
    with suppress(UrlError):
        canonical = canonical_host(host)
        return bool(canonical) and not is_address(canonical)
    return False


def _media(fields: Sequence[Sequence[bytes]]) -> Iterator[bytes]:
    """Media types without their parameters, in lower case."""
    for name, value in fields:
        if name.lower() in (b"content-type", b"accept"):
            for one in value.split(b","):
                yield one.partition(b";")[0].strip().lower()


_HOST = b"host"
#: octets of what names hosts: of more, a flood would fill the memory
_LONGEST_REMEMBERED = 512

#: of which nothing can be another name by IDNA, or no name
_PLAIN_NAMES = re.compile(rb"[a-z0-9._-]*")

# Spec: RFC 9110, 5.6.2 and 5.5; RFC 9112, 3.2
_METHOD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_USUAL_METHODS = frozenset((b"GET", b"POST", b"HEAD", b"OPTIONS", b"PUT", b"DELETE", b"PATCH", b"CONNECT"))
_NOT_IN_TARGET = bytes((*range(0x21), 0x7F))
_NUL, _LF, _CR = b"\0\n\r"  # an octet is found faster as a number


def _fault(head: Head) -> str | None:
    """What would make another request of it, or more than one, where it is written as HTTP/1.1.

    HTTP/2 can carry any octet anywhere, and a folded line or a bare CR is read in more ways than one.
    """
    method, path = head.method, head.path
    if method not in _USUAL_METHODS and not _METHOD.fullmatch(method):
        return "its method is none"
    if not path.startswith(b"/") and path != b"*" and method != b"CONNECT":
        return "its target is no path"
    if len(path.translate(None, _NOT_IN_TARGET)) != len(path):
        return "there is white space or a control character in its target"
    fields = b"".join((head.authority, *map(b"".join, head.headers.fields)))
    if _LF in fields or _CR in fields or _NUL in fields:
        return "there is a line end or a NUL in its headers"
    return None


# Spec: RFC 3986, 3.2.2, reg-name, without its escapes, which are undone by then
_NAME = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=-]*")


def _fault_of_hosts(hosts: Iterable[bytes]) -> str | None:
    """What is wrong where a host stays none after all is done to read it: no browser sends such a one.

    A server may still take it for one that is blocked, by cutting it off or by leaving out what does not belong there.
    """
    for host in hosts:
        try:
            name = canonical_host(host)
        except UrlError:
            continue  # the engine says what is wrong
        if not _NAME.fullmatch(name) and parse_address(name) is None:
            return "there is an octet in its host that none has"
    return None


def _listed(value: bytes) -> list[bytes]:
    """The hosts of a Host header or an authority: one, and more where a server may take it for several lines in one.

    Spec: RFC 9110, 5.3: lines of one name may be combined, "in order, separated by commas"
    """
    value = value.strip()
    host = _host(value)
    if _COMMA not in value and _SPACE not in value and _TAB not in value:
        return [host]
    return [host, *map(_host, value.replace(b",", b" ").split())]


_COMMA, _SPACE, _TAB = b", \t"


def _host(authority: bytes) -> bytes:
    """The host of an authority; one with a user in it is no host that a client would send, and stays as it is.

    So does one that would be a URL, whose scheme is not to be taken for the host.
    """
    return authority if DELIMITERS.search(authority) else split_web_authority(authority)[1]
