"""A teacher who may do everything for a class, and nothing else: each way to more."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from time import time
from typing import Any

import pytest

from hushlist.core.policy.groups import DEFAULT
from hushlist.core.routes import Action, Limit, Role
from hushlist.extensions.dashboard.admin_store import AdminStore, default_path
from hushlist.extensions.dashboard.api_description import BASE
from hushlist.extensions.journal.log_record import time_text
from hushlist.extensions.unblock.access_requests import AccessRequest
from hushlist.extensions.unblock.credentials import CodeError
from hushlist.extensions.unblock.overrides import Overrides
from hushlist.extensions.unblock.unblock_handler import overrides_of
from hushlist.proxy.addon import Hushlist
from support.administrators import ACTIONS, Browser, browser, decided, use
from unit.extensions.subscriptions.test_logged_visits import record, write_log
from unit.rows import each_row

__all__ = ["browser", "use"]

pytestmark = pytest.mark.usefixtures("own_folders")

#: 10.7.2.9 fits two groups, and is in the first; 10.9.0.1 is in none
GROUPS = """
timezone: UTC
unblock: {ask: on, codes: on}
groups:
  - {name: exam, clients: [10.7.2.9]}
  - {name: 7a, clients: [10.7.1.0/24]}
  - {name: 7b, clients: [10.7.2.0/24, 'fd00:7b::/64']}
