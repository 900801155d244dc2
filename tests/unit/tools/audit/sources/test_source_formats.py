"""Telling formats apart."""

from __future__ import annotations

from hushlist.tools.audit.sources.source_formats import FORMATS, source_format_of
from unit.rows import each_row


@each_row(
    ("name", "head"),
    [
        ("history", b"SQLite format 3\0..."),
        ("flows", b"1688:9:websocket;0:~8:response;"),
        ("flows", b"900:8:response,0:~"),
        ("har", b'\xef\xbb\xbf\n{"log": {"version": "1.2"'),
        ("takeout", b'{"Browser History": ['),
        ("takeout", b'{\n  "Session": [],\n "Browser History": ['),
        ("squid", b"1286536309.450 180 192.0.2.68 TCP_MISS/200 3874 GET http://h.example/ - HIER_DIRECT/1.2.3.4 -\n"),
        ("squid", b"1286536309.450 180 ::1 NONE_NONE/000 0 - error:transaction-end-before-headers - HIER_NONE/- -\r\n"),
        ("common", b'127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET http://h.example/ HTTP/1.0" 200 2326\n'),
        ("squid", b"/ - NONE/- -\n1286536309.450 180 ::1 TCP_MISS/200 38 GET http://h.example/ - NONE/- -\n"),
        ("common", b'h.example:80 ::1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 5 "-" "curl"\n'),
        ("decisions", b'{"reference": "003F8KQ71Z", "time": "2026-12-24T22:30:00.250Z", "client": "10.0.0.7"'),
        ("requests", b"http://h.example/\t\t\tbrave\n"),
        ("urls", b"http://h.example/\n"),
        ("urls", b""),
        (
            "urls",
            b"http://h.example/\n" * 10 + b"1286536309.450 180 ::1 TCP_MISS/200 38 GET http://h.example/ - NONE/- -",
        ),
    ],
)
def test_a_format_is_told_by_what_is_in_it(name: str, head: bytes) -> None:
    assert source_format_of(head) is FORMATS[name]


def test_every_format_is_read_in_one_way() -> None:
    for own in FORMATS.values():
        assert sum(how is not None for how in (own.read_line, own.read_stream, own.read_file)) == 1
