"""Sources with one record a line: plain URLs, tables of requests, and access logs.

Tables are those that studies of ad blockers publish. Access logs are those of proxies and servers: Squid's native
format, and the Common and Combined Log Format. Decisions are the filter's own log.

Spec: Squid FAQ, "access.log"; Apache httpd, mod_log_config, "Common Log Format" and "Combined Log Format"
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import BinaryIO
from urllib.parse import unquote_to_bytes

from hushlist.core.policy.groups import Client
from hushlist.tools.audit.sources import recorded_request

#: most octets of a line; a longer one is broken, and not kept
LONGEST_LINE = 1 << 20
#: most characters of a URL in the decision log; of a longer one, it has these and "..."
_LONGEST_LOGGED = 4096

#: parses a line without its end; ``None`` if the line has no record; raises ``LineError``
ReadLine = Callable[[bytes, str, int], recorded_request.RecordedRequest | None]


class LineError(ValueError):
    """A line is not a record; says why."""


def read_lines(
    stream: BinaryIO, source: str, read: ReadLine, first: int = 1, octets: int | None = None
) -> Iterator[recorded_request.RecordedRequest | recorded_request.BrokenRecord]:
    """The records of up to so many octets of a stream's lines; ``first`` is the number of the first line."""
    number, done = first - 1, 0
    while (octets is None or done < octets) and (line := stream.readline(LONGEST_LINE)):
        number += 1
        done += len(line)
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            done += _finish_line(stream)
            yield recorded_request.BrokenRecord(source, number, f"the line is longer than {LONGEST_LINE:,} octets")
            continue
        try:
            record = read(line.rstrip(b"\r\n"), source, number)
        except LineError as error:
            yield recorded_request.BrokenRecord(source, number, str(error))
        else:
            if record is not None:
                yield record


def _finish_line(stream: BinaryIO) -> int:
    """Skip the rest of the line; returns its number of octets."""
    done = 0
    while piece := stream.readline(LONGEST_LINE):
        done += len(piece)
        if piece.endswith(b"\n"):
            break
    return done


def read_url(line: bytes, source: str, number: int) -> recorded_request.RecordedRequest | None:
    """One URL a line; empty lines have no record."""
    line = line.strip()
    return recorded_request.RecordedRequest(line, source, number) if line else None


def read_request(line: bytes, source: str, number: int) -> recorded_request.RecordedRequest | None:
    """URL, page, type and perhaps more columns, with tabs between them; headings in the first line are skipped.

    >>> read_request(b"http://h.example/x.js\\thttp://h.example/\\tscript\\tstudy", "requests.tsv", 7).kind
    <ResourceType.SCRIPT: 'script'>
    """
    url, *rest = line.split(b"\t")
    url = url.strip()
    if not url:
        if any(map(bytes.strip, rest)):
            raise LineError("the first column, the URL, is empty")
        return None
    if number == 1 and url.lower() in _HEADINGS:
        return None
    page = rest[0].strip() if rest else b""
    name = rest[1].strip() if len(rest) > 1 else b""
    # If only the page's scheme is known, the page is not.
    page_url = page if page and not page.endswith(b"://") else None
    kind = recorded_request.resource_type_of_name(name.decode("ascii", "replace"))
    if kind is recorded_request.ResourceType.DOCUMENT and page_url not in (None, url):
        kind = recorded_request.ResourceType.FRAME
    return recorded_request.RecordedRequest(url, source, number, kind, page_url)


_HEADINGS = (b"url", b"request", b"requesturl", b"request_url")


# time elapsed client code/status octets method URL user hierarchy/peer type
SQUID = re.compile(
    rb"\s*(\d+\.\d+)\s+-?\d+\s+(\S+)\s+[A-Z_]+/(\d{3})\s+-?\d+\s+(\S+)\s+(\S+)\s+(\S+)\s+\S+/\S+(?:\s+(\S+))?"
)


def read_squid(line: bytes, source: str, number: int) -> recorded_request.RecordedRequest | None:
    """A line of ``access.log``; a tunnel counts as a request for its host's root.

    >>> line = b"1286536308.7 180 192.0.2.4 TCP_TUNNEL/200 3874 CONNECT h.example:443 mia HIER_DIRECT/192.0.2.9 -"
    >>> record = read_squid(line, "access.log", 1)
    >>> record.request, record.client.user
    (b'https://h.example:443/', 'mia')
    """
    if not line.strip():
        return None
    match = SQUID.match(line)
    if match is None:
        raise LineError("it is no line of Squid's access.log")
    time, client, status, method, url, user, media_type = match.groups()
    return recorded_request.RecordedRequest(
        _tunnel(url) if method == b"CONNECT" else url,
        source,
        number,
        recorded_request.ResourceType.UNKNOWN
        if media_type is None
        else recorded_request.resource_type_of_media(media_type.decode("ascii", "replace")),
        time=recorded_request.time_of(float(time)),
        client=_client(client, unquote_to_bytes(user)),
        method=method.decode("ascii", "replace"),
        status=int(status),
    )


def _tunnel(target: bytes) -> bytes:
    """The URL of a tunnel; for an unreadable target, Squid writes "error:" and the reason."""
    return target if target.startswith(b"error:") else b"https://" + target + b"/"


