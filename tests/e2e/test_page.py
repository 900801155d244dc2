"""The page, as a parent uses it: in headless Chromium, while two children browse through the same proxy."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

from e2e.browser import BROWSER, DRIVER, profile, wait_for_words, wait_until
from e2e.household import CHILDREN, PASSPHRASE, SCRIPT, get_as, household
from e2e.keyboard import Keyboard
from e2e.origin import Origin
from e2e.proxy import Proxy
from e2e.test_asking import Asker
from hushlist.extensions.dashboard.dashboard_server import HOST
from hushlist.extensions.services.service_lists import services
from hushlist.extensions.unblock import default_path
from hushlist.extensions.unblock.overrides import Overrides

pytestmark = [
    pytest.mark.xdist_group("chromium, the page"),
    pytest.mark.skipif(not BROWSER or not DRIVER, reason="there is no Chromium with chromedriver on PATH"),
]
SCREENS = {
    "": "Home",
    "people": "People",
    "people/group%3AMia": "Mia",
    "people/127.0.0.3": "Leo's phone",
    "class/group%3AMia": "Mia",
    "activity": "Activity",
    "activity?by=site": "Activity",
    "activity?by=file": "Activity",
    "activity?by=page": "Activity",
    "history?days=31": "Over time",
    "explain?url=http://www.games.test/": "What would happen to …",
    "rules": "Rules",
    "alerts": "Alerts",
    "lists": "Lists",
    "services": "Services",
    "devices": "Devices",
    "system": "System",
    "record": "Record",
    "settings": "Settings",
    "settings/groups": "groups",
    "settings/schedules": "schedules",
    "more": "More",
}
_TITLES = SCREENS | {"people/group%3ALeo": "Leo", "class/group%3ALeo": "Leo"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("household")


@pytest.fixture(scope="module")
def family(folder: Path, tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> Iterator[Proxy]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        with household(folder, tmp_path_factory.mktemp("mitmdump"), origin) as running:
            yield running


@pytest.fixture(scope="module")
def browser(chrome: Chrome, family: Proxy) -> Iterator[Chrome]:
    with profile(chrome, family) as running:
        yield running


def forget(browser: Chrome) -> None:
    """Begin anew, as where nobody has signed in."""
    browser.execute_cdp_cmd("Network.clearBrowserCookies", {})


def sign_in(browser: Chrome, name: str = "anna", screen: str = "", scheme: str = "http") -> None:
    """Open a screen, and sign in, unless a test before has."""
    browser.get(f"{scheme}://{HOST}/#/{screen}")
    browser.refresh()
    shown = "return !document.getElementById('sign-in').hidden || document.getElementById('screen').children.length > 0"
    wait_until(browser, lambda one: one.execute_script(shown))
    if browser.find_element(By.ID, "sign-in").is_displayed():
        browser.find_element(By.NAME, "name").send_keys(name, Keys.TAB, PASSPHRASE, Keys.ENTER)
    wait_for_words(browser, f"{name} (")
    wait_until(browser, lambda one: one.execute_script("return document.getElementById('screen').children.length > 0"))


def show(browser: Chrome, screen: str) -> None:
    """Open a screen by its address, as a link does."""
    browser.execute_script(
        "document.getElementById('title').textContent = ''; location.hash = '#/none';"
        "location.hash = `#/${arguments[0]}`",
        screen,
    )
    wait_until(browser, lambda one: one.find_element(By.ID, "title").text == _TITLES.get(screen, "Activity"), screen)


def expect_message(browser: Chrome, words: str) -> None:
    wait_until(browser, lambda one: words in one.find_element(By.ID, "message").text, words)


def named(browser: Chrome, words: str) -> WebElement:
    """The link or the button that is called so, once it is there; that of a sheet, where one is open."""
    script = """
        const place = document.querySelector("dialog") ?? document;
        return [...place.querySelectorAll("a, button, summary")].find((one) => one.offsetParent
            && (one.ariaLabel ?? one.textContent).trim().startsWith(arguments[0])) ?? null;
    """
    wait_until(browser, lambda one: one.execute_script(script, words), f"nothing is called {words!r}")
    found: WebElement = browser.execute_script(script, words)
    return found


def click(browser: Chrome, words: str) -> None:
    """Click what is called so; anew where the screen is drawn again between the look for it and the click."""

    def is_clicked(browser: Chrome) -> bool:
        target = named(browser, words)
        browser.execute_script(
            "arguments[0].scrollIntoView({block: 'center'})", target
        )  # the navigation is at the foot
        target.click()
        return True

    wait_until(browser, is_clicked, words)


class Taps:
    """Taps on a telephone from Home on, which are counted."""

    def __init__(self, browser: Chrome) -> None:
        self.browser, self.number = browser, 0
        sign_in(browser)

    def __call__(self, words: str) -> None:
        height = self.browser.execute_script(
            "return arguments[0].tagName === 'A' ? null : arguments[0].offsetHeight", named(self.browser, words)
        )
        assert height is None or height >= 44, (words, height)
        click(self.browser, words)
        self.number += 1
        assert self.number <= 2, words


@pytest.fixture
def phone(browser: Chrome) -> Iterator[None]:
    screen = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    yield
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def undo(browser: Chrome) -> None:
    click(browser, "Undo")
    expect_message(browser, "Undone.")


@pytest.mark.usefixtures("phone")
def test_what_a_parent_does_each_day_takes_two_taps_at_most(browser: Chrome, family: Proxy) -> None:
    games = "http://www.games.test/play"
    assert Asker(family).ask("http://ads.test/two", reason=f"For school {SCRIPT}").status_code == 303
    tap = Taps(browser)
    wait_for_words(browser, f"For school {SCRIPT}")
    tap("15 min: 127.0.0.1 asks for ads.test")
    expect_message(browser, "ads.test is open for 127.0.0.1 until ")
    assert family.get("http://ads.test/two").status_code == 200

    tap = Taps(browser)
    tap("Internet off: Mia")
    tap("30 min")
    expect_message(browser, "The internet is off for Mia until ")
    assert get_as(family, "Mia", "http://school.test/")[0] == 403
    assert get_as(family, "Leo", "http://school.test/")[0] == 200
    wait_for_words(browser, "Internet off until ")
    undo(browser)
    assert get_as(family, "Mia", "http://school.test/")[0] in (200, 403)  # 403: it is bedtime

    tap = Taps(browser)
    tap("+15 min: Mia")
    expect_message(browser, "Mia has 15 min more for video.")
    wait_for_words(browser, "of 75 min left")

    assert get_as(family, "Leo", games)[0] == 403
    for _ in range(30):  # more than the log has of any site today, at any hour
        assert get_as(family, "Mia", games)[0] == 403
    tap = Taps(browser)
    tap("www.games.test Mia")
    tap("Allow www.games.test for Mia, 30 min")
    expect_message(browser, "www.games.test is open for Mia until ")
    assert get_as(family, "Mia", games)[0] == 200
    assert get_as(family, "Leo", games)[0] == 403
    undo(browser)
    assert get_as(family, "Mia", games)[0] == 403

    tap = Taps(browser)
    tap("Mia")
    wait_until(browser, lambda one: one.find_element(By.ID, "title").text == "Mia")
    for words in ("All requests:", "school.test", "www.games.test", "online games", "Minutes by day", "The week"):
        wait_for_words(browser, words)


@pytest.mark.thorough
def test_every_screen_has_an_address_and_room_and_back_works(browser: Chrome, family: Proxy) -> None:
    family.get(f"http://games.test/{SCRIPT}?{SCRIPT}", headers={"User-Agent": SCRIPT})
    sign_in(browser)
    for kind in browser.log_types:
        browser.get_log(kind)
    for width in (390, 1280):
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        for address in SCREENS:
            show(browser, address)
            assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth"), address
            assert browser.title.endswith("Hushlist")
            marks = "return document.querySelectorAll('main img, main script, main b.owned').length"
            assert browser.execute_script(marks) == 0
            nameless = browser.execute_script(
                "return [...document.querySelectorAll('input, select, button, a')].filter((one) => "
                "!(one.labels?.length || one.ariaLabel || one.textContent.trim())).map((one) => one.outerHTML)"
            )
            assert nameless == [], address
            text = browser.execute_script("return document.getElementById('screen').innerText")
            assert "hrn:" not in text or address.startswith(("explain", "settings")), address
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    show(browser, "rules")
    show(browser, "lists")
    browser.back()
    browser.back()  # over the address that ``show`` goes by
    wait_until(browser, lambda one: one.find_element(By.ID, "title").text == "Rules")
    used = browser.execute_script(
        "return performance.getEntriesByType('resource').map((one) => new URL(one.name).host)"
    )
    assert set(used) == {HOST}
    assert [entry for entry in browser.get_log("browser") if HOST in entry["message"]] == []


@pytest.mark.thorough
def test_a_device_has_its_name_wherever_its_address_would_stand(browser: Chrome, family: Proxy) -> None:
    get_as(family, "Leo", "http://www.games.test/")
    sign_in(browser)
    with closing(Overrides(default_path(), time.time)) as overrides:
        grant = overrides.grant("host", "wiki.test", 600.0, client=CHILDREN["Leo"], how="command line", by="anna")
        overrides.block("host", "news.test", 600.0, client=CHILDREN["Leo"], by="anna")
        for screen, places in {
            "": ("www.games.test",),
            "alerts": ("gaming: Leo's phone",),
            "people": (),
            "people/127.0.0.3": ("www.games.test",),
            "people/group%3ALeo": ("Leo's phone",),
            "class/group%3ALeo": ("Leo's phone",),
            "activity": ("Leo's phone",),
            "rules": ("wiki.test", "news.test", "Leo's phone"),
            "devices": ("Leo's phone",),
            "system": (),
        }.items():
            show(browser, screen)
            for words in places:
                wait_for_words(browser, words)
            text = browser.find_element(By.ID, "screen").text
            assert screen in ("devices",) or CHILDREN["Leo"] not in text, screen
        overrides.revoke(grant.id, by="anna")


def test_a_decision_is_in_the_feed_within_a_second_and_says_why(browser: Chrome, family: Proxy) -> None:
    sign_in(browser, screen="activity")
    wait_for_words(browser, "school.test")
    family.get(f"http://www.games.test/feed/{SCRIPT}")
    wait_for_words(browser, "www.games.test/feed")
    row = "[...document.querySelectorAll('.rows .row')].find((one) => one.textContent.includes('/feed'))"
    browser.execute_script(f"{row}.click()")
    sheet = browser.find_element(By.TAG_NAME, "dialog")
    for words in (
        "block",
        "127.0.0.1",
        "online games",
        f"Games {SCRIPT}",
        "Allow www.games.test for 127.0.0.1, 30 min",
    ):
        assert words in sheet.text
    click(browser, "Explain this address")
    wait_for_words(browser, "Layers that were asked")
    assert "lists – decides" in browser.find_element(By.ID, "screen").text
    browser.back()
    wait_until(browser, lambda one: one.find_element(By.ID, "title").text == "Activity")

    Select(browser.find_element(By.NAME, "whom")).select_by_visible_text("Mia")
    click(browser, "Show")
    wait_until(browser, lambda one: "whom=group%3AMia" in one.current_url)
    wait_until(browser, lambda one: one.find_elements(By.CSS_SELECTOR, ".rows .row"))
    whose = "return [...new Set([...document.querySelectorAll('.rows .who')].map((one) => one.firstChild.textContent))]"
    wait_until(browser, lambda one: one.execute_script(whose) == ["Mia"])
    rows = len(browser.find_elements(By.CSS_SELECTOR, ".rows .row"))
    click(browser, "Older")
    wait_until(browser, lambda one: len(one.find_elements(By.CSS_SELECTOR, ".rows .row")) > rows)


#: requests in their order: URL, type, what asks for it, browser; then the tab, the load of a page, and the frame
_NEWS, _SHOP, _VIDEO = "https://news.test/", "https://shop.test/", "https://video.test/embed"
_BELONG = (
    ((_NEWS, "document", "", "A"), (1, 1, "")),
    (("https://news.test/a.css", "stylesheet", _NEWS, "A"), (1, 1, "")),
    (("https://fonts.test/a.woff", "font", "https://news.test/a.css", "A"), (1, 1, "")),
    ((_SHOP, "document", "", "A"), (2, 2, "")),
    (("https://ads.test/a.js", "script", _NEWS, "A"), (1, 1, "")),
    ((_VIDEO, "subdocument", _NEWS, "A"), (1, 1, _VIDEO)),
    (("https://video.test/a.mp4", "media", "https://video.test/", "A"), (1, 1, _VIDEO)),
    ((_NEWS, "document", "", "B"), (3, 3, "")),  # another browser
    (("https://news.test/b.png", "image", _NEWS, "A"), (1, 1, "")),
    (("https://news.test/today", "document", _NEWS, "A"), (1, 4, "")),  # a link that was followed
    (("https://news.test/b.png", "image", "https://news.test/today", "A"), (1, 4, "")),
    ((_SHOP, "document", "", "A"), (2, 5, "")),  # a reload
    (("https://ads.test/b.js", "script", "https://unseen.test/", "A"), (0, "unseen.test", "")),
    (("https://unsaid.test/c.js", "script", "", "A"), (0, "", "")),
)


def test_the_tester_s_view_tells_where_requests_belong_and_shows_the_others_of_a_page(
    browser: Chrome, family: Proxy
) -> None:
    sign_in(browser, screen="activity?by=page")
    script = """
        const [rows, done] = arguments;
        import("/requests.js").then(({Places}) => {
            const places = new Places();
            done(rows.map(([url, type, by, agent]) => places.of({url, told: {
                type, by, agent, page: by.split("/")[2] ?? ""}})).map(({tab, load, frame}) => [tab, load, frame]));
        }, (error) => done(String(error)));
    """
    assert browser.execute_async_script(script, [row for row, _ in _BELONG]) == [list(place) for _, place in _BELONG]

    page = {"Accept": "text/html", "User-Agent": "Tester/1"}
    for path in ("", "other"):
        family.get(f"http://page.test/{path}", headers=page)
    of_page = {"Referer": "http://page.test/", "User-Agent": "Tester/1"}
    for url in ("http://page.test/a.css", "http://pixel.ads.test/a.png"):
        family.get(url, headers=of_page)
    shown = (
        "return [...document.querySelectorAll('.requests li:not([hidden]) .url')].map((one) => one.textContent)"
        ".filter((one) => /^(page|pixel.ads).test/.test(one))"
    )
    pixel, style, other, first = "pixel.ads.test/a.png", "page.test/a.css", "page.test/other", "page.test/"
    wait_until(browser, lambda one: one.execute_script(shown) == [pixel, style, other, first])
    for name, value, left in (
        ("type", "image", [pixel]),
        ("party", "third party", [pixel]),
        ("frame", "All", [pixel, style, other, first]),
    ):
        Select(browser.find_element(By.NAME, name)).select_by_visible_text(value)
        assert browser.execute_script(shown) == left
        Select(browser.find_element(By.NAME, name)).select_by_index(0)
    row = "[...document.querySelectorAll('.rows .row')].find((one) => one.textContent.includes('pixel'))"
    browser.execute_script(f"{row}.click()")
    sheet = browser.find_element(By.TAG_NAME, "dialog").text
    for words in ("image", "third party", "http://page.test/"):
        assert words in sheet
    click(browser, "Other requests of the page: 2")
    assert browser.execute_script(shown) == [pixel, style, first]


def test_what_is_pressed_stays_until_it_is_released(browser: Chrome, family: Proxy) -> None:
    sign_in(browser)
    press = """
        window.pressed = document.querySelector("#screen button");
        window.pressed.dispatchEvent(new PointerEvent("pointerdown", {bubbles: true}));
        const now = Date.now;
        Date.now = () => now() + 60e3; // the screen is to be drawn again, since long
    """
    is_there = "return window.pressed.isConnected"
    browser.execute_script(press)
    time.sleep(2.5)  # two turns of the page's clock
    assert browser.execute_script(is_there)
    browser.execute_script("window.pressed.dispatchEvent(new PointerEvent('pointerup', {bubbles: true}))")
    wait_until(browser, lambda one: not one.execute_script(is_there))


@pytest.mark.thorough
def test_names_of_devices_are_read_once_for_many_screens_and_again_after_a_change(
    browser: Chrome, family: Proxy
) -> None:
    reads = (
        "return performance.getEntriesByType('resource').filter((one) => one.name.endsWith('/network/names')).length"
    )
    sign_in(browser)
    for screen in ("people", "rules", "lists"):
        show(browser, screen)
    assert browser.execute_script(reads) == 1
    show(browser, "")
    click(browser, "Internet off: Mia")
    click(browser, "15 min")
    expect_message(browser, "The internet is off for Mia until ")
    wait_until(browser, lambda one: one.execute_script(reads) == 2)
    undo(browser)
    show(browser, "record")
    wait_for_words(browser, "Which: everything, For whom: Mia")


def test_the_search_leads_to_a_person_a_site_and_the_number_of_a_block_page(browser: Chrome, family: Proxy) -> None:
    sign_in(browser)
    number = family.get("http://www.games.test/number").headers.get("x-hushlist-reference", "")
    for typed, address in (
        ("mia", "#/people/group%3AMia"),
        ("127.0.0.3", "#/people/127.0.0.3"),
        ("http://a.test/x", "host=a.test"),
    ):
        browser.find_element(By.ID, "q").send_keys(typed, Keys.ENTER)
        wait_until(browser, lambda one, address=address: address in one.current_url, address)
    browser.find_element(By.ID, "q").send_keys(number or "0" * 10, Keys.ENTER)
    wait_until(browser, lambda one: "reference=" in one.current_url)


def test_who_may_only_look_does_nothing_and_who_is_not_signed_in_sees_nothing(browser: Chrome, family: Proxy) -> None:
    forget(browser)
    browser.get(f"http://{HOST}/#/people")
    browser.refresh()
    wait_for_words(browser, "Signed out")
    assert "Mia" not in browser.page_source
    browser.find_element(By.NAME, "name").send_keys("vera", Keys.TAB, "wrong", Keys.ENTER)
    wait_for_words(browser, "The name or the passphrase is wrong.")
    Asker(family).ask("http://www.games.test/vera", reason="Please")
    sign_in(browser, "vera")
    wait_for_words(browser, "Please")
    for screen in ("", "people/group%3AMia", "rules", "lists", "record", "system"):
        show(browser, screen)
        names = browser.execute_script(
            "return [...document.querySelectorAll('main button')].map((one) => one.textContent)"
        )
        assert not {"Internet off", "Filter off", "15 min", "Decline", "Do it", "End", "Remove", "Undo"} & set(names)
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


def fill(browser: Chrome, **values: str) -> None:
    """Fill the form of an order."""
    browser.execute_script(
        "const form = document.querySelector('#screen form.fields');"
        "for (const [name, value] of Object.entries(arguments[0])) {"
        "form.elements[name].value = value; form.elements[name].dispatchEvent(new Event('change', {bubbles: true})); }",
        values,
    )


def test_a_lasting_rule_is_previewed_added_and_undone_and_a_code_is_shown_once(
    browser: Chrome, family: Proxy, folder: Path
) -> None:
    own = (folder / "own.yaml").read_text()
    sign_in(browser, screen="rules")
    fill(browser, kind="block", target="wiki.test", minutes="0", reason=SCRIPT)
    click(browser, "Do it")
    wait_for_words(browser, "Please say for whom.")
    fill(browser, client="everybody")
    click(browser, "Preview")
    wait_for_words(browser, "In the last week it would have changed:")
    wait_for_words(browser, "http://wiki.test/")
    click(browser, "Do it")
    expect_message(browser, "The rule is added.")
    assert (folder / "own.yaml").read_text().startswith(own)
    wait_for_words(browser, SCRIPT)
    show(browser, "record")
    click(browser, "Undo: rule added")
    expect_message(browser, "Undone.")
    assert (folder / "own.yaml").read_text() == own
    show(browser, "rules")
    fill(browser, kind="code", target="")
    click(browser, "Do it")
    wait_for_words(browser, "The code, which is shown this once:")
    click(browser, "Close")
    click(browser, "Withdraw")
    expect_message(browser, "Withdrawn.")


def test_the_policy_is_changed_by_a_choice_tried_before_and_undone(
    browser: Chrome, family: Proxy, folder: Path
) -> None:
    before = (folder / "policy.yaml").read_text()
    sign_in(browser, screen="rules")
    cell = "[...document.querySelectorAll('td select')].find((one) => one.ariaLabel === 'video, Leo')"
    wait_until(browser, lambda one: one.execute_script(f"return Boolean({cell})"))
    Select(browser.execute_script(f"return {cell}")).select_by_visible_text("block")
    click(browser, "Save: video, Leo, block")
    expect_message(browser, "It is saved, and holds in a moment.")
    after = (folder / "policy.yaml").read_text()
    assert set(before.splitlines()) <= set(after.splitlines())
    wait_until(browser, lambda _: get_as(family, "Leo", "http://video.test/")[0] == 403)
    undo(browser)
    assert (folder / "policy.yaml").read_text() == before
    wait_until(browser, lambda _: get_as(family, "Leo", "http://video.test/")[0] == 200)
    show(browser, "settings/groups")
    click(browser, "As YAML")
    area = browser.find_element(By.NAME, "text")
    area.send_keys(Keys.CONTROL, Keys.END)
    area.send_keys(Keys.NULL, "  - colour: red")
    browser.find_element(By.CSS_SELECTOR, "#screen details[open] button:not(.plain)").click()
    expect_message(browser, "It did not work:")
    assert "colour: unknown key" in browser.find_element(By.CSS_SELECTOR, "#screen details[open] .alert").text
    assert not browser.find_elements(By.TAG_NAME, "dialog")  # it is said where it was written
    assert (folder / "policy.yaml").read_text() == before
    assert area.get_attribute("value").endswith("colour: red")  # nobody has to write it again


def test_a_schedule_is_drawn_moved_by_hand_and_by_keys_and_undone(browser: Chrome, family: Proxy, folder: Path) -> None:
    before = (folder / "policy.yaml").read_text()
    sign_in(browser, screen="rules")
    click(browser, "Change: bedtime")
    wait_until(browser, lambda one: one.find_elements(By.CSS_SELECTOR, "dialog button.span"))
    spans = browser.find_elements(By.CSS_SELECTOR, "dialog button.span")
    assert len(spans) == 7
    spans[0].send_keys(Keys.ARROW_RIGHT, Keys.SHIFT, Keys.ARROW_RIGHT)
    wait_until(browser, lambda one: "8:15 PM – 7:30 AM" in one.switch_to.active_element.accessible_name)
    track = browser.find_element(By.CSS_SELECTOR, "dialog .track[data-day='5']")
    from_noon = ActionChains(browser).move_to_element(track).click_and_hold()
    for step in (track.size["width"] // 16, track.size["width"] // 8 - track.size["width"] // 16):  # three hours
        from_noon.move_by_offset(step, 0)
    from_noon.release().perform()
    wait_until(browser, lambda one: len(one.find_elements(By.CSS_SELECTOR, "dialog fieldset[data-row]")) == 2)
    click(browser, "Save")
    expect_message(browser, "It is saved, and holds in a moment.")
    assert "times: 20:15-07:30" in (folder / "policy.yaml").read_text()
    assert "{days: sat, times: 12:00-15:00}" in (folder / "policy.yaml").read_text()
    wait_until(browser, lambda one: not one.find_elements(By.TAG_NAME, "dialog"))
    undo(browser)
    assert (folder / "policy.yaml").read_text() == before
    wait_until(browser, lambda one: "Change: bedtime" in one.page_source)


@pytest.mark.thorough
def test_a_new_schedule_is_for_whom_it_says_at_once(browser: Chrome, family: Proxy, folder: Path) -> None:
    before = (folder / "policy.yaml").read_text()
    sign_in(browser, screen="rules")
    click(browser, "New schedule")
    wait_until(browser, lambda one: one.find_elements(By.CSS_SELECTOR, "dialog input[name=name]"))
    dialog = browser.find_element(By.TAG_NAME, "dialog")
    dialog.find_element(By.NAME, "name").send_keys("lunch")
    (leo,) = dialog.find_elements(By.CSS_SELECTOR, "input[name=group]")  # Mia has a bedtime
    leo.click()
    click(browser, "Save")
    expect_message(browser, "It is saved, and holds in a moment.")
    after = (folder / "policy.yaml").read_text()
    assert "lunch:" in after
    assert "during: lunch" in after
    undo(browser)
    assert (folder / "policy.yaml").read_text() == before


def test_a_form_of_the_table_of_keys_changes_what_it_shows_alone(browser: Chrome, family: Proxy, folder: Path) -> None:
    before = (folder / "policy.yaml").read_text()
    sign_in(browser, screen="settings/groups")
    click(browser, "Leo")
    Select(browser.find_element(By.CSS_SELECTOR, "details[open] select[aria-label^='Add a key']")).select_by_value(
        "mode"
    )
    click(browser, "Add: groups, mode")
    Select(browser.find_element(By.CSS_SELECTOR, "select[aria-label=mode]")).select_by_value("tag")
    click(browser, "Save")
    expect_message(browser, "It is saved, and holds in a moment.")
    after = (folder / "policy.yaml").read_text()
    assert set(before.splitlines()) <= set(after.splitlines())
    assert "    mode: tag" in after
    undo(browser)
    assert (folder / "policy.yaml").read_text() == before


def test_a_teacher_sees_a_class_opens_a_site_for_all_of_it_and_prints_codes(browser: Chrome, family: Proxy) -> None:
    get_as(family, "Leo", "http://school.test/")
    get_as(family, "Leo", "http://www.games.test/")
    sign_in(browser, screen="class/group%3ALeo")
    assert named(browser, "Stopped in the lesson: Leo's phone")
    click(browser, "Codes to print")
    number = browser.find_element(By.CSS_SELECTOR, "dialog input[name=number]")
    number.clear()
    number.send_keys("3", Keys.ENTER)
    wait_until(browser, lambda one: len(one.find_elements(By.CSS_SELECTOR, "dialog .codes code")) == 3)
    codes = {one.text for one in browser.find_elements(By.CSS_SELECTOR, "dialog .codes code")}
    assert len(codes - {""}) == 3
    click(browser, "Close")
    browser.find_element(By.NAME, "site").send_keys("www.games.test", Keys.ENTER)
    expect_message(browser, "www.games.test is open for Leo until ")
    assert get_as(family, "Leo", "http://www.games.test/")[0] == 200
    assert get_as(family, "Mia", "http://www.games.test/")[0] == 403
    undo(browser)


@pytest.mark.thorough
def test_a_subject_of_the_catalogue_is_chosen_for_one_child(browser: Chrome, family: Proxy, folder: Path) -> None:
    before = (folder / "policy.yaml").read_text()
    sign_in(browser, screen="lists")
    click(browser, "Services by name, such as TikTok")
    chosen = browser.find_element(By.CSS_SELECTOR, "details[open] input[value='group:Leo']")
    chosen.click()
    click(browser, "Save: Services by name")
    expect_message(browser, "It is saved, and holds in a moment.")
    assert "{catalogue: services}" in (folder / "policy.yaml").read_text()
    wait_until(browser, lambda _: get_as(family, "Leo", "http://www.tiktok.com/")[0] == 403)
    undo(browser)
    assert (folder / "policy.yaml").read_text() == before


@pytest.mark.thorough
def test_a_list_of_which_there_is_no_copy_yet_is_among_the_lists(browser: Chrome, family: Proxy, folder: Path) -> None:
    policy = folder / "policy.yaml"
    before = policy.read_text()
    gone = "{url: 'https://127.0.0.1:9/gone.txt', title: Gone, format: domains, optional: true}"
    policy.write_text(before.replace("layers:\n", f"layers:\n  - {{name: far, lists: [{gone}]}}\n"))

    def is_told(browser: Chrome) -> bool:
        sign_in(browser, screen="lists")
        return "Gone https://127.0.0.1:9/gone.txt failed: " in " ".join(
            browser.find_element(By.ID, "screen").text.split()
        )

    try:
        wait_until(browser, is_told)
    finally:
        policy.write_text(before)


@pytest.mark.thorough
def test_a_tile_of_a_service_says_and_changes_what_is_done_with_it_for_whom(
    browser: Chrome, family: Proxy, folder: Path
) -> None:
    before = (folder / "policy.yaml").read_text()
    none = "No layer of the policy has the list of services"

    def is_told(browser: Chrome) -> bool:
        sign_in(browser, screen="services")  # the policy of the test before may still be in force
        return none in browser.find_element(By.ID, "screen").text

    wait_until(browser, is_told, none)
    tiles = "[...document.querySelectorAll('article')].map((one) => one.querySelector('h3').textContent)"
    found = browser.execute_script(f"return {tiles}")
    assert len(found) == len({*services()}) + len({one.group for one in services().values()})
    cell = "[...document.querySelectorAll('article select')].find((one) => one.ariaLabel === 'tiktok, Mia')"
    Select(browser.execute_script(f"return {cell}")).select_by_visible_text("block")
    click(browser, "Save: tiktok, Mia, block")
    expect_message(browser, "It is saved, and holds in a moment.")
    assert "tiktok" in (folder / "policy.yaml").read_text()
    undo(browser)
    assert (folder / "policy.yaml").read_text() == before


def test_everything_is_done_without_a_mouse(browser: Chrome, family: Proxy) -> None:
    forget(browser)
    browser.get(f"http://{HOST}/#/")
    browser.refresh()
    wait_for_words(browser, "Passphrase")
    keyboard = Keyboard(browser)
    keyboard.tab_to("Name")
    keyboard.press("anna", Keys.TAB, PASSPHRASE, Keys.ENTER)
    wait_for_words(browser, "Internet off")
    keyboard.wait_for_focus("Home")
    keyboard.tab_to("Internet off: Mia")
    keyboard.press(Keys.ENTER)
    wait_until(browser, lambda one: one.find_elements(By.TAG_NAME, "dialog"))
    keyboard.press(Keys.ESCAPE)
    assert keyboard.focus() == "Internet off: Mia"
    keyboard.press(Keys.ENTER)
    keyboard.tab_to("15 min")
    keyboard.press(Keys.ENTER)
    expect_message(browser, "The internet is off for Mia")
    keyboard.tab_to("Undo")
    keyboard.press(Keys.ENTER)
    expect_message(browser, "Undone.")
    keyboard.tab_to("Skip to the content", is_back=True)
    keyboard.press(Keys.ENTER)
    assert keyboard.focus() == "Home"
    keyboard.tab_to("Activity", is_back=True)
    keyboard.press(Keys.ENTER)
    keyboard.wait_for_focus("Activity")


@pytest.mark.parametrize(
    "screen",
    [
        "alerts",
        *(
            pytest.param(one, marks=pytest.mark.thorough)
            for one in ("class/group%3AMia", "people/group%3AMia", "lists", "settings/groups")
        ),
    ],
)
def test_the_tab_key_reaches_all_of_a_screen_in_its_order(browser: Chrome, family: Proxy, screen: str) -> None:
    get_as(family, "Mia", "http://www.games.test/")
    sign_in(browser, screen=screen)
    wait_until(browser, lambda one: one.find_element(By.ID, "title").text == _TITLES[screen])
    for summary in browser.find_elements(By.CSS_SELECTOR, "#screen summary")[:1]:
        summary.click()
    assert Keyboard(browser).walk() == set()


@pytest.mark.thorough
def test_the_policy_is_changed_without_a_mouse(browser: Chrome, family: Proxy, folder: Path) -> None:
    before = (folder / "policy.yaml").read_text()
    keyboard = Keyboard(browser)

    def save(words: str, written: str) -> None:
        keyboard.tab_to(words)
        keyboard.press(Keys.ENTER)
        expect_message(browser, "It is saved, and holds in a moment.")
        assert written in (folder / "policy.yaml").read_text()
        wait_until(browser, lambda one: not one.find_elements(By.TAG_NAME, "dialog"))
        keyboard.tab_to("Undo")
        keyboard.press(Keys.ENTER)
        expect_message(browser, "Undone.")
        assert (folder / "policy.yaml").read_text() == before

    def move_bedtime() -> None:
        keyboard.press(Keys.ENTER)
        wait_until(browser, lambda one: one.find_elements(By.CSS_SELECTOR, "dialog button.span"))
        keyboard.tab_to("Wed, ")
        keyboard.press(Keys.ARROW_RIGHT)

    sign_in(browser, screen="rules")
    keyboard.tab_to("Change: bedtime")
    move_bedtime()
    keyboard.wait_for_focus("Wed, 8:15")  # not another day's
    keyboard.press(Keys.DELETE)
    keyboard.wait_for_focus("Add a time")
    keyboard.press(Keys.ESCAPE)
    keyboard.wait_for_focus("Change: bedtime")
    move_bedtime()
    save("Save", "times: 20:15-07:15")

    sign_in(browser, screen="lists")
    keyboard.tab_to("Services by name")
    keyboard.press(Keys.ENTER)
    keyboard.tab_to("Leo")
    keyboard.press(Keys.SPACE)
    save("Save: Services by name", "{catalogue: services}")

    sign_in(browser, screen="settings/groups")
    keyboard.tab_to("Leo")
    keyboard.press(Keys.ENTER)
    keyboard.tab_to("Add: clients")
    keyboard.press(Keys.ENTER)
    keyboard.press("127.0.0.4")
    keyboard.tab_to("Move up: clients, 2")
    keyboard.press(Keys.ENTER)
    keyboard.wait_for_focus("Add: clients")  # the first cannot move
    save("Save", "[127.0.0.4, 127.0.0.3]")


def test_a_field_that_has_the_focus_keeps_it_where_a_screen_is_drawn_anew(browser: Chrome, family: Proxy) -> None:
    sign_in(browser, screen="class/group%3ALeo")
    field = browser.find_element(By.NAME, "site")
    field.click()
    browser.execute_script("document.dispatchEvent(new Event('done'))")
    wait_until(browser, lambda one: one.find_element(By.NAME, "site") != field)
    wait_until(browser, lambda one: one.switch_to.active_element == one.find_element(By.NAME, "site"))


@pytest.mark.thorough
def test_an_arrow_key_in_a_choice_does_nothing_by_itself(browser: Chrome, family: Proxy, folder: Path) -> None:
    before = (folder / "policy.yaml").read_text()
    keyboard = Keyboard(browser)
    sign_in(browser, screen="rules")
    keyboard.tab_to("video, Leo")
    keyboard.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    keyboard.tab_to("Save: video, Leo, warn")
    assert (folder / "policy.yaml").read_text() == before
    keyboard.press(Keys.ENTER)
    expect_message(browser, "It is saved, and holds in a moment.")
    assert (folder / "policy.yaml").read_text() != before
    undo(browser)
    assert (folder / "policy.yaml").read_text() == before

    show(browser, "settings/groups")
    keyboard.tab_to("Leo")
    keyboard.press(Keys.ENTER)
    keyboard.tab_to("Add a key: groups")
    keyboard.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    keys = len(browser.find_elements(By.CSS_SELECTOR, "details[open] .key"))
    keyboard.tab_to("Add: groups, ")
    keyboard.press(Keys.ENTER)
    assert len(browser.find_elements(By.CSS_SELECTOR, "details[open] .key")) == keys + 1

    for screen, name, words in (("activity", "Who", "whom=group%3AMia"), ("record", "Who", "who=anna")):
        show(browser, screen)
        keyboard.tab_to(name)
        keyboard.press(Keys.ARROW_DOWN)
        assert "?" not in browser.current_url
        keyboard.tab_to("Show")
        keyboard.press(Keys.ENTER)
        wait_until(browser, lambda one, words=words: words in one.current_url, words)


@pytest.mark.thorough
def test_a_class_and_alerts_are_looked_after_without_a_mouse(browser: Chrome, family: Proxy) -> None:
    get_as(family, "Leo", "http://www.games.test/")
    keyboard = Keyboard(browser)
    sign_in(browser, screen="class/group%3ALeo")
    keyboard.tab_to("Open a site for all of them")
    keyboard.press("www.games.test", Keys.ENTER)
    expect_message(browser, "www.games.test is open for Leo until ")
    keyboard.tab_to("Undo")
    keyboard.press(Keys.ENTER)
    expect_message(browser, "Undone.")
    keyboard.tab_to("Codes to print")
    keyboard.press(Keys.ENTER)
    keyboard.tab_to("How many")
    keyboard.press(Keys.BACKSPACE, Keys.BACKSPACE, "2", Keys.ENTER)
    wait_until(browser, lambda one: len(one.find_elements(By.CSS_SELECTOR, "dialog .codes code")) == 2)
    keyboard.press(Keys.ESCAPE)
    wait_until(browser, lambda one: not one.find_elements(By.TAG_NAME, "dialog"))

    sign_in(browser, screen="alerts")
    keyboard.tab_to("Seen: gaming: Leo's phone")
    keyboard.press(Keys.ENTER)
    wait_until(browser, lambda one: one.find_element(By.ID, "message").text)
    wait_until(browser, lambda one: "Seen: gaming: Leo's phone" not in Keyboard(browser).names())


def test_what_was_changed_by_hand_meanwhile_stays_and_both_are_shown(
    browser: Chrome, family: Proxy, folder: Path
) -> None:
    before = (folder / "policy.yaml").read_text()
    sign_in(browser, screen="settings/groups")
    click(browser, "Leo")
    Select(browser.find_element(By.CSS_SELECTOR, "details[open] select[aria-label^='Add a key']")).select_by_value(
        "mode"
    )
    click(browser, "Add: groups, mode")
    Select(browser.find_element(By.CSS_SELECTOR, "select[aria-label=mode]")).select_by_value("tag")
    by_hand = before.replace("clients: [127.0.0.3]", "clients: [127.0.0.3, 127.0.0.4]")
    (folder / "policy.yaml").write_text(by_hand)
    keyboard = Keyboard(browser)
    keyboard.tab_to("Save")
    keyboard.press(Keys.ENTER)
    wait_for_words(browser, "was changed meanwhile")
    is_now, wrote = browser.find_elements(By.CSS_SELECTOR, "dialog pre")
    assert "127.0.0.4" in is_now.text
    assert "mode" not in is_now.text
    assert '"mode": "tag"' in wrote.text
    assert "127.0.0.4" not in wrote.text
    assert (folder / "policy.yaml").read_text() == by_hand
    keyboard.tab_to("As you wrote")
    keyboard.press(Keys.ESCAPE)
    keyboard.wait_for_focus("Save")
    assert "127.0.0.4" not in browser.find_element(By.ID, "screen").text  # what was typed is still there
    (folder / "policy.yaml").write_text(before)
