"""What administrators do by the live page and its interface: who may, how it is asked, and what comes of it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from time import time
from typing import Any
from urllib.parse import quote

import pytest
from jsonschema import Draft202012Validator
from mitmproxy import exceptions, http
from mitmproxy.test import taddons, tflow

from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.routes import Account, Action, Role
from hushlist.extensions.dashboard import admin_api, admin_store, dashboard_server
from hushlist.extensions.dashboard.admin_api import ACTIONS
from hushlist.extensions.dashboard.admin_store import AdminStore, default_path
from hushlist.extensions.dashboard.api_description import BASE, openapi
from hushlist.extensions.dashboard.dashboard_server import HOST
from hushlist.extensions.journal import preview
from hushlist.extensions.subscriptions.list_store import ListStore
from hushlist.extensions.unblock import actions, credentials
from hushlist.extensions.unblock.access_requests import AccessRequest
from hushlist.extensions.unblock.credentials import CodeError
from hushlist.extensions.unblock.grants import WARNING
from hushlist.extensions.unblock.wrong_tries import LockedError
from hushlist.proxy.addon import Hushlist
from support.clock import Clock
from unit.extensions.subscriptions.test_logged_visits import record, write_log
from unit.rows import each_row

PEOPLE = {"vera": "view", "anna": "approve", "max": "manage"}
PASSPHRASE = "correct horse"
LIST = "https://lists.example/a.domains"
#: pages that are open at once
OPEN = 250
#: whatever stands in it must stay text
MARKUP = "<img src=x onerror=alert(1)>"

DOCUMENT = openapi(ACTIONS, f"http://{HOST}")


def validator(operation: dict[str, Any], status: int) -> Draft202012Validator:
    """Of what an operation answers with a status."""
    schema = operation["responses"][str(status)]["content"]["application/json"]["schema"]
    return Draft202012Validator({**schema, "components": DOCUMENT["components"]})


pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture
def use(
    context: taddons.context, hushlist: Hushlist, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Path]:
    """Put a policy in force, whose own rules are in a file; returns that."""
    monkeypatch.setattr(credentials, "SCRYPT_N", 2)
    stored = credentials.hash_passphrase(PASSPHRASE)

    def use(more: str = "", people: dict[str, str] | None = None, lists: str = "ads.yaml") -> Path:
        named = PEOPLE if people is None else people
        lines = [f"- {{name: {name}, passphrase: '{stored}', role: {role}}}" for name, role in named.items()]
        admin = "\n".join(["admin:", *lines]) if lines else ""
        (tmp_path / "ads.yaml").write_text("rules: [{expression: blocked.example, category: 'hrn://c.example/ads'}]\n")
        own = tmp_path / "own.yaml"
        if not own.exists():
            own.write_text("# mine\nrules:\n  - mine.example  # keep\n\n# the end\n")
        layers = "- {name: overrides, lists: [own.yaml]}\n"
        layers += f"- {{name: lists, lists: [{lists}]}}\n"
        live = "live: {clients: [0.0.0.0/0, '::/0']}"
        (tmp_path / "policy.yaml").write_text(f"{live}\n{admin}\n{more}\nlayers:\n{layers}")
        if context.options.hushlist_policy:  # it is read again
            context.configure(hushlist, hushlist_policy="")
        context.configure(hushlist, hushlist_policy=str(tmp_path / "policy.yaml"), hushlist_mode="block")
        return own

    return use


def reload(hushlist: Hushlist, context: taddons.context, tmp_path: Path) -> None:
    context.configure(hushlist, hushlist_policy="")
    context.configure(hushlist, hushlist_policy=str(tmp_path / "policy.yaml"))


class Browser:
    """A client of the page, which keeps cookies as browsers do."""

    def __init__(self, hushlist: Hushlist, address: str = "127.0.0.1", scheme: str = "http") -> None:
        self.hushlist, self.address, self.scheme = hushlist, address, scheme
        self.cookies: dict[str, str] = {}
        self.token = ""

    def send(self, method: str, path: str, body: object = None, **headers: str) -> http.Response:
        """What is answered; a header with an empty value is left out."""
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        flow = tflow.tflow(req=http.Request.make(method, f"{self.scheme}://{HOST}{path}", content))
        own = {"X-Hushlist": "live", "X-Hushlist-Token": self.token}
        if method == "POST":
            own["Content-Type"] = "application/json"
        if self.cookies:
            own["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        own |= {name.replace("_", "-"): value for name, value in headers.items()}
        flow.request.headers.update({name: value for name, value in own.items() if value})
        flow.client_conn.peername = (self.address, 50000)
        flow.client_conn.sni = HOST if self.scheme == "https" else None

        async def whole() -> None:
            awaited = self.hushlist.requestheaders(flow)
            assert awaited is not None
            with pytest.raises(exceptions.AddonHalt):
                await awaited
            assert flow.response is not None  # nothing goes on to an origin while the body arrives
            with pytest.raises(exceptions.AddonHalt):
                await self._request(flow)

        asyncio.run(whole())
        assert flow.response is not None
        assert flow.response.headers["content-security-policy"] if path.startswith(BASE) else True
        for line in flow.response.headers.get_all("set-cookie"):
            name, _, value = line.partition(";")[0].partition("=")
            self.cookies[name] = value
        return flow.response

    async def _request(self, flow: http.HTTPFlow) -> None:
        later = self.hushlist.request(flow)
        if later is not None:
            await later

    def call(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, dict[str, Any]]:
        """What is answered, which has to be as it is described."""
        response = self.send(method, BASE + path, body, **headers)
        plain = json.loads(response.content or b"{}")
        for action in ACTIONS:
            if action.method == method and action.match(path.partition("?")[0]) is not None:
                described = validator(DOCUMENT["paths"][action.path][method.lower()], response.status_code)
                assert [error.message for error in described.iter_errors(plain)] == []
        return response.status_code, plain

    def recorded(self) -> list[str]:
        """What was done, the newest first."""
        return [one["what"] for one in self.call("GET", "/record")[1]["record"]]

    def sign_in(self, name: str, passphrase: str = PASSPHRASE) -> int:
        status, plain = self.call("POST", "/session", {"name": name, "passphrase": passphrase})
        self.token = plain.get("token") or ""
        return status


@pytest.fixture
def browser(hushlist: Hushlist) -> Browser:
    return Browser(hushlist)


@pytest.fixture
def manager(browser: Browser, use: Callable[..., Path]) -> Browser:
    use()
    assert browser.sign_in("max") == 200
    return browser


# -- who is signed in --------------------------------------------------------------------------------------------------


def test_without_admin_the_page_is_as_it_was(browser: Browser, use: Callable[..., Path]) -> None:
    use(people={})
    assert browser.send("GET", "/data").status_code == 200
    assert browser.call("GET", "/session")[1] == {
        "needed": False,
        "possible": False,
        "name": None,
        "role": None,
        "token": None,
    }
    assert browser.sign_in("max") == 403
    assert browser.call("GET", "/grants")[0] == 403


@pytest.mark.parametrize(("scheme", "address"), [("http", "127.0.0.1"), ("https", "192.168.1.7"), ("https", "::1")])
def test_with_admin_people_see_the_page_when_they_are_signed_in(
    hushlist: Hushlist, use: Callable[..., Path], scheme: str, address: str
) -> None:
    use()
    browser = Browser(hushlist, address, scheme)
    assert browser.send("GET", "/").status_code == 200
    seen = ("/data", "/explain?url=a.example", "/history", "/history.csv?of=week")
    assert {browser.send("GET", path).status_code for path in seen} == {401}
    assert browser.sign_in("vera", "wrong") == 401
    assert browser.cookies == {}
    assert browser.sign_in("vera") == 200
    # there is no log
    assert [browser.send("GET", path).status_code for path in seen] == [200, 200, 404, 404]
    assert browser.call("GET", "/session")[1]["name"] == "vera"
    assert browser.call("DELETE", "/session")[0] == 200
    assert browser.send("GET", "/data").status_code == 401


def test_nobody_signs_in_over_a_network_in_the_clear(hushlist: Hushlist, use: Callable[..., Path]) -> None:
    use()
    browser = Browser(hushlist, "192.168.1.7")
    assert browser.sign_in("max") == 403
    assert browser.call("GET", "/session")[1]["possible"] is False
    near = Browser(hushlist)
    assert near.sign_in("max") == 200
    browser.cookies = near.cookies  # somebody has read it
    assert browser.send("GET", "/data").status_code == 403
    over = Browser(hushlist, "192.168.1.7", "https")
    over.cookies = {"__Host-hushlist": near.cookies["hushlist"]}
    assert over.send("GET", "/data").status_code == 401


@pytest.mark.parametrize(("scheme", "name"), [("http", "hushlist"), ("https", "__Host-hushlist")])
def test_the_cookie_is_kept_from_scripts_and_from_other_sites(
    hushlist: Hushlist, use: Callable[..., Path], scheme: str, name: str
) -> None:
    use()
    browser = Browser(hushlist, scheme=scheme)
    response = browser.send("POST", f"{BASE}/session", {"name": "max", "passphrase": PASSPHRASE})
    lines = response.headers.get_all("set-cookie")
    assert [line.partition("=")[0] for line in lines] == [name, f"{name}-device"]
    for line in lines:
        cookie, *parts = line.split("; ")
        assert {"Path=/", "HttpOnly", "SameSite=Strict"} <= set(parts)
        assert ("Secure" in parts) is (scheme == "https")
        assert not [part for part in parts if part.startswith("Domain")]
        assert cookie.partition("=")[2] not in response.text  # type: ignore[operator]


def test_a_session_that_somebody_else_has_begun_is_none_of_whoever_signs_in(
    hushlist: Hushlist, use: Callable[..., Path]
) -> None:
    use()
    mine, theirs = Browser(hushlist), Browser(hushlist)
    assert mine.sign_in("vera") == 200
    given = theirs.cookies["hushlist"] = mine.cookies["hushlist"]
    assert theirs.sign_in("max") == 200
    assert theirs.cookies["hushlist"] != given
    assert mine.send("GET", "/data").status_code == 401
    theirs.cookies["hushlist"] = "chosen"
    assert theirs.send("GET", "/data").status_code == 401
    assert theirs.send("GET", "/data", Cookie="hushlist=a; hushlist=b").status_code == 401


def test_a_session_that_ended_is_not_taken_again(manager: Browser, hushlist: Hushlist) -> None:
    old, token = dict(manager.cookies), manager.token
    assert manager.call("DELETE", "/session")[0] == 200
    again = Browser(hushlist)
    again.cookies, again.token = old, token
    assert again.call("GET", "/grants")[0] == 401


@pytest.mark.parametrize("change", ["nobody", "passphrase", "role", "another"])
def test_a_session_goes_by_the_policy_that_is_in_force(
    hushlist: Hushlist, use: Callable[..., Path], change: str
) -> None:
    use()
    browser = Browser(hushlist)
    assert browser.sign_in("max") == 200
    if change == "passphrase":
        text = hushlist.runtime.engine.policy.source  # type: ignore[union-attr]
        policy = Path(text).read_text()
        Path(text).write_text(policy.replace("role: manage", "role: manage").replace("$n=2", "$n=4", 3))
        hushlist.policy_watch.load(Path(text))
    else:
        use(people={"nobody": {}, "role": {"max": "view"}, "another": {"anna": "manage"}}[change])
    status = browser.call("GET", "/sessions")[0]
    assert status == {"nobody": 403, "passphrase": 401, "role": 403, "another": 401}[change]


def test_sessions_are_listed_and_ended_by_others(manager: Browser, hushlist: Hushlist) -> None:
    other = Browser(hushlist, "192.168.1.9", "https")
    assert other.sign_in("anna") == 200
    found = manager.call("GET", "/sessions")[1]["sessions"]
    assert [(one["name"], one["client"]) for one in found] == [("anna", "192.168.1.9"), ("max", "127.0.0.1")]
    assert manager.call("DELETE", f"/sessions/{found[0]['id']}")[0] == 200
    assert manager.call("DELETE", f"/sessions/{found[0]['id']}")[0] == 404
    assert other.call("GET", "/grants")[0] == 401
    assert manager.recorded() == ["ended a session", "signed in", "signed in"]


def test_a_session_ends_at_its_time(tmp_path: Path, hushlist: Hushlist, use: Callable[..., Path]) -> None:
    use()
    assert hushlist.runtime.engine is not None
    (person, *_), clock = hushlist.runtime.engine.policy.admin, Clock()
    with AdminStore(tmp_path / "own" / "admin.sqlite", clock) as store:
        token = store.sign_in(person, "127.0.0.1", is_secure=True)
        people = [person]
        assert store.account(token, people, "", is_secure=True) is not None
        assert store.account(token, people, "", is_secure=False) is None
        clock.now += 12 * 3600
        assert store.account(token, people, "", is_secure=True) is None
        assert token.encode() not in b"".join(path.read_bytes() for path in (tmp_path / "own").iterdir())


def test_wrong_tries_are_limited_and_others_can_still_sign_in(hushlist: Hushlist, use: Callable[..., Path]) -> None:
    use()
    guessing, other = Browser(hushlist, "192.168.1.7", "https"), Browser(hushlist)
    assert [guessing.sign_in("max", "guess") for _ in range(6)] == [401] * 5 + [429]
    response = guessing.send("POST", f"{BASE}/session", {"name": "max", "passphrase": PASSPHRASE})
    assert response.status_code == 429
    assert int(response.headers["retry-after"]) > 0
    assert other.sign_in("max") == 200


def guess_from_many_addresses(hushlist: Hushlist, name: str) -> None:
    """As somebody does who has a network of them, until nobody's guess is taken any longer."""
    statuses = [Browser(hushlist, f"10.7.0.{number}", "https").sign_in(name, "guess") for number in range(1, 30)]
    assert statuses == [401] * 20 + [429] * 9


