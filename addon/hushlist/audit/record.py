"""One recorded request, as every source gives it, and what could not be read as one."""

from __future__ import annotations

import re
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

from hushlist.policy.groups import NOBODY, Client
from hushlist.url.request import Request


class Kind(StrEnum):
    """What a request is for, as browsers tell it apart."""

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
    OTHER = "other"
    #: the source does not tell
    UNKNOWN = "unknown"


#: hash of the URL, the URL, name of the source, number within it
Rank = tuple[int, bytes, str, int]


class Record(NamedTuple):
    """One recorded request."""

    #: the URL as the source has it, with its fragment; a request where the source keeps more names than one
    asked: bytes | Request
    #: name of the source, and the number of the line or record within it, from 1
    source: str = ""
    number: int = 0
    kind: Kind = Kind.UNKNOWN
    #: URL of the page that it belongs to, or of what asked for it
    page: bytes | None = None
    #: seconds since 1970, in UTC
    time: float | None = None
    client: Client = NOBODY
    method: str = ""
    #: of the answer; 0 where there is none
    status: int = 0

    @property
    def url(self) -> bytes:
        """The URL, by its target; user information is hidden, that is never written anywhere."""
        return hide(self.asked if isinstance(self.asked, bytes) else _url_of(self.asked))

    @property
    def key(self) -> str:
        """What the record is called in a report: the same for the same URL at the same place."""
        place = f"{self.source}:{self.number}".encode("utf-8", "surrogatepass")  # names of files need not be UTF-8
        return f"{digest(self.url):016x}{digest(place):016x}"

    @property
    def ranked(self) -> tuple[Rank, Record]:
        """The record with what examples are chosen by: the smallest are as good as by chance, and always the same."""
        url = self.url
        return (digest(url), url, self.source, self.number), self


class Broken(NamedTuple):
    """A record that cannot be read."""

    source: str
    #: of the line or record, from 1; 0 where it is the source as a whole
    number: int
    why: str

    def __str__(self) -> str:
        """``source:number: why``."""
        place = f"{self.source}:{self.number}" if self.number else self.source
        return f"{place}: {self.why}"


class Skipped(NamedTuple):
    """A record of something that no filter of the web is asked for, such as a flow of DNS."""

    source: str
    number: int


_USER = re.compile(rb"^([A-Za-z][A-Za-z0-9+.-]*:)?//[^/?#\\]*@")
#: in place of user information: that there was some matters to checks
HIDDEN = b"***"


#: seconds since 1970 of what is still a time: the years 1000 to 8999, in which every time zone's clock can be read
_FIRST_TIME, _LAST_TIME = -30_610_224_000, 221_845_392_000


def time_of(value: object, parts: float = 1, epoch: float = 0) -> float | None:
    """Seconds since 1970, of a number of parts of a second since another epoch; ``None`` where it is no time.

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


def hide(url: bytes) -> bytes:
    """A URL without its user information."""
    return _USER.sub(rb"\1//" + HIDDEN + b"@", url) if b"@" in url else url


#: what a reader gives
Read = Record | Broken | Skipped


def _url_of(request: Request) -> bytes:
    fragment = b"" if request.fragment is None else b"#" + request.fragment
    return request.url + fragment


def digest(octets: bytes) -> int:
    """64 bits of a hash, by which examples are chosen."""
    return int.from_bytes(blake2b(octets, digest_size=8).digest(), "big")
