"""Mistakes that people report on the block page, in mitmproxy's own test context."""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode, urljoin

import pytest
from mitmproxy import http
from mitmproxy.test import taddons

from hushlist.cli import main
from hushlist.core.extension import Notice
from hushlist.core.routes import MissingError
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.journal.log_keys import LoggedClients, LoggedQueries
from hushlist.extensions.journal.log_record import Privacy
from hushlist.extensions.notify.notices import Notices
from hushlist.extensions.reports import report_book, report_part
from hushlist.extensions.reports.actions import for_publisher, status_of
from hushlist.extensions.reports.publisher_report import SHAPES
from hushlist.extensions.reports.report_book import KEPT, LONGEST_URL, MOST_OF_CLIENT, MOST_OPEN, Report, ReportBook
from hushlist.extensions.unblock import default_path
from hushlist.extensions.unblock.access_requests import AskedTooOftenError
from hushlist.extensions.unblock.grant_events import GrantEvent
from hushlist.proxy.addon import Hushlist
from support.clock import Clock, addon_clock
from support.mitmproxied import mitmproxied
from support.parts import part_of
from unit.extensions.unblock.people import OTHER, PUPIL, Person
from unit.rows import each_row

ISSUES = "https://lists.example/issues"
FILTERS = f"! Title: Ads\n! Issues: {ISSUES}\n! Version: 7\n||ads.example^\n"
HASH = hashlib.sha256(b"secret.example/").hexdigest()
POLICY = (
    "reports: on\nlayers:\n- {name: lists, lists: [list.yaml, {file: ads.txt, title: Ads}, hashes.txt]}\n"
    "groups:\n- {name: silent, clients: [192.0.2.8], reports: off}\n"
)
WANTED = Report("user:jo", "192.0.2.7", "kids", "a.example", "http://a.example/", "a.example/", 3, "Ads", "ads.txt")
URL = "http://games.example/chess/x?name=jo"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return addon_clock(monkeypatch)


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "ads.txt").write_text(FILTERS)
    (tmp_path / "hashes.txt").write_text(f"# Contact: jo@lists.example\n{HASH}\n")
    rules = ["games.example/chess/", "warned.example", *(f"h{number}.example" for number in range(30))]
    (tmp_path / "list.yaml").write_text(
        f"title: Ours\nversion: 3\nrules:\n{''.join(f'- {rule}' + chr(10) for rule in rules)}"
    )
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return path


@pytest.fixture
def sent_notices(hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch) -> list[Notice]:
    notices: list[Notice] = []
    monkeypatch.setattr(part_of(hushlist.runtime, Notices).notifier, "send", notices.append)
    return notices


@pytest.fixture
def context(hushlist: Hushlist, policy: Path, clock: Clock, sent_notices: list[Notice]) -> Iterator[taddons.context]:
    hushlist.runtime.clock = clock
    with mitmproxied(hushlist, policy) as context:
        yield context


class Pupil(Person):
    """A client that reports mistakes."""

    def page(self, url: str) -> str:
        response = self.get(url)
        assert response is not None
        return response.text or ""

    def report(self, url: str = URL, page: str | None = None, **form: str) -> http.Response:
        page = page or self.page(url)
        action, token = (
            group_of_match('<form[^>]* action="([^"]*)"', page),
            group_of_match('"token" value="([^"]*)"', page),
        )
        body = urlencode({"token": token, "report": "on", **form}).encode()
        response = self.go(self.flow(urljoin(url, action), "POST", body))
        assert response is not None
        return response


