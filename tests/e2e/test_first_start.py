"""The first start, from ``mitmdump -s addon/filter.py`` to a child's device that is blocked at night."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from e2e.browser import profile, wait_for_words
from e2e.keyboard import Keyboard
from e2e.origin import LOOPBACK, Origin
from e2e.proxy import PATIENCE, Proxy, eventually, mitmdump, read_answer, request_head
from e2e.test_accessibility import READERS, findings_by_look, pytestmark, read_in
from hushlist.extensions.first_start.questionnaire import first_start_texts

__all__ = ["pytestmark"]

TEXTS = first_start_texts()
#: the address of the child's device
TABLET = "127.0.0.9"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def proxy(folder: Path, origin: Origin) -> Iterator[Proxy]:
    with mitmdump(folder, origin) as running:
        yield running


def status(proxy: Proxy, address: str, host: str) -> int:
    """What a device with an address gets."""
    with socket.create_connection((LOOPBACK, proxy.port), PATIENCE, (address, 0)) as connection:
        connection.sendall(request_head(b"http://%s/" % host.encode(), host.encode()))
        return read_answer(connection).status


def set_times(browser: Chrome, **times: str) -> None:
    """Type times, which a browser shows as its reader writes them."""
    script = "document.getElementsByName(arguments[0])[0].value = arguments[1]"
    for name, time in times.items():
        browser.execute_script(script, name.replace("_", "."), time)


def test_a_person_who_edits_no_file_has_a_device_filtered_at_night(
    chrome: Chrome, proxy: Proxy, folder: Path, origin: Origin
) -> None:
    start = proxy.log.wait_for(r"open (http://\S+/start) on this machine")[1]
    assert status(proxy, TABLET, "games.test") == 200
    with profile(chrome, None) as browser:
        keyboard = Keyboard(browser)
        read_in(browser, "en")
        browser.get(start)
        keyboard.wait_for_any_focus()
        keyboard.press(Keys.ENTER)
        wait_for_words(browser, "Which people and devices?")
        keyboard.tab_to("Address of the device or network")
        keyboard.press(TABLET, Keys.TAB, "A child", Keys.TAB, "Mia", Keys.ENTER)
        wait_for_words(browser, "What is blocked?")
        browser.find_element(By.CSS_SELECTOR, "[type=checkbox]").send_keys(Keys.ENTER)
        wait_for_words(browser, "Mia: Bedtime, Sunday to Thursday")
        always = {f"bed_0_{part}_{end}": time for part in ("week", "end") for end, time in _ALL_DAY}
        set_times(browser, **always)
        browser.find_element(By.NAME, "zone").send_keys(Keys.ENTER)
        wait_for_words(browser, "Who runs the filter?")
        passphrase = "correct horse battery"
        keyboard.wait_for_any_focus()
        keyboard.press("Anna", Keys.TAB, passphrase, Keys.TAB, passphrase, Keys.ENTER)
        wait_for_words(browser, "The filter works as you said")
        wait_for_words(browser, f"{folder}/config/hushlist/policy.yaml")
        assert findings_by_look(browser, READERS["en"]) == {}
    with origin.watch() as arrived:
        assert status(proxy, TABLET, "games.test") == 403
    assert arrived.connections == 0
    assert status(proxy, LOOPBACK, "games.test") == 200
    own = f"{LOOPBACK}:{proxy.port}".encode()
    led = proxy.send(request_head(b"/start", own))
    assert (led.status, led.headers["location"]) == (302, "/setup")
    with mitmdump(folder, origin) as again:  # as after a restart of the machine
        assert status(again, TABLET, "games.test") == 403
        assert "/start on this machine" not in again.log.text()


_ALL_DAY = (("from", "00:00"), ("until", "23:59"))


@pytest.mark.thorough
@pytest.mark.parametrize("language", READERS)
def test_each_screen_can_be_used_by_everybody(chrome: Chrome, proxy: Proxy, language: str) -> None:
    start = proxy.log.wait_for(r"open (http://\S+/start) on this machine")[1]
    with profile(chrome, None) as browser:
        looks, texts = READERS[language], TEXTS[language]
        read_in(browser, language)
        browser.get(start)
        for screen in ("place", "people", "subjects", "times", "admin"):
            wait_for_words(browser, texts[screen])
            if screen == "people":
                browser.find_element(By.NAME, "address.0").clear()
                browser.find_element(By.NAME, "address.0").send_keys("192.168.1.22")
                browser.find_element(By.NAME, "whose.0").send_keys(texts["whose_limited"])
            assert findings_by_look(browser, looks) == {}, screen
            browser.find_element(By.CSS_SELECTOR, "button[value=next]").click()
        wait_for_words(browser, texts["fault_needed"])
        assert findings_by_look(browser, looks) == {}


@pytest.mark.thorough
def test_what_stands_in_a_row_ends_in_one_line(chrome: Chrome, proxy: Proxy) -> None:
    with profile(chrome, None) as browser:
        browser.set_window_size(1280, 900)
        browser.get(proxy.log.wait_for(r"open (http://\S+/start) on this machine")[1])
        browser.find_element(By.CSS_SELECTOR, "button[value=next]").click()
        wait_for_words(browser, TEXTS["en"]["people"])
        row = "document.querySelector('.row').querySelectorAll('input, select')"
        ends = browser.execute_script(f"return [...{row}].map((one) => one.getBoundingClientRect().bottom)")
        assert len(ends) == 3
        assert max(ends) - min(ends) < 1


def test_a_policy_that_is_written_meanwhile_is_taken_when_it_has_no_mistake(proxy: Proxy, folder: Path) -> None:
    proxy.log.wait_for("on this machine")
    policy = folder / "config" / "hushlist" / "policy.yaml"
    policy.parent.mkdir(parents=True)
    policy.write_text("layers: 7\n")
    proxy.log.wait_for("policy.yaml:1: layers: expected a list")
    assert status(proxy, LOOPBACK, "blocked.example") == 403
    policy.write_text("layers: []\ndefault: block\n")
    assert eventually(lambda: status(proxy, LOOPBACK, "games.test") == 403)
