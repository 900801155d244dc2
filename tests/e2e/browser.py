"""Headless browsers. A Chromium asks the proxy for everything, or can ask for nothing; a Firefox does as it is set."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from shutil import which
from typing import Any, BinaryIO

import httpx
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait
from websockets.sync.client import connect

from e2e.origin import LOOPBACK, free_ports
from e2e.proxy import PATIENCE, Proxy

BROWSER = which("chromium") or which("chromium-browser") or which("google-chrome")
DRIVER = which("chromedriver")
FIREFOX = which("firefox-esr") or which("firefox")
#: makes Firefox trust a certificate
CERTUTIL = which("certutil")
#: whom Chromium asks for things of its own: it does not find them
OWN_HOSTS = "*.google.com;*.googleapis.com;*.duckduckgo.com"
#: what it asks no proxy for
BYPASSED = f"<-loopback>;{OWN_HOSTS}"
#: a port, "discard"
NOBODY_LISTENS = 9


def wait_until(browser: Chrome, is_so: Callable[[Chrome], object], message: str = "") -> None:
    """Wait for what a page comes to show.

    The driver may fail in any way while one page gives way to the next: it is asked again.
    """
    wait = WebDriverWait(browser, PATIENCE, poll_frequency=0.15, ignored_exceptions=[WebDriverException])
    wait.until(is_so, message)


def wait_for_words(browser: Chrome, words: str) -> None:
    """Wait for a page that shows some words."""
    is_shown = "return document.body.innerText.includes(arguments[0])"
    wait_until(browser, lambda driver: driver.execute_script(is_shown, words), f"{words!r} is not on the page")


def start_chromium(options: ChromeOptions) -> Chrome:
    """Start a Chromium with its driver; that ends at once if the port that was free for it is taken: then once more."""
    for _ in range(4):
        with suppress(WebDriverException):
            return Chrome(options, Service(DRIVER))
    return Chrome(options, Service(DRIVER))


@contextmanager
def chromium(proxy: Proxy | None, folder: Path, *more: str, trusts_all: bool = True) -> Iterator[Chrome]:
    """One that knows no names but by the proxy, until the block ends; ``folder`` takes what it keeps.

    ``more`` are arguments for its command line; the last of a name counts. ``trusts_all``: it accepts any certificate.

    Without a proxy it opens files only, and logs what it asks for, and what its console says.
    """
    options = ChromeOptions()
    options.binary_location = BROWSER or ""
    options.accept_insecure_certs = trusts_all
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--in-process-gpu",
        # a process for each site would take longer than most pages do
        "--renderer-process-limit=1",
        "--disable-site-isolation-trials",
        "--disable-features=IsolateOrigins,site-per-process",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        "--force-prefers-reduced-motion",
        "--window-size=1000,700",
        f"--user-data-dir={folder}",
        f"--proxy-server={LOOPBACK}:{proxy.port if proxy else NOBODY_LISTENS}",
        f"--proxy-bypass-list={BYPASSED}",
        f"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {LOOPBACK}",
        *more,
    ):
        options.add_argument(argument)
    if proxy is None:
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = start_chromium(options)
    driver.set_page_load_timeout(PATIENCE)
    driver.set_script_timeout(PATIENCE)
    try:
        yield driver
    finally:
        driver.quit()


@contextmanager
def profile(chrome: Chrome, proxy: Proxy | None) -> Iterator[Chrome]:
    """A window of a Chromium that runs, as of one that has just been started: it knows nothing of other windows.

    It asks the proxy for everything, or, without one, opens files and what is on loopback. When the block ends, the
    driver is back in the window that it had.
    """
    before = chrome.current_window_handle
    address = chrome.capabilities["goog:chromeOptions"]["debuggerAddress"]
    version = httpx.get(f"http://{address}/json/version", trust_env=False, verify=False).json()
    with connect(version["webSocketDebuggerUrl"], proxy=None) as browser:

        def ask(command: str, **parameters: object) -> Any:
            """As the driver cannot, who asks pages alone."""
            browser.send(json.dumps({"id": 0, "method": command, "params": parameters}))
            return json.loads(browser.recv(PATIENCE))["result"]

        through = {"proxyServer": f"{LOOPBACK}:{proxy.port}" if proxy else "direct://", "proxyBypassList": BYPASSED}
        context = ask("Target.createBrowserContext", **through)["browserContextId"]
        chrome.switch_to.window(ask("Target.createTarget", url="about:blank", browserContextId=context)["targetId"])
        for kind in chrome.log_types:
            chrome.get_log(kind)
        try:
            yield chrome
        finally:
            chrome.switch_to.window(before)
            ask("Target.disposeBrowserContext", browserContextId=context)


def trusting(*certificates: Path) -> str:
    """The argument by which Chromium finds no fault with these, as if an authority had issued them."""
    return "--ignore-certificate-errors-spki-list=" + ",".join(map(_pin, certificates))


def _pin(certificate: Path) -> str:
    """The digest of a certificate's key. Spec: RFC 7469, 2.4"""
    key = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
    return b64encode(sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()).decode()


