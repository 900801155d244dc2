"""Asking for access from the block page, in mitmproxy's own test context."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote, urlencode, urljoin

import pytest
from mitmproxy import http
from mitmproxy.test import taddons

from hushlist.core.extension import Notice
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.journal.log_keys import LoggedClients, LoggedQueries
from hushlist.extensions.journal.log_record import Privacy
from hushlist.extensions.notify.notices import Notices
from hushlist.extensions.unblock import default_path, taps, unblock_handler
from hushlist.extensions.unblock.access_requests import MOST_WAITING_OF_CLIENT, PATIENCE, REST, AccessRequest
from hushlist.extensions.unblock.actions import waiting
from hushlist.extensions.unblock.ask_handler import ANSWER_PATH, answer_waiting_page, is_of_group_alone, notice_of
from hushlist.extensions.unblock.overrides import Overrides
from hushlist.extensions.unblock.taps import TapError, TapFault
from hushlist.extensions.unblock.unblock_handler import overrides_of
from hushlist.proxy.addon import Hushlist
from hushlist.proxy.flow_outcome import HIDDEN
from hushlist.proxy.runtime import Runtime
from support.clock import Clock, addon_clock
from support.flows import flow_of
from support.mitmproxied import mitmproxied, own_answer
from support.parts import part_of
from support.policies import read_whole
from unit.extensions.unblock.people import OTHER, PUPIL, Person
from unit.rows import each_row

GAMES = "hrn://c.example/games"
URL = "http://games.example/chess?a=b"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return addon_clock(monkeypatch)


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "list.yaml").write_text(
        f"rules:\n- {{expression: games.example, category: '{GAMES}'}}\n"
        "- {expression: warned.example, action: warn}\n" + "".join(f"- h{number}.example\n" for number in range(9))
    )
    path = tmp_path / "policy.yaml"
    path.write_text("unblock: {ask: on, codes: off}\nlayers:\n- {name: lists, lists: [list.yaml]}\n")
    return path


@pytest.fixture
def sent_notices(hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch) -> list[Notice]:
    """What people were told."""
    notices: list[Notice] = []
    monkeypatch.setattr(part_of(hushlist.runtime, Notices).notifier, "send", notices.append)
    return notices


@pytest.fixture
def context(hushlist: Hushlist, policy: Path, clock: Clock, sent_notices: list[Notice]) -> Iterator[taddons.context]:
    with mitmproxied(hushlist, policy) as context:
        yield context


@pytest.fixture
def parent(context: taddons.context, clock: Clock) -> Iterator[Overrides]:
    """The store, as the administrator's command opens it."""
    with Overrides(default_path(), clock) as opened:
        yield opened


class Asker(Person):
    """A client that asks for access."""

    def text(self, url: str = URL) -> str:
        """The page that answers."""
        response = self.get(url)
        assert response is not None
        return response.text or ""

    def ask(self, url: str = URL, page: str | None = None, **form: str) -> http.Response:
        """Send the form of a page."""
        page = page or self.text(url)
        action, token = (
            group_of_match('<form[^>]* action="([^"]*)"', page),
            group_of_match('"token" value="([^"]*)"', page),
        )
        body = urlencode({"token": token, "ask": "on", **form}).encode()
        response = self.go(self.flow(urljoin(url, action), "POST", body))
        assert response is not None
        return response

    def answer(self, address: str) -> dict[str, str] | None:
        """What a page that waits hears; ``None`` if that is no answer of ours."""
        flow = self.flow(address)
        if self.go(flow) is None or HIDDEN not in flow.metadata:
            return None
        found: dict[str, str] = json.loads(flow.response.text or "")
        return found


