"""Administrators at the live page: they sign in, act and undo it, in headless Chromium through a real proxy."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from e2e.browser import BROWSER, DRIVER, profile, wait_for_words, wait_until
from e2e.origin import LOOPBACK, Origin
from e2e.policies import stored, write_list, write_policy
from e2e.proxy import PATIENCE, Proxy, mitmdump, read_answer
from e2e.test_asking import Asker
from hushlist.extensions.dashboard.dashboard_server import HOST

pytestmark = [
    pytest.mark.xdist_group("chromium"),
    pytest.mark.skipif(not BROWSER or not DRIVER, reason="there is no Chromium with chromedriver on PATH"),
]
#: whatever stands in it must stay text
SCRIPT = "<img src=x onerror=document.title='owned'>"
PASSPHRASE = "correct horse battery staple"
OWN = "# mine\nrules:\n- mine.test  # keep\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("administration")


@pytest.fixture(scope="module")
def page(folder: Path, tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> Iterator[Proxy]:
    """A proxy of this module's own, with people who may act."""
    (folder / "own.yaml").write_text(OWN)
    write_list(folder / "ads.yaml", "ads.test/", title=f"List {SCRIPT}", category="hrn://c.test/ads")
    people = [{"name": "max", "passphrase": stored(PASSPHRASE), "role": "manage"}]
    people.append({"name": "vera", "passphrase": stored(PASSPHRASE), "role": "view"})
    policy = write_policy(
        folder,
        ["own.yaml"],
        ["ads.yaml"],
        admin=people,
        log={"what": "all", "folder": "log"},
        unblock={"ask": "on", "codes": "off"},
        groups=[{"name": "kids", "clients": ["10.0.1.0/24"]}],
        quotas={"hrn://c.test/fun": 30},
    )
    policy.write_text(policy.read_text().replace("layer 1", "overrides"))
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(folder / "state"))
            running = stack.enter_context(mitmdump(tmp_path_factory.mktemp("mitmdump"), origin, policy=policy))
        yield running


@pytest.fixture(scope="module")
def browser(chrome: Chrome, page: Proxy) -> Iterator[Chrome]:
    with profile(chrome, page) as running:
        yield running


def sign_in(browser: Chrome, name: str, scheme: str = "http") -> None:
    """Open the page, and sign in, unless a test before has."""
    browser.get(f"{scheme}://{HOST}/")
    field = browser.find_element(By.ID, "sign-in-name")
    wait_until(browser, lambda one: field.is_displayed() or one.find_element(By.ID, "who").is_displayed())
    if field.is_displayed():
        field.send_keys(name, Keys.TAB, PASSPHRASE, Keys.ENTER)
    wait_for_words(browser, f"{name} (")


def forget(browser: Chrome) -> None:
    """Begin anew, as where nobody has signed in."""
    browser.execute_cdp_cmd("Network.clearBrowserCookies", {})


def told(browser: Chrome, words: str) -> None:
    wait_until(browser, lambda one: words in one.find_element(By.ID, "told").text, words)


def fill(browser: Chrome, **values: str) -> None:
    """Fill the form of what is done."""
    browser.execute_script(
        "const form = document.getElementById('act'); for (const [name, value] of Object.entries(arguments[0])) {"
        "form.elements[name].value = value; form.elements[name].dispatchEvent(new Event('change')); }",
        values,
    )


def test_who_is_not_signed_in_sees_nothing_and_who_may_only_look_does_nothing(browser: Chrome, page: Proxy) -> None:
    page.get("http://ads.test/secret")
    forget(browser)
    browser.get(f"http://{HOST}/")
    wait_for_words(browser, "Signed out")
    assert "ads.test" not in browser.page_source
    browser.find_element(By.ID, "sign-in-name").send_keys("vera", Keys.TAB, "wrong", Keys.ENTER)
    wait_for_words(browser, "The name or the passphrase is wrong.")
    sign_in(browser, "vera")
    wait_for_words(browser, "http://ads.test/secret")
    shown = "return [...document.querySelectorAll('#act, #pause-group, .act')].filter((one) => one.offsetParent).length"
    assert browser.execute_script(shown) == 0
    status = browser.execute_async_script(
        "fetch('/api/v1/session', {headers: {'X-Hushlist': 'live'}}).then((one) => one.json()).then((one) => "
        "fetch('/api/v1/pauses', {method: 'POST', body: '{\"client\": \"group:default\", \"minutes\": 5}', headers: "
        "{'X-Hushlist': 'live', 'X-Hushlist-Token': one.token, 'Content-Type': 'application/json'}}))"
        ".then((one) => arguments[0](one.status))"
    )
    assert status == 403
    assert browser.execute_script("return document.cookie") == ""
    browser.find_element(By.ID, "sign-out").click()
    wait_for_words(browser, "Signed out")


