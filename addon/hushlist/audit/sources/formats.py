"""The formats of recorded browsing: their readers, and how they are told apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hushlist.audit.record import Read
from hushlist.audit.sources import history, lines, logs, takeout
from hushlist.audit.sources.flows import read_flows
from hushlist.audit.sources.har import read_har

Records = Iterator[Read]


@dataclass(frozen=True, slots=True)
class Format:
    """One of three: it is read by line, as a stream, or as a file."""

    name: str
    #: for people
    text: str
    #: whether the first octets of a source look like it
    looks_so: Callable[[bytes], bool]
    read_line: lines.ReadLine | None = None
    read_stream: Callable[[BinaryIO, str], Records] | None = None
    read_file: Callable[[Path, str], Records] | None = None


_FLOW = re.compile(rb"[0-9]{1,12}:[0-9]{1,4}:[a-z_]+[;,]")
_OBJECT = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{")


#: lines of a log that are looked at, since one that was cut when it was rotated begins with half a line
_MOST_LINES = 10


def _has_line(head: bytes, pattern: re.Pattern[bytes]) -> bool:
    return any(map(pattern.match, head.split(b"\n", _MOST_LINES)[:_MOST_LINES]))


def _is_object(head: bytes) -> bool:
    return _OBJECT.match(head) is not None


def _is_table(head: bytes) -> bool:
    return head.lstrip().split(b"\n", 1)[0].count(b"\t") >= 2


#: in the order in which they are tried; the last is what everything else is taken for
FORMATS: dict[str, Format] = {
    own.name: own
    for own in (
        Format(
            "history",
            "the history of Chrome, Edge (History) or Firefox (places.sqlite)",
            lambda head: head.startswith(history.MAGIC),
            read_file=history.read_history,
        ),
        Format(
            "flows",
            "flows that mitmproxy has written",
            lambda head: _FLOW.match(head) is not None,
            read_stream=read_flows,
        ),
        Format(
            "takeout",
            "Google Takeout's History.json or BrowserHistory.json",
            lambda head: _is_object(head) and f'"{takeout.KEY}"'.encode() in head,
            read_stream=takeout.read_takeout,
        ),
        Format("har", "HAR, of a browser's tools or another recorder", _is_object, read_stream=read_har),
        Format(
            "squid",
            "Squid's access.log in its native format",
            lambda head: _has_line(head, logs.SQUID),
            read_line=logs.read_squid,
        ),
        Format(
            "common",
            "an access log in the Common or Combined Log Format",
            lambda head: _has_line(head, logs.COMMON),
            read_line=logs.read_common,
        ),
        Format("requests", "URL, page and type, with tabs between them", _is_table, read_line=lines.read_request),
        Format("urls", "plain URLs, one a line", lambda _: True, read_line=lines.read_url),
    )
}


def format_of(head: bytes) -> Format:
    """The format that a source's first octets look like.

    >>> format_of(b'{"log": {').name, format_of(b"http://h.example/").name
    ('har', 'urls')
    """
    return next(own for own in FORMATS.values() if own.looks_so(head))