def group_of_match(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match, text
    return html.unescape(match[1])


@pytest.fixture
def pupil(context: taddons.context, hushlist: Hushlist) -> Asker:
    return Asker(hushlist)


@pytest.fixture
def other(context: taddons.context, hushlist: Hushlist) -> Asker:
    return Asker(hushlist, OTHER)


def waiting_at(page: str, url: str = URL) -> str:
    """Where a page that waits hears of its answer."""
    return urljoin(url, group_of_match('data-answer="([^"]*)"', page))


def test_a_person_asks_and_is_let_in(
    pupil: Asker, other: Asker, parent: Overrides, clock: Clock, sent_notices: list[Notice]
) -> None:
    response = pupil.ask(reason="for maths")
    assert (response.status_code, response.headers["location"]) == (303, "/chess?a=b")
    address = waiting_at(pupil.text())
    assert pupil.answer(address) == {"state": "waiting", "word": ""}
    assert "Ask for access" in other.text()
    (asked,) = parent.requests()
    assert (asked.client, asked.group, asked.reason) == (PUPIL, "default", "for maths")
    assert asked.targets == {"host": "games.example", "site": "games.example", "url": URL, "category": GAMES}
    assert [notice.title for notice in sent_notices] == [f"{PUPIL} asks for games.example"]
    parent.approve(asked.id, "host", 600.0, by="parent")
    clock.now += 1.0
    assert pupil.answer(address) == {"state": "open", "word": ""}
    assert pupil.get(URL) is None
    assert other.get(URL) is not None


def test_the_answer_is_for_every_origin_to_read_and_is_never_kept(pupil: Asker) -> None:
    pupil.ask()
    response = pupil.get(waiting_at(pupil.text()))
    assert response is not None
    headers = response.headers
    assert (headers["Access-Control-Allow-Origin"], headers["Cache-Control"]) == ("*", "no-store")
    assert (headers["Content-Type"], headers["X-Content-Type-Options"]) == ("application/json", "nosniff")


def test_a_declined_request_tells_the_word_and_cannot_be_repeated_at_once(
    pupil: Asker, parent: Overrides, clock: Clock
) -> None:
    in_another_tab = pupil.text()
    pupil.ask()
    address = waiting_at(pupil.text())
    parent.decline(1, "<b>after dinner", by="parent")
    clock.now += 1.0
    assert pupil.answer(address) == {"state": "declined", "word": "<b>after dinner"}
    assert "&lt;b&gt;after dinner" in pupil.text()
    response = pupil.ask(page=in_another_tab)
    assert (response.status_code, "Your request was declined." in (response.text or "")) == (403, True)
    clock.now += REST
    assert pupil.answer(address) == {"state": "none", "word": ""}
    assert pupil.ask().status_code == 303


def test_a_request_that_nobody_answered_expires(pupil: Asker, parent: Overrides, clock: Clock) -> None:
    pupil.ask()
    address = waiting_at(pupil.text())
    clock.now += PATIENCE
    assert pupil.answer(address) == {"state": "expired", "word": ""}
    assert "You can ask again." in pupil.text()
    assert parent.requests() == []
    assert pupil.ask().status_code == 303
    assert pupil.answer(address) == {"state": "waiting", "word": ""}


def test_a_flood_of_requests_is_bounded_and_told_once_each(
    pupil: Asker, parent: Overrides, sent_notices: list[Notice]
) -> None:
    tabs = [pupil.text("http://h0.example/") for _ in range(3)]
    for number in range(MOST_WAITING_OF_CLIENT):
        assert pupil.ask(f"http://h{number}.example/").status_code == 303
    for tab in tabs:
        assert pupil.ask("http://h0.example/", tab).status_code == 303
    response = pupil.ask("http://h8.example/")
    assert response.status_code == 403
    assert "You have asked too often." in (response.text or "")
    assert len(parent.requests()) == len(sent_notices) == MOST_WAITING_OF_CLIENT
    assert parent.requests()[-1].times == 4


def test_what_a_person_writes_is_text_everywhere(pupil: Asker, parent: Overrides, sent_notices: list[Notice]) -> None:
    pupil.ask(reason="<script>alert(1)</script>\r\nBcc: x@y\x1b[2J")
    (asked,) = parent.requests()
    assert asked.reason == "<script>alert(1)</script> Bcc: x@y [2J"
    assert "alert(1)" not in pupil.text()
    assert sent_notices[0].message.splitlines()[1] == f"Reason: {asked.reason}"
    assert asked.group == "default"
    assert sent_notices[0].group is None  # nobody answers for those who are in no group


@pytest.mark.parametrize("token", ["", r"seal=([^&\"]*)"])
def test_a_form_without_its_token_or_with_that_of_another_purpose_asks_nothing(
    pupil: Asker, parent: Overrides, token: str
) -> None:
    page = pupil.text()
    page = re.sub('"token" value="[^"]*"', f'"token" value="{token and group_of_match(token, page)}"', page)
    response = pupil.ask(page=page)
    assert (response.status_code, "This form is too old." in (response.text or "")) == (403, True)
    assert parent.requests(waiting=False) == []


def test_a_token_for_asking_opens_nothing(pupil: Asker) -> None:
    page = pupil.text("http://warned.example/")
    assert 'name="ask"' not in page
    games = pupil.text()
    token = group_of_match(r'"token" value="([^"]*)"', games)
    action = group_of_match(r'<form[^>]* action="([^"]*)"', games)
    pupil.go(pupil.flow(urljoin(URL, action), "POST", urlencode({"token": token}).encode()))
    assert pupil.get(URL) is not None


def test_nobody_can_ask_where_the_policy_does_not_say_so(
    context: taddons.context, pupil: Asker, policy: Path, parent: Overrides
) -> None:
    page = pupil.text()
    policy.write_text(policy.read_text().replace("{ask: on, codes: off}", "on"))
    pupil.hushlist.policy_watch.load(policy)
    context.configure(pupil.hushlist, hushlist_policy=str(policy))
    assert 'name="ask"' not in pupil.text()
    assert pupil.ask(page=page).status_code == 403
    assert parent.requests() == []


@pytest.mark.parametrize("change", ["other client", "other url", "no token", "other purpose", "post", "long"])
def test_only_the_page_that_waits_hears_of_its_answer(pupil: Asker, other: Asker, change: str) -> None:
    form = pupil.text()
    pupil.ask(page=form)
    address = waiting_at(pupil.text())
    token = group_of_match("token=([^&]*)", address)
    if change == "other client":
        assert other.answer(address) is None
    elif change == "other url":
        assert pupil.answer(address.replace("chess", "other")) is None
    elif change == "no token":
        assert pupil.answer(address.replace(token, "")) is None
    elif change == "other purpose":
        assert pupil.answer(address.replace(token, group_of_match(r'"token" value="([^"]*)"', form))) is None
    elif change == "post":
        flow = pupil.flow(address, "POST")
        pupil.go(flow)
        assert HIDDEN not in flow.metadata
    else:
        assert pupil.answer(f"{address}&{'x' * 300_000}") is None


def test_what_is_no_answer_is_decided_as_any_request(pupil: Asker) -> None:
    for host, is_blocked in (("games.example", True), ("fine.example", False)):
        flow = pupil.flow(f"http://{host}{ANSWER_PATH}?url={quote(URL)}&token=x")
        assert (pupil.go(flow) is not None) is is_blocked
        assert HIDDEN not in flow.metadata


def test_a_page_that_waits_is_neither_logged_nor_counted(pupil: Asker, hushlist: Hushlist) -> None:
    pupil.ask()
    address = waiting_at(pupil.text())
    hushlist.runtime.statistics.count()
    before = hushlist.runtime.statistics.total
    for _ in range(3):
        assert pupil.answer(address)
    hushlist.runtime.statistics.count()
    assert hushlist.runtime.statistics.total == before


def test_a_store_that_fails_keeps_the_site_blocked(
    pupil: Asker, hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StoreError(Path("state"), "disk full")

    monkeypatch.setattr(overrides_of(hushlist.runtime), "ask", fail)
    response = pupil.ask()
    assert response.status_code == 403
    assert "That did not work." in (response.text or "")
    monkeypatch.setattr(overrides_of(hushlist.runtime), "requests", fail)
    assert waiting(overrides_of(hushlist.runtime), Privacy()) == []


def test_an_address_that_is_too_long_cannot_be_asked_for(pupil: Asker, parent: Overrides) -> None:
    response = pupil.ask(f"http://games.example/{'x' * 9000}")
    assert response.status_code == 403
    assert "That did not work." in (response.text or "")
    assert parent.requests() == []


def test_too_many_forms_at_once_are_refused(pupil: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unblock_handler, "MOST_FORMS", 0)
    assert "That did not work." in (pupil.ask().text or "")


def test_others_see_what_the_log_may_say() -> None:
    asked = AccessRequest(
        7, "user:jo", PUPIL, "pupils", "games.example", "http://games.example/?q=secret", GAMES, "please", 1.0, 2.0
    )
    shown = notice_of(asked, Privacy(), "en")
    assert shown.title == "jo asks for games.example"
    assert shown.details["request"] == {
        "id": 7,
        "client": PUPIL,
        "user": "jo",
        "group": "pupils",
        "host": "games.example",
        "url": "http://games.example/?q=secret",
        "category": GAMES,
        "reason": "please",
        "asked": 1.0,
        "until": 2.0,
        "times": 1,
        "state": "waiting",
    }
    assert "hushlist override approve 7" in shown.message
    german = notice_of(asked, Privacy(), "de")
    assert german.title == "jo bittet um Freigabe von games.example"
    assert "\nGrund: please\n" in german.message
    forged = notice_of(replace(asked, client="user:jo\r\nBcc: x\n\ntext"), Privacy(), "en")
    assert forged.title == r"jo\r\nBcc: x\n\ntext asks for games.example"
    assert len(forged.message.splitlines()) == 4
    hidden = json.dumps(notice_of(asked, Privacy(LoggedQueries.DROP, LoggedClients.DROP), "en").as_dict())
    assert "somebody asks for games.example" in hidden
    assert not [word for word in ("jo ", '"jo"', PUPIL, "secret") if word in hidden]
    pseudonym = Privacy(LoggedQueries.KEEP, LoggedClients.PSEUDONYM, lambda kind, name: f"{kind}-{len(name)}")
    assert notice_of(asked, pseudonym, "en").title == "user-2 asks for games.example"


# -- one tap -----------------------------------------------------------------------------------------------------------


def taps_of(sent_notices: list[Notice], recipient: str) -> dict[str, str]:
    """The addresses behind the buttons of the newest notice, for one recipient."""
    assert sent_notices[-1].buttons is not None
    return {button.label: button.url for button in sent_notices[-1].buttons(recipient)}


def tap(person: Person, url: str, method: str = "POST", **headers: str) -> tuple[int, str]:
    response = own_answer(person.hushlist, person.flow(url, method, **headers))
    return response.status_code, response.text or ""


@pytest.fixture
def phone(policy: Path, context: taddons.context, hushlist: Hushlist) -> Person:
    """That of a parent, with a policy whose notices have buttons."""
    policy.write_text(f"own-address: http://filter.lan:8080/\n{policy.read_text()}")
    context.configure(hushlist, hushlist_policy="")
    context.configure(hushlist, hushlist_policy=str(policy), hushlist_mode="block")
    return Person(hushlist, "192.0.2.99")


def test_one_tap_lets_in_and_says_so_and_a_link_that_is_followed_does_not(
    phone: Person, pupil: Asker, parent: Overrides, sent_notices: list[Notice]
) -> None:
    pupil.ask()
    links = taps_of(sent_notices, "mail")
    assert list(links) == ["Allow: 30 min", "Allow: 2 h", "Decline"]
    allow = links["Allow: 30 min"]
    assert re.fullmatch(r"http://filter\.lan:8080/answer/[\w-]{43}", allow)
    for method in ("GET", "HEAD"):
        status, page = tap(phone, allow, method)
        assert (status, '<form method="post"><button' in page) == (200, method == "GET")
    assert parent.requests()
    assert pupil.get(URL) is not None
    status, page = tap(phone, allow)
    assert (status, "<button" in page) == (200, False)
    assert "Allow: 30 min: 192.0.2.7 asks for games.example" in page
    (grant,) = parent.active(parent._clock())
    assert (grant.target, grant.client, grant.by, grant.until - grant.made) == (
        *("games.example", PUPIL, "notice:mail"),
        1800.0,
    )
    assert parent.requests(waiting=False)[0].by == "notice:mail"


def test_a_second_tap_another_answer_and_an_old_link_do_nothing_and_the_history_says_so(
    phone: Person, pupil: Asker, parent: Overrides, sent_notices: list[Notice], clock: Clock
) -> None:
    pupil.ask()
    mail, other = taps_of(sent_notices, "mail"), taps_of(sent_notices, "phone")
    assert tap(phone, mail["Decline"])[0] == 200
    told_of = [
        tap(phone, mail["Decline"]),
        tap(phone, mail["Allow: 2 h"]),
        tap(phone, other["Allow: 2 h"], "GET"),
        tap(phone, f"http://filter.lan:8080/answer/{'x' * 43}"),
        tap(phone, mail["Decline"], "PUT"),
    ]
    assert [status for status, _ in told_of] == [410, 410, 410, 404, 405]
    assert "used before" in told_of[0][1]
    assert "answered before" in told_of[1][1]
    clock.now += PATIENCE + 1
    assert "too old" in tap(phone, other["Allow: 30 min"])[1]
    assert parent.active(clock.now) == []
    refused = [(event.how, event.by) for event in parent.history(9) if event.what == "refused"]
    assert refused[::-1] == [
        ("request 1: it was tapped before", "notice:mail"),
        ("request 1: somebody has answered before", "notice:mail"),
        ("request 1: it is too old", "notice:phone"),
    ]


def test_a_page_of_a_tap_tells_nobody_where_it_is_and_is_in_no_frame(
    phone: Person, pupil: Asker, sent_notices: list[Notice]
) -> None:
    pupil.ask("http://games.example/<b>", reason="<script>x</script>")
    url = taps_of(sent_notices, "mail")["Decline"]
    response = own_answer(phone.hushlist, phone.flow(url, accept_language="de"))
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert response.headers["Cache-Control"] == "no-store"
    assert "frame-ancestors 'self'" in response.headers["Content-Security-Policy"]
    assert "Ablehnen</button>" in (response.text or "")
    assert re.search("<script|<b>", response.text or "") is None


def test_other_hosts_keep_their_paths(phone: Person, sent_notices: list[Notice]) -> None:
    assert phone.get(f"http://site.example/answer/{'x' * 43}") is None
    assert phone.get("http://filter.lan:8080/answer/x") is None


def test_tokens_are_stored_as_hashes_and_bounded(
    parent: Overrides, pupil: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taps, "MOST_TAPS", 6)
    pupil.ask()
    made = [parent.taps_of(1, str(number)) for number in range(5)]
    octets = b"".join(path.read_bytes() for path in default_path().parent.glob("overrides.sqlite*"))
    assert not any(token.encode() in octets for own in made for token in own.values())
    assert [fault_of(parent, own["decline"]) for own in made] == [TapFault.UNKNOWN] * 3 + [None] * 2


def fault_of(parent: Overrides, token: str) -> TapFault | None:
    try:
        parent.tapped(token, acts=False)
    except TapError as error:
        return error.fault
    return None


_BY_USERS = "[{name: 7b, users: [bob]}, {name: 7a, users: [ann]}]"
_BY_ADDRESSES = "[{name: 7b, clients: [10.6.0.0/24]}, {name: 7a, clients: [10.7.0.0/24]}]"
_BY_BOTH = "[{name: 7b, users: [bob]}, {name: 7a, clients: [10.7.0.0/24]}]"


@each_row(
    ("groups", "client", "group", "expected"),
    [
        (_BY_USERS, "user:ann", "7a", True),
        (_BY_USERS, "user:ann", "7b", False),
        (_BY_USERS, "10.7.0.5", "default", False),
        (_BY_USERS, "user:ann", None, False),
        (_BY_ADDRESSES, "10.7.0.5", "7a", True),
        (_BY_BOTH, "10.7.0.5", "7a", False),  # bob may have the address, too
    ],
)
def test_a_request_is_told_to_a_group_where_a_grant_opens_nothing_for_others(
    tmp_path_factory: pytest.TempPathFactory, groups: str, client: str, group: str | None, expected: bool
) -> None:
    policy, errors = read_whole(tmp_path_factory.mktemp("groups"), f"groups: {groups}\nlayers: []\n")
    assert errors == []
    request = AccessRequest(0, client, "10.7.0.5", group, "a.example", "", None, "", asked=0.0, until=0.0)
    assert is_of_group_alone(policy, request) == expected


def test_a_page_that_waits_gets_no_answer_where_that_fails_or_it_asks_for_too_much(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object) -> bool:
        raise OSError("no store")

    tokens = cast(Any, SimpleNamespace(is_for=fail))
    with taddons.context() as context:
        for target, is_told in (("?url=a&token=b", True), (f"?{'x' * (1 << 20)}", False)):
            caplog.clear()
            flow = flow_of(f"http://h.example/{target}")
            assert asyncio.run(answer_waiting_page(Runtime(), None, tokens, flow)) is False
            assert flow.response is None
            assert ("a page that waits got no answer" in caplog.text) is is_told
        context.master.event_loop.close()
