"""Files of flows that mitmproxy has written (``mitmdump -w``), of version 7 and later.

They are tagged netstrings, one after another, such as ``b"5:hello;"`` or ``b"8:1:a;1:1#}"``:

>>> from io import BytesIO
>>> list(values(BytesIO(b"8:1:a;1:1#}4:true!"), longest=100))
[{'a': 1}, True]

mitmproxy's own reader is not used: it would load each flow whole, with its bodies. Octets in a value are not copied. A
value of very many values is refused, since each takes memory, however short it is.

Spec: https://tnetstrings.info, with ``;`` for Unicode texts
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from hushlist.core.policy.groups import Client
from hushlist.core.url.http_head import Naming, request_of_head
from hushlist.extensions.files.recorded_files import RecordedMessage, facts_of_answer, facts_of_uploads
from hushlist.tools.audit.sources import recorded_request

#: most levels of lists and dictionaries
_DEEPEST = 64
#: most values in one: a WebSocket with a hundred thousand messages has fewer
MOST_VALUES = 1 << 20
_CHUNK = 1 << 20
_LENGTH = re.compile(rb"([0-9]{1,12}):")
_MOST_DIGITS = 12


class TnetstringError(ValueError):
    """The octets are not a tagged netstring."""


def values(stream: BinaryIO, longest: int) -> Iterator[object]:
    """The values; a ``TnetstringError`` in place of an invalid one, or one longer than ``longest`` octets.

    Octets are returned as a ``memoryview``. ``TnetstringError`` if the stream ends too early, or the beginning of the
    next value is not known.
    """
    while (length := _read_length(stream)) is not None:
        if length >= longest:
            _skip(stream, length + 1)
            yield TnetstringError(f"it is longer than {longest:,} octets")
            continue
        octets = _read(stream, length + 1)
        try:
            yield _parse(memoryview(octets)[:length], octets[length], 0, iter(range(MOST_VALUES)))
        except TnetstringError as error:
            yield error


def _read_length(stream: BinaryIO) -> int | None:
    digits = b""
    while (octet := stream.read(1)) != b":":
        if not octet and not digits:
            return None
        if not octet.isdigit() or len(digits) == _MOST_DIGITS:
            raise TnetstringError(_TOO_EARLY if not octet else "there is no length where the next one begins")
        digits += octet
    if not digits:
        raise TnetstringError("there is no length where the next one begins")
    return int(digits)


def _read(stream: BinaryIO, length: int) -> bytes:
    octets = stream.read(length)
    if len(octets) < length:
        raise TnetstringError(_TOO_EARLY)
    return octets


def _skip(stream: BinaryIO, length: int) -> None:
    while length:
        length -= len(_read(stream, min(length, _CHUNK)))


_TOO_EARLY = "it ends too early"


def _parse(octets: memoryview, tag: int, depth: int, left: Iterator[int]) -> object:
    """The value of a payload with its tag; takes one item from ``left`` for each value."""
    if depth > _DEEPEST:
        raise TnetstringError("it is nested too deep")
    if next(left, None) is None:
        raise TnetstringError(f"it has more than {MOST_VALUES:,} values")
    try:
        match chr(tag):
            case ",":
                return octets
            case ";":
                return str(octets, "utf-8", "surrogateescape")
            case "#":
                return int(bytes(octets))
            case "^":
                return float(bytes(octets))
            case "!":
                return {b"true": True, b"false": False}[bytes(octets)]
            case "~" if not octets:
                return None
            case "]":
                return list(_items(octets, depth + 1, left))
            case "}":
                items = list(_items(octets, depth + 1, left))
                if len(items) % 2:
                    raise TnetstringError("a dictionary has no value for each key")
                return dict(zip(map(_key, items[::2]), items[1::2], strict=True))
    except (ValueError, LookupError) as error:
        if isinstance(error, TnetstringError):
            raise
        raise TnetstringError("a number or word is none") from error
    raise TnetstringError(f"there is no type {chr(tag)!r}")


def _key(value: object) -> str:
    if isinstance(value, str):
        return value
    raise TnetstringError("a key is no text")


def _items(octets: memoryview, depth: int, left: Iterator[int]) -> Iterator[object]:
    at = 0
    while at < len(octets):
        length = _LENGTH.match(octets, at)
        if length is None:
            raise TnetstringError("there is no length within it")
        start = length.end()
        end = start + int(length[1])
        if end >= len(octets):
            raise TnetstringError("what is in it is longer than it")
        yield _parse(octets[start:end], octets[end], depth, left)
        at = end + 1


#: octets of a flow, with its bodies; a longer one is broken
LONGEST_FLOW = 1 << 28


def read_flows(stream: BinaryIO, source: str) -> Iterator[recorded_request.ReadRecord]:
    """The HTTP requests of a file; flows of other protocols are skipped."""
    number = 0
    try:
        for number, flow in enumerate(values(stream, LONGEST_FLOW), 1):
            if isinstance(flow, TnetstringError):
                yield recorded_request.BrokenRecord(source, number, str(flow))
                continue
            try:
                record = _record(flow, source, number)
            except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
                yield recorded_request.BrokenRecord(source, number, f"it is no flow that can be read: {error!r}")
            else:
                yield record or recorded_request.SkippedRecord(source, number)
    except TnetstringError as error:
        yield recorded_request.BrokenRecord(source, number + 1, str(error))


@dataclass(frozen=True, slots=True)
class _FlowHeaderFields:
    fields: tuple[tuple[bytes, bytes], ...]


@dataclass(slots=True)
class _FlowHead:
    """The fields that ``request_of_head`` reads."""

    host: str
    port: int
    method: bytes
    scheme: bytes
    authority: bytes
    path: bytes
    headers: _FlowHeaderFields
    content: bytes | None


def _record(flow: Any, source: str, number: int) -> recorded_request.RecordedRequest | None:
    if not isinstance(flow, dict):
        raise TypeError("no dictionary")
    if _text(flow.get("type", "http")) != "http":
        return None
    request, response, client = flow["request"], flow.get("response") or {}, flow.get("client_conn") or {}
    head = _FlowHead(
        _text(request["host"]),
        _number(request["port"], 1 << 16),
        _octets(request["method"]),
        _octets(request["scheme"]),
        _octets(request.get("authority") or b""),
        _octets(request["path"]),
        _FlowHeaderFields(tuple((_octets(name), _octets(value)) for name, value in request["headers"])),
        None,
    )
    if head.method == b"GET":
        head.content = _octets(request.get("content") or b"")
    name, mode = client.get("sni"), _text(client.get("proxy_mode", ""))
    kind = recorded_request.ResourceType.WEBSOCKET if flow.get("websocket") else _kind(head, response)
    return recorded_request.RecordedRequest(
        request_of_head(head, None if name is None else _text(name), _naming(mode)),
        source,
        number,
        kind,
        None if kind is recorded_request.ResourceType.DOCUMENT else _field(head.headers.fields, b"referer"),
        recorded_request.time_of(request.get("timestamp_start")),
        _client(flow, client, mode),
        head.method.decode("ascii", "replace"),
        _number(response.get("status_code") or 0, 1000),
        _seen(request, response),
    )


def _seen(request: Mapping[str, Any], response: Mapping[str, Any]) -> tuple[dict[str, str], ...]:
    """The facts of both bodies; none of a body that was not recorded, as of one that was streamed."""
    uploads = facts_of_uploads(_message(request))
    return (
        *((facts_of_answer(_number(response["status_code"], 1000), _message(response)),) if response else ()),
        *uploads,
    )


def _message(message: Mapping[str, Any]) -> RecordedMessage:
    fields = [
        (_octets(name).decode("latin-1").lower(), _octets(value).decode("utf-8", "replace"))
        for name, value in message["headers"]
    ]
    body = message.get("content")
    length = next((value for name, value in fields if name == "content-length"), "")
    octets = int(length) if length.isdecimal() and len(length) < 19 else None
    return RecordedMessage(fields, None if body is None else _octets(body), octets)


#: what browsers say that a response is for. Spec: Fetch Metadata, 2.1
_DESTINATION = b"sec-fetch-dest"


def _kind(head: _FlowHead, response: Mapping[str, Any]) -> recorded_request.ResourceType:
    destination = _field(head.headers.fields, _DESTINATION)
    if destination is not None:
        return recorded_request.resource_type_of_name(destination.decode("ascii", "replace"))
    fields = [(_octets(name), _octets(value)) for name, value in response.get("headers") or ()]
    media_type = _field(fields, b"content-type")
    return (
        recorded_request.ResourceType.UNKNOWN
        if media_type is None
        else recorded_request.resource_type_of_media(media_type.decode("ascii", "replace"))
    )


def _naming(mode: str) -> Naming:
    """Who chose the destination of a client in a mode; ``proxy.flow_request`` has this for mitmproxy's classes."""
    kind = _kind_of(mode)
    if kind in _BY_CLIENT:
        return Naming.CLIENT
    return Naming.ADMINISTRATOR if kind == "reverse" else Naming.ADDRESS


