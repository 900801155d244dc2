"""Temporary unblocks, warnings, safe search, the log and commands, by a real mitmdump and real clients."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.expected_conditions import presence_of_element_located, title_is

from e2e import test_chromium
from e2e.browser import chromium, wait_until
from e2e.origin import Origin
from e2e.policies import replace, stored
from e2e.proxy import PATIENCE, Proxy, mitmdump

Start = Callable[..., Proxy]

PASSPHRASE = "open sesame"
PATH = "/.well-known/hushlist/unblock"

RULES = """# what is not for pupils
rules:
  - games.test/
  - path.test/secret/
  - {expression: warned.test/, action: warn, reason: Mind this}
  - {expression: framed.test/warned/, action: warn, reason: Mind this}
"""


def policy_text() -> str:
    return f"""
unblock: {{passphrase: "{stored(PASSPHRASE)}", scopes: [host, url], minutes: [15, 60]}}
log: {{folder: log, what: all}}
safe-search: strict
layers:
  - {{name: overrides, lists: [own.yaml]}}
  - {{name: lists, lists: [rules.yaml]}}
groups:
  - {{name: staff, users: [teacher], mode: tag}}
  - {{name: servers, users: [robot], mode: "off"}}
"""


@contextmanager
def prepared(folder: Path) -> Iterator[Path]:
    """A folder with a policy and, while the block runs, the state of whatever starts."""
    replace(folder / "rules.yaml", RULES)
    replace(folder / "own.yaml", "# our own\nrules: []  # none yet\n")
    replace(folder / "policy.yaml", policy_text())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        yield folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with prepared(tmp_path) as folder:
        yield folder


@pytest.fixture
def filtering(start: Start, folder: Path) -> Proxy:
    return start(policy=folder / "policy.yaml", scripts=["calling.py"])


def form_of(page: httpx.Response) -> tuple[str, str]:
    """Where the form goes, and its token."""
    assert page.status_code == 403, page.status_code
    action = re.search(r'action="([^"]*)"', page.text)
    token = re.search(r'name="token" value="([^"]*)"', page.text)
    assert action
    assert token
    return urljoin(str(page.url), html.unescape(action[1])), token[1]


def unlock(client: httpx.Client, url: str, passphrase: str = PASSPHRASE, **more: str) -> httpx.Response:
    action, token = form_of(client.get(url))
    form = {"token": token, "passphrase": passphrase, "scope": "host", "minutes": "15", **more}
    return client.post(action, data=form)


def test_the_passphrase_opens_the_page_and_no_origin_sees_the_form(filtering: Proxy, origin: Origin) -> None:
    for scheme, http2 in (("http", False), ("https", False), ("https", True)):
        for host in ("games.test", "path.test"):
            url = f"{scheme}://{scheme}{http2:d}.{host}/secret/a?b=%26"
            with origin.watch() as arrived, filtering.client(http2=http2) as client:
                right = unlock(client, url)
                wrong = unlock(client, "http://games.test/", "guess") if http2 else None
            assert wrong is None or wrong.status_code == 403
            assert (right.status_code, right.headers["location"]) == (303, "/secret/a?b=%26")
            assert arrived.connections == 0
            assert filtering.get(url).text == "from the origin"
    assert "Traceback" not in filtering.log.text()


def test_a_form_goes_to_no_origin_once_the_filter_is_off(start: Start, folder: Path, origin: Origin) -> None:
    proxy = start(policy=folder / "policy.yaml")
    with origin.watch() as arrived, proxy.client() as client:
        action, token = form_of(client.get("http://games.test/"))
        begun = len(proxy.log)
        replace(folder / "policy.yaml", f"{policy_text()}mode: 'off'\n")
        proxy.log.wait_for("4 rules of 3 files", begun)
        answer = client.post(action, data={"token": token, "passphrase": PASSPHRASE})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert arrived.connections == 0


def test_a_form_whose_length_is_not_told_is_taken(filtering: Proxy, origin: Origin) -> None:
    with origin.watch() as arrived, filtering.client() as client:
        action, token = form_of(client.get("http://path.test/secret/"))
        form = f"token={token}&passphrase=open+sesame&scope=host&minutes=15".encode()
        headers = {"content-type": "application/x-www-form-urlencoded"}
        assert client.post(action, content=iter([form[:50], form[50:]]), headers=headers).status_code == 303
    assert arrived.connections == 0


@pytest.mark.parametrize("http2", [False, True])
def test_no_form_leaks_where_bodies_are_streamed(start: Start, folder: Path, origin: Origin, http2: bool) -> None:
    proxy = start(policy=folder / "policy.yaml", options={"stream_large_bodies": "1"})
    for host in ("whole", "chunked"):
        with origin.watch() as arrived, proxy.client(http2=http2) as client:
            action, token = form_of(client.get(f"https://{host}.path.test/secret/"))
            form = f"token={token}&passphrase=open+sesame&scope=host&minutes=15".encode()
            try:
                # it may be cut off, and mitmproxy 12 may forget to close its connection
                status = client.post(action, content=iter([form]) if host == "chunked" else form, timeout=3).status_code
            except httpx.TransportError:
                status = 0
        assert status in (0, 303, 403)
        assert arrived.connections == 0


def test_a_huge_form_is_refused(filtering: Proxy, origin: Origin) -> None:
    with origin.watch() as arrived, filtering.client() as client:
        action, token = form_of(client.get("http://games.test/"))
        assert client.post(action, data={"token": token, "passphrase": "x" * 3_000_000}).status_code == 403
    assert arrived.connections == 0


def test_a_post_that_is_no_form_of_ours_reaches_its_origin(filtering: Proxy, origin: Origin) -> None:
    with origin.watch() as arrived, filtering.client() as client:
        assert client.post(f"http://good.test{PATH}?url=http://good.test/", content=b"12345").status_code == 200
        assert client.get(f"http://good.test{PATH}").status_code == 200
    assert [(one.method, one.body) for one in arrived.requests] == [("POST", 5), ("GET", 0)]


# -- a browser ---------------------------------------------------------------------------------------------------------

browsing = test_chromium.pytestmark


#: clicks on a warning by itself, as soon as somebody visits the page
WORKER = b"""
self.addEventListener("install", () => self.skipWaiting())
self.addEventListener("activate", (event) => event.waitUntil(
    self.registration.navigationPreload.enable().then(() => clients.claim())))
