"""The one way from a request to a decision.

    request -> names x readings -> canonical URLs -> matches by layer -> decision, the strictest of all

The proxy, the command line and the audits are faces of it, and never decide anything themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from hushlist.errors import UrlError
from hushlist.match.index import Index, Match
from hushlist.policy.decision import Decision, decide, strictest
from hushlist.policy.policy import Policy
from hushlist.url import percent, safebrowsing
from hushlist.url.parts import Parts, rooted, split_authority, split_web, to_bytes

#: a request goes by its target, its Host headers or authority, its SNI; one with more hosts is an attack
MOST_HOSTS = 8


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

    @property
    def url(self) -> bytes:
        """The request's URL by its target, for people to read."""
        port = b"" if self.port == _DEFAULT_PORTS.get(self.scheme) else b":%d" % self.port
        host = split_authority(self.hosts[0])[1] if self.hosts else b""
        return self.scheme + b"://" + host + port + self.target


_DEFAULT_PORTS = {b"http": 80, b"https": 443}
_PORT = re.compile(rb"[0-9]{1,5}")


def request_of(url: bytes | str) -> Request:
    """The request that a browser would make for a URL.

    >>> request_of("https://me@www.example.com:8443/p?q#f").hosts
    (b'www.example.com',)

    Raises:
        UrlError: the URL names no host.
    """
    octets = safebrowsing.remove_tab_cr_lf(safebrowsing.strip_spaces(to_bytes(url)))
    octets, fragment = safebrowsing.split_fragment(octets)
    parts = split_web(octets)
    assert parts.host is not None
    scheme = (parts.scheme or b"http").lower()
    port = int(parts.port) if parts.port and _PORT.fullmatch(parts.port) else _DEFAULT_PORTS.get(scheme, 0)
    target = parts.path if parts.query is None else parts.path + b"?" + parts.query
    return Request(scheme, (parts.host,), port, target, fragment)


class Engine:
    """Decides by one policy; immutable, so that it can be swapped and shared between threads."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._layers = tuple((layer.name, Index(layer.rules)) for layer in policy.layers)
        self._has_uris = any(index.has_uris for _, index in self._layers)

    def decide(self, request: Request, now: datetime | None = None) -> Decision:
        """The decision for a request at a moment (UTC; the present one where none is given). Never raises.

        A request whose parts cannot be read is decided by the policy's ``unparsable``.
        """
        now = now or datetime.now(UTC)
        try:
            forms = canonical_forms(request)
        except UrlError as error:
            return Decision(self.policy.unparsable, request.url, fault=error.reason)
        uris = tuple(_uris(request, forms)) if self._has_uris else ()
        return strictest([self._decide(form, uris, now) for form in forms])

    def _decide(self, form: Parts, uris: Sequence[Parts], now: datetime) -> Decision:
        layers = [(name, _holding((*index.find(form), *index.find_uris(uris)), now)) for name, index in self._layers]
        return decide(form.join(), layers)


def _holding(matches: Sequence[Match], now: datetime) -> Sequence[Match]:
    return [match for match in matches if match.rule.holds_at(now)]


def canonical_forms(request: Request) -> tuple[Parts, ...]:
    """Every canonical URL of a request: each host that it goes by, with each reading of its path.

    Raises:
        UrlError: a host cannot be one, or there are too many.
    """
    hosts = dict.fromkeys(request.hosts)
    if not 0 < len(hosts) <= MOST_HOSTS:
        raise UrlError(b" ".join(list(hosts)[:MOST_HOSTS]), f"the request goes by {len(hosts)} hosts")
    path, mark, query = safebrowsing.remove_tab_cr_lf(request.target).partition(b"?")
    parts = Parts(request.scheme, None, None, None, rooted(path), query if mark else None)
    forms = (form for host in hosts for form in safebrowsing.readings(parts._replace(host=_one_host(host))))
    return tuple(dict.fromkeys(forms))


_DELIMITERS = re.compile(rb"[/?#@\\]")


def _one_host(host: bytes) -> bytes:
    """A host with its brackets; its octets may not shift the URL's parts, not even when they are unescaped."""
    if _DELIMITERS.search(percent.unescape_repeatedly(host)):
        raise UrlError(host, "there is a delimiter in the host")
    return split_authority(host)[1]


def _uris(request: Request, forms: Sequence[Parts]) -> Iterator[Parts]:
    """The URIs that a hashed URI may have been made of: as requested, and canonical, with the port that was asked."""
    port = str(request.port).encode()
    path, mark, query = request.target.partition(b"?")
    for host in dict.fromkeys(request.hosts):
        yield Parts(request.scheme, None, host, port, path, query if mark else None, request.fragment)
    for form in forms:
        yield form._replace(port=port, fragment=request.fragment)
