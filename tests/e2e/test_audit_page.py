"""What a person does with the page of an audit: headless Chromium opens the file, without any network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from e2e.browser import BROWSER, DRIVER, profile
from hushlist.cli import main
from hushlist.core.match.expressions import full_hash

pytestmark = [
    pytest.mark.skipif(not BROWSER, reason="there is no Chromium on PATH"),
    pytest.mark.skipif(not DRIVER, reason="there is no chromedriver on PATH"),
    pytest.mark.xdist_group("chromium"),
]

HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"
#: hosts that rules are hit at, more than a table shows at first
HITS = 450
#: those, and one of another list that fits the same as one of them
ROWS = HITS + 1


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of an audit of many rules and of whatever might become markup."""
    folder = tmp_path_factory.mktemp("audit")
    rules = "".join(f"- host{number}.test\n" for number in range(HITS))
    for name in ("ads", "more"):
        head = f"title: {json.dumps(f'{name} {HOSTILE}')}\nreason: {json.dumps(HOSTILE)}\n"
        own = rules if name == "ads" else "- host1.test\n- never.test\n- {expression: tagged.test, action: tag}\n"
        (folder / f"{name}.yaml").write_text(f"{head}rules:\n{own}")
    (folder / "policy.yaml").write_text("layers: [{name: lists, lists: [ads.yaml, more.yaml]}]\n")
    lines = [f"http://host{number}.test/{number}".encode() for number in range(HITS) for _ in range(1 + number % 7)]
    lines += [b"http://host1.test/\xff\xe2\x80\xae?" + HOSTILE.encode().replace(b" ", b"/"), b"http://fine.test/"] * 9
    (folder / "urls.txt").write_bytes(b"\n".join(lines))
    (folder / "popular.txt").write_text("fine.test\nhost1.test\nhost2.test\n")
    (folder / "broken.har").write_text(json.dumps({"log": {"entries": [{"request": {"url": 1}}]}}))
    files = [str(folder / name) for name in ("urls.txt", "broken.har")]
    options = ["--policy", str(folder / "policy.yaml"), "--popular", str(folder / "popular.txt"), "--jobs", "1"]
    assert main(["audit", *options, "--html", str(folder / "page.html"), *files]) == 0
    return folder / "page.html"


@pytest.fixture(scope="module")
def running(chrome: Chrome) -> Iterator[Chrome]:
    with profile(chrome, None) as browser:
        yield browser


@pytest.fixture
def browser(running: Chrome, page: Path) -> Chrome:
    """One that has just opened the page."""
    running.get(page.as_uri())
    return running


def cells(browser: Chrome, section: str, column: int) -> list[str]:
    """The texts of a column of the first table of a section."""
    found: list[str] = browser.execute_script(
        "return [...document.querySelector(`#${arguments[0]} table`).tBodies[0].rows]"
        ".map((row) => row.cells[arguments[1]].textContent)",
        section,
        column,
    )
    return found


def head(browser: Chrome, section: str, text: str) -> WebElement:
    """The button in the head of a column."""
    return browser.find_element(By.XPATH, f"//section[@id='{section}']//thead//button[text()='{text}']")


def sorting(button: WebElement) -> str | None:
    return button.find_element(By.XPATH, "..").get_dom_attribute("aria-sort")


def status(browser: Chrome, section: str) -> str:
    return browser.find_element(By.CSS_SELECTOR, f"#{section} [role=status]").text


def test_the_page_shows_the_figures(browser: Chrome) -> None:
    text = browser.find_element(By.TAG_NAME, "body").text
    stopped = sum(1 + number % 7 for number in range(HITS)) + 9
    assert f"{stopped:,} of {stopped + 9:,} requests" in text
    assert cells(browser, "overlaps", 1)[0].strip() == f"{stopped - 2 - 9:,}"  # alone: all but those to host1.test
    assert cells(browser, "unused", 1) == ["2"]
    assert cells(browser, "popular", 1) == ["host1.test", "host2.test"]
    assert "broken.har" in browser.find_element(By.ID, "broken").text


def test_heads_sort_by_click_and_key(browser: Chrome) -> None:
    numbers = [int(own) for own in cells(browser, "rules", 1)]
    assert numbers == sorted(numbers, reverse=True)
    assert sorting(head(browser, "rules", "Stopped")) == "descending"
    rule = head(browser, "rules", "Rule")
    browser.execute_script("arguments[0].click()", rule)
    assert sorting(rule) == "ascending"
    assert sorting(head(browser, "rules", "Stopped")) is None
    assert cells(browser, "rules", 0)[:3] == ["host0.test/", "host1.test/", "host1.test/"]
    rule.send_keys(Keys.ENTER)
    assert sorting(rule) == "descending"
    assert cells(browser, "rules", 0)[0] == f"host{HITS - 1}.test/"


