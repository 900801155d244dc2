"""What browsers do with a second name of a certificate, where the first one's connection is relayed undecrypted.

Over HTTP/2 a browser may ask for another name on a connection that it has, if the certificate has both names and they
have one address (RFC 9113, 9.1.1). On a connection that is relayed, nobody would decide that name. Through a proxy that
they know, Chromium and Firefox look up no addresses, and make a CONNECT for each name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium.webdriver import Chrome

from e2e.browser import (
    BROWSER,
    BYPASSED,
    CERTUTIL,
    DRIVER,
    FIREFOX,
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
#: a site whose names browsers look up
DIRECT = "direct.test"
NAMES = (PLAIN, RULED, f"www.{DIRECT}", f"shop.{DIRECT}")
#: with the site's cookies, since a browser has other connections for requests without
FETCH = """
    const done = arguments[arguments.length - 1];
    fetch(arguments[0], {mode: "no-cors", credentials: "include"}).then(() => done("answered"), String).then(done);
"""

Browser = Chrome | Firefox


@contextmanager
def _chromium(proxy: Proxy, folder: Path, certificates: list[Path]) -> Iterator[Browser]:
    found = (f"--proxy-bypass-list={BYPASSED};*.{DIRECT}", f"--host-resolver-rules=MAP *.test {LOOPBACK}")
    with chromium(proxy, folder, trusting(*certificates), *found) as browser:
        yield browser


@contextmanager
def _firefox(proxy: Proxy, folder: Path, certificates: list[Path]) -> Iterator[Browser]:
    settings: dict[str, object] = {
        "network.proxy.type": 1,
        "network.proxy.no_proxies_on": f".{DIRECT}",
        "network.dns.localDomains": ",".join(NAMES),
    }
    for scheme in ("http", "ssl"):
        settings |= {f"network.proxy.{scheme}": LOOPBACK, f"network.proxy.{scheme}_port": proxy.port}
    with firefox(folder, certificates, settings) as browser:
        yield browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("coalescing")


@pytest.fixture(scope="module")
def origin(folder: Path) -> Iterator[Origin]:
    with Origin(folder, *NAMES) as running:
        running.pages["/page"] = ("text/html", b"<title>A page</title>")
        yield running


@pytest.fixture(scope="module")
def relaying(folder: Path, origin: Origin) -> Iterator[Proxy]:
    """A proxy that relays one of the names, and decrypts the other for the sake of a rule for a path."""
    write_list(folder / "rules.yaml", f"{RULED}/secret/")
    policy = write_policy(folder, ["rules.yaml"], decrypt="where-needed")
    with mitmdump(folder, origin, policy=policy) as running:
        yield running


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(_chromium, marks=pytest.mark.skipif(not (BROWSER and DRIVER), reason="there is no Chromium")),
        pytest.param(
            _firefox,
            marks=[
                pytest.mark.thorough,
                pytest.mark.skipif(not (FIREFOX and CERTUTIL), reason="there is no Firefox"),
            ],
        ),
    ],
)
def browser(
    request: pytest.FixtureRequest, relaying: Proxy, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browser]:
    """One that goes through the proxy, but to one site; it trusts the origin's certificate, and the proxy's."""
    certificates = [folder / "origin.pem", relaying.authority]
    with request.param(relaying, tmp_path_factory.mktemp("browser"), certificates) as running:
        yield running


def visit(browser: Browser, origin: Origin, plain: str, ruled: str) -> dict[str, set[object]]:
    """The connections on which the origin was asked for each target, after a page and what its script asks for."""
    with origin.watch() as arrivals:
        browser.get(f"https://{plain}/page")
        for url in ("/more", f"https://{ruled}/fine", f"https://{ruled}/secret/x"):
            assert browser.execute_async_script(FETCH, url) == "answered"
    found: dict[str, set[object]] = {}
    for request in arrivals.requests:
        assert request.http_version == "2" or ".test" not in request.host
        found.setdefault(request.target.decode(), set()).add(request.peer)
    return found


def test_through_a_proxy_each_name_has_a_connection_of_its_own(
    browser: Browser, relaying: Proxy, origin: Origin
) -> None:
    assert [relays(relaying, name) for name in (PLAIN, RULED)] == [True, False]
    asked = visit(browser, origin, PLAIN, RULED)
    assert asked["/page"] == asked["/more"] != asked["/fine"]
    assert "/secret/x" not in asked


def test_where_a_browser_looks_up_addresses_it_reuses_the_connection(browser: Browser, origin: Origin) -> None:
    """So it is in transparent mode; and so the test above could see it."""
    asked = visit(browser, origin, *(f"{kind}.{DIRECT}:{origin.https_port}" for kind in ("www", "shop")))
    assert asked["/page"] == asked["/more"] == asked["/fine"] == asked["/secret/x"]
