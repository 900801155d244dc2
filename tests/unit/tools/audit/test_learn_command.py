"""Which hosts a recorded page needs: of records that name their page, and of those that do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hushlist.cli import main
from hushlist.core.policy.groups import Client
from hushlist.tools.audit.learn_command import needed_hosts
from hushlist.tools.audit.sources.recorded_request import RecordedRequest, ResourceType

SCRIPT = ResourceType.SCRIPT


def test_hosts_of_records_with_pages() -> None:
    page, document = b"https://exam.example/a", ResourceType.DOCUMENT
    records = [
        RecordedRequest(b"https://exam.example/a", kind=document, page=page),
        RecordedRequest(b"https://cdn.example/x.js", kind=SCRIPT, page=page),
        RecordedRequest(b"https://cdn.example/x.css", kind=ResourceType.STYLE, page=b"https://exam.example/b"),
        RecordedRequest(b"https://other.example/x.js", kind=SCRIPT, page=b"https://news.example/"),
        RecordedRequest(b"https://next.example/", kind=document, page=page),
        RecordedRequest(b"http://a%00b/", kind=SCRIPT, page=page),
    ]
    assert needed_hosts(iter(records), b"exam.example") == {b"cdn.example": {"script", "style"}}


def test_hosts_of_records_without_pages_are_those_of_the_client_in_the_next_half_minute() -> None:
    rows = [("exam", 0.0, "a"), ("cdn", 5.0, "a"), ("other", 5.0, "b"), ("late", 31.0, "a"), ("before", -1.0, "a")]
    records = [
        RecordedRequest(f"https://{name}.example/".encode(), time=1000 + time, client=Client(client))
        for name, time, client in rows
    ]
    assert set(needed_hosts(iter(records), b"exam.example")) == {b"exam.example", b"cdn.example"}


def test_the_command_prints_a_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    urls = {"https://exam.example/": "document", "https://cdn.example/x.js": "script"}
    entries = [
        {
            "pageref": "p",
            "_resourceType": kind,
            "request": {"method": "GET", "url": url, "headers": []},
            "response": {"status": 200, "content": {"mimeType": "text/html"}},
        }
        for url, kind in urls.items()
    ]
    har = tmp_path / "exam.har"
    har.write_text(json.dumps({"log": {"pages": [{"id": "p", "title": "exam"}], "entries": entries}}), "utf-8")
    assert main(["learn", "--from", str(har), "https://exam.example/"]) == 0
    assert capsys.readouterr().out == "# What exam.example loaded, by exam.har\ncdn.example  # script\n"
    assert main(["learn", "--from", str(har), "news.example"]) == 1
    assert main(["learn", "--from", str(tmp_path / "none"), "news.example"]) == 2
