"""A request as it stands on the wire, and every canonical URL that it may mean.

>>> [form.join() for form in canonical_forms(request_of("http://h.example/x//../bad"), b"h.example")]
[b'http://h.example/x/bad', b'http://h.example/bad', b'http://h.example/x/../bad']
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hushlist.errors import UrlError
from hushlist.url import percent, safebrowsing
from hushlist.url.host import DELIMITERS, LONGEST_NAME, is_plain_name
from hushlist.url.parts import DEFAULT_PORTS, Parts, rooted, split_web, split_web_authority, to_bytes
from hushlist.url.readings import readings

#: a request goes by its target, its Host or authority, its SNI; one with more hosts is an attack
MOST_HOSTS = 4


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it stands on the wire: raw octets, nothing decoded."""

    #: http or https
    scheme: bytes
    #: every host that the request goes by, the one of its target first; names without port, addresses with or
    #: without brackets
    hosts: tuple[bytes, ...]
    port: int
    #: path with query
    target: bytes
    #: known only where a source other than a proxy keeps it
    fragment: bytes | None = None
    #: what stands before "@" in the authority; looked at by checks, and never shown
    userinfo: bytes | None = None
    #: why it is not one request, or none, whatever its names and its target say
    fault: str | None = None
    #: the media types that it names in Content-Type and Accept, where a check asks for them
    media: tuple[bytes, ...] = ()
    #: that of ``hosts`` which the client did not choose as a name, such as the address in transparent mode; there is
    #: another. Rules that fit it count, but what is done where none does is asked of the names alone.
    destination: bytes | None = None

    @property
    def url(self) -> bytes:
        """The request's URL by its target, for people to read."""
        port = b"" if self.port == DEFAULT_PORTS.get(self.scheme) else b":%d" % self.port
        host = split_web_authority(self.hosts[0])[1] if self.hosts else b""
        return self.scheme + b"://" + host + port + self.target


_PORT = re.compile(rb"0*([0-9]{1,5})")


def request_of(url: bytes | str) -> Request:
    """The request that a browser would make for a URL.

    >>> request_of("https://me@www.example.com:8443/p?q#f").hosts
    (b'www.example.com',)

    Raises:
        UrlError: the URL names no host, or a port that is none.
    """
    octets = safebrowsing.remove_tab_cr_lf(safebrowsing.strip_spaces(to_bytes(url)))
    octets, fragment = safebrowsing.split_fragment(octets)
    parts = split_web(octets)
    assert parts.host is not None
    scheme = (parts.scheme or b"http").lower()
    number = _PORT.fullmatch(parts.port) if parts.port else None
    port = int(number[1]) if number else DEFAULT_PORTS.get(scheme, 0)
    if parts.port and not (number and port < 1 << 16):
        raise UrlError(octets, "its port is no number up to 65535")
    target = parts.path if parts.query is None else parts.path + b"?" + parts.query
    return Request(scheme, (parts.host,), port, target, fragment, parts.userinfo)


def canonical_forms(request: Request, host: bytes) -> list[Parts]:
    """Every canonical URL of a request by one of its hosts: the reading that is canonical, then the others.

    Raises:
        UrlError: the host cannot be one.
    """
    canonical = canonical_host(host)
    return [form._replace(host=canonical) for form in target_forms(request.scheme, request.target)]


def canonical_host(host: bytes) -> bytes:
    """A host as it stands in a canonical URL, with brackets where it is an IPv6 address.

    Its octets may not shift the URL's parts, not even when they are unescaped.

    Raises:
        UrlError: the host cannot be one.
    """
    if len(host) <= LONGEST_NAME and is_plain_name(host):
        return host
    host = safebrowsing.remove_tab_cr_lf(host)
    if len(host) > LONGEST_NAME:
        raise UrlError(host, "the host is longer than any name can be")
    if DELIMITERS.search(percent.unescape_repeatedly(host)):
        raise UrlError(host, "there is a delimiter in the host")
    (form,) = readings(Parts(b"http", None, split_web_authority(host)[1], None, b"/"))
    return form.host or b""


# Nearly every target has but one reading: nothing that a browser removes or a server reads in other ways, such as an
# escape in the path, a dot segment, a doubled slash, a backslash or a parameter.
_PLAIN_TARGET = re.compile(rb"((?:/(?![/.])[^\x00-\x20\x7f-\xff#%/;?\\]*+)++)(?:\?([^\x00-\x20\x7f-\xff#]*+))?")
_PERCENT = ord("%")


def plain_target(url: bytes, start: int = 0) -> tuple[bytes, bytes | None] | None:
    """Canonical path and query of the target that stands from ``start`` on, or ``None`` where it has more readings.

    >>> plain_target(b"http://h/a?%62", 8), plain_target(b"/x/../a")
    ((b'/a', b'b'), None)
    """
    if start == len(url):
        return b"/", None
    plain = _PLAIN_TARGET.fullmatch(url, start)
    if plain is None:
        return None
    path, query = plain.groups()
    if query is not None and _PERCENT in query:
        query = percent.escape(percent.unescape_repeatedly(query))
    return path, query


#: a URL that says its host at a glance: whatever stands behind that cannot change it. The groups are scheme and host.
PLAIN_URL = re.compile(rb"(https?://)([a-z0-9._-]+)(?::[0-9]{1,4})?(?=[/?]|\Z)")
_WEB = (b"http", b"https")
_SCHEME = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*")


def target_forms(scheme: bytes, target: bytes) -> tuple[Parts, ...]:
    """The canonical forms of a target, with any host: the reading that is canonical, then the others.

    A browser never sends a fragment, but a server that is sent one may cut it off; so both are readings.

    >>> target_forms(b"http", b"/a%62c?")
    (Parts(scheme=b'http', userinfo=None, host=b'h', port=None, path=b'/abc', query=b'', fragment=None),)
    """
    plain = plain_target(target)
    if plain and scheme in _WEB:
        path, query = plain
        return (Parts(scheme, None, b"h", None, path, query),)
    scheme = scheme if _SCHEME.fullmatch(scheme) else b"http"
    target = safebrowsing.remove_tab_cr_lf(target)
    cut, fragment = safebrowsing.split_fragment(target)
    targets = (target,) if fragment is None else (target, cut)
    forms: list[Parts] = []
    for one in targets:
        name, mark, rest = one.partition(b"?")
        forms += readings(Parts(scheme, None, b"h", None, rooted(name), rest if mark else None))
    return tuple(dict.fromkeys(forms))


def canonical_url(asked: Request | bytes) -> bytes:
    """The canonical URL of a URL, or of a request by its first host.

    >>> canonical_url(b"http://h.example:80/a/../b")
    b'http://h.example/b'

    Raises:
        UrlError: it names no host, or one that cannot be one.
    """
    if isinstance(asked, bytes):
        plain = PLAIN_URL.match(asked)
        target = plain_target(asked, plain.end()) if plain and is_plain_name(plain[2]) else None
        if plain and target:
            path, query = target
            return plain[1] + plain[2] + (path if query is None else path + b"?" + query)
        asked = request_of(asked)
    if not asked.hosts:
        raise UrlError(asked.url, "it names no host")
    return target_forms(asked.scheme, asked.target)[0]._replace(host=canonical_host(asked.hosts[0])).join()
