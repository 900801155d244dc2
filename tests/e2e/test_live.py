"""The live page, as an administrator sees it: in headless Chromium, while others browse through the same proxy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, time

import httpx
import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from e2e.browser import BROWSER, DRIVER, profile, wait_until
from e2e.conftest import REASON
from e2e.origin import Origin
from e2e.policies import write_list, write_policy
from e2e.proxy import Proxy, mitmdump
from hushlist.extensions.dashboard.dashboard_server import HOST
from hushlist.extensions.journal.log_database import Database
from hushlist.extensions.journal.log_keys import LogSettings
from hushlist.extensions.journal.log_record import time_text
from hushlist.extensions.unblock.credentials import hash_passphrase

pytestmark = pytest.mark.xdist_group("chromium")
needs_browser = pytest.mark.skipif(not BROWSER or not DRIVER, reason="there is no Chromium with chromedriver on PATH")

#: whatever stands in it must stay text
SCRIPT = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> Iterator[Proxy]:
    """A proxy of this module's own, since its figures are counted."""
    folder = tmp_path_factory.mktemp("live")
    category = "hrn://example.org/web/ads"
    write_list(folder / "ads.yaml", "ads.test/", title=f"List {SCRIPT}", category=category, reason=f"{REASON} {SCRIPT}")
    write_list(folder / "own.yaml", {"expression": "fine.ads.test/", "action": "allow"}, title="Own rules")
    policy = write_policy(folder, ["own.yaml"], ["ads.yaml"])
    with mitmdump(tmp_path_factory.mktemp("mitmdump"), origin, policy=policy) as running:
        yield running


@pytest.fixture(scope="module")
def browser(chrome: Chrome, live: Proxy) -> Iterator[Chrome]:
    with profile(chrome, live) as running:
        yield running


def text_of(browser: Chrome, name: str) -> str:
    """The text of an element, by its id."""
    text: str = browser.execute_script("return document.getElementById(arguments[0]).innerText", name)
    return text


def wait_for(browser: Chrome, name: str, words: str) -> float:
    """Wait until an element has some words; how many seconds that took."""
    start = monotonic()
    wait_until(browser, lambda _: words in text_of(browser, name), f"{words!r} is not in #{name}")
    return monotonic() - start


def see(browser: Chrome, scheme: str = "http") -> None:
    """Open the page, and wait until it is live."""
    browser.get(f"{scheme}://{HOST}/")
    wait_for(browser, "status", "Live")


@needs_browser
def test_a_decision_is_shown_within_a_second_without_reloading(live: Proxy, browser: Chrome) -> None:
    see(browser, "https")
    browser.execute_script("window.before = true")

    def seconds(number: int) -> float:
        live.get(f"http://ads.test/{number}")
        return wait_for(browser, "rows", f"http://ads.test/{number}")

    assert any(seconds(number) < 1 for number in range(20))  # the fastest counts: others share the machine
    assert browser.execute_script("return window.before") is True
    assert "ads.yaml:" in text_of(browser, "rows")
    assert "hrn://example.org/web/ads" in text_of(browser, "top-categories")
    assert "ads.test" in text_of(browser, "top-hosts")
    assert "ads.yaml" in text_of(browser, "lists")


@needs_browser
def test_whatever_others_write_stays_text(live: Proxy, browser: Chrome) -> None:
    see(browser)
    live.get(f"http://ads.test/{SCRIPT}?{SCRIPT}", headers={"User-Agent": SCRIPT})
    wait_for(browser, "rows", "onerror")
    # not the first row: what the browser itself asks for may come meanwhile
    row = "[...document.querySelectorAll('#rows tbody tr')].find((one) => one.textContent.includes('onerror'))"
    browser.execute_script(f"{row}.querySelector('.link').click()")
    wait_for(browser, "explanation", "decides")
    assert f"List {SCRIPT}" in text_of(browser, "rows")
    assert f"List {SCRIPT}" in text_of(browser, "top-lists")
    assert SCRIPT in text_of(browser, "explanation")
    assert browser.title == "Hushlist live"
    assert browser.execute_script("return document.querySelectorAll('main img, main script, main b').length") == 0


