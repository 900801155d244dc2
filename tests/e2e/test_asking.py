"""Asking for access from a block page, by a real mitmdump and two people: who asks, and who answers."""

from __future__ import annotations

import html
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.expected_conditions import title_is

from e2e import test_chromium
from e2e.browser import wait_for_words, wait_until
from e2e.origin import Origin
from e2e.policies import replace
from e2e.proxy import Proxy, mitmdump
from hushlist.cli import main
from hushlist.extensions.dashboard.dashboard_server import HOST
from support.waiting import wait_until as until

RULES = "rules:\n  - {expression: games.test/, reason: Not in the lesson}\n  - other.test/\n  - last.test/\n"
POLICY = "unblock: {ask: on, codes: off}\nlayers:\n  - {name: lists, lists: [rules.yaml]}\n"


@contextmanager
def prepared(folder: Path) -> Iterator[Path]:
    """A folder with a policy and, while the block runs, the state of whatever starts."""
    replace(folder / "rules.yaml", RULES)
    replace(folder / "policy.yaml", POLICY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        yield folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with prepared(tmp_path) as folder:
        yield folder


def override(*arguments: str) -> str:
    """What the administrator's command prints."""
    with redirect_stdout(StringIO()) as printed:
        assert main(["override", *arguments]) == 0
    return printed.getvalue()


# -- two proxies, and a restart ----------------------------------------------------------------------------------------


class Asker:
    """A client of a proxy that sends the form of its block page."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy

    def page(self, url: str) -> str:
        return self._proxy.get(url).text

    def ask(self, url: str, page: str | None = None, **form: str) -> httpx.Response:
        page = page or self.page(url)
        action, token = (
            group_of_match('<form[^>]* action="([^"]*)"', page),
            group_of_match('"token" value="([^"]*)"', page),
        )
        with self._proxy.client() as client:
            return client.post(urljoin(url, action), data={"token": token, "ask": "on", **form})

    def answer(self, url: str, page: str) -> dict[str, str]:
        """What a page that waits hears."""
        told: dict[str, str] = self._proxy.get(urljoin(url, group_of_match('data-answer="([^"]*)"', page))).json()
        return told


def group_of_match(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match, text
    return html.unescape(match[1])


@pytest.mark.parametrize("scheme", [pytest.param("http", marks=pytest.mark.thorough), "https"])
def test_two_proxies_share_what_was_asked_and_a_page_waits_through_a_restart(
    folder: Path, origin: Origin, scheme: str
) -> None:
    url = f"{scheme}://games.test/chess"
    for name in ("one", "two"):
        (folder / name).mkdir()
    with mitmdump(folder / "two", origin, policy=folder / "policy.yaml") as second:
        with mitmdump(folder / "one", origin, policy=folder / "policy.yaml") as first, origin.watch() as arrived:
            assert Asker(first).ask(url, reason="maths").status_code == 303
            waiting = Asker(first).page(url)
            until(lambda: Asker(second).answer(url, waiting)["state"] == "waiting")
            assert "Your request is waiting" in Asker(second).page(url)
        assert arrived.connections == 0
        with mitmdump(folder / "one", origin, policy=folder / "policy.yaml") as again:
            until(lambda: Asker(again).answer(url, waiting)["state"] == "waiting")
            override("approve", override("requests").split()[0], "--scope", "url")
            until(lambda: Asker(again).answer(url, waiting)["state"] == "open")
            until(lambda: Asker(second).answer(url, waiting)["state"] == "open")
            assert again.get(url).text == second.get(url).text == "from the origin"
            assert again.get(f"{scheme}://games.test/other").status_code == 403


def test_who_looks_after_the_filter_is_told_by_a_command_and_the_live_page(
    start: Callable[..., Proxy], folder: Path
) -> None:
    told = folder / "told.json"
    new = folder / "new"
    script = f"import os, sys; open({str(new)!r}, 'w').write(sys.stdin.read()); os.rename({str(new)!r}, {str(told)!r})"
    replace(folder / "policy.yaml", f"{POLICY}notify: [{{command: {json.dumps([sys.executable, '-c', script])}}}]\n")
    proxy = start(policy=folder / "policy.yaml")
    Asker(proxy).ask("http://games.test/chess?q", reason="<b>maths")
    until(told.exists)
    notice = json.loads(told.read_text())
    assert (notice["title"], notice["request"]["reason"]) == ("127.0.0.1 asks for games.test", "<b>maths")
    data = proxy.get(f"http://{HOST}/api/v1/live", headers={"X-Hushlist": "live"}).json()
    assert data["requests"] == [notice["request"]]


def test_another_site_knows_no_token_and_hears_of_no_answer(start: Callable[..., Proxy], folder: Path) -> None:
    proxy = start(policy=folder / "policy.yaml")
    url = "https://games.test/"
    page = Asker(proxy).page(url)
    forged = re.sub('"token" value="[^"]*"', '"token" value="x"', page)
    assert Asker(proxy).ask(url, forged, reason="x").status_code == 403
    assert override("requests") == ""
    assert Asker(proxy).ask(url, page).status_code == 303
    assert Asker(proxy).ask(url, page).status_code == 403
    answer = group_of_match('token=([^&"]*)', group_of_match('data-answer="([^"]*)"', Asker(proxy).page(url)))
    another = f"https://other.test/.well-known/hushlist/answer?url=https://other.test/&token={answer}"
    assert proxy.get(another).status_code == 403


class TestInABrowser:
    pytestmark = test_chromium.pytestmark

    @pytest.fixture(scope="class")
    def proxy(self, tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> Iterator[Proxy]:
        with (
            prepared(tmp_path_factory.mktemp("asking")) as folder,
            mitmdump(folder, origin, policy=folder / "policy.yaml") as running,
        ):
            yield running

    @pytest.mark.parametrize(
        "url", ["https://games.test/chess?a=b", pytest.param("http://other.test/chess", marks=pytest.mark.thorough)]
    )
    def test_a_child_asks_a_parent_approves_and_the_page_opens_by_itself(
        self, browser: Chrome, origin: Origin, url: str
    ) -> None:
        origin.pages["/chess"] = origin.pages["/chess?a=b"] = ("text/html", b"<!doctype html><title>Chess</title>")
        browser.get(url)
        browser.find_element(By.NAME, "reason").send_keys("for <b>maths</b>")
        browser.find_element(By.CSS_SELECTOR, "button[type=submit]").click()
        wait_for_words(browser, "This page opens by itself")
        line = override("requests")
        assert "for <b>maths</b>" in line
        override("approve", line.split()[0], "--for", "30m")
        wait_until(browser, title_is("Chess"))
        assert browser.current_url == url

    def test_a_page_tells_that_it_was_declined_and_with_which_word(self, browser: Chrome) -> None:
        browser.get("https://last.test/")
        browser.find_element(By.CSS_SELECTOR, "button[type=submit]").click()
        wait_for_words(browser, "This page opens by itself")
        override("decline", override("requests").split()[0], "--reason", "After <i>dinner</i>")
        wait_for_words(browser, "After <i>dinner</i>")
        browser.refresh()
        wait_for_words(browser, "After <i>dinner</i>")
