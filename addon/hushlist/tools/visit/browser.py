"""A headless browser of a visit: it asks one filter for everything, and tells what a person would see."""

from __future__ import annotations

import os
import time
from base64 import b64decode
from collections.abc import Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from shutil import which
from typing import Any, Self

from hushlist.tools.visit.filter_process import VisitError
from hushlist.tools.visit.marionette import MarionetteDriver
from hushlist.tools.visit.page_actions import Action

#: the window: that of a small notebook
WIDTH, HEIGHT = 1280, 800
#: what time is frozen at: milliseconds since 1970
_MOMENT = 1_750_000_000_000
#: seconds between looks whether a page rests, and how often it has to
_LOOK, _RESTS = 0.1, 4
#: what Chromium would otherwise ask for itself, or do differently each time
_CHROMIUM = (
    "--headless=new",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-default-apps",
    "--no-first-run",
    "--no-default-browser-check",
    "--mute-audio",
    "--hide-scrollbars",
    "--force-prefers-reduced-motion",
    "--autoplay-policy=no-user-gesture-required",
    "--disable-site-isolation-trials",  # else the scripts of frames run before time is frozen in them
    "--disable-features=IsolateOrigins,site-per-process,Translate,OptimizationHints,MediaRouter",
    f"--window-size={WIDTH},{HEIGHT}",
    "--force-device-scale-factor=1",
    "--proxy-bypass-list=<-loopback>;*.google.com;*.googleapis.com;*.duckduckgo.com;*.gvt1.com",
)
#: resources that are there, and whether the document has arrived
_ACTIVITY = "return [performance.getEntriesByType('resource').length, document.readyState, document.images.length]"


class Browser:
    """A browser behind the filter at a port; ``folder`` takes its profile."""

    #: what is not the same each time, for the report
    not_frozen = ""

    def __init__(self, driver: Any, patience: float) -> None:
        self._driver, self._patience = driver, patience
        driver.set_page_load_timeout(patience)
        driver.set_script_timeout(patience)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):  # whatever a driver raises that has lost its browser
            self._driver.quit()

    def visit(self, address: str, actions: Sequence[Action]) -> dict[str, Any]:
        """Open a page as somebody who was never there, do what a script says, and tell what is seen."""
        from selenium.common.exceptions import TimeoutException, WebDriverException

        self._forget()
        faults = []
        try:
            self._driver.get(address)
        except TimeoutException:
            faults.append("it did not end to load")
        except WebDriverException as error:
            faults.append(_brief(error))
        self._until_it_rests()
        for action in actions:
            try:
                if action.act(self._driver):
                    self._until_it_rests()
                else:
                    faults.append(f"{action}: nothing there to act on")
            except WebDriverException as error:
                faults.append(f"{action}: {_brief(error)}")
        try:
            seen: dict[str, Any] = self._driver.execute_script(_PROBE)
        except WebDriverException as error:
            raise VisitError(f"{address}: {_brief(error)}") from error
        seen["faults"] = faults
        seen["picture"] = self._picture()
        return seen

    def _until_it_rests(self) -> None:
        end, rests, before = time.monotonic() + self._patience, 0, None
        while rests < _RESTS and time.monotonic() < end:
            time.sleep(_LOOK)
            with suppress(Exception):  # a page that gives way to another one
                activity = self._driver.execute_script(_ACTIVITY)
                rests = rests + 1 if activity == before and activity[1] == "complete" else 0
                before = activity

    def _forget(self) -> None:
        self._driver.delete_all_cookies()

    def _picture(self) -> bytes:
        picture: bytes = self._driver.get_screenshot_as_png()
        return picture


class Chromium(Browser):
    """A Chromium, whose pages begin with a script that freezes time and random numbers."""

    def __init__(self, port: int, folder: Path, patience: float) -> None:
        from selenium.common.exceptions import WebDriverException
        from selenium.webdriver import Chrome, ChromeOptions
        from selenium.webdriver.chrome.service import Service

        binary = which("chromium") or which("chromium-browser") or which("google-chrome")
        driver = which("chromedriver")
        if binary is None or driver is None:
            raise VisitError("there is no Chromium with its ChromeDriver on PATH")
        options = ChromeOptions()
        options.binary_location = binary
        options.accept_insecure_certs = True
        is_root = hasattr(os, "geteuid") and os.geteuid() == 0
        for argument in (
            *(["--no-sandbox"] if is_root else []),  # Chromium has none for root
            *_CHROMIUM,
            f"--user-data-dir={folder}",
            f"--proxy-server=127.0.0.1:{port}",
        ):
            options.add_argument(argument)
        for tries in range(4):  # the driver ends at once if the port that was free for it is taken
            try:
                chrome = Chrome(options, Service(driver))
                break
            except WebDriverException as error:
                if tries == 3:
                    raise VisitError(f"Chromium cannot be started: {_brief(error)}") from error
        super().__init__(chrome, patience)
        self._ask("Page.addScriptToEvaluateOnNewDocument", source=_FROZEN.replace("%MOMENT%", str(_MOMENT)))
        self._ask("Network.enable")
        self._ask("Network.setCacheDisabled", cacheDisabled=True)

    def _ask(self, command: str, **parameters: object) -> Any:
        return self._driver.execute_cdp_cmd(command, parameters)

    def _forget(self) -> None:
        self._driver.get("about:blank")
        self._ask("Network.clearBrowserCookies")
        self._ask("Storage.clearDataForOrigin", origin="*", storageTypes="all")

    def _picture(self) -> bytes:
        # a fifth of the processor time that WebP takes
        return b64decode(self._ask("Page.captureScreenshot", format="jpeg", quality=75)["data"])


class Firefox(Browser):
    """A Firefox; nothing in it can run before the scripts of a page."""

    not_frozen = (
        "time, random numbers, and what listens to clicks: Firefox runs no script before those of a page, so that a "
        "page which shows either may differ without the list's doing, and dead controls are not seen"
    )

    def __init__(self, port: int, folder: Path, patience: float) -> None:
        binary = which("firefox-esr") or which("firefox")
        if binary is None:
            raise VisitError("there is no Firefox on PATH")
        proxy: dict[str, object] = {"network.proxy.type": 1, "network.proxy.allow_hijacking_localhost": True}
        for scheme in ("http", "ssl"):
            proxy |= {f"network.proxy.{scheme}": "127.0.0.1", f"network.proxy.{scheme}_port": port}
        super().__init__(MarionetteDriver(binary, folder, proxy, (WIDTH, HEIGHT)), patience)


#: the browsers, by their names
BROWSERS: dict[str, type[Chromium] | type[Firefox]] = {"chromium": Chromium, "firefox": Firefox}


def _brief(error: Exception) -> str:
    return str(getattr(error, "msg", None) or error).splitlines()[0][:300]


def _text(name: str) -> str:
    return files("hushlist.tools.visit").joinpath(name).read_text(encoding="utf-8")


_PROBE, _FROZEN = _text("probe.js"), _text("frozen.js")
