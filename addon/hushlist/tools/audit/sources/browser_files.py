"""What browsers write: histories and HAR.

The SQLite files of histories are ``History`` of Chrome and Edge, and ``places.sqlite`` of Firefox. They are opened
read-only and as immutable, so that nothing is written beside them. The write-ahead log of a running browser is not
read.

The export of Chrome's history by Google Takeout is ``BrowserHistory.json``, since 2023 ``History.json``.

HAR files are those of browsers' tools, WebPageTest and test drivers.

Spec: chromium components/history/core/browser/visit_database.cc and ui/base/page_transition_types.h;
mozilla toolkit/components/places/nsPlacesTables.h and nsINavHistoryService.idl;
http://www.softwareishard.com/blog/har-12-spec/, and what Chromium adds (``_resourceType``, ``_initiator``)
"""

from __future__ import annotations

import sqlite3
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from hushlist.core.url.parts import to_bytes
from hushlist.extensions.files.recorded_files import (
    RecordedMessage,
    facts_of_answer,
    facts_of_part,
    facts_of_uploads,
)
from hushlist.tools.audit.sources.json_stream import JsonError, json_records
from hushlist.tools.audit.sources.recorded_request import (
    BrokenRecord,
    RecordedRequest,
    ResourceType,
    resource_type_of_media,
    resource_type_of_name,
    time_of,
)

# -- histories ---------------------------------------------------------------------------------------------------------

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
#: what a browser makes: no virtual table, and no column that is computed, as long as whoever made the file likes
_TABLES = """
    select name from sqlite_master own where type = 'table' and rootpage > 0
        and not exists (select 1 from pragma_table_xinfo(own.name) where hidden > 0)
"""
#: most octets of a text or row; a small file may produce longer ones
_LONGEST = 1 << 24
#: steps of SQLite's machine for each octet of a file: a visit takes fewer, and tables without an index ever more
_STEPS = 32
#: seconds from 1601, from which Chromium counts, to 1970
_SINCE_1601 = 11_644_473_600
_CHROMIUM_KINDS = {3: ResourceType.FRAME, 4: ResourceType.FRAME}  # AUTO_SUBFRAME, MANUAL_SUBFRAME
_FIREFOX_KINDS = {4: ResourceType.FRAME, 7: ResourceType.OTHER, 8: ResourceType.FRAME}  # EMBED, DOWNLOAD, FRAMED_LINK


def read_history(path: Path, source: str) -> Iterator[RecordedRequest | BrokenRecord]:
    number = 0
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        yield BrokenRecord(
            source, 0, f"its last visits may be in {log.name}, which is not read: close the browser first"
        )
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
            steps, most = count(), path.stat().st_size * _STEPS
            database.set_progress_handler(lambda: next(steps) * 1000 > most, 1000)
            tables = {name for (name,) in database.execute(_TABLES)}
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
    return json_records(stream, source, (KEY,), partial(_visit, source))


def _visit(source: str, visit: object, number: int) -> RecordedRequest:
    url = visit.get("url") if isinstance(visit, dict) else None
    if not isinstance(visit, dict) or not isinstance(url, str) or not url:
        raise JsonError("the visit has no URL")
    kind = ResourceType.FRAME if visit.get("page_transition") in _FRAMES else ResourceType.DOCUMENT
    return RecordedRequest(to_bytes(url), source, number, kind, time=time_of(visit.get("time_usec"), 1e6))


# -- HAR ---------------------------------------------------------------------------------------------------------------

#: pages of one file whose documents are remembered
_MOST_PAGES = 1 << 12
_REDIRECTS = (301, 302, 303, 307, 308)


def read_har(stream: BinaryIO, source: str) -> Iterator[RecordedRequest | BrokenRecord]:
    return json_records(stream, source, ("log", "entries"), partial(_record, source, {}))