"""
TINA = {"tina": "manage, groups: [7b]", "max": "manage"}
MEMBERS = ("group:7b", "10.7.2.5", "::ffff:10.7.2.5", "fd00:7b::5")
#: whoever is somebody else's, nobody's, everybody, or not sure to be in the class
OTHERS = ("group:7a", "group:exam", f"group:{DEFAULT}", "group:gone", "group:", "10.7.1.5", "10.7.2.9", "10.9.0.1")
OTHERS += ("user:jo", "user:7b", "everybody", "", "client-ABCDEFGH", "7b", "group:7B", "fd00:7a::5", "10.7.2.0/24")

#: the calls that are open, and how; a new call is closed until somebody writes it here
OPEN = {
    ("GET", "/session"): Limit.SELF,
    ("POST", "/session"): Limit.SELF,
    ("DELETE", "/session"): Limit.SELF,
    ("GET", "/home"): Limit.NARROWED,
    ("GET", "/people"): Limit.NARROWED,
    ("GET", "/record"): Limit.NARROWED,
    ("POST", "/record/{number}/undo"): Limit.ITEM,
    ("GET", "/sites"): Limit.WHOM,
    ("GET", "/files"): Limit.WHOM,
    ("GET", "/activity"): Limit.WHOM,
    ("GET", "/grants"): Limit.NARROWED,
    ("POST", "/grants"): Limit.WHOM,
    ("DELETE", "/grants/{number}"): Limit.ITEM,
    ("GET", "/network/names"): Limit.NARROWED,
    ("GET", "/blocks"): Limit.NARROWED,
    ("POST", "/blocks"): Limit.WHOM,
    ("DELETE", "/blocks/{number}"): Limit.ITEM,
    ("POST", "/blackouts"): Limit.WHOM,
    ("GET", "/requests"): Limit.NARROWED,
    ("POST", "/requests/{number}/approve"): Limit.ITEM,
    ("POST", "/requests/{number}/decline"): Limit.ITEM,
    ("GET", "/codes"): Limit.NARROWED,
    ("POST", "/codes"): Limit.WHOM,
    ("DELETE", "/codes/{identity}"): Limit.ITEM,
}
ORDER = {"scope": "host", "target": "blocked.example", "minutes": 5}
#: what each call takes besides whom it is for
BODIES: dict[str, dict[str, Any]] = {"/grants": ORDER, "/blocks": ORDER, "/blackouts": {"minutes": 5}, "/codes": ORDER}
VALUES = {"minutes": 5, "scope": "host", "target": "a.example", "client": "group:7b", "category": "hrn://c.example/a"}
IN_PATHS = {"number": "1", "identity": "0" * 64}


@pytest.fixture
def tina(hushlist: Hushlist, browser: Browser, use: Callable[..., Path], tmp_path: Path) -> Browser:
    use(f"{GROUPS}\nlog: {{folder: {tmp_path / 'log'}, what: all}}\n", TINA)
    assert browser.sign_in("tina") == 200
    return browser


@pytest.fixture
def head(hushlist: Hushlist, tina: Browser) -> Browser:
    """Somebody who may do everything."""
    other = Browser(hushlist)
    assert other.sign_in("max") == 200
    return other


def store_of(hushlist: Hushlist) -> Overrides:
    found = overrides_of(hushlist.runtime)
    assert found is not None
    return found


def ask(hushlist: Hushlist, client: str, group: str, host: str = "blocked.example") -> int:
    address = "10.7.2.5" if client.startswith("user:") else client
    wanted = AccessRequest(0, client, address, group, host, f"http://{host}/", None, "", asked=0.0, until=0.0)
    return store_of(hushlist).ask(wanted).id


# -- which calls -------------------------------------------------------------------------------------------------------


def test_a_call_that_says_nothing_is_closed_to_them(tina: Browser) -> None:
    """Each row is called with what it takes: those that are not in the list above refuse, whatever it is."""
    assert {(one.method, one.path): one.limit for one in ACTIONS if one.limit is not None} == OPEN
    closed = [one for one in ACTIONS if (one.method, one.path) not in OPEN]
    assert len(closed) > 30
    for action in closed:
        path = BASE + action.path.format(**{name: IN_PATHS.get(name, "groups") for name in action.in_path})
        takes = {one.name: VALUES.get(one.name, one.default) for one in action.takes if one.name not in action.in_path}
        body = {name: value for name, value in takes.items() if value is not None}
        headers = {"If-Match": "*"} if action.method == "PUT" else {}
        response = tina.send(action.method, path, body if action.method in ("POST", "PUT") else None, **headers)
        assert (response.status_code, action.path) == (403, action.path), response.text
        assert "administrators of some groups" in response.text


@each_row("page", ["/history.csv?of=week", "/metrics"])
def test_pages_about_all_are_closed_to_them(tina: Browser, head: Browser, page: str) -> None:
    there = Browser(tina.hushlist, "10.7.2.200", "https")
    assert there.send("GET", page).status_code == 401
    assert there.sign_in("tina") == 200
    assert there.send("GET", page).status_code == 403
    assert there.sign_in("max") == 200
    assert there.send("GET", page).status_code in (200, 404)  # there is no log of the week


def test_metrics_are_for_all_who_see_the_page_where_nobody_is_limited(
    hushlist: Hushlist, tina: Browser, use: Callable[..., Path]
) -> None:
    """And programs on the machine of the proxy have them in any case."""
    assert Browser(hushlist).send("GET", "/metrics").status_code == 200
    use(GROUPS)
    assert Browser(hushlist, "10.7.2.200").send("GET", "/metrics").status_code == 200


@each_row(
    ("limit", "method", "path"),
    [(Limit.NARROWED, "GET", "/a"), (Limit.WHOM, "POST", "/a"), (Limit.ITEM, "DELETE", "/a")],
)
def test_no_row_says_that_it_is_limited_and_is_not(limit: Limit, method: str, path: str) -> None:
    def everything() -> str:
        return "all"

    with pytest.raises(ValueError, match="does not limit it so"):
        Action(method, path, Role.VIEW, everything, limit=limit)


# -- for whom ----------------------------------------------------------------------------------------------------------


@each_row(("path", "whom"), [(path, whom) for path in BODIES for whom in MEMBERS])
def test_they_act_for_their_own(tina: Browser, path: str, whom: str) -> None:
    status, found = tina.call("POST", path, {**BODIES[path], "client": whom})
    assert status == 200, found
    assert found["result"]["client"] in ("group:7b", "10.7.2.5", "fd00:7b::5")


@each_row(("path", "whom"), [(path, whom) for path in BODIES for whom in OTHERS])
def test_they_act_for_nobody_else_and_hear_the_same_of_whoever_that_is(
    hushlist: Hushlist, tina: Browser, path: str, whom: str
) -> None:
    status, found = tina.call("POST", path, {**BODIES[path], "client": whom})
    assert (status, found["error"]) == (
        403,
        "that is not for administrators of some groups, or not for clients of other groups",
    )
    assert (store_of(hushlist).active(time()), store_of(hushlist).blocks(), store_of(hushlist).codes()) == ([], [], [])
    assert [one.what for one in AdminStore(default_path(), time).recorded()] == ["signed in"]


def test_a_code_has_to_be_for_somebody_and_an_order_is_no_rule(tina: Browser, tmp_path: Path) -> None:
    before = (tmp_path / "own.yaml").read_bytes()
    for path, body in (("/codes", ORDER), ("/grants", {**ORDER, "minutes": 0, "client": "everybody"})):
        assert tina.call("POST", path, body)[0] == 403
    assert (tmp_path / "own.yaml").read_bytes() == before


@each_row("path", ["/sites", "/files", "/activity"])
def test_they_see_the_records_of_their_own(tina: Browser, tmp_path: Path, path: str) -> None:
    """An address was somebody else's before, and a group's name stands in other groups' addresses."""
    visits = [record("own.example", "10.7.2.5", 10, "7b"), record("before.example", "10.7.2.5", 20, "7a")]
    visits += [record("exam.example", "10.7.2.9", 30, "exam"), record('x"group": "7b"', "10.7.1.5", 40, "7a")]
    now = time()
    files = [{"media_type": str(visit["url"])} for visit in visits]
    times = [time_text(now - place / 100) for place in range(len(visits))]
    lines = [{**visit, "file": file, "time": at} for visit, file, at in zip(visits, files, times, strict=True)]
    write_log(tmp_path / "log", lines)
    for whom in MEMBERS:
        found = tina.send("GET", f"{BASE}{path}?whom={whom}").text or ""
        assert "own.example" in found or whom == "fd00:7b::5", whom
        assert not [one for one in ("before", "exam.", '"7a"', "10.7.1.5") if one in found]
    hosts = ("&most=1&host=before.example", "&host=never.example") if path == "/activity" else ()
    for more in ("", *hosts):
        assert '"is_all": true' in (tina.send("GET", f"{BASE}{path}?whom=10.7.2.5{more}").text or ""), more
    for whom in OTHERS:
        assert tina.send("GET", f"{BASE}{path}?whom={whom}").status_code == 403, whom
    for more in ("reference=x", "host=exam.example", "day=2026-11-29"):
        assert tina.send("GET", f"{BASE}{path}?{more}").status_code in (400, 403)


