"""The formats of recorded browsing: their readers, and how a file's format is recognized."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hushlist.core.lists.format_detection import detect_format
from hushlist.tools.audit.sources import browser_files, line_sources
from hushlist.tools.audit.sources.mitmproxy_flows import read_flows
from hushlist.tools.audit.sources.recorded_request import ReadRecord

Records = Iterator[ReadRecord]
ReadStream = Callable[[BinaryIO, str], Records]


@dataclass(frozen=True, slots=True)
class SourceFormat:
    """A format with one of three readers: by line, from a stream, or from a file."""

    name: str
    #: its name for people
    text: str
    #: whether the first octets of a source look like this format
    looks_so: Callable[[bytes], bool]
    read_line: line_sources.ReadLine | None = None
    read_stream: ReadStream | None = None
    read_file: Callable[[Path, str], Records] | None = None


_FLOW = re.compile(rb"[0-9]{1,12}:[0-9]{1,4}:[a-z_]+[;,]")
_OBJECT = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{")


#: lines of a log that are checked: the first may be cut off, if the log was rotated
_MOST_LINES = 10


def _has_line(head: bytes, pattern: re.Pattern[bytes]) -> bool:
    return any(map(pattern.match, head.split(b"\n", _MOST_LINES)[:_MOST_LINES]))


def _is_object(head: bytes) -> bool:
    return _OBJECT.match(head) is not None


def _is_table(head: bytes) -> bool:
    return head.lstrip().split(b"\n", 1)[0].count(b"\t") >= 2


#: in the order in which they are tried; the last fits everything
FORMATS: dict[str, SourceFormat] = {
    form.name: form
    for form in (
        SourceFormat(
            "history",
            "the history of Chrome, Edge (History) or Firefox (places.sqlite)",
            lambda head: head.startswith(browser_files.MAGIC),
            read_file=browser_files.read_history,
        ),
        SourceFormat(
            "flows",
            "flows that mitmproxy has written",
            lambda head: _FLOW.match(head) is not None,
            read_stream=read_flows,
        ),
        SourceFormat(
            "decisions",
            "the filter's own decision log, decisions.jsonl",
            lambda head: head.startswith(line_sources.DECISION),
            read_line=line_sources.read_decision,
        ),
        SourceFormat(
            "takeout",
            "Google Takeout's History.json or BrowserHistory.json",
            lambda head: _is_object(head) and f'"{browser_files.KEY}"'.encode() in head,
            read_stream=browser_files.read_takeout,
        ),
        SourceFormat(
            "har", "HAR, of a browser's tools or another recorder", _is_object, read_stream=browser_files.read_har
        ),
        SourceFormat(
            "squid",
            "Squid's access.log in its native format",
            lambda head: _has_line(head, line_sources.SQUID),
            read_line=line_sources.read_squid,
        ),
        SourceFormat(
            "common",
            "an access log in the Common or Combined Log Format",
            lambda head: _has_line(head, line_sources.COMMON),
            read_line=line_sources.read_common,
        ),
        SourceFormat(
            "requests", "URL, page and type, with tabs between them", _is_table, read_line=line_sources.read_request
        ),
        SourceFormat("urls", "plain URLs, one a line", lambda _: True, read_line=line_sources.read_url),
    )
}


#: formats of lists that requests may be written in, too
_OF_BOTH = frozenset(
    ("urls", "domains", "addresses", "csv", "tsv", "ranked-domains", "address-counts", "words", "searches")
)


def list_format_of(path: Path) -> str:
    """The format of a list that a file is by its content, if no requests are written so; else empty."""
    try:
        form = detect_format(path).form
    except (OSError, ValueError):  # who reads the source says so
        return ""
    return "" if form is None or form in _OF_BOTH else form


def source_format_of(head: bytes) -> SourceFormat:
    """The format that a source's first octets look like.

    >>> source_format_of(b'{"log": {').name, source_format_of(b"http://h.example/").name
    ('har', 'urls')
    """
    return next(form for form in FORMATS.values() if form.looks_so(head))
