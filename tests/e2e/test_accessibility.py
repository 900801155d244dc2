"""What keeps people from using a page, as axe-core finds it: block page, live page and set-up page, in Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome

from e2e.browser import BROWSER, DRIVER, chromium, wait_for_words, wait_until
from e2e.origin import Origin
from e2e.policies import write_list, write_policy
from e2e.proxy import Proxy, mitmdump
from hushlist.proxy.dashboard.dashboard_server import HOST
from hushlist.proxy.page.pages import TEXTS, Explanation, Unblock, Verdict, page

#: packages that bring axe-core, the newer one first
_PACKAGES = ("axe_playwright_python", "axe_core_python")
AXE = next(
    (Path(spec.origin).with_name("axe.min.js") for spec in map(find_spec, _PACKAGES) if spec and spec.origin), None
)

pytestmark = [
    pytest.mark.skipif(not BROWSER or not DRIVER, reason="there is no Chromium with chromedriver on PATH"),
    pytest.mark.skipif(AXE is None, reason="axe-core is not there: axe-core-python brings it"),
    pytest.mark.xdist_group("chromium"),
]

_RUN = """
    const done = arguments[0];
    axe.run(document, {resultTypes: ["violations"]}).then((found) => done(
        found.violations.map((one) => [one.id, one.nodes.map((node) => node.html + " " + node.failureSummary)])
    ), (error) => done([String(error)]));
"""


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("accessible")
    write_list(folder / "ads.yaml", "ads.test/", title="Ads", category="hrn://example.org/web/ads", reason="Ads")
    policy = write_policy(folder, ["ads.yaml"], log={"folder": "log"})
    with mitmdump(tmp_path_factory.mktemp("mitmdump"), origin, policy=policy) as running:
        running.get("http://ads.test/one")
        yield running


@pytest.fixture(scope="module")
def browser(proxy: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with chromium(proxy, tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture(params=[("light", 1200), ("dark", 1200), ("light", 390), ("dark", 390)], ids=str)
def shown(browser: Chrome, request: pytest.FixtureRequest) -> Chrome:
    """The browser, by day and by night, with a screen and as a telephone."""
    colours, width = request.param
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": colours}]}
    )
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    return browser


def findings(browser: Chrome) -> Any:
    """What axe-core finds wrong with the page that is shown; nothing may be wider than the screen either."""
    assert AXE is not None
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    browser.execute_script(AXE.read_text(encoding="utf-8"))
    return browser.execute_async_script(_RUN)


def test_the_live_page(shown: Chrome) -> None:
    shown.get(f"http://{HOST}/")
    wait_for_words(shown, "http://ads.test/one")
    assert findings(shown) == []


@pytest.fixture
def other(tmp_path: Path, origin: Origin) -> Iterator[Proxy]:
    """A proxy of the same user with another policy, so that the page has something to say of it."""
    write_list(tmp_path / "games.yaml", "games.test/")
    with mitmdump(tmp_path, origin, policy=write_policy(tmp_path, ["games.yaml"])) as running:
        yield running


@pytest.mark.usefixtures("other")
def test_the_live_page_of_several_proxies(shown: Chrome) -> None:
    shown.get(f"http://{HOST}/")
    wait_for_words(shown, "another policy than the others")
    assert findings(shown) == []


@pytest.mark.parametrize("span", ["day", "month"])
def test_the_history(shown: Chrome, span: str) -> None:
    shown.get(f"http://{HOST}/history?of={span}")
    wait_for_words(shown, "ads.test")
    assert findings(shown) == []


@pytest.mark.parametrize("language", ["en", "ar", "ja"])
@pytest.mark.parametrize("device", ["firefox", "other"])
def test_the_set_up_page(shown: Chrome, language: str, device: str) -> None:
    headers = {"Accept-Language": language}
    shown.execute_cdp_cmd("Network.enable", {})
    shown.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": headers})
    shown.get(f"http://{HOST}/setup?for={device}")
    wait_until(shown, lambda one: one.execute_script("return document.getElementById('test').className") == "good")
    assert shown.execute_script("return document.documentElement.lang") == language
    assert findings(shown) == []


@pytest.mark.parametrize("language", ["en", "ar", "zh-hans"])
@pytest.mark.parametrize("kind", list(Verdict))
def test_the_block_page(shown: Chrome, tmp_path: Path, language: str, kind: Verdict) -> None:
    offered = Unblock("/unblock", "token", True, True, ("url", "host"), (15, 60), "wrong")
    explanation = Explanation(
        "http://h.example/", "A reason", kind=kind, category="hrn://c.example/a", list="L", rule="l:1"
    )
    # without its security policy, under which no script runs, axe-core's neither
    (tmp_path / "page.html").write_bytes(page(explanation, language, offered)[0])
    shown.get((tmp_path / "page.html").as_uri())
    wait_for_words(shown, TEXTS[language][f"{kind}_heading"])
    assert findings(shown) == []
