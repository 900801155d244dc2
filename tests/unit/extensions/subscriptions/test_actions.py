"""What administrators do at the live page with lists that are fetched, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import time
from urllib.parse import quote

import pytest

from hushlist.extensions.subscriptions.list_store import ListStore
from hushlist.proxy.addon import Hushlist
from support.administrators import LIST, MARKUP, Browser, browser, store, use
from support.proxied import *  # noqa: F403 - its fixtures

__all__ = ["browser", "store", "use"]

pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.mark.slow
def test_of_what_is_held_back_so_many_lines_are_shown(browser: Browser, store: ListStore) -> None:
    store.hold_back(store.keep(b"".join(b"c%d.example\n" % number for number in range(201))), ["it is odd"])
    held = browser.call("GET", f"/lists/held?url={quote(LIST)}")[1]
    assert (held["url"], held["added"], len(held["added_lines"])) == (LIST, 201, 200)


@pytest.mark.slow
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


def test_the_catalogue_says_what_the_policy_has_of_it(browser: Browser, use: Callable[..., Path]) -> None:
    use(lists="{catalogue: services}, {catalogue: hagezi-light, optional: true}")
    assert browser.sign_in("vera") == 200
    found = browser.call("GET", "/lists/catalogue")[1]["catalogue"]
    assert {one["name"] for one in found if one["is_used"]} == {"services", "hagezi-light"}
    assert all(one["purpose"] and one["category"].startswith("hrn://") for one in found)
