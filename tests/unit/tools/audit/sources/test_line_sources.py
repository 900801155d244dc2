"""Sources with a record a line: URLs, tables, and access logs."""

from __future__ import annotations

from io import BytesIO

import pytest

from hushlist.core.decide.decision import Decision, LogRecord
from hushlist.core.match.rule import Action
from hushlist.core.policy.groups import Client
from hushlist.extensions.journal.log_entry import fields_of
from hushlist.extensions.journal.log_record import Privacy, lost_record, to_line
from hushlist.tools.audit.sources import line_sources as module
from hushlist.tools.audit.sources.line_sources import (
    ReadLine,
    read_common,
    read_decision,
    read_lines,
    read_request,
    read_squid,
    read_url,
)
from hushlist.tools.audit.sources.recorded_request import BrokenRecord, ReadRecord, RecordedRequest, ResourceType
from unit.rows import each_row


def read(octets: bytes, how: ReadLine, first: int = 1) -> list[ReadRecord]:
    return [*read_lines(BytesIO(octets), "s", how, first)]


def record_of(line: bytes, how: ReadLine) -> RecordedRequest:
    (record,) = read(line, how)
    assert isinstance(record, RecordedRequest), record
    return record


def test_urls_stand_one_a_line_with_ends_of_any_kind() -> None:
    found = read(b"http://a.example/#f\r\n\n  b.example \nhttp://c.example/\xff", read_url, 7)
    assert found == [
        RecordedRequest(b"http://a.example/#f", "s", 7),
        RecordedRequest(b"b.example", "s", 9),
        RecordedRequest(b"http://c.example/\xff", "s", 10),
    ]


def test_a_line_that_is_too_long_is_broken_and_the_rest_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_LINE", 10)
    found = read(b"a.example\n" + b"x" * 35 + b"\nb.example\n" + b"y" * 10, read_url)
    why = "the line is longer than 10 octets"
    assert found == [
        RecordedRequest(b"a.example", "s", 1),
        BrokenRecord("s", 2, why),
        RecordedRequest(b"b.example", "s", 3),
        BrokenRecord("s", 4, why),
    ]


@each_row(
    ("line", "kind", "page"),
    [
        (b"http://h.example/\thttp://p.example/\tscript\tghostery", ResourceType.SCRIPT, b"http://p.example/"),
        (b"http://h.example/\thttps://\timage\tx", ResourceType.IMAGE, None),
        (b"http://h.example/\t\t\tbrave", ResourceType.UNKNOWN, None),
        (b"http://h.example/\thttp://h.example/\tdocument\tx", ResourceType.DOCUMENT, b"http://h.example/"),
        (b"http://h.example/\thttp://p.example/\tdocument\tx", ResourceType.FRAME, b"http://p.example/"),
        (b"http://h.example/\t\tping", ResourceType.PING, None),
    ],
)
def test_tables_tell_page_and_kind(line: bytes, kind: ResourceType, page: bytes | None) -> None:
    assert record_of(line, read_request) == RecordedRequest(b"http://h.example/", "s", 1, kind, page)


def test_a_heading_is_no_record_and_a_row_without_a_url_is_broken() -> None:
    found = read(b"url\tpage\ttype\nhttp://h.example/\t\t\n\n\tpage\t\n", read_request)
    assert found == [
        RecordedRequest(b"http://h.example/", "s", 2),
        BrokenRecord("s", 4, "the first column, the URL, is empty"),
    ]


def test_squid_s_requests_are_read() -> None:
    line = (
        b"1286536309.450    180 192.0.2.68 TCP_MISS/200 3874 GET http://h.example/a?b - HIER_DIRECT/192.0.2.9 text/css"
    )
    assert record_of(line, read_squid) == RecordedRequest(
        b"http://h.example/a?b", "s", 1, ResourceType.STYLE, None, 1286536309.45, Client("192.0.2.68"), "GET", 200
    )  # fmt: skip


def test_squid_s_tunnels_stand_for_their_hosts() -> None:
    record = record_of(b"1.5 1 ::1 TCP_TUNNEL/200 1 CONNECT h.example:8443 mia HIER_DIRECT/- -", read_squid)
    assert (record.request, record.client, record.method) == (
        b"https://h.example:8443/",
        Client("::1", "mia"),
        "CONNECT",
    )


def test_squid_s_words_for_what_it_could_not_read_are_no_host() -> None:
    for method in (b"CONNECT", b"NONE"):
        line = b"1.5 1 ::1 NONE/400 1 %b error:invalid-request - HIER_NONE/- -" % method
        assert record_of(line, read_squid).request == b"error:invalid-request"
    line = b'::1 - - [01/Jan/2026:00:00:00 +0000] "CONNECT error:invalid-request HTTP/1.1" 400 1'
    assert record_of(line, read_common).request == b"error:invalid-request"


