"""Alerts in a proxy: what counts for which, what is told of it, by real servers; and what a flood leaves of it."""

from __future__ import annotations

import email
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, time, timedelta, tzinfo
from email.policy import default
from itertools import pairwise
from pathlib import Path
from unittest.mock import Mock

import pytest
from mitmproxy.test import taddons

from hushlist.cli import main
from hushlist.core.extension import REFUSED_CERTIFICATE, Notice
from hushlist.core.policy.groups import Client
from hushlist.extensions.alerts import alert_part
from hushlist.extensions.alerts.alert_part import AlertPart
from hushlist.extensions.notify.notices import Notices
from hushlist.extensions.unblock.overrides import LONGEST_UNBLOCK
from hushlist.proxy.addon import Hushlist
from support.clock import Clock, addon_clock
from support.mitmproxied import mitmproxied
from support.parts import part_of
from unit.extensions.notify.servers import LOOPBACK, HttpServer, SmtpServer, listening
from unit.extensions.unblock.people import Person

PUPIL, OTHER = "10.0.0.7", "192.0.2.9"
LISTS = {
    "list.yaml": "title: Mine\nrules:\n- {expression: games.example, category: 'hrn://c.example/games/board'}\n"
    "- {expression: warned.example, action: warn}\n- {expression: vpn.example, category: vpn, action: tag}\n"
    "- {expression: resolver.example, category: doh, action: tag}\n",
    "flags.searches": "kill+myself\n",
}
POLICY = """\
inside: table
groups: [{name: kids, clients: [10.0.0.0/8]}]
layers:
- name: lists
  lists: [list.yaml, {file: flags.searches, category: 'hrn://c.example/self-harm'}]
"""

Begin = Callable[..., AlertPart]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return addon_clock(monkeypatch)


