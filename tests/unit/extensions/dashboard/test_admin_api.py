"""What administrators do by the live page and its interface: who may, how it is asked, and what comes of it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from time import time

import pytest
from jsonschema import Draft202012Validator
from mitmproxy import exceptions, http
from mitmproxy.test import tflow

from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.routes import Account, Action, Role
from hushlist.extensions.dashboard import admin_api, admin_store, live_feed, sign_in_turns
from hushlist.extensions.dashboard.admin_store import AdminStore, default_path
from hushlist.extensions.dashboard.api_description import BASE
from hushlist.extensions.dashboard.api_requests import LONGEST_BODY
from hushlist.extensions.dashboard.dashboard_server import HOST
from hushlist.extensions.subscriptions.list_store import ListStore
from hushlist.extensions.unblock.unblock_handler import overrides_of
from hushlist.extensions.unblock.wrong_tries import LockedError
from hushlist.proxy.addon import Hushlist
from support.administrators import (
    ACTIONS,
    DOCUMENT,
    GRANT,
    LIST,
    MARKUP,
    PASSPHRASE,
    PEOPLE,
    Browser,
    ask,
    browser,
    manager,
    store,
    use,
)
from support.clock import Clock
from unit.extensions.subscriptions.test_logged_visits import record, write_log
from unit.rows import each_row

__all__ = ["browser", "manager", "store", "use"]

#: pages that are open at once
OPEN = 250


pytestmark = pytest.mark.usefixtures("own_folders")


# -- who is signed in --------------------------------------------------------------------------------------------------


def test_without_admin_the_page_is_as_it_was(browser: Browser, use: Callable[..., Path]) -> None:
    use(people={})
    assert browser.send("GET", "/api/v1/live").status_code == 200
    assert browser.call("GET", "/session")[1] == {
        "needed": False,
        "possible": False,
        "name": None,
        "role": None,
        "token": None,
    }
    assert browser.sign_in("max") == 403
    assert [browser.call("GET", path)[0] for path in ("/grants", "/home", "/people")] == [200] * 3
    assert [browser.call("GET", path)[0] for path in ("/codes", "/sessions")] == [403, 403]
    assert browser.call("POST", "/grants", GRANT)[0] == 403


@pytest.mark.parametrize(("scheme", "address"), [("http", "127.0.0.1"), ("https", "192.168.1.7"), ("https", "::1")])
def test_with_admin_people_see_the_page_when_they_are_signed_in(
    hushlist: Hushlist, use: Callable[..., Path], scheme: str, address: str
) -> None:
    use()
    browser = Browser(hushlist, address, scheme)
    assert browser.send("GET", "/").status_code == 200
    seen = ("/api/v1/live", "/api/v1/explain?url=a.example", "/api/v1/home", "/history.csv?of=week")
    assert {browser.send("GET", path).status_code for path in seen} == {401}
    assert browser.sign_in("vera", "wrong") == 401
    assert browser.cookies == {}
    assert browser.sign_in("vera") == 200
    # there is no log
    assert [browser.send("GET", path).status_code for path in seen] == [200, 200, 200, 404]
    assert browser.call("GET", "/session")[1]["name"] == "vera"
    assert browser.call("DELETE", "/session")[0] == 200
    assert browser.send("GET", "/api/v1/live").status_code == 401


def test_nobody_signs_in_over_a_network_in_the_clear(hushlist: Hushlist, use: Callable[..., Path]) -> None:
    use()
    browser = Browser(hushlist, "192.168.1.7")
    assert browser.sign_in("max") == 403
    assert browser.call("GET", "/session")[1]["possible"] is False
    near = Browser(hushlist)
    assert near.sign_in("max") == 200
    browser.cookies = near.cookies  # somebody has read it
    assert browser.send("GET", "/api/v1/live").status_code == 403
    over = Browser(hushlist, "192.168.1.7", "https")
    over.cookies = {"__Host-hushlist": near.cookies["hushlist"]}
    assert over.send("GET", "/api/v1/live").status_code == 401


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
    assert mine.send("GET", "/api/v1/live").status_code == 401
    theirs.cookies["hushlist"] = "chosen"
    assert theirs.send("GET", "/api/v1/live").status_code == 401
    assert theirs.send("GET", "/api/v1/live", Cookie="hushlist=a; hushlist=b").status_code == 401


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
    (person, *_), clock = hushlist.runtime.engine.policy.of("admin"), Clock()
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
    assert overrides_of(hushlist.runtime) is not None
    assert overrides_of(hushlist.runtime).attempt("10.0.0.7", "passphrase", lambda: True, {})  # block pages go on


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
    overrides = overrides_of(hushlist.runtime)
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
    monkeypatch.setattr(sign_in_turns, "MOST_SIGN_INS", 0)
    assert Browser(hushlist).sign_in("max") == 503


def test_where_the_file_cannot_be_used_nobody_is_signed_in(
    browser: Browser, use: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    use()
    assert browser.sign_in("max") == 200
    for path in default_path().parent.glob("admin.sqlite*"):
        path.unlink()
    default_path().write_bytes(b"no database at all, but quite long enough to be taken for one" * 100)
    assert browser.call("GET", "/grants")[0] == browser.send("GET", "/api/v1/live").status_code == 503
    assert browser.sign_in("max") == 503
    assert "admin.sqlite: file is not a database" in caplog.text
    default_path().unlink()
    assert browser.send("GET", "/api/v1/live").status_code == 401
    assert browser.sign_in("max") == 200


# -- other sites, and other roles --------------------------------------------------------------------------------------


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
    "pause": {"client": "group:default", "minutes": 5},
    "internet_off": {"client": "group:default", "minutes": 5},
    "approve": {"minutes": 5},
    "make_code": {"scope": "host", "minutes": 5},
    "add_rule": {"action": "block", "scope": "host", "target": "a.example"},
    "update_list": {"url": "https://lists.example/a"},
    "accept_list": {"url": "https://lists.example/a", "digest": "0" * 64},
    "roll_back_list": {"url": "https://lists.example/a"},
}
QUERIES = {
    "preview": "?scope=host&target=a.example",
    "explain": "?url=a.example",
    "held_back": "?url=https://lists.example/a",
}


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


def test_a_program_acts_with_a_token_until_that_is_revoked(hushlist: Hushlist, use: Callable[..., Path]) -> None:
    use()
    browser = Browser(hushlist, "192.168.1.7", "https")
    with AdminStore(default_path(), time) as store:
        token = store.make_bearer("school", Role.APPROVE, 3600, by="me")
        with_token = {"Authorization": f"Bearer {token}", "X_Hushlist": ""}
        assert browser.call("POST", "/grants", GRANT, **with_token)[0] == 200
        assert browser.call("POST", "/pauses", BODIES["pause"], **with_token)[0] == 403
        assert browser.send("GET", "/api/v1/live", Authorization=f"Bearer {token}").status_code == 200
        (grant,) = browser.call("GET", "/grants", **with_token)[1]["grants"]
        assert grant["by"] == "token:school"
        in_clear = Browser(hushlist, "192.168.1.7")
        assert in_clear.call("GET", "/grants", **with_token)[0] == 403
        assert store.revoke_bearer("school")
        assert browser.call("GET", "/grants", **with_token)[0] == 401
    assert browser.call("GET", "/grants", Authorization="Bearer hushlist_")[0] == 401


# -- what is done ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 20000, b'{"url": ' + b"1" * 5000 + b"}"])
def test_a_body_that_is_no_object_is_refused(manager: Browser, body: bytes) -> None:
    assert manager.call("POST", "/lists/update", body)[0] == 400


@pytest.mark.slow
@each_row(
    ("version", "headers", "is_long"),
    [
        ("HTTP/1.1", {"Content-Length": str(LONGEST_BODY)}, False),
        ("HTTP/1.1", {"Content-Length": str(LONGEST_BODY + 1)}, True),
        ("HTTP/1.1", {"Content-Length": "9" * 5000}, True),
        ("HTTP/1.1", {"Content-Length": "²"}, True),
        ("HTTP/1.1", {"Transfer-Encoding": "chunked"}, True),
        ("HTTP/1.1", {"Transfer-Encoding": "chunked", "Content-Length": "5"}, True),
        ("HTTP/1.1", {}, False),
        ("HTTP/2.0", {}, True),
        ("HTTP/2.0", {"Content-Length": "5"}, False),
    ],
)
@each_row("path", [f"{BASE}/lists/update", "/setup", "/api/v1/live"])
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
        if (awaited := hushlist.requestheaders(flow)) is not None:
            await awaited

    with pytest.raises(exceptions.AddonHalt):
        asyncio.run(begin())
    assert flow.response is not None
    assert (flow.response.status_code == 413) is is_long


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
    last = json.loads(manager.send("GET", "/api/v1/live").content or b"")

    async def end_meanwhile(_: float) -> None:
        with AdminStore(default_path(), time) as store:
            (session,) = store.sessions()
            assert store.end_session(session.id)

    monkeypatch.setattr(hushlist.runtime.statistics, "wait", end_meanwhile)
    assert manager.send("GET", f"/api/v1/live?since={last['last']}&of={last['of']}").status_code == 401


def test_what_another_version_has_done_is_not_undone(manager: Browser, hushlist: Hushlist) -> None:
    with AdminStore(default_path(), time) as store:
        number = store.record(Account("jo", Role.MANAGE, ""), "moved", {}, Role.VIEW, {"kind": "moved"})
    why = {"error": "another version of Hushlist has to undo it"}
    assert manager.call("POST", f"/record/{number}/undo", {}) == (404, why)


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
    assert overrides_of(hushlist.runtime) is not None
    for client in (None, "group:kids", "10.0.1.7", "10.0.0.7", "group:default"):
        overrides_of(hushlist.runtime).block("host", "a.example", None, client=client, by="max")
        overrides_of(hushlist.runtime).grant("host", "b.example", None, client=client, how="command line", by="max")
    told = browser.call("GET", "/client?client=10.0.1.7")[1]
    for kind in ("blocks", "grants"):
        assert [one["client"] for one in told[kind]] == ["10.0.1.7", "group:kids", None]
    assert browser.call("GET", "/client?client=10.9.9.9")[1]["group"] == "default"
    decision = browser.call("GET", "/client?url=%3Chttp://a.example/")[1]["decision"]
    assert (decision["action"], decision["canonical"], decision["why"]) == ("block", "", decision["fault"])


def test_a_whole_number_may_have_a_fraction_of_nothing(manager: Browser) -> None:
    assert manager.call("POST", "/pauses", {"client": "group:default", "minutes": 5.0})[0] == 200
    assert manager.call("POST", "/pauses", {"client": "group:default", "minutes": 5.5})[0] == 400


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
    monkeypatch.setattr(live_feed, "PATIENCE", 60)
    of = json.loads(manager.send("GET", "/api/v1/live").content or b"")["of"]

    async def ask() -> None:
        flow = tflow.tflow(req=http.Request.make("GET", f"http://{HOST}/api/v1/live?since=9&of={of}"))
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