def test_a_site_is_allowed_from_its_row_and_blocked_again(browser: Chrome, page: Proxy) -> None:
    sign_in(browser, "max", "https")
    page.get("http://ads.test/row")
    wait_for_words(browser, "http://ads.test/row")
    row = "[...document.querySelectorAll('#rows .act')].find((one) => one.ariaLabel.endsWith('/row'))"
    browser.execute_script(f"{row}.click()")  # a click is enough
    told(browser, "It is allowed.")
    assert page.get("http://ads.test/").status_code == 200
    browser.find_element(By.CSS_SELECTOR, "#told button").click()
    told(browser, "Undone.")
    browser.find_element(By.CSS_SELECTOR, "#told [aria-label=Close]").click()
    wait_until(browser, lambda one: not one.find_element(By.ID, "told").text)
    assert page.get("http://ads.test/").status_code == 403
    browser.execute_script(f"{row.replace('.find', '.findLast')}.click()")
    target = browser.find_element(By.ID, "act-target")
    assert target.get_attribute("value") == "ads.test"
    target.send_keys(Keys.ENTER)
    told(browser, "It is allowed.")
    assert page.get("http://ads.test/").status_code == 200
    wait_until(browser, lambda one: "ads.test" in one.find_element(By.ID, "grants").text)
    browser.find_element(By.ID, "holds-client").send_keys("127.0.0.1", Keys.ENTER)
    wait_until(browser, lambda one: "Unblocked now" in one.find_element(By.ID, "holding").text)
    browser.execute_script("document.querySelector('#record').closest('details').open = true")
    browser.find_element(By.CSS_SELECTOR, "#record button").send_keys(Keys.ENTER)
    told(browser, "Undone.")
    assert page.get("http://ads.test/").status_code == 403


def test_the_internet_is_turned_off_for_a_group_and_on_again(browser: Chrome, page: Proxy) -> None:
    sign_in(browser, "max", "https")
    assert page.get("http://other.test/").status_code == 200
    browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
    browser.find_element(By.ID, "pause-name").send_keys("default")
    browser.execute_script("window.confirm = () => true")
    button = browser.find_element(By.CSS_SELECTOR, "#pause-group [value=blackout]")
    browser.execute_script("arguments[0].click()", button)
    told(browser, "It is blocked.")
    assert page.get("http://other.test/").status_code == 403
    browser.find_element(By.CSS_SELECTOR, "#told button").click()
    told(browser, "Undone.")
    assert page.get("http://other.test/").status_code == 200


def test_who_asks_is_let_through_by_a_button(browser: Chrome, page: Proxy) -> None:
    sign_in(browser, "max")
    for path, button, words in (("a", "Decline", "It is declined."), ("b", "Approve", "It is allowed.")):
        host = "www.ads.test" if path == "a" else "ads.test"
        assert Asker(page).ask(f"http://{host}/{path}", reason=SCRIPT).status_code == 303
        if path == "a":  # who may not answer sees no column for that
            forget(browser)
            sign_in(browser, "vera")
            wait_until(browser, lambda one: SCRIPT in one.find_element(By.ID, "waiting").text)
            assert "Answer" not in browser.find_element(By.ID, "waiting").text
            forget(browser)
            sign_in(browser, "max")
        chosen = f"[...document.querySelectorAll('#waiting button')].find((one) => one.textContent === '{button}')"
        wait_until(browser, lambda one, chosen=chosen: one.execute_script(f"return Boolean({chosen})"))
        assert SCRIPT in browser.find_element(By.ID, "waiting").text
        browser.execute_script(f"document.getElementById('answer-word').value = 'After school'; {chosen}.click()")
        told(browser, words)
        wait_until(browser, lambda one: not one.find_element(By.ID, "requests").is_displayed())
        assert ("After school" in page.get(f"http://{host}/{path}").text) is (button == "Decline")
    assert page.get("http://ads.test/b").status_code == 200
    browser.execute_script("document.querySelector('#record').closest('details').open = true")
    wait_until(browser, lambda one: "request approved" in one.find_element(By.ID, "record").text)
    browser.find_element(By.CSS_SELECTOR, "#record button").click()
    told(browser, "Undone.")
    assert page.get("http://ads.test/b").status_code == 403


