"""A headless Chromium that asks the proxy for everything, or can ask for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from e2e.origin import LOOPBACK
from e2e.proxy import PATIENCE, Proxy

BROWSER = which("chromium") or which("chromium-browser") or which("google-chrome")
DRIVER = which("chromedriver")
#: a port, "discard"
NOBODY_LISTENS = 9


@contextmanager
def chromium(proxy: Proxy | None, folder: Path) -> Iterator[Chrome]:
    """One that knows no names but by the proxy, until the block ends; ``folder`` takes what it keeps.

    Without a proxy it opens files only, and logs what it asks for, and what its console says.
    """
    options = ChromeOptions()
    options.binary_location = BROWSER or ""
    options.accept_insecure_certs = True
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        "--window-size=1000,700",
        f"--user-data-dir={folder}",
        f"--proxy-server={LOOPBACK}:{proxy.port if proxy else NOBODY_LISTENS}",
        "--proxy-bypass-list=<-loopback>",
        f"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {LOOPBACK}",
    ):
        options.add_argument(argument)
    if proxy is None:
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options, Service(DRIVER))
    driver.set_page_load_timeout(PATIENCE)
    driver.set_script_timeout(PATIENCE)
    try:
        yield driver
    finally:
        driver.quit()
