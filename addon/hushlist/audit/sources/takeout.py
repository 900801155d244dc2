"""Google Takeout's export of Chrome's history: ``BrowserHistory.json``, since 2023 ``History.json``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from hushlist.audit.plain import bytes_of
from hushlist.audit.record import Broken, Kind, Record, time_of
from hushlist.audit.sources.json_stream import JsonError, elements

KEY = "Browser History"
#: transitions of frames; everything else is a page
_FRAMES = ("AUTO_SUBFRAME", "MANUAL_SUBFRAME")


def read_takeout(stream: BinaryIO, source: str) -> Iterator[Record | Broken]:
    """The visits; times are in microseconds since 1970."""
    number = 0
    try:
        for number, visit in enumerate(elements(stream, (KEY,)), 1):
            url = visit.get("url") if isinstance(visit, dict) else None
            if isinstance(visit, JsonError):
                yield Broken(source, number, str(visit))
            elif not isinstance(visit, dict) or not isinstance(url, str) or not url:
                yield Broken(source, number, "the visit has no URL")
            else:
                kind = Kind.FRAME if visit.get("page_transition") in _FRAMES else Kind.DOCUMENT
                seconds = time_of(visit.get("time_usec"), 1e6)
                yield Record(bytes_of(url), source, number, kind, time=seconds)
    except JsonError as error:
        yield Broken(source, number and number + 1, str(error))
