"""The history: what the log has of a span, as numbers, as CSV and as a page."""

from __future__ import annotations

import csv
import io
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from mitmproxy import http

from hushlist.extensions.dashboard.dashboard_server import HOST
from hushlist.extensions.journal.history_page import WHY_NONE, History, history, history_csv, history_page
from hushlist.extensions.journal.journal import log_of
from hushlist.proxy.addon import Hushlist
from hushlist.proxy.languages import live_texts
from support.flows import flow_of
from support.mitmproxied import mitmproxied, own_answer
from unit.proxy.outline import outline

Start = Callable[..., Hushlist]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """The addon by a policy with a log, after three requests, of which two are stopped."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    addon = Hushlist()

    def start(log: str = "{what: all}") -> Hushlist:
        (tmp_path / "ads.yaml").write_text(
            "title: '=Ads <b>'\nrules: [{expression: ads.example, category: 'hrn://c.example/ads'}]\n"
        )
        layers = "layers: [{name: lists, lists: [ads.yaml]}]"
        (tmp_path / "policy.yaml").write_text(f"timezone: Asia/Kathmandu\nlog: {log}\n{layers}\n")
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


def found(hushlist: Hushlist, span: str, now: datetime | None = None) -> History:
    told = history(hushlist.runtime, span, now or datetime.now(UTC))
    assert isinstance(told, History)
    return told


@pytest.mark.parametrize(("span", "bars"), [("day", 24), ("week", 7), ("month", 30), ("?", 24)])
def test_every_record_is_in_one_bar_and_what_is_stopped_is_counted_by_each_kind(
    start: Start, span: str, bars: int
) -> None:
    told = found(start(), span)
    assert bars <= len(told.times) <= bars + 1
    assert sum(every for _, every, _ in told.times) == 3
    assert sum(stopped for *_, stopped in told.times) == 2
    assert told.zone == "Asia/Kathmandu"
    assert told.stopped == {
        "client": [("10.9.8.7", 2)],
        "category": [("hrn://c.example/ads", 2)],
        "host": [("ads.example", 1), ("www.ads.example", 1)],
        "list": [("ads\n=Ads <b>", 2)],
    }


def test_a_day_later_nothing_is_left_of_a_day(start: Start) -> None:
    hushlist, later = start(), datetime.now(UTC) + timedelta(days=1, minutes=1)
    assert {every for _, every, _ in found(hushlist, "day", later).times} == {0}
    assert sum(every for _, every, _ in found(hushlist, "week", later).times) == 3
    assert found(hushlist, "day", later).stopped["host"] == []


def test_the_bars_go_by_the_clock_of_the_policy(start: Start) -> None:
    told = found(start(), "day")
    (busy,) = (label for label, every, _ in told.times if every)
    wanted = datetime.now(UTC) + timedelta(hours=5, minutes=45)
    assert busy in {f"{wanted - timedelta(minutes=late):%Y-%m-%d %H}:00" for late in range(10)}


@pytest.mark.parametrize("path", ["/history", "/history?of=week", "/history.csv?of=month"])
def test_it_has_no_more_than_the_log(start: Start, path: str) -> None:
    text = get(start("{clients: drop, queries: drop}"), path).text
    assert "ads.example" in text
    for secret in ("10.9.8.7", "secret", "client"):
        assert secret not in text.lower()


@pytest.mark.parametrize(("log", "key"), [("off", "no_log"), ("{rows: 0}", "no_database")])
def test_without_a_database_it_says_so_in_the_reader_s_language(start: Start, log: str, key: str) -> None:
    hushlist = start(log)
    answer = get(hushlist, "/history", accept_language="de")
    assert (answer.status_code, answer.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert live_texts()["de"][key] in answer.text
    assert "/history?of=week" in answer.text
    assert "/history.csv" not in answer.text
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


def test_on_the_page_every_value_is_text() -> None:
    stopped = {"list": [("<script>\n<script> 2", 4)], "host": [("\ud800", 1)]}
    told = History("day", "UTC", [("2026-12-24 22:00", 1234, 2)], stopped)
    page = history_page(told, "en").decode()
    assert '&lt;script&gt; 2<small dir="ltr">&lt;script&gt;</small>' in page
    assert "<script" not in page
    assert "1,234" in page
    assert "24 December 2026, 22:00" in page


PAGE = """\
html lang=en dir=$dir
  head
    meta charset=utf-8
    meta name=viewport content=width=device-width, initial-scale=1
    title | Hushlist: The last day
    link rel=icon href=/icon.svg type=image/svg+xml
    link rel=stylesheet href=/live.css
  body
    header
      div
        h1 | $last_day
        nav aria-label=$history
          a href=/history?of=day aria-current=page | $last_day
          a href=/history?of=week | $last_week
          a href=/history?of=month | $last_month
          a href=/history.csv?of=day | CSV
          a href=/ | $live_page
    main
      section class=panel
        h2 | $over_time
        p class=soft | $history_said
        div class=scroll tabindex=0 role=group aria-label=$time
          table
            thead
              tr
                th scope=col | $time
                th scope=col | $requests
                th scope=col | $stopped
                th scope=col | $chart
            tbody
              tr
                th scope=row | 24 December 2026, 22:00
                td class=number | 1,234
                td class=number | 617
                td
                  svg class=history-bar aria-hidden=true
                    rect class=all width=100.0% height=100%
                    rect class=stopped width=50.0% height=100%
              tr
                th scope=row | 23:00
                td class=number | 0
                td class=number | 0
                td
                  svg class=history-bar aria-hidden=true
                    rect class=all width=0.0% height=100%
                    rect class=stopped width=0.0% height=100%
      div class=grid
        section class=panel counted
          h2 | $stopped_list
          div class=scroll tabindex=0 role=group aria-label=$name
            table
              thead
                tr
                  th scope=col | $name
                  th scope=col | $stopped
              tbody
                tr
                  td dir=auto | <script>
                  td class=number | 4,000
        section class=panel counted
          h2 | $stopped_host
          p class=soft | $nothing
