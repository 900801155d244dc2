"""The summary of a week: when it is sent, to whom, and that it has what the log may keep and nothing else."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from mitmproxy import http
from mitmproxy.test import taddons, tflow

from hushlist.core.extension import Notice
from hushlist.extensions.journal.history import History
from hushlist.extensions.journal.journal import log_of
from hushlist.extensions.notify.weekly_summary import send_weekly_summary, summary_of
from hushlist.extensions.unblock.unblock_handler import UnblockHandler
from hushlist.proxy.addon import Hushlist
from hushlist.proxy.languages import live_texts
from support.parts import part_of
from unit.proxy.outline import outline

MARKUP = "<img src=x>"
BERLIN = ZoneInfo("Europe/Berlin")

pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture
def use(context: taddons.context, hushlist: Hushlist, tmp_path: Path) -> Callable[..., None]:
    def use(log: str = "log: {what: all, folder: log}", weekly: str = "on", language: str = "en") -> None:
        (tmp_path / "ads.yaml").write_text(f"{{title: '{MARKUP}', rules: [blocked.example]}}\n")
        notify = f"notify: [{{command: [/bin/true], weekly: {weekly}}}]"
        layers = "layers: [{name: lists, lists: [ads.yaml]}]"
        (tmp_path / "policy.yaml").write_text(
            f"language: {language}\ntimezone: Europe/Berlin\n{notify}\n{log}\n{layers}\n"
        )
        context.configure(hushlist, hushlist_policy=str(tmp_path / "policy.yaml"))

    return use


def browse(hushlist: Hushlist, *urls: str) -> None:
    for url in urls:
        flow = tflow.tflow(req=http.Request.make("GET", url))
        flow.client_conn.peername = ("10.0.0.7", 50000)
        hushlist.requestheaders(flow)
    assert log_of(hushlist.runtime) is not None
    assert log_of(hushlist.runtime).flush(30)


def a_monday() -> datetime:
    """The next one, at midnight by the policy's clock; what was just logged is of the week before."""
    today = datetime.now(BERLIN).replace(hour=0, minute=0, second=0, microsecond=0)
    return today + timedelta(days=7 - today.weekday())


def test_it_is_sent_once_when_a_week_has_begun_and_not_before(
    hushlist: Hushlist, use: Callable[..., None], notices: list[Notice]
) -> None:
    use()
    browse(hushlist, "http://blocked.example/", "http://fine.example/?secret")
    monday = a_monday()
    for later in (timedelta(days=-6), timedelta(days=-1), timedelta(hours=6, minutes=59)):
        send_weekly_summary(hushlist.runtime, monday + later)
    assert notices == []
    for later in (timedelta(hours=7), timedelta(hours=8), timedelta(days=6), timedelta(days=-3)):
        send_weekly_summary(hushlist.runtime, monday + later)
    (notice,) = notices
    assert notice.title == f"Hushlist: the week to {monday.day} {monday:%B %Y}"
    assert notice.message.startswith("Requests in the log: 2. Stopped: 1. Times are by the clock of Europe/Berlin.")
    assert notice.html is not None
    assert "blocked.example" in notice.html
    assert "10.0.0.7" in notice.message
    assert MARKUP not in notice.html
    assert json.loads(json.dumps(notice.as_dict()))["week"]["stopped"]["host"] == [["blocked.example", 1]]
    assert "secret" not in notice.html + notice.message
    send_weekly_summary(hushlist.runtime, monday + timedelta(days=30))  # what was missed is sent once
    assert len(notices) == 2


def test_it_is_in_the_policy_s_language(hushlist: Hushlist, use: Callable[..., None], notices: list[Notice]) -> None:
    use(language="ar")
    browse(hushlist, "http://blocked.example/")
    for later in (timedelta(days=-7), timedelta(hours=7)):
        send_weekly_summary(hushlist.runtime, a_monday() + later)
    (notice,) = notices
    assert notice.html is not None
    assert '<html lang="ar" dir="rtl">' in notice.html
    assert "text-align:left" not in notice.html
    assert "المواقع الأكثر حظرًا:\nblocked.example: 1" in notice.message


