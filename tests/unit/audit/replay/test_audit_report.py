"""The report as plain types, and merging what several machines have counted."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from hushlist.audit.replay.audit_report import (
    AuditReport,
    FileDigest,
    PolicyDigest,
    PopularDomains,
    ReplayOptions,
    ReportError,
    report_of,
    report_of_json,
)
from hushlist.audit.replay.auditor import ReplayMoment
from hushlist.audit.replay.report_details import add_details
from hushlist.audit.sources.recorded_request import BrokenRecord, ReadRecord, RecordedRequest, ResourceType
from hushlist.decide.engine import Engine
from hushlist.policy.groups import Client
from hushlist.url.request import Request
from unit.audit.samples import AT_NOW, NOW, RECORDS, tally_of

POLICY = PolicyDigest("policy.yaml", "d1", (FileDigest("ads.yaml", "d2"),))
FLOW = RecordedRequest(
    Request(b"https", (b"clean.example", b"ads.example"), 8443, b"/\xff", b"frag", b"me:secret"),
    "flows",
    7,
    ResourceType.XHR,
    b"http://me:secret@page.example/",
    1.5,
    Client("10.0.0.1", "mia", 8080),
    "POST",
    204,
)
POPULAR = {b"more.example": 1}


def report(engine: Engine, records: list[ReadRecord], moment: ReplayMoment = AT_NOW) -> AuditReport:
    made = AuditReport(
        POLICY,
        ReplayOptions(NOW),
        tally_of(engine, records, moment, POPULAR),
        PopularDomains("top.txt", "d3", 1),
        2.0,
        2,
    )
    made.ranks = {"more.example": 1}
    add_details(made, engine, moment)
    return made


EVERY: list[ReadRecord] = [*RECORDS, FLOW, BrokenRecord("s", 99, "why")]


def test_a_report_comes_back_from_json_as_it_was(engine: Engine) -> None:
    made = report(engine, EVERY)
    plain = json.loads(json.dumps(made.as_dict()))
    again = report_of(plain)
    again.ranks = made.ranks
    add_details(again, engine, AT_NOW)
    assert again.as_dict() == made.as_dict()


def test_no_text_of_a_report_has_user_information(engine: Engine) -> None:
    assert "secret" not in json.dumps(report(engine, EVERY).as_dict())


def test_parts_merge_to_what_one_audit_says(engine: Engine) -> None:
    whole = report(engine, EVERY)
    parts = [report_of(report(engine, EVERY[start::3]).as_dict()) for start in range(3)]
    merged = AuditReport(POLICY, ReplayOptions(NOW), tally_of(engine, []), PopularDomains("elsewhere", "d3", 1))
    for part in parts:
        merged.merge(part)
    merged.ranks = whole.ranks
    add_details(merged, engine, AT_NOW)
    assert (merged.seconds, merged.workers) == (6.0, 2)
    own, one = merged.as_dict(), whole.as_dict()
    # Which worker asked first for a URL is chance; so what was shown only for being slow may differ.
    for plain in (own, one):
        for name in ("slowest", "records_shown", "seconds", "records_a_second", "workers", "popular"):
            del plain[name]
    assert own == one


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"policy": replace(POLICY, digest="d9")}, "another policy, or other lists"),
        ({"asked": ReplayOptions(NOW, "10.0.0.1")}, "for another client"),
        ({"asked": ReplayOptions(as_recorded=True)}, "for another client"),
        ({"popular": None}, "other popular domains"),
        ({"popular": PopularDomains("top.txt", "d9", 1)}, "other popular domains"),
    ],
)
def test_reports_of_different_things_are_not_merged(engine: Engine, change: dict[str, object], why: str) -> None:
    made = report(engine, [*RECORDS])
    before = deepcopy(made.as_dict())
    with pytest.raises(ReportError, match=why):
        made.merge(replace(report(engine, [*RECORDS]), **change))  # type: ignore[arg-type]
    assert made.as_dict() == before


def test_every_key_that_is_named_is_shown_with_its_explanation(engine: Engine) -> None:
    plain = report(engine, EVERY).as_dict()
    keys = {
        key for own in (*plain["lists"], *plain["categories"], *plain["breaks"].values()) for key in own["examples"]
    }
    keys |= {own["example"] for own in plain["rules"]} | {own["record"] for own in plain["slowest"]}
    assert keys | {*plain["popular_examples"]} == plain["records_shown"].keys()
    assert all(own["explanation"] for own in plain["records_shown"].values())


def test_overlaps_name_lists_by_their_place(engine: Engine) -> None:
    plain = report(engine, EVERY).as_dict()
    (overlap,) = plain["overlaps"]
    assert overlap["requests"] == 2
    assert [plain["lists"][place]["list"] for place in overlap["lists"]] == ["ads", "more"]


@pytest.mark.parametrize(
    "plain",
    [
        {},
        {"format": "hushlist audit 0"},
        {"format": "hushlist audit 1"},
        {"format": "hushlist audit 1", "records_shown": []},
    ],
)
def test_something_else_is_no_report(plain: dict[str, object]) -> None:
    with pytest.raises(ReportError, match="it is no"):
        report_of(plain)


@pytest.mark.parametrize("octets", [b"", b"{", b"[" * 100_000, b"\xff", b'{"format": "hushlist audit 1"}', b"1" * 5000])
def test_a_file_that_is_none_is_no_report(octets: bytes) -> None:
    with pytest.raises(ReportError):
        report_of_json(octets)


@pytest.mark.parametrize("value", [1e400, -1, "1", None, [], {}, True, 10**400])
@pytest.mark.parametrize(
    "path",
    [
        ("workers",),
        ("actions", "block"),
        ("sources", 0, "records"),
        ("lists", 0, "stopped"),
        ("rules", 0, "line"),
        ("kinds", "script", "requests"),
        ("slowest", 0, "microseconds"),
        ("sites", "requests", "error"),
        ("sites", "requests", "counts", 0, 1),
        ("overlaps", 0, "requests"),
        ("popular", "domains"),
    ],
)
def test_a_count_is_no_other_thing(engine: Engine, path: tuple[str | int, ...], value: object) -> None:
    plain = report(engine, EVERY).as_dict()
    own: Any = plain
    for key in path[:-1]:
        own = own[key]
    own[path[-1]] = value
    with pytest.raises(ReportError, match="it is no whole report"):
        report_of(plain)


def test_a_time_that_no_clock_shows_is_none_of_a_report(engine: Engine) -> None:
    plain = report(engine, EVERY).as_dict()
    for change in (
        {"asked": {**plain["asked"], "at": "9999-12-31T23:59:59-14:00"}},
        {"seconds": 1e400},
        {"seconds": "1"},
    ):
        with pytest.raises(ReportError):
            report_of({**plain, **change})
