"""A report comes back from JSON, and what several machines have counted merges."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.decide.engine import Engine
from hushlist.core.policy.groups import Client
from hushlist.core.url.request import Request
from hushlist.tools.audit.replay.audit_report import (
    AuditReport,
    FileDigest,
    PolicyDigest,
    PopularDomains,
    ReplayOptions,
    read_report,
)
from hushlist.tools.audit.replay.auditor import ReplayMoment
from hushlist.tools.audit.replay.partition import merge_reports, tallied_report
from hushlist.tools.audit.replay.report_details import add_details
from hushlist.tools.audit.report_codec import ReportError, encode
from hushlist.tools.audit.sources.recorded_request import BrokenRecord, ReadRecord, RecordedRequest, ResourceType
from unit.rows import each_row
from unit.tools.audit import samples
from unit.tools.audit.samples import AT_NOW, NOW, RECORDS, tally_of

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


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return samples.engine(tmp_path_factory.mktemp("policy"))


def report(engine: Engine, records: list[ReadRecord], moment: ReplayMoment = AT_NOW) -> AuditReport:
    tally = tally_of(engine, records, moment, POPULAR)
    made = tallied_report(tally, POLICY, ReplayOptions(NOW), PopularDomains("top.txt", "d3", 1), 2.0, 2)
    return add_details(made, engine, moment)


def octets_of(plain: object) -> bytes:
    return json.dumps(plain).encode()


EVERY: list[ReadRecord] = [*RECORDS, FLOW, BrokenRecord("s", 99, "why")]


def test_a_report_comes_back_from_json_as_it_was(engine: Engine) -> None:
    made = report(engine, EVERY)
    again = read_report(octets_of(encode(made)))
    assert not any(own.explanation for own in again.records_shown.values())
    assert add_details(again, engine, AT_NOW) == made


def test_no_text_of_a_report_has_user_information(engine: Engine) -> None:
    assert "secret" not in json.dumps(encode(report(engine, EVERY)))


def test_parts_merge_to_what_one_audit_says(engine: Engine) -> None:
    whole = report(engine, EVERY)
    merged = tallied_report(
        tally_of(engine, []), POLICY, ReplayOptions(NOW), PopularDomains("elsewhere", "d3", 1), 0.0, 1
    )
    for start in range(3):
        merged = merge_reports(merged, read_report(octets_of(encode(report(engine, EVERY[start::3])))))
    merged = add_details(merged, engine, AT_NOW)
    assert (merged.seconds, merged.workers) == (6.0, 2)
    # Which worker asked first for a URL is chance; so what was shown only for being slow may differ.
    assert (
        replace(
            merged,
            slowest=whole.slowest,
            records_shown=whole.records_shown,
            seconds=whole.seconds,
            records_a_second=whole.records_a_second,
            workers=whole.workers,
            popular=whole.popular,
        )
        == whole
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"policy": POLICY._replace(digest="d9")}, "another policy, or other lists"),
        ({"options": ReplayOptions(NOW, "10.0.0.1")}, "for another client"),
        ({"options": ReplayOptions(as_recorded=True)}, "for another client"),
        ({"popular": None}, "other popular domains"),
        ({"popular": PopularDomains("top.txt", "d9", 1)}, "other popular domains"),
    ],
)
def test_reports_of_different_things_are_not_merged(engine: Engine, change: dict[str, object], why: str) -> None:
    made = report(engine, [*RECORDS])
    with pytest.raises(ReportError, match=why):
        merge_reports(made, replace(made, **change))  # type: ignore[arg-type]


def test_every_key_that_is_named_is_shown_with_its_explanation(engine: Engine) -> None:
    made = report(engine, EVERY)
    assert {*made.keys()} == made.records_shown.keys()
    assert all(own.explanation for own in made.records_shown.values())


def test_a_list_without_a_hit_moves_those_behind_it(tmp_path: Path) -> None:
    policy = samples.POLICY.replace("[ads.yaml,", "[ads.yaml, {file: a.domains, format: domains},")
    engine = load_engine(samples.write_policy(tmp_path, policy, **{"a.domains": "never.example\n"}))
    before = tallied_report(tally_of(engine, [*RECORDS]), POLICY, ReplayOptions(NOW), None, 0.0, 1)
    after = add_details(before, engine, AT_NOW)
    assert [own.key.list for own in after.lists] == ["a", "ads", "more", "own"]
    assert [own.key.list for own in before.lists] == ["ads", "more", "own"]
    for one in (before, after):
        assert [one.lists[place].key.list for place in one.overlaps[0].lists] == ["ads", "more"]


@each_row("octets", [b"", b"{", b"{}", b'{"format": "hushlist audit 0"}', b"[" * 100_000, b"\xff", b"1" * 5000])
def test_a_file_that_is_none_is_no_report(octets: bytes) -> None:
    with pytest.raises(ReportError):
        read_report(octets)


@pytest.mark.slow
@each_row("value", [1e400, -1, "1", None, [], {}, True, 10**400])
@each_row(
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
    plain = changed(report(engine, EVERY), path, value)
    with pytest.raises(ReportError, match="it is no whole report"):
        read_report(octets_of(plain))


def changed(made: AuditReport, path: tuple[str | int, ...], value: object) -> object:
    """The report in plain types, with another value at a place."""
    plain = encode(made)
    own = plain
    for key in path[:-1]:
        own = own[key]
    own[path[-1]] = value
    return plain


@each_row(
    ("path", "value", "why"),
    [
        (("lists", 1, "fits"), "x", "lists[1].fits: expected a count, found 'x'"),
        (
            ("options", "at"),
            "9999-12-31T23:59:59-14:00",
            "options.at: expected a moment, found '9999-12-31T23:59:59-14:00'",
        ),
        (("options", "as_recorded"), None, "options.as_recorded: expected true or false, found None"),
        (("seconds",), 1e400, "seconds: expected a number, found inf"),
        (("seconds",), float("nan"), "seconds: expected a number, found nan"),
        (("seconds",), "1", "seconds: expected a number, found '1'"),
        (("seconds",), -1, "it took less than no time"),
        (("kinds",), [], "kinds: expected an object, found list"),
        (("kinds", "script"), {}, "kinds.script: there is no 'requests'"),
        (("overlaps", 0, "lists"), [0, 1, 2], "overlaps[0].lists: expected an array of 2, found list"),
        (("overlaps", 0, "lists"), [0, 3], "an overlap is of none of its lists"),
        (("rules", 0, "source"), "x", "a rule is of none of its lists"),
        (("categories", 0, "examples"), ["x"], "an example is not among the records"),
    ],
)
def test_what_is_wrong_with_a_report_is_said(
    engine: Engine, path: tuple[str | int, ...], value: object, why: str
) -> None:
    with pytest.raises(ReportError) as error:
        read_report(octets_of(changed(report(engine, EVERY), path, value)))
    assert str(error.value) == f"it is no whole report of an audit: {why}"