@pytest.fixture
def begin(hushlist: Hushlist, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    """Begin with a policy; the thread of alerts waits, and the test does its steps."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(alert_part, "Thread", Mock())
    with ExitStack() as stack:

        def begin(more: str, *alerts: str, layers: str = "") -> AlertPart:
            for name, text in LISTS.items():
                (tmp_path / name).write_text(text)
            notify = "" if "notify:" in more else "notify: [{name: phone, command: [/bin/true]}]\n"
            items = "".join(f"- {item}\n" for item in alerts)
            (tmp_path / "policy.yaml").write_text(f"{more}{notify}alerts:\n{items}{POLICY}{layers}")
            stack.enter_context(mitmproxied(hushlist, tmp_path / "policy.yaml"))
            hushlist.runtime.clock = clock
            return part_of(hushlist.runtime, AlertPart)

        yield begin


@pytest.fixture
def sent_notices(hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch) -> list[Notice]:
    notices: list[Notice] = []
    monkeypatch.setattr(part_of(hushlist.runtime, Notices).notifier, "send", notices.append)
    return notices


def lines(notice: Notice) -> dict[str, str]:
    return {name: value for name, _, value in (line.partition(": ") for line in notice.message.split("\n"))}


@pytest.mark.parametrize(
    ("when", "urls"),
    [
        ("{category: 'hrn://c.example/games'}", {"games"}),
        ("{category: vpn}", {"vpn"}),
        ("{action: [warn, tag]}", {"warned", "vpn", "resolver"}),
        ("{list: Mine, action: block}", {"games"}),
        ("{search: on}", {"search"}),
        ("{search: on, category: 'hrn://c.example/games'}", set()),
        ("{around: [vpn]}", {"vpn"}),
        ("{around: [translators]}", {"translated"}),
        ("{around: [doh]}", {"resolver"}),
        ("{event: held-back}", set()),
    ],
)
def test_a_decision_counts_for_the_alerts_that_it_fits(
    hushlist: Hushlist, begin: Begin, sent_notices: list[Notice], clock: Clock, when: str, urls: set[str]
) -> None:
    alerts = begin("", f"{{name: a, when: {when}}}")
    visited = {
        "games": "http://games.example/",
        "warned": "http://warned.example/",
        "vpn": "http://vpn.example/",
        "search": "http://www.google.com/search?q=how+to+kill+myself",
        "translated": "http://translate.google.com/translate?u=http%3A%2F%2Fgames.example%2F&x=1",
        "resolver": "http://resolver.example/",
        "other": "http://other.example/",
    }
    found = set()
    for number, (name, url) in enumerate(visited.items()):
        if name == "translated" and when.startswith(("{category", "{list")):
            continue  # it is a game as well
        Person(hushlist, f"10.0.1.{number}").get(url)
        alerts.step(clock.now)
        found |= {name} if sent_notices else set()
        sent_notices.clear()
    assert found == urls


@pytest.mark.slow
def test_a_notice_says_who_what_and_why_and_how_often(
    hushlist: Hushlist, begin: Begin, sent_notices: list[Notice], clock: Clock
) -> None:
    alerts = begin("", "{name: games, when: {category: 'hrn://c.example/games'}, for: kids, times: 2, to: phone}")
    person = Person(hushlist, PUPIL)
    person.get("http://games.example/a?b=<i>c</i>")
    Person(hushlist, OTHER).get("http://games.example/")
    alerts.step(clock.now)
    assert sent_notices == []
    for _ in range(999):
        person.get("http://games.example/a?b=<i>c</i>")
    alerts.step(clock.now)
    (notice,) = sent_notices
    assert (notice.title, notice.to, notice.buttons) == (f"games: {PUPIL}", ("phone",), None)
    assert (
        lines(notice).items()
        >= {
            "Times": "1,000",
            "Address": "http://games.example/a?b=<i>c</i>",
            "Category": "hrn://c.example/games/board",
            "List": "Mine",
            "Rule": "list.yaml:3",
            "Seen": "hushlist alerts seen 1",
        }.items()
    )
    alerts.step(clock.now + 599)
    assert len(sent_notices) == 1


@pytest.mark.parametrize(
    ("clients", "queries", "who", "address"),
    [
        ("keep", "keep", f"Mia's tablet ({PUPIL})", "http://games.example/?a=b"),
        ("pseudonym", "drop", None, "http://games.example/"),
        ("drop", "drop", "somebody", "http://games.example/"),
    ],
)
def test_what_the_log_does_not_keep_is_in_no_notice_and_no_store(
    tmp_path: Path,
    begin: Begin,
    sent_notices: list[Notice],
    hushlist: Hushlist,
    clock: Clock,
    capsys: pytest.CaptureFixture[str],
    clients: str,
    queries: str,
    who: str | None,
    address: str,
) -> None:
    log = f"log: {{clients: {clients}, queries: {queries}, folder: log}}\n"
    log += f"devices: [{{name: Mia's tablet, addresses: [{PUPIL}]}}]\n"
    alerts = begin(log, f"{{name: {clients}, when: {{list: Mine}}}}")
    Person(hushlist, PUPIL).get("http://games.example/?a=b")
    alerts.step(clock.now)
    notice = sent_notices.pop()
    assert lines(notice)["Address"] == address
    assert notice.title == f"{clients}: {who}" if who else PUPIL not in notice.title
    alerts.close()
    for command in (["list"], ["seen", "1"]):
        assert main(["alerts", *command, "--policy", str(tmp_path / "policy.yaml")]) == 0
        out = capsys.readouterr().out
        assert f"  {clients}  {who}" in out if who else PUPIL not in out
    if clients != "keep":
        assert not any(PUPIL.encode() in path.read_bytes() for path in (tmp_path / "state").rglob("*.sqlite*"))
    sent_notices.clear()


def test_what_somebody_was_let_through_to_is_no_alert(
    hushlist: Hushlist, begin: Begin, sent_notices: list[Notice], clock: Clock
) -> None:
    from hushlist.extensions.unblock.unblock_handler import overrides_of

    alerts = begin("", "{name: a, when: {list: Mine}}")
    overrides = overrides_of(hushlist.runtime)
    assert overrides is not None
    overrides.grant("host", "games.example", LONGEST_UNBLOCK, how="command line", by="anna")
    assert Person(hushlist, PUPIL).get("http://games.example/") is None
    alerts.step(clock.now)
    assert sent_notices == []


def test_what_is_no_decision_is_told_too(
    hushlist: Hushlist, begin: Begin, sent_notices: list[Notice], clock: Clock
) -> None:
    names = ("new-device", "refused-certificate", "held-back")
    alerts = begin("", *(f"{{name: {name}, when: {{event: {name}}}}}" for name in names))
    Person(hushlist, PUPIL).get("http://other.example/")
    alerts.step(clock.now)
    clock.now += 2 * 86400
    Person(hushlist, OTHER).get("http://other.example/")
    alerts.happened(REFUSED_CERTIFICATE, Client(PUPIL), "bank.example")
    policy = hushlist.runtime.engine.policy  # type: ignore[union-attr]
    policy = policy._replace(held={Path("/lists/ads.txt"): "it lost half of its rules"})
    for _ in range(3):
        alerts.watch(policy)
    alerts.step(clock.now)
    assert {notice.title: notice.message.split("\n")[0] for notice in sent_notices} == {
        f"new-device: {OTHER}": "A new device",
        f"refused-certificate: {PUPIL}": "A device does not accept the certificate",
        "held-back: ads.txt": "A list is held back",
    }


def test_many_people_at_once_are_some_notices_and_one_that_counts_the_others(
    hushlist: Hushlist, begin: Begin, sent_notices: list[Notice], clock: Clock
) -> None:
    alerts = begin("", "{name: a, when: {list: Mine}}")
    for number in range(40):
        Person(hushlist, f"10.0.1.{number}").get("http://games.example/")
    alerts.step(clock.now)
    assert len(sent_notices) == 6
    assert sent_notices[-1].message == "a: more alerts: 35"


def test_where_the_log_drops_clients_no_alert_is_of_one_group(
    hushlist: Hushlist, begin: Begin, sent_notices: list[Notice], clock: Clock
) -> None:
    """All of them are counted as one, so that some may be of other groups."""
    notify = "notify: [{command: [/bin/true], groups: kids}]\nlog: {clients: drop}\n"
    alerts = begin(notify, "{name: a, when: {list: Mine}, times: 2}")
    for address in ("192.0.2.7", "10.0.1.7"):
        Person(hushlist, address).get("http://games.example/")
    alerts.step(clock.now)
    (notice,) = sent_notices
    assert notice.group is None


def test_where_a_channel_is_for_a_group_its_alerts_are_counted_by_themselves(
    hushlist: Hushlist, begin: Begin, sent_notices: list[Notice], clock: Clock
) -> None:
    notify = "notify: [{command: [/bin/true], groups: kids}, {command: [/bin/echo]}]\n"
    alerts = begin(notify, "{name: a, when: {list: Mine}}", "{name: new, when: {event: new-device}}")
    for number in range(8):
        for network in ("10.0.1", "192.0.2"):
            Person(hushlist, f"{network}.{number}").get("http://games.example/")
    alerts.step(clock.now)
    of_kids = [notice for notice in sent_notices if notice.group == "kids"]
    assert [notice.message for notice in of_kids if "more alerts" in notice.message] == ["a: more alerts: 3"]
    assert len(of_kids) == 6
    assert not [notice for notice in of_kids if "192.0.2" in str(notice)]
    assert not [notice for notice in sent_notices if notice.group != "kids" and "10.0.1" in str(notice)]


def test_a_flood_is_bounded_and_counted(
    hushlist: Hushlist, begin: Begin, sent_notices: list[Notice], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_part, "MOST_WAITING", 3)
    alerts = begin("", "{name: a, when: {list: Mine}}")
    for _ in range(10):
        Person(hushlist, PUPIL).get("http://games.example/")
    alerts.step(clock.now)
    assert lines(sent_notices[0])["Times"] == "3"
    assert {metric.name: [value for _, value in metric.samples] for metric in alerts.metrics()} == {
        "alert_notices_total": [1],
        "alert_lost_total": [7],
    }


def test_a_store_that_is_away_is_told_of_and_loses_nothing(
    hushlist: Hushlist, begin: Begin, sent_notices: list[Notice], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hushlist.extensions.alerts.alert_book import AlertBook
    from hushlist.extensions.databases.sql import StoreError

    alerts = begin("", "{name: a, when: {list: Mine}}")

    def fail(*_: object) -> None:
        raise StoreError(Path("state.sqlite"), "it is away")

    with monkeypatch.context() as away:
        away.setattr(AlertBook, "note", fail)
        for _ in range(2):
            Person(hushlist, PUPIL).get("http://games.example/")
            with pytest.raises(StoreError):
                alerts.step(clock.now)
    alerts.step(clock.now)
    assert lines(sent_notices[0])["Times"] == "2"


def test_without_alerts_no_request_is_looked_at(hushlist: Hushlist, context: taddons.context) -> None:
    assert all(not isinstance(noted.__self__, AlertPart) for noted in hushlist.runtime.parts.noted)  # type: ignore[attr-defined]


def test_a_mail_arrives_by_a_real_server_and_so_do_the_messages_of_bots(
    hushlist: Hushlist, begin: Begin, clock: Clock
) -> None:
    smtp, phone, telegram = SmtpServer(), HttpServer(), HttpServer()
    with listening(smtp) as mail, listening(phone) as ntfy, listening(telegram) as bot:
        notify = (
            f"own-address: http://192.168.1.2:8080\nnotify:\n"
            f"- {{name: mail, mail: jo@a.example, from: f@a.example, server: {LOOPBACK}, port: {mail}, tls: none}}\n"
            f"- {{name: phone, webhook: 'http://{LOOPBACK}:{ntfy}', topic: filter}}\n"
            f"- {{name: bot, webhook: 'http://{LOOPBACK}:{bot}/send/$id', method: PUT,"
            " json: {text: '$title', markup: [{text: $label1, url: $link1}, {url: $link2}]}}\n"
        )
        alerts = begin(notify, "{name: games, when: {list: Mine}}")
        Person(hushlist, PUPIL).get("http://games.example/")
        alerts.step(clock.now)
    message = email.message_from_bytes(smtp.mail, policy=default)
    assert message["Subject"] == f"games: {PUPIL}"
    link = message.get_content().strip().split("\n")[-1]  # type: ignore[attr-defined]
    assert link.startswith("Seen: http://192.168.1.2:8080/seen/")
    (action,) = json.loads(phone.body)["actions"]
    assert {**action, "url": ""} == {"action": "http", "label": "Seen", "url": "", "method": "POST", "clear": True}
    assert telegram.head.startswith(b"PUT /send/")
    said = json.loads(telegram.body)
    urls = {link.partition(": ")[2], action["url"], said["markup"][0]["url"]}
    assert (said["text"], len(said["markup"]), len(urls)) == (f"games: {PUPIL}", 1, 3)


@pytest.mark.slow
@pytest.mark.thorough
def test_a_week_of_a_school_is_told_once_within_the_time_outside_quiet_hours_and_nothing_is_lost(
    hushlist: Hushlist, begin: Begin, sent_notices: list[Notice], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every ten minutes, by an injected clock: pupils use a service that is closed in lessons, and some search."""

    class Moment(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Moment:
            return cls.fromtimestamp(clock.now, tz)

    for module in ("engine", "known_hosts"):
        monkeypatch.setattr(f"hushlist.core.decide.{module}.datetime", Moment)
    begun = datetime(2026, 11, 30, tzinfo=UTC)  # a Monday
    clock.now = begun.timestamp()
    alerts = begin(
        "timezone: UTC\nschedules: {lessons: {days: mon-fri, times: '08:00-15:30'}, nights: {times: '20:00-07:00'}}\n"
        "categories: {tiktok: {action: block, during: lessons, otherwise: pass}}\n",
        "{name: flags, when: {search: on}, within: 1h, quiet: nights}",
        "{name: closed, when: {category: tiktok, action: block}, times: 3, within: 1h}",
        layers="- {name: services, lists: [{catalogue: services}]}\n",
    )
    chosen, searched, counted = random.Random(48), Counter[str](), Counter[str]()
    notices: dict[tuple[str, str], list[datetime]] = {}
    for step in range(7 * 24 * 6):
        now = begun + timedelta(minutes=10 * step)
        clock.now = now.timestamp()
        is_lesson = now.weekday() < 5 and time(8) <= now.time() < time(15, 30)
        for pupil in chosen.sample(range(9), 2) if 7 <= now.hour < 23 else ():
            person = Person(hushlist, f"10.0.1.{pupil}")
            assert (person.get("http://www.tiktok.com/") is not None) == is_lesson, now
            if chosen.random() < 0.2:
                assert person.get("http://www.google.com/search?q=how+to+kill+myself") is not None
                searched[person.address] += 1
        alerts.step(clock.now)
        for notice in sent_notices:
            about = notice.details["alert"]
            assert isinstance(about, dict)
            if "more" in about:  # many at the end of the night
                continue
            name, who = about["name"], about["who"]
            notices.setdefault((name, who), []).append(now)
            if name == "flags":
                counted[who] = about["number"]
                assert 7 <= now.hour < 20
            else:
                assert is_lesson
        sent_notices.clear()
    assert {name for name, _ in notices} == {"flags", "closed"}
    assert all(later - early >= timedelta(hours=1) for own in notices.values() for early, later in pairwise(own))
    book = alerts.book
    assert book is not None
    assert {row.whom: row.number for row in book.rows() if row.alert == "flags"} == searched
    assert all(counted[who] <= searched[who] for who in counted)
