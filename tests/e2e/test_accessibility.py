"""What keeps people from using a page, as axe-core finds it: block page, live page and set-up page, in Chromium."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from e2e.browser import BROWSER, DRIVER, profile, wait_for_words, wait_until
from e2e.household import household
from e2e.origin import Origin
from e2e.proxy import Proxy
from e2e.test_asking import Asker
from e2e.test_page import SCREENS, click, forget, sign_in
from hushlist.extensions.dashboard.dashboard_server import HOST
from hushlist.extensions.unblock.page_form import Unblock
from hushlist.proxy.languages import TEXTS
from hushlist.proxy.page.pages import Explanation, Verdict, page

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
    const [runOnly, done] = arguments;
    axe.run(document, {resultTypes: ["violations"], ...(runOnly && {runOnly})}).then((found) => done(
        found.violations.map((one) => [one.id, one.nodes.map((node) => node.html + " " + node.failureSummary)])
    ), (error) => done([String(error)]));
"""


#: the rules by which it matters how dark a page is
_COLOURS = ("color-contrast", "link-in-text-block")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the state of whatever starts."""
    folder = tmp_path_factory.mktemp("accessible")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        yield folder


@pytest.fixture(scope="module")
def proxy(folder: Path, tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> Iterator[Proxy]:
    with household(folder, tmp_path_factory.mktemp("mitmdump"), origin) as running:
        yield running


@pytest.fixture(scope="module")
def browser(chrome: Chrome, proxy: Proxy) -> Iterator[Chrome]:
    with profile(chrome, proxy) as running:
        yield running


def read_in(browser: Chrome, language: str) -> None:
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": {"Accept-Language": language}})


def show_as(browser: Chrome, colours: str, width: int) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": colours}]}
    )
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)


def findings(browser: Chrome, rules: Sequence[str] | None = None) -> Any:
    """What axe-core finds wrong with the page that is shown, by all its rules or by these."""
    assert AXE is not None
    # colours that fade are no one's finding
    wait_until(browser, lambda one: one.execute_script("return document.getAnimations().length === 0"))
    if not browser.execute_script("return 'axe' in window"):
        browser.execute_script(AXE.read_text(encoding="utf-8"))
    return browser.execute_async_script(_RUN, rules)


#: by day and by night, with a screen and as a telephone
LOOKS = [("light", 1200), ("dark", 1200), ("light", 390), ("dark", 390)]


def in_turn(*languages: str) -> dict[str, list[tuple[str, int]]]:
    """Those in which axe-core looks at a page, by language: of the last one, only how wide it is counts."""
    return dict(zip(languages, (LOOKS[:1], LOOKS[3:], []), strict=True))


READERS = in_turn("en", "ar", "de")


def findings_by_look(browser: Chrome, looks: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Any]:
    """What there is to find with these looks of the page that is shown; with none it is wider than the screen."""
    found = {}
    for look in LOOKS:
        show_as(browser, *look)
        assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth"), (
            look,
            browser.current_url,
        )
        if look in looks:
            is_read_by_day = look[0] == "dark" and LOOKS[0] in looks
            found[look] = findings(browser, _COLOURS if is_read_by_day else None)
    return {look: own for look, own in found.items() if own}


#: block pages without a form or a button of their own
_ALIKE = set(Verdict) - {Verdict.BLOCKED, Verdict.WARNED}
#: what opens a dialog, and the screen where it is
DIALOGS = (("Home", "Internet off: Mia"), ("Rules", "Change: bedtime"))
#: of each screen, the looks that axe-core sees it in: each look sees half of them
_LOOKS = {screen: (LOOKS[place % 2 * 3], LOOKS[1 + place % 2]) for place, screen in enumerate(SCREENS)}


@pytest.mark.thorough
@pytest.mark.parametrize("language", ["ar", "en"])
def test_every_screen_of_who_is_signed_in(browser: Chrome, proxy: Proxy, language: str) -> None:
    Asker(proxy).ask(f"http://www.games.test/{language}", reason="Please")
    read_in(browser, language)
    browser.get(f"http://{HOST}/")
    if browser.execute_script("return document.getElementById('sign-out').hidden"):
        sign_in(browser)
    for screen, looks in _LOOKS.items():
        browser.execute_script("location.hash = `#/${arguments[0]}`", screen)
        drawn = "return document.title !== '' && document.getElementById('screen').children.length > 0"
        wait_until(browser, lambda one, drawn=drawn: one.execute_script(drawn))
        browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
        assert findings_by_look(browser, looks if language == "ar" else looks[:1]) == {}, screen
    for screen, words in DIALOGS if language == "en" else ():
        click(browser, screen)
        click(browser, words)
        wait_until(browser, lambda one: one.find_elements(By.CSS_SELECTOR, "dialog .actions"))
        assert findings_by_look(browser, [LOOKS[2], LOOKS[1]]) == {}, screen
        click(browser, "Close")


def test_the_page_of_who_is_not(browser: Chrome) -> None:
    forget(browser)
    read_in(browser, "en")
    browser.get(f"http://{HOST}/#/")
    browser.refresh()
    wait_for_words(browser, "Passphrase")
    assert findings_by_look(browser, READERS["en"]) == {}


@pytest.mark.parametrize("device", [pytest.param("firefox", marks=pytest.mark.thorough), "other"])
def test_the_set_up_page(browser: Chrome, device: str) -> None:
    is_good = "return document.getElementById('test').className === 'good'"
    for language, looks in in_turn("en", "ar", "ja").items():
        read_in(browser, language)
        browser.get(f"http://{HOST}/setup?for={device}")
        wait_until(browser, lambda one: one.execute_script(is_good))
        assert browser.execute_script("return document.documentElement.lang") == language
        assert findings_by_look(browser, looks) == {}, language


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.thorough if kind in _ALIKE else []) for kind in Verdict]
)
def test_the_block_page(browser: Chrome, tmp_path: Path, kind: Verdict) -> None:
    offered = Unblock("/unblock", "token", True, True, ("url", "host"), (15, 60), "wrong")
    explanation = Explanation(
        "http://h.example/", "A reason", kind=kind, category="hrn://c.example/a", list="L", rule="l:1"
    )
    for language, looks in in_turn("en", "ar", "zh-hans").items():
        # without its security policy, under which no script runs, axe-core's neither
        (tmp_path / "page.html").write_bytes(page(explanation, language, offered)[0])
        browser.get((tmp_path / "page.html").as_uri())
        wait_for_words(browser, TEXTS[language][f"{kind}_heading"])
        assert findings_by_look(browser, looks) == {}, language