def _record(source: str, pages: dict[str, bytes], entry: object, number: int) -> RecordedRequest:
    if not isinstance(entry, dict):
        raise JsonError("the entry is no object")
    request, response = _object(entry, "request"), _object(entry, "response")
    url = request.get("url")
    if not isinstance(url, str) or not url:
        raise JsonError("its request has no URL")
    octets = to_bytes(url)
    status = response.get("status")
    status = status if type(status) is int and 0 <= status < 1000 else 0  # a report has no other
    kind = _kind(entry, response, status)
    page = entry.get("pageref")
    document = pages.get(page) if isinstance(page, str) else None
    if kind is ResourceType.UNKNOWN and status in _REDIRECTS and isinstance(page, str) and document is None:
        kind = ResourceType.DOCUMENT  # a redirect to the page
    if kind is ResourceType.DOCUMENT and document is not None:
        kind = ResourceType.FRAME  # a page has but one document; later ones are frames in it
    elif (
        kind is ResourceType.DOCUMENT
        and isinstance(page, str)
        and status not in _REDIRECTS
        and len(pages) < _MOST_PAGES
    ):
        pages[page] = octets
    initiator = document or _referer(request) or _initiator(entry)
    method = request.get("method")
    return RecordedRequest(
        octets,
        source,
        number,
        kind,
        None if kind is ResourceType.DOCUMENT else initiator,
        _time(entry),
        method=method if isinstance(method, str) else "",
        status=status,
        seen=tuple(_seen(request, response, status)),
    )


def _seen(request: Mapping[str, Any], response: Mapping[str, Any], status: int) -> Iterator[dict[str, str]]:
    """The facts of an answer, and of what a request has in its body."""
    content, posted = _object(response, "content"), _object(request, "postData")
    fields = _fields(response, content.get("mimeType"))
    if fields or content:
        size = content.get("size")
        octets = size if type(size) is int and size >= 0 else None
        yield facts_of_answer(status, RecordedMessage(fields, _octets_of(content), octets, is_decoded=True))
    if isinstance(posted.get("text"), str) and posted["text"]:
        yield from facts_of_uploads(RecordedMessage(_fields(request, posted.get("mimeType")), _octets_of(posted)))
        return
    params = posted.get("params")
    for part in params if isinstance(params, list) else ():
        if isinstance(part, dict) and isinstance(name := part.get("fileName"), str):
            value, media_type = part.get("value"), part.get("contentType")
            yield facts_of_part(
                f'form-data; filename="{name}"',
                media_type if isinstance(media_type, str) else "",
                to_bytes(value) if isinstance(value, str) else None,
            )


def _fields(message: Mapping[str, Any], media_type: object) -> list[tuple[str, str]]:
    """The fields of a head; where it has none, that of the media type alone."""
    headers = message.get("headers")
    pairs = (
        [(each.get("name"), each.get("value")) for each in headers if isinstance(each, dict)]
        if isinstance(headers, list)
        else []
    )
    fields = [(name.lower(), value) for name, value in pairs if isinstance(name, str) and isinstance(value, str)]
    return fields or ([("content-type", media_type)] if isinstance(media_type, str) and media_type else [])


def _octets_of(content: Mapping[str, Any]) -> bytes | None:
    """A body, which HAR has as text or in Base64."""
    text = content.get("text")
    if not isinstance(text, str):
        return None
    if content.get("encoding") != "base64":
        return to_bytes(text)
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return None


def _object(owner: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = owner.get(key)
    return value if isinstance(value, dict) else {}


def _kind(entry: Mapping[str, Any], response: Mapping[str, Any], status: int) -> ResourceType:
    named = entry.get("_resourceType")
    if isinstance(named, str) and named:
        return resource_type_of_name(named)
    media_type = _object(response, "content").get("mimeType")
    if status in _REDIRECTS:
        return ResourceType.UNKNOWN  # the body of a redirect says nothing about the request
    return resource_type_of_media(media_type) if isinstance(media_type, str) else ResourceType.UNKNOWN


def _referer(request: Mapping[str, Any]) -> bytes | None:
    headers = request.get("headers")
    for header in headers if isinstance(headers, list) else ():
        if isinstance(header, dict) and str(header.get("name")).lower() == "referer":
            return _url(header.get("value"))
    return None


def _initiator(entry: Mapping[str, Any]) -> bytes | None:
    """The URL that caused the request: Chromium has an object, WebPageTest a URL."""
    initiator = entry.get("_initiator")
    return _url(initiator.get("url") if isinstance(initiator, dict) else initiator)


def _url(value: object) -> bytes | None:
    return to_bytes(value) if isinstance(value, str) and value else None


def _time(entry: Mapping[str, Any]) -> float | None:
    text = entry.get("startedDateTime")
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time_of((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
