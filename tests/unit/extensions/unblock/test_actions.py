"""What administrators do at the live page with grants, blocks, requests and codes, and what comes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from time import time
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from hushlist.core.policy.groups import Client
from hushlist.extensions.dashboard.dashboard_server import HOST
from hushlist.extensions.journal.journal import log_of
from hushlist.extensions.unblock import actions
from hushlist.extensions.unblock.credentials import CodeError
from hushlist.extensions.unblock.grants import WARNING
from hushlist.extensions.unblock.unblock_handler import overrides_of
from hushlist.proxy.addon import Hushlist
from hushlist.proxy.flow_request import request_of_flow
from support.administrators import GRANT, MARKUP, Browser, ask, browser, decided, manager, use
from support.flows import flow_of
from support.mitmproxied import own_answer

__all__ = ["browser", "manager", "use"]

pytestmark = pytest.mark.usefixtures("own_folders")


def test_undoing_the_end_of_a_click_on_a_warning_opens_no_more_than_that(manager: Browser, hushlist: Hushlist) -> None:
    overrides = overrides_of(hushlist.runtime)
    assert overrides is not None
    grant = overrides.grant("host", "blocked.example", 3600, client="10.0.0.7", how=WARNING, by="10.0.0.7")
    done = manager.call("DELETE", f"/grants/{grant.id}")[1]
    assert manager.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 200
    assert [one["how"] for one in manager.call("GET", "/grants")[1]["grants"]] == [WARNING]
    assert decided(hushlist, "http://blocked.example/") is not None


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
    assert log_of(hushlist.runtime) is not None
    privacy = log_of(hushlist.runtime).privacy()
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


def test_a_pasted_address_is_that_of_its_host_with_a_word(manager: Browser) -> None:
    word = "it is for all of games.example: the page alone is for the scope url"
    order = {"scope": "host", "target": "https://games.example/play?x=1", "minutes": 5, "client": "10.0.0.7"}
    for path in ("/grants", "/blocks"):
        done = manager.call("POST", path, order)[1]["result"]
        assert (done["target"], done["warning"]) == ("games.example", word)
    rule = {"action": "block", "scope": "host", "target": "games.example/play"}
    done = manager.call("POST", "/rules", rule)[1]["result"]
    assert (done["expression"], done["warning"]) == ("games.example/", word)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"client": "group:nobody"}, "no group"),
        ({"client": ""}, "expected an address"),
        ({"client": "client-EKMX5MBZ"}, "nobody of that name"),
        ({"client": "user:"}, "expected an address"),
        ({"client": "somebody"}, "expected an address"),
        ({"target": ""}, "'target' has to be"),
        ({"scope": "everything"}, "one of host, url, category"),
        ({"scope": "category", "target": "adz"}, "ads"),
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


#: for whom something is blocked, and who of two is stopped then
_STOPPED = {
    "everybody": {"10.0.0.7", "10.0.1.7"},
    "10.0.0.7": {"10.0.0.7"},
    "group:kids": {"10.0.1.7"},
    "user:jo": set(),
}
#: scope and target of a block, a URL that it covers, and its minutes
_BLOCKED = (
    ("host", "fine.example", "http://www.fine.example/", 5),
    ("url", "https://fine.example/a?b", "http://fine.example/a?b&c", 5),
    ("category", "hrn://c.example/ads", "http://tagged.example/", 5),
    ("category", "hrn://c.example/ads", "http://tagged.example/", 0),
)


@pytest.mark.parametrize(
    ("client", "stopped", "scope", "target", "url", "minutes"),
    [
        *((client, stopped, *_BLOCKED[0]) for client, stopped in _STOPPED.items()),
        *(("everybody", _STOPPED["everybody"], *blocked) for blocked in _BLOCKED[1:]),
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
    done = browser.call("POST", "/pauses", {"client": "group:kids", "minutes": 10})[1]
    assert decided(hushlist, "http://any.example/", "10.0.1.7") is None
    assert decided(hushlist, "http://blocked.example/", "10.0.1.7") is None
    assert decided(hushlist, "http://blocked.example/", "10.0.0.7") == 403
    assert browser.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 200
    assert decided(hushlist, "http://any.example/", "10.0.1.7") == 403


def test_the_internet_is_off_for_whom_it_is_meant_and_the_own_pages_stay(
    hushlist: Hushlist, use: Callable[..., Path], browser: Browser
) -> None:
    use("groups: [{name: kids, clients: [10.0.1.0/24], pass-through: [passed.example]}]\nunblock: on")
    assert browser.sign_in("max") == 200
    done = browser.call("POST", "/blackouts", {"client": "group:kids", "minutes": 10, "reason": "Dinner"})[1]
    assert done["result"]["scope"] == "everything"
    for url in ("http://any.example/", "http://10.9.9.9/", "http://passed.example/", "http://allowed.example/x"):
        assert decided(hushlist, url, "10.0.1.7") == 403
        assert decided(hushlist, url, "10.0.0.7") is None
    request = request_of_flow(flow_of("https://passed.example/", client="10.0.1.7"))
    judgement = hushlist.runtime.judge(request, Client("10.0.1.7"), is_connection=True)
    assert judgement is not None and judgement.stops  # noqa: PT018
    assert own_answer(hushlist, flow_of(f"http://{HOST}/setup.css", client="10.0.1.7")).status_code == 200
    # what is unblocked afterwards is open
    given = {"scope": "host", "target": "school.example", "minutes": 5, "client": "group:kids"}
    assert browser.call("POST", "/grants", given)[0] == 200
    assert decided(hushlist, "http://school.example/", "10.0.1.7") is None
    assert browser.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 200
    assert decided(hushlist, "http://any.example/", "10.0.1.7") is None


def test_internet_or_filter_is_off_for_one_device_or_for_all(hushlist: Hushlist, manager: Browser) -> None:
    for client, statuses in (("10.0.1.7", (403, None)), ("everybody", (403, 403))):
        done = manager.call("POST", "/blackouts", {"client": client, "minutes": 10})[1]["result"]
        assert tuple(decided(hushlist, "http://any.example/", own) for own in ("10.0.1.7", "10.0.1.8")) == statuses
        assert manager.call("DELETE", f"/blocks/{done['id']}")[0] == 200
    for off in ("/blackouts", "/pauses"):
        for wrong in ({}, {"minutes": 0}, {"minutes": 5, "until": "morning"}, {"until": "noon"}):
            assert manager.call("POST", off, {"client": "everybody", **wrong})[0] == 400
        made = manager.call("POST", off, {"client": "everybody", "until": "morning"})[1]["result"]
        home = manager.call("GET", "/home")[1]
        shown = datetime.fromtimestamp(made["until"] + 0.5, ZoneInfo(home["zone"]))
        assert f"{shown:%Y-%m-%dT%H:%M}" == home["morning"]
    assert manager.call("POST", "/blackouts", {"client": "group:none", "minutes": 1})[0] == 400


def test_a_code_is_not_taken_for_another_that_is_made_at_the_same_moment(
    manager: Browser, hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch
) -> None:
    overrides = overrides_of(hushlist.runtime)
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
    assert code["until"] - time() == pytest.approx(86400, abs=600)
    texts = [json.dumps(manager.call("GET", path)[1]) for path in ("/codes", "/record")]
    assert not [text for text in texts if made["code"] in text]
    assert manager.call("DELETE", f"/codes/{made['id']}")[0] == 200
    assert manager.call("DELETE", f"/codes/{made['id']}")[0] == 404
    assert manager.call("GET", "/codes")[1] == {"codes": []}
    assert manager.recorded() == ["withdrew a code", "made a code", "signed in"]
    done = manager.call("POST", "/codes", {"scope": "host", "minutes": 5})[1]
    assert manager.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 200
    assert manager.call("GET", "/codes")[1] == {"codes": []}
    assert manager.call("POST", "/codes", {"scope": "host", "minutes": 5, "client": "group:gone"})[0] == 400


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