def test_a_long_table_shows_more_by_and_by(browser: Chrome) -> None:
    more = browser.find_element(By.CSS_SELECTOR, "#rules .more")
    for shown, rest, text in ((200, True, "Show 200 more"), (400, True, "Show 51 more"), (ROWS, False, "")):
        assert len(cells(browser, "rules", 0)) == shown
        assert (more.is_displayed(), more.text) == (rest, text)
        if rest:
            assert f"the first {shown} of {ROWS} are shown" in status(browser, "rules")
            more.send_keys(Keys.ENTER)
    assert len({*zip(cells(browser, "rules", 0), cells(browser, "rules", 7), strict=True)}) == ROWS
    assert browser.execute_script("return document.activeElement.closest('#rules') !== null")


def test_a_filter_finds_rows_that_are_not_shown_and_keeps_to_them_when_sorted(browser: Chrome) -> None:
    field = browser.find_element(By.CSS_SELECTOR, "#rules input")
    field.send_keys("HOST44 ads")
    expected = [f"host{number}.test/" for number in (44, *range(440, 450))]
    assert sorted(cells(browser, "rules", 0)) == sorted(expected)
    assert f"{len(expected)} of {ROWS} fit the filter" in status(browser, "rules")
    browser.execute_script("arguments[0].click()", head(browser, "rules", "Rule"))
    assert cells(browser, "rules", 0) == expected
    field.send_keys(Keys.CONTROL, "a", Keys.DELETE)
    assert len(cells(browser, "rules", 0)) == 200


def test_every_rule_s_example_is_explained_a_click_away(browser: Chrome, page: Path) -> None:
    button = browser.find_element(By.XPATH, "//section[@id='rules']//button[.='host6.test/']")
    button.send_keys(Keys.ENTER)
    dialog = browser.find_element(By.ID, "explanation")
    text = dialog.text
    assert "Why this is blocked" in text
    for words in (
        "http://host6.test/6",
        f"{page.parent / 'ads.yaml'}:10",
        "host6.test/",
        full_hash(b"host6.test/").hex(),
    ):
        assert words in text
    assert dialog.find_element(By.CSS_SELECTOR, "tr.winner").text.startswith("block decides")
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not dialog.is_displayed()
    assert browser.switch_to.active_element == button


def test_what_might_become_markup_stays_text(browser: Chrome) -> None:
    assert HOSTILE in browser.find_element(By.ID, "lists").text
    browser.execute_script("for (const own of document.querySelectorAll('details')) own.open = true")
    url = rf"http://host1.test/\xff\u{{202e}}?{HOSTILE.replace(' ', '/')}"
    button = browser.find_element(By.CSS_SELECTOR, "#popular .examples").find_elements(By.TAG_NAME, "button")
    odd = [own for own in button if own.text == url]
    browser.execute_script("arguments[0].click()", odd[0])
    text = browser.find_element(By.ID, "explanation").text
    assert url in text
    assert HOSTILE in text  # the rule's reason
    assert browser.execute_script("return window.hacked") is None
    assert browser.find_elements(By.CSS_SELECTOR, "main img, main script, dialog img, dialog script") == []


def test_the_page_asks_nobody_for_anything_and_complains_of_nothing(running: Chrome, page: Path) -> None:
    for kind in ("browser", "performance"):
        running.get_log(kind)  # what other tests did
    running.get(page.as_uri())
    running.find_element(By.CSS_SELECTOR, "#rules .explain").send_keys(Keys.ENTER)
    assert running.get_log("browser") == []
    messages = [json.loads(own["message"])["message"] for own in running.get_log("performance")]
    asked = [own["params"]["request"]["url"] for own in messages if own["method"] == "Network.requestWillBeSent"]
    assert page.as_uri() in asked
    assert [url for url in asked if url != page.as_uri() and not url.startswith("data:")] == []


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.thorough), "dark"])
def test_texts_have_contrast_and_narrow_screens_are_not_overrun(browser: Chrome, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    metrics = {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        browser.get(browser.current_url)
        assert browser.execute_script("return document.documentElement.scrollWidth") == 360
        browser.find_element(By.CSS_SELECTOR, "#rules .explain").send_keys(Keys.ENTER)
        assert browser.execute_script(FAINT) == []
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


#: what WCAG 2.2 says of contrast (1.4.3), asked of every element with a text of its own
FAINT = """
const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
const painted = (colors) => {
  canvas.clearRect(0, 0, 1, 1);
  for (const color of colors) { canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); }
  const [red, green, blue] = [...canvas.getImageData(0, 0, 1, 1).data].map((own) => {
    const part = own / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const faint = new Set();
for (const own of document.querySelectorAll("body *")) {
  const texts = [...own.childNodes].filter((node) => node.nodeType === 3 && node.data.trim());
  if (!texts.length || !own.checkVisibility() || ["SCRIPT", "NOSCRIPT"].includes(own.tagName)) continue;
  const under = [];
  for (let at = own; at; at = at.parentElement) under.unshift(getComputedStyle(at).backgroundColor);
  const style = getComputedStyle(own);
  const [dark, light] = [painted(under), painted([...under, style.color])].sort((a, b) => a - b);
  const size = parseFloat(style.fontSize);
  const needed = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
  const ratio = (light + 0.05) / (dark + 0.05);
  if (ratio < needed) faint.add(`${own.tagName}.${own.className} ${ratio.toFixed(2)}`);
}
return [...faint];
"""