# [virtual host] client ident user [time] "request" status octets ["referer" ["agent"]]; a user may have spaces, and a
# client is never "-", as most idents are
COMMON = re.compile(
    rb"(?:(\S+) (?!- ))?(\S+) (\S+) (\S[^\[]*) \[(\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] "
    rb'"((?:[^"\\]|\\.)*)" (\d{3}|-) (?:\d+|-)(?: "((?:[^"\\]|\\.)*)")?'
)
_MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")


def read_common(line: bytes, source: str, number: int) -> recorded_request.RecordedRequest | None:
    """A line of a log in the Common or Combined Log Format, perhaps after the name of a virtual host.

    A proxy's log has whole URLs; a server's log has only paths. Without a virtual host the site of a path is not known,
    so the line is broken.

    >>> line = b'h.example:80 192.0.2.4 - mia [10/Oct/2026:13:55:36 -0700] "GET /a HTTP/1.1" 200 2326'
    >>> record = read_common(line, "access.log", 1)
    >>> record.request, record.client, int(record.time)
    (b'http://h.example:80/a', Client(address='192.0.2.4', user='mia', port=None), 1791665736)
    """
    if not line.strip():
        return None
    match = COMMON.match(line)
    if match is None:
        raise LineError("it is no line in the Common Log Format")
    host, client, _, user, time, request, status, referer = match.groups()
    method, url = _method_and_url(_unescape(request), host)
    page = _unescape(referer) if referer not in (None, b"", b"-") else None
    return recorded_request.RecordedRequest(
        url,
        source,
        number,
        page=page,
        time=_time(time),
        client=_client(client, user),
        method=method.decode("ascii", "replace"),
        status=0 if status == b"-" else int(status),
    )


#: how the decision log of this filter begins a line
DECISION = b'{"reference": "'


def read_decision(line: bytes, source: str, number: int) -> recorded_request.RecordedRequest | None:
    """A line of the filter's own ``decisions.jsonl``; a line about the log itself has no record.

    >>> line = b'{"reference": "0", "time": "2026-12-24T12:00:00.500Z", "user": "mia", "url": "http://h.example/"}'
    >>> record = read_decision(line, "decisions.jsonl", 1)
    >>> record.request, record.client.user, record.time
    (b'http://h.example/', 'mia', 1798113600.5)
    """
    if not line.strip():
        return None
    try:
        fields = json.loads(line)
        url, time = fields.get("url"), fields.get("time")
        client, user, method = (fields.get(key) for key in ("client", "user", "method"))
        moment = None if time is None else recorded_request.time_of(datetime.fromisoformat(time).timestamp())
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        raise LineError("it is no line of the decision log") from None
    if url is None and fields.get("action") == "lost":
        return None
    if not isinstance(url, str) or not all(isinstance(text, str | None) for text in (client, user, method)):
        raise LineError("it is no line of the decision log")
    if len(url) > _LONGEST_LOGGED:
        raise LineError("the log has only the beginning of its URL")
    url_octets = url.encode("utf-8", "surrogatepass")
    who = Client(client or "", user)
    return recorded_request.RecordedRequest(url_octets, source, number, time=moment, client=who, method=method or "")


def _method_and_url(request: bytes, host: bytes | None) -> tuple[bytes, bytes]:
    """Method and URL of a request line."""
    method, space, rest = request.partition(b" ")
    target = rest.rpartition(b" ")[0] or rest  # without the protocol, which HTTP/0.9 does not have
    if not space or not target:
        raise LineError("its request line is none")
    if method == b"CONNECT":
        return method, _tunnel(target)
    if not target.startswith(b"/"):
        return method, target
    if host is None:
        raise LineError("its target is a path, and no host is named")
    scheme = b"https://" if host.endswith(b":443") else b"http://"
    return method, scheme + host + target


_ESCAPE = re.compile(rb"\\(?:x([0-9A-Fa-f]{2})|(.))")
_ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"v": b"\v"}


def _unescape(text: bytes) -> bytes:
    if b"\\" not in text:
        return text
    return _ESCAPE.sub(
        lambda match: bytes.fromhex(match[1].decode()) if match[1] else _ESCAPED.get(match[2], match[2]), text
    )


def _time(text: bytes) -> float | None:
    """Seconds since 1970, of "10/Oct/2026:13:55:36 -0700"; ``strptime`` takes five times as long."""
    try:
        moment = datetime(
            int(text[7:11]),
            _MONTHS.index(text[3:6]) + 1,
            int(text[:2]),
            int(text[12:14]),
            int(text[15:17]),
            min(int(text[18:20]), 59),  # a leap second
            tzinfo=UTC,
        )
    except ValueError:
        raise LineError("there is no such time") from None
    offset = timedelta(hours=int(text[22:24]), minutes=int(text[24:26]))
    seconds = offset.total_seconds()
    return recorded_request.time_of(moment.timestamp() + (seconds if text[21:22] == b"-" else -seconds))


def _client(address: bytes, user: bytes) -> Client:
    return Client(address.decode("ascii", "replace"), None if user == b"-" else user.decode("utf-8", "replace"))
