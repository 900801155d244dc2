"""HAR files of browsers' tools, WebPageTest and test drivers; entries are read one at a time.

Spec: http://www.softwareishard.com/blog/har-12-spec/, and what Chromium adds (``_resourceType``, ``_initiator``)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, BinaryIO

from hushlist.audit.sources.json_stream import JsonError, elements
from hushlist.audit.sources.recorded_request import (
    BrokenRecord,
    RecordedRequest,
    ResourceType,
    bytes_of,
    resource_type_of_media,
    resource_type_of_name,
    time_of,
)

#: pages of one file whose documents are remembered
_MOST_PAGES = 1 << 12
_REDIRECTS = (301, 302, 303, 307, 308)


def read_har(stream: BinaryIO, source: str) -> Iterator[RecordedRequest | BrokenRecord]:
    """The requests of a file; for an incomplete file, a broken record at the end says why."""
    pages: dict[str, bytes] = {}
    number = 0
    try:
        for number, entry in enumerate(elements(stream, ("log", "entries")), 1):
            if isinstance(entry, JsonError):
                yield BrokenRecord(source, number, str(entry))
                continue
            try:
                yield _record(entry, source, number, pages)
            except _NotHarError as error:
                yield BrokenRecord(source, number, str(error))
    except JsonError as error:
        yield BrokenRecord(source, number and number + 1, str(error))


class _NotHarError(ValueError):
    """An entry has not the expected shape."""


def _record(entry: object, source: str, number: int, pages: dict[str, bytes]) -> RecordedRequest:
    if not isinstance(entry, dict):
        raise _NotHarError("the entry is no object")
    request, response = _object(entry, "request"), _object(entry, "response")
    url = request.get("url")
    if not isinstance(url, str) or not url:
        raise _NotHarError("its request has no URL")
    octets = bytes_of(url)
    status = response.get("status")
    status = status if isinstance(status, int) else 0
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
    asked_by = document or _referer(request) or _initiator(entry)
    method = request.get("method")
    return RecordedRequest(
        octets,
        source,
        number,
        kind,
        None if kind is ResourceType.DOCUMENT else asked_by,
        _time(entry),
        method=method if isinstance(method, str) else "",
        status=status,
    )


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
    found = entry.get("_initiator")
    return _url(found.get("url") if isinstance(found, dict) else found)


def _url(value: object) -> bytes | None:
    return bytes_of(value) if isinstance(value, str) and value else None


def _time(entry: Mapping[str, Any]) -> float | None:
    text = entry.get("startedDateTime")
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time_of((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
