"""Temporary unblocks from the block page, in mitmproxy's own test context."""

import asyncio
import contextlib
import html
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urljoin, urlsplit

import pytest
from mitmproxy import http
from mitmproxy.test import taddons

from hushlist.core.policy.proxy_settings import FailureCause, OnFailure
from hushlist.extensions.databases.kept_files import keep_copy
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.databases.store_upkeep import StoreUpkeep
from hushlist.extensions.journal.log_identifiers import parse_reference
from hushlist.extensions.unblock import credentials, default_path, unblock_forms, unblock_handler
from hushlist.extensions.unblock.overrides import UNBLOCKS, Overrides
from hushlist.extensions.unblock.unblock_forms import PATH
from hushlist.extensions.unblock.unblock_handler import UnblockHandler, overrides_of
from hushlist.proxy.addon import Hushlist
from hushlist.proxy.flow_outcome import KEY
from hushlist.proxy.service.health import warnings_of
from support.clock import Clock, addon_clock
from support.mitmproxied import mitmproxied
from support.parts import part_of
from unit.extensions.unblock.people import OTHER, PUPIL, Person

PASSPHRASE = "open sesame"
with pytest.MonkeyPatch.context() as patch:
    patch.setattr(credentials, "SCRYPT_N", 2)  # fast
    STORED = credentials.hash_passphrase(PASSPHRASE)
REFERENCE = parse_reference("0123456789") or ""
GAMES = "hrn://c.example/web/games"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = addon_clock(monkeypatch)
    clock.now = time.time()
    return clock


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    (tmp_path / "list.yaml").write_text(
        "rules:\n"
        f"- {{expression: games.example, category: '{GAMES}', reason: Games}}\n"
        f"- {{expression: more.example, category: '{GAMES}'}}\n"
        "- other.example\n"
        "- path.example/secret/\n"
        "- {expression: mixed.example, action: warn}\n"
        "- {expression: mixed.example/bad/, action: block}\n"
        "- bad.mixed.example\n"
    )
    path = tmp_path / "policy.yaml"
    path.write_text(
        f"unblock:\n  passphrase: {STORED}\n  scopes: [host, url, category]\n  minutes: [15, 60]\n"
        "layers:\n- {name: lists, lists: [list.yaml]}\n"
    )
    return path


@pytest.fixture
def context(hushlist: Hushlist, policy: Path, clock: Clock) -> Iterator[taddons.context]:
    with mitmproxied(hushlist, policy) as context:
        yield context


class Guest(Person):
    """A client that takes the forms of pages."""

    def page(self, url: str) -> "Page":
        response = self.get(url)
        assert response is not None
        return Page(self, url, response)

    def post(self, url: str, **form: str) -> http.Response | None:
        return self.go(self.flow(url, "POST", urlencode(form).encode()))

    def passes(self, url: str) -> bool:
        return self.get(url) is None


class Page:
    """A page of ours."""

    def __init__(self, person: Guest, url: str, response: http.Response) -> None:
        assert response.status_code == 403
        self.person, self.url, self.text = person, url, response.text or ""
        found = re.search(r'<form[^>]* action="([^"]*)"', self.text)
        self.action = None if found is None else html.unescape(found[1])
        token = re.search(r'name="token" value="([^"]*)"', self.text)
        self.token = "" if token is None else token[1]
        alert = re.search(r'role="alert"[^>]*>([^<]*)<', self.text)
        self.alert = "" if alert is None else html.unescape(alert[1])

    def flow(self, passphrase: str = PASSPHRASE) -> http.HTTPFlow:
        """Its form on its way."""
        assert self.action
        form = {"token": self.token, "passphrase": passphrase, "scope": "host", "minutes": "15"}
        return self.person.flow(urljoin(self.url, self.action), "POST", urlencode(form).encode())

    def send(self, **form: str) -> http.Response:
        assert self.action
        response = self.person.post(urljoin(self.url, self.action), **{"token": self.token, **form})
        assert response is not None
        return response

    def unlock(self, scope: str = "host", minutes: int = 15, words: str = PASSPHRASE) -> http.Response:
        return self.send(scope=scope, minutes=str(minutes), passphrase=words)


WRONG, LOCKED, EXPIRED = "not right", "Too many", "too old"


def alert_of(response: http.Response) -> str:
    return Page(None, "", response).alert  # type: ignore[arg-type]


@pytest.fixture
def pupil(context: taddons.context, hushlist: Hushlist) -> Guest:
    return Guest(hushlist)


