"""What the page shows of now: what holds for whom, who waits, and what somebody should look at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hushlist.extensions.subscriptions.list_store import ListStore
from hushlist.proxy.addon import Hushlist
from support.administrators import Browser, ask, browser, decided, store, use

__all__ = ["browser", "store", "use"]

FAMILY = """
timezone: UTC
log: on
unblock: {ask: on}
quotas: {'hrn://c.example/fun': 30}
schedules: {bedtime: {times: 00:00-24:00}, lessons: {days: mon-fri, times: 08:00-13:00}}
groups:
  - {name: Mia, clients: [10.0.0.7], default: {action: block, during: bedtime, otherwise: pass}}
  - name: Leo
    users: [leo]
    clients: [10.0.0.0/24]
    categories: {'hrn://c.example/ads': {action: block, during: lessons}}
"""


def test_what_holds_for_each_and_what_was_ordered(
    hushlist: Hushlist, browser: Browser, use: Callable[..., Path]
) -> None:
    use(FAMILY)
    assert browser.sign_in("max") == 200
    for path, order in (
        ("/blackouts", {"client": "group:Mia", "minutes": 30}),
        ("/pauses", {"client": "user:leo", "minutes": 5}),
        ("/extensions", {"client": "group:Mia", "category": "hrn://c.example/fun", "minutes": 15}),
    ):
        assert browser.call("POST", path, order)[0] == 200
    mia, leo, rest = browser.call("GET", "/people")[1]["people"]
    assert [one["name"] for one in (mia, leo, rest)] == ["Mia", "Leo", "default"]
    assert [one["is_rest"] for one in (mia, leo, rest)] == [False, False, True]
    assert (mia["members"], leo["members"]) == (["10.0.0.7"], ["user:leo", "10.0.0.0/24"])
    assert (mia["default"], mia["closing"]) == ("block", ["bedtime"])
    assert [one["scope"] for one in mia["blocks"]] == ["everything"]
    assert [one["scope"] for one in leo["grants"]] == ["everything"]
    assert rest["blocks"] == rest["grants"] == []
    (quota,) = mia["quotas"]
    assert (quota["whom"], quota["of"], quota["use"]["limit"]) == ("group:Mia", None, 45)
    assert [one["category"] for one in leo["categories"]] == ["hrn://c.example/ads"]
    assert [one["name"] for one in leo["schedules"]] == ["lessons"]


def test_home_says_who_waits_and_what_to_look_at(
    hushlist: Hushlist, browser: Browser, use: Callable[..., Path], tmp_path: Path
) -> None:
    use(FAMILY)
    assert browser.sign_in("vera") == 200
    home = browser.call("GET", "/home")[1]
    assert (home["mode"], home["kept"], home["clients"], home["zone"]) == ("block", "noted", "keep", "UTC")
    assert home["requests"] == []
    assert "devices" not in {one["kind"] for one in home["troubles"]}
    ask(hushlist, "blocked.example")
    assert decided(hushlist, "http://blocked.example/", "192.168.9.9") == 403
    hushlist.runtime.statistics.count()
    home = browser.call("GET", "/home")[1]
    assert [one["host"] for one in home["requests"]] == ["blocked.example"]
    assert [(one["kind"], one["name"]) for one in home["troubles"] if one["kind"] == "devices"] == [("devices", "1")]
    assert ("192.168.9.9", "default", 1) in {
        (one["client"], one["group"], one["requests"]) for one in browser.call("GET", "/devices")[1]["devices"]
    }


def test_a_list_that_is_held_back_is_among_it(store: ListStore, browser: Browser) -> None:
    troubles = browser.call("GET", "/home")[1]["troubles"]
    assert [(one["kind"], one["said"]) for one in troubles if one["kind"] == "held"] == [("held", "it is odd")]


def test_so_is_a_file_that_somebody_has_broken(hushlist: Hushlist, browser: Browser, use: Callable[..., Path]) -> None:
    own = use(FAMILY)
    engine = hushlist.runtime.engine
    assert engine is not None
    engine.policy = engine.policy._replace(held={own: "held back: it cannot be read"})
    assert browser.sign_in("vera") == 200
    troubles = browser.call("GET", "/home")[1]["troubles"]
    assert troubles == [{"kind": "held", "name": "own.yaml", "said": "held back: it cannot be read"}]


def test_home_says_what_a_dry_run_would_block(hushlist: Hushlist, browser: Browser, use: Callable[..., Path]) -> None:
    use(f"{FAMILY}mode: tag\n")
    assert browser.sign_in("vera") == 200
    assert browser.call("GET", "/home")[1]["would_block"] == 0
    decided(hushlist, "http://blocked.example/")
    assert browser.call("GET", "/home")[1]["would_block"] == 1


def test_a_week_is_told_by_the_clock_of_the_policy_with_who_goes_by_each_schedule(
    browser: Browser, use: Callable[..., Path]
) -> None:
    use(FAMILY)
    assert browser.sign_in("vera") == 200
    week = browser.call("GET", "/week")[1]
    bedtime, lessons = week["schedules"]
    assert (bedtime["name"], bedtime["groups"], bedtime["closing"]) == ("bedtime", ["Mia"], ["Mia"])
    assert (lessons["name"], lessons["groups"], lessons["closing"]) == ("lessons", ["Leo"], [])
    assert bedtime["spans"] == [[0, 7 * 1440]]
    assert lessons["spans"] == [[day * 1440 + 480, day * 1440 + 780] for day in range(5)]