@needs_browser
def test_the_decisions_can_be_filtered_sorted_and_held(live: Proxy, browser: Chrome) -> None:
    see(browser)
    live.get("http://fine.ads.test/filter-me")
    live.get("http://ads.test/filter-me-too")
    wait_for(browser, "rows", "filter-me-too")
    browser.find_element(By.ID, "filter").send_keys("filter-me")
    rows = browser.find_elements(By.CSS_SELECTOR, "#rows tbody tr")
    assert ["filter-me" in row.text for row in rows] == [True, True]
    head = browser.find_element(By.CSS_SELECTOR, "#rows th[data-key=action]")
    head.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert head.get_attribute("aria-sort") == "ascending"
    rows = browser.find_elements(By.CSS_SELECTOR, "#rows tbody tr")
    assert [row.find_element(By.CSS_SELECTOR, ".chip").text for row in rows] == ["allow", "block"]
    browser.find_element(By.ID, "pause").click()
    assert text_of(browser, "status") == "Paused"
    live.get("http://ads.test/filter-me-later")
    browser.find_element(By.ID, "pause").click()
    wait_for(browser, "rows", "filter-me-later")


@needs_browser
def test_search_explains_with_every_step(browser: Chrome) -> None:
    see(browser)
    browser.find_element(By.ID, "explain-url").send_keys("<URL:http://me@WWW.Ads.test:80/a/../%62?q>", Keys.ENTER)
    wait_for(browser, "explanation", "decides")
    browser.find_element(By.CSS_SELECTOR, "#explanation summary").click()
    text = text_of(browser, "explanation")
    for words in (
        "http://www.ads.test/b?q",
        "layer 2 – decides",
        "ads.yaml:",
        "remove_userinfo",
        "ads.test/",
        "layer 1",
    ):
        assert words in text
    field = browser.find_element(By.ID, "explain-url")
    field.clear()
    field.send_keys("mailto:me", Keys.ENTER)
    wait_for(browser, "explanation", "it cannot be read")
    field.clear()
    field.send_keys('"http://www.ads.test/', Keys.ENTER)
    wait_for(browser, "explanation", "stands on one side alone")


@needs_browser
def test_the_page_uses_nothing_from_outside_and_has_no_errors(live: Proxy, browser: Chrome) -> None:
    see(browser)
    used = browser.execute_script(
        "return performance.getEntriesByType('resource').map((one) => new URL(one.name).host)"
    )
    assert set(used) == {HOST}
    assert [
        entry for entry in browser.get_log("browser") if HOST in entry["message"] and "live." in entry["message"]
    ] == []
    for width in (1400, 390):
        browser.set_window_size(width, 800)
        assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")


@needs_browser
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_another_site_s_page_can_neither_read_nor_frame_it(
    live: Proxy, browser: Chrome, origin: Origin, scheme: str
) -> None:
    origin.pages["/attack"] = ("text/html", b"<!doctype html><title>Attack</title>")
    browser.get(f"{scheme}://evil.test/attack")
    attack = """
        const [page, done] = arguments;
        const read = (path, options) => fetch(page + path, options)
            .then((one) => one.text()).then(() => "read", () => "refused");
        const load = (name, path) => new Promise((end) => {
            const element = Object.assign(document.createElement(name), {src: page + path});
            // in place of any image that is blocked, there is one pixel
            element.onload = () => end(element.naturalWidth === 1 ? "refused" : "loaded");
            element.onerror = () => end("refused");
            document.body.append(element);
        });
        Promise.all([
            read("/data", {headers: {"X-Hushlist": "live"}}), read("/metrics"), read("/explain?url=a.test"),
            load("img", "/icon.svg"), load("script", "/live.js"),
        ]).then(done);
    """
    assert browser.execute_async_script(attack, f"{scheme}://{HOST}") == ["refused"] * 5
    browser.execute_script(
        "document.body.append(Object.assign(document.createElement('iframe'), {src: arguments[0]}))",
        f"{scheme}://{HOST}/",
    )
    browser.switch_to.frame(browser.find_element(By.TAG_NAME, "iframe"))
    assert browser.execute_script("return document.getElementById('rows')") is None
    browser.switch_to.default_content()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_whoever_may_not_see_it_gets_what_is_blocked(
    start: Callable[..., Proxy], origin: Origin, tmp_path: Path, scheme: str
) -> None:
    write_list(tmp_path / "ads.yaml", "ads.test/")
    policy = write_policy(tmp_path, ["ads.yaml"], live={"users": ["eve"]})
    proxy = start(policy=policy)
    with origin.watch() as arrived:
        for path in ("/", "/data", "/metrics", "/live.js"):
            answer = proxy.get(f"{scheme}://{HOST}{path}", headers={"X-Hushlist": "live"})
            assert answer.status_code == 403
            assert "ads" not in answer.text
    assert arrived.connections == 0


