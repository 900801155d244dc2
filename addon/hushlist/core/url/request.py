"""A request as sent, and every canonical URL that it may mean.

>>> [form.join() for form in canonical_forms(request_of("http://h.example/x//../bad"), b"h.example")]
[b'http://h.example/x/bad', b'http://h.example/x/../bad', b'http://h.example/bad']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from hushlist.core.errors import Excess, UrlError
from hushlist.core.system.late_pattern import late_pattern
from hushlist.core.url import normalization, safebrowsing
from hushlist.core.url.host import DELIMITERS, LONGEST_NAME, is_plain_name
from hushlist.core.url.parts import DEFAULT_PORTS, Parts, rooted, split_web, split_web_authority, to_bytes
from hushlist.core.url.path_interpretations import FormBudget, path_interpretations, standard_target

#: a request names hosts in its target, its Host or authority, and its SNI; one with more hosts is an attack
MOST_HOSTS = 4
#: octets of a target; by default, nginx, Apache and Node take 8 to 16 KiB
LONGEST_TARGET = 1 << 16
#: octets that are kept of a longer target, to be shown
_KEPT = 1 << 10


def cut(octets: bytes) -> bytes:
    """The octets, or only their beginning if they are longer than a target can be."""
    return octets if len(octets) <= LONGEST_TARGET else octets[:_KEPT] + b"..."


class StatedContext(NamedTuple):
    """Who asks, and what for, as a recording or the administrator tells it."""

    #: URL or host of the page
    page: bytes | None = None
    #: the resource type, as Adblock's options name it; empty if it is not known
    kind: str = ""
    method: bytes = b""
    #: the names and addresses that its host leads to
    leads: tuple[bytes, ...] = ()


class Request:
    """A request as sent: raw octets, nothing decoded.

    A target that is too long is a fault, and only its beginning is kept. So it costs only a look at its length.
    """

    __slots__ = (
        *("context", "destination", "fault", "fields", "fragment", "hosts", "leads", "media", "method", "others"),
        *("port", "scheme", "target", "userinfo"),
    )

    def __init__(
        self,
        scheme: bytes,
        hosts: tuple[bytes, ...],
        port: int,
        target: bytes,
        fragment: bytes | None = None,
        userinfo: bytes | None = None,
        fault: str | None = None,
        media: tuple[bytes, ...] = (),
        destination: bytes | None = None,
        method: bytes = b"",
        fields: Sequence[Sequence[bytes]] = (),
        context: StatedContext | None = None,
        leads: tuple[bytes, ...] = (),
        others: tuple[Request, ...] = (),
    ) -> None:
        if len(target) > LONGEST_TARGET:
            target, fault = cut(target), fault or _TOO_LONG
        #: http or https
        self.scheme = scheme
        #: every host that the request names, the target's first; without port; addresses with or without brackets
        self.hosts = hosts
        self.port = port
        #: path with query
        self.target = target
        #: known only if the request comes from another source than a proxy
        self.fragment = fragment
        #: the part before "@" in the authority; checks look at it, and it is never shown
        self.userinfo = userinfo
        #: why it is not exactly one request
        self.fault = fault
        #: media types from Content-Type and Accept, if a check needs them
        self.media = media
        #: the one of several ``hosts`` that the client did not choose as a name, such as the address in transparent
        #: mode. Rules that fit it count, but the policy's default action applies only to the names.
        self.destination = destination
        #: method and header fields, as the client sent them: they tell who asks, and what for
        #: (``core/match/context.py``)
        self.method = method
        self.fields = fields
        #: what is known of it besides
        self.context = context
        #: the names and addresses that its hosts lead to by DNS, where they were looked up
        self.leads = leads
        #: what else of the server its header fields name, such as the copy's place in WebDAV: the strictest decision
        #: holds
        self.others = others

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Request) and _compared(self) == _compared(other)

    def __hash__(self) -> int:
        return hash(_compared(self))

    def _replace(self, **changes: Any) -> Request:
        """The request with other values in some fields, as of a named tuple."""
        return Request(**{**{name: getattr(self, name) for name in self.__slots__}, **changes})

    @property
    def url(self) -> bytes:
        """The request's URL, for people to read."""
        return self.url_by(self.hosts[0] if self.hosts else b"")

    def url_by(self, host: bytes) -> bytes:
        """The URL by one of its hosts: as sent, with the port where it is not the scheme's default."""
        port = b"" if self.port == DEFAULT_PORTS.get(self.scheme) else b":%d" % self.port
        return self.scheme + b"://" + split_web_authority(host)[1] + port + self.target

    @property
    def written_url(self) -> bytes | None:
        """The canonical URL, where the client has written it as it is; quick, and perhaps ``None`` although it has.

        >>> request_of("http://h.example/a?b=c").written_url, request_of("http://h.example/a?b=%63").written_url
        (b'http://h.example/a?b=c', None)
        """
        scheme, target = self.scheme, self.target
        if len(self.hosts) != 1 or self.destination is not None or self.port != DEFAULT_PORTS.get(scheme):
            return None
        (host,) = self.hosts
        is_canonical = scheme in WEB and b"%" not in target and is_plain_target(target) and is_plain_name(host)
        return b"%b://%b%b" % (scheme, host, target) if is_canonical else None

    def is_written(self, canonical: bytes) -> bool:
        """Whether the client has written a canonical URL as it is; quick, and perhaps ``False`` although it has."""
        is_usual = self.destination is None and self.port == DEFAULT_PORTS.get(self.scheme)
        return is_usual and b"%b://%b%b" % (self.scheme, b"".join(self.hosts[:1]), self.target) == canonical


