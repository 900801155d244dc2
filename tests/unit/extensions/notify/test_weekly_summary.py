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

from hushlist.cli import main
from hushlist.core.extension import Notice
from hushlist.extensions.journal.journal import log_of
from hushlist.extensions.notify.weekly_summary import Week, send_weekly_summary, summary_of
from hushlist.extensions.unblock.unblock_handler import UnblockHandler
from hushlist.proxy.addon import Hushlist
from hushlist.proxy.languages import live_texts
from support.parts import part_of
from support.policies import read_whole
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


def browse(hushlist: Hushlist, *urls: str, client: str = "10.0.0.7", user: str | None = None) -> None:
    for url in urls:
        flow = tflow.tflow(req=http.Request.make("GET", url))
        flow.client_conn.peername = (client, 50000)
        flow.metadata |= {} if user is None else {"proxyauth": (user, "")}
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
    sunday = monday - timedelta(days=1)
    assert notice.title == f"Hushlist: the week to {sunday.day} {sunday:%B %Y}"
    assert notice.message.startswith("Requests: 2. Stopped: 1. Times are by the clock of Europe/Berlin.")
    assert notice.html is not None
    assert "blocked.example" in notice.html
    assert "10.0.0.7" in notice.message
    assert MARKUP not in notice.html
    assert json.loads(json.dumps(notice.as_dict()))["week"]["stopped"]["host"] == [["blocked.example", 1]]
    assert "secret" not in notice.html + notice.message
    send_weekly_summary(hushlist.runtime, monday + timedelta(days=30))  # what was missed is sent once
    assert len(notices) == 2


def test_a_teacher_reads_no_name_of_another_class_that_has_had_the_same_address(
    hushlist: Hushlist, use: Callable[..., None], notices: list[Notice]
) -> None:
    groups = "groups: [{name: 7a, users: [ann]}, {name: 7b, users: [bob]}]\n"
    use(log=f"log: {{what: all, folder: log}}\n{groups}", weekly="on, groups: 7a")
    browse(hushlist, "http://blocked.example/", user="ann")
    browse(hushlist, "http://secret.blocked.example/", user="bob")
    for later in (-7, 1):
        send_weekly_summary(hushlist.runtime, a_monday() + timedelta(days=later))
    (notice,) = notices
    assert "ann (10.0.0.7): 1" in notice.message
    assert "bob" not in f"{notice}"


def test_a_teacher_gets_the_week_of_the_class_and_the_head_that_of_the_school(
    hushlist: Hushlist, use: Callable[..., None], notices: list[Notice], capsys: pytest.CaptureFixture[str]
) -> None:
    groups = "groups: [{name: 7a, clients: [10.0.0.7]}, {name: 7b, clients: [10.0.0.8]}]\n"
    use(log=f"log: {{what: all, folder: log}}\n{groups}", weekly="on, groups: 7a}, {command: [/bin/echo], weekly: on")
    browse(hushlist, "http://blocked.example/", "http://fine.example/")
    browse(hushlist, "http://x.blocked.example/", "http://y.blocked.example/", client="10.0.0.8")
    for later in (-7, 1):
        send_weekly_summary(hushlist.runtime, a_monday() + timedelta(days=later))
    own, everybody = notices
    assert (own.group, everybody.group) == ("7a", None)
    assert own.title == f"{everybody.title}: 7a"
    assert own.message.startswith("Requests: 2. Stopped: 1.")
    assert everybody.message.startswith("Requests: 4. Stopped: 3.")
    assert own.html is not None
    for text in ("10.0.0.8", "x.blocked.example", "7b"):
        assert text not in own.message + own.html
    assert hushlist.runtime.engine is not None
    policy = hushlist.runtime.engine.policy.source
    assert main(["summary", "--policy", policy, "--now"]) == 0
    assert capsys.readouterr().out == "sent by the command /bin/true\nsent by the command /bin/echo\n"


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


DAYS = [(date(2026, 12, 21) + timedelta(days=more), 4 * (more == 0), int(more == 0)) for more in range(7)]


def a_week(stopped: dict[str, list[tuple[str, int]]], *, is_all: bool = True) -> Week:
    return Week(date(2026, 12, 27), "UTC", is_all, DAYS, (7, 3), stopped, None)


def test_the_page_and_the_message_have_each_day_and_what_was_stopped_most(tmp_path: Path) -> None:
    policy, _ = read_whole(tmp_path, "own-address: http://192.168.1.2:8080")
    notice = summary_of(a_week({"client": [("jo", 2)], "host": []}), policy)
    assert notice.html is not None
    page = outline(notice.html, live_texts()["en"])
    assert page.count("max-width:600px") == 1
    assert page.count("border-collapse:collapse;width:100%") == 2
    assert "width:25%;background:#b3261e" in page
    for text in ("21 December 2026", "jo", "$activity", "The week before: 7 requests, 3 stopped."):
        assert text in page
    assert "href=http://192.168.1.2:8080/#/activity" in page
    days = ["21 December 2026: 4, Stopped: 1", *(f"{day} December 2026: 0, Stopped: 0" for day in range(22, 28))]
    most = ["", "Clients stopped most:", "jo: 2", "", "Sites stopped most:", "Nothing at present."]
    links = ["", "Home: http://192.168.1.2:8080/#/", "Activity: http://192.168.1.2:8080/#/activity"]
    first = ["Requests: 4. Stopped: 1. Times are by the clock of UTC.", "The week before: 7 requests, 3 stopped."]
    assert notice.message.splitlines() == [*first, *days, *most, *links]
    of_days = [[f"{day}", number, part] for day, number, part in DAYS]
    week = {"days": of_days, "before": (7, 3), "stopped": {"client": [("jo", 2)], "host": []}}
    assert notice.details == {"week": week}


def test_what_counts_only_records_says_so(tmp_path: Path) -> None:
    policy, _ = read_whole(tmp_path, "")
    assert summary_of(a_week({}, is_all=False), policy).message.startswith("Requests in the log: 4.")


def test_a_client_is_called_as_its_device(
    hushlist: Hushlist, use: Callable[..., None], notices: list[Notice], capsys: pytest.CaptureFixture[str]
) -> None:
    use(log="devices: [{name: Mia's tablet, addresses: [10.0.0.7]}]\nlog: {what: all, folder: log}")
    browse(hushlist, "http://blocked.example/")
    for later in (-7, 1):
        send_weekly_summary(hushlist.runtime, a_monday() + timedelta(days=later))
    (notice,) = notices
    assert "Mia's tablet (10.0.0.7): 1" in notice.message
    assert hushlist.runtime.engine is not None
    policy = hushlist.runtime.engine.policy.source
    assert main(["summary", "--policy", policy]) == 0
    told = capsys.readouterr().out.splitlines()
    assert any(line.startswith("Requests: 1. Stopped: 1.") for line in told)
    assert "Mia's tablet (10.0.0.7): 1" in told
    assert main(["summary", "--policy", policy, "--now"]) == 0
    assert capsys.readouterr().out == "sent by the command /bin/true\n"


def test_no_name_begins_a_line_of_its_own(tmp_path: Path) -> None:
    policy, _ = read_whole(tmp_path, "")
    lines = summary_of(a_week({"client": [("jo\n\nAll is fine\x1b[2J", 2)]}), policy).message.splitlines()
    assert lines[-4] == r"jo\n\nAll is fine\x1b[2J: 2"
