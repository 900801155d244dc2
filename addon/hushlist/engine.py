"""The one way from a request to a decision.

    request -> names x readings -> canonical URLs -> matches by layer -> decision, the strictest of all

The proxy, the command line and the audits are faces of it, and never decide anything themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from hushlist.errors import UrlError
from hushlist.match.checks import Asked
from hushlist.match.index import Index, Match
from hushlist.match.learned import Learned
from hushlist.match.rule import Action
from hushlist.policy.decision import Decision, decide, strictest
from hushlist.policy.policy import Policy
from hushlist.url import percent, safebrowsing
from hushlist.url.host import DELIMITERS, LONGEST_NAME
from hushlist.url.parts import Parts, rooted, split_web, split_web_authority, to_bytes
from hushlist.url.protocol import is_slash_redirect, slash_twin
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

    @property
    def url(self) -> bytes:
        """The request's URL by its target, for people to read."""
        port = b"" if self.port == _DEFAULT_PORTS.get(self.scheme) else b":%d" % self.port
        host = split_web_authority(self.hosts[0])[1] if self.hosts else b""
        return self.scheme + b"://" + host + port + self.target


_DEFAULT_PORTS = {b"http": 80, b"https": 443}
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
    port = int(number[1]) if number else _DEFAULT_PORTS.get(scheme, 0)
    if parts.port and not (number and port < 1 << 16):
        raise UrlError(octets, "its port is no number up to 65535")
    target = parts.path if parts.query is None else parts.path + b"?" + parts.query
    return Request(scheme, (parts.host,), port, target, fragment, parts.userinfo)


class Engine:
    """Decides by one policy; it never changes but in what it learns, so that it can be swapped and shared."""

    def __init__(self, policy: Policy, learned: Learned | None = None) -> None:
        self.policy = policy
        self._learned = learned
        self._layers = tuple(Index(layer.rules) for layer in policy.layers)
        self._has_checks = any(index.has_checks for index in self._layers)
        self._has_uris = any(index.has_uris for index in self._layers)

    def decide(self, request: Request, now: datetime | None = None) -> Decision:
        """The decision for a request at a moment (UTC; the present one where none is given). Never raises.

        Each host that it goes by is decided, and the strictest decision holds. One that cannot be read is decided by
        the policy's ``unparsable``; so is what is too much to be read.
        """
        now = now or datetime.now(UTC)
        hosts = tuple(dict.fromkeys(request.hosts))
        decisions = [self._decide_host(request, host, now) for host in hosts[:MOST_HOSTS]]
        if not 0 < len(hosts) <= MOST_HOSTS:
            decisions.append(self._unparsable(request, f"the request goes by {len(hosts)} hosts"))
        if request.fault is not None:
            decisions.append(self._unparsable(request, request.fault))
        return strictest(decisions)

    def _unparsable(self, request: Request, fault: str) -> Decision:
        return Decision(self.policy.unparsable, request.url, fault=fault)

    def _decide_host(self, request: Request, host: bytes, now: datetime) -> Decision:
        try:
            forms = canonical_forms(request, host)
        except UrlError as error:
            return self._unparsable(request, error.reason)
        return strictest(
            [self._decide_form(request, host, form, now, is_first=not place) for place, form in enumerate(forms)]
        )

    def _decide_form(self, request: Request, host: bytes, form: Parts, now: datetime, *, is_first: bool) -> Decision:
        uris = tuple(_uris(request, host, form, is_first=is_first)) if self._has_uris else ()
        twin = self._twin(request, form)
        layers = []
        for index in self._layers:
            matches = [*index.find(form)]
            # A hashed URI is canonical by its own rules: those of another reading of the path are no allowance.
            matches += (
                match for match in index.find_uris(uris) if is_first or match.rule.terms.action is not Action.ALLOW
            )
            if is_first and self._has_checks:
                matches += index.find_checks(_asked(request, host))
            if twin is not None:
                matches += _by_redirect(matches, index.find(twin))
            layers.append([match for match in matches if match.rule.terms.holds_at(now)])
        return decide(form.join(), layers)

    def learn(self, request: Request, location: bytes) -> None:
        """Take note of a permanent redirect, if all it changes is a trailing slash and the request has but one name.

        The path stands for all its queries: "the common conventions" are about the path alone.
        """
        if self._learned is None:
            return
        try:
            (host,) = set(request.hosts)
            (form,) = canonical_forms(request, host)
            if is_slash_redirect(request.url, location):
                self._learned.learn((request.scheme, form.host or b"", request.port), form.path)
        except ValueError:  # more forms than one, or a UrlError: nothing certain is told
            return

    def _twin(self, request: Request, form: Parts) -> Parts | None:
        """The same resource by its other name, where the origin has redirected from one to the other."""
        if self._learned is None or not self._learned.knows(
            (request.scheme, form.host or b"", request.port), form.path
        ):
            return None
        return form._replace(path=slash_twin(form.path) or form.path)