# -- what there is -----------------------------------------------------------------------------------------------------


def test_they_see_and_end_what_is_ordered_for_their_own_alone(hushlist: Hushlist, tina: Browser, head: Browser) -> None:
    """By numbers and ids that others have seen: what is not theirs is not there."""
    for whom in ("group:7b", "10.7.2.5", "group:7a", "10.7.2.9", "10.9.0.1", "everybody", "user:jo"):
        for path in ("/grants", "/blocks", "/codes"):
            target = {"/blocks": "b.example"}.get(path, "a.example")
            order = {**ORDER, "target": target, "client": "" if (path, whom) == ("/codes", "everybody") else whom}
            assert head.call("POST", path, order)[0] == 200
    for path, name in (("/grants", "grants"), ("/blocks", "blocks"), ("/codes", "codes")):
        everything, own = (one.call("GET", path)[1][name] for one in (head, tina))
        assert len(everything) == 7
        assert {one["client"] for one in own} == {"group:7b", "10.7.2.5"}
        for one in everything:
            status, found = tina.call("DELETE", f"{path}/{one['id']}")
            assert status == (200 if one in own else 404), one
            assert (
                one in own
                or found["error"] == tina.call("DELETE", f"{path}/{'f' * 64 if name == 'codes' else 999}")[1]["error"]
            )
        assert len(head.call("GET", path)[1][name]) == 5


def test_they_answer_what_their_own_ask_for_alone(hushlist: Hushlist, tina: Browser, head: Browser) -> None:
    """Who was in another class when asking, or is by now, is somebody else's; so is who may be in another group."""
    mine = [ask(hushlist, "10.7.2.5", "7b"), ask(hushlist, "fd00:7b::5", "7b")]
    others = [
        ask(hushlist, *one) for one in (("10.7.1.5", "7a"), ("10.7.2.6", "7a"), ("10.7.1.6", "7b"), ("10.7.2.9", "7b"))
    ]
    others += [ask(hushlist, "10.9.0.1", DEFAULT), ask(hushlist, "user:jo", "7b"), 999]
    for place in ("/requests", "/home"):
        assert {one["id"] for one in tina.call("GET", place)[1]["requests"]} == {*mine}
    for number in others:
        for path, body in (("approve", {"minutes": 5}), ("decline", {})):
            status, found = tina.call("POST", f"/requests/{number}/{path}", body)
            assert (status, found["error"]) == (404, "it is not there, or not for clients of your groups")
    assert tina.call("POST", f"/requests/{mine[0]}/approve", {"minutes": 5})[1]["result"]["client"] == "10.7.2.5"
    assert tina.call("POST", f"/requests/{mine[1]}/decline", {})[0] == 200
    assert len(head.call("GET", "/requests")[1]["requests"]) == len(others) - 1