class Firefox:
    """A headless Firefox, driven by its own protocol, Marionette: each message is its length, a colon, and JSON."""

    def __init__(self, connection: socket.socket, received: BinaryIO) -> None:
        self._connection, self._received = connection, received
        self._number = 0
        self._read()
        self._ask("WebDriver:NewSession")

    def get(self, url: str) -> None:
        """Open a page, and wait until it is there."""
        self._ask("WebDriver:Navigate", url=url)

    def set_timeouts(self, *, script: float, page: float) -> None:
        """How many seconds a script and a page may take."""
        self._ask("WebDriver:SetTimeouts", script=int(script * 1000), pageLoad=int(page * 1000))

    @property
    def title(self) -> str:
        """The title of the page that is shown, which may be Firefox's own."""
        return str(self._ask("WebDriver:GetTitle")["value"])

    def execute_async_script(self, script: str, *arguments: object) -> Any:
        """What a script of the page gives to its last argument."""
        return self._ask("WebDriver:ExecuteAsyncScript", script=script, args=arguments)["value"]

    def _ask(self, command: str, **parameters: object) -> Any:
        self._number += 1
        message = json.dumps([0, self._number, command, parameters]).encode()
        self._connection.sendall(b"%d:%b" % (len(message), message))
        _, _, error, result = self._read()
        assert error is None, error
        return result

    def _read(self) -> Any:
        length = b""
        while (octet := self._received.read(1)) != b":":
            assert octet, "Firefox has ended"
            length += octet
        return json.loads(self._received.read(int(length)))


#: what a Firefox would otherwise do at its start, for a third of it: look for extensions, count itself, draw its own
#: pages
_SPARED = {
    "browser.aboutwelcome.enabled": False,
    "browser.newtab.preload": False,
    "browser.newtabpage.enabled": False,
    "browser.startup.page": 0,
    "extensions.blocklist.enabled": False,
    "extensions.enabledScopes": 0,
    "extensions.formautofill.addresses.enabled": False,
    "extensions.getAddons.cache.enabled": False,
    "extensions.systemAddon.update.enabled": False,
    "extensions.webextensions.remote": False,
    "gfx.webrender.software": True,
    "toolkit.telemetry.enabled": False,
    "toolkit.telemetry.unified": False,
}


@contextmanager
def firefox(folder: Path, certificates: Sequence[Path], settings: dict[str, object]) -> Iterator[Firefox]:
    """One that trusts these certificates; ``folder`` is its home, ``settings`` its preferences."""
    store = f"sql:{folder}"
    subprocess.run([CERTUTIL or "", "-N", "-d", store, "--empty-password"], check=True)
    for certificate in certificates:
        named = ["-n", str(certificate), "-t", "CTP,,", "-i", str(certificate)]
        subprocess.run([CERTUTIL or "", "-A", "-d", store, *named], check=True)
    (port,) = free_ports(1)
    lines = (f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in (_SPARED | settings).items())
    (folder / "user.js").write_text("".join((f'user_pref("marionette.port", {port});\n', *lines)))
    command = [FIREFOX or "", "--headless", "--marionette", "--no-remote", "--profile", str(folder)]
    output = subprocess.DEVNULL
    process = subprocess.Popen(
        command, env={**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}, stdout=output, stderr=output
    )
    try:
        with _connected(port, process) as connection, connection.makefile("rb") as received:
            yield Firefox(connection, received)
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _connected(port: int, process: subprocess.Popen[bytes]) -> socket.socket:
    """A connection to where a process is going to listen."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection((LOOPBACK, port), timeout=PATIENCE)
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise
            time.sleep(0.1)