def test_guesses_from_many_addresses_end_and_lock_the_owner_out_of_nothing_that_is_known(
    hushlist: Hushlist, use: Callable[..., Path]
) -> None:
    use()
    home, moved = Browser(hushlist, "192.168.1.5", "https"), Browser(hushlist, "192.168.1.6", "https")
    assert home.sign_in("max") == moved.sign_in("max") == 200
    guess_from_many_addresses(hushlist, "max")
    assert Browser(hushlist, "10.8.0.1", "https").sign_in("max") == 429
    assert home.sign_in("max") == 200
    moved.address = "10.9.0.9"
    assert moved.sign_in("max") == 200  # the browser is known
    assert Browser(hushlist, "192.168.1.5", "https").sign_in("max") == 200  # the address is
    assert Browser(hushlist).sign_in("max") == 200  # it is the machine itself
    assert Browser(hushlist, "10.8.0.1", "https").sign_in("anna") == 200  # nobody has guessed at that name
    assert hushlist.runtime.overrides is not None
    assert hushlist.runtime.overrides.attempt("10.0.0.7", "passphrase", lambda: True, {})  # block pages go on


def test_neither_a_known_browser_nor_a_known_address_can_guess_at_will(
    hushlist: Hushlist, use: Callable[..., Path]
) -> None:
    use()
    known = Browser(hushlist, "192.168.1.5", "https")
    assert known.sign_in("max") == 200
    assert [known.sign_in("max", "guess") for _ in range(6)] == [401] * 5 + [429]
    other = Browser(hushlist, "192.168.1.5", "https")
    assert [other.sign_in("max", "guess") for _ in range(6)] == [401] * 5 + [429]
    assert known.sign_in("max") == 429
    assert [Browser(hushlist).sign_in("max", "guess") for _ in range(6)] == [401] * 5 + [429]


def test_the_machine_itself_has_no_more_tries_for_all_its_addresses(
    hushlist: Hushlist, use: Callable[..., Path]
) -> None:
    use()
    addresses = ("127.0.0.1", "127.0.0.2", "127.9.9.9", "::1", "::ffff:127.0.0.3", "127.0.0.4", "127.0.0.5")
    assert [Browser(hushlist, own).sign_in("max", "guess") for own in addresses] == [401] * 5 + [429] * 2


def test_a_browser_is_known_for_its_own_person_alone_and_its_token_is_not_chosen(
    hushlist: Hushlist, use: Callable[..., Path]
) -> None:
    use()
    pupil = Browser(hushlist, "192.168.1.5", "https")
    pupil.cookies["__Host-hushlist-device"] = "chosen"
    assert pupil.sign_in("vera") == 200
    assert pupil.cookies["__Host-hushlist-device"] != "chosen"
    guess_from_many_addresses(hushlist, "max")
    assert pupil.sign_in("max") == 429
    assert pupil.sign_in("vera") == 200


@pytest.mark.parametrize("key", ["name", "passphrase"])
def test_half_a_character_is_no_text(browser: Browser, use: Callable[..., Path], key: str) -> None:
    use()
    body = b'{"name": "max", "passphrase": "x"}'.replace(b'"x"' if key == "passphrase" else b'"max"', b'"\\ud800"')
    assert browser.call("POST", "/session", body) == (400, {"error": "the body is no JSON"})


