"""Fixtures: an origin, a proxy that is shared by tests which only send requests, and one to start at will."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome

from e2e.browser import chromium, profile
from e2e.origin import Origin
from e2e.policies import hashed_uri, sha256, write_list, write_policy
from e2e.proxy import Proxy, mitmdump

#: words that a page has to show as they are, and not as markup
REASON = """Advertising <b>& "worse"</b>"""


@pytest.fixture(scope="session")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origin]:
    """The origin that every host name leads to."""
    with Origin(tmp_path_factory.mktemp("origin")) as running:
        yield running


@pytest.fixture(autouse=True)
def _own_pages(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test has the origin serve is there for this test alone."""
    pages = request.getfixturevalue("origin").pages if "origin" in request.fixturenames else {}
    before = dict(pages)
    yield
    pages.clear()
    pages.update(before)


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy with every kind of rule; its hosts are named for what happens to them."""
    folder = tmp_path_factory.mktemp("policy")
    write_list(
        folder / "ads.yaml",
        "ads.test/",
        "path.test/secret/",
        "video.test/",
        {"expression": "video.test/live/", "action": "allow"},
        {"expression": "tagged.test/", "action": "tag"},
        {"expression": "expired.test/", "expires": "2001-01-01"},
        {"sha256": sha256("full.test/")},
        {"sha256": sha256("prefix.test/", 8)},
        {"sha256": sha256("prefix-path.test/deep/", 4)},
        hashed_uri("http://hashed.test/page"),
        hashed_uri("https://hashed.test/page"),
        {"address": "10.0.0.0/8"},
        title="Test <i>list</i>",
        category="hrn://example.org/web/ads",
        reason=REASON,
    )
    (folder / "secret.txt").write_text(f"# by URI alone\n{hashed_uri('http://listed.test')}\n", encoding="utf-8")
    write_list(folder / "own.yaml", {"expression": "allowed.ads.test/", "action": "allow"}, title="Own rules")
    listed = {"file": "secret.txt", "format": "hashed-uris", "reason": "Listed by URI"}
    return write_policy(folder, ["own.yaml"], ["ads.yaml", listed])


@pytest.fixture(scope="session")
def proxy(tmp_path_factory: pytest.TempPathFactory, origin: Origin, policy: Path) -> Iterator[Proxy]:
    """A filtering proxy that tests share, so they must not change anything about it."""
    with mitmdump(tmp_path_factory.mktemp("mitmdump"), origin, policy=policy) as running:
        yield running


@pytest.fixture(scope="session")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """A Chromium that tests share, each with a ``profile`` of its own: to start one takes seconds."""
    with chromium(None, tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture(scope="class")
def browser(chrome: Chrome, proxy: Proxy) -> Iterator[Chrome]:
    """A profile for the tests of a class, who ask the proxy for everything."""
    with profile(chrome, proxy) as running:
        yield running


@pytest.fixture
def start(tmp_path: Path, origin: Origin, policy: Path) -> Iterator[Callable[..., Proxy]]:
    """Starts a proxy of the test's own, by default with the shared policy; takes what ``mitmdump`` takes."""
    with ExitStack() as running:

        def start(**settings: Any) -> Proxy:
            folder = tmp_path / "mitmdump"
            folder.mkdir(exist_ok=True)
            return running.enter_context(mitmdump(folder, origin, **{"policy": policy, **settings}))

        yield start
