"""The readers of recorded browsing: every format, plain and compressed."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache, partial
from typing import Any, BinaryIO, cast

import zstandard
from mitmproxy.io import FlowWriter
from mitmproxy.test import tflow

from hushlist.core.policy.groups import NOBODY
from hushlist.core.system.compression import HEAD, decompressed, is_compressed
from hushlist.tools.audit.replay.auditor import Auditor, ReplayMoment
from hushlist.tools.audit.sources.line_sources import read_lines
from hushlist.tools.audit.sources.recorded_request import BrokenRecord, RecordedRequest, SkippedRecord
from hushlist.tools.audit.sources.source_formats import FORMATS, SourceFormat, source_format_of
from unit.parsers.lines import engine
from unit.parsers.table import NOON, Parser, scratch_file

PARSERS: dict[str, Parser] = {}


#: records that are decided: that takes the same time for each
_DECIDED = 200


def _read(form: SourceFormat, octets: bytes) -> None:
    """What is broken is a record that says so; what is not can be decided, as of its own time and client."""
    if form.read_line is not None:
        records: Any = read_lines(io.BytesIO(octets), "s", form.read_line)
    elif form.read_stream is not None:
        records = form.read_stream(io.BytesIO(octets), "s")
    else:
        assert form.read_file is not None
        path = scratch_file()
        path.write_bytes(octets)
        records = form.read_file(path, "s")
    found = list(records)
    for record in found:
        assert isinstance(record, RecordedRequest | BrokenRecord | SkippedRecord)
        if isinstance(record, RecordedRequest):
            assert record.ranked[1] is not None
            assert len(record.key) == 32
        else:
            assert record.number >= 0
            assert str(record)
    some = found[:_DECIDED]
    tally = Auditor(engine(), ReplayMoment(NOON, NOBODY, as_recorded=True)).add(some, "s", form.name)
    assert tally.records + sum(own.broken + own.skipped for own in tally.sources.values()) == len(some)


_ENTRY = {
    "pageref": "page_1",
    "startedDateTime": "2026-12-24T12:00:00.5+01:00",
    "_resourceType": "script",
    "_initiator": {"type": "parser", "url": "http://page.example/"},
    "request": {
        "method": "GET",
        "url": "http://blocked.example/x?y",
        "headers": [{"name": "Referer", "value": "http://page.example/"}],
    },
    "response": {"status": 302, "content": {"mimeType": "text/html; charset=utf-8"}},
}
_PAGE = {**_ENTRY, "_resourceType": "document", "response": {"status": 200}}
_VISIT = {"page_transition": "AUTO_SUBFRAME", "url": "http://blocked.example/", "time_usec": 1_798_113_600_000_000}


@cache
def _flows() -> bytes:
    file = io.BytesIO()
    web, other = tflow.tflow(resp=True), tflow.tdnsflow(resp=True)
    web.request.url, web.client_conn.sni = "https://blocked.example:8443/x", "h.example"
    web.metadata["proxyauth"] = ("jo", "secret")
    for flow in (web, other, tflow.twebsocketflow(), tflow.ttcpflow()):
        FlowWriter(cast(BinaryIO, file)).add(flow)
    return file.getvalue()


def _database(script: str) -> bytes:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("pragma page_size = 512")
        database.executescript(script)
        return bytes(database.serialize())


#: the columns that are read, of those that chromium and mozilla have
_CHROMIUM = """
    create table urls(id integer primary key, url longvarchar);
    create table visits(id integer primary key, url integer, visit_time integer, from_visit integer,
        transition integer);
    insert into urls(url) values ('https://page.example/#frag'), ('https://blocked.example/'), (null);
    insert into visits(url, visit_time, from_visit, transition) values
        (1, 13439725200500000, 0, 805306369), (2, 13439725201000000, 1, 805306371), (3, 0, 0, 0);
"""
_FIREFOX = """
    create table moz_places(id integer primary key, url longvarchar);
    create table moz_historyvisits(id integer primary key, from_visit integer, place_id integer, visit_date integer,
        visit_type integer);
    insert into moz_places(url) values ('https://page.example/'), ('https://blocked.example/'), (null);
    insert into moz_historyvisits(from_visit, place_id, visit_date, visit_type) values
        (0, 1, 1795251600500000, 1), (1, 2, null, 8), (0, 3, 'text', 1);