def test_names_that_nobody_has_are_locked_like_the_others(
    hushlist: Hushlist, use: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    use()
    monkeypatch.setattr(admin_api, "verify_passphrase", lambda *_: False)  # which takes a moment for each
    guess_from_many_addresses(hushlist, "eve")
    guess_from_many_addresses(hushlist, MARKUP)


def test_wrong_tries_at_block_pages_lock_nobody_s_sign_in(hushlist: Hushlist, use: Callable[..., Path]) -> None:
    use()
    overrides = hushlist.runtime.overrides
    assert overrides is not None
    for number in range(100):
        overrides.attempt(f"10.7.0.{number}", "passphrase", lambda: False, {})
    with pytest.raises(LockedError):
        overrides.attempt("10.8.0.1", "passphrase", lambda: True, {})
    assert Browser(hushlist, "10.8.0.1", "https").sign_in("max") == 200


def test_a_name_that_nobody_has_takes_as_many_steps_as_a_wrong_passphrase(
    browser: Browser, use: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    use()
    tried: list[str] = []
    monkeypatch.setattr(admin_api, "verify_passphrase", lambda text, _: tried.append(text))
    answers = {name: browser.call("POST", "/session", {"name": name, "passphrase": name}) for name in ("max", "eve")}
    assert tried == ["max", "eve"]
    assert answers["max"] == answers["eve"]


def test_of_many_who_sign_in_at_once_some_are_told_to_wait(
    hushlist: Hushlist, use: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    use()
    monkeypatch.setattr(admin_api, "MOST_SIGN_INS", 0)
    assert Browser(hushlist).sign_in("max") == 503


def test_where_the_file_cannot_be_used_nobody_is_signed_in(
    browser: Browser, use: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    use()
    assert browser.sign_in("max") == 200
    for path in default_path().parent.glob("admin.sqlite*"):
        path.unlink()
    default_path().write_bytes(b"no database at all, but quite long enough to be taken for one" * 100)
    assert browser.call("GET", "/grants")[0] == browser.send("GET", "/data").status_code == 503
    assert browser.sign_in("max") == 503
    assert "admin.sqlite: file is not a database" in caplog.text
    default_path().unlink()
    assert browser.send("GET", "/data").status_code == 401
    assert browser.sign_in("max") == 200


# -- other sites, and other roles --------------------------------------------------------------------------------------

GRANT = {"scope": "host", "target": "blocked.example", "minutes": 5, "client": "everybody"}


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"https://{HOST}"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Host": "evil.example"},
        {"X_Hushlist": ""},
        {"X_Hushlist_Token": ""},
        {"X_Hushlist_Token": "0" * 64},
        {"Content_Type": "text/plain"},
        {"Content_Type": "application/x-www-form-urlencoded"},
        {"Content_Type": ""},
    ],
)
def test_no_other_site_s_page_does_anything(manager: Browser, headers: dict[str, str]) -> None:
    response = manager.send("POST", f"{BASE}/grants", GRANT, **headers)
    assert response.status_code == (415 if "Content_Type" in headers else 403)
    assert manager.call("GET", "/grants")[1] == {"grants": []}
    assert manager.call("POST", "/grants", GRANT)[0] == 200


def test_the_token_of_another_session_does_not_do(manager: Browser, hushlist: Hushlist) -> None:
    other = Browser(hushlist)
    assert other.sign_in("max") == 200
    assert manager.call("POST", "/grants", GRANT, X_Hushlist_Token=other.token)[0] == 403


#: a body that each call takes
BODIES: dict[str, dict[str, object]] = {
    "sign_in": {"name": "max", "passphrase": PASSPHRASE},
    "grant": GRANT,
    "block": {"scope": "host", "target": "a.example", "minutes": 5, "client": "10.0.0.7", "reason": MARKUP},
    "extend": {"category": "hrn://c.example/ads", "minutes": 5},
    "pause": {"group": "default", "minutes": 5},
    "approve": {"minutes": 5},
    "make_code": {"scope": "host", "minutes": 5},
    "add_rule": {"action": "block", "scope": "host", "target": "a.example"},
    "update_list": {"url": "https://lists.example/a"},
    "accept_list": {"url": "https://lists.example/a", "digest": "0" * 64},
    "roll_back_list": {"url": "https://lists.example/a"},
}
QUERIES = {"preview": "?scope=host&target=a.example", "held_back": "?url=https://lists.example/a"}


def path_of(call: Action) -> str:
    path = call.path.replace("{number}", "1").replace("{identity}", "0" * 64)
    return path + QUERIES.get(call.name, "")


@pytest.mark.slow
@each_row("call", [call for call in ACTIONS if call.role])
def test_each_role_may_do_what_is_for_it_and_no_more(
    hushlist: Hushlist, use: Callable[..., Path], call: Action
) -> None:
    own = use()
    before = own.read_bytes()
    assert call.role is not None
    for name, role in PEOPLE.items():
        browser = Browser(hushlist)
        assert browser.sign_in(name) == 200
        is_allowed = Role(role).may(call.role)
        status, plain = browser.call(call.method, path_of(call), BODIES.get(call.name))
        assert (status in (200, 400, 404)) is is_allowed, (name, plain)
        if not is_allowed:
            assert status == 403
            assert own.read_bytes() == before
    status, _ = Browser(hushlist).call(call.method, path_of(call), BODIES.get(call.name))
    assert status == 401


def test_who_may_not_do_something_may_not_undo_it_either(manager: Browser, hushlist: Hushlist) -> None:
    done = manager.call("POST", "/rules", {"action": "block", "scope": "host", "target": "a.example"})[1]
    other = Browser(hushlist)
    assert other.sign_in("anna") == 200
    assert other.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 403
    assert manager.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 200


def test_undoing_the_end_of_a_click_on_a_warning_opens_no_more_than_that(manager: Browser, hushlist: Hushlist) -> None:
    overrides = hushlist.runtime.overrides
    assert overrides is not None
    grant = overrides.grant("host", "blocked.example", 3600, client="10.0.0.7", how=WARNING, by="10.0.0.7")
    done = manager.call("DELETE", f"/grants/{grant.id}")[1]
    assert manager.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 200
    assert [one["how"] for one in manager.call("GET", "/grants")[1]["grants"]] == [WARNING]
    assert decided(hushlist, "http://blocked.example/") is not None


def test_a_program_acts_with_a_token_until_that_is_revoked(hushlist: Hushlist, use: Callable[..., Path]) -> None:
    use()
    browser = Browser(hushlist, "192.168.1.7", "https")
    with AdminStore(default_path(), time) as store:
        token = store.make_bearer("school", Role.APPROVE, 3600, by="me")
        with_token = {"Authorization": f"Bearer {token}", "X_Hushlist": ""}
        assert browser.call("POST", "/grants", GRANT, **with_token)[0] == 200
        assert browser.call("POST", "/pauses", BODIES["pause"], **with_token)[0] == 403
        assert browser.send("GET", "/data", Authorization=f"Bearer {token}").status_code == 200
        (grant,) = browser.call("GET", "/grants", **with_token)[1]["grants"]
        assert grant["by"] == "token:school"
        in_clear = Browser(hushlist, "192.168.1.7")
        assert in_clear.call("GET", "/grants", **with_token)[0] == 403
        assert store.revoke_bearer("school")
        assert browser.call("GET", "/grants", **with_token)[0] == 401
    assert browser.call("GET", "/grants", Authorization="Bearer hushlist_")[0] == 401


# -- what is done ------------------------------------------------------------------------------------------------------


def decided(hushlist: Hushlist, url: str, client: str = "10.0.0.7") -> int | None:
    """The status of an answer in the place of the origin's; ``None``: it passes."""
    flow = tflow.tflow(req=http.Request.make("GET", url))
    flow.client_conn.peername = (client, 50000)
    hushlist.requestheaders(flow)
    return None if flow.response is None else flow.response.status_code


@pytest.mark.parametrize(
    ("client", "passes"),
    [
        ("everybody", {"10.0.0.7", "10.0.1.7"}),
        ("10.0.0.7", {"10.0.0.7"}),
        ("::ffff:10.0.0.7", {"10.0.0.7"}),
        ("group:kids", {"10.0.1.7"}),
        ("group:default", {"10.0.0.7"}),
        ("user:jo", set()),
    ],
)
def test_something_is_allowed_for_a_while_and_that_is_ended(
    hushlist: Hushlist, use: Callable[..., Path], browser: Browser, client: str, passes: set[str]
) -> None:
    use("groups: [{name: kids, clients: [10.0.1.0/24]}]")
    assert browser.sign_in("anna") == 200
    status, done = browser.call("POST", "/grants", {**GRANT, "client": client})
    assert status == 200, done
    both = {"10.0.0.7", "10.0.1.7"}
    assert {one for one in both if decided(hushlist, "http://www.blocked.example/", one) is None} == passes
    assert browser.call("DELETE", f"/grants/{done['result']['id']}")[0] == 200
    assert {one for one in both if decided(hushlist, "http://www.blocked.example/", one) is None} == set()
    (last, first, _) = browser.call("GET", "/record")[1]["record"]
    assert [last["what"], first["what"]] == ["revoked", "granted"]
    assert browser.call("POST", f"/record/{last['id']}/undo", {})[0] == 200
    assert {one for one in both if decided(hushlist, "http://www.blocked.example/", one) is None} == passes


@pytest.mark.parametrize("clients", ["keep", "pseudonym", "drop"])
def test_an_order_for_a_pseudonym_is_for_whom_it_stands_and_shows_nothing_else(
    hushlist: Hushlist, use: Callable[..., Path], browser: Browser, tmp_path: Path, clients: str
) -> None:
    use(f"log: {{clients: {clients}, folder: '{tmp_path / 'log'}'}}")
    assert browser.sign_in("anna") == 200
    decided(hushlist, "http://www.blocked.example/", "10.0.1.7")
    assert hushlist.runtime.journal is not None
    privacy = hushlist.runtime.journal.privacy()
    named = {"keep": "10.0.1.7", "pseudonym": privacy.pseudonym("client", "10.0.1.7"), "drop": "10.0.1.7"}[clients]
    status, done = browser.call("POST", "/grants", {**GRANT, "client": named})
    assert status == 200, done
    both = {"10.0.0.7", "10.0.1.7"}
    assert {one for one in both if decided(hushlist, "http://www.blocked.example/", one) is None} == {"10.0.1.7"}
    shown = {"keep": "10.0.1.7", "pseudonym": named, "drop": "somebody"}[clients]
    answers = [done, *(browser.call("GET", path)[1] for path in ("/grants", "/blocks", "/codes", "/record"))]
    assert done["result"]["client"] == answers[1]["grants"][0]["client"] == shown
    assert answers[4]["record"][0]["detail"]["client"] == shown
    assert ("10.0.1.7" in json.dumps(answers)) is (clients == "keep")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"client": "group:nobody"}, "no group"),
        ({"client": ""}, "expected an address"),
        ({"client": "client-EKMX5MBZ"}, "nobody of that name"),
        ({"client": "user:"}, "expected an address"),
        ({"client": "somebody"}, "expected an address"),
        ({"target": "h.example/path"}, "a host has no path"),
        ({"target": ""}, "'target' has to be"),
        ({"scope": "everything"}, "one of host, url, category"),
        ({"scope": "category", "target": "ads"}, "ads"),
        ({"minutes": -1}, "a whole number from 0"),
        ({"minutes": True}, "a whole number from 0"),
        ({"minutes": "5"}, "a whole number from 0"),
        ({"odd": 1}, "'odd' is unknown"),
    ],
)
def test_what_cannot_be_granted_is_refused_with_the_reason(
    manager: Browser, changed: dict[str, object], why: str
) -> None:
    status, plain = manager.call("POST", "/grants", {**GRANT, **changed})
    assert status == 400
    assert why in plain["error"]


