"""The report for a terminal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hushlist.core.decide.engine import Engine
from hushlist.tools.audit.replay.audit_report import AuditReport, PopularDomains, ReplayOptions
from hushlist.tools.audit.replay.audit_text import CHANGES, DOUBTS, MOST_ROWS, report_text
from hushlist.tools.audit.replay.partition import tallied_report
from hushlist.tools.audit.replay.report_details import add_details, digest_policy
from hushlist.tools.audit.sources.recorded_request import RecordedRequest
from unit.tools.audit.samples import AT_NOW, NOW, RECORDS, tally_of


def report(engine: Engine, records: list[RecordedRequest]) -> AuditReport:
    policy = digest_policy(Path(engine.policy.source), engine.policy)
    tally = tally_of(engine, [*records], popular={b"more.example": 1})
    made = tallied_report(tally, policy, ReplayOptions(NOW), PopularDomains("top.txt", "", 1), 1.5, 1)
    return add_details(made, engine, AT_NOW)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_table_is_wider_than_the_terminal(engine: Engine, width: int) -> None:
    long = [
        RecordedRequest(b"http://page.example/own.js" + b"x" * 300, "s", 1),
        RecordedRequest(b"http://ads.example/" + b"y" * 300, "s", 2),
    ]
    lines = [*report_text(report(engine, [*RECORDS, *long]), width)]
    assert [line for line in lines if len(line) > width and line.startswith("  ")] == []


def test_every_part_is_there(engine: Engine) -> None:
    lines = [*report_text(report(engine, RECORDS))]
    assert lines[1:3] == ["10 would be stopped: 71.4%", "1 could not be decided: it names no host"]
    assert lines[0].startswith("14 requests in 1.5 s, 9 a second; policy ")
    begins = [number for number, line in enumerate(lines) if not line]
    assert [tuple(map(str.split, lines[number + 1 : number + 4])) for number in begins] == [
        tuple(map(str.split, each))
        for each in (
            ("What is done", "requests", "block 10 71.4% █████████████████▏"),
            ("Lists", "stopped alone fits fired of rules list", "7 5 9 5 6 ████████████ ads.yaml"),
            ("Requests that two lists would stop", "requests lists", "2 ads.yaml and more.domains"),
            ("Categories", "stopped alone fits category", "7 5 9 hrn://c.example/ads"),
            ("Rules that stop most", "stopped alone rule", "2 2 ads.example/ (ads.yaml:3)"),
            ("Sites", "stopped of site", "3 4 ████████████ page.example"),
            (
                "What breaks a page: 1 document, 1 script, 1 style",
                "kind URL by",
                "document https://both.example/ ads.yaml:4",
            ),
            ("Popular domains to which requests are stopped", "rank stopped domain", "1 2 more.example"),
            (
                "What is decrypted of 2 requests by https to 1 hosts",
                "hosts connections requests decided otherwise setting",
                "100.0% 100.0% 100.0% 0 decrypt: all",
            ),
            ("Rules that never fired", "rules of list the first of them", "1 6 ads.yaml 7: - never.example"),
            ("Slowest decisions", "µs URL", lines[begins[-1] + 3]),
        )
    ]


def test_rules_that_stop_nothing_or_may_are_told_the_most_requests_first(engine: Engine) -> None:
    found = replace(report(engine, RECORDS), changes={"a:1 set b": 2, "a:2 remove c": 30}, doubts={"a:3 depends": 4})
    text = "\n".join(report_text(found))
    assert f"{CHANGES}\n  requests  rule\n        30  a:2 remove c\n         2  a:1 set b\n" in text
    assert f"{DOUBTS}\n  requests  rule\n         4  a:3 depends\n" in text


def test_of_many_the_first_are_shown(engine: Engine) -> None:
    found = report(engine, RECORDS)
    text = [*report_text(replace(found, rules=found.rules * 20))]
    assert f"  and {20 * sum(1 for own in found.rules if own.hits.stopped) - MOST_ROWS} more" in text
    assert len(found.slowest) > 5
    assert len(text[text.index("Slowest decisions") + 2 :]) == 5


def test_the_widest_column_gets_the_room_that_the_others_leave(engine: Engine) -> None:
    long = [RecordedRequest(b"http://ads.example/" + b"y" * 300, "s", 1)]
    lines = [*report_text(report(engine, [*RECORDS, *long]), 60)]
    assert max(len(line) for line in lines if "…" in line and line.startswith("  ")) == 60
