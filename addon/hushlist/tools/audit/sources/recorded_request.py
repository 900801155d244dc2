"""One recorded request, as every source returns it, or the error in its place; and its resource type.

The resource type comes from the names that browsers and lists use, or from the media type of the response.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

from hushlist.core.policy.groups import NOBODY, Client
from hushlist.core.url.request import Request, StatedContext


class ResourceType(StrEnum):
    """The type of a request, as browsers distinguish it."""

    #: a page
    DOCUMENT = "document"
    #: a document within a page
    FRAME = "frame"
    SCRIPT = "script"
    STYLE = "style"
    IMAGE = "image"
    XHR = "xhr"
    FONT = "font"
    MEDIA = "media"
    WEBSOCKET = "websocket"
    #: what a page sends without waiting for an answer
    PING = "ping"
    #: a plugin
    OBJECT = "object"
    OTHER = "other"
    #: the source does not say
    UNKNOWN = "unknown"


#: hash of the URL, the URL, name of the source, number in the source
Rank = tuple[int, bytes, str, int]


class RecordedRequest(NamedTuple):
    #: the URL as in the source, with its fragment; or a request, if the source keeps several names
    request: bytes | Request
    #: name of the source, and the number of the line or record in it, from 1
    source: str = ""
    number: int = 0
    kind: ResourceType = ResourceType.UNKNOWN
    #: URL of its page, or of what caused the request
    page: bytes | None = None
    #: seconds since 1970, in UTC
    time: float | None = None
    client: Client = NOBODY
    method: str = ""
    #: status of the response; 0 if there is none
    status: int = 0
    #: facts (``core/extension.py:Fact``) of its answer, and of each file in its body, as far as they were recorded
    seen: tuple[Mapping[str, str], ...] = ()

    @property
    def url(self) -> bytes:
        """The URL without its user information, which is never written anywhere."""
        return hide_user(self.request if isinstance(self.request, bytes) else _url_of(self.request))

    @property
    def context(self) -> StatedContext:
        """What the source tells of who asks, and what for."""
        return StatedContext(
            self.page, _ADBLOCK_TYPES.get(self.kind, self.kind.value), self.method.encode("ascii", "replace")
        )

    @property
    def key(self) -> str:
        """The record's key in a report: the same for the same URL at the same place."""
        place = f"{self.source}:{self.number}".encode("utf-8", "surrogatepass")  # file names need not be UTF-8
        return f"{digest(self.url):016x}{digest(place):016x}"

    @property
    def ranked(self) -> tuple[Rank, RecordedRequest]:
        """The record with its rank. The smallest ranks become examples: as if random, but always the same."""
        url = self.url
        return (digest(url), url, self.source, self.number), self


#: types that Adblock's options name otherwise
_ADBLOCK_TYPES = {
    ResourceType.FRAME: "subdocument",
    ResourceType.STYLE: "stylesheet",
    ResourceType.XHR: "xmlhttprequest",
    ResourceType.UNKNOWN: "",
}


class BrokenRecord(NamedTuple):
    source: str
    #: number of the line or record, from 1; 0 for the source as a whole
    number: int
    why: str

    def __str__(self) -> str:
        """``source:number: why``."""
        place = f"{self.source}:{self.number}" if self.number else self.source
        return f"{place}: {self.why}"


class SkippedRecord(NamedTuple):
    """A record that no web filter sees, such as a flow of DNS."""

    source: str
    number: int


def text_of(octets: bytes) -> str:
    r"""Octets as text; octets that are not UTF-8 become lone surrogates, so that none is lost.

    ``url.parts.to_bytes`` is the opposite.

    >>> text_of(b"\xc3\xa9\xff")
    'é\udcff'
    """
    return octets.decode("utf-8", "surrogateescape")


_USER = re.compile(rb"^([A-Za-z][A-Za-z0-9+.-]*:)?//[^/?#\\]*@")
#: replaces user information: checks need to know that there was some
HIDDEN = b"***"


#: valid times in seconds since 1970: the years 1000 to 8999, in which every time zone's clock can be read
_FIRST_TIME, _LAST_TIME = -30_610_224_000, 221_845_392_000