@pytest.mark.parametrize(
    ("client", "stopped"),
    [
        ("everybody", {"10.0.0.7", "10.0.1.7"}),
        ("10.0.0.7", {"10.0.0.7"}),
        ("group:kids", {"10.0.1.7"}),
        ("user:jo", set()),
    ],
)
@pytest.mark.parametrize(
    ("scope", "target", "url", "minutes"),
    [
        ("host", "fine.example", "http://www.fine.example/", 5),
        ("url", "https://fine.example/a?b", "http://fine.example/a?b&c", 5),
        ("category", "hrn://c.example/ads", "http://tagged.example/", 5),
        ("category", "hrn://c.example/ads", "http://tagged.example/", 0),
    ],
)
def test_something_is_blocked_for_a_while_or_for_good_and_that_is_undone_twice(
    hushlist: Hushlist,
    use: Callable[..., Path],
    browser: Browser,
    client: str,
    stopped: set[str],
    scope: str,
    target: str,
    url: str,
    minutes: int,
) -> None:
    own = use("groups: [{name: kids, clients: [10.0.1.0/24]}]")
    own.write_text("rules: [{expression: tagged.example, action: tag, category: 'hrn://c.example/ads'}]\n")
    use("groups: [{name: kids, clients: [10.0.1.0/24]}]")
    before = own.read_bytes()

    def blocked() -> set[str]:
        return {one for one in ("10.0.0.7", "10.0.1.7") if decided(hushlist, url, one) is not None}

    assert browser.sign_in("max") == 200
    body = {"scope": scope, "target": target, "minutes": minutes, "client": client, "reason": f"dinner\n{MARKUP}"}
    assert blocked() == set()
    status, done = browser.call("POST", "/blocks", body)
    assert status == 200, done
    assert blocked() == stopped
    (listed,) = browser.call("GET", "/blocks")[1]["blocks"]
    assert (listed["reason"], listed["client"]) == (f"dinner {MARKUP}", None if client == "everybody" else client)
    assert (listed["until"] is None) is (minutes == 0)
    assert browser.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 200
    assert blocked() == set()
    again = browser.call("POST", "/blocks", body)[1]
    ended = browser.call("DELETE", f"/blocks/{again['result']['id']}")[1]
    assert blocked() == set()
    assert browser.call("DELETE", f"/blocks/{again['result']['id']}")[0] == 404
    assert browser.call("POST", f"/record/{ended['recorded']}/undo", {})[0] == 200
    assert browser.recorded() == ["undid", "ended a block", "blocked", "undid", "blocked", "signed in"]
    assert blocked() == stopped
    assert own.read_bytes() == before


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/blocks", {"scope": "host", "target": "com", "minutes": 30, "client": "everybody"}),
        ("/blocks", {"scope": "host", "target": "co.uk", "minutes": 0, "client": "10.0.0.7"}),
        ("/blocks", {"scope": "url", "target": "http://co.uk/?", "minutes": 30, "client": "everybody"}),
        ("/blocks", {"scope": "host", "target": "com", "minutes": 0, "client": "everybody"}),
        ("/grants", {"scope": "host", "target": "github.io", "minutes": 0, "client": "everybody"}),
        ("/rules", {"scope": "host", "target": "localhost", "action": "block"}),
        ("/rules", {"scope": "url", "target": "https://com", "action": "allow", "days": 2}),
    ],
)
def test_of_what_covers_more_than_a_site_whoever_orders_it_is_warned_as_in_a_list(
    manager: Browser, path: str, body: dict[str, Any]
) -> None:
    status, done = manager.call("POST", path, body)
    assert (status, done["result"].get("warning", "").rpartition(": ")[2]) == (
        200,
        "the rule covers every site below it",
    )
    assert manager.call("GET", "/record")[1]["record"][0]["detail"]["warning"] == done["result"]["warning"]
    assert manager.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 200
    for narrow in ("games.example", "192.0.2.7"):
        target = f"https://{narrow}" if body["scope"] == "url" else narrow
        status, done = manager.call("POST", path, {**body, "target": target})
        assert (status, "warning" in done["result"]) == (200, False)


def test_a_grant_that_opens_nothing_below_its_host_says_so(manager: Browser, hushlist: Hushlist) -> None:
    body = {"scope": "host", "target": "github.io", "minutes": 30, "client": "everybody"}
    warning = "github.io is a public suffix: nothing below it is unblocked"
    assert manager.call("POST", "/grants", body)[1]["result"]["warning"] == warning
    number = ask(hushlist, "github.io")
    answer = manager.call("POST", f"/requests/{number}/approve", {"minutes": 30})
    assert answer[1]["result"]["warning"] == warning


@pytest.mark.parametrize(("path", "action"), [("/grants", "allow"), ("/blocks", "block")])
@pytest.mark.parametrize(("scope", "target"), [("host", "new.example"), ("url", "http://new.example/a")])
def test_what_is_for_good_and_for_everybody_is_a_rule(
    manager: Browser, tmp_path: Path, path: str, action: str, scope: str, target: str
) -> None:
    own = tmp_path / "own.yaml"
    before = own.read_bytes()
    order = {"scope": scope, "target": target, "minutes": 0, "client": "everybody", "reason": "why"}
    status, done = manager.call("POST", path, order)
    assert (status, done["result"]["action"]) == (200, action)
    assert f'action: "{action}", reason: "why"}}  # max, 20'.encode() in own.read_bytes()
    assert manager.call("GET", path)[1] == {path[1:]: []}
    assert manager.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 200
    assert own.read_bytes() == before


def test_something_is_allowed_for_good_by_who_may_manage_alone(manager: Browser, hushlist: Hushlist) -> None:
    wanted = {**GRANT, "minutes": 0, "client": "10.0.0.7", "reason": "homework"}
    other = Browser(hushlist)
    assert other.sign_in("anna") == 200
    assert other.call("POST", "/grants", wanted)[0] == 403
    done = manager.call("POST", "/grants", wanted)[1]
    assert (done["result"]["until"], done["result"]["reason"]) == (None, "homework")
    assert decided(hushlist, "http://blocked.example/") is None
    ended = other.call("DELETE", f"/grants/{done['result']['id']}")[1]
    assert decided(hushlist, "http://blocked.example/") == 403
    assert other.call("POST", f"/record/{ended['recorded']}/undo", {})[0] == 403
    assert manager.call("POST", f"/record/{ended['recorded']}/undo", {})[0] == 200
    assert decided(hushlist, "http://blocked.example/") is None
    assert manager.call("GET", "/grants")[1]["grants"][0]["until"] is None