#: what makes two requests different
_compared = attrgetter(*(name for name in Request.__slots__ if name not in ("method", "fields", "leads")))
_TOO_LONG = Excess(f"its target has more than {LONGEST_TARGET:,} octets")
_PORT = late_pattern(rb"0*([0-9]{1,5})")


def request_of(url: bytes | str, context: StatedContext | None = None) -> Request:
    """The request that a browser would make for a URL; ``UrlError`` if the URL names no host, or its port is not valid.

    >>> request_of("https://me@www.example.com:8443/p?q#f").hosts
    (b'www.example.com',)
    """
    octets = to_bytes(url)
    plain = _PLAIN_REQUEST.fullmatch(octets)
    if plain is not None:  # as nearly every URL
        scheme, host, target = plain.groups()
        leads = () if context is None else context.leads
        return Request(scheme, (host,), DEFAULT_PORTS[scheme], target, context=context, leads=leads)
    octets = safebrowsing.remove_tab_cr_lf(safebrowsing.strip_spaces(octets))
    request = request_as_written(*safebrowsing.split_fragment(octets))
    request.context, request.leads = context, () if context is None else context.leads
    return request


#: of a URL that cannot be read: where user information may stand, with or without escapes
_MAY_BE_USER = late_pattern(rb"\A.*(?:@|%(?:25)*40)", re.DOTALL)


def without_userinfo(url: bytes) -> bytes:
    """A URL as somebody typed it, to be shown: without its user information, whatever its spelling.

    >>> without_userinfo(b"https:/\\\\me:secret@h.example/@x"), without_userinfo(b"me%3Asecret%40h.example/x")
    (b'https:/\\\\h.example/@x', b'h.example/x')
    """
    try:
        request = request_of(url)
        canonical_host(request.hosts[0])
    except UrlError:
        return _MAY_BE_USER.sub(b"", url)
    if request.userinfo is None:
        return url
    octets = safebrowsing.remove_tab_cr_lf(safebrowsing.strip_spaces(url))
    before, _, after = octets.partition(request.userinfo + b"@")
    return before + after


def request_as_written(octets: bytes, fragment: bytes | None = None) -> Request:
    """The same for a URL as written, octet by octet; the fragment is already split off."""
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
    """Every canonical URL of a request by one of its hosts: the standard one, then other path interpretations.

    Raises ``UrlError`` if the host is not valid.
    """
    canonical = canonical_host(host)
    return [
        form._replace(host=canonical)
        for form in target_forms(request.scheme, request.target, number_of_names(request.hosts)).forms
    ]


def canonical_host(host: bytes) -> bytes:
    """A host as in a canonical URL; an IPv6 address has brackets; ``UrlError`` if the host is not valid.

    Its octets must not shift the URL's parts, even after they are unescaped.
    """
    if len(host) <= LONGEST_NAME and is_plain_name(host):
        return host
    host = safebrowsing.remove_tab_cr_lf(host)
    if len(host) > LONGEST_NAME:
        raise UrlError(host, Excess("the host is longer than any name can be"))
    decoded = normalization.percent_decode_repeatedly(host)
    if _NUL in decoded:  # RFC 3986, 7.3: it "should be rejected if the application is not expecting" it
        raise UrlError(host, "there is a NUL in the host")
    if DELIMITERS.search(decoded) or any(split_web_authority(name)[2] is not None for name in (host, decoded)):
        raise UrlError(host, "there is a delimiter in the host")
    parts = Parts(b"http", None, split_web_authority(host)[1], None, b"/")
    for step in (*safebrowsing.OPEN, safebrowsing.escape):
        parts = step(parts)
    return parts.host or b""


def readable_host(host: bytes) -> bytes:
    """The canonical host; empty if it is not valid, which the engine decides."""
    try:
        return canonical_host(host)
    except UrlError:
        return b""


# Nearly every target has only one interpretation. It has nothing that a browser removes or that servers read in
# different ways: an escape in the path, a name that ends with a dot (as dot segments do), a doubled slash, a backslash,
# a parameter, a session or a stream.
_PLAIN_TARGET = re.compile(
    rb"((?:(?>/(?![/(])[^\x00-\x20\x7f-\xff#$%/;?\\]*+(?<!\.)))++)(?:\?([^\x00-\x20\x7f-\xff#]*+))?"
)
_PERCENT, _NUL = b"%\0"


