"""The form of a page under the page's own content security policy, in Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from e2e.browser import BROWSER, DRIVER, profile, wait_until
from hushlist.extensions.unblock.page_form import Unblock
from hushlist.proxy.page.pages import Explanation, Verdict, page

pytestmark = [
    pytest.mark.skipif(not BROWSER, reason="there is no Chromium on PATH"),
    pytest.mark.skipif(not DRIVER, reason="there is no chromedriver on PATH"),
    pytest.mark.xdist_group("chromium"),
]

ACTION = "/.well-known/hushlist/unblock"
UNBLOCK = Unblock(ACTION, 'a "token"', True, True, ("url", "host"), (15, 60))


class Pages(BaseHTTPRequestHandler):
    """Every address is blocked, in the language that its path names; what is posted is kept."""

    posted: list[tuple[str, dict[str, list[str]], str | None]]

    def do_GET(self) -> None:
        is_warning = self.path == "/warned"
        explanation = Explanation("http://h.example/", kind=Verdict.WARNED if is_warning else Verdict.BLOCKED)
        unblock = Unblock(ACTION, "go") if is_warning else UNBLOCK
        body, headers = page(explanation, self.path.strip("/"), None if self.path == "/after" else unblock)
        self._answer(403, body, headers)

    def do_POST(self) -> None:
        fields = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
        self.posted.append((self.path, fields, self.headers["origin"]))
        self._answer(303, b"", {"Location": "/after"})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[tuple[str, type[Pages]]]:
    handler = type("Recording", (Pages,), {"posted": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", handler
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def browser(chrome: Chrome) -> Iterator[Chrome]:
    with profile(chrome, None) as running:
        yield running


def test_the_form_of_a_sandboxed_page_arrives(browser: Chrome) -> None:
    with serving() as (base, handler):
        browser.get(f"{base}/de")
        browser.find_element(By.CSS_SELECTOR, "details:has(form) summary").click()
        browser.find_element(By.ID, "passphrase").send_keys("Sésam öffne dich")
        browser.find_elements(By.NAME, "scope")[1].click()
        browser.find_element(By.TAG_NAME, "button").click()
        wait_until(browser, lambda driver: driver.current_url == f"{base}/after")
    fields = {"token": ['a "token"'], "passphrase": ["Sésam öffne dich"], "scope": ["host"], "minutes": ["15"]}
    # a sandboxed page has no origin of its own to tell
    assert handler.posted == [(ACTION, fields, "null")]


def test_a_warned_person_goes_on_with_the_keyboard_alone(browser: Chrome) -> None:
    with serving() as (base, handler):
        browser.get(f"{base}/warned")
        browser.find_element(By.TAG_NAME, "button").send_keys("\ue007")
        wait_until(browser, lambda driver: driver.current_url == f"{base}/after")
    assert handler.posted == [(ACTION, {"token": ["go"]}, "null")]


#: where elements are
BOXES = """
    return [...document.querySelectorAll("main *:not(input[type=hidden]):not(h2)")]
        .map((one) => one.getBoundingClientRect());
"""


@pytest.mark.parametrize(
    "language", [pytest.param("en", marks=pytest.mark.thorough), "de", pytest.param("ar", marks=pytest.mark.thorough)]
)
def test_nothing_is_cut_off_on_a_small_screen(browser: Chrome, language: str) -> None:
    screen = {"width": 320, "height": 568, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    with serving() as (base, _):
        browser.get(f"{base}/{language}")
        for summary in browser.find_elements(By.TAG_NAME, "summary"):
            summary.click()
        assert browser.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]["width"] <= 320
        boxes = browser.execute_script(BOXES)
        assert boxes
        assert [box for box in boxes if box["left"] < 0 or box["right"] > 320] == []