@pytest.mark.parametrize("path", ["/grants", "/blocks"])
def test_what_would_have_ended_by_now_is_not_brought_back(
    manager: Browser, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    done = manager.call("POST", path, {**GRANT, "client": "10.0.0.7"})[1]
    ended = manager.call("DELETE", f"{path}/{done['result']['id']}")[1]
    undo = f"/record/{ended['recorded']}/undo"
    monkeypatch.setattr(actions, "time", lambda: time() + 5 * 60)
    assert manager.call("POST", undo, {}) == (404, {"error": "it would have ended by now"})
    monkeypatch.setattr(actions, "time", time)
    assert manager.call("POST", undo, {})[0] == 200


def test_a_quota_is_extended_and_that_is_undone(hushlist: Hushlist, use: Callable[..., Path], browser: Browser) -> None:
    use("groups: [{name: kids, clients: [10.0.1.0/24]}]\nquotas: {'hrn://c.example/ads': 30}")

    def limit(client: str) -> int:
        return int(browser.call("GET", f"/client?client={client}")[1]["quotas"][0]["limit"])

    assert browser.sign_in("anna") == 200
    for client, changed in (("10.0.1.7", (40, 30)), ("group:kids", (40, 30)), ("everybody", (40, 40))):
        body = {"category": "hrn://c.example/ads", "minutes": 10, "client": client}
        status, done = browser.call("POST", "/extensions", body)
        assert status == 200, done
        assert (limit("10.0.1.7"), limit("10.0.0.7")) == changed
        assert browser.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 200
        assert (limit("10.0.1.7"), limit("10.0.0.7")) == (30, 30)
        assert browser.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 400
        assert browser.recorded()[:2] == ["undid", "extended a quota"]
    assert browser.call("POST", "/extensions", {"category": "ads", "minutes": 10})[0] == 400
    assert browser.call("POST", "/extensions", {"category": "hrn://c.example/ads", "minutes": 10081})[0] == 400


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 20000, b'{"url": ' + b"1" * 5000 + b"}"])
def test_a_body_that_is_no_object_is_refused(manager: Browser, body: bytes) -> None:
    assert manager.call("POST", "/lists/update", body)[0] == 400


@each_row(
    ("version", "headers", "is_long"),
    [
        ("HTTP/1.1", {"Content-Length": str(admin_api.LONGEST_BODY)}, False),
        ("HTTP/1.1", {"Content-Length": str(admin_api.LONGEST_BODY + 1)}, True),
        ("HTTP/1.1", {"Content-Length": "9" * 5000}, True),
        ("HTTP/1.1", {"Content-Length": "²"}, True),
        ("HTTP/1.1", {"Transfer-Encoding": "chunked"}, True),
        ("HTTP/1.1", {"Transfer-Encoding": "chunked", "Content-Length": "5"}, True),
        ("HTTP/1.1", {}, False),
        ("HTTP/2.0", {}, True),
        ("HTTP/2.0", {"Content-Length": "5"}, False),
    ],
)
@each_row("path", [f"{BASE}/lists/update", "/setup", "/data"])
def test_a_body_that_is_long_or_of_untold_length_is_not_waited_for(
    hushlist: Hushlist, use: Callable[..., Path], path: str, version: str, headers: dict[str, str], is_long: bool
) -> None:
    use()
    flow = tflow.tflow(req=http.Request.make("POST", f"http://{HOST}{path}"))
    flow.request.headers.pop("content-length", None)
    flow.request.http_version = version
    flow.request.headers.update({"X-Hushlist": "live", **headers})
    flow.client_conn.peername = ("127.0.0.1", 50000)

    async def begin() -> None:
        awaited = hushlist.requestheaders(flow)
        assert awaited is not None
        await awaited

    with pytest.raises(exceptions.AddonHalt):
        asyncio.run(begin())
    assert flow.response is not None
    assert (flow.response.status_code == 413) is is_long


def ask(hushlist: Hushlist, host: str) -> int:
    """Ask for access as the form of a block page does; the request's number."""
    assert hushlist.runtime.overrides is not None
    url = f"http://{host}/page"
    wanted = AccessRequest(0, "10.0.0.7", "10.0.0.7", "default", host, url, None, MARKUP, asked=0.0, until=0.0)
    return hushlist.runtime.overrides.ask(wanted).id


def test_requests_for_access_are_answered_once_each(manager: Browser, hushlist: Hushlist) -> None:
    first, second = ask(hushlist, "blocked.example"), ask(hushlist, "www.blocked.example")
    told = manager.call("GET", "/requests")[1]["requests"]
    assert [(one["id"], one["host"], one["reason"]) for one in told] == [
        (second, "www.blocked.example", MARKUP),
        (first, "blocked.example", MARKUP),
    ]
    status, done = manager.call("POST", f"/requests/{first}/approve", {"minutes": 5})
    assert (status, done["result"]["client"], done["result"]["how"]) == (200, "10.0.0.7", "request")
    assert decided(hushlist, "http://blocked.example/other") is None
    assert decided(hushlist, "http://blocked.example/", "10.0.0.8") is not None
    assert manager.call("POST", f"/requests/{second}/decline", {"word": "after school"})[0] == 200
    assert manager.call("GET", "/requests")[1]["requests"] == []
    for path, body in (("approve", {"minutes": 5}), ("decline", {})):
        assert manager.call("POST", f"/requests/{first}/{path}", body)[0] == 404
        assert manager.call("POST", f"/requests/{1 << 52}/{path}", body)[0] == 404
    assert manager.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 200
    assert manager.recorded() == ["undid", "declined a request", "approved a request", "signed in"]
    assert decided(hushlist, "http://blocked.example/other") is not None


def test_who_approves_lets_through_for_a_day_at_most(browser: Browser, use: Callable[..., Path]) -> None:
    use()
    assert browser.sign_in("anna") == 200
    for path, body in (("/grants", GRANT), ("/codes", {"scope": "host"}), ("/requests/1/approve", {})):
        status, told = browser.call("POST", path, {**body, "minutes": 24 * 60 + 1})
        assert (status, "anna may let something through for at most 1440 minutes" in str(told)) == (400, True), path
    assert browser.recorded() == ["signed in"]
    assert browser.call("POST", "/grants", {**GRANT, "minutes": 24 * 60})[0] == 200
    browser.sign_in("max")
    long = browser.call("POST", "/grants", {**GRANT, "target": "a.example", "minutes": 48 * 60})[1]["result"]
    browser.sign_in("anna")
    ended = browser.call("DELETE", f"/grants/{long['id']}")[1]
    assert browser.call("POST", f"/record/{ended['recorded']}/undo", {})[0] == 400
    browser.sign_in("max")
    assert browser.call("POST", f"/record/{ended['recorded']}/undo", {})[0] == 200


def test_a_request_is_not_approved_for_what_it_does_not_have(manager: Browser, hushlist: Hushlist) -> None:
    number = ask(hushlist, "blocked.example")
    for scope, status in (("category", 404), ("everything", 400), ("url", 200)):
        assert manager.call("POST", f"/requests/{number}/approve", {"minutes": 5, "scope": scope})[0] == status


def test_a_group_is_paused_and_checks_stay(hushlist: Hushlist, use: Callable[..., Path], browser: Browser) -> None:
    use("groups: [{name: kids, clients: [10.0.1.0/24], default: block}]")
    assert browser.sign_in("max") == 200
    assert decided(hushlist, "http://any.example/", "10.0.1.7") == 403
    done = browser.call("POST", "/pauses", {"group": "kids", "minutes": 10})[1]
    assert decided(hushlist, "http://any.example/", "10.0.1.7") is None
    assert decided(hushlist, "http://blocked.example/", "10.0.1.7") is None
    assert decided(hushlist, "http://blocked.example/", "10.0.0.7") == 403
    assert browser.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 200
    assert decided(hushlist, "http://any.example/", "10.0.1.7") == 403


def test_a_code_is_not_taken_for_another_that_is_made_at_the_same_moment(
    manager: Browser, hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch
) -> None:
    overrides = hushlist.runtime.overrides
    assert overrides is not None
    make_code, others = overrides.make_code, list[str]()

    def make_two(*values: Any, **named: Any) -> str:
        code = make_code(*values, **named)
        others.append(make_code("host", 60))
        return code

    monkeypatch.setattr(overrides, "make_code", make_two)
    made = manager.call("POST", "/codes", {"scope": "host", "minutes": 5})[1]["result"]
    assert manager.call("DELETE", f"/codes/{made['id']}")[0] == 200
    assert overrides.redeem(others[0], "10.0.0.7", {"host": "h.example"})
    with pytest.raises(CodeError):
        overrides.redeem(made["code"], "10.0.0.7", {"host": "h.example"})


