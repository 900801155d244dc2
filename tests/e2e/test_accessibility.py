"""What keeps people from using a page, as axe-core finds it: block page, live page and set-up page, in Chromium."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from e2e.browser import BROWSER, DRIVER, profile, wait_for_words, wait_until
from e2e.origin import Origin
from e2e.policies import stored, write_list, write_policy
from e2e.proxy import Proxy, mitmdump
from e2e.test_administration import PASSPHRASE, fill, forget, sign_in
from e2e.test_asking import Asker
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
    """A proxy of whose live page there is most to see: somebody is signed in, has acted, and is asked."""
    write_list(folder / "own.yaml", "mine.test/")
    write_list(folder / "ads.yaml", "ads.test/", title="Ads", reason="Ads")
    person = {"name": "max", "passphrase": stored(PASSPHRASE), "role": "manage"}
    ads = {"file": "ads.yaml", "category": "hrn://example.org/web/ads"}
    more = {"unblock": {"ask": "on"}, "quotas": {"hrn://example.org/web/ads": 30}}
    policy = write_policy(folder, ["own.yaml"], [ads], admin=[person], log={"folder": "log", "what": "all"}, **more)
    policy.write_text(policy.read_text().replace("layer 1", "overrides"))
    with mitmdump(tmp_path_factory.mktemp("mitmdump"), origin, policy=policy) as running:
        running.get("http://ads.test/one")
        Asker(running).ask("http://ads.test/two", reason="Please")
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
        assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth"), look
        if look in looks:
            is_read_by_day = look[0] == "dark" and LOOKS[0] in looks
            found[look] = findings(browser, _COLOURS if is_read_by_day else None)
    return {look: own for look, own in found.items() if own}


@pytest.fixture
def other(folder: Path, tmp_path: Path, origin: Origin) -> Iterator[Proxy]:
    """A proxy of the same user with another policy, so that the page has something to say of it."""
    write_list(tmp_path / "games.yaml", "games.test/")
    with mitmdump(tmp_path, origin, policy=write_policy(tmp_path, ["games.yaml"])) as running:
        yield running


@pytest.mark.usefixtures("other")
def test_the_live_page_of_who_is_signed_in(browser: Chrome) -> None:
    read_in(browser, "ar")
    sign_in(browser, "max")
    for what, scope, target in (
        ("allow", "host", "ads.test"),
        ("block", "url", "http://fine.test/a"),
        ("code", "host", ""),
    ):
        fill(browser, what=what, scope=scope, target=target, client="" if what == "code" else "everybody")
        browser.execute_script("document.getElementById('act').requestSubmit()")
        wait_until(browser, lambda one: one.find_element(By.ID, "told").text)
    browser.find_element(By.ID, "holds-client").send_keys("10.0.0.7", Keys.ENTER)
    wait_until(browser, lambda one: "policy.yaml:" in one.find_element(By.ID, "holding").text)
    fill(browser, what="block", scope="host", target="ads.test", client="everybody", minutes="0")
    browser.find_element(By.ID, "preview-rule").click()
    wait_until(browser, lambda one: one.find_element(By.ID, "preview").text)
    browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
    wait_for_words(browser, "Please")
    wait_for_words(browser, "another policy than the others")
    assert findings_by_look(browser, [LOOKS[0], LOOKS[3]]) == {}
    for language in ("en", "de"):
        read_in(browser, language)
        sign_in(browser, "max")
        wait_for_words(browser, "another policy than the others")
        assert findings_by_look(browser, []) == {}, language


_WIDTHS = "return [...document.querySelectorAll('#rows th')].map((one) => one.offsetWidth)"
_HEADS = """
    return [...document.querySelectorAll("#waiting tbody tr:first-child td")]
        .map((one) => getComputedStyle(one, "::before").content);
"""


def test_each_part_of_what_is_shown_has_room_and_a_name(browser: Chrome) -> None:
    read_in(browser, "en")
    sign_in(browser, "max")
    wait_for_words(browser, "Please")
    show_as(browser, "light", 1280)
    assert min(browser.execute_script(_WIDTHS)[2:7]) > 100
    assert browser.execute_script(_WIDTHS)[4] >= 150  # a rule has the place of its list
    show_as(browser, "light", 390)
    assert [one.split(":")[0] for one in browser.execute_script(_HEADS)] == [
        f'"{name}' for name in ("Request", "Asked", "Who", "Address", "Reason", "Answer")
    ]
    browser.get(f"http://{HOST}/history?of=day")
    wait_for_words(browser, "ads.test")
    shown = "return [...document.querySelectorAll('.scroll')].map((one) => one.scrollWidth <= one.clientWidth)"
    assert all(browser.execute_script(shown))


def test_the_live_page_of_who_is_not(browser: Chrome) -> None:
    forget(browser)
    read_in(browser, "en")
    browser.get(f"http://{HOST}/")
    wait_for_words(browser, "Passphrase")
    assert findings_by_look(browser, READERS["en"]) == {}


def test_the_history(browser: Chrome) -> None:
    sign_in(browser, "max")
    for (language, looks), span in zip(READERS.items(), ("day", "month", "month"), strict=True):
        read_in(browser, language)
        browser.get(f"http://{HOST}/history?of={span}")
        wait_for_words(browser, "ads.test")
        assert findings_by_look(browser, looks) == {}, language


@pytest.mark.parametrize("device", ["firefox", "other"])
def test_the_set_up_page(browser: Chrome, device: str) -> None:
    is_good = "return document.getElementById('test').className === 'good'"
    for language, looks in in_turn("en", "ar", "ja").items():
        read_in(browser, language)
        browser.get(f"http://{HOST}/setup?for={device}")
        wait_until(browser, lambda one: one.execute_script(is_good))
        assert browser.execute_script("return document.documentElement.lang") == language
        assert findings_by_look(browser, looks) == {}, language


@pytest.mark.parametrize("kind", list(Verdict))
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
