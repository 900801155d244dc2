"""The live page: who may see it, and what it answers, in mitmproxy's own test context."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
from collections.abc import Callable
from html import escape, unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from mitmproxy import exceptions, http
from mitmproxy.test import taddons

from hushlist.core.policy.policy_file import PolicyError
from hushlist.core.policy.proxy_settings import FailureCause
from hushlist.extensions.dashboard import dashboard_data, dashboard_server, live_feed
from hushlist.proxy.addon import Hushlist
from hushlist.proxy.languages import TEXTS, live_texts
from support.flows import flow_of
from support.mitmproxied import GUARDS, own_answer
from unit.rows import each_row

DATA = {"X-Hushlist": "live"}


@pytest.fixture
def hushlist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hushlist:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(live_feed, "PATIENCE", 0.01)
    monkeypatch.setattr(live_feed, "GATHER", 0)
    return Hushlist()


@pytest.fixture
def use(context: taddons.context, hushlist: Hushlist, tmp_path: Path) -> Callable[..., None]:
    """Put a policy in force, with some more lines."""

    def use(more: str = "", mode: str = "block") -> None:
        (tmp_path / "ads.yaml").write_text("title: Ads\nrules: [{expression: blocked.example, reason: <b>Ads</b>}]\n")
        (tmp_path / "policy.yaml").write_text(f"{more}\nlayers:\n- {{name: lists, lists: [ads.yaml]}}\n")
        context.configure(hushlist, hushlist_policy=str(tmp_path / "policy.yaml"), hushlist_mode=mode)

    return use


def answer_of(hushlist: Hushlist, flow: http.HTTPFlow) -> http.Response:
    """What the page answers; no other addon sees the flow."""
    response = own_answer(hushlist, flow)
    for hook in (hushlist.request, hushlist.response, hushlist.error):
        with pytest.raises(exceptions.AddonHalt):
            hook(flow)
    return response


@pytest.mark.parametrize(
    "url", ["http://x.hushlist.internal/", "https://a.X.hushlist.internal/api/v1/session", "http://hushlist.internal./"]
)
def test_no_host_below_the_page_s_own_is_anybody_else_s(hushlist: Hushlist, use: Callable[..., None], url: str) -> None:
    use()
    answer = answer_of(hushlist, flow_of(url))
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def get(hushlist: Hushlist, path: str = "/", **headers: str) -> http.Response:
    return answer_of(hushlist, flow_of(f"http://{dashboard_server.HOST}{path}", **headers))


def data(hushlist: Hushlist, query: str = "") -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(get(hushlist, f"/api/v1/live{query}", **DATA).content or b"")
    return plain


def decide(hushlist: Hushlist, url: str, client: str = "10.0.0.7") -> None:
    hushlist.requestheaders(flow_of(url, client=client))


# -- who may see it ----------------------------------------------------------------------------------------------------


def test_it_says_how_the_proxy_is(hushlist: Hushlist, use: Callable[..., None]) -> None:
    use()
    for path in ("/healthz", "/readyz"):
        response = answer_of(hushlist, flow_of(f"http://{dashboard_server.HOST}{path}"))
        assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
        assert json.loads(response.content or b"")["ok"] is True


@each_row("scheme", ["http", "https"])
@each_row("mode", ["block", "tag", "off"])
def test_it_is_there_for_whoever_is_on_the_machine_itself(
    hushlist: Hushlist, use: Callable[..., None], scheme: str, mode: str
) -> None:
    use(mode=mode)
    for path in ("/", "/app.js", "/page.css", "/icon.svg", "/metrics"):
        response = answer_of(hushlist, flow_of(f"{scheme}://{dashboard_server.HOST}{path}"))
        assert response.status_code == 200
        assert response.content
        assert "default-src 'none'" in response.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in response.headers["content-security-policy"]
        assert {name: response.headers.get(name) for name in GUARDS} == GUARDS
        assert not [name for name in response.headers if name.lower().startswith("access-control-")]


@each_row("language", TEXTS)
def test_the_page_is_in_the_reader_s_language_and_its_texts_are_text(
    hushlist: Hushlist, use: Callable[..., None], language: str
) -> None:
    use()
    response = get(hushlist, Accept_Language=language)
    assert (response.headers["content-language"], response.headers["vary"]) == (language, "Accept-Language")
    text = response.get_text() or ""
    (told,) = re.findall('<body data-texts="([^"]*)">', text)
    assert json.loads(unescape(told)) == live_texts()[language]
    assert f'<html lang="{language}" dir="{TEXTS[language]["dir"]}">' in text
    assert f"<span>{escape(live_texts()[language]['activity'], quote=False)}</span>" in text


@pytest.mark.usefixtures("context")
def test_it_is_there_where_there_is_no_policy(hushlist: Hushlist) -> None:
    assert get(hushlist).status_code == 200
    assert data(hushlist)["policy"]["file"] is None


ALL_PATHS = (
    "/",
    "/app.js",
    "/kit.js",
    "/api/v1/session",
    "/api/v1/openapi.json",
    "/page.css",
    "/icon.svg",
    "/api/v1/live",
    "/api/v1/explain?url=a.example",
    "/metrics",
    "/none",
)


@each_row("path", ALL_PATHS[1:])
@each_row(
    ("more", "client"),
    [("", "192.168.1.7"), ("live: off", "127.0.0.1"), ("live: {clients: [10.0.0.0/8]}", "192.168.1.7")],
)
def test_for_anybody_else_it_is_a_host_that_is_blocked(
    hushlist: Hushlist, use: Callable[..., None], path: str, more: str, client: str
) -> None:
    use(more)
    response = answer_of(hushlist, flow_of(f"http://{dashboard_server.HOST}{path}", client=client, **DATA))
    other = flow_of(f"http://blocked.example{path}", client=client, **DATA)
    hushlist.requestheaders(other)
    assert other.response is not None
    assert response.status_code == other.response.status_code == 403
    assert dict(response.headers).keys() == dict(other.response.headers).keys()
    text = response.get_text() or ""
    assert "Ads" not in text
    assert "lists" not in text


def test_a_parent_s_telephone_is_told_why_and_what_to_do(hushlist: Hushlist, use: Callable[..., None]) -> None:
    use("live: {clients: [10.0.0.0/8]}")
    flow = flow_of(f"http://{dashboard_server.HOST}/", client="192.168.1.7", accept_language="de")
    answer = answer_of(hushlist, flow)
    assert answer.status_code == 403
    assert "Ihre Adresse 192.168.1.7 gehört nicht zu denen" in (answer.text or "")
    assert "Ads" not in (answer.text or "")
    other = answer_of(hushlist, flow_of(f"http://{dashboard_server.HOST}:81/", client="192.168.1.7"))
    assert "192.168.1.7" not in (other.text or "")


def test_where_nobody_may_see_the_page_nothing_is_told(hushlist: Hushlist, use: Callable[..., None]) -> None:
    use("live: off")
    answer = answer_of(hushlist, flow_of(f"http://{dashboard_server.HOST}/", client="127.0.0.1"))
    assert answer.status_code == 403
    assert "127.0.0.1" not in (answer.text or "")


def test_who_names_other_machines_is_not_locked_out_of_the_own(hushlist: Hushlist, use: Callable[..., None]) -> None:
    use("live: {clients: [10.0.0.0/8]}")
    for client, status in (("127.0.0.1", 200), ("::1", 200), ("10.0.0.7", 200), ("192.168.1.7", 403)):
        assert answer_of(hushlist, flow_of(f"http://{dashboard_server.HOST}/", client=client)).status_code == status


def test_a_user_of_the_proxy_may_be_asked_for(hushlist: Hushlist, use: Callable[..., None]) -> None:
    use("live: {clients: [192.168.1.0/24], users: [admin]}")
    for user, status in ((None, 403), ("anna", 403), ("admin", 200)):
        flow = flow_of(f"http://{dashboard_server.HOST}/", client="192.168.1.7")
        if user is not None:
            flow.metadata["proxyauth"] = (user, "password")
        assert answer_of(hushlist, flow).status_code == status


@pytest.mark.slow
@each_row(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"https://{dashboard_server.HOST}"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "script"},
        {"Host": "evil.example"},
        {"Host": f"{dashboard_server.HOST}.evil.example"},
        {"Host": f"me@{dashboard_server.HOST}"},
    ],
)
@each_row("path", ["/", "/api/v1/live", "/metrics", "/app.js"])
def test_no_other_site_s_page_gets_anything(
    hushlist: Hushlist, use: Callable[..., None], headers: dict[str, str], path: str
) -> None:
    use()
    assert get(hushlist, path, **headers, **DATA).status_code == 403


def test_a_link_to_the_page_can_be_followed_but_to_nothing_else_of_it(
    hushlist: Hushlist, use: Callable[..., None]
) -> None:
    use()
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    assert get(hushlist, "/", **link).status_code == 200
    assert get(hushlist, "/metrics", **link).status_code == 403


@pytest.mark.parametrize("path", ["/api/v1/live", "/api/v1/explain?url=a.example"])
def test_data_is_only_for_a_script_of_the_page_itself(hushlist: Hushlist, use: Callable[..., None], path: str) -> None:
    use()
    assert get(hushlist, path).status_code == 403
    assert get(hushlist, path, **DATA).status_code == 200


@each_row(
    ("url", "headers", "status"),
    [
        (f"http://{dashboard_server.HOST}:8080/", {}, 403),
        (f"https://{dashboard_server.HOST}:80/", {}, 403),
        (f"http://{dashboard_server.HOST.upper()}/", {}, 200),
        (f"http://{dashboard_server.HOST}/", {"Host": f"{dashboard_server.HOST}:80"}, 200),
        # a client that does not know of a proxy connects to whatever address the name has for it
        ("http://10.0.0.1/", {"Host": dashboard_server.HOST}, 200),
        ("http://[fd00::1]/", {"Host": dashboard_server.HOST}, 200),
    ],
)
def test_it_goes_by_its_name_and_port_alone(
    hushlist: Hushlist, use: Callable[..., None], url: str, headers: dict[str, str], status: int
) -> None:
    use()
    assert answer_of(hushlist, flow_of(url, **headers)).status_code == status


@each_row("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "CONNECT"])
def test_it_can_only_be_read(hushlist: Hushlist, use: Callable[..., None], method: str) -> None:
    use()
    response = answer_of(hushlist, flow_of(f"http://{dashboard_server.HOST}/", method))
    assert (response.status_code, response.headers["allow"]) == (405, "GET")


@pytest.mark.parametrize("path", ["/nothing", "/app.js/", "/metrics/x", "/history", "/data", "/index.html", "/texts"])
def test_there_is_no_other_page(hushlist: Hushlist, use: Callable[..., None], path: str) -> None:
    use()
    answer = get(hushlist, path, Accept_Language="de")
    assert (answer.status_code, answer.headers["content-language"]) == (404, "de")
    for part in ('<html lang="de" dir="ltr">', 'href="/setup.css"', "Diese Seite gibt es nicht"):
        assert part in (answer.text or "")


def test_a_recording_and_what_is_answered_already_are_left_alone(hushlist: Hushlist, use: Callable[..., None]) -> None:
    use()
    recorded, answered = flow_of(f"http://{dashboard_server.HOST}/"), flow_of(f"http://{dashboard_server.HOST}/")
    recorded.live = False
    answered.response = http.Response.make(407)
    for flow in (recorded, answered):
        assert hushlist.requestheaders(flow) is None
        hushlist.request(flow)
    assert recorded.response is None
    assert answered.response.status_code == 407


def test_where_it_fails_it_says_so_and_nothing_goes_on(
    hushlist: Hushlist, use: Callable[..., None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    use()
    monkeypatch.setattr(live_feed, "metrics", lambda *_: 1 / 0)
    response = get(hushlist, "/metrics")
    assert response.status_code == 500
    assert "ZeroDivisionError" not in (response.get_text() or "")
    assert "the live page failed" in caplog.text


# -- what it shows -----------------------------------------------------------------------------------------------------


def test_decisions_are_shown_once_each_from_the_last_one_seen(hushlist: Hushlist, use: Callable[..., None]) -> None:
    use()
    decide(hushlist, "http://blocked.example/page?secret=1")
    decide(hushlist, "http://fine.example/")
    first = data(hushlist)
    assert [one["url"] for one in first["decisions"]] == [
        "http://blocked.example/page?secret=1",
        "http://fine.example/",
    ]
    blocked = first["decisions"][0]
    assert (blocked["action"], blocked["title"], blocked["reason"]) == ("block", "Ads", "<b>Ads</b>")
    assert blocked["client"] == "10.0.0.7"
    assert first["counts"]["actions"] == {"block": 1, "pass": 1}
    assert first["policy"]["lists"][0]["rules"] == 1
    assert first["policy"]["lists"][0]["title"] == "Ads"
    after = f"?since={first['last']}&of={first['of']}"
    assert data(hushlist, after)["decisions"] == []
    decide(hushlist, "http://new.example/")
    assert [one["number"] for one in data(hushlist, after)["decisions"]] == [3]
    # numbers of another session are none of this one's
    assert len(data(hushlist, "?since=3&of=1.000")["decisions"]) == 3
    assert get(hushlist, "/api/v1/live?since=%D9%A3", **DATA).status_code == 400
    assert [one["number"] for one in data(hushlist, "?most=1")["decisions"]] == [3]


def test_what_is_decided_while_an_answer_is_made_is_in_one_answer(
    hushlist: Hushlist, use: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    use()
    decide(hushlist, "http://blocked.example/1")
    asking = [lambda: decide(hushlist, "http://blocked.example/2")]

    def waiting(*_: object) -> list[object]:
        while asking:
            asking.pop()()
        return []

    monkeypatch.setattr(dashboard_data, "waiting", waiting)
    first = data(hushlist)
    second = data(hushlist, f"?since={first['last']}&of={first['of']}")
    assert [one["url"][-1] for answer in (first, second) for one in answer["decisions"]] == ["1", "2"]


def test_the_page_s_own_requests_are_no_decisions(hushlist: Hushlist, use: Callable[..., None]) -> None:
    use()
    get(hushlist)
    assert data(hushlist)["counts"]["total"] == 0


@pytest.mark.parametrize(("clients", "shown"), [("keep", "10.0.0.7"), ("pseudonym", "client-"), ("drop", None)])
def test_it_shows_what_the_log_may_say(
    hushlist: Hushlist, use: Callable[..., None], clients: str, shown: str | None
) -> None:
    use(f"log: {{queries: drop, clients: {clients}}}")
    decide(hushlist, "http://blocked.example/page?secret=1")
    plain = data(hushlist)
    (one,) = plain["decisions"]
    assert one["url"] == "http://blocked.example/page"
    assert one.get("client", "")[: len(shown or "")] == (shown or "")
    assert ("client" in one) is (shown is not None)
    assert "secret" not in json.dumps(plain)
    assert ("10.0.0.7" in json.dumps(plain)) is (clients == "keep")
    assert [bool(each["client"]) for each in plain["counts"]["clients"]] == ([] if clients == "drop" else [True])


def test_a_change_that_is_not_used_is_told(hushlist: Hushlist, use: Callable[..., None], tmp_path: Path) -> None:
    use()
    (tmp_path / "policy.yaml").write_text("layers: nonsense")
    with pytest.raises(PolicyError):
        hushlist.policy_watch._read(hushlist.policy_watch._background, tmp_path / "policy.yaml")
    policy = data(hushlist)["policy"]
    assert "policy.yaml:1" in policy["problem"]
    assert policy["reading"]["problem"] == policy["problem"]
    assert policy["readings"] == {"used": 1, "refused": 1}
    assert policy["rules"] == 1


def test_it_waits_for_a_decision(hushlist: Hushlist, use: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    use()
    monkeypatch.setattr(live_feed, "PATIENCE", 60)
    of = data(hushlist)["of"]

    async def watch() -> http.HTTPFlow:
        flow = flow_of(f"http://{dashboard_server.HOST}/api/v1/live?since=0&of={of}", **DATA)
        awaited = hushlist.requestheaders(flow)
        assert awaited is not None
        task = asyncio.ensure_future(awaited)
        while not hushlist.runtime.statistics.waiting:
            await asyncio.sleep(0)
        decide(hushlist, "http://blocked.example/")
        with pytest.raises(exceptions.AddonHalt):
            await asyncio.wait_for(task, 10)
        return flow

    response = asyncio.run(watch()).response
    assert response is not None
    assert [one["url"] for one in json.loads(response.content or b"")["decisions"]] == ["http://blocked.example/"]


def test_pages_that_wait_for_a_database_keep_nothing_else_waiting(
    hushlist: Hushlist, use: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    use()
    is_over = threading.Event()
    monkeypatch.setattr(dashboard_data, "waiting", lambda *_: is_over.wait(30) and [])

    async def watch() -> str:
        flows = [flow_of(f"http://{dashboard_server.HOST}/api/v1/live", **DATA) for _ in range(40)]
        pages = [asyncio.ensure_future(hushlist.requestheaders(flow)) for flow in flows]  # type: ignore[arg-type]
        await asyncio.sleep(0.1)
        try:
            return await asyncio.wait_for(asyncio.to_thread(lambda: "a policy is read"), 5)
        finally:
            is_over.set()
            await asyncio.gather(*pages, return_exceptions=True)

    assert asyncio.run(watch()) == "a policy is read"


# -- explaining --------------------------------------------------------------------------------------------------------


def explained(hushlist: Hushlist, query: str) -> tuple[int, dict[str, Any]]:
    response = get(hushlist, f"/api/v1/explain?{query}", **DATA)
    return response.status_code, json.loads(response.content or b"")


def test_a_url_is_explained_for_somebody_at_some_time(hushlist: Hushlist, use: Callable[..., None]) -> None:
    use(
        "timezone: Europe/Berlin\nschedules: {night: {times: 22:00-06:00}}\n"
        "groups:\n- {name: staff, users: [jo]}\n"
        "- {name: kids, clients: [10.0.0.7], layers: [{name: lists, during: night}]}"
    )
    status, found = explained(hushlist, "url=http%3A%2F%2Fwww.Blocked.example%2F&client=10.0.0.7&at=2026-12-24T22:30")
    assert (status, found["group"], found["decision"]["action"]) == (200, "kids", "block")
    assert found["until"] == "2026-12-25T06:00:00+01:00"
    assert found["forms"][0]["expressions"][-1]["expression"] == "blocked.example/"
    _, found = explained(hushlist, "url=http%3A%2F%2Fwww.Blocked.example%2F&client=10.0.0.7&at=2026-12-24T20:30")
    assert found["decision"]["action"] == "pass"
    groups = {who: explained(hushlist, f"url=a.example&{who}")[1]["group"] for who in ("user=%20jo", "user=x", "user=")}
    assert groups == {"user=%20jo": "staff", "user=x": "default", "user=": "default"}
    told = data(hushlist)
    assert (told["counts"]["total"], told["fleet"]) == (0, [])


def test_it_says_what_is_left_of_the_quotas_of_a_client(hushlist: Hushlist, use: Callable[..., None]) -> None:
    use("quotas: {hrn://c.example/games: 60}")
    _, found = explained(hushlist, "url=http%3A%2F%2Fa.example%2F&client=10.0.0.7")
    (quota,) = found["quotas"]
    assert (quota["category"], quota["left"], quota["limit"]) == ("hrn://c.example/games", 60, 60)


@pytest.mark.parametrize(
    "typed",
    [
        "<http://www.Blocked.example/>",
        '"http://www.blocked.example/"',
        "URL: www.blocked.example",
        "<www.bloc\nked.example>",
    ],
)
def test_what_delimits_a_typed_url_is_no_part_of_it(hushlist: Hushlist, use: Callable[..., None], typed: str) -> None:
    """RFC 3986, Appendix C."""
    use()
    status, found = explained(hushlist, f"url={quote(typed)}")
    assert (status, found["decision"]["action"]) == (200, "block")
    assert found["forms"][0]["expressions"][-1]["expression"] == "blocked.example/"


@each_row(
    ("query", "why"),
    [
        ("url=%3Chttp://a.example", "< stands on one side alone"),
        ("url=%2568ttp://blocked.example/", "no scheme has an escape"),
        ("url=%3C%3E", "there is no address"),
        ("", "'url' is missing"),
        ("url=" + "a" * 9000, "text of 1 to 8192 characters"),
        ("url=mailto:me", "it cannot be read"),
        ("url=a.example&at=yesterday", "a time is written as"),
        ("url=a.example&at=9999-12-31T23:59-14:00", "a time is written as"),
        ("url=a.example&client=printer", "a client is an address"),
    ],
)
def test_what_cannot_be_explained_says_why(hushlist: Hushlist, use: Callable[..., None], query: str, why: str) -> None:
    use()
    status, found = explained(hushlist, query)
    assert status == 400
    assert why in found["error"]


# -- the end -----------------------------------------------------------------------------------------------------------


def test_the_end_says_what_the_session_came_to(
    hushlist: Hushlist, use: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    use("log: {queries: drop}")
    for url in ("http://blocked.example/a?secret", "http://www.blocked.example/", "http://fine.example/"):
        decide(hushlist, url)
    hushlist.runtime.failure_policy.passes(FailureCause.ERROR)
    with caplog.at_level(logging.INFO):
        hushlist.done()
    text = caplog.text
    assert "3 requests decided: 2 blocked, 1 passed without a rule" in text
    assert "stopped by list: Ads 2" in text
    assert "stopped by host: " in text
    assert "blocked.example/ (" in text
    assert "the filter failed: 1 refused, 0 passed undecided" in text
    assert "secret" not in text


def test_what_a_dry_run_let_pass_is_said_as_that(
    hushlist: Hushlist, use: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    use("mode: tag")
    for url in ("http://blocked.example/", "http://fine.example/"):
        decide(hushlist, url)
    with caplog.at_level(logging.INFO):
        hushlist.done()
    assert "2 requests decided: 1 passed without a rule, would block 1, which the dry run let pass" in caplog.text
    assert "would be stopped by list: Ads 1" in caplog.text


def test_where_nothing_was_decided_the_end_says_nothing(
    hushlist: Hushlist, use: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    use()
    caplog.clear()
    with caplog.at_level(logging.INFO):
        hushlist.done()
    assert "decided" not in caplog.text


def test_the_data_of_the_page_are_all_there(hushlist: Hushlist, context: taddons.context, tmp_path: Path) -> None:
    (tmp_path / "ads.yaml").write_text(
        "title: Ads\nrules:\n- {expression: blocked.example, category: 'hrn://c.example/x'}\n- www.blocked.example\n"
    )
    (tmp_path / "policy.yaml").write_text(
        "log: {folder: log}\ngroups: [{name: tried, clients: [10.0.0.8], mode: tag}]\n"
        "layers:\n- {name: lists, lists: [ads.yaml]}\n"
    )
    context.configure(hushlist, hushlist_policy=str(tmp_path / "policy.yaml"), hushlist_mode="block")
    decide(hushlist, "http://www.blocked.example/a")
    decide(hushlist, "http://blocked.example/b", "10.0.0.8")
    decide(hushlist, "http://fine.example/")
    unreadable = flow_of("http://fine.example/", client="10.0.0.7")
    unreadable.request.data.host = "a%2fb"
    hushlist.requestheaders(unreadable)
    plain = data(hushlist)
    rules = str(tmp_path / "ads.yaml")
    counts, policy, durations = plain["counts"], plain["policy"], plain["durations"]
    assert counts == {
        "total": 4,
        "actions": {"block": 2, "pass": 1},
        "would_block": 1,
        "faults": 1,
        "lists": [{"list": "Ads", "file": rules, "action": "block", "count": 2}],
        "categories": [{"category": "hrn://c.example/x", "action": "block", "count": 1}],
        "clients": [
            {"client": "10.0.0.7", "user": None, "count": 3},
            {"client": "10.0.0.8", "user": None, "count": 1},
        ],
        "hosts": [{"host": host, "count": 1} for host in ("www.blocked.example", "blocked.example")],
        "rules": [
            {"rule": f"{rules}:4", "pattern": "www.blocked.example/", "count": 1},
            {"rule": f"{rules}:3", "pattern": "blocked.example/", "count": 1},
        ],
        "files": [],
    }
    assert policy | {"index": "", "octets": 0, "zone": "", "lists": [], "reading": {}} == {
        "file": str(tmp_path / "policy.yaml"),
        "mode": "block",
        "rules": 2,
        "index": "",
        "octets": 0,
        "zone": "",
        "groups": [{"name": "tried", "mode": "tag"}, {"name": "default", "mode": "block"}],
        "lists": [],
        "problem": None,
        "reading": {},
        "readings": {"used": 1, "refused": 0},
        "store_fault": None,
    }
    (own,) = policy["lists"]
    assert own | {"modified": 0} == {
        "file": rules,
        "title": "Ads",
        "format": "yaml",
        "layer": "lists",
        "category": None,
        "read": 2,
        "rules": 2,
        "duplicates": 0,
        "refused": 0,
        "modified": 0,
        "size": (tmp_path / "ads.yaml").stat().st_size,
        "warnings": [],
        "held": None,
    }
    assert own["modified"] == pytest.approx((tmp_path / "ads.yaml").stat().st_mtime)
    figures = plain["log"]["figures"]
    assert figures is None or figures["days"] == 30
    assert plain["log"] | {"waiting": 0, "figures": None} == {
        "figures": None,
        "is_on": True,
        "folder": str(tmp_path / "log"),
        "waiting": 0,
        "fault": None,
        "queries": "without-searches",
        "clients": "keep",
    }
    assert sum(durations["histogram"]) == 4
    assert durations["bounds"][:4] == [1, 2, 5, 10]
    assert set(durations["quantiles"]) == {"0.5", "0.9", "0.99"}
    assert durations["slowest"]["duration"] == max(one["duration"] for one in plain["decisions"])
    assert durations["quantiles"]["0.99"] == durations["slowest"]["duration"]
    assert (plain["failures"], len(plain["decisions"])) == (0, 4)
    assert plain["started"] <= plain["now"]