def test_it_has_nothing_that_the_log_leaves_out(
    hushlist: Hushlist, use: Callable[..., None], notices: list[Notice]
) -> None:
    use(log="log: {what: all, folder: log, clients: drop}")
    browse(hushlist, "http://blocked.example/")
    for later in (-7, 1):
        send_weekly_summary(hushlist.runtime, a_monday() + timedelta(days=later))
    (notice,) = notices
    assert "10.0.0.7" not in str(notice)
    assert "Clients stopped most" not in notice.message


def test_who_does_not_want_it_gets_none_and_without_a_log_it_is_said(
    hushlist: Hushlist, use: Callable[..., None], notices: list[Notice], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for weekly, log in (("off", "log: {folder: log}"), ("on", "")):
        use(log=log, weekly=weekly)
        for later in (-7, 1, 8):
            send_weekly_summary(hushlist.runtime, a_monday() + timedelta(days=later))
    assert notices == []
    assert [record.getMessage() for record in caplog.records] == [
        "hushlist: no summary of the week: there is no log: write 'log: on' into the policy"
    ] * 2


def test_without_a_policy_or_a_store_nothing_is_raised(hushlist: Hushlist, use: Callable[..., None]) -> None:
    send_weekly_summary(hushlist.runtime, a_monday())
    use()
    handler = part_of(hushlist.runtime, UnblockHandler)
    overrides, handler.overrides = handler.overrides, None
    send_weekly_summary(hushlist.runtime, a_monday())
    handler.overrides = overrides


PAGE = """\
html lang=en dir=$dir
  head
    meta charset=utf-8
    meta name=viewport content=width=device-width, initial-scale=1
    title | Hushlist: the week to 28 December 2026
  body style=font-family:sans-serif
    h1 style=font-size:20px | Hushlist: the week to 28 December 2026
    p | Requests in the log: 4. Stopped: 1. Times are by the clock of UTC.
    table style=border-collapse:collapse
      thead
        tr
          th scope=col CELL | $day
          th scope=col CELL | $requests
          th scope=col CELL | $stopped
          th scope=col CELL
      tbody
        tr
          td CELL | 21 December 2026
          td CELL | 4
          td CELL | 1
          td CELL
            span aria-hidden=true style=white-space:nowrap
              span style=display:inline-block;height:12px;width:50px;background:#b3261e
              span style=display:inline-block;height:12px;width:150px;background:#9db6ee
        tr
          td CELL | 22 December 2026
          td CELL | 0
          td CELL | 0
          td CELL
            span aria-hidden=true style=white-space:nowrap
    h2 style=font-size:16px | $stopped_client
    table style=border-collapse:collapse
      thead
        tr
          th scope=col CELL | $name
          th scope=col CELL | $stopped
      tbody
        tr
          td CELL | jo
          td CELL | 2
    h2 style=font-size:16px | $stopped_host
    p | $nothing
"""


def test_the_page_and_the_message_have_each_day_and_what_was_stopped_most() -> None:
    bars = [("2026-12-21", 4, 1), ("2026-12-22", 0, 0)]
    notice = summary_of(History("week", "UTC", bars, {"client": [("jo", 2)], "host": []}), date(2026, 12, 28), "en")
    assert notice.html is not None
    page = outline(notice.html, live_texts()["en"])
    assert page.replace("style=padding:4px 6px;text-align:left;vertical-align:top", "CELL") + "\n" == PAGE
    days = ["21 December 2026: 4, Stopped: 1", "22 December 2026: 0, Stopped: 0"]
    most = ["", "Clients stopped most:", "jo: 2", "", "Sites stopped most:", "Nothing at present."]
    assert notice.message.splitlines()[1:] == [*days, *most]
    week = {"days": [list(bar) for bar in bars], "stopped": {"client": [("jo", 2)], "host": []}}
    assert notice.details == {"week": week}


def test_no_name_begins_a_line_of_its_own() -> None:
    found = History("week", "UTC", [("2026-12-21", 3, 2)], {"client": [("jo\n\nAll is fine\x1b[2J", 2)]})
    lines = summary_of(found, date(2026, 12, 28), "en").message.splitlines()
    assert lines[-1] == r"jo\n\nAll is fine\x1b[2J: 2"
