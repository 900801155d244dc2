"""Browsers' histories: the SQLite files of browsers, and Google Takeout's export.

The SQLite files are ``History`` of Chrome and Edge, and ``places.sqlite`` of Firefox. They are opened read-only and as
immutable, so that nothing is written beside them; the write-ahead log of a running browser is not read.

The export of Chrome's history is ``BrowserHistory.json``, since 2023 ``History.json``.

Spec: chromium components/history/core/browser/visit_database.cc and ui/base/page_transition_types.h;
mozilla toolkit/components/places/nsPlacesTables.h and nsINavHistoryService.idl
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

from hushlist.audit.sources.json_stream import JsonError, elements
from hushlist.audit.sources.recorded_request import BrokenRecord, RecordedRequest, ResourceType, bytes_of, time_of

MAGIC = b"SQLite format 3\0"

# URLs as octets, since a history may have any text; in the order of the visits, whatever indexes there are. Each
# visit is one row, even if a table has duplicates.
_CHROMIUM = """
    select id, (select cast(url as blob) from urls where id = v.url limit 1), visit_time, transition & 255,
        (select cast(url as blob) from urls
         where id = (select url from visits where id = v.from_visit limit 1) limit 1)
    from visits v order by id
"""
_FIREFOX = """
    select id, (select cast(url as blob) from moz_places where id = v.place_id limit 1), visit_date, visit_type,
        (select cast(url as blob) from moz_places
         where id = (select place_id from moz_historyvisits where id = v.from_visit limit 1) limit 1)
    from moz_historyvisits v order by id
"""
#: most octets of a text or row; a small file may produce longer ones
_LONGEST = 1 << 24
#: seconds from 1601, from which Chromium counts, to 1970
_SINCE_1601 = 11_644_473_600
_CHROMIUM_KINDS = {3: ResourceType.FRAME, 4: ResourceType.FRAME}  # AUTO_SUBFRAME, MANUAL_SUBFRAME
_FIREFOX_KINDS = {4: ResourceType.FRAME, 7: ResourceType.OTHER, 8: ResourceType.FRAME}  # EMBED, DOWNLOAD, FRAMED_LINK


def read_history(path: Path, source: str) -> Iterator[RecordedRequest | BrokenRecord]:
    """The visits of a file."""
    number = 0
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        yield BrokenRecord(
            source, 0, f"its last visits may be in {log.name}, which is not read: close the browser first"
        )
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
            tables = {name for (name,) in database.execute("select name from sqlite_master where type = 'table'")}
            if {"visits", "urls"} <= tables:
                query, kinds, epoch = _CHROMIUM, _CHROMIUM_KINDS, _SINCE_1601
            elif {"moz_historyvisits", "moz_places"} <= tables:
                query, kinds, epoch = _FIREFOX, _FIREFOX_KINDS, 0
            else:
                yield BrokenRecord(source, 0, "it has neither the tables of Chromium's history nor of Firefox's")
                return
            for visit, url, time, transition, page in database.execute(query):
                number = visit if isinstance(visit, int) else number + 1
                if not url:
                    yield BrokenRecord(source, number, "the visit has no URL")
                    continue
                seconds = time_of(time, 1e6, epoch)
                kind = kinds.get(transition, ResourceType.DOCUMENT)
                yield RecordedRequest(url, source, number, kind, page if kind is ResourceType.FRAME else None, seconds)
    except (sqlite3.Error, UnicodeDecodeError) as error:  # it quotes the octets that are not UTF-8
        yield BrokenRecord(source, number, f"it cannot be read: {error}")


KEY = "Browser History"
#: transitions of frames; all others are pages
_FRAMES = ("AUTO_SUBFRAME", "MANUAL_SUBFRAME")


def read_takeout(stream: BinaryIO, source: str) -> Iterator[RecordedRequest | BrokenRecord]:
    """The visits; times are in microseconds since 1970."""
    number = 0
    try:
        for number, visit in enumerate(elements(stream, (KEY,)), 1):
            url = visit.get("url") if isinstance(visit, dict) else None
            if isinstance(visit, JsonError):
                yield BrokenRecord(source, number, str(visit))
            elif not isinstance(visit, dict) or not isinstance(url, str) or not url:
                yield BrokenRecord(source, number, "the visit has no URL")
            else:
                kind = ResourceType.FRAME if visit.get("page_transition") in _FRAMES else ResourceType.DOCUMENT
                seconds = time_of(visit.get("time_usec"), 1e6)
                yield RecordedRequest(bytes_of(url), source, number, kind, time=seconds)
    except JsonError as error:
        yield BrokenRecord(source, number and number + 1, str(error))