def group_of_match(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match, text
    return html.unescape(match[1])


@pytest.fixture
def pupil(context: taddons.context, hushlist: Hushlist) -> Pupil:
    return Pupil(hushlist)


@pytest.fixture
def book(context: taddons.context, clock: Clock) -> Iterator[ReportBook]:
    """The store, as the administrator's command opens it."""
    with closing(ReportBook(default_path(), clock)) as opened:
        yield opened


def test_a_report_has_the_rule_and_the_list_with_its_version_and_digest(
    pupil: Pupil, book: ReportBook, sent_notices: list[Notice], policy: Path
) -> None:
    response = pupil.report("http://ads.example/banner?id=7", words="it is\nno ad")
    assert response.status_code == 403
    assert "Thank you." in (response.text or "")
    assert "<form" not in (response.text or "")
    (report,) = book.rows()
    digest = hashlib.sha256(FILTERS.encode()).hexdigest()
    assert (report.rule, report.line, report.list, report.version) == ("ads.example/", 4, "Ads", "7")
    assert (report.publisher, report.digest, report.client) == (ISSUES, digest, PUPIL)
    assert (report.words, report.url) == ("it is no ad", "http://ads.example/banner?id=7")
    (notice,) = sent_notices
    assert notice.group == report.in_group
    assert notice.title == f"{PUPIL} says that this is blocked by mistake: ads.example"
    assert all(part in notice.message for part in (ISSUES, "ads.example/ (Ads)", "it is no ad", "reports show 1"))
    text = for_publisher(report, Privacy()).text
    assert text.split("\n")[2:] == [
        "List: Ads (ads.txt)",
        "Version: 7",
        f"SHA-256 of the list: {digest}",
        "Rule: ads.example/ (line 4)",
        "It stops: http://ads.example/",
    ]
    assert not any(secret in text for secret in (PUPIL, "no ad", "id=7", str(policy.parent)))


def test_a_hashed_rule_is_named_by_its_hash_and_nothing_else(pupil: Pupil, book: ReportBook) -> None:
    pupil.report("http://secret.example/deep")
    (report,) = book.rows()
    text = for_publisher(report, Privacy())
    assert f"Rule: sha256:{HASH} (line 2)" in text.text
    assert (text.shape, text.publisher) == ("nothing", "mailto:jo@lists.example")
    assert "secret" not in text.text


@pytest.mark.parametrize(
    ("shape", "stops"),
    zip(SHAPES, ("", "http://games.example/", "http://games.example/chess/x", URL), strict=True),
)
def test_a_person_says_how_much_of_the_url_the_publisher_is_told(
    pupil: Pupil, book: ReportBook, shape: str, stops: str
) -> None:
    pupil.report()
    (report,) = book.rows()
    assert report.shape == "path"
    assert for_publisher(report, Privacy(), shape).text.partition("It stops: ")[2] == stops
    hidden = Privacy(queries=LoggedQueries.DROP)
    assert "jo" not in for_publisher(report, hidden, shape).text + status_of(report, hidden).url


def test_what_is_shown_of_who_reports_is_what_the_log_may_have(pupil: Pupil, book: ReportBook) -> None:
    pupil.report()
    (report,) = book.rows()
    assert status_of(report, Privacy()).client == PUPIL
    assert status_of(report, Privacy(clients=LoggedClients.DROP)).client is None


@each_row("seen", ["drop", "pseudonym"])
def test_nobody_is_shown_later_by_more_than_their_page_has_said(
    tmp_path_factory: pytest.TempPathFactory, seen: str
) -> None:
    place, clients = tmp_path_factory.mktemp("book") / "state.sqlite", LoggedClients(seen)
    with closing(ReportBook(place, Clock())) as book, pytest.MonkeyPatch.context() as patch:
        events: list[GrantEvent] = []
        patch.setattr(report_book, "record_event", lambda _, event: events.append(event))
        book.file(replace(WANTED, seen=seen))
        (report,) = book.rows()
    assert (status_of(report, Privacy()).client, status_of(report, Privacy()).user) == (None, None)
    own = status_of(report, Privacy(clients=clients, pseudonym=lambda kind, _: f"a-{kind}"))
    assert own.client == {"drop": None, "pseudonym": "a-client"}[seen]
    assert [(event.client, event.by) for event in events] == [(None, "somebody")]


def test_a_report_notes_what_its_page_says_of_who_reports(
    pupil: Pupil, book: ReportBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_part, "clients_shown", lambda _: LoggedClients.DROP)
    pupil.report()
    assert [row.seen for row in book.rows()] == ["drop"]


def test_a_long_address_is_cut_and_is_short_in_a_notice(
    pupil: Pupil, book: ReportBook, sent_notices: list[Notice]
) -> None:
    pupil.report(f"http://games.example/chess/{'x' * 9000}")
    assert [len(row.url) for row in book.rows()] == [LONGEST_URL]
    (notice,) = sent_notices
    assert len(notice.message) < 1000
    assert len(json.dumps(notice.details)) < 1500


def test_what_the_log_does_not_keep_of_a_url_is_in_no_store(
    pupil: Pupil, book: ReportBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_part, "privacy_in", lambda _: Privacy(queries=LoggedQueries.DROP))
    pupil.report()
    assert [row.url for row in book.rows()] == ["http://games.example/chess/x"]


def test_the_same_mistake_is_one_report_until_it_is_settled(
    pupil: Pupil, hushlist: Hushlist, book: ReportBook, sent_notices: list[Notice]
) -> None:
    for person in (pupil, Pupil(hushlist, "192.0.2.9")):
        person.report(words=f"from {person.address}")
    assert [(row.times, row.words) for row in book.rows()] == [(2, f"from {PUPIL}")]
    assert len(sent_notices) == 1
    assert book.settle(1, by="parent").by == "parent"
    assert book.rows() == []
    for number in (1, 2, 1 << 70):
        with pytest.raises(MissingError):
            book.settle(number, by="parent")
    pupil.report()
    assert [row.id for row in book.rows(is_all=True)] == [2, 1]


def test_a_client_cannot_report_without_end(pupil: Pupil, book: ReportBook, clock: Clock) -> None:
    for number in range(MOST_OF_CLIENT):
        pupil.report(f"http://h{number}.example/")
    response = pupil.report("http://h29.example/")
    assert "You have asked too often" in (response.text or "")
    assert len(book.rows()) == MOST_OF_CLIENT
    with pytest.raises(AskedTooOftenError):
        book.check(PUPIL)
    clock.now += KEPT + 1
    pupil.report("http://h29.example/")
    assert [row.host for row in book.rows(is_all=True)] == ["h29.example"]


def test_who_reports_most_gives_way_where_too_many_are_open(tmp_path: Path, clock: Clock) -> None:
    def file(client: str, number: int) -> None:
        clock.now += 1
        book.file(replace(WANTED, client=client, host=f"h{number}.example"))

    with closing(ReportBook(tmp_path / "state.sqlite", clock)) as book:
        file("quiet", 0)
        for number in range(1, MOST_OPEN):
            file(f"loud {number // 10}", number)
        file("loud 3", MOST_OPEN)
        assert [row.client for row in book.rows()].count("loud 1") == 9  # the first of those that have most
        file("late", MOST_OPEN + 1)
        rows = book.rows()
    assert len(rows) == MOST_OPEN
    assert {"quiet", "late"} <= {row.client for row in rows}
    assert [row.host for row in rows if row.client == "loud 3"][-1] == "h31.example"


def test_only_the_pages_own_form_counts_and_only_once(pupil: Pupil, book: ReportBook) -> None:
    page = pupil.page(URL)
    assert "Thank you." in (pupil.report(page=page).text or "")
    for response in (pupil.report(page=page), pupil.report(page=page, token="forged")):
        assert "too old" in (response.text or "")
    assert [row.times for row in book.rows()] == [1]


def test_there_is_no_button_where_the_policy_has_none_or_a_site_could_hide_it(pupil: Pupil, hushlist: Hushlist) -> None:
    assert "This is a mistake" in pupil.page(URL)
    assert "This is a mistake" not in Pupil(hushlist, OTHER).page(URL)
    assert "This is a mistake" not in (pupil.get(URL, sec_fetch_dest="iframe") or http.Response.make()).text  # type: ignore[operator]


def test_the_command_lists_shows_and_settles(
    pupil: Pupil, book: ReportBook, capsys: pytest.CaptureFixture[str]
) -> None:
    pupil.report("http://ads.example/banner?id=7", words="no ad")
    assert main(["reports", "list"]) == 0
    assert "http://ads.example/banner?id=7  ads.example/ by Ads: no ad" in capsys.readouterr().out
    assert main(["reports", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["publisher"] == ISSUES
    assert main(["reports", "show", "1", "--url", "host"]) == 0
    printed = capsys.readouterr()
    assert "It stops: http://ads.example/\n" in printed.out
    assert ISSUES in printed.err
    assert [main(["reports", "settle", "1"]), main(["reports", "settle", "1"]), main(["reports", "show", "9"])] == [
        0,
        1,
        1,
    ]
    assert main(["reports", "list"]) == 0
    assert "nobody has reported" in capsys.readouterr().err


def test_the_store_is_alike_in_both_databases(place: Path | PostgresAddress, clock: Clock) -> None:
    with closing(ReportBook(place, clock)) as book:
        assert [book.file(WANTED).times for _ in range(3)] == [1, 2, 3]
        assert [book.file(replace(WANTED, in_group=group)).times for group in ("7a", "7b", "7a")] == [1, 1, 2]
        for number in (2, 3):
            book.settle(number, by="parent")
        (row,) = book.rows()
        assert (row.id, row.user, row.line, row.times) == (1, "jo", 3, 3)
        assert book.settle(1, by="parent").settled == clock.now
        assert book.report(1).by == "parent"