@pytest.fixture
def other(context: taddons.context, hushlist: Hushlist) -> Guest:
    return Guest(hushlist, OTHER)


@pytest.fixture
def overrides(pupil: Guest, hushlist: Hushlist) -> Overrides:
    assert overrides_of(hushlist.runtime) is not None
    return overrides_of(hushlist.runtime)


# -- with a passphrase or a code -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "passing", "blocked"),
    [
        ("host", ["http://games.example/a?b", "https://www.games.example/"], ["http://more.example/"]),
        ("url", ["http://games.example/a?b"], ["http://games.example/a", "https://games.example/a?b"]),
        ("category", ["http://games.example/", "http://more.example/"], ["http://other.example/"]),
    ],
)
def test_the_passphrase_lets_this_client_alone_to_that_scope_alone_for_that_time(
    pupil: Guest, other: Guest, clock: Clock, scope: str, passing: list[str], blocked: list[str]
) -> None:
    answer = pupil.page("http://games.example/a?b").unlock(scope)
    assert (answer.status_code, answer.headers["location"]) == (303, "/a?b")
    assert (answer.headers["cache-control"], answer.headers["referrer-policy"]) == ("no-store", "no-referrer")
    assert all(map(pupil.passes, passing))
    assert not any(map(pupil.passes, blocked))
    assert not any(map(other.passes, passing))
    clock.now += 15 * 60 - 1
    assert all(map(pupil.passes, passing))
    clock.now += 2
    assert not any(map(pupil.passes, passing))


def test_a_grant_is_noted_and_recorded(pupil: Guest, overrides: Overrides) -> None:
    pupil.page("http://games.example/").unlock()
    flow = pupil.flow("http://games.example/")
    assert pupil.go(flow) is None
    assert "by passphrase (grant 1)" in flow.metadata[KEY]["grant"]
    (event,) = overrides.history(100)
    assert (event.what, event.client, event.target, event.how) == ("granted", PUPIL, "games.example", "passphrase")


def test_a_code_lets_a_client_go_on_once(pupil: Guest, other: Guest, overrides: Overrides) -> None:
    code = overrides.make_code("host", 600)
    assert pupil.page("http://games.example/").send(code=code.lower()).status_code == 303
    assert pupil.passes("http://games.example/")
    assert WRONG in alert_of(other.page("http://games.example/").send(code=code))
    assert not other.passes("http://games.example/")


def test_a_code_for_another_client_or_something_else_is_refused_and_stays_good(
    pupil: Guest, other: Guest, overrides: Overrides
) -> None:
    code = overrides.make_code("host", 600, "other.example", OTHER)
    assert WRONG in alert_of(pupil.page("http://other.example/").send(code=code))
    assert WRONG in alert_of(other.page("http://games.example/").send(code=code))
    assert other.page("http://other.example/").send(code=code).status_code == 303
    assert other.passes("http://other.example/")


def test_an_old_code_is_refused(pupil: Guest, overrides: Overrides, clock: Clock) -> None:
    code = overrides.make_code("host", 600, valid_for=60)
    clock.now += 61
    assert "no longer valid" in alert_of(pupil.page("http://games.example/").send(code=code))


def test_where_only_codes_are_taken_there_is_nothing_to_choose(
    hushlist: Hushlist, policy: Path, clock: Clock, overrides: Overrides
) -> None:
    policy.write_text(re.sub(r"^  passphrase: .*\n", "", policy.read_text(), flags=re.MULTILINE))
    with mitmproxied(hushlist, policy):
        page = Guest(hushlist).page("http://games.example/")
        assert re.findall(r'<input[^>]* name="(\w+)"', page.text) == ["token", "code"]
        assert page.send(code=overrides.make_code("host", 600)).status_code == 303


@pytest.mark.parametrize("destination", ["iframe", "Frame", "object"])
@pytest.mark.parametrize("url", ["https://games.example/", "https://mixed.example/"])
def test_a_frame_has_no_form(pupil: Guest, url: str, destination: str) -> None:
    answers = [pupil.get(url, Sec_Fetch_Dest=dest) for dest in ("document", destination)]
    assert [answer is not None and "<form" in (answer.text or "") for answer in answers] == [True, False]


CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
SAFARI = "Mozilla/5.0 (Macintosh) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15"
BY_CLICK = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-User": "?1", "Sec-Fetch-Dest": "document"}


