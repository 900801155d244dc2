"""What the page shows of the past: every request counted, whatever the log keeps, and what the log has of whom."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hushlist.core.match.rule_match import SeenFile
from hushlist.core.policy.reach import ALL_CLIENTS
from hushlist.core.routes import ActionError, Parts, plain
from hushlist.extensions.journal.actions import activity, figures, files, sites
from hushlist.extensions.journal.history import History, history
from hushlist.extensions.journal.journal import log_of, privacy_in
from hushlist.extensions.journal.log_database import DATABASE
from hushlist.extensions.journal.log_writer import LogWriter
from hushlist.extensions.journal.request_counts import RequestCounts, rows_of
from hushlist.proxy.addon import Hushlist
from support.flows import flow_of
from support.mitmproxied import mitmproxied
from unit.extensions.journal.samples import fill, record

Start = Callable[..., Hushlist]
#: who asks for what; the log keeps only what a rule fits
QUESTIONS = (
    ("10.0.0.7", "http://ads.example/a?secret"),
    ("10.0.0.7", "http://ads.example/b"),
    ("10.0.0.7", "http://fine.example/"),
    ("10.0.0.8", "http://www.ads.example/"),
    ("10.0.0.9", "http://fine.example/"),
    ("10.0.0.9", "http://news.example/"),
)


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """The addon by a policy with a log, after requests of a child and of two others, one of them nobody's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    addon = Hushlist()

    def start(log: str = "on", more: str = "") -> Hushlist:
        (tmp_path / "ads.yaml").write_text(
            "title: Ads\nrules: [{expression: ads.example, category: 'hrn://c.example/ads'}]\n"
        )
        groups = "groups: [{name: 'Mia \"x\"', clients: [10.0.0.7]}, {name: mia, clients: [10.0.0.8]}]"
        layers = "layers: [{name: lists, lists: [ads.yaml]}]"
        (tmp_path / "policy.yaml").write_text(f"timezone: Asia/Kathmandu\nlog: {log}\n{groups}\n{more}\n{layers}\n")
        context.configure(addon, hushlist_policy=str(tmp_path / "policy.yaml"), hushlist_mode="block")
        for client, url in QUESTIONS:
            addon.requestheaders(flow_of(url, client=client))
        log_of(addon.runtime) and log_of(addon.runtime).flush(30)
        return addon

    with mitmproxied(addon) as context:
        yield start


def result_of(hushlist: Hushlist, function: Callable[..., object], **values: object) -> dict[str, Any]:
    runtime = hushlist.runtime
    assert runtime.engine is not None
    parts = Parts(runtime.engine.policy, log_of(runtime), privacy_in(runtime), ALL_CLIENTS)
    found: dict[str, Any] = plain(parts.call(function, **values))
    return found


def sums(found: dict[str, Any]) -> tuple[int, int]:
    return sum(one["passed"] for one in found["bars"]), sum(one["stopped"] for one in found["bars"])


MIA = 'group:Mia "x"'


@pytest.mark.parametrize(
    ("whom", "counted"),
    [("", (3, 3)), (MIA, (1, 2)), ("group:mia", (0, 1)), ("10.0.0.9", (2, 0)), ("group:none", (0, 0))],
)
@pytest.mark.parametrize("log", ["on", "{what: blocked}", "{clients: pseudonym}"])
def test_every_request_is_counted_whatever_the_log_keeps(
    start: Start, log: str, whom: str, counted: tuple[int, int]
) -> None:
    hushlist = start(log)
    found = result_of(hushlist, figures, whom=whom)
    assert (found["counted"], found["zone"], found["step"]) == ("all", "Asia/Kathmandu", 15)
    assert sums(found) == counted
    assert sums(result_of(hushlist, figures, whom=whom, days=7)) == counted
    assert {name: sum(hours) for name, hours in result_of(hushlist, figures)["groups"].items()} == {
        'Mia "x"': 3,
        "mia": 1,
        "default": 2,
    }


def test_where_nothing_counts_the_log_is_said_to_be_counted(start: Start, tmp_path: Path) -> None:
    hushlist = start()
    log = log_of(hushlist.runtime)
    assert log is not None
    log.close()
    with closing(sqlite3.connect(tmp_path / "state" / "hushlist" / DATABASE)) as database:
        database.execute("DROP TABLE counts")
    for whom, stopped in (("", 3), (MIA, 2), ("10.0.0.9", 0)):
        found = result_of(hushlist, figures, whom=whom)
        assert (found["counted"], *sums(found)) == ("log", 0, stopped)


def test_a_dry_run_stops_nothing_and_says_what_it_would(start: Start) -> None:
    hushlist = start(more="mode: tag")
    for whom in ("", MIA):
        found = result_of(hushlist, figures, whom=whom)
        assert sums(found)[1] == 0
        assert sum(one["would"] for one in found["bars"]) == (2 if whom else 3)
    assert result_of(hushlist, sites, action="stopped")["sites"] == []
    assert len(result_of(hushlist, sites, action="would")["sites"]) == 2
    week = history(hushlist.runtime, "week", datetime.now(UTC))
    assert isinstance(week, History)
    assert not any(part for *_, part in week.times)
    assert "the dry run would block 3 requests of 6" in hushlist.runtime.status()