"""


@cache
def _samples(name: str) -> tuple[bytes, ...]:
    match name:
        case "history":
            return _database(_CHROMIUM), _database(_FIREFOX), _database("create table a(b)")
        case "flows":
            return (_flows(),)
        case "har":
            return tuple(
                json.dumps({"log": {"version": "1.2", "entries": own}}).encode() for own in ([_ENTRY], [_PAGE] * 2)
            )
        case "takeout":
            return (json.dumps({"Typed Url": [], "Browser History": [_VISIT, {**_VISIT, "time_usec": None}]}).encode(),)
        case "squid":
            return (
                b"1286536308.7 180 192.0.2.4 TCP_TUNNEL/200 3874 CONNECT h.example:443 mia HIER_DIRECT/192.0.2.9 -\n"
                b"1286536309.123  5 ::1 TCP_MISS/404 1 GET http://blocked.example/ - HIER_DIRECT/- text/html\n",
            )
        case "common":
            return (
                b'h.example:80 192.0.2.4 - mia [10/Oct/2026:13:55:36 -0700] "GET /a\\x22 HTTP/1.1" 200 9 "-" "Agent"\n'
                b'192.0.2.4 - - [31/Dec/9999:23:59:59 -0100] "CONNECT blocked.example:443 HTTP/1.1" - - "http://p/"\n',
            )
        case "decisions":
            return (
                b'{"reference": "0", "time": "2026-12-24T12:00:00.500Z", "client": "::1", "url": "http://h.example/"}\n'
                b'{"reference": "1", "time": "2026-12-24T12:00:01.000Z", "action": "lost", "lost": 3}\n',
            )
        case "requests":
            return (
                b"url\tpage\ttype\nhttp://blocked.example/x\thttp://p.example/\tscript\nhttp://a.example\thttps://\t\n",
            )
        case _:
            return (b"http://blocked.example/\r\n\n  h.example \nhttp://user:secret@h.example/\ndata:x\n",)


_UNITS: dict[str, tuple[bytes, ...]] = {
    "har": (b'{"request": {"url": "http://h.example/"}},', b'{"a":', b'"\\u', b"1,", b"9", b"{},", b'{"log": '),
    "takeout": (b'{"url": "http://h.example/"},', b"[[", b'{"a": 1}, ', b'"a": {}, ', b"1" * 400 + b","),
    "flows": (b"4:true!", b"0:~", b"5:1:1#]", b"1:", b"12:1:a,5:hello,}", b"0:}", b"0:]"),
    "squid": (b"1.1 1 a A/200 1 GET http://h.example/ - A/b\n", b"1.1 ", b"A/", b"a "),
    "common": (b'a - - [10/Oct/2026:13:55:36 -0700] "GET http://h.example/ H" 200 1\n', b'\\"', b"a ", b'"a" ', b"\\x"),
    "decisions": (b'{"reference": "1", "url": "http://h.example/"}\n', b'{"url": 1}\n', b'"time": "9999", ', b"[" * 99),
    "requests": (b"http://h.example/\tx\tscript\n", b"\t"),
    "urls": (b"http://h.example/\n", b"h.example\n"),
}

for _form in FORMATS.values():
    PARSERS[f"records {_form.name}"] = Parser(
        partial(_read, _form), partial(_samples, _form.name), units=_UNITS.get(_form.name, ())
    )


# -- compression -------------------------------------------------------------------------------------------------------

#: octets that are looked at of what is unpacked; a bomb has more
_MOST = 1 << 20


def _unpack(octets: bytes) -> None:
    stream = decompressed(io.BufferedReader(cast(io.RawIOBase, io.BytesIO(octets))))
    assert is_compressed(octets[:8]) or stream.peek(1)[:1] == octets[:1]
    head = stream.peek(HEAD)
    assert source_format_of(head).name in FORMATS
    done = 0
    while done < _MOST and (piece := stream.read1(HEAD)):
        assert len(piece) <= HEAD
        done += len(piece)


_TEXT = b"http://blocked.example/\n" * 20
_COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstandard": zstandard.compress,
}


@cache
def _compressed(name: str) -> tuple[bytes, ...]:
    compress = _COMPRESSORS[name]
    whole, bomb = compress(_TEXT), compress(bytes(1 << 22))
    return whole, whole + compress(b"more"), whole[:-5], bomb, bomb[: len(bomb) // 2]


for _name, _compress in _COMPRESSORS.items():
    PARSERS[f"records, by {_name}"] = Parser(
        _unpack, partial(_compressed, _name), (OSError,), (_compress(b""), _compress(b"a\n"))
    )