@pytest.mark.parametrize(
    ("fields", "is_taken"),
    [
        (BY_CLICK, True),
        (BY_CLICK | {"Sec-Fetch-User": "?0"}, False),
        (BY_CLICK | {"Origin": "null"}, True),  # as browsers say of a page in a sandbox
        *((BY_CLICK | {"Origin": origin}, False) for origin in ("https://games.example", "", "null, null")),
        ({"Origin": "https://games.example"}, False),
        ({"Sec-Fetch-Mode": "navigate"}, False),
        ({"Sec-Fetch-Mode": "navigate", "User-Agent": CHROME}, False),
        ({"Sec-Fetch-Mode": "navigate", "User-Agent": SAFARI}, True),
        ({"Sec-Fetch-Mode": "cors", "User-Agent": SAFARI}, False),
        (BY_CLICK | {"Sec-Fetch-Mode": "cors"}, False),
        ({"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}, False),
    ],
)
@pytest.mark.parametrize("url", ["https://games.example/", "https://mixed.example/"])
def test_a_form_that_a_script_has_sent_is_refused(
    pupil: Guest, overrides: Overrides, url: str, fields: dict[str, str], is_taken: bool
) -> None:
    page = pupil.page(url)
    assert page.action
    form = urlencode({"token": page.token, "code": overrides.make_code("host", 600)}).encode()
    answer = pupil.go(pupil.flow(urljoin(url, page.action), "POST", form, **fields))
    assert answer is not None
    assert (answer.status_code == 303, pupil.passes(url)) == (is_taken, is_taken)


def test_a_form_is_no_request_that_is_counted(hushlist: Hushlist, pupil: Guest) -> None:
    page = pupil.page("http://games.example/")
    page.unlock(words="wrong")
    page.unlock()
    assert hushlist.runtime.statistics.total == 1
    pupil.post("http://games.example/.well-known/hushlist/unblock?url=http://games.example/&seal=forged")
    assert hushlist.runtime.statistics.total == 2


def test_no_form_is_in_the_log_and_its_page_keeps_the_number_of_the_first(
    hushlist: Hushlist, pupil: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Log:
        """A log that keeps what is written."""

        def __init__(self) -> None:
            self.written: list[Any] = []

        def reference(self, moment: float) -> str:
            return REFERENCE

        def write(self, record: Any) -> None:
            self.written.append(record)

    monkeypatch.setattr(hushlist.runtime.parts, "log", log := Log())
    page = pupil.page("http://games.example/")
    for _ in range(2):
        answer = page.unlock(words="wrong")
        assert answer.headers["X-Hushlist-Reference"] == REFERENCE
        page = Page(pupil, "http://games.example/", answer)
    assert page.unlock().status_code == 303
    assert [record.method for record in log.written] == ["GET"]


def test_the_user_of_the_proxy_is_the_client_wherever_they_are(hushlist: Hushlist, pupil: Guest) -> None:
    class User(Guest):
        def flow(self, *args: object, **more: object) -> http.HTTPFlow:
            flow = super().flow(*args, **more)  # type: ignore[arg-type]
            flow.metadata["proxyauth"] = ("jo", "secret")
            return flow

    assert User(hushlist).page("http://games.example/").unlock().status_code == 303
    assert User(hushlist, OTHER).passes("http://games.example/")
    assert not pupil.passes("http://games.example/")


@pytest.mark.parametrize(
    "form",
    [
        {"passphrase": "wrong"},
        {"passphrase": ""},
        {"passphrase": PASSPHRASE, "scope": "everything"},
        {"passphrase": PASSPHRASE, "scope": ""},
        {"passphrase": PASSPHRASE, "minutes": "16"},
        {"passphrase": PASSPHRASE, "minutes": "1e3"},
        {"passphrase": PASSPHRASE, "minutes": "-15"},
        {"passphrase": PASSPHRASE, "code": "0000-0000-0000"},
        {"passphrase": "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")},
        {"code": "x" * 10_000},
    ],
)
def test_a_form_that_is_not_right_is_refused_and_can_be_sent_again(pupil: Guest, form: dict[str, str]) -> None:
    answer = pupil.page("http://games.example/").send(**{"scope": "host", "minutes": "15", **form})
    assert WRONG in alert_of(answer)
    assert not pupil.passes("http://games.example/")
    again = Page(pupil, "http://games.example/", answer)
    assert again.unlock().status_code == 303


def test_guesses_lock_a_client_and_no_other_and_a_restart_changes_nothing(
    context: taddons.context, hushlist: Hushlist, pupil: Guest, other: Guest, clock: Clock, policy: Path
) -> None:
    for _ in range(5):
        assert WRONG in alert_of(pupil.page("http://games.example/").unlock(words="guess"))
    hushlist.done()
    context.configure(hushlist, hushlist_policy=str(policy))
    assert LOCKED in alert_of(pupil.page("http://games.example/").unlock())
    assert not pupil.passes("http://games.example/")
    assert other.page("http://games.example/").unlock().status_code == 303
    clock.now += 15 * 60 + 1
    assert pupil.page("http://games.example/").unlock().status_code == 303


# -- tokens ------------------------------------------------------------------------------------------------------------


def changed(token: str) -> str:
    return token[:-1] + ("A" if token[-1] != "A" else "B")


@pytest.mark.parametrize(
    "token",
    [
        lambda page, _: "",
        lambda page, _: "é" * 100,
        lambda page, _: "A" * 100,
        lambda page, _: changed(page.token),
        lambda page, other: other.page(page.url).token,
        lambda page, other: page.person.page("http://games.example/b").token,
        lambda page, other: page.person.page("http://mixed.example/").token,
    ],
    ids=["none", "not ASCII", "forged", "changed", "another client's", "another URL's", "a warning's"],
)
def test_a_form_without_its_own_token_is_refused(
    pupil: Guest, other: Guest, token: Callable[[Page, Guest], str]
) -> None:
    page = pupil.page("http://games.example/a")
    page.token = token(page, other)
    assert EXPIRED in alert_of(page.unlock())
    assert not pupil.passes("http://games.example/a")


# -- what no origin sees -----------------------------------------------------------------------------------------------


def test_a_form_of_a_page_within_a_host_that_passes_stays_with_us(pupil: Guest) -> None:
    page = pupil.page("http://path.example/secret/x")
    assert WRONG in alert_of(page.unlock(words="wrong"))
    page = pupil.page("http://path.example/secret/x")
    assert page.unlock().headers["location"] == "/secret/x"
    assert pupil.passes("http://path.example/secret/x")


@pytest.mark.parametrize("broken", ["judge", "record"])
def test_a_form_stays_with_us_where_the_filter_fails(
    pupil: Guest, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    page = pupil.page("http://path.example/secret/x")
    assert page.action
    pupil.hushlist.runtime.failure_policy.on_failure = OnFailure(frozenset(FailureCause))
    monkeypatch.setattr(pupil.hushlist.runtime, broken, lambda *_, **__: 1 / 0)
    response = pupil.go(pupil.flow(urljoin(page.url, page.action), "POST", b"passphrase=x"))
    assert response is not None
    assert response.status_code == 403


@pytest.mark.parametrize("scope", ["host", "url"])
def test_a_form_that_is_sent_twice_leads_on_and_stays_with_us(pupil: Guest, scope: str) -> None:
    page = pupil.page("http://games.example/a")
    assert [page.unlock(scope).headers["location"] for _ in range(2)] == ["/a", "/a"]


def test_a_form_for_what_is_blocked_no_more_leads_on_and_stays_with_us(
    pupil: Guest, policy: Path, context: taddons.context
) -> None:
    page = pupil.page("http://games.example/a")
    (policy.parent / "list.yaml").write_text("rules: []")
    context.configure(pupil.hushlist, hushlist_policy=str(policy))
    assert page.unlock().headers["location"] == "/a"


@pytest.mark.parametrize(
    "query", ["", "?url=http://path.example/", "?url=http://path.example/secret/&seal=" + "A" * 100]
)
def test_a_post_that_is_no_form_of_ours_goes_to_its_origin_untouched(pupil: Guest, query: str) -> None:
    flow = pupil.flow(f"http://path.example{PATH}{query}", "POST", b"token=x", Connection="close", Host="path.example")
    before = flow.request.get_state()
    assert pupil.go(flow) is None
    assert flow.request.get_state() == before


def turn_off_group(context: taddons.context, hushlist: Hushlist, policy: Path) -> None:
    policy.write_text(f"{policy.read_text()}mode: 'off'\n")
    hushlist.policy_watch.load(policy)


def turn_off(context: taddons.context, hushlist: Hushlist, policy: Path) -> None:
    context.configure(hushlist, hushlist_mode="off")


@pytest.mark.parametrize("turned_off", [turn_off_group, turn_off])
@pytest.mark.parametrize("query", [None, "url=%2F%2F&"])
def test_a_form_goes_to_no_origin_though_the_filter_is_off_by_now(
    context: taddons.context,
    hushlist: Hushlist,
    policy: Path,
    pupil: Guest,
    turned_off: Callable[[taddons.context, Hushlist, Path], None],
    query: str | None,
) -> None:
    page = pupil.page("http://games.example/a?b")
    turned_off(context, hushlist, policy)
    assert pupil.passes("http://games.example/a?b")
    assert page.action
    url = urljoin(page.url, page.action).replace("?", f"?{query or ''}")
    flow = pupil.flow(url, "POST", b"passphrase=open+sesame")
    answer = pupil.go(flow)
    assert answer is not None
    assert (answer.status_code, answer.headers["location"]) == (303, "/" if query else "/a?b")
    assert flow.request.raw_content == b""


@pytest.mark.parametrize("seal", ["", "A" * 100])
def test_where_no_key_is_known_what_may_be_a_form_goes_to_no_origin(
    hushlist: Hushlist, pupil: Guest, monkeypatch: pytest.MonkeyPatch, seal: str
) -> None:
    monkeypatch.setattr(Overrides, "known_tokens", lambda _: None)
    answer = pupil.post(f"http://path.example{PATH}?url=http://path.example/secret/&seal={seal}")
    assert (answer is None) is not bool(seal)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", PATH), ("HEAD", PATH), ("PUT", PATH), ("post", PATH), ("POST", PATH + "x"), ("POST", "/")],
)
def test_any_other_request_is_an_ordinary_one(pupil: Guest, method: str, path: str) -> None:
    page = pupil.page("http://games.example/")
    assert page.action
    body = urlencode({"token": page.token, "passphrase": PASSPHRASE, "scope": "host", "minutes": "15"}).encode()
    url = f"http://games.example{path}?{page.action.partition('?')[2]}"
    flow = pupil.flow(url, "GET", body)
    flow.request.data.method = method.encode()
    response = pupil.go(flow)
    assert response is not None
    assert response.status_code == 403
    assert not pupil.passes("http://games.example/")


@pytest.mark.parametrize("state", ["not live", "answered"])
def test_a_recorded_form_is_neither_taken_nor_changed(pupil: Guest, state: str) -> None:
    page = pupil.page("http://games.example/")
    flow = page.flow()
    flow.live, flow.response = state != "not live", http.Response.make(407)
    before = flow.response.get_state()
    assert pupil.go(flow) is flow.response
    assert flow.response.get_state() == before
    assert not pupil.passes("http://games.example/")


# -- the URL and the body are a client's to choose ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example/",
        "///evil.example/",
        "/\\evil.example/",
        "/\t/evil.example/",
        "/.//evil.example",
        "/a/..//evil.example/",
        "/%0d%0aSet-Cookie:%20a=b",
        "/a?b=%0d%0a%26c#d",
        "/é?\xff",
        "/" + "a" * 65_000,
        "?x",
    ],
)
def test_it_leads_back_to_where_one_came_from_and_nowhere_else(pupil: Guest, path: str) -> None:
    flow = pupil.flow("http://games.example/")
    flow.request.data.path = path.encode() if path[0] == "/" else b"/" + path.encode()
    page = Page(pupil, "http://games.example/", pupil.go(flow) or http.Response.make())
    answer = page.unlock()
    assert answer.status_code == 303
    location = answer.headers["location"]
    assert re.fullmatch(r"/(?![/\\])[!-~]*", location)
    assert "\\" not in location
    back = urlsplit(urljoin("http://games.example/", location))
    assert (back.scheme, back.netloc) == ("http", "games.example")