def test_they_see_their_own_record_and_undo_what_it_has(tina: Browser, head: Browser) -> None:
    of_head = [head.call("POST", "/blackouts", {"client": one, "minutes": 5})[1]["recorded"] for one in MEMBERS[:2]]
    of_head += [head.call("POST", "/grants", {**ORDER, "client": "group:7a"})[1]["recorded"]]
    own = tina.call("POST", "/grants", {**ORDER, "client": "group:7b"})[1]["recorded"]
    assert [one["id"] for one in tina.call("GET", "/record")[1]["record"]] == [own]
    assert [tina.call("POST", f"/record/{number}/undo", {})[0] for number in (*of_head, 1, 2, 999)] == [404] * 6
    assert tina.call("POST", f"/record/{own}/undo", {})[0] == 200
    assert tina.call("GET", "/grants")[1]["grants"] == []
    assert len(head.call("GET", "/blocks")[1]["blocks"]) == 2


def test_home_and_people_name_nothing_of_others(hushlist: Hushlist, tina: Browser, head: Browser) -> None:
    for whom in ("group:7a", "everybody", "group:7b"):
        assert head.call("POST", "/blackouts", {"client": whom, "minutes": 5})[0] == 200
    ask(hushlist, "10.7.1.5", "7a", "secret.example")
    decided(hushlist, "http://blocked.example/", "10.7.1.5")
    (own,) = tina.call("GET", "/people")[1]["people"]
    assert (own["name"], [one["client"] for one in own["blocks"]]) == ("7b", ["group:7b"])
    home = tina.call("GET", "/home")[1]
    assert (home["troubles"], home["requests"], home["checked"], home["would_block"]) == ([], [], None, 0)
    told = json.dumps([own, home])
    assert not [word for word in ("7a", "exam", "10.7.1", "secret") if word in told]
    assert tina.call("GET", "/session")[1]["groups"] == ["7b"]
    assert "groups" not in head.call("GET", "/session")[1]


def test_where_a_quota_stands_in_the_policy_is_for_those_who_may_see_it(
    hushlist: Hushlist, tina: Browser, use: Callable[..., Path]
) -> None:
    """A group may have the quotas of everybody, in a file with other groups."""
    use(f"{GROUPS}\nquotas: {{'hrn://c.example/fun': 30}}\n", TINA)
    head = Browser(hushlist)
    assert head.sign_in("max") == 200
    everybody = {one["name"]: one["quotas"][0]["use"] for one in head.call("GET", "/people")[1]["people"]}
    (own,) = tina.call("GET", "/people")[1]["people"]
    (quota,) = own["quotas"]
    assert everybody["7b"].keys() - quota["use"].keys() == {"source", "line"}
    assert quota["use"].items() <= everybody["7b"].items()


def test_a_pseudonym_stands_for_whom_it_stands_and_is_told_of_nobody(
    hushlist: Hushlist, tina: Browser, use: Callable[..., Path]
) -> None:
    use(f"{GROUPS}\nlog: {{clients: pseudonym}}\n", TINA)
    for client in ("10.7.1.5", "10.7.2.5"):
        decided(hushlist, "http://blocked.example/", client)
    hushlist.runtime.statistics.count()
    head = Browser(hushlist)
    assert head.sign_in("max") == 200
    shown = {one["group"]: one["client"] for one in head.call("GET", "/devices")[1]["devices"]}
    assert shown["7b"].startswith("client-")
    status, found = tina.call("POST", "/grants", {**ORDER, "client": shown["7b"]})
    assert (status, found["result"]["client"]) == (200, shown["7b"])
    errors = [tina.call("POST", "/grants", {**ORDER, "client": whom}) for whom in (shown["7a"], "client-AAAAAAAA")]
    assert (errors[0], errors[0][0]) == (errors[1], 403)
    ask(hushlist, "10.7.2.5", "7b")
    (asked,) = tina.call("GET", "/requests")[1]["requests"]
    assert asked["client"] == shown["7b"]
    assert "10.7." not in json.dumps(tina.call("GET", "/grants"))


