"""A driver of Firefox by Firefox's own protocol, Marionette, which needs no program between: JSON behind its length."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from base64 import b64decode
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from hushlist.tools.visit.filter_process import VisitError, end

_LOOPBACK = "127.0.0.1"
#: seconds until it listens, and beyond the time of a page for each answer
_PATIENCE = 60.0
#: octets of an answer, such as a picture
_LONGEST = 1 << 26
#: the preferences by which Firefox asks for nothing of its own
_QUIET: Mapping[str, object] = {
    "app.update.enabled": False,
    "browser.aboutwelcome.enabled": False,
    "browser.cache.disk.enable": False,
    "browser.cache.memory.enable": False,
    "browser.newtab.preload": False,
    "browser.startup.page": 0,
    "extensions.blocklist.enabled": False,
    "extensions.systemAddon.update.enabled": False,
    "media.autoplay.default": 0,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "network.prefetch-next": False,
    "services.settings.server": "data:,",
    "toolkit.telemetry.enabled": False,
}


class MarionetteDriver:
    """A headless Firefox; its methods are called as those of Selenium's drivers."""

    def __init__(self, binary: str, folder: Path, preferences: Mapping[str, object], size: tuple[int, int]) -> None:
        profile = folder / "firefox"
        profile.mkdir(parents=True)
        with socket.socket() as free:
            free.bind((_LOOPBACK, 0))
            port = free.getsockname()[1]
        lines = {**_QUIET, **preferences, "marionette.port": port}
        text = "".join(f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in lines.items())
        (profile / "user.js").write_text(text, encoding="utf-8")
        window = ["--width", str(size[0]), "--height", str(size[1])]
        self._process = subprocess.Popen(  # noqa: S603  a browser on PATH, and options that are made here
            [binary, "--headless", "--marionette", "--no-remote", "--profile", str(profile), *window],
            env={**os.environ, "HOME": str(profile), "XDG_CONFIG_HOME": str(profile)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._number = 0
        self._opened = ExitStack()
        self._opened.callback(end, self._process)
        try:
            self._connection = self._opened.enter_context(self._connected(port))
            self._received = self._opened.enter_context(self._connection.makefile("rb"))
            self._read()
            self._ask("WebDriver:NewSession", acceptInsecureCerts=True)
        except BaseException:
            self.quit()
            raise

    def _connected(self, port: int) -> socket.socket:
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                return socket.create_connection((_LOOPBACK, port), timeout=_PATIENCE)
            except OSError as error:
                if self._process.poll() is not None or time.monotonic() > end:
                    raise VisitError(f"Firefox cannot be started: {error}") from error
                time.sleep(0.1)

    def set_page_load_timeout(self, seconds: float) -> None:
        self._ask("WebDriver:SetTimeouts", pageLoad=int(seconds * 1000))

    def set_script_timeout(self, seconds: float) -> None:
        self._ask("WebDriver:SetTimeouts", script=int(seconds * 1000))

    def get(self, address: str) -> None:
        self._ask("WebDriver:Navigate", url=address)

    def execute_script(self, script: str, *arguments: object) -> Any:
        return self._ask("WebDriver:ExecuteScript", script=script, args=arguments)["value"]

    def delete_all_cookies(self) -> None:
        with suppress(Exception):  # a page of no site has none
            self._ask("WebDriver:DeleteAllCookies")

    def get_screenshot_as_png(self) -> bytes:
        return b64decode(self._ask("WebDriver:TakeScreenshot", full=False)["value"])

    def quit(self) -> None:
        """End it; it is not asked, so that it cannot refuse."""
        self._opened.close()

    def _ask(self, command: str, **parameters: object) -> Any:
        from selenium.common.exceptions import TimeoutException, WebDriverException

        self._number += 1
        message = json.dumps([0, self._number, command, parameters]).encode()
        try:
            self._connection.sendall(b"%d:%b" % (len(message), message))
            _, _, error, result = self._read()
        except (OSError, ValueError) as failure:
            raise VisitError(f"Firefox does not answer: {failure}") from failure
        if error is not None:
            kind = TimeoutException if error["error"] == "timeout" else WebDriverException
            raise kind(str(error["message"]).splitlines()[0])
        return result

    def _read(self) -> Any:
        length = b""
        while (octet := self._received.read(1)) != b":":
            if not octet.isdigit() or len(length) > 8:
                raise VisitError("Firefox has ended")
            length += octet
        if int(length) > _LONGEST:
            raise VisitError("Firefox answers at too great a length")
        return json.loads(self._received.read(int(length)))
