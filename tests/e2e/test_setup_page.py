"""The set-up page as a device sees it that is being set up, and mitmproxy's own page, where nearly all is blocked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from e2e.browser import BROWSER, DRIVER, chromium, profile, wait_for_words
from e2e.origin import Origin
from e2e.policies import write_list, write_policy
from e2e.proxy import Proxy, mitmdump, request_head
from hushlist.extensions.dashboard.dashboard_server import HOST

pytestmark = pytest.mark.xdist_group("chromium")
needs_browser = pytest.mark.skipif(not BROWSER or not DRIVER, reason="there is no Chromium with chromedriver on PATH")


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy by which one host passes; no page is shown in a tunnel to another, and nobody sees the live page."""
    folder = tmp_path_factory.mktemp("strict")
    write_list(folder / "own.yaml", {"expression": "fine.test/", "action": "allow"})
    return write_policy(folder, ["own.yaml"], default="block", decrypt="without-pages", live="off")


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory, origin: Origin, strict: Path) -> Iterator[Proxy]:
    with mitmdump(tmp_path_factory.mktemp("mitmdump"), origin, policy=strict) as running:
        yield running


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_both_pages_are_there_whatever_the_policy(proxy: Proxy, origin: Origin, scheme: str) -> None:
    with origin.watch() as arrived:
        for url in (f"{scheme}://{HOST}/ca.pem", f"{scheme}://mitm.it/cert/pem"):
            answer = proxy.get(url)
            assert answer.status_code == 200
            assert answer.content == proxy.authority.read_bytes()
        assert proxy.get(f"{scheme}://{HOST}/setup").status_code == 200
        assert proxy.get(f"{scheme}://{HOST}/").status_code == 403
        with proxy.client() as client:
            assert client.post(f"{scheme}://mitm.it/", content=b"body").status_code == 403
    assert arrived.connections == 0


def test_mitmproxy_s_page_that_is_turned_off_is_blocked_as_others_are(
    start: Callable[..., Proxy], origin: Origin, strict: Path
) -> None:
    proxy = start(policy=strict, options={"onboarding": "false"})
    with origin.watch() as arrived:
        assert proxy.get("http://mitm.it/").status_code == 403
    assert arrived.connections == 0


def test_a_device_without_the_proxy_gets_the_same_at_the_proxy_s_address(proxy: Proxy) -> None:
    """As the request of a device that does not know of a proxy: its target is a path."""
    own = f"127.0.0.1:{proxy.port}".encode()
    assert f"PROXY 127.0.0.1:{proxy.port}".encode() in proxy.send(request_head(b"/proxy.pac", own)).body
    assert b"/ca.pem" in proxy.send(request_head(b"/setup", own)).body
    assert f"PROXY 127.0.0.1:{proxy.port}".encode() in proxy.send(request_head(b"/wpad.dat", b"wpad")).body
    led = proxy.send(request_head(b"/", own))
    assert (led.status, led.headers["location"]) == (302, "/setup")
    assert proxy.send(request_head(b"/", own, method=b"POST")).status == 405
    for path in (b"/?", b"/data", b"/live.js", b"/other"):
        assert proxy.send(request_head(path, own)).status == 403
    assert proxy.send(request_head(b"/setup", b"fine.test")).body == b"from the origin"


@needs_browser
def test_the_pac_file_leads_a_browser_to_the_proxy_and_nothing_past_it(proxy: Proxy, tmp_path: Path) -> None:
    """A browser that does not accept the proxy's certificate, and is told so."""
    pac = proxy.get(f"http://{HOST}/proxy.pac").text
    with chromium(proxy, tmp_path, f"--proxy-pac-url={proxy.url}/proxy.pac", trusts_all=False) as browser:
        browser.get(f"http://{HOST}/setup")
        wait_for_words(browser, "This browser does not accept the proxy’s certificate.")
        wait_for_words(browser, "Close the browser completely")
        browser.get("http://fine.test/")
        wait_for_words(browser, "from the origin")
        browser.get("http://other.test/")
        wait_for_words(browser, "Only what is allowed passes.")
        hosts = {
            **dict.fromkeys(("localhost", "127.0.0.1", "127.8.9.10", "::1", "[::1]"), "DIRECT"),
            **dict.fromkeys(
                (
                    *(
                        "fine.test",
                        "intranet",
                        "printer.local",
                        "134744072",
                        "0x7f.1",
                        "192.168.1.9",
                        "10.0.0.1",
                        "::2",
                    ),
                    *("127.evil.test", "127.0.0.1.evil.test", "localhost.evil.test", "xlocalhost", "127.0.0.1\n.test"),
                    *(
                        "127.1",
                        "1127.0.0.1",
                        "127.0.0.1.",
                        "a.localhost",
                        "fe80::1",
                        "::ffff:8.8.8.8",
                        "hushlist.internal",
                    ),
                ),
                f"PROXY 127.0.0.1:{proxy.port}",
            ),
        }
        script = f"{pac}; return arguments[0].map((host) => FindProxyForURL('http://' + host + '/', host));"
        found = browser.execute_script(script, list(hosts))
    assert dict(zip(hosts, found, strict=True)) == hosts


@needs_browser
def test_the_test_says_when_the_certificate_is_trusted(chrome: Chrome, proxy: Proxy) -> None:
    with profile(chrome, proxy) as browser:
        browser.get(f"http://{HOST}/setup")
        wait_for_words(browser, "This browser accepts the proxy’s certificate.")
        assert browser.execute_script("return document.querySelectorAll('.step .tick:not([hidden])').length") == 2
        browser.find_element(By.CSS_SELECTOR, "[data-copy]").click()
        wait_for_words(browser, "Copied")
        browser.get(f"https://{HOST}/setup")
        wait_for_words(browser, "This browser accepts the proxy’s certificate.")
        assert [entry for entry in browser.get_log("browser") if "setup" in entry["message"]] == []
        browser.get(f"http://127.0.0.1:{proxy.port}/setup")
        wait_for_words(browser, f"http://{HOST}/setup")