def test_a_lasting_rule_is_previewed_added_and_undone(browser: Chrome, page: Proxy, folder: Path) -> None:
    sign_in(browser, "max")
    assert page.get("http://fine.test/page").status_code == 200
    fill(browser, what="block", minutes="0", target="fine.test", client="everybody", reason=SCRIPT)
    wait_until(browser, lambda one: one.find_element(By.ID, "preview-rule").is_displayed())

    def preview(one: Chrome) -> bool:  # the log is written by a thread of its own
        one.execute_script("document.getElementById('preview').replaceChildren()")
        one.find_element(By.ID, "preview-rule").click()
        wait_until(one, lambda _: one.find_element(By.ID, "preview").text)
        return "fine.test/page" in one.find_element(By.ID, "preview").text

    wait_until(browser, preview)
    browser.execute_script("document.getElementById('act').requestSubmit()")
    told(browser, "It is blocked.")
    assert (folder / "own.yaml").read_text().startswith(f'{OWN}- {{expression: "fine.test/", action: "block"')
    wait_until(browser, lambda _: page.get("http://fine.test/").status_code == 403)
    assert SCRIPT in browser.execute_script("return document.getElementById('rules').textContent")
    assert browser.title == "Hushlist live"
    browser.execute_script("document.querySelector('#record').closest('details').open = true")
    browser.find_element(By.CSS_SELECTOR, "#record button").click()
    told(browser, "Undone.")
    assert (folder / "own.yaml").read_text() == OWN
    wait_until(browser, lambda _: page.get("http://fine.test/").status_code == 200)


@pytest.mark.parametrize(
    ("client", "is_mine"), [("127.0.0.1", True), ("group:kids", False), (f"user:{SCRIPT}", False), ("everybody", True)]
)
def test_a_page_is_blocked_for_a_client_a_group_or_everybody(
    browser: Chrome, page: Proxy, client: str, is_mine: bool
) -> None:
    sign_in(browser, "max")
    fill(browser, what="block", minutes="60", scope="url", target="http://fine.test/play", client=client, reason=SCRIPT)
    browser.execute_script("document.getElementById('act').requestSubmit()")
    told(browser, "It is blocked.")
    answer = page.get("http://fine.test/play/1")
    assert answer.status_code == (403 if is_mine else 200)
    assert ("onerror" in answer.text) is is_mine
    assert SCRIPT not in answer.text
    assert page.get("http://fine.test/other").status_code == 200
    wait_until(browser, lambda one: SCRIPT in one.find_element(By.ID, "blocks").text)
    assert browser.title == "Hushlist live"
    browser.find_element(By.CSS_SELECTOR, "#blocks button").click()
    told(browser, "Ended.")
    assert page.get("http://fine.test/play/1").status_code == 200
    wait_until(browser, lambda one: "Nothing at present." in one.find_element(By.ID, "blocks").text)


def test_a_quota_is_extended_by_a_button(browser: Chrome) -> None:
    sign_in(browser, "max")
    browser.find_element(By.ID, "holds-client").send_keys("10.0.0.7", Keys.ENTER)
    wait_until(browser, lambda one: "30 of 30 min" in one.find_element(By.ID, "holding").text)
    browser.find_element(By.CSS_SELECTOR, "#holding button").click()
    wait_until(browser, lambda one: "45 of 45 min" in one.find_element(By.ID, "holding").text)


