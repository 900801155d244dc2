"""Files of flows that mitmproxy has written (``mitmdump -w``), of any version that has HTTP flows.

mitmproxy's own reader is not used: that would load all of it, and each flow with its bodies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from hushlist.audit.kinds import kind_of_type
from hushlist.audit.record import Broken, Kind, Read, Record, Skipped, time_of
from hushlist.audit.sources.tnetstring import TnetstringError, values
from hushlist.policy.groups import Client
from hushlist.url.message import Naming, request_of_head

#: octets of a flow, with its bodies; a longer one is broken
LONGEST_FLOW = 1 << 28


def read_flows(stream: BinaryIO, source: str) -> Iterator[Read]:
    """The HTTP requests of a file; flows of other protocols are skipped."""
    number = 0
    try:
        for number, flow in enumerate(values(stream, LONGEST_FLOW), 1):
            if isinstance(flow, TnetstringError):
                yield Broken(source, number, str(flow))
                continue
            try:
                record = _record(flow, source, number)
            except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
                yield Broken(source, number, f"it is no flow that can be read: {error!r}")
            else:
                yield record or Skipped(source, number)
    except TnetstringError as error:
        yield Broken(source, number + 1, str(error))


@dataclass(frozen=True, slots=True)
class _Fields:
    fields: tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class _Head:
    """What ``request_of_head`` looks at."""

    host: str
    port: int
    method: bytes
    scheme: bytes
    authority: bytes
    path: bytes
    headers: _Fields


def _record(flow: Any, source: str, number: int) -> Record | None:
    if not isinstance(flow, dict):
        raise TypeError("no dictionary")
    if _text(flow.get("type", "http")) != "http":
        return None
    request, response, client = flow["request"], flow.get("response") or {}, flow.get("client_conn") or {}
    head = _Head(
        _text(request["host"]),
        int(request["port"]),
        _octets(request["method"]),
        _octets(request["scheme"]),
        _octets(request.get("authority") or b""),
        _octets(request["path"]),
        _Fields(tuple((_octets(name), _octets(value)) for name, value in request["headers"])),
    )
    name = client.get("sni")
    kind = Kind.WEBSOCKET if flow.get("websocket") else _kind(head, response)
    return Record(
        request_of_head(head, None if name is None else _text(name), _naming(_text(client.get("proxy_mode", "")))),
        source,
        number,
        kind,
        None if kind is Kind.DOCUMENT else _field(head.headers.fields, b"referer"),
        time_of(request.get("timestamp_start")),
        _client(flow, client),
        head.method.decode("ascii", "replace"),
        int(response.get("status_code") or 0),
    )


#: what browsers say that an answer is for. Spec: Fetch Metadata, 2.1
_DESTINATION = b"sec-fetch-dest"
_DESTINATIONS: dict[bytes, Kind] = {
    b"document": Kind.DOCUMENT,
    b"frame": Kind.FRAME,
    b"iframe": Kind.FRAME,
    b"script": Kind.SCRIPT,
    b"style": Kind.STYLE,
    b"image": Kind.IMAGE,
    b"font": Kind.FONT,
    b"audio": Kind.MEDIA,
    b"video": Kind.MEDIA,
    b"empty": Kind.XHR,
    b"websocket": Kind.WEBSOCKET,
}


def _kind(head: _Head, response: Mapping[str, Any]) -> Kind:
    destination = _field(head.headers.fields, _DESTINATION)
    if destination is not None:
        return _DESTINATIONS.get(destination, Kind.OTHER)
    fields = [(_octets(name), _octets(value)) for name, value in response.get("headers") or ()]
    media_type = _field(fields, b"content-type")
    return Kind.UNKNOWN if media_type is None else kind_of_type(media_type.decode("ascii", "replace"))


def _naming(mode: str) -> Naming:
    """Who has named where a client of a mode goes; ``proxy.wire`` has the same of mitmproxy's own classes."""
    kind = mode.partition("@")[0].partition(":")[0]
    if kind in ("", "regular", "upstream"):  # of old flows, there is none
        return Naming.CLIENT
    return Naming.ADMINISTRATOR if kind == "reverse" else Naming.ADDRESS


def _field(fields: Any, name: bytes) -> bytes | None:
    return next((value for own, value in fields if own.lower() == name), None)


def _client(flow: Mapping[str, Any], connection: Mapping[str, Any]) -> Client:
    """Who asked, as ``proxy.wire`` has it."""
    peer = connection.get("peername") or connection.get("address")
    own = connection.get("sockname")
    known = (flow.get("metadata") or {}).get("proxyauth")
    return Client(_text(peer[0]) if peer else "", _text(known[0]) if known else None, int(own[1]) if own else None)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _octets(value).decode("utf-8", "surrogateescape")


def _octets(value: Any) -> bytes:
    """Octets, and no number, of which ``bytes`` would make as many zeros."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, memoryview | bytes):
        return bytes(value)
    raise TypeError(f"expected octets, found {value!r:.40}")
