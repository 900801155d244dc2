"""The context of a request: the page that asks for it, and what for. Filters of Adblock lists may depend on it.

Only what decides such filters comes from here, since a client may say what it likes. A lie gets past a filter that
depends on it, and makes an exception fit, which lifts what stops in its layer; other layers hold for liars, too. What
is said twice and differs, or cannot be read, is not said.

Spec: Fetch Metadata Request Headers; Fetch, 3.1 (Origin) and 2.2.5 (destination); RFC 9110, 10.1.3 (Referer)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from hushlist.core.errors import UrlError
from hushlist.core.url.host import LONGEST_NAME
from hushlist.core.url.parts import split_web_authority
from hushlist.core.url.request import WEBSOCKET, Request, StatedContext, canonical_host


class Context(NamedTuple):
    """Who asks, and what for."""

    #: canonical host of the page that asks; empty where it is not known
    page: str = ""
    #: one of ``KINDS``; empty where it is not known
    kind: str = ""
    #: whether the page's registrable domain is another than the request's; ``None`` where it is not known
    is_third_party: bool | None = None
    #: in upper case; empty where it is not known
    method: str = ""

    def is_same_host(self, host: bytes) -> bool | None:
        """Whether the page has the request's host; ``None`` where it is not known."""
        if self.page:
            return self.page.encode() == host
        return False if self.is_third_party else None

    def __str__(self) -> str:
        """For people: what was assumed."""
        page = f" for {self.page}" if self.page else " for an unknown page"
        return (self.kind or "unknown type") + page + _TOLD_PARTIES[self.is_third_party]


_TOLD_PARTIES = {None: "", True: ", third party", False: ", first party"}
#: resource types, as Adblock's options name them
KINDS = (
    *("document", "subdocument", "script", "stylesheet", "image", "font", "media", "object"),
    *("xmlhttprequest", "websocket", "ping", "other"),
)

_READ = frozenset((
    *(b"referer", b"origin", b"sec-fetch-site", b"sec-fetch-dest", b"sec-fetch-mode", b"accept", b"upgrade"),
    *(b"x-requested-with", b"ping-to"),
))  # fmt: skip
_SIZES = frozenset(map(len, _READ))
#: in which letters may be of either case
_WITH_CASE = (b"referer", b"origin")


def context_of(request: Request, host: bytes) -> Context:
    """The context of a request by one of its hosts, which is canonical. Never raises; in time linear in the head.

    >>> asked = Request(b"https", (b"cdn.example",), 443, b"/a.js", method=b"GET", fields=(
    ...     (b"Referer", b"https://www.news.example/today"), (b"Sec-Fetch-Dest", b"script")))
    >>> context_of(asked, b"cdn.example")
    Context(page='www.news.example', kind='script', is_third_party=True, method='GET')
    """
    return Telling(request).context_by(host)


class Telling:
    """What a request tells of its context, for all its hosts and forms; most is worked out when it is needed."""

    __slots__ = ("_contexts", "_request", "_said", "_stated", "kind")

    def __init__(self, request: Request) -> None:
        self._request, self._stated = request, request.context or _NOTHING
        self._said = _said(request.fields) if request.fields else {}
        #: one of ``KINDS``; empty where it is not known
        self.kind = self._kind_by(request.target)
        #: by host
        self._contexts: dict[bytes, Context] = {}

    @property
    def said_kind(self) -> str:
        """The kind as far as the client says it: the URL, which its site chooses, tells nothing."""
        return self._kind_by(b"")

    def _kind_by(self, target: bytes) -> str:
        return "websocket" if self._request.scheme in WEBSOCKET else self._stated.kind or _kind(self._said, target)

    def page_by(self, host: bytes) -> bytes:
        """The canonical host of the page that asks, by one of the request's hosts; empty where it is not known."""
        page = self._stated.page
        if page is None or self.kind == "document":
            return self._page_and_party(host)[0]
        return host_of_page(page)

    def context_by(self, host: bytes) -> Context:
        """The whole context, by one of the request's hosts."""
        context = self._contexts.get(host)
        if context is None:
            page, party = self._page_and_party(host)
            method = (self._stated.method or self._request.method)[:_LONGEST_TOKEN].decode("ascii", "replace").upper()
            context = self._contexts[host] = Context(page.decode("ascii", "replace"), self.kind, party, method)
        return context

    def _page_and_party(self, host: bytes) -> tuple[bytes, bool | None]:
        """The page, and whether it is a third party."""
        said, facts = self._said, self._stated
        if facts.page is not None:
            page = host if self.kind == "document" else host_of_page(facts.page)
            return page, is_third_party(page, host)
        site = said.get(b"sec-fetch-site", b"")
        if self.kind == "document" or site in (b"none", b"same-origin"):
            return host, False
        url = page = b""
        for name in (b"origin", b"referer"):
            if not page and name in said:
                url, page = said[name], host_of_page(said[name], _WEB_URL)
        differs, says, scheme = is_third_party(page, host), _PARTIES.get(site), self._request.scheme
        if says is None or says is differs or (says and page and _scheme(url) != WEBSOCKET.get(scheme, scheme)):
            return page, differs  # "cross-site" is also from http to https of one site
        return b"", says  # the Referer is that of a stylesheet in the page, or is not true