def test_users_may_have_spaces() -> None:
    line = b"1.5 1 ::1 TCP_MISS/200 1 GET http://h.example/ mia%20m%c3%bcller NONE/- -"
    assert record_of(line, read_squid).client == Client("::1", "mia müller")
    for host in (b"", b"h.example "):
        line = host + b'::1 - mia m [01/Jan/2026:00:00:00 +0000] "GET http://h.example/ HTTP/1.1" 200 5'
        assert record_of(line, read_common).client == Client("::1", "mia m")


def test_a_proxy_s_common_log_is_read() -> None:
    line = (
        rb'192.0.2.1 - mia [29/Feb/2024:23:59:60 +0530] "GET http://h.example/\"\xc3\xa9 HTTP/1.1" 404 -'
        rb' "http://page.example/" "Agent \"x\""'
    )
    assert record_of(line, read_common) == RecordedRequest(
        "http://h.example/\"é".encode(), "s", 1, ResourceType.UNKNOWN, b"http://page.example/", 1709231399.0,
        Client("192.0.2.1", "mia"), "GET", 404,
    )  # fmt: skip


@each_row(
    ("host", "request_", "url"),
    [
        (b"h.example:443 ", b"GET /x HTTP/2.0", b"https://h.example:443/x"),
        (b"h.example ", b"GET /x", b"http://h.example/x"),
        (b"", b"CONNECT h.example:443 HTTP/1.1", b"https://h.example:443/"),
        (b"", b"GET http://h.example/a b HTTP/1.1", b"http://h.example/a b"),
    ],
)
def test_the_url_is_told_by_the_target_and_the_virtual_host(host: bytes, request_: bytes, url: bytes) -> None:
    line = host + b'::1 - - [01/Jan/2026:00:00:00 +0000] "' + request_ + b'" 200 5'
    assert record_of(line, read_common).request == url


@each_row(
    ("line", "how", "why"),
    [
        (b"something", read_squid, "it is no line of Squid's access.log"),
        (b"something", read_common, "it is no line in the Common Log Format"),
        (
            b'::1 - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 5',
            read_common,
            "its target is a path, and no host is named",
        ),
        (b'::1 - - [01/Jan/2026:00:00:00 +0000] "-" 408 -', read_common, "its request line is none"),
        (b'::1 - - [31/Feb/2026:00:00:00 +0000] "GET http://h/ HTTP/1.1" 200 5', read_common, "there is no such time"),
        (b'::1 - - [01/Foo/2026:00:00:00 +0000] "GET http://h/ HTTP/1.1" 200 5', read_common, "there is no such time"),
    ],
)
def test_a_line_that_is_none_says_why_and_the_rest_is_read(line: bytes, how: ReadLine, why: str) -> None:
    assert read(line + b"\n\n", how) == [BrokenRecord("s", 1, why)]


@pytest.mark.parametrize("time", [b"31/Dec/9999:23:59:59 -0100", b"01/Jan/0001:00:00:00 +0100"])
def test_at_the_calendar_s_ends_a_time_is_not_known(time: bytes) -> None:
    record = read_common(b'::1 - - [%b] "GET http://h.example/ HTTP/1.1" 200 1' % time, "s", 1)
    assert record is not None
    assert (record.url, record.time) == (b"http://h.example/", None)
    record = read_squid(b"9" * 400 + b".1 1 ::1 A/200 1 GET http://h.example/ - A/b", "s", 1)
    assert record is not None
    assert (record.url, record.time) == (b"http://h.example/", None)


# -- the decision log --------------------------------------------------------------------------------------------------


def test_the_filters_own_log_is_read_as_it_is_written() -> None:
    decision = Decision(Action.BLOCK, request=b"http://h.example/a?b")
    written = LogRecord("003F8KQ71Z", 1_798_151_400.25, decision, "10.0.0.7", "mia", method="GET")
    lines = to_line(fields_of(written, Privacy())) + to_line(lost_record("003F8KQ720", 1_798_151_401, 7)) + b"\n"
    assert read(lines, read_decision) == [
        RecordedRequest(
            b"http://h.example/a?b",
            "s",
            1,
            time=1_798_151_400.25,
            client=Client("10.0.0.7", "mia"),
            method="GET",
        )
    ]


@each_row(
    ("line", "why"),
    [
        (b"nonsense", "it is no line of the decision log"),
        (b"[1]", "it is no line of the decision log"),
        (b'{"reference": "1"}', "it is no line of the decision log"),
        (b'{"url": 7}', "it is no line of the decision log"),
        (b'{"url": "http://h.example/", "client": []}', "it is no line of the decision log"),
        (b'{"url": "http://h.example/", "time": 7}', "it is no line of the decision log"),
        (b'{"url": "http://h.example/", "time": "soon"}', "it is no line of the decision log"),
        (b"[" * 100_000, "it is no line of the decision log"),
        (b'{"url": "http://h.example/' + b"a" * 4096 + b'..."}', "the log has only the beginning of its URL"),
    ],
)
def test_a_line_that_is_no_decision_is_broken(line: bytes, why: str) -> None:
    assert read(line, read_decision) == [BrokenRecord("s", 1, why)]
