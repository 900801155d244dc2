"""The history: what the log has of a span, as numbers, as CSV and as a page."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from mitmproxy import http

from hushlist.extensions.dashboard.dashboard_server import HOST
from hushlist.extensions.journal.history import WHY_NONE, History, history, history_csv
from hushlist.extensions.journal.journal import log_of
from hushlist.proxy.addon import Hushlist
from support.flows import flow_of
from support.mitmproxied import mitmproxied, own_answer

Start = Callable[..., Hushlist]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """The addon by a policy with a log, after three requests, of which two are stopped."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    addon = Hushlist()

    def start(log: str = "{what: all}", more: str = "") -> Hushlist:
        (tmp_path / "ads.yaml").write_text(
            "title: '=Ads <b>'\nrules: [{expression: ads.example, category: 'hrn://c.example/ads'}]\n"
        )
        layers = "layers: [{name: lists, lists: [ads.yaml]}]"
        (tmp_path / "policy.yaml").write_text(f"timezone: Asia/Kathmandu\nlog: {log}\n{more}{layers}\n")
        context.configure(addon, hushlist_policy=str(tmp_path / "policy.yaml"), hushlist_mode="block")
        for url in ("http://ads.example/a?secret", "http://www.ads.example/", "http://fine.example/"):
            flow = flow_of(url, client="10.9.8.7")
            addon.requestheaders(flow)
        assert log_of(addon.runtime) is None or log_of(addon.runtime).flush(30)
        return addon

    with mitmproxied(addon) as context:
        yield start


def get(hushlist: Hushlist, path: str, **more: str) -> http.Response:
    return own_answer(hushlist, flow_of(f"http://{HOST}{path}", **more))


def history_of(hushlist: Hushlist, span: str, now: datetime | None = None) -> History:
    told = history(hushlist.runtime, span, now or datetime.now(UTC))
    assert isinstance(told, History)
    return told


@pytest.mark.parametrize(("span", "bars"), [("day", 24), ("week", 7), ("month", 30), ("?", 24)])
def test_every_record_is_in_one_bar_and_what_is_stopped_is_counted_by_each_kind(
    start: Start, span: str, bars: int
) -> None:
    told = history_of(start(), span)
    assert bars <= len(told.times) <= bars + 1
    assert sum(every for _, every, _ in told.times) == 3
    assert sum(stopped for *_, stopped in told.times) == 2
    assert told.zone == "Asia/Kathmandu"
    assert told.stopped == {
        "client": [("10.9.8.7", 2)],
        "category": [("hrn://c.example/ads", 2)],
        "host": [("ads.example", 1), ("www.ads.example", 1)],
        "list": [("ads\n=Ads <b>", 2)],
        "file": [],
    }


def test_a_device_has_its_name(start: Start) -> None:
    told = history_of(start(more="devices: [{name: Mia's tablet, addresses: [10.9.8.7]}]\n"), "day")
    assert told.stopped["client"] == [("Mia's tablet (10.9.8.7)", 2)]


def test_a_day_later_nothing_is_left_of_a_day(start: Start) -> None:
    hushlist, later = start(), datetime.now(UTC) + timedelta(days=1, minutes=1)
    assert {every for _, every, _ in history_of(hushlist, "day", later).times} == {0}
    assert sum(every for _, every, _ in history_of(hushlist, "week", later).times) == 3
    assert history_of(hushlist, "day", later).stopped["host"] == []


def test_the_bars_go_by_the_clock_of_the_policy(start: Start) -> None:
    told = history_of(start(), "day")
    (busy,) = (label for label, every, _ in told.times if every)
    wanted = datetime.now(UTC) + timedelta(hours=5, minutes=45)
    assert busy in {f"{wanted - timedelta(minutes=late):%Y-%m-%d %H}:00" for late in range(10)}


@pytest.mark.parametrize("path", ["/history.csv", "/history.csv?of=month"])
def test_it_has_no_more_than_the_log(start: Start, path: str) -> None:
    text = get(start("{clients: drop, queries: drop}"), path).text
    assert "ads.example" in text
    for secret in ("10.9.8.7", "secret", "client"):
        assert secret not in text.lower()


@pytest.mark.parametrize(("log", "key"), [("off", "no_log"), ("{rows: 0}", "no_database")])
def test_without_a_database_it_says_so(start: Start, log: str, key: str) -> None:
    hushlist = start(log)
    answer = get(hushlist, "/history.csv")
    assert (answer.status_code, answer.text) == (404, f"{WHY_NONE[key]}\n")


def test_as_csv_no_value_is_a_formula() -> None:
    stopped = {"list": [("ads\n=1+1", 4), ('a"b,c', 1)], "host": [("＝\x1b[2J\u202e\n", 1)]}
    told = History("day", "UTC", [("2026-12-24 22:00", 3, 2)], stopped)
    rows = list(csv.reader(io.StringIO(history_csv(told).decode())))
    assert rows == [
        ["kind", "value", "records", "stopped"],
        ["time", "2026-12-24 22:00", "3", "2"],
        ["list", "'=1+1 (ads)", "", "4"],
        ["list", 'a"b,c', "", "1"],
        ["host", r"'＝\x1b[2J\u202e\n", "", "1"],
    ]
