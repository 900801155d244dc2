"""Takes the pictures of the guides with headless Chromium: of the README's own policy, a family's, and an audit.

    .venv/bin/python tests/e2e/pictures.py

It writes examples/pictures/*.png. Look at them before you commit them.
"""

from __future__ import annotations

import sys
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from documentation import ROOT, blocks
from e2e.browser import chromium, wait_for_words
from e2e.household import PASSPHRASE, household
from e2e.origin import Origin
from e2e.proxy import mitmdump
from hushlist.cli import main as hushlist
from hushlist.extensions.dashboard.dashboard_server import HOST

PICTURES = ROOT / "examples" / "pictures"
ADS = "0.0.0.0 ads.example\n0.0.0.0 pixel.tracker.example\n0.0.0.0 banners.example\n"


def write_policy(folder: Path) -> Path:
    """The README's policy and list, and a list of advertisers; the path of the policy is relative to ``folder``."""
    folder /= "my-rules"
    folder.mkdir()
    policy, overrides = blocks("README.md", "yaml")
    (folder / "overrides.yaml").write_text(overrides, encoding="utf-8")
    (folder / "ads.hosts").write_text(ADS, encoding="utf-8")
    (folder / "policy.yaml").write_text(policy, encoding="utf-8")
    return Path("my-rules/policy.yaml")


def take(browser: Chrome, name: str, width: int, height: int) -> None:
    """Write a picture of what the browser shows, of so many pixels."""
    browser.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
    )
    browser.save_screenshot(str(PICTURES / name))


def take_audit(browser: Chrome, page: Path) -> None:
    """The page of the guide's audit."""
    options = ["--policy", "examples/audit/policy.yaml", "--popular", "examples/audit/popular.txt"]
    with chdir(ROOT):
        hushlist(["audit", *options, "examples/audit/browsing.har", "--html", str(page)])
    browser.get(page.as_uri())
    take(browser, "audit-page.png", 1100, 900)


def main() -> None:
    """Take all pictures."""
    PICTURES.mkdir(exist_ok=True)
    with TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("origin", "mitmproxy", "browser"):
            (folder / part).mkdir()
        with (
            Origin(folder / "origin") as origin,
            mitmdump(folder / "mitmproxy", origin, policy=write_policy(folder / "mitmproxy")) as proxy,
            chromium(proxy, folder / "browser") as browser,
        ):
            browser.get("http://games.example/play")
            browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
            take(browser, "block-page.png", 760, 840)
        with (
            Origin(folder / "origin") as origin,
            mitmdump(folder / "mitmproxy", origin) as proxy,
            chromium(proxy, folder / "browser", "--proxy-bypass-list=127.0.0.1") as browser,
        ):
            browser.get(proxy.log.wait_for(r"open (http://\S+/start) on this machine")[1])
            for screen, picture in (("Which people", "people"), ("What is blocked", "lists")):
                browser.find_element(By.CSS_SELECTOR, "button[value=next]").click()
                wait_for_words(browser, screen)
                if screen == "Which people":
                    for field, typed in (("address.0", "192.168.1.22"), ("name.0", "Mia")):
                        browser.find_element(By.NAME, field).clear()
                        browser.find_element(By.NAME, field).send_keys(typed)
                    browser.find_element(By.NAME, "whose.0").send_keys("A child")
                take(browser, f"first-start-{picture}.png", 390, 844)
        (folder / "filter").mkdir()
        with (
            Origin(folder / "origin") as origin,
            household(folder / "filter", folder / "mitmproxy", origin) as proxy,
            chromium(proxy, folder / "browser") as browser,
        ):
            browser.get(f"http://{HOST}/")
            wait_for_words(browser, "Passphrase")
            browser.find_element(By.NAME, "name").send_keys("anna", Keys.TAB, PASSPHRASE, Keys.ENTER)
            wait_for_words(browser, "All requests:")
            take(browser, "live-page.png", 1280, 960)
            take_audit(browser, folder / "report.html")


if __name__ == "__main__":
    main()
