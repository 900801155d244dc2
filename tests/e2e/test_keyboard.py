"""The live page by the keyboard alone, in headless Chromium: every key is pressed as a person presses it."""

from __future__ import annotations

from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.keys import Keys

from e2e.browser import wait_for_words, wait_until
from e2e.proxy import Proxy
from e2e.test_administration import PASSPHRASE, browser, folder, forget, page, pytestmark
from e2e.test_asking import Asker
from hushlist.extensions.dashboard.dashboard_server import HOST

__all__ = ["browser", "folder", "page", "pytestmark"]

#: presses of the Tab key until something is reached, at most: more is a trap
MOST = 60
#: what has the focus: its name, whether it is seen to have it, and whether it is behind what had it before
FOCUS = """
    const one = document.activeElement, before = window.before;
    window.before = one;
    const {left, top, width, height} = one.getBoundingClientRect();
    const there = document.elementFromPoint(left + Math.min(width, 20) / 2, top + Math.min(height, 20) / 2);
    return {
        name: one.ariaLabel ?? one.labels?.[0]?.textContent ?? one.textContent,
        isShown: getComputedStyle(one).outlineStyle !== "none" && (one.contains(there) || one.matches(".scroll")),
        isBehind: !before?.isConnected || (before.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING) > 0,
    };
"""


class Keyboard:
    def __init__(self, browser: Chrome) -> None:
        self.browser = browser

    def press(self, *keys: str) -> None:
        ActionChains(self.browser).send_keys(*keys).perform()

    def focus(self) -> str:
        return str(self.browser.execute_script(FOCUS)["name"])

    def wait_for_focus(self, name: str) -> None:
        wait_until(self.browser, lambda _: self.focus().startswith(name), name)

    def tab_to(self, name: str, is_back: bool = False) -> None:
        """Press Tab until something has the focus; each time, that has to be seen, and its place be the next."""
        self.focus()
        passed = []
        for _ in range(MOST):
            keys = ActionChains(self.browser)
            if is_back:
                keys.key_down(Keys.SHIFT)
            keys.send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
            found = self.browser.execute_script(FOCUS)
            assert found["isShown"], found
            assert found["isBehind"] is not is_back, (found, passed)
            passed.append(found["name"])
            if found["name"].startswith(name):
                return
        raise AssertionError(f"{name!r} is not reached: {passed}")


def signed_in(browser: Chrome) -> Keyboard:
    """The keyboard of somebody who has signed in with it."""
    keyboard = Keyboard(browser)
    forget(browser)
    browser.get(f"http://{HOST}/")
    wait_for_words(browser, "Passphrase")
    keyboard.tab_to("Name")
    keyboard.press("max", Keys.TAB, PASSPHRASE, Keys.ENTER)
    return keyboard


def test_everything_is_done_without_a_mouse(browser: Chrome, page: Proxy) -> None:
    keyboard = signed_in(browser)
    keyboard.wait_for_focus("max (may do everything)")
    assert page.get("http://keys.test/a").status_code == 200
    assert Asker(page).ask("http://ads.test/keys", reason="for school").status_code == 303
    wait_for_words(browser, "http://keys.test/a")

    keyboard.tab_to("Skip to the decisions", is_back=True)
    keyboard.press(Keys.ENTER)
    wait_until(browser, lambda _: keyboard.focus() != "Skip to the decisions")  # the browser goes there by a task
    keyboard.tab_to("More: http://keys.test/a")
    page.get("http://ads.test/meanwhile")  # rows that arrive do not take the focus
    wait_for_words(browser, "http://ads.test/meanwhile")
    assert keyboard.focus() == "More: http://keys.test/a"
    keyboard.press(Keys.ENTER)
    assert keyboard.focus() == "What"
    keyboard.press("b")
    keyboard.tab_to("Preview")

    def previewed(one: Chrome) -> bool:  # the log is written by a thread of its own
        one.execute_script("document.getElementById('preview').replaceChildren()")
        keyboard.press(Keys.ENTER)
        found = "return document.getElementById('preview').textContent"
        wait_until(one, lambda _: one.execute_script(found))
        return "keys.test/a" in str(one.execute_script(found))

    wait_until(browser, previewed)
    keyboard.tab_to("Do it", is_back=True)
    keyboard.press(Keys.ENTER)
    keyboard.wait_for_focus("It is blocked.")
    assert page.get("http://keys.test/a").status_code == 403
    keyboard.tab_to("Undo")
    keyboard.press(Keys.ENTER)
    keyboard.wait_for_focus("Undone.")
    assert page.get("http://keys.test/a").status_code == 200

    keyboard.press(Keys.ESCAPE)
    assert keyboard.focus() == "More: http://keys.test/a"
    keyboard.press(Keys.ENTER)
    keyboard.press(Keys.ESCAPE)
    assert keyboard.focus() == "More: http://keys.test/a"
    keyboard.tab_to("Pause", is_back=True)
    keyboard.tab_to("Block: http://keys.test/a")
    keyboard.press(Keys.ENTER)
    keyboard.wait_for_focus("It is blocked.")
    assert page.get("http://keys.test/a").status_code == 403

    keyboard.tab_to("Approve: ")
    keyboard.press(Keys.ENTER)
    keyboard.wait_for_focus("It is allowed.")
    assert page.get("http://ads.test/keys").status_code == 200
    keyboard.tab_to("Turn the filter off for the group")
    keyboard.press("kids")
    keyboard.tab_to("Turn the filter off")
    keyboard.press(Keys.ENTER)
    wait_until(browser, lambda one: "kids, 15" in one.switch_to.alert.text)  # it asks
    browser.switch_to.alert.accept()
    keyboard.wait_for_focus("The filter is off for the group.")
    keyboard.tab_to("End: Block, Site: keys.test")
    keyboard.press(Keys.ENTER)
    keyboard.wait_for_focus("Ended.")
    assert page.get("http://keys.test/a").status_code == 200
    keyboard.tab_to("Sign out", is_back=True)
    keyboard.press(Keys.ENTER)
    wait_for_words(browser, "Signed out")


def test_a_table_that_is_drawn_anew_leaves_the_focus_where_it_is(browser: Chrome, page: Proxy) -> None:
    keyboard = signed_in(browser)
    page.get("http://mine.test/")
    allow = "document.querySelector('#top-hosts [aria-label=\"Allow: mine.test\"]')"
    wait_until(browser, lambda one: one.execute_script(f"return Boolean({allow})"))
    browser.execute_script(f"window.old = {allow}; old.focus()")
    page.get("http://mine.test/")
    wait_until(browser, lambda one: not one.execute_script("return old.isConnected"))
    assert keyboard.focus() == "Allow: mine.test"