def test_it_leads_back_to_exactly_what_was_asked_for(pupil: Guest) -> None:
    answer = pupil.page("http://games.example:8080/%61/b?q=a%26b+%25").unlock()
    assert answer.headers["location"] == "/%61/b?q=a%26b+%25"


@pytest.mark.parametrize(
    "urls",
    [
        [],
        [""],
        ["http://other.example/"],
        ["https://other.example/"],
        ["//other.example/"],
        ["javascript:alert(1)"],
        ["mailto:me@games.example"],
        ["http://"],
        ["http://[::1"],
        ["http://games.example:99999/"],
        ["http://games.example@other.example/"],
        ["http://games.example\r\nX: y/"],
        ["\x00"],
        ["\ud800"],
        ["http://games.example%2f@other.example/"],
        ["http://" + "a." * 30_000 + "example/"],
        ["http://other.example/", "http://games.example/"],
    ],
)
def test_no_url_is_an_error_or_leads_elsewhere(
    pupil: Guest, overrides: Overrides, caplog: pytest.LogCaptureFixture, urls: list[str]
) -> None:
    page = pupil.page("http://games.example/")
    query = urlencode([("url", url.encode("utf-8", "surrogatepass")) for url in urls])
    page.action = f"{PATH}?{query}"
    response = page.unlock()
    assert response.status_code == 403
    assert "location" not in response.headers
    assert overrides.active(0) == []
    assert "Traceback" not in caplog.text
    assert "could not be taken" not in caplog.text


