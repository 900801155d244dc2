"""No spelling of what is on a list of Safe Browsing arrives: each is asked about, and blocked, as the plain one is."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.origin import Origin
from e2e.policies import write_list
from e2e.proxy import Proxy, mitmdump
from evasion.corpus import ENTRIES, ways
from evasion.driver import passes, sweep
from evasion.entries import BLOCKED, Entry
from hushlist.core.match.expressions import full_hash
from support.prefix_server import PrefixServer

pytestmark = pytest.mark.xdist_group("evasion, Safe Browsing")
#: what is blocked in the corpus -> the expression that is on the list
LISTED = {
    "ads.test": b"ads.test/",
    "strasse.test": b"strasse.test/",
    "bücher.test": b"xn--bcher-kva.test/",
    "xn--x-pib.test": b"xn--x-pib.test/",
    "full.test": b"full.test/",
    "prefix.test": b"prefix.test/",
    "path.test/secret/": b"path.test/secret/",
    "hash.test/secret/": b"hash.test/secret/",
}
_LISTED = [entry for entry in ENTRIES if entry.blocked in LISTED]


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origin]:
    with Origin(tmp_path_factory.mktemp("origin")) as running:
        yield running


@pytest.fixture(scope="module")
def server() -> Iterator[PrefixServer]:
    with PrefixServer(*LISTED.values()) as running:
        yield running


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory, origin: Origin, server: PrefixServer) -> Iterator[Proxy]:
    folder: Path = tmp_path_factory.mktemp("evasion")
    write_list(folder / "rules.yaml", *(rule for name, rule in BLOCKED.items() if name not in LISTED))
    asked = {"version": 5, "lists": ["mw-4b"], "server": server.url}
    lists = ["rules.yaml", {"safe-browsing": asked}]
    policy = folder / "policy.yaml"
    policy.write_text(yaml.safe_dump({"layers": [{"name": "lists", "lists": lists}]}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        with mitmdump(folder, origin, policy=policy) as running:
            yield running


def test_no_spelling_of_what_a_prefix_fits_arrives(proxy: Proxy, origin: Origin, server: PrefixServer) -> None:
    """Of each family, some spellings of each that is listed: how they are read is the same for all rules."""
    found: dict[tuple[str, str], list[Entry]] = {}
    for same in ways(_LISTED):
        found.setdefault((same[0].family, same[0].blocked), []).append(same[0])
    spellings = [entry for own in found.values() for entry in own[:: (len(own) + 4) // 5]]
    assert len(spellings) > 200
    leaked = sweep(proxy, origin, spellings).leaked
    assert [(entry.family, entry.spelling, entry.payload) for entry in leaked] == []
    asked = {b64decode(text, altchars=b"-_") for _, _, query, _ in server.searches() for text in query["hashPrefixes"]}
    # a request with a fault is blocked by one name; nobody is asked about another, as of the name that UTS 46 refuses
    refused = {full_hash(LISTED["xn--x-pib.test"])[:4]}
    assert asked | refused == {full_hash(expression)[:4] for expression in LISTED.values()}
    assert len(server.searches()) <= len(LISTED)  # what was confirmed holds for every spelling


def test_what_is_beside_it_arrives(proxy: Proxy, origin: Origin) -> None:
    for url in (b"http://good.test/", b"http://path.test/open/", b"http://path.test/secrets", b"http://notads.test/"):
        host = url.split(b"/")[2]
        head = b"GET %b HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n" % (url, host)
        target = b"/" + url.split(b"/", 3)[3]
        assert passes(proxy, origin, Entry("neighbours", "", url.decode(), head, arrives=(target,)))
