"""A mistake that somebody reports on a block page, and what becomes of it: in Chromium, by a real mitmdump."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from e2e import test_chromium
from e2e.browser import wait_for_words
from e2e.household import PASSPHRASE
from e2e.origin import Origin
from e2e.policies import stored
from e2e.proxy import Proxy, mitmdump
from e2e.test_page import click, expect_message, named, sign_in
from hushlist.cli import main

pytestmark = test_chromium.pytestmark
ISSUES = "https://lists.test/issues"
ADS = f"! Title: Ads\n! Version: 7\n! Issues: {ISSUES}\n||ads.test/banners/$document\n"
POLICY = """
log: {{clients: pseudonym}}
reports: on
admin: [{{name: anna, passphrase: '{passphrase}', role: manage}}]
layers: [{{name: lists, lists: [{{file: ads.txt, format: adblock, title: Ads}}, {{file: hidden.txt, format: sha256}}]}}]
"""
HASH = hashlib.sha256(b"hidden.test/").hexdigest()


@pytest.fixture(scope="class")
def proxy(tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("reports")
    (folder / "ads.txt").write_text(ADS)
    (folder / "hidden.txt").write_text(f"{HASH}\n")
    (folder / "policy.yaml").write_text(POLICY.format(passphrase=stored(PASSPHRASE)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        with mitmdump(folder, origin, policy=folder / "policy.yaml") as running:
            yield running


def reports(*arguments: str) -> str:
    """What the administrator's command prints."""
    with redirect_stdout(StringIO()) as printed:
        assert main(["reports", *arguments]) == 0
    return printed.getvalue()


class TestAReport:
    def test_somebody_reports_and_the_administrator_reads_changes_and_settles_it(
        self, browser: Chrome, origin: Origin
    ) -> None:
        with origin.watch() as arrived:
            for url in ("http://hidden.test/deep", "https://ads.test/banners/x?name=jo"):
                browser.get(url)
                click(browser, "This is a mistake")
                browser.find_element(By.NAME, "words").send_keys("<b>no</b> ad")
                click(browser, "Report the mistake")
                wait_for_words(browser, "Whoever looks after the filter has been told")
        assert arrived.connections == 0
        assert "127.0.0.1" not in reports("list")
        assert "ads.test" in reports("list")
        text = reports("show", "1")
        assert f"Rule: sha256:{HASH} (line 1)" in text
        assert "hidden.test" not in text
        sign_in(browser)
        wait_for_words(browser, "says that this is blocked by mistake: ads.test")
        wait_for_words(browser, "<b>no</b> ad")
        click(browser, "Report for the publisher: ")
        assert named(browser, ISSUES).get_attribute("href") == ISSUES
        area = browser.find_element(By.CSS_SELECTOR, "dialog textarea").get_property("value")
        assert isinstance(area, str)
        assert "Version: 7" in area
        assert hashlib.sha256(ADS.encode()).hexdigest() in area
        assert not any(private in area for private in ("127.0.0.1", "jo", "no</b> ad"))
        browser.find_element(By.CSS_SELECTOR, "dialog .bar button").click()
        click(browser, "Settled: ")
        expect_message(browser, "It is settled.")
        assert len(reports("list").splitlines()) == 1