def test_a_code_is_shown_once_and_what_holds_is_told(browser: Chrome) -> None:
    sign_in(browser, "max")
    fill(browser, what="code", target="", client="")
    browser.execute_script("document.getElementById('act').requestSubmit()")
    told(browser, "shown this once")
    browser.find_element(By.ID, "holds-client").send_keys(
        "10.0.0.7", Keys.TAB, Keys.TAB, "http://ads.test/", Keys.ENTER
    )
    wait_until(browser, lambda one: "block: ads.test/" in one.find_element(By.ID, "holding").text)


def test_the_page_fits_a_phone_and_every_field_and_button_has_a_name(browser: Chrome, page: Proxy) -> None:
    page.get("http://ads.test/")
    sign_in(browser, "max")
    browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
    for width in (390, 1400):
        browser.set_window_size(width, 800)
        assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    browser.set_window_size(390, 800)
    browser.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": {"Accept-Language": "de"}})
    browser.refresh()
    wait_until(browser, lambda one: one.find_elements(By.CSS_SELECTOR, "#top-categories .act"))
    tops = (
        "return [...document.querySelectorAll('#counts .actions')].filter((one) => one.offsetParent).map((one) => "
        "new Set([...one.children].filter((button) => button.offsetParent).map((button) => button.offsetTop)).size)"
    )
    assert set(browser.execute_script(tops)) == {1}  # the buttons of a row stand side by side
    browser.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": {}})
    nameless = browser.execute_script(
        "return [...document.querySelectorAll('input, select, button')].filter((one) => "
        "!(one.labels?.length || one.ariaLabel || one.textContent.trim())).map((one) => one.id)"
    )
    assert nameless == []
    used = browser.execute_script(
        "return performance.getEntriesByType('resource').map((one) => new URL(one.name).host)"
    )
    assert set(used) == {HOST}


@pytest.mark.parametrize("path", ["/api/v1/session", "/setup"])
@pytest.mark.parametrize(
    "body", [b"Content-Length: 900000000\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"]
)
def test_a_body_that_is_too_long_is_refused_before_it_arrives(page: Proxy, path: str, body: bytes) -> None:
    head = f"POST http://{HOST}{path} HTTP/1.1\r\nHost: {HOST}\r\nX-Hushlist: live\r\n".encode()
    with socket.create_connection((LOOPBACK, page.port), PATIENCE) as client:
        client.sendall(head + body)
        assert read_answer(client, "POST").status == 413


def test_another_site_s_page_does_nothing_with_the_session(browser: Chrome, page: Proxy, origin: Origin) -> None:
    sign_in(browser, "max")
    origin.pages["/attack"] = ("text/html", b"<!doctype html><title>Attack</title>")
    browser.get("http://evil.test/attack")
    attack = """
        const [page, done] = arguments;
        const body = '{"group": "default", "minutes": 60}';
        const own = {method: "POST", credentials: "include", body};
        const send = (more) => fetch(page + "/api/v1/pauses", {...own, ...more}).then((one) => one.status, () => -1);
        const headers = {"Content-Type": "application/json", "X-Hushlist": "live", "X-Hushlist-Token": "0"};
        Promise.all([send({}), send({mode: "no-cors"}), send({headers})]).then(done);
    """
    assert not {200, 204} & set(browser.execute_async_script(attack, f"http://{HOST}"))
    form = """
        const form = Object.assign(document.createElement("form"), {method: "post", action: arguments[0]});
        const [name, value] = ['{"group": "default", "minutes": 60, "a', '": 1}'];
        form.append(Object.assign(document.createElement("input"), {name, value}));
        form.enctype = "text/plain";
        document.body.append(form);
        form.submit();
    """
    browser.execute_script(form, f"http://{HOST}/api/v1/pauses")
    wait_until(browser, lambda one: HOST in one.current_url)
    browser.get(f"http://{HOST}/")
    wait_until(browser, lambda one: "Nothing at present." in one.find_element(By.ID, "grants").text)
