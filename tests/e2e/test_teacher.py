"""The page of a teacher who may do everything for one class, and sees nothing of another: on a telephone."""

from __future__ import annotations

import re
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode, urljoin

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from e2e.browser import wait_for_words, wait_until
from e2e.household import CHILDREN, get_as
from e2e.origin import LOOPBACK
from e2e.proxy import PATIENCE, Proxy
from e2e.test_accessibility import AXE, LOOKS, findings_by_look
from e2e.test_page import (
    SCREENS,
    browser,
    click,
    expect_message,
    family,
    folder,
    forget,
    phone,
    pytestmark,
    sign_in,
    undo,
)

__all__ = ["browser", "family", "folder", "phone", "pytestmark"]
OTHERS = ("Leo", "127.0.0.3", "127.0.0.9", "Everybody else")


def ask_as(proxy: Proxy, child: str, url: str, reason: str) -> None:
    """Ask for access as a child does at its block page."""
    page = get_as(proxy, child, url)[1]
    (action,), (token,) = (
        re.findall('<form[^>]* action="([^"]*)"', page)[:1],
        re.findall('"token" value="([^"]*)"', page)[:1],
    )
    body = urlencode({"token": token, "ask": "on", "reason": reason})
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    connection = HTTPConnection(LOOPBACK, proxy.port, PATIENCE, source_address=(CHILDREN[child], 0))
    with closing(connection):
        connection.request("POST", urljoin(url, action), body, headers)
        assert connection.getresponse().status == 303


def navigation(browser: Chrome) -> list[str]:
    """What the navigation leads to."""
    shown = (
        "return [...document.querySelectorAll('#nav a')].filter((one) => one.offsetParent).map((one) => one.innerText)"
    )
    return [one.split("\n")[0].strip() for one in browser.execute_script(shown)]


def body_of(browser: Chrome) -> str:
    found: str = browser.execute_script("return document.body.innerText")
    return found


@pytest.mark.thorough
@pytest.mark.usefixtures("phone")
def test_a_teacher_sees_and_does_what_is_the_class_s_alone(browser: Chrome, family: Proxy) -> None:
    for child in CHILDREN:
        ask_as(family, child, "http://chat.test/", f"{child} wants to chat")
    sign_in(browser, "tina")
    wait_for_words(browser, "Mia wants to chat")
    assert navigation(browser) == ["Home", "Activity", "Record"]
    assert not browser.find_element(By.ID, "search").is_displayed()

    for screen in SCREENS:  # by their addresses, as somebody types them who knows them
        browser.execute_script(
            "document.getElementById('title').textContent = ''; location.hash = '#/none';"
            "location.hash = `#/${arguments[0]}`",
            screen,
        )
        expected = {"activity": "Activity", "record": "Record"}.get(re.split("[/?]", screen)[0], "Mia")
        wait_until(browser, lambda one, title=expected: one.find_element(By.ID, "title").text == title, screen)
        assert not [one for one in OTHERS if one in body_of(browser)], screen
        assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth"), screen
    browser.execute_script("location.hash = '#/class/group%3ALeo'")
    wait_for_words(browser, "It is no longer there.")

    sign_in(browser, "tina")
    click(browser, "15 min: Mia asks for chat.test")
    expect_message(browser, "chat.test is open for 127.0.0.2 until ")
    wait_for_words(browser, "Unblocked now")  # the screen is drawn anew
    assert (get_as(family, "Mia", "http://chat.test/")[0], get_as(family, "Leo", "http://chat.test/")[0]) == (200, 403)

    browser.find_element(By.NAME, "site").send_keys("www.games.test")
    click(browser, "Allow")
    expect_message(browser, "www.games.test is open for Mia until ")
    assert [get_as(family, child, "http://www.games.test/")[0] for child in CHILDREN] == [200, 403]
    undo(browser)
    assert get_as(family, "Mia", "http://www.games.test/")[0] == 403

    click(browser, "Internet off")
    click(browser, "30 min")
    expect_message(browser, "The internet is off for Mia until ")
    assert [get_as(family, child, "http://school.test/")[0] for child in CHILDREN] == [403, 200]
    click(browser, "End: everything")
    expect_message(browser, "Ended.")

    click(browser, "Codes to print")
    browser.execute_script("document.querySelector('dialog [name=number]').value = 2")
    click(browser, "make a code")
    wait_until(browser, lambda one: len(one.find_elements(By.CSS_SELECTOR, ".codes code")) == 2)


@pytest.mark.usefixtures("phone")
@pytest.mark.skipif(AXE is None, reason="axe-core is not there: axe-core-python brings it")
@pytest.mark.thorough
def test_a_teacher_of_several_classes_goes_from_each_to_the_other(browser: Chrome, family: Proxy) -> None:
    ask_as(family, "Leo", "http://www.games.test/", "Leo wants to play")
    forget(browser)
    sign_in(browser, "theo")
    wait_for_words(browser, "Waiting for an answer: ")
    assert navigation(browser) == ["Home", "Activity", "Record"]
    narrow = [look for look in LOOKS if look[1] == 390]
    assert findings_by_look(browser, narrow) == {}
    for name, other in (("Leo", "Mia"), ("Mia", "Leo")):
        click(browser, name)
        wait_until(browser, lambda one, title=name: one.find_element(By.ID, "title").text == title, name)
        wait_for_words(browser, "Codes to print")
        assert other not in body_of(browser).replace("theo (Mia, Leo)", "")
        assert findings_by_look(browser, narrow) == {}, name
        click(browser, "Home")
        wait_for_words(browser, "Waiting for an answer: ")
    click(browser, "Leo")
    click(browser, "15 min: Leo asks for www.games.test")
    expect_message(browser, "www.games.test is open for Leo's phone until ")
    assert (get_as(family, "Leo", "http://www.games.test/")[0], get_as(family, "Mia", "http://www.games.test/")[0]) == (
        200,
        403,
    )
    undo(browser)


@pytest.mark.usefixtures("phone")
def test_the_page_is_drawn_anew_for_whoever_the_policy_limits_meanwhile(
    browser: Chrome, family: Proxy, folder: Path
) -> None:
    """No call of the interface says so: the page learns of it by what is refused."""
    policy = folder / "policy.yaml"
    before = policy.read_text()
    forget(browser)
    sign_in(browser, "vera")
    wait_for_words(browser, "Everybody else")
    assert "More" in navigation(browser)
    policy.write_text(before.replace("role: view}", "role: view, groups: [Mia]}"))

    def is_limited(browser: Chrome) -> bool:
        browser.execute_script("location.hash = location.hash === '#/rules' ? '#/lists' : '#/rules'")
        return navigation(browser) == ["Home", "Activity", "Record"]

    try:
        wait_until(browser, is_limited, "the page shows what is refused")
        wait_until(browser, lambda one: one.find_element(By.ID, "title").text == "Mia")
        wait_for_words(browser, "vera (Mia)")
        assert not [one for one in OTHERS if one in body_of(browser)]
    finally:
        policy.write_text(before)