@needs_browser
def test_it_shows_what_the_log_takes_and_which_files_were_damaged(
    tmp_path: Path, start: Callable[..., Proxy], chrome: Chrome
) -> None:
    write_list(tmp_path / "ads.yaml", "ads.test/")
    policy = write_policy(tmp_path, ["ads.yaml"], log={"folder": "log", "rows": 1000})
    first = time() - 5 * 86400 + 200
    database = Database(tmp_path / "log", LogSettings())
    entries = [({"time": time_text(first + 432 * place)}, b"{}\n") for place in range(1000)]
    database.append(entries, time())
    database.close()
    (tmp_path / "log" / "decisions.sqlite.damaged-20261128T090000.000000Z").touch()
    with profile(chrome, start(policy=policy)) as browser:
        see(browser)
        wait_for(browser, "state", "records of the last day: 200")
        wait_for(browser, "state", "set aside: decisions.sqlite.damaged-20261128T090000.000000Z.")
        assert "limited first by: rows (5 days)" in text_of(browser, "state")


def test_where_nothing_is_decided_it_is_still_there(start: Callable[..., Proxy]) -> None:
    proxy = start(mode="off")
    assert proxy.get(f"http://{HOST}/").status_code == 200
    assert 'hushlist_mode{mode="off"} 1' in proxy.get(f"http://{HOST}/metrics").text


def test_its_flows_are_in_no_file_and_the_end_says_what_the_session_came_to(
    start: Callable[..., Proxy], tmp_path: Path
) -> None:
    proxy = start(save=tmp_path / "saved.flow")
    proxy.get("http://ads.test/one")
    assert "hushlist_decisions_total" in proxy.get(f"http://{HOST}/metrics").text
    with proxy.client() as client:
        of = client.get(f"http://{HOST}/data", headers={"X-Hushlist": "live"}).json()["of"]
        with pytest.raises(httpx.ReadTimeout):  # whoever waits may leave
            client.get(f"http://{HOST}/data?since=1&of={of}", headers={"X-Hushlist": "live"}, timeout=1)
    proxy.stop()
    saved = (tmp_path / "saved.flow").read_bytes()
    assert b"ads.test" in saved
    assert HOST.encode() not in saved
    assert "1 request decided: 1 blocked" in proxy.log.text()
    assert "Traceback" not in proxy.log.text()


@pytest.mark.parametrize("streamed", [None, "1"])
@pytest.mark.parametrize("http2", [False, True])
def test_no_call_of_an_administrator_reaches_an_origin_however_its_body_comes(
    start: Callable[..., Proxy], origin: Origin, tmp_path: Path, streamed: str | None, http2: bool
) -> None:
    write_list(tmp_path / "ads.yaml", "ads.test/")
    people = [{"name": "max", "passphrase": hash_passphrase("correct horse"), "role": "manage"}]
    policy = write_policy(tmp_path, ["ads.yaml"], admin=people, **{"on-failure": "open"})
    proxy = start(policy=policy, options={"stream_large_bodies": streamed} if streamed else {})
    body = json.dumps({"name": "max", "passphrase": "correct horse"}).encode()
    url, headers = f"https://{HOST}/api/v1/session", {"X-Hushlist": "live", "Content-Type": "application/json"}

    def status(method: str, content: bytes | Iterator[bytes] = b"") -> int:
        with proxy.client(http2=http2) as client:
            return client.request(method, url, content=content, headers=headers).status_code

    with origin.watch() as arrived:
        told = [status("POST", body), status("POST", iter([body[:5], body[5:]])), status("POST", b" " * (1 << 17))]
        assert told == [200, 413, 413]
        assert {status(method, b"x") for method in ("PUT", "PATCH", "OPTIONS")} <= {403, 405}
    assert arrived.connections == 0
    assert "correct horse" not in proxy.log.text()
    assert "Traceback" not in proxy.log.text()