_BY_CLIENT = ("", "regular", "upstream")  # before version 9, flows have none


def _kind_of(mode: str) -> str:
    return mode.partition("@")[0].partition(":")[0]


def _port(sockname: Sequence[Any] | None, mode: str) -> int | None:
    """The proxy's port; where the network leads clients to the proxy, only the mode may tell it."""
    if _kind_of(mode) in (*_BY_CLIENT, "reverse", "socks5"):
        return _number(sockname[1], 1 << 16) if sockname else None
    port = mode.rpartition("@")[2].rpartition(":")[2]
    return int(port) if "@" in mode and port.isdecimal() else None


def _field(fields: Any, name: bytes) -> bytes | None:
    return next((value for field, value in fields if field.lower() == name), None)


def _client(flow: Mapping[str, Any], connection: Mapping[str, Any], mode: str) -> Client:
    """The client, as in ``proxy.flow_request``."""
    peer = connection.get("peername")
    port = _port(connection.get("sockname"), mode)
    login = (flow.get("metadata") or {}).get("proxyauth")
    return Client(_text(peer[0]) if peer else "", _text(login[0]) if login else None, port)


def _number(value: Any, end: int) -> int:
    """A number below an end: a report could not be read again with others."""
    number = int(value)
    if not 0 <= number < end:
        raise ValueError("a number is out of its range")
    return number


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise TypeError(f"expected a text, found {value!r:.40}")


def _octets(value: Any) -> bytes:
    """The value if it is octets: from a number, ``bytes`` would make as many zeros."""
    if isinstance(value, memoryview | bytes):
        return bytes(value)
    raise TypeError(f"expected octets, found {value!r:.40}")