def plain_target(url: bytes, start: int = 0, *, is_sent: bool = False) -> tuple[bytes, bytes | None] | None:
    """Canonical path and query of the target that begins at ``start``, or ``None`` if it may have several.

    ``is_sent``: the query is as it was sent, which takes less time.

    >>> plain_target(b"http://h/a?%62", 8), plain_target(b"/x/../a"), plain_target(b"/a?%62", is_sent=True)
    ((b'/a', b'b'), None, (b'/a', b'%62'))
    """
    if start == len(url):
        return b"/", None
    plain = _PLAIN_TARGET.fullmatch(url, start)
    if plain is None:
        return None
    path, query = plain.groups()
    return path, query if is_sent or query is None or _PERCENT not in query else canonical_query(query)


def canonical_query(query: bytes | None) -> bytes | None:
    """The canonical form of a plain target's query."""
    if query is None or _PERCENT not in query:
        return query
    return normalization.percent_encode(normalization.percent_decode_repeatedly(query))


def is_plain_target(target: bytes) -> bool:
    """Whether ``plain_target`` would read it."""
    return _PLAIN_TARGET.fullmatch(target) is not None


#: a URL whose host is plain: nothing after it can change it. The groups are scheme and host.
PLAIN_URL = re.compile(rb"(https?://)([a-z0-9._-]+)(?::[0-9]{1,4})?(?=[/?]|\Z)")
#: one without port, of which nothing is removed
_PLAIN_REQUEST = re.compile(rb"(https?)://([a-z0-9._-]+)(/[^\x00-\x20#]*+)")
#: schemes of the web
WEB = (b"http", b"https")
#: those of websockets -> the scheme by which a proxy is asked for one
WEBSOCKET = {b"ws": b"http", b"wss": b"https"}
_SCHEME = late_pattern(rb"[A-Za-z][A-Za-z0-9+.-]*")


class Forms(NamedTuple):
    """The canonical forms of a target."""

    #: the standard form, then other path interpretations; the host has no meaning
    forms: tuple[Parts, ...]
    #: why there are more forms than these; then only the standard one is there
    fault: str | None = None


def number_of_names(hosts: Iterable[bytes]) -> int:
    """By how many names a request is decided that goes by these hosts: an IPv6 address may lead to an IPv4 address."""
    return sum(2 if host[:1] == b"[" else 1 for host in set(hosts))


_TOO_MANY_READINGS = Excess("its path can be read in too many ways")
_TOO_MANY_FORMS = Excess("its names and its path together can be read in too many ways")


def target_forms(scheme: bytes, target: bytes, names: int = 1, budget: FormBudget | None = None) -> Forms:
    """The canonical forms of a target that comes by so many names; ``budget`` is that of the whole request.

    >>> target_forms(b"http", b"/a%62c?").forms
    (Parts(scheme=b'http', userinfo=None, host=b'h', port=None, path=b'/abc', query=b'', fragment=None),)
    """
    budget = budget or FormBudget()
    forms, is_cut = _every_form(scheme, target, budget)
    if is_cut:
        return Forms(forms, _TOO_MANY_READINGS)
    if not budget.takes_forms(names, len(forms), len(target)):
        return Forms(forms[:1], _TOO_MANY_READINGS if names == 1 else _TOO_MANY_FORMS)
    return Forms(forms)


def _every_form(scheme: bytes, target: bytes, budget: FormBudget) -> tuple[tuple[Parts, ...], bool]:
    """The canonical forms of a target, and whether there are more than the budget lets be found."""
    plain = plain_target(target)
    if plain and scheme in WEB:
        return (Parts(scheme, None, b"h", None, *plain),), False
    scheme = scheme if _SCHEME.fullmatch(scheme) else b"http"
    readings, is_cut = path_interpretations(*_path_and_query(target), budget)
    return tuple(Parts(scheme, None, b"h", None, *reading) for reading in readings), is_cut


def _path_and_query(target: bytes) -> tuple[bytes, bytes | None]:
    name, mark, query = target.partition(b"?")
    return rooted(name), query if mark else None


def canonical_url(request: Request | bytes) -> bytes:
    """The canonical URL of a URL, or of a request by its first host.

    >>> canonical_url(b"http://h.example:80/a/../b")
    b'http://h.example/b'

    Raises ``UrlError`` if it names no host, or one that is not valid.
    """
    if isinstance(request, bytes):
        plain = PLAIN_URL.match(request)
        target = plain_target(request, plain.end()) if plain and is_plain_name(plain[2]) else None
        if plain and target:
            path, query = target
            return plain[1] + plain[2] + (path if query is None else path + b"?" + query)
        request = request_of(request)
    if not request.hosts:
        raise UrlError(request.url, "it names no host")
    scheme, host = request.scheme, canonical_host(request.hosts[0])
    target = plain_target(request.target) if scheme in WEB else None
    path, query = target or standard_target(*_path_and_query(request.target))
    scheme = scheme if scheme in WEB or _SCHEME.fullmatch(scheme) else b"http"
    return b"%b://%b%b" % (scheme, host, path if query is None else path + b"?" + query)