"""
NONE = """\
html lang=en dir=$dir
  head
    meta charset=utf-8
    meta name=viewport content=width=device-width, initial-scale=1
    title | Hushlist: History
    link rel=icon href=/icon.svg type=image/svg+xml
    link rel=stylesheet href=/live.css
  body
    header
      div
        h1 | $history
        nav aria-label=$history
          a href=/history?of=day | $last_day
          a href=/history?of=week | $last_week
          a href=/history?of=month | $last_month
          a href=/ | $live_page
    main
      p class=soft | $no_log
"""


def test_the_page_has_a_chart_and_a_table_of_each_kind() -> None:
    bars = [("2026-12-24 22:00", 1234, 617), ("2026-12-24 23:00", 0, 0)]
    told = History("day", "Asia/Kathmandu", bars, {"list": [("<script>", 4000)], "host": []})
    texts = dict(live_texts()["en"])
    texts["history_said"] = texts["history_said"].format(zone="Asia/Kathmandu")
    assert outline(history_page(told, "en"), texts) + "\n" == PAGE
    assert outline(history_page("no_log", "en"), texts) + "\n" == NONE


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("de", ('lang="de" dir="ltr"', "Der letzte Tag", "24. Dezember 2026, 22:00", "1.234", "Zurzeit nichts.")),
        ("ar", ('lang="ar" dir="rtl"', "اليوم الأخير", "24 ديسمبر 2026، 22:00", "1,234", "لا شيء")),
    ],
)
def test_it_is_in_the_reader_s_language(language: str, words: tuple[str, ...]) -> None:
    page = history_page(History("day", "UTC", [("2026-12-24 22:00", 1234, 2)], {"list": []}), language).decode()
    assert [word for word in words if word not in page] == []


@pytest.mark.parametrize("path", ["/history", "/history.csv"])
def test_whoever_may_not_see_the_live_page_does_not_see_it(start: Start, path: str) -> None:
    hushlist = start()
    assert get(hushlist, path).status_code == 200
    assert get(hushlist, path, client="10.9.8.7").status_code == 403
    assert get(hushlist, path, sec_fetch_site="cross-site").status_code == 403


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59Z", "9999-99", "x"])
def test_no_row_with_an_odd_time_hides_the_others(start: Start, tmp_path: Path, time: str) -> None:
    hushlist = start()
    with closing(sqlite3.connect(tmp_path / "state" / "hushlist" / "decisions.sqlite")) as database, database:
        database.execute("INSERT INTO decisions (time, action) VALUES (?, 'block')", (time,))
    assert sum(every for _, every, _ in found(hushlist, "day").times) == 3
