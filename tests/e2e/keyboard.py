"""A keyboard: every key is pressed as a person presses it, and what has the focus has to be seen."""

from __future__ import annotations

from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.keys import Keys

from e2e.browser import wait_until

#: presses of the Tab key until something is reached, at most: more is a trap
MOST = 120
#: what has the focus: its name, whether it is seen to have it, and whether it is behind what had it before
FOCUS = """
    const one = document.activeElement, before = window.before;
    window.before = one;
    const {left, top, width, height} = one.getBoundingClientRect();
    const there = document.elementFromPoint(left + Math.min(width, 20) / 2, top + Math.min(height, 20) / 2);
    return {
        name: one.ariaLabel ?? one.labels?.[0]?.textContent ?? one.textContent,
        isShown: getComputedStyle(one).outlineStyle !== "none" && (one.contains(there) || one.matches(".scroll")),
        isSame: before === one, // a time has several places, whose focus the browser shows
        isBehind: !before?.isConnected || (before.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING) > 0,
    };
"""


#: the names of all that takes the focus in a screen, or in the sheet that is open
NAMES = """
    const place = document.querySelector("dialog") ?? document.getElementById("screen");
    return [...place.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
        .filter((one) => one.checkVisibility() && !one.disabled && one.tabIndex >= 0)
        .map((one) => one.ariaLabel ?? one.labels?.[0]?.textContent ?? one.textContent);
"""


class Keyboard:
    def __init__(self, browser: Chrome) -> None:
        self.browser = browser

    def press(self, *keys: str) -> None:
        ActionChains(self.browser).send_keys(*keys).perform()

    def focus(self) -> str:
        return str(self.browser.execute_script(FOCUS)["name"])

    def names(self) -> set[str]:
        """The names of all that takes the focus in a screen, or in the sheet that is open."""
        return set(self.browser.execute_script(NAMES))

    def wait_for_focus(self, name: str) -> None:
        wait_until(self.browser, lambda _: self.focus().startswith(name), name)

    def wait_for_any_focus(self) -> None:
        """A page gives it to its first field when it is drawn, which may be after its words are there."""
        wait_until(self.browser, lambda one: one.execute_script("return document.activeElement !== document.body"))

    def walk(self) -> set[str]:
        """Press Tab from the title to the end of the page, as ``tab_to`` does; the names that never had the focus."""
        named = self.names()
        self.browser.execute_script("document.getElementById('title').focus()")
        self.focus()
        for _ in range(MOST):
            self.press(Keys.TAB)
            found = self.browser.execute_script(FOCUS)
            if not found["isBehind"] and not found["isSame"]:
                return named
            assert found["isShown"] or found["isSame"], found
            named.discard(found["name"])
        raise AssertionError(f"the page has no end; not reached: {named}")

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
            assert found["isShown"] or found["isSame"], found
            assert found["isSame"] or found["isBehind"] is not is_back, (found, passed)
            passed.append(found["name"])
            if found["name"].startswith(name):
                return
        raise AssertionError(f"{name!r} is not reached: {passed}")
