"""A keyboard: every key is pressed as a person presses it, and what has the focus has to be seen."""

from __future__ import annotations

from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.keys import Keys

from e2e.browser import wait_until

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
