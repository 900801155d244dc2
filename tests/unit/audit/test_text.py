"""The report for a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hushlist.audit.finish import digest_policy, finish
from hushlist.audit.record import Record
from hushlist.audit.report import Asked, Popular, Report
from hushlist.audit.text import MOST_ROWS, report_text
from hushlist.engine import Engine
from unit.audit.samples import AT_NOW, NOW, RECORDS, tally_of


def plain(engine: Engine, records: list[Record]) -> dict[str, Any]:
    policy = digest_policy(Path(engine.policy.source), engine.policy)
    tally = tally_of(engine, [*records], popular={b"more.example": 1})
    report = Report(policy, Asked(NOW), tally, Popular("top.txt", "", 1), 1.5)
    report.ranks = {"more.example": 1}
    finish(report, engine, AT_NOW)
    return report.as_dict()


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_table_is_wider_than_the_terminal(engine: Engine, width: int) -> None:
    long = [
        Record(b"http://page.example/own.js" + b"x" * 300, "s", 1),
        Record(b"http://ads.example/" + b"y" * 300, "s", 2),
    ]
    lines = [*report_text(plain(engine, [*RECORDS, *long]), width)]
    assert [line for line in lines if len(line) > width and line.startswith("  ")] == []


def test_every_part_is_there(engine: Engine) -> None:
    text = "\n".join(report_text(plain(engine, RECORDS)))
    for part in (
        "14 requests in 1.5 s, 9 a second",
        "10 would be stopped: 71.4%",
        "1 could not be decided: it names no host",
        "ads.yaml and more.domains",
        "What breaks a page: 1 document, 1 script, 1 style",
        "7: - never.example",
        "Popular domains",
        "Slowest decisions",
    ):
        assert part in text


def test_what_steers_a_terminal_is_shown_as_an_escape(engine: Engine) -> None:
    report = plain(engine, [Record(b"http://ads.example/\x1b[31m\xff", "s\x1b", 1)])
    for own in (*report["lists"], *report["categories"], *report["rules"], *report["sources"]):
        own |= {name: f"{value}\x1b\udcff" for name, value in own.items() if isinstance(value, str)}
    report["policy"]["path"] += "\x1b"
    report["broken"] = {"count": 1, "first": [{"source": "\udcff", "number": 1, "why": "\x1b"}]}
    text = "\n".join(report_text(report))
    assert "\x1b" not in text
    assert text.isprintable() or all(letter.isprintable() or letter == "\n" for letter in text)


def test_titles_have_a_color_where_that_is_wanted(engine: Engine) -> None:
    assert "\x1b[1mLists\x1b[0m" in [*report_text(plain(engine, RECORDS), is_colored=True)]


def test_of_many_the_first_are_shown(engine: Engine) -> None:
    found = plain(engine, RECORDS)
    lists = found["rules"]
    assert isinstance(lists, list)
    text = [*report_text({**found, "rules": lists * 20})]
    assert f"  and {20 * sum(1 for own in lists if own['stopped']) - MOST_ROWS} more" in text
