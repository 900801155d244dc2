"""HAR, as browsers and test drivers write it."""

from __future__ import annotations

import json
from hashlib import md5, sha1, sha256
from io import BytesIO
from typing import Any

import pytest

from hushlist.tools.audit.sources.browser_files import read_har
from hushlist.tools.audit.sources.recorded_request import BrokenRecord, ReadRecord, RecordedRequest, ResourceType
from shared import SHARED
from unit.rows import each_row

HARS = sorted((SHARED / "data" / "har").glob("*.har"))


def read(*entries: Any, **log: Any) -> list[ReadRecord]:
    return [*read_har(BytesIO(json.dumps({"log": {**log, "entries": entries}}).encode()), "f.har")]


def entry(url: str = "http://h.example/", media_type: str = "", status: int = 200, **own: Any) -> dict[str, Any]:
    content = {"mimeType": media_type}
    return {"request": {"method": "GET", "url": url}, "response": {"status": status, "content": content}, **own}


def test_an_entry_is_a_record_with_all_that_it_tells() -> None:
    initiator = {"type": "parser", "url": "http://page.example/"}
    (record,) = read(
        entry(
            "https://h.example/ü#frag", "text/css; charset=utf-8", startedDateTime="2026-11-21T10:00:00.5+01:00",
            _initiator=initiator,
        )
    )  # fmt: skip
    assert record == RecordedRequest(
        "https://h.example/ü#frag".encode(), "f.har", 1, ResourceType.STYLE, b"http://page.example/", 1795251600.5,
        method="GET", status=200,
        seen=({"for": "download", "status": "200", "fields": "content-type", "media-type": "text/css; charset=utf-8"},),
    )  # fmt: skip


def test_the_first_document_of_a_page_is_it_and_what_comes_behind_is_within_it() -> None:
    found = read(
        entry("http://old.example/", status=302, pageref="p1"),
        entry("http://page.example/", "text/html", pageref="p1"),
        entry("http://page.example/x.js", "text/javascript", pageref="p1"),
        entry("http://ad.example/", "text/html", pageref="p1"),
        entry("http://other.example/", "text/html", pageref="p2"),
        entry("http://other.example/x.js", "application/javascript", pageref="p2"),
    )
    assert [(own.kind.value, own.page) for own in found if isinstance(own, RecordedRequest)] == [
        ("document", None),
        ("document", None),
        ("script", b"http://page.example/"),
        ("frame", b"http://page.example/"),
        ("document", None),
        ("script", b"http://other.example/"),
    ]


@each_row(
    ("own", "page"),
    [
        ({"_initiator": "http://wpt.example/"}, b"http://wpt.example/"),
        ({"_initiator": {"type": "other"}}, None),
        ({}, None),
        (
            {"request": {"url": "http://h.example/", "headers": [{"name": "Referer", "value": "http://r.example/"}]}},
            b"http://r.example/",
        ),
    ],
)
def test_without_a_page_what_asked_stands_for_it(own: dict[str, Any], page: bytes | None) -> None:
    (record,) = read(
        entry(media_type="image/png", **{key: value for key, value in own.items() if key != "request"}) | own
    )
    assert isinstance(record, RecordedRequest)
    assert record.page == page


def test_chromium_s_own_type_counts_before_the_answer_s() -> None:
    (record,) = read(entry(media_type="text/plain", _resourceType="script"))
    assert isinstance(record, RecordedRequest)
    assert record.kind is ResourceType.SCRIPT


@each_row("broken", [1, None, {}, {"request": {}}, {"request": {"url": ""}}, {"request": {"url": 7}}, []])
def test_an_entry_without_a_url_is_broken_and_the_rest_is_read(broken: Any) -> None:
    first, bad, last = read(entry(), broken, entry())
    assert isinstance(first, RecordedRequest)
    assert isinstance(bad, BrokenRecord)
    assert bad.number == 2
    assert isinstance(last, RecordedRequest)
    assert last.number == 3


@each_row(
    "own",
    [{"response": 1}, {"startedDateTime": "yesterday"}, {"startedDateTime": 1}, {"pageref": []}, {"_initiator": 1}],
)
def test_what_is_not_as_it_should_be_is_not_known(own: dict[str, Any]) -> None:
    (record,) = read({**entry(), **own})
    assert isinstance(record, RecordedRequest)


@each_row("status", [True, -1, 1000, 10**4000, "200", 2.5, None])
def test_a_status_that_none_has_is_none(status: object) -> None:
    (record,) = read({**entry(), "response": {"status": status}})
    assert isinstance(record, RecordedRequest)
    assert record.status == 0


@pytest.mark.skipif(not HARS, reason="no ../shared/data/har; see HUSHLIST_SHARED")
def test_real_files_have_the_requests_that_a_plain_reading_finds() -> None:
    for path in HARS:
        plain = json.loads(path.read_text("utf-8-sig"))["log"]["entries"]
        with path.open("rb") as file:
            found = [*read_har(file, path.name)]
        assert [
            own.request.decode() for own in found if isinstance(own, RecordedRequest) and isinstance(own.request, bytes)
        ] == [own["request"]["url"] for own in plain]


@each_row(
    ("request_", "response", "seen"),
    [
        (
            {},
            {
                "headers": [{"name": "Content-Disposition", "value": "attachment; filename=a.png"}, 7, {"name": 1}],
                "content": {"mimeType": "image/png", "size": 4, "text": "TVqQAA==", "encoding": "base64"},
            },
            {
                "content": "program",
                "fields": "content-disposition",
                "for": "download",
                "hash": f"{sha256(b'MZ' + bytes([0x90, 0])).hexdigest()},{sha1(b'MZ' + bytes([0x90, 0])).hexdigest()},"
                f"{md5(b'MZ' + bytes([0x90, 0])).hexdigest()}",
                "name": "a.png",
                "size": "4",
                "status": "200",
            },
        ),
        ({}, {"content": {"mimeType": "a/b", "size": -1, "text": "%", "encoding": "base64"}}, {"fields": "content-type",
          "for": "download", "media-type": "a/b", "status": "200"}),
        ({"postData": {"mimeType": "text/plain", "text": "#!/bin/sh"}}, {}, {"content": "script", "for": "upload",
          "media-type": "text/plain", "size": "9"}),
        ({"postData": {"params": [{"fileName": "a.exe", "contentType": "x/y"}, {"name": "n"}, 7]}}, {},
         {"for": "upload", "media-type": "x/y", "name": "a.exe"}),
        ({"postData": {"mimeType": "multipart/form-data; boundary=q",
                       "text": '--q\r\nContent-Disposition: form-data; filename="a.exe"\r\n\r\nMZ\r\n--q--\r\n'}},
         {}, {"content": "text", "for": "upload", "name": "a.exe", "size": "2"}),
        ({"postData": {"mimeType": "multipart/form-data; boundary=q", "text": "--r"}}, {},
         {"for": "upload", "media-type": "multipart/form-data; boundary=q", "size": "3"}),
        ({"postData": {"text": 7, "params": 7}}, {"content": {"text": 7}}, {"for": "download", "status": "200"}),
    ],
)  # fmt: skip
def test_what_was_recorded_of_bodies_are_facts(
    request_: dict[str, Any], response: dict[str, Any], seen: dict[str, str]
) -> None:
    (record,) = read({"request": {"url": "http://h.example/", **request_}, "response": {"status": 200, **response}})
    assert isinstance(record, RecordedRequest)
    last = dict(record.seen[-1])
    # no archive is among them
    assert last.pop("members", "/") == "/"
    if "hash" not in seen:
        last.pop("hash", None)
    assert last == seen
