"""What browsers do with a second name of a certificate, where the first one's connection is relayed undecrypted.

Over HTTP/2 a browser may ask for another name on a connection that it has, if the certificate has both names and they
have one address (RFC 9113, 9.1.1). On a connection that is relayed, nobody would decide that name. Through a proxy that
they know, Chromium and Firefox look up no addresses, and make a CONNECT for each name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from selenium.webdriver import Chrome

from e2e.browser import (
    BROWSER,
    CERTUTIL,
    DRIVER,
    FIREFOX,
    NOBODY_LISTENS,
    Firefox,
    chromium,
    firefox,
    trusting,
)
from e2e.origin import LOOPBACK, Origin
from e2e.policies import write_list, write_policy
from e2e.proxy import Proxy, mitmdump
from evasion.driver import relays

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("chromium")]

#: two names of one site and one certificate; Chromium shares no connections between sites
PLAIN, RULED = "www.site.test", "shop.site.test"
#: with the site's cookies, since a browser has other connections for requests without
FETCH = """
    const done = arguments[arguments.length - 1];
    fetch(arguments[0], {mode: "no-cors", credentials: "include"}).then(() => done("answered"), String).then(done);
"""

Browser = Chrome | Firefox
#: a browser that goes through a proxy or, without, directly to loopback; it trusts certificates of the origin's
Browse = Callable[[Proxy | None, Path, list[Path]], AbstractContextManager[Browser]]


@contextmanager
def _chromium(proxy: Proxy | None, folder: Path, certificates: list[Path]) -> Iterator[Browser]:
    direct = ("--no-proxy-server", f"--host-resolver-rules=MAP *.test {LOOPBACK}")
    with chromium(proxy, folder, trusting(*certificates), *(() if proxy else direct)) as browser:
        yield browser


@contextmanager
def _firefox(proxy: Proxy | None, folder: Path, certificates: list[Path]) -> Iterator[Browser]:
    settings: dict[str, object] = {
        "network.proxy.type": 1,
        "network.proxy.no_proxies_on": "" if proxy else ".test",
        "network.dns.localDomains": f"{PLAIN},{RULED}",
    }
    for scheme in ("http", "ssl"):
        port = proxy.port if proxy else NOBODY_LISTENS
        settings |= {f"network.proxy.{scheme}": LOOPBACK, f"network.proxy.{scheme}_port": port}
    folder.mkdir()
    with firefox(folder, certificates, settings) as browser:
        yield browser


@pytest.fixture(
    params=[
        pytest.param(_chromium, marks=pytest.mark.skipif(not (BROWSER and DRIVER), reason="there is no Chromium")),
        pytest.param(_firefox, marks=pytest.mark.skipif(not (FIREFOX and CERTUTIL), reason="there is no Firefox")),
    ]
)
def browse(request: pytest.FixtureRequest) -> Browse:
    return request.param


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("coalescing")


@pytest.fixture(scope="module")
def origin(folder: Path) -> Iterator[Origin]:
    with Origin(folder, PLAIN, RULED) as running:
        running.pages["/page"] = ("text/html", b"<title>A page</title>")
        yield running


@pytest.fixture(scope="module")
def relaying(folder: Path, origin: Origin) -> Iterator[Proxy]:
    """A proxy that relays one of the names, and decrypts the other for the sake of a rule for a path."""
    write_list(folder / "rules.yaml", f"{RULED}/secret/")
    policy = write_policy(folder, ["rules.yaml"], decrypt="where-needed")
    with mitmdump(folder, origin, policy=policy) as running:
        yield running


def visit(browser: Browser, origin: Origin, port: str = "") -> dict[str, set[object]]:
    """The connections on which the origin was asked for each target, after a page and what its script asks for."""
    with origin.watch() as arrivals:
        browser.get(f"https://{PLAIN}{port}/page")
        for url in ("/more", f"https://{RULED}{port}/fine", f"https://{RULED}{port}/secret/x"):
            assert browser.execute_async_script(FETCH, url) == "answered"
    found: dict[str, set[object]] = {}
    for request in arrivals.requests:
        assert request.http_version == "2" or ".test" not in request.host
        found.setdefault(request.target.decode(), set()).add(request.peer)
    return found


def test_through_a_proxy_each_name_has_a_connection_of_its_own(
    browse: Browse, relaying: Proxy, origin: Origin, folder: Path, tmp_path: Path
) -> None:
    assert [relays(relaying, name) for name in (PLAIN, RULED)] == [True, False]
    with browse(relaying, tmp_path / "browser", [folder / "origin.pem", relaying.authority]) as browser:
        asked = visit(browser, origin)
    assert asked["/page"] == asked["/more"] != asked["/fine"]
    assert "/secret/x" not in asked


def test_where_a_browser_looks_up_addresses_it_reuses_the_connection(
    browse: Browse, origin: Origin, folder: Path, tmp_path: Path
) -> None:
    """So it is in transparent mode; and so the test above could see it."""
    with browse(None, tmp_path / "browser", [folder / "origin.pem"]) as browser:
        asked = visit(browser, origin, f":{origin.https_port}")
    assert asked["/page"] == asked["/more"] == asked["/fine"] == asked["/secret/x"]