def test_the_bars_go_by_the_clock_of_the_policy(start: Start) -> None:
    found = result_of(start(), figures)
    assert found["now"][:10] == found["first"]
    for bar in found["bars"]:
        assert bar["at"][:13] == found["now"][:13] or bar["at"] < found["now"]
        assert bar["at"][14:16] in ("00", "15", "30", "45")


def test_sites_are_told_with_whose_they_are(start: Start) -> None:
    hushlist = start("{what: all}")
    found = result_of(hushlist, sites)
    assert [(one["host"], one["group"], one["passed"], one["stopped"]) for one in found["sites"]] == [
        ("ads.example", 'Mia "x"', 0, 2),
        ("fine.example", 'Mia "x"', 1, 0),
        ("fine.example", "default", 1, 0),
        ("news.example", "default", 1, 0),
        ("www.ads.example", "mia", 0, 1),
    ]
    assert [one["host"] for one in result_of(hushlist, sites, whom=MIA, action="stopped")["sites"]] == ["ads.example"]
    assert found["sites"][0]["category"] == "hrn://c.example/ads"


@pytest.mark.parametrize("rows", ["1000", "0"])
def test_files_are_counted_by_what_they_are_and_records_told_by_any_of_their_words(start: Start, rows: str) -> None:
    hushlist = start(f"{{what: all, rows: {rows}}}")
    journal, sample = log_of(hushlist.runtime), record()
    seen = [SeenFile("A.exe", "image/png", ("program",)), SeenFile("b.zip", "application/zip"), SeenFile()]
    assert isinstance(journal, LogWriter)
    assert sample.decision.winner is not None
    for number, (file, would_block) in enumerate([*((file, False) for file in seen), (seen[0], True)]):
        winner = sample.decision.winner._replace(file=file)
        decision = sample.decision._replace(winner=winner, matches=(winner,))
        moment = datetime.now(UTC).timestamp()
        fill(journal, record(number=number, would_block=would_block)._replace(moment=moment, decision=decision))
    found = result_of(hushlist, files)
    assert (found["is_all"], found["read"]) == (True, 4)
    assert [(one["file"], one["passed"], one["stopped"]) for one in found["files"]] == [
        ("program", 1, 1),
        ("", 0, 1),
        ("application/zip", 0, 1),
    ]
    for text, number in (("a.EXE", 2), ("program", 2), ("image/", 2), ("zip", 1), ("txt", 0)):
        assert len(result_of(hushlist, activity, file=text)["records"]) == number, text


@pytest.mark.parametrize(
    ("asked", "urls"),
    [
        ({"whom": MIA}, ["http://fine.example/", "http://ads.example/b", "http://ads.example/a?secret"]),
        ({"whom": "group:MIA"}, []),
        ({"action": "pass", "whom": "10.0.0.9"}, ["http://news.example/", "http://fine.example/"]),
        ({"action": "stopped", "host": "ads.example", "most": 1}, ["http://www.ads.example/"]),
        ({"category": "hrn://c.example/ads", "whom": "10.0.0.8"}, ["http://www.ads.example/"]),
        ({"list_name": "Ads", "whom": "group:mia"}, ["http://www.ads.example/"]),
        ({"day": "2001-02-03"}, []),
        ({"before": "2001-02-03"}, []),
        ({"reference": "0000000000"}, []),
    ],
)
@pytest.mark.parametrize("rows", ["1000", "0"])  # 0: there are the lines alone
def test_records_are_told_the_newest_first(start: Start, rows: str, asked: dict[str, Any], urls: list[str]) -> None:
    hushlist = start(f"{{what: all, rows: {rows}}}")
    found = result_of(hushlist, activity, **asked)
    assert [one["url"] for one in found["records"]] == urls
    assert found["kept"] == "all"
    assert found["is_all"] is ("most" not in asked)


def test_of_a_day_there_is_what_that_day_has_by_the_clock_of_the_policy(start: Start) -> None:
    hushlist = start("{what: all}")
    today = result_of(hushlist, figures)["first"]
    assert len(result_of(hushlist, activity, day=today)["records"]) == len(QUESTIONS)


def test_what_cannot_be_asked_says_why(start: Start) -> None:
    hushlist = start()
    for asked in (
        {"day": "2026-13-01"},
        {"day": "9999-12-31"},
        {"day": "0001-01-01"},
        {"category": "no such"},
        {"host": "http://"},
    ):
        with pytest.raises((ActionError, ValueError)):
            result_of(hushlist, activity, **asked)


def test_without_a_log_it_says_how_to_have_one(start: Start) -> None:
    hushlist = start("off")
    for function in (figures, sites, files, activity):
        with pytest.raises(ActionError, match="log: on"):
            result_of(hushlist, function)


def test_what_waits_to_be_counted_is_bounded(start: Start) -> None:
    hushlist, counts = start(), RequestCounts()
    statistics = hushlist.runtime.statistics
    (record, *_) = (one.record for one in statistics.since(0))
    for number in range(5000):
        counts.note(record._replace(client=f"10.1.{number // 250}.{number % 250}", user="a\ud800"))
    privacy = privacy_in(hushlist.runtime)
    found = counts.gather(privacy)
    assert sum(found.values()) == 5000
    assert len(found) <= (1 << 12) + 1
    assert all(isinstance(one, int) or one.encode() is not None for row in rows_of(found) for one in row)
    counts.written()
    assert counts.is_done