def test_a_code_is_made_listed_without_itself_and_withdrawn(manager: Browser) -> None:
    made = manager.call("POST", "/codes", {"scope": "host", "target": "blocked.example", "minutes": 5})[1]["result"]
    assert len(made["code"]) == 14
    (code,) = manager.call("GET", "/codes")[1]["codes"]
    assert (code["id"], code["target"], code["minutes"]) == (made["id"], "blocked.example", 5)
    texts = [json.dumps(manager.call("GET", path)[1]) for path in ("/codes", "/record")]
    assert not [text for text in texts if made["code"] in text]
    assert manager.call("DELETE", f"/codes/{made['id']}")[0] == 200
    assert manager.call("DELETE", f"/codes/{made['id']}")[0] == 404
    assert manager.call("GET", "/codes")[1] == {"codes": []}
    assert manager.recorded() == ["withdrew a code", "made a code", "signed in"]
    done = manager.call("POST", "/codes", {"scope": "host", "minutes": 5})[1]
    assert manager.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 200
    assert manager.call("GET", "/codes")[1] == {"codes": []}
    assert manager.call("POST", "/codes", {"scope": "host", "minutes": 5, "client": "group:default"})[0] == 400


@pytest.mark.parametrize(
    ("scope", "target", "expression"),
    [
        ("host", "HTTPS://WWW.New.example:443", "www.new.example/"),
        ("url", "http://new.example/a/b?q", "new.example/a/b?q"),
    ],
)
def test_a_rule_is_added_for_good_and_undone_to_the_octet(
    manager: Browser, tmp_path: Path, scope: str, target: str, expression: str
) -> None:
    own = tmp_path / "own.yaml"
    before = own.read_bytes()
    body = {"action": "block", "scope": scope, "target": target, "reason": f"why\n{MARKUP}"}
    status, done = manager.call("POST", "/rules", body)
    assert status == 200, done
    lines = own.read_bytes().decode().splitlines()
    assert [line for line in lines if line not in before.decode().splitlines()] == [lines[3]]
    assert lines[3].startswith(
        f'  - {{expression: "{expression}", action: "block", reason: "why {MARKUP}"}}  # max, 20'
    )
    assert manager.call("POST", "/rules", body)[0] == 400
    assert [rule["expression"] for rule in manager.call("GET", "/rules")[1]["rules"]] == ["mine.example/", expression]
    assert manager.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 200
    assert own.read_bytes() == before
    assert manager.call("POST", f"/record/{done['recorded']}/undo", {}) == (400, {"error": "it is undone already"})


def test_a_rule_for_a_while_ends_with_a_day(manager: Browser) -> None:
    body = {"action": "block", "scope": "host", "target": "a.example", "days": 1}
    assert manager.call("POST", "/rules", body)[0] == 200
    assert manager.call("GET", "/rules")[1]["rules"][-1]["expires"] is not None


