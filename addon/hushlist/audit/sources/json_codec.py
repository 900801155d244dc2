"""Records as plain types, for JSON, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hushlist.audit.sources.recorded_request import HIDDEN, RecordedRequest, ResourceType, hide_user, time_of
from hushlist.policy.groups import Client
from hushlist.url.request import Request


def text_of(octets: bytes) -> str:
    r"""Octets as text; octets that are not UTF-8 become lone surrogates, so that none is lost.

    >>> text_of(b"\xc3\xa9\xff"), bytes_of("\xe9\udcff")
    ('é\udcff', b'\xc3\xa9\xff')
    """
    return octets.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    """The opposite; keeps other lone surrogates, which JSON may have."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


class RecordTable:
    """Collects the records that a report shows, each once."""

    def __init__(self, explanations: Mapping[str, dict[str, Any]]) -> None:
        self._explanations = explanations
        self.records: dict[str, dict[str, Any]] = {}

    def key(self, record: RecordedRequest) -> str:
        """The key of a record; the record will be shown."""
        key = record.key
        if key not in self.records:
            self.records[key] = {**_plain(record), "explanation": self._explanations.get(key)}
        return key

    def keys(self, records: Iterable[RecordedRequest]) -> list[str]:
        """The keys of several."""
        return [self.key(record) for record in records]


def _plain(record: RecordedRequest) -> dict[str, Any]:
    asked, page = record.asked, record.page
    return {
        "url": text_of(record.url),
        "source": record.source,
        "number": record.number,
        "kind": record.kind.value,
        "page": None if page is None else text_of(hide_user(page)),
        "time": record.time,
        "client": record.client.address,
        "user": record.client.user,
        "port": record.client.port,
        "method": record.method,
        "status": record.status,
        "request": None if isinstance(asked, bytes) else _plain_request(asked),
    }


def _plain_request(request: Request) -> dict[str, Any]:
    fragment = request.fragment
    return {
        "scheme": text_of(request.scheme),
        "hosts": [text_of(host) for host in request.hosts],
        "port": request.port,
        "target": text_of(request.target),
        "fragment": None if fragment is None else text_of(fragment),
        "has_user": request.userinfo is not None,
        "fault": request.fault,
    }


#: larger than any count; a number with unlimited digits could not be written
_LARGEST = 1 << 63


def as_text(value: object) -> str:
    """The value if it is a text.

    Raises:
        TypeError: it is not.
    """
    if not isinstance(value, str):
        raise TypeError(f"expected a text, found {value!r:.40}")
    return value


def as_text_or_none(value: object) -> str | None:
    """The value if it is a text or ``None``."""
    return None if value is None else as_text(value)


def as_count(value: object) -> int:
    """The value if it is a count.

    Raises:
        TypeError: it is not a number, or cannot be a count.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _LARGEST:
        raise TypeError(f"expected a count, found {value!r:.40}")
    return value


def decode_record(plain: Mapping[str, Any]) -> RecordedRequest:
    """The record from its plain form; hidden user information stays hidden.

    Raises:
            LookupError: it is not a record; so do ``TypeError`` and ``ValueError``.
    """
    request, page = plain["request"], plain["page"]
    return RecordedRequest(
        bytes_of(plain["url"]) if request is None else _request_of(request),
        as_text(plain["source"]),
        as_count(plain["number"]),
        ResourceType(plain["kind"]),
        None if page is None else bytes_of(page),
        time_of(plain["time"]),
        Client(as_text(plain["client"]), as_text_or_none(plain["user"]), _port(plain["port"])),
        as_text(plain["method"]),
        as_count(plain["status"]),
    )


def _request_of(plain: Mapping[str, Any]) -> Request:
    fragment = plain["fragment"]
    return Request(
        bytes_of(plain["scheme"]),
        tuple(map(bytes_of, plain["hosts"])),
        as_count(plain["port"]),
        bytes_of(plain["target"]),
        None if fragment is None else bytes_of(fragment),
        HIDDEN if plain["has_user"] else None,
        as_text_or_none(plain["fault"]),
    )


def _port(value: object) -> int | None:
    return None if value is None else as_count(value)