def time_of(value: object, parts: float = 1, epoch: float = 0) -> float | None:
    """Seconds since 1970, from a number of ``1 / parts`` seconds since another epoch; ``None`` if it is not a time.

    >>> time_of(1_798_113_600_500_000, 1e6), time_of(10**400, 1e6), time_of(float("nan")), time_of("1")
    (1798113600.5, None, None, None)
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        seconds = value / parts - epoch
    except OverflowError:
        return None
    return seconds if _FIRST_TIME <= seconds < _LAST_TIME else None


def hide_user(url: bytes) -> bytes:
    """A URL without its user information."""
    return _USER.sub(rb"\1//" + HIDDEN + b"@", url) if b"@" in url else url


#: what a reader yields
ReadRecord = RecordedRequest | BrokenRecord | SkippedRecord


def _url_of(request: Request) -> bytes:
    fragment = b"" if request.fragment is None else b"#" + request.fragment
    return request.url + fragment


def digest(octets: bytes) -> int:
    """64 bits of a hash, for choosing examples."""
    return int.from_bytes(blake2b(octets, digest_size=8).digest(), "big")


#: names in Chromium's HAR, the WebExtensions API, Fetch destinations and ad blockers' lists
_NAMES = {
    name: kind
    for kind, names in {
        ResourceType.DOCUMENT: ("document", "main_frame", "mainframe"),
        ResourceType.FRAME: ("subdocument", "sub_frame", "subframe", "iframe", "frame"),
        ResourceType.SCRIPT: ("script",),
        ResourceType.STYLE: ("style", "stylesheet", "css"),
        ResourceType.IMAGE: ("image", "imageset"),
        ResourceType.XHR: ("xhr", "xmlhttprequest", "fetch", "eventsource", "empty"),
        ResourceType.FONT: ("font",),
        ResourceType.MEDIA: ("media", "audio", "video"),
        ResourceType.WEBSOCKET: ("websocket",),
        ResourceType.PING: ("ping", "beacon"),
        ResourceType.OBJECT: ("object", "object_subrequest", "embed"),
    }.items()
    for name in names
}


def resource_type_of_name(name: str) -> ResourceType:
    """The type that a browser's name means.

    >>> resource_type_of_name("stylesheet"), resource_type_of_name("manifest"), resource_type_of_name("")
    (<ResourceType.STYLE: 'style'>, <ResourceType.OTHER: 'other'>, <ResourceType.UNKNOWN: 'unknown'>)
    """
    return _NAMES.get(name.lower(), ResourceType.OTHER if name else ResourceType.UNKNOWN)


#: media types; and the top-level types of those that are not here
_TYPES = {
    name: kind
    for kind, names in {
        ResourceType.DOCUMENT: ("text/html", "application/xhtml+xml"),
        ResourceType.STYLE: ("text/css",),
        ResourceType.SCRIPT: (
            *("text/javascript", "application/javascript", "application/x-javascript"),
            *("application/ecmascript", "text/ecmascript"),
        ),
        ResourceType.XHR: ("application/json", "text/event-stream"),
        ResourceType.FONT: (
            *("application/font-woff", "application/font-woff2", "application/x-font-woff"),
            *("application/x-font-ttf", "application/vnd.ms-fontobject"),
        ),
        ResourceType.MEDIA: ("application/vnd.apple.mpegurl", "application/dash+xml"),
    }.items()
    for name in names
}
_TOP_LEVEL = {
    "image": ResourceType.IMAGE,
    "font": ResourceType.FONT,
    "audio": ResourceType.MEDIA,
    "video": ResourceType.MEDIA,
}


def resource_type_of_media(media_type: str) -> ResourceType:
    """The type that the media type of a response shows.

    >>> tuple(map(resource_type_of_media, ("text/CSS; charset=utf-8", "video/mp4", "text/plain")))
    (<ResourceType.STYLE: 'style'>, <ResourceType.MEDIA: 'media'>, <ResourceType.OTHER: 'other'>)
    >>> resource_type_of_media("-"), resource_type_of_media("x-unknown")
    (<ResourceType.UNKNOWN: 'unknown'>, <ResourceType.UNKNOWN: 'unknown'>)
    """
    name = media_type.partition(";")[0].strip().lower()
    top, slash, _ = name.partition("/")
    if not slash:
        return ResourceType.UNKNOWN
    return _TYPES.get(name) or _TOP_LEVEL.get(top, ResourceType.OTHER)