@pytest.mark.parametrize(
    "url", ["https://games.example/", "ftp://games.example/", "games.example", " http:games.example "]
)
def test_another_scheme_needs_another_token(pupil: Guest, url: str) -> None:
    page = pupil.page("http://games.example/x")
    page.action = f"{PATH}?url={quote(url)}"
    assert EXPIRED in alert_of(page.unlock())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"&&&;;==",
        b"token",
        b"\xff\xfe\x00",
        b'{"token": "x"}',
        b"--x\r\nContent-Disposition: form-data; name=token\r\n\r\nx\r\n--x--",
        b"token=%",
        b"token=" + b"A" * 16_000,
        b"a=1&" * 5_000,
        b"token=" + b"A" * 1_000_000,
    ],
)
def test_no_body_is_an_error(pupil: Guest, caplog: pytest.LogCaptureFixture, body: bytes) -> None:
    page = pupil.page("http://games.example/")
    assert page.action
    response = pupil.go(pupil.flow(urljoin(page.url, page.action), "POST", body))
    assert response is not None
    assert response.status_code == 403
    assert "could not be taken" not in caplog.text


def test_nothing_that_is_sent_becomes_markup(pupil: Guest) -> None:
    evil = "\"'><script>alert(1)</script>"
    page = pupil.page("http://games.example/")
    page.action = f"{PATH}?{urlencode({'url': 'http://games.example/?' + evil, evil: evil})}"
    answer = page.send(passphrase=evil, code=evil, scope=evil, minutes=evil, token=evil)
    assert "<script" not in (answer.text or "")
    assert evil not in str(answer.headers)


