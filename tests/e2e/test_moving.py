"""Somebody moves here from AdGuard Home: its configuration is imported, its lists are fetched, and people browse."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from selenium.webdriver import Chrome

from e2e.browser import BROWSER, DRIVER, profile, wait_for_words
from e2e.origin import Origin
from e2e.proxy import Proxy
from hushlist import cli

BLOCKED = "||listed.test^\n||good.test^\n||also.test^\n.mov|\n/^adimg[0-9]*\\./\n@@||fine.listed.test^\n"
#: an allow list in both spellings
ALLOWED = "@@||good.test^\n||also.test^\n"
CONFIGURATION = r"""
dns: {{bind_hosts: [0.0.0.0]}}
filters:
  - {{enabled: true, url: "{folder}/blocked.txt", name: Blocked, id: 1}}
whitelist_filters:
  - {{enabled: true, url: "{folder}/allowed.txt", name: Allowed, id: 2}}
user_rules:
  - '||ads.test^'
  - '@@||help.ads.test^'
  - '/^stats?[0-9]*\./'
filtering: {{protection_enabled: true, filtering_enabled: true}}
clients: {{persistent: []}}
schema_version: 29
"""
#: what AdGuard Home decides of the names of these addresses
DECISIONS = {
    "http://www.listed.test/": 403,
    "https://www.listed.test/": 403,
    "http://fine.listed.test/": 200,
    "http://good.test/": 200,
    "https://also.test/": 200,
    "http://page.test/film.mov": 200,  # a pattern is about the name, which ends otherwise
    "http://cinema.mov/": 403,
    "http://adimg3.test/": 403,
    "http://page.test/adimg3.": 200,
    "http://stats1.test/": 403,
    "http://ads.test/": 403,
    "http://help.ads.test/": 200,
}


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """The imported policy, after its administrator has done what its comments say."""
    (tmp_path / "blocked.txt").write_text(BLOCKED)
    (tmp_path / "allowed.txt").write_text(ALLOWED)
    (tmp_path / "AdGuardHome.yaml").write_text(CONFIGURATION.format(folder=tmp_path))
    home = tmp_path / "home"
    assert cli.main(["import", "adguardhome", str(tmp_path / "AdGuardHome.yaml"), "--output", str(home)]) in (0, 1)
    text = (home / "policy.yaml").read_text()
    for command in re.findall(r"^ *#   (mkdir .*)$", text, re.MULTILINE):
        subprocess.run(command, shell=True, cwd=home, check=True)
    (home / "policy.yaml").write_text(re.sub(r"^( *)# (- \{file: lists/subscribed)", r"\1\2", text, flags=re.MULTILINE))
    return home / "policy.yaml"


def test_what_is_imported_decides_as_before(start: Callable[..., Proxy], origin: Origin, policy: Path) -> None:
    proxy = start(policy=policy)
    with origin.watch() as arrived, proxy.client() as client:
        assert {url: client.get(url).status_code for url in DECISIONS} == DECISIONS
    assert len(arrived.requests) == [*DECISIONS.values()].count(200)


@pytest.mark.skipif(not (BROWSER and DRIVER), reason="no Chromium, or no chromedriver")
@pytest.mark.xdist_group("chromium")
@pytest.mark.thorough
def test_a_person_browses_with_it(start: Callable[..., Proxy], origin: Origin, policy: Path, chrome: Chrome) -> None:
    origin.pages["/"] = ("text/html", b"<!doctype html><title>Home</title><p>Welcome")
    with profile(chrome, start(policy=policy)) as browser:
        browser.get("https://good.test/")
        wait_for_words(browser, "Welcome")
        browser.get("https://www.listed.test/")
        wait_for_words(browser, "This page is blocked")
        assert "Welcome" not in browser.page_source
