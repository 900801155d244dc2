"""What a person sees: headless Chromium through the proxy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from struct import pack
from typing import Any
from zlib import compress, crc32

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from e2e.browser import BROWSER, DRIVER, profile, wait_until
from e2e.conftest import REASON
from e2e.origin import Origin
from e2e.policies import write_policy
from e2e.proxy import Proxy
from hushlist.core.match.context import context_of
from hushlist.core.url.request import Request

pytestmark = [
    pytest.mark.skipif(not BROWSER, reason="there is no Chromium on PATH"),
    pytest.mark.skipif(not DRIVER, reason="there is no chromedriver on PATH"),
    pytest.mark.xdist_group("chromium"),  # one browser for all of them
]

PAGE = b"""<!doctype html><title>An allowed page</title>
<link rel="stylesheet" href="/%(folder)s/style.css">
<h1>Allowed</h1>
<img id="image" src="/%(folder)s/image.png">
<iframe id="frame" src="/%(folder)s/frame"></iframe>
<script>window.ran = false</script>
<script src="/%(folder)s/script.js"></script>"""


def png(width: int, height: int) -> bytes:
    """A black image."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return pack(">I", len(data)) + kind + data + pack(">I", crc32(kind + data))

    header = pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = compress((b"\x00" + bytes(width)) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


@pytest.fixture(scope="module")
def site(origin: Origin) -> None:
    """Two pages that differ in this only: what one of them loads is blocked."""
    for folder in (b"fine", b"secret"):
        prefix = f"/{folder.decode()}"
        origin.pages |= {
            f"/page-{folder.decode()}": ("text/html", PAGE % {b"folder": folder}),
            f"{prefix}/style.css": ("text/css", b"h1 { color: rgb(1, 2, 3) }"),
            f"{prefix}/image.png": ("image/png", png(37, 11)),
            f"{prefix}/frame": ("text/html", b"<p>framed"),
            f"{prefix}/script.js": ("text/javascript", b"window.ran = true"),
            f"{prefix}/data": ("application/json", b'{"from": "the origin"}'),
        }


@pytest.fixture(scope="module")
def browser(chrome: Chrome, proxy: Proxy) -> Iterator[Chrome]:
    with profile(chrome, proxy) as running:
        yield running


def fetched(browser: Chrome, target: str) -> dict[str, Any]:
    """What a script of the page gets when it fetches the target."""
    answer: dict[str, Any] = browser.execute_async_script(
        """
        const done = arguments[arguments.length - 1];
        fetch(arguments[0])
            .then(async (response) => ({status: response.status, body: await response.json()}))
            .then(done, (error) => done({error: String(error)}));
        """,
        target,
    )
    return answer


ASKING = b"""<!doctype html><title>News</title>
<link rel="stylesheet" href="//cdn.test/style">
<style>@font-face { font-family: f; src: url(//cdn.test/font) } body { font-family: f }</style>
<img src="//cdn.test/image"><iframe src="//cdn.test/frame"></iframe><script src="//cdn.test/a.js"></script>
<img src="//img.news.test/own"><a href="//cdn.test/page">next</a>
<script>
    fetch("//cdn.test/fetch", {mode: "no-cors"});
    navigator.sendBeacon("//cdn.test/beacon", "x");
    new WebSocket(location.protocol.replace("http", "ws") + "//cdn.test/socket");
</script>"""
#: path -> type and page that Chromium tells; without TLS, of a page that is not on loopback, it tells less
REQUESTED = {
    "/style": ("stylesheet", "www.news.test"),
    "/drawn": ("image", ""),  # its Referer is the stylesheet's
    "/font": ("font", "www.news.test"),
    "/image": ("image", "www.news.test"),
    "/frame": ("subdocument", "www.news.test"),
    "/a.js": ("script", "www.news.test"),
    "/own": ("image", "www.news.test"),
    "/fetch": ("xmlhttprequest", "www.news.test"),
    "/beacon": ("xmlhttprequest", "www.news.test"),
    "/socket": ("websocket", "www.news.test"),
    "/page": ("document", "cdn.test"),
}
ASKED_PLAINLY = REQUESTED | {
    "/drawn": ("image", "cdn.test"),
    "/font": ("", "www.news.test"),
    "/frame": ("document", "cdn.test"),
    "/fetch": ("", "www.news.test"),
    "/beacon": ("", "www.news.test"),
}


@pytest.mark.parametrize("scheme", [pytest.param("http", marks=pytest.mark.thorough), "https"])
def test_chromium_tells_who_asks_and_what_for(browser: Chrome, origin: Origin, scheme: str) -> None:
    style = ("text/css", b"body { background: url(/drawn) }")
    origin.pages |= {"/news": ("text/html", ASKING), "/style": style}
    expected = REQUESTED if scheme == "https" else ASKED_PLAINLY
    before = len(origin.requests)
    with origin.watch() as arrived:
        browser.get(f"{scheme}://www.news.test/news")
        paths = {path.encode() for path in expected} - {b"/page"}
        wait_until(browser, lambda _: paths <= {one.target for one in origin.requests[before:]})
        browser.find_element(By.TAG_NAME, "a").click()
        wait_until(browser, lambda one: one.current_url.endswith("/page"))
    found = {}
    for request in arrived.requests:
        host, fields = request.host.encode(), tuple((n.encode(), v.encode()) for n, v in request.headers.items())
        asked = Request(scheme.encode(), (host,), 0, request.target, method=request.method.encode(), fields=fields)
        found[request.target.decode()] = context_of(asked, host)
    assert {path: (found[path].kind, found[path].page) for path in expected} == expected
    is_third_party = {path for path in expected if found[path].is_third_party}
    assert is_third_party == {path for path in expected if expected[path][1] != "cdn.test"} - {"/own"}
    assert found["/beacon"].method == "POST"


FILTERS = """||cdn.test^$third-party,script
/image$image
@@||cdn.test/image$domain=fine.test
||cdn.test^$xmlhttprequest,domain=news.test
"""


def test_filters_stop_what_they_name_of_what_a_page_asks_for(
    start: Callable[..., Proxy], chrome: Chrome, origin: Origin, tmp_path: Path
) -> None:
    (tmp_path / "list.adblock").write_text(FILTERS)
    policy = write_policy(tmp_path, ["list.adblock"])
    origin.pages |= {"/news": ("text/html", ASKING), "/style": ("text/css", b"")}
    stopped = {
        "https://www.news.test/news": {"/a.js", "/image", "/fetch", "/beacon"},
        "https://fine.test/news": {"/a.js"},
    }
    with profile(chrome, start(policy=policy)) as browser:
        for page, paths in stopped.items():
            before = len(origin.requests)
            with origin.watch() as arrived:
                browser.get(page)
                expected = {path.encode() for path in {*REQUESTED} - {"/page", "/drawn"} - paths}
                wait_until(browser, lambda _: expected <= {one.target for one in origin.requests[before:]})  # noqa: B023
            assert {request.target.decode() for request in arrived.requests}.isdisjoint(paths)
        with origin.watch() as arrived:  # a person who types an address is no page
            browser.get("https://cdn.test/a.js")
        assert b"/a.js" in {request.target for request in arrived.requests}


@pytest.mark.parametrize("scheme", [pytest.param("http", marks=pytest.mark.thorough), "https"])
class TestBrowser:
    @pytest.mark.parametrize(
        "host", ["ads.test", *(pytest.param(host, marks=pytest.mark.thorough) for host in ("prefix.test", "full.test"))]
    )
    def test_a_blocked_page_is_replaced_by_one_that_says_what_and_why(
        self, browser: Chrome, origin: Origin, tmp_path: Path, scheme: str, host: str
    ) -> None:
        browser.get("about:blank")
        blank = browser.get_screenshot_as_png()
        with origin.watch() as arrived:
            browser.get(f"{scheme}://{host}/some/page?q=1")
        browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
        text = browser.find_element(By.TAG_NAME, "body").text
        for words in (REASON, "Test <i>list</i>", f"{scheme}://{host}/some/page?q=1", f"{host}/"):
            assert words in text
        # the content security policy lets the page's own style through
        assert browser.find_element(By.TAG_NAME, "main").value_of_css_property("border-top-left-radius") == "16px"
        assert arrived.connections == 0
        assert browser.get_screenshot_as_file(str(tmp_path / "blocked.png"))
        assert (tmp_path / "blocked.png").stat().st_size > 2 * len(blank)

    def test_a_hashed_uri_blocks_a_page(self, browser: Chrome, origin: Origin, scheme: str) -> None:
        with origin.watch() as arrived:
            browser.get(f"{scheme}://hashed.test/page")
        assert REASON in browser.find_element(By.TAG_NAME, "body").text
        assert "/page" not in [request.target.decode() for request in arrived.requests]

    def test_an_allowed_page_works_as_if_there_were_no_filter(self, browser: Chrome, site: None, scheme: str) -> None:
        browser.get(f"{scheme}://path.test/page-fine")
        assert browser.title == "An allowed page"
        assert browser.execute_script("return [image.naturalWidth, image.naturalHeight]") == [37, 11]
        assert browser.execute_script("return window.ran") is True
        assert browser.execute_script("return frame.contentDocument.body.innerText") == "framed"
        assert browser.execute_script("return getComputedStyle(document.querySelector('h1')).color") == ("rgb(1, 2, 3)")
        assert fetched(browser, "/fine/data") == {"status": 200, "body": {"from": "the origin"}}

    def test_what_is_blocked_inside_an_allowed_page_leaves_the_page_whole(
        self, browser: Chrome, origin: Origin, site: None, scheme: str
    ) -> None:
        with origin.watch() as arrived:
            browser.get(f"{scheme}://path.test/page-secret")
            answer = fetched(browser, "/secret/data")
        assert browser.title == "An allowed page"
        width = browser.execute_script("return image.complete && image.naturalWidth")
        assert width not in (0, 37)
        assert browser.execute_script("return window.ran") is False
        assert browser.execute_script("return getComputedStyle(document.querySelector('h1')).color") == ("rgb(0, 0, 0)")
        assert answer["status"] == 403
        assert answer["body"]["blocked"] is True
        assert answer["body"]["url"] == f"{scheme}://path.test/secret/data"
        assert answer["body"]["reason"] == REASON
        browser.switch_to.frame("frame")
        assert REASON in browser.find_element(By.TAG_NAME, "body").text
        assert not [request for request in arrived.requests if request.target.startswith(b"/secret/")]

    def test_a_frame_of_another_site_says_why_it_is_blocked(self, browser: Chrome, origin: Origin, scheme: str) -> None:
        origin.pages["/around"] = ("text/html", b"<!doctype html><iframe id='frame' src='//video.test/embed'></iframe>")
        with origin.watch() as arrived:
            browser.get(f"{scheme}://fine.test/around")
            browser.switch_to.frame("frame")
            assert REASON in browser.find_element(By.TAG_NAME, "body").text
        assert not [request for request in arrived.requests if request.target == b"/embed"]

    def test_a_blocked_websocket_fails_in_the_page_that_opens_it(
        self, browser: Chrome, origin: Origin, site: None, scheme: str
    ) -> None:
        browser.get(f"{scheme}://path.test/page-fine")
        url = f"{scheme.replace('http', 'ws')}://path.test"
        script = """
            const done = arguments[arguments.length - 1];
            const socket = new WebSocket(arguments[0]);
            socket.onopen = () => done("open");
            socket.onerror = () => done("error");
        """
        assert browser.execute_async_script(script, f"{url}/chat") == "open"
        with origin.watch() as arrived:
            assert browser.execute_async_script(script, f"{url}/secret/chat") == "error"
        assert not [request for request in arrived.requests if request.target.startswith(b"/secret/")]