def test_a_url_that_no_grant_can_have_can_be_unblocked_by_its_host(pupil: Guest) -> None:
    page = pupil.page("http://games.example/" + "a" * 20_000)
    assert 'value="url"' not in page.text
    assert WRONG in alert_of(page.unlock("url"))
    assert pupil.page(page.url).unlock("host").status_code == 303


# -- warnings ----------------------------------------------------------------------------------------------------------


def test_a_click_on_a_warning_lets_this_client_go_on_for_an_hour(
    pupil: Guest, other: Guest, clock: Clock, overrides: Overrides
) -> None:
    answer = pupil.page("http://mixed.example/a").send()
    assert (answer.status_code, answer.headers["location"]) == (303, "/a")
    assert pupil.passes("http://mixed.example/b")
    assert not other.passes("http://mixed.example/a")
    (event,) = overrides.history(100)
    assert (event.what, event.client, event.target, event.how) == ("granted", PUPIL, "mixed.example", "warning")
    clock.now += 3601
    assert not pupil.passes("http://mixed.example/b")


@pytest.mark.parametrize("url", ["http://mixed.example/bad/", "http://bad.mixed.example/"])
def test_a_click_on_a_warning_opens_nothing_that_is_blocked(pupil: Guest, url: str) -> None:
    assert pupil.page("http://mixed.example/").send().status_code == 303
    assert pupil.passes("http://mixed.example/")
    assert not pupil.passes(url)


@pytest.mark.parametrize(
    "suffix", ["co.uk", "github.io", "b.kawasaki.jp", "com", "pages.dev", "vercel.app", "netlify.app"]
)
@pytest.mark.parametrize("action", ["warn", "block"])
def test_neither_a_click_nor_the_passphrase_at_a_public_suffix_opens_the_sites_below_it(
    hushlist: Hushlist, context: taddons.context, policy: Path, suffix: str, action: str
) -> None:
    policy.write_text(policy.read_text() + f"default: {action}\n")
    context.configure(hushlist, hushlist_policy=str(policy.rename(policy.with_name("default.yaml"))))
    pupil = Guest(hushlist)
    page = pupil.page(f"http://{suffix}/")
    assert (page.send() if action == "warn" else page.unlock()).status_code == 303
    assert pupil.passes(f"http://{suffix}/")
    assert not pupil.passes(f"http://games.{suffix}/")
    assert not pupil.passes(f"http://www.games.{suffix}/")