_NOTHING = StatedContext()
#: Spec: Fetch Metadata, 2.3
_PARTIES = {b"cross-site": True, b"same-site": False}
_LONGEST_TOKEN = 64
#: octets of a header's value that are read: of a Referer, its origin is enough
_LONGEST_VALUE = 2 * LONGEST_NAME


def _said(fields: Sequence[Sequence[bytes]]) -> dict[bytes, bytes]:
    """The header fields that say something; one that says two things says nothing."""
    said: dict[bytes, bytes] = {}
    for name, whole in fields:
        if len(name) in _SIZES and (lower := name.lower()) in _READ:
            value = whole[:_LONGEST_VALUE].strip()
            value = value if lower in _WITH_CASE else value.lower()
            said[lower] = value if said.get(lower, value) == value else b""
    return said


_WEB_URL = re.compile(rb"https?://([^/?#\\]+)", re.IGNORECASE)
_URL_OR_HOST = re.compile(rb"(?:https?://|(?!\w+:/))([^/?#\\]+)", re.IGNORECASE)


@lru_cache(maxsize=1 << 12)
def host_of_page(url: bytes, form: re.Pattern[bytes] = _URL_OR_HOST) -> bytes:
    """The canonical host of a page's URL, or of a host; empty if there is none.

    >>> host_of_page(b"https://WWW.news.example:8443/a"), host_of_page(b"news.example"), host_of_page(b"about:blank")
    (b'www.news.example', b'news.example', b'')
    """
    match = form.match(url[:_LONGEST_VALUE])
    if match is None:
        return b""
    _, host, port = split_web_authority(match[1])
    try:
        return canonical_host(host) if not port or port.isdigit() else b""
    except UrlError:
        return b""


def _scheme(url: bytes) -> bytes:
    return url.partition(b":")[0].lower()


def is_third_party(page: bytes, host: bytes) -> bool | None:
    """Whether two hosts have different registrable domains; ``None`` where there is no page."""
    if not page or page == host:
        return False if page else None
    domain = _registrable_domain(page)
    return not host.endswith(domain) or domain != _registrable_domain(host)


@lru_cache(maxsize=1 << 12)
def _registrable_domain(host: bytes) -> bytes:
    from hushlist.core.match.public_suffixes import public_suffixes  # who asks no filter starts faster without it

    return public_suffixes().registrable_domain(host)


_KINDS_OF_DESTINATIONS = {
    destination: kind
    for kind, destinations in {
        "document": (b"document",),
        "subdocument": (b"iframe", b"frame", b"fencedframe"),
        "script": (
            *(b"script", b"worker", b"sharedworker", b"serviceworker"),
            *(b"audioworklet", b"paintworklet"),
        ),
        "stylesheet": (b"style",),
        "image": (b"image",),
        "font": (b"font",),
        "media": (b"audio", b"video", b"track"),
        "object": (b"object", b"embed"),
        "other": (b"manifest", b"report", b"xslt", b"json", b"webidentity"),
    }.items()
    for destination in destinations
}
#: beginnings of Accept, of browsers that send no Sec-Fetch-Dest
_KINDS_OF_ACCEPT = (
    (b"text/html", "document"),
    (b"text/css", "stylesheet"),
    (b"image/", "image"),
    (b"audio/", "media"),
    (b"video/", "media"),
    (b"application/font-", "font"),
    (b"font/", "font"),
    (b"application/json", "xmlhttprequest"),
    (b"text/event-stream", "xmlhttprequest"),
)
_ENDINGS = {
    ending: kind
    for kind, endings in {
        "script": (b"js", b"mjs"),
        "stylesheet": (b"css",),
        "image": (b"png", b"jpg", b"jpeg", b"gif", b"webp", b"avif", b"svg", b"ico", b"bmp"),
        "font": (b"woff", b"woff2", b"ttf", b"otf", b"eot"),
        "media": (b"mp4", b"webm", b"mp3", b"ogg", b"m4a", b"m4v", b"mov", b"wav"),
        "object": (b"swf",),
    }.items()
    for ending in endings
}


def _kind(said: dict[bytes, bytes], target: bytes) -> str:
    if b"websocket" in (said.get(b"upgrade"), said.get(b"sec-fetch-mode")):
        return "websocket"
    destination = said.get(b"sec-fetch-dest")
    if destination in _KINDS_OF_DESTINATIONS:
        return _KINDS_OF_DESTINATIONS[destination]
    if b"ping-to" in said:
        return "ping"
    if destination == b"empty" or said.get(b"x-requested-with") == b"xmlhttprequest":
        return "xmlhttprequest"
    accept = said.get(b"accept", b"")
    for beginning, kind in _KINDS_OF_ACCEPT if accept else ():
        if accept.startswith(beginning):
            return kind
    return _ENDINGS.get(target.partition(b"?")[0].rpartition(b".")[2].lower(), "")