def _by_redirect(own: Sequence[Match], twins: Iterable[Match]) -> Iterator[Match]:
    """The matches of the twin that the request does not have itself."""
    rules = {id(match.rule) for match in own}
    return (match._replace(via=_VIA) for match in twins if id(match.rule) not in rules)


_VIA = "rung protocol: its origin redirects between this path with and without a trailing slash"


def canonical_forms(request: Request, host: bytes) -> tuple[Parts, ...]:
    """Every canonical URL of a request by one of its hosts: the reading that is canonical, then the others.

    A browser never sends a fragment, but a server that is sent one may cut it off; so both are readings.

    Raises:
        UrlError: the host cannot be one.
    """
    scheme = request.scheme if _SCHEME.fullmatch(request.scheme) else b"http"
    host = _one_host(safebrowsing.remove_tab_cr_lf(host))
    if len(request.hosts) == 1:
        return _forms(scheme, host, request.target)
    (of_host,) = readings(Parts(scheme, None, host, None, b"/"))
    return tuple(form._replace(host=of_host.host) for form in _forms_of_any_host(scheme, request.target))


@lru_cache(maxsize=1)
def _forms_of_any_host(scheme: bytes, target: bytes) -> tuple[Parts, ...]:
    """Kept for the other hosts of the same request, so that these do not multiply the time that a target takes."""
    return _forms(scheme, b"h", target)


def _forms(scheme: bytes, host: bytes, target: bytes) -> tuple[Parts, ...]:
    target = safebrowsing.remove_tab_cr_lf(target)
    cut, fragment = safebrowsing.split_fragment(target)
    targets = (target,) if fragment is None else (target, cut)
    forms: list[Parts] = []
    for one in targets:
        path, mark, query = one.partition(b"?")
        forms += readings(Parts(scheme, None, host, None, rooted(path), query if mark else None))
    return tuple(dict.fromkeys(forms))


_SCHEME = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*")


def _one_host(host: bytes) -> bytes:
    """A host with its brackets; its octets may not shift the URL's parts, not even when they are unescaped."""
    if len(host) > LONGEST_NAME:
        raise UrlError(host, "the host is longer than any name can be")
    if DELIMITERS.search(percent.unescape_repeatedly(host)):
        raise UrlError(host, "there is a delimiter in the host")
    return split_web_authority(host)[1]


def _asked(request: Request, host: bytes) -> Asked:
    return Asked(request.scheme, host, request.port, request.target, request.userinfo)


def _uris(request: Request, host: bytes, form: Parts, *, is_first: bool) -> Iterator[Parts]:
    """The URIs that a hashed URI may have been made of, with the port that was asked: canonical, and as requested."""
    port = str(request.port).encode()
    yield form._replace(port=port, fragment=request.fragment)
    if is_first:
        path, mark, query = request.target.partition(b"?")
        asked = Parts(request.scheme, None, host, port, path, query if mark else None, request.fragment)
        yield asked
        if host != form.host:
            yield asked._replace(host=form.host)