def test_a_click_without_a_token_opens_nothing(pupil: Guest) -> None:
    page = pupil.page("http://mixed.example/")
    page.token = ""
    assert EXPIRED in alert_of(page.send())
    assert not pupil.passes("http://mixed.example/")


@pytest.mark.parametrize("accept", ["image/png", "text/css", "application/json"])
def test_what_is_no_page_is_blocked_where_a_page_would_warn(pupil: Guest, accept: str) -> None:
    response = pupil.get("http://mixed.example/", accept=accept)
    assert response is not None
    assert response.status_code == 403
    assert b"token" not in (response.content or b"")


# -- failures ----------------------------------------------------------------------------------------------------------


def test_the_block_page_stays_where_the_handler_fails(pupil: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    page = pupil.page("http://games.example/")
    monkeypatch.setattr(unblock_forms, "verify_passphrase", None)
    assert page.unlock().status_code == 403
    assert not pupil.passes("http://games.example/")


def test_a_store_that_cannot_be_written_is_told_and_opens_nothing(
    pupil: Guest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise StoreError(Path("state"), "disk full")

    page = pupil.page("http://games.example/")
    monkeypatch.setattr("hushlist.extensions.databases.store.SqliteStore.writing", fail)
    answer = page.unlock()
    assert alert_of(answer)
    assert "disk full" not in (answer.text or "")
    assert "disk full" in caplog.text
    assert not pupil.passes("http://games.example/")


@pytest.mark.parametrize("damage", ["a folder", "a row", "a key", "locked folder"])
def test_a_store_that_cannot_be_opened_leaves_all_blocked_and_the_proxy_running(
    policy: Path, damage: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    path = default_path()
    path.parent.mkdir(parents=True)
    if damage == "a folder":
        path.mkdir()
    elif damage in ("a row", "a key"):
        with Overrides(path, time.time) as before:
            before.key()
            before.block("host", "blocked.example", None, by="root")
        with contextlib.closing(sqlite3.connect(path)) as file, file:
            file.execute("UPDATE admin_blocks SET until = 'x'" if damage == "a row" else "UPDATE keys SET value = 'x'")
    else:
        path.parent.rmdir()
        path.parent.write_text("a file where the folder should be")
    hushlist = Hushlist()
    with mitmproxied(hushlist, policy):
        page = Guest(hushlist).page("http://games.example/")
        assert page.action is None
        assert Guest(hushlist).passes("http://fine.example/")
        assert "nothing can be unblocked" in hushlist.runtime.status()
        assert "nothing can be unblocked for a while, and no administrator's block holds: " in caplog.text
        # an error would end mitmdump at its start
        assert not [record for record in caplog.records if record.levelname == "ERROR"]
        response = Guest(hushlist).post(f"http://games.example{PATH}?url=http://games.example/", passphrase=PASSPHRASE)
        assert response is not None
        assert response.status_code == 403


def test_a_damaged_store_is_set_aside_and_the_blocks_of_its_copy_hold(
    policy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = default_path()
    with Overrides(path, time.time) as before:
        before.block("host", "fine.example", None, by="root")
        before.grant("host", "games.example", 600, how="admin", by="root")
        assert keep_copy(path, UNBLOCKS)
    path.write_bytes(b"no database" * 1000)
    hushlist = Hushlist()
    with mitmproxied(hushlist, policy):
        assert not Guest(hushlist).passes("http://fine.example/")
        assert not Guest(hushlist).passes("http://games.example/")
        assert "a damaged file was set aside: " in hushlist.runtime.status()
        assert [told for told in warnings_of(hushlist.runtime) if "damaged" in told]
        assert "hold, but no grant and no code" in caplog.text
        assert not [record for record in caplog.records if record.levelname == "ERROR"]
        stores = part_of(hushlist.runtime, StoreUpkeep)
        for aside in stores.set_aside:
            aside.unlink()
        stores.keep_up(None)
        assert "set aside" not in hushlist.runtime.status()


def test_a_store_that_breaks_later_is_in_the_status(pupil: Guest, hushlist: Hushlist, clock: Clock) -> None:
    assert "unblocked" not in hushlist.runtime.status()
    path = default_path()
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    path.write_bytes(b"no database" * 1000)
    clock.now += 1
    assert not pupil.passes("http://games.example/")
    assert "nothing can be unblocked" in hushlist.runtime.status()


def test_other_requests_go_on_while_a_passphrase_is_looked_at(
    pupil: Guest, hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, end = threading.Event(), threading.Event()

    def slow(text: str, stored: str) -> bool:
        begun.set()
        return end.wait(20)

    monkeypatch.setattr(unblock_forms, "verify_passphrase", slow)
    page = pupil.page("http://games.example/")
    flow = page.flow()

    async def both() -> None:
        hushlist.requestheaders(flow)
        form = hushlist.request(flow)
        assert form is not None
        taking = asyncio.create_task(form)
        while not begun.is_set():
            await asyncio.sleep(0.001)
        blocked, passing = pupil.flow("http://games.example/"), pupil.flow("http://fine.example/")
        for one in (blocked, passing):
            hushlist.requestheaders(one)
        assert blocked.response is not None
        assert passing.response is None
        assert not taking.done()
        end.set()
        await taking

    asyncio.run(both())
    assert flow.response is not None
    assert flow.response.status_code == 303


@pytest.mark.parametrize(("address", "checked"), [("192.0.2.{}", 6), ("192.0.2.7", 4)])
def test_passphrases_are_looked_at_one_at_a_time_and_not_too_many_wait_in_all_or_of_one_client(
    hushlist: Hushlist, context: taddons.context, monkeypatch: pytest.MonkeyPatch, address: str, checked: int
) -> None:
    end, counting = threading.Event(), threading.Lock()
    at_once = most = looked_at = 0

    def slow(text: str, stored: str) -> bool:
        nonlocal at_once, most, looked_at
        with counting:
            at_once, looked_at = at_once + 1, looked_at + 1
            most = max(most, at_once)
        end.wait(20)
        with counting:
            at_once -= 1
        return False

    monkeypatch.setattr(unblock_forms, "verify_passphrase", slow)
    monkeypatch.setattr(unblock_handler, "MOST_FORMS", 6)
    pages = [Guest(hushlist, address.format(number)).page("http://games.example/") for number in range(1, 11)]

    async def all_of_them() -> list[str]:
        flows, takings = [], []
        for page in pages:
            flow = page.flow("x")
            hushlist.requestheaders(flow)
            taking = hushlist.request(flow)
            assert taking is not None
            flows.append(flow)
            takings.append(asyncio.ensure_future(taking))
        await asyncio.wait(takings, timeout=20, return_when=asyncio.FIRST_COMPLETED)
        end.set()
        await asyncio.gather(*takings)
        return [alert_of(flow.response) for flow in flows if flow.response is not None]

    alerts = asyncio.run(all_of_them())
    assert [WRONG in alert for alert in alerts] == [True] * checked + [False] * (10 - checked)
    assert all("did not work" in alert for alert in alerts[checked:])
    assert (most, looked_at) == (1, checked)


@pytest.mark.parametrize("more", [0, 1 << 14])
def test_what_a_person_typed_is_in_no_flow_that_is_saved(pupil: Guest, more: int) -> None:
    page = pupil.page("http://games.example/")
    flow = page.flow("x" * more + "secret")
    pupil.go(flow)
    assert b"secret" not in str(flow.get_state()).encode()


@pytest.mark.parametrize("state", ["no policy", "off", "no store"])
def test_a_form_is_left_alone_where_nothing_can_be_decided_any_more(
    pupil: Guest, hushlist: Hushlist, overrides: Overrides, caplog: pytest.LogCaptureFixture, state: str
) -> None:
    page = pupil.page("http://games.example/")
    flow = page.flow()
    hushlist.requestheaders(flow)
    before = flow.response
    assert before is not None
    if state == "no policy":
        hushlist.runtime.engine = None
    elif state == "no store":
        part_of(hushlist.runtime, UnblockHandler).overrides = None
    else:
        hushlist.runtime.mode = "off"
    taking = hushlist.request(flow)
    if taking is not None:
        asyncio.run(taking)
    assert flow.response is before
    assert overrides.active(0) == []
    assert "could not be taken" not in caplog.text


def test_without_a_policy_the_page_says_that_the_filter_failed(pupil: Guest, hushlist: Hushlist) -> None:
    hushlist.runtime.engine = None
    response = pupil.get("http://games.example/", accept="application/json")
    assert response is not None
    assert response.json()["kind"] == "failed"