self.addEventListener("fetch", (event) => event.respondWith((async () => {
    const page = await event.preloadResponse
    if (!event.request.url.includes("/warned/") || !page) return page || fetch(event.request)
    const text = await page.text()
    const action = text.match(/action="([^"]*)"/)[1].replaceAll("&amp;", "&")
    const token = text.match(/name="token" value="([^"]*)"/)[1]
    await fetch(action, {method: "POST", body: new URLSearchParams({token}), redirect: "manual"})
    const {status} = await fetch(event.request.url)
    return new Response(`<title>${status}</title>`, {headers: {"Content-Type": "text/html"}})
})()))
"""
REGISTERING = b"""<title>registering</title><script>
navigator.serviceWorker.register("/worker.js").then(() => navigator.serviceWorker.ready)
    .then(() => { document.title = "registered" })
</script>"""


class TestBrowser:
    pytestmark = browsing

    @pytest.fixture(scope="class")
    def proxy(self, tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> Iterator[Proxy]:
        with (
            prepared(tmp_path_factory.mktemp("unblock")) as folder,
            mitmdump(folder, origin, policy=folder / "policy.yaml") as running,
        ):
            yield running

    def test_a_person_finds_the_form_types_the_passphrase_and_goes_on(self, browser: Chrome, origin: Origin) -> None:
        origin.pages["/secret/game"] = ("text/html", b"<!doctype html><title>The game</title>")
        for url in ("https://path.test/secret/game", "http://games.test/secret/game"):
            browser.get(url)
            for words in ("guess", PASSPHRASE):
                wait_until(browser, presence_of_element_located((By.NAME, "passphrase")))
                field = browser.find_element(By.NAME, "passphrase")
                if not field.is_displayed():
                    browser.find_element(By.CSS_SELECTOR, "details:has(form) summary").click()
                field.send_keys(words)
                before = browser.find_element(By.TAG_NAME, "html")
                browser.find_element(By.CSS_SELECTOR, "button[type=submit]").click()
                wait_until(browser, lambda _, page=before: is_gone(page))
            wait_until(browser, title_is("The game"))
            assert browser.current_url == url
        assert not [one for one in origin.requests if one.method == "POST" and b"seal=" in one.target]

    def test_a_page_of_the_same_site_can_have_nobody_click_through_a_warning_unseen(
        self, browser: Chrome, origin: Origin
    ) -> None:
        origin.pages["/frame"] = "text/html", b"<iframe src=/warned/ style='opacity:0'></iframe><p>Win a prize!"
        browser.get("https://framed.test/frame")
        browser.switch_to.frame(browser.find_element(By.TAG_NAME, "iframe"))
        wait_until(browser, presence_of_element_located((By.TAG_NAME, "h1")))
        assert "Mind this" in browser.find_element(By.TAG_NAME, "body").text
        assert browser.find_elements(By.TAG_NAME, "button") == []

    def test_a_site_s_own_worker_can_read_the_form_but_not_send_it(
        self, tmp_path: Path, proxy: Proxy, origin: Origin
    ) -> None:
        origin.pages |= {"/worker.js": ("text/javascript", WORKER), "/": ("text/html", REGISTERING)}
        with chromium(proxy, tmp_path, "--ignore-certificate-errors") as browser, origin.watch() as arrived:
            browser.get("https://framed.test/")
            wait_until(browser, title_is("registered"))
            browser.get("https://framed.test/warned/")
            wait_until(browser, title_is("403"))
        assert [one.target for one in arrived.requests if b"warned" in one.target] == []

    def test_another_site_can_send_the_form_but_knows_no_token(self, browser: Chrome, origin: Origin) -> None:
        origin.pages["/forgery"] = (
            "text/html",
            b"""<!doctype html><title>Forgery</title>
            <form method=post action="https://warned.test/.well-known/hushlist/unblock?url=https://warned.test/">
            <input name=token value=x></form><script>document.forms[0].submit()</script>""",
        )
        browser.get("https://forging.test/forgery")
        wait_until(browser, lambda driver: "warned.test" in driver.current_url)
        browser.get("https://warned.test/")
        assert "Mind this" in browser.find_element(By.TAG_NAME, "body").text


def is_gone(page: object) -> bool:
    try:
        page.is_enabled()  # type: ignore[attr-defined]
    except Exception:
        return True
    return False


# -- the log, groups, safe search --------------------------------------------------------------------------------------


def records(folder: Path) -> list[dict[str, object]]:
    text = (folder / "log" / "decisions.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_the_log_has_every_decision_once_and_no_user_information(start: Start, folder: Path) -> None:
    proxy = start(policy=folder / "policy.yaml", options={"proxyauth": "any"})
    urls = ["http://games.test/a", "https://www.google.com/search?q=x", "http://good.test/", "http://warned.test/"]
    pages = {}
    for user in ("pupil", "teacher", "robot"):
        url = proxy.url.replace("//", f"//{user}:very-secret@")
        with httpx.Client(proxy=url, verify=proxy.tls(), trust_env=False, timeout=PATIENCE) as client:
            pages[user] = [client.get(one) for one in urls]
    proxy.stop()
    assert [page.status_code for page in pages["pupil"]] == [403, 200, 200, 403]
    assert {page.status_code for user in ("teacher", "robot") for page in pages[user]} == {200}
    found = records(folder)
    assert "very-secret" not in json.dumps(found)
    said = [(one.get("user"), one["url"], one["action"], one.get("would_block")) for one in found]
    searched = "https://www.google.com/search?(search-removed)"
    assert [one for one in said if one[0] == "pupil"] == [
        ("pupil", "http://games.test/a", "block", None),
        ("pupil", searched, "pass", None),
        ("pupil", "http://good.test/", "pass", None),
        ("pupil", "http://warned.test/", "warn", None),
    ]
    assert [one[2:] for one in said if one[0] == "teacher"] == [
        ("block", True),
        ("pass", None),
        ("pass", None),
        ("warn", True),
    ]
    assert not [one for one in said if one[0] == "robot"]
    reference = str(found[0]["reference"])
    assert reference in pages["pupil"][0].text
    assert pages["pupil"][0].headers["x-hushlist-reference"] == reference


def test_safe_search_asks_for_it_and_connects_where_it_is(filtering: Proxy, origin: Origin) -> None:
    with origin.watch() as arrived, filtering.client() as client:
        for url in (
            "https://www.google.com/search?q=x&safe=off",
            "https://search.brave.com/?q=x",
            "http://pixabay.com/",
        ):
            assert client.get(url).status_code == 200
        assert client.get("https://search.brave.com/again").status_code == 200
        assert client.get("https://good.test/search?q=x&safe=off").status_code == 200
    assert [(one.host, one.target) for one in arrived.requests] == [
        ("www.google.com", b"/search?q=x&safe=active&ssui=on"),
        ("search.brave.com", b"/?q=x"),
        ("pixabay.com", b"/"),
        ("search.brave.com", b"/again"),
        ("good.test", b"/search?q=x&safe=off"),
    ]
    log = filtering.log.text()
    assert "server connect safe.search.brave.com:443" in log
    assert "connected to ('search.brave.com', 443) as search.brave.com" in log  # by that name it is used again
    assert "server connect safesearch.pixabay.com:80" in log
    assert "server connect search.brave.com" not in log
    assert "safe search: Google, strict" in filtering.get("http://call.test/?name=hushlist.explain&on=google").text


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_safe_search_that_begins_holds_on_connections_that_are_open(
    filtering: Proxy, folder: Path, origin: Origin, scheme: str
) -> None:
    replace(folder / "policy.yaml", policy_text().replace("safe-search: strict", "safe-search: off"))
    filtering.log.wait_for(r"(\d rules of(.|\n)*){2}")
    with filtering.client() as client, origin.watch() as arrived:
        url, start = f"{scheme}://search.brave.com/", len(filtering.log)
        assert [client.get(url).status_code for _ in range(2)] == [200, 200]
        replace(folder / "policy.yaml", policy_text())
        filtering.log.wait_for(r"\d rules of", start)
        assert [client.get(url).status_code for _ in range(2)] == [200, 200]
    assert len({one.peer for one in arrived.requests[:2]}) == 1
    assert arrived.requests[1].peer not in {one.peer for one in arrived.requests[2:]}
    assert "server connect safe.search.brave.com" in filtering.log.text(start)


# -- commands ----------------------------------------------------------------------------------------------------------


def call(proxy: Proxy, name: str, on: str | None = None) -> httpx.Response:
    return proxy.get(f"http://call.test/?name=hushlist.{name}" + ("" if on is None else f"&on={on}"))


def test_commands_say_and_change_what_is_in_force(filtering: Proxy, folder: Path) -> None:
    assert "groups: staff, servers, default; mode block" in call(filtering, "status").text
    assert filtering.get("https://www.games.test/a").status_code == 403
    explained = call(filtering, "explain", "www.games.test").text
    assert "block https://www.games.test/a" in explained
    assert "rules.yaml:3" in explained
    start = len(filtering.log)
    assert call(filtering, "allow", "www.games.test").status_code == 200
    filtering.log.wait_for(r"\d rules of", start)
    assert filtering.get("https://www.games.test/a").status_code == 200
    assert filtering.get("https://games.test/").status_code == 403
    text = (folder / "own.yaml").read_text()
    assert text.startswith("# our own\nrules:  # none yet\n  - {")
    assert re.search(r'reason: "by the command hushlist\.allow, \d{4}-\d\d-\d\d \d\d:\d\d UTC"', text)
    refused = call(filtering, "block", "www.games.test")
    assert refused.status_code == 409
    assert "line 3 allows www.games.test/" in refused.text