# -- after edits, and by role ------------------------------------------------------------------------------------------


@each_row(
    ("groups", "has"),
    [
        ("- {name: 7b, clients: [10.7.9.0/24]}", {"group:7b": 200, "10.7.2.5": 403, "10.7.9.5": 200}),
        ("- {name: 7b, clients: [10.7.2.0/24], ports: [8081]}", {"group:7b": 200, "10.7.2.5": 403}),
        ("- {name: staff, users: [eva]}\n- {name: 7b, clients: [10.7.2.0/24]}", {"group:7b": 200, "10.7.2.5": 403}),
        (
            "- {name: 7b, users: [jo]}\n- {name: staff, users: [eva]}",
            {"user:jo": 200, "user:eva": 403, "10.7.2.5": 403},
        ),
        ("- {name: staff, clients: [10.1.0.0/16]}\n- {name: 7b, users: [jo]}", {"group:7b": 200, "user:jo": 403}),
    ],
)
def test_whose_clients_are_is_as_the_policy_says_now(
    tina: Browser, use: Callable[..., Path], groups: str, has: dict[str, int]
) -> None:
    use(f"unblock: {{codes: on}}\ngroups:\n{groups}\n", TINA)
    assert {whom: tina.call("POST", "/grants", {**ORDER, "client": whom})[0] for whom in has} == has


def test_a_group_that_the_policy_has_no_more_gives_nothing(hushlist: Hushlist, tina: Browser, head: Browser) -> None:
    """The policy's reader refuses such a policy; were it in force by another way, nothing would be theirs."""
    assert tina.call("POST", "/grants", {**ORDER, "client": "group:7b"})[0] == 200
    engine = hushlist.runtime.engine
    assert engine is not None
    groups = tuple(one for one in engine.policy.groups if one.name != "7b")
    engine.policy = engine.policy._replace(groups=groups)
    assert tina.call("GET", "/grants")[1]["grants"] == tina.call("GET", "/people")[1]["people"] == []
    assert tina.call("POST", "/grants", {**ORDER, "client": "group:7b"})[0] == 403
    assert tina.call("GET", "/session")[1]["groups"] == tina.call("GET", "/record")[1]["record"] == []


@each_row(
    ("role", "statuses"),
    [("view", (403, 403, 403)), ("approve", (200, 403, 403)), ("manage", (200, 200, 200))],
)
def test_the_role_counts_as_ever(
    browser: Browser, use: Callable[..., Path], role: str, statuses: tuple[int, ...]
) -> None:
    use(GROUPS, {"tina": f"{role}, groups: 7b"})
    assert browser.sign_in("tina") == 200
    orders = ({**ORDER, "client": "group:7b"}, {**ORDER, "minutes": 0, "client": "group:7b"})
    found = [browser.call("POST", "/grants", order)[0] for order in orders]
    found.append(browser.call("POST", "/blackouts", {"client": "group:7b", "minutes": 5})[0])
    assert tuple(found) == statuses


def test_whoever_signs_in_next_has_their_groups(hushlist: Hushlist, tina: Browser, use: Callable[..., Path]) -> None:
    """A limit that is written later holds for who is signed in; a session is nobody else's."""
    use(GROUPS, {"tina": "manage"})
    assert tina.call("GET", "/devices")[0] == 200
    use(GROUPS, TINA)
    assert tina.call("GET", "/devices")[0] == 403


def test_a_class_s_code_opens_for_one_of_the_class_once(hushlist: Hushlist, tina: Browser) -> None:
    """Not for the whole class, and for nobody of another one."""
    text = tina.call("POST", "/codes", {**ORDER, "client": "group:7b"})[1]["result"]["code"]
    store, wanted = store_of(hushlist), {"host": "blocked.example"}
    with pytest.raises(CodeError, match="somebody else's"):
        store.redeem(text, "10.7.1.5", wanted, ("10.7.1.5", "group:7a"))
    assert store.redeem(text, "10.7.2.5", wanted, ("10.7.2.5", "group:7b")).client == "10.7.2.5"
    with pytest.raises(CodeError, match="used"):
        store.redeem(text, "10.7.2.6", wanted, ("10.7.2.6", "group:7b"))