def test_a_rule_that_was_changed_since_is_not_undone_and_can_be_later(manager: Browser, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    body = {"action": "block", "scope": "host", "target": "a.example"}
    number = manager.call("POST", "/rules", body)[1]["recorded"]
    with_rule = own.read_bytes()
    own.write_bytes(with_rule.replace(b"a.example", b"b.example"))
    assert manager.call("POST", f"/record/{number}/undo", {})[0] == 400
    own.write_bytes(with_rule)
    assert manager.call("POST", f"/record/{number}/undo", {})[0] == 200


def test_a_rule_is_removed_whoever_wrote_it_and_that_is_undone(manager: Browser, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    before = own.read_bytes()
    assert manager.call("POST", "/rules", {"action": "block", "scope": "host", "target": "a.example"})[0] == 200
    mine, added = manager.call("GET", "/rules")[1]["rules"]
    assert mine["comment"] == "keep"
    assert added["comment"].startswith("max, 20")
    assert manager.call("DELETE", f"/rules/{added['id']}")[0] == 200
    assert own.read_bytes() == before
    assert manager.call("DELETE", f"/rules/{added['id']}")[0] == 404
    status, done = manager.call("DELETE", f"/rules/{mine['id']}")
    assert (status, done["result"]["expression"]) == (200, "mine.example")
    assert own.read_bytes() == b"# mine\nrules: []\n\n# the end\n"
    assert manager.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 200
    assert own.read_bytes() == b'# mine\nrules:\n  - {expression: "mine.example"}  # keep\n\n# the end\n'
    assert manager.recorded() == ["undid", "removed a rule", "removed a rule", "added a rule", "signed in"]
    manager.sign_in("anna")
    assert manager.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 403


def test_a_rule_that_is_there_again_is_not_brought_back(manager: Browser, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    before = own.read_bytes()
    (mine,) = manager.call("GET", "/rules")[1]["rules"]
    number = manager.call("DELETE", f"/rules/{mine['id']}")[1]["recorded"]
    own.write_bytes(before)
    assert manager.call("POST", f"/record/{number}/undo", {}) == (400, {"error": "there is such a rule already"})
    assert own.read_bytes() == before


@pytest.mark.parametrize("kind", ["grants", "blocks"])
def test_undoing_ends_nothing_else_of_the_same_number_in_a_new_store(
    manager: Browser, tmp_path: Path, kind: str
) -> None:
    order = {"scope": "host", "minutes": 5, "client": "10.0.0.7"}
    first = manager.call("POST", f"/{kind}", {**order, "target": "first.example"})[1]
    for path in (tmp_path / "state" / "hushlist").glob("overrides.sqlite*"):
        path.unlink()
    second = manager.call("POST", f"/{kind}", {**order, "target": "second.example"})[1]
    assert first["result"]["id"] == second["result"]["id"]
    assert manager.call("POST", f"/record/{first['recorded']}/undo", {})[0] == 404
    assert [one["target"] for one in manager.call("GET", f"/{kind}")[1][kind]] == ["second.example"]
    assert manager.call("POST", f"/record/{second['recorded']}/undo", {})[0] == 200


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.7"])
def test_who_signs_in_by_another_name_buys_no_tries_at_this_one(
    manager: Browser, hushlist: Hushlist, address: str
) -> None:
    browser = Browser(hushlist, address, "https")
    assert browser.sign_in("max") == 200  # it is known from now on
    statuses = []
    for _ in range(4):
        statuses += [browser.sign_in("max", "wrong"), browser.sign_in("max", "wrong"), browser.sign_in("vera")]
    assert statuses == [401, 401, 200, 401, 401, 200, 401, 429, 200, 429, 429, 200]
    assert browser.sign_in("max") == 429


def test_what_a_session_waits_for_is_not_shown_once_it_has_ended(
    manager: Browser, hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = json.loads(manager.send("GET", "/data").content or b"")

    async def end_meanwhile(_: float) -> None:
        with AdminStore(default_path(), time) as store:
            (session,) = store.sessions()
            assert store.end_session(session.id)

    monkeypatch.setattr(hushlist.runtime.statistics, "wait", end_meanwhile)
    assert manager.send("GET", f"/data?since={last['last']}&of={last['of']}").status_code == 401


def test_what_another_version_has_done_is_not_undone(manager: Browser, hushlist: Hushlist) -> None:
    with AdminStore(default_path(), time) as store:
        number = store.record(Account("jo", Role.MANAGE, ""), "moved", {}, Role.VIEW, {"kind": "moved"})
    why = {"error": "another version of Hushlist has to undo it"}
    assert manager.call("POST", f"/record/{number}/undo", {}) == (404, why)


def test_blocks_for_a_group_that_the_policy_has_no_more_are_told(
    manager: Browser, use: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    use("groups: [{name: kids, clients: [10.0.0.0/24]}]")
    order = {"scope": "host", "target": "games.example", "minutes": 0}
    for client in ("group:kids", "10.0.0.7"):
        assert manager.call("POST", "/blocks", {**order, "client": client})[0] == 200
    policy = use("groups: [{name: children, clients: [10.0.0.0/24]}]").with_name("policy.yaml")
    told = [record.getMessage() for record in caplog.records if f"{policy}: blocks" in record.getMessage()]
    why = "hold for nobody: there is no such group"
    assert told == [f"hushlist: {policy}: blocks of administrators for group:kids {why}"]


@pytest.fixture
def gated(use: Callable[..., Path], browser: Browser, tmp_path: Path) -> Callable[[], dict[Path, str]]:
    """Sign in, and compile the policy, whose log has so many visits that a change of the own rules is held back."""
    visits = [record(f"h{host}.example", f"10.0.{client}.1") for host in range(20) for client in range(10)]
    write_log(tmp_path / "log", visits)
    use(f"log: {{folder: {tmp_path / 'log'}}}")
    assert browser.sign_in("max") == 200

    def held() -> dict[Path, str]:
        return compile_policy(tmp_path / "policy.yaml").policy.held

    assert held() == {}
    return held


def test_what_an_administrator_writes_is_never_held_back(
    browser: Browser, gated: Callable[[], dict[Path, str]], tmp_path: Path
) -> None:
    for host in ("h1.example", "h2.example"):  # the second before the first is read
        rule = {"action": "block", "scope": "host", "target": host}
        done = browser.call("POST", "/rules", rule)[1]
    assert gated() == {}
    assert browser.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 200
    assert gated() == {}
    (own,) = (one for one in browser.call("GET", "/rules")[1]["rules"] if one["expression"] == "h1.example/")
    assert browser.call("DELETE", f"/rules/{own['id']}")[0] == 200
    assert gated() == {}


def test_what_is_held_back_of_the_own_list_is_not_accepted_with_a_rule(
    browser: Browser, gated: Callable[[], dict[Path, str]], tmp_path: Path
) -> None:
    (tmp_path / "own.yaml").write_text("rules: [h1.example]\n")
    assert len(gated()) == 1
    status, told = browser.call("POST", "/rules", {"action": "block", "scope": "host", "target": "h2.example"})
    assert (status, "is held back: it stops 10 of 200" in str(told)) == (400, True)
    assert (tmp_path / "own.yaml").read_text() == "rules: [h1.example]\n"
    (tmp_path / "own.yaml").write_text("rules: [h1.example, h3.example]\n")  # which nobody has looked at so far
    assert browser.call("POST", "/rules", {"action": "block", "scope": "host", "target": "h2.example"})[0] == 200
    assert len(gated()) == 1


@pytest.fixture
def store(hushlist: Hushlist, use: Callable[..., Path], browser: Browser) -> ListStore:
    """The store of a list that is fetched, of which a version is in force, and another one held back."""
    use(lists=f"{{url: '{LIST}', format: domains, optional: true}}")
    assert browser.sign_in("max") == 200
    assert hushlist.runtime.engine is not None
    (own,) = hushlist.runtime.engine.policy.subscribed
    with own.store.locked():
        own.store.use(own.store.keep(b"a.example\n# note\nb.example\n"))
        own.store.hold_back(own.store.keep(f"b.example\n{MARKUP}\n".encode()), ["it is odd"])
    return own.store


def test_of_what_is_held_back_so_many_lines_are_shown(browser: Browser, store: ListStore) -> None:
    store.hold_back(store.keep(b"".join(b"c%d.example\n" % number for number in range(201))), ["it is odd"])
    held = browser.call("GET", f"/lists/held?url={quote(LIST)}")[1]
    assert (held["url"], held["added"], len(held["added_lines"])) == (LIST, 201, 200)


def test_what_is_held_back_of_a_list_is_looked_at_and_accepted_and_that_is_undone(
    browser: Browser, store: ListStore
) -> None:
    query = f"?url={quote(LIST)}"
    first, (shown,) = store.current(), browser.call("GET", "/lists")[1]["lists"]
    assert first is not None
    assert (shown["url"], shown["reasons"], len(shown["versions"])) == (LIST, ["it is odd"], 1)
    held = browser.call("GET", f"/lists/held{query}")[1]
    assert (held["added_lines"], held["removed_lines"]) == ([MARKUP], ["a.example"])
    assert browser.call("POST", "/lists/accept", {"url": LIST, "digest": "0" * 64})[0] == 404
    done = browser.call("POST", "/lists/accept", {"url": LIST, "digest": held["digest"]})[1]
    assert store.current() != first
    assert browser.call("GET", f"/lists/held{query}")[0] == 404
    assert browser.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 200
    assert browser.recorded() == ["undid", "accepted a list", "signed in"]
    assert store.current() == first


def test_a_list_is_not_taken_back_where_another_version_came_since(browser: Browser, store: ListStore) -> None:
    held = browser.call("GET", f"/lists/held?url={quote(LIST)}")[1]
    done = browser.call("POST", "/lists/accept", {"url": LIST, "digest": held["digest"]})[1]
    with store.locked():
        store.use(store.keep(b"later.example\n"))
    later = store.current()
    why = {"error": "another version of the list is in force by now"}
    assert browser.call("POST", f"/record/{done['recorded']}/undo", {}) == (404, why)
    assert store.current() == later


def test_a_list_is_not_taken_back_where_the_version_before_is_gone(browser: Browser, store: ListStore) -> None:
    first = store.current()
    assert first is not None
    held = browser.call("GET", f"/lists/held?url={quote(LIST)}")[1]
    done = browser.call("POST", "/lists/accept", {"url": LIST, "digest": held["digest"]})[1]
    first.path.unlink()
    why = {"error": "there is no version to go back to"}
    assert browser.call("POST", f"/record/{done['recorded']}/undo", {}) == (404, why)
    assert browser.recorded() == ["accepted a list", "signed in"]


def test_a_list_goes_back_to_the_version_before_and_forth_again(browser: Browser, store: ListStore) -> None:
    assert browser.call("POST", "/lists/rollback", {"url": LIST})[0] == 404
    with store.locked():
        store.accept()
    second = store.current()
    assert second is not None
    done = browser.call("POST", "/lists/rollback", {"url": LIST})[1]
    assert store.current() != second
    assert browser.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 200
    assert browser.recorded() == ["undid", "rolled a list back", "signed in"]
    now = store.current()
    assert now is not None
    assert now.digest == second.digest


@pytest.mark.parametrize("what", ["rollback", "accept"])
def test_undoing_puts_no_version_into_force_but_the_one_before(browser: Browser, store: ListStore, what: str) -> None:
    with store.locked():
        if what == "rollback":
            store.accept()
    held = store.held()
    version = {} if held is None else {"digest": held.stem}
    done = browser.call("POST", f"/lists/{what}", {"url": LIST, **version})[1]
    changed = store.current()
    assert changed is not None
    with store.locked():
        other = store.keep(b"nobody.has.looked.example\n")
        if what == "rollback":
            store.hold_back(other, ["it is odd"])  # what the publisher has by now
        else:
            store.use(other)
            store.use(changed)
    why = {"error": "there is no version to go back to"}
    assert browser.call("POST", f"/record/{done['recorded']}/undo", {}) == (404, why)
    assert store.current() == changed


def test_a_list_is_fetched_when_somebody_asks_for_it(browser: Browser, store: ListStore) -> None:
    with store.locked():
        store.note(tried=time() - 60, next_try=time() + 3600)
    assert not store.state().is_due(time())
    assert browser.call("POST", "/lists/update", {"url": LIST})[0] == 200
    assert store.state().is_due(time())
    assert browser.recorded() == ["asked for an update", "signed in"]
    assert browser.call("POST", "/lists/update", {"url": "https://lists.example/none"})[0] == 404


def test_a_list_of_safe_browsing_is_not_asked_for_before_its_server_says_so(
    hushlist: Hushlist, use: Callable[..., Path], browser: Browser
) -> None:
    server = "{version: 5, lists: [mw-4b], server: 'https://lists.example'}"
    use(lists=f"{{safe-browsing: {server}, optional: true}}")
    assert browser.sign_in("max") == 200
    assert hushlist.runtime.engine is not None
    (own,) = hushlist.runtime.engine.policy.subscribed
    url = {"url": own.subscription.url}
    assert browser.call("POST", "/lists/update", url)[0] == 200
    with own.store.locked():
        until = own.store.note(tried=time() - 60, next_try=time() + 3600).next_try
    status, told = browser.call("POST", "/lists/update", url)
    assert (status, own.store.state().next_try) == (400, until)
    assert "nobody asks before" in str(told)


def test_an_update_that_another_process_is_at_is_told(
    browser: Browser, store: ListStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def busy(*_: object) -> Iterator[None]:
        raise BlockingIOError("another process is at it")
        yield

    monkeypatch.setattr(ListStore, "locked", busy)
    status, plain = browser.call("POST", "/lists/update", {"url": LIST})
    assert (status, plain) == (400, {"error": "the list cannot be changed: another process is at it"})


@pytest.mark.parametrize(
    ("call", "body"),
    [("/rules", {"action": "block", "scope": "host", "target": "new.example"}), ("/lists/accept", {"url": LIST})],
)
def test_what_cannot_be_recorded_is_not_done(
    browser: Browser, store: ListStore, use: Callable[..., Path], tmp_path: Path, call: str, body: dict[str, object]
) -> None:
    held, own = store.held(), (tmp_path / "own.yaml").read_bytes()
    assert held is not None
    with sqlite3.connect(default_path()) as database:
        database.execute("CREATE TRIGGER full BEFORE INSERT ON record BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
    database.close()
    body |= {"digest": held.stem} if "url" in body else {}
    assert browser.call("POST", call, body)[0] == 503
    assert (store.held(), (tmp_path / "own.yaml").read_bytes()) == (held, own)


def test_what_is_done_is_recorded_also_where_the_disk_is_full_by_then(browser: Browser, store: ListStore) -> None:
    with sqlite3.connect(default_path()) as database:
        database.execute("CREATE TRIGGER full BEFORE UPDATE ON record BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
    database.close()
    assert browser.call("POST", "/lists/update", {"url": LIST})[0] == 503
    (begun, _) = browser.call("GET", "/record")[1]["record"]
    assert (begun["what"], begun["detail"], begun["can_undo"]) == ("began to update list", {"url": LIST}, False)


def test_what_is_refused_leaves_no_trace_in_the_record_and_pushes_nothing_out_of_it(
    browser: Browser, store: ListStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_store, "MOST_RECORDED", 3)
    assert browser.call("POST", "/lists/update", {"url": LIST})[0] == 200
    for _ in range(3):
        assert browser.call("POST", "/lists/update", {"url": "https://lists.example/none"})[0] == 404
    assert browser.recorded() == ["asked for an update", "signed in"]


def test_what_holds_for_a_client_is_told(hushlist: Hushlist, use: Callable[..., Path], browser: Browser) -> None:
    use(
        "timezone: Asia/Tokyo\nschedules: {night: {times: 22:00-06:00}}\n"
        "groups: [{name: kids, clients: [10.0.1.0/24], default: {action: block, during: night}, "
        "categories: {'hrn://c.example/ads': {action: pass, during: night, otherwise: warn}}, "
        "quotas: {'hrn://c.example/ads': {minutes: 30, per: day}}}]"
    )
    assert browser.sign_in("vera") == 200
    told = browser.call("GET", "/client?client=10.0.1.7&url=http://blocked.example/")[1]
    assert (told["group"], told["mode"]) == ("kids", "block")
    (night,) = told["schedules"]
    assert night["name"] == "night"
    changes = datetime.fromisoformat(night["changes"])  # by the clock of the policy
    assert (changes.timestamp(), f"{changes:%H:%M%z}" in ("22:00+0900", "06:00+0900")) == (night["until"], True)
    assert told["categories"] == [{"category": "hrn://c.example/ads", "action": "pass" if night["is_on"] else "warn"}]
    assert told["decision"]["action"] in ("warn", "pass", "block")
    assert [(one["left"], one["per"]) for one in told["quotas"]] == [(30, "day")]
    assert hushlist.runtime.overrides is not None
    for client in (None, "group:kids", "10.0.1.7", "10.0.0.7", "group:default"):
        hushlist.runtime.overrides.block("host", "a.example", None, client=client, by="max")
        hushlist.runtime.overrides.grant("host", "b.example", None, client=client, how="command line", by="max")
    told = browser.call("GET", "/client?client=10.0.1.7")[1]
    for kind in ("blocks", "grants"):
        assert [one["client"] for one in told[kind]] == ["10.0.1.7", "group:kids", None]
    assert browser.call("GET", "/client?client=10.9.9.9")[1]["group"] == "default"
    decision = browser.call("GET", "/client?url=%3Chttp://a.example/")[1]["decision"]
    assert (decision["action"], decision["canonical"], decision["why"]) == ("block", "", decision["fault"])


def test_a_preview_counts_what_a_rule_would_have_covered(
    hushlist: Hushlist, use: Callable[..., Path], browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use()
    assert browser.sign_in("vera") == 200
    assert browser.call("GET", "/preview?scope=host&target=blocked.example")[0] == 400
    use(f"log: {{what: all, folder: '{tmp_path / 'log'}'}}")
    for path in ("a", "a/b", "ab", "c"):
        decided(hushlist, f"http://www.blocked.example/{path}")
    decided(hushlist, "http://fine.example/")
    for client in ("10.0.0.7", "10.0.0.9", "10.0.0.9"):
        decided(hushlist, "http://shared.example/", client)
    assert hushlist.runtime.journal is not None
    assert hushlist.runtime.journal.flush(30)
    assert browser.call("GET", "/preview?scope=host&target=shared.example")[1]["clients"] == 2
    found = browser.call("GET", "/preview?scope=host&target=blocked.example")[1]
    assert (found["requests"], found["actions"], found["clients"], found["is_all"]) == (4, {"block": 4}, 1, True)
    assert found["changed"] == 0
    for query, changed in (
        ("scope=host&target=blocked.example&action=allow", 4),
        ("scope=host&target=fine.example", 1),
        ("scope=host&target=fine.example&client=10.0.0.7", 1),
        ("scope=host&target=fine.example&client=group:default", 1),
        ("scope=host&target=fine.example&client=10.0.0.8", 0),
        ("scope=host&target=fine.example&client=group:kids", 0),
        ("scope=host&target=fine.example&client=user:jo", 0),
        ("scope=category&target=hrn://c.example/ads&action=allow", 4),
        ("scope=category&target=hrn://c.example&action=allow&client=10.0.0.7", 4),
    ):
        assert browser.call("GET", f"/preview?{query}")[1]["changed"] == changed, query
    found = browser.call("GET", "/preview?scope=url&target=http://www.blocked.example/a")[1]
    assert sorted(one["url"] for one in found["addresses"]) == [
        "http://www.blocked.example/a",
        "http://www.blocked.example/a/b",
    ]
    assert [(one["action"], one["count"]) for one in found["addresses"]] == [("block", 1)] * 2
    monkeypatch.setattr(preview, "MOST_PREVIEWED", 4)
    for host, is_all in (("fine", True), ("blocked", False)):
        assert browser.call("GET", f"/preview?scope=host&target={host}.example")[1]["is_all"] is is_all


def test_a_whole_number_may_have_a_fraction_of_nothing(manager: Browser) -> None:
    assert manager.call("POST", "/pauses", {"group": "default", "minutes": 5.0})[0] == 200
    assert manager.call("POST", "/pauses", {"group": "default", "minutes": 5.5})[0] == 400


def test_a_path_that_no_call_has_is_told_and_one_that_takes_another_method(manager: Browser) -> None:
    assert manager.call("GET", "/nothing") == (404, {"error": "there is no such call"})
    assert manager.call("DELETE", "/rules/" + "0" * 101)[0] == 404
    response = manager.send("DELETE", f"{BASE}/rules")
    assert (response.status_code, response.headers["allow"]) == (405, "GET, POST")


def test_markup_that_others_wrote_stays_text(manager: Browser) -> None:
    manager.call("POST", "/grants", {**GRANT, "client": f"user:{MARKUP}"})
    response = manager.send("GET", f"{BASE}/grants")
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert json.loads(response.content or b"")["grants"][0]["client"] == f"user:{MARKUP}"


@pytest.mark.slow
def test_of_many_open_pages_few_wait_and_all_are_answered(
    manager: Browser, hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard_server, "PATIENCE", 60)
    of = json.loads(manager.send("GET", "/data").content or b"")["of"]

    async def ask() -> None:
        flow = tflow.tflow(req=http.Request.make("GET", f"http://{HOST}/data?since=9&of={of}"))
        flow.request.headers.update({"X-Hushlist": "live", "Cookie": f"hushlist={manager.cookies['hushlist']}"})
        flow.client_conn.peername = ("127.0.0.1", 50000)
        awaited = hushlist.requestheaders(flow)
        assert awaited is not None
        with pytest.raises(exceptions.AddonHalt):
            await awaited

    async def ask_often() -> int:
        tasks = [asyncio.ensure_future(ask()) for _ in range(OPEN)]
        done: set[asyncio.Future[None]] = set()
        while len(done) < OPEN - 16:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED, timeout=0.05)
        waiting = hushlist.runtime.statistics.waiting
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return waiting

    assert asyncio.run(ask_often()) <= 16


# -- as it is described ------------------------------------------------------------------------------------------------


def test_the_description_is_served_and_names_every_call(browser: Browser, use: Callable[..., Path]) -> None:
    use()
    assert browser.call("GET", "/openapi.json", X_Hushlist="") == (200, DOCUMENT)
    described = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert described == {(call.method, call.path) for call in ACTIONS}
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("call", ACTIONS, ids=lambda call: f"{call.method} {call.path}")
def test_every_call_answers_as_it_is_described(manager: Browser, hushlist: Hushlist, call: Action) -> None:
    for method, path, body in (
        ("POST", "/grants", GRANT),
        ("POST", "/blocks", BODIES["block"]),
        ("POST", "/codes", {"scope": "host", "minutes": 5}),
        ("POST", "/rules", {"action": "block", "scope": "host", "target": "b.example"}),
    ):
        assert manager.call(method, path, body)[0] == 200
    ask(hushlist, "blocked.example")
    manager.call(call.method, path_of(call), BODIES.get(call.name, {}) if call.method == "POST" else None)
