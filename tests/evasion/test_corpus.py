"""No spelling of the corpus arrives at the origin, and every neighbour does: each in one of the ways to send it.

``tests/evasion/run.py`` sends all in every way, without the filter, too, and where only what a rule could need is
decrypted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.origin import Origin
from e2e.proxy import Proxy, request_head
from evasion.corpus import ENTRIES, NEIGHBOURS, families, ways
from evasion.driver import LONG, filtering, relays, stopped, sweep
from evasion.entries import BLOCKED, KEPT, SHUT

_FAMILIES, _NEIGHBOURS = families(ENTRIES), families(NEIGHBOURS)

pytestmark = pytest.mark.xdist_group("evasion")


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origin]:
    with Origin(tmp_path_factory.mktemp("origin")) as running:
        yield running


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> Iterator[Proxy]:
    with filtering(tmp_path_factory.mktemp("evasion"), origin) as running:
        yield running


@pytest.mark.parametrize("family", _FAMILIES)
def test_no_spelling_of_what_is_blocked_arrives(proxy: Proxy, origin: Origin, family: str) -> None:
    spellings = ways(_FAMILIES[family])
    assert sweep(proxy, origin, [same[number % len(same)] for number, same in enumerate(spellings)]).leaked == ()


@pytest.mark.parametrize("family", _NEIGHBOURS)
def test_a_harmless_neighbour_arrives(proxy: Proxy, origin: Origin, family: str) -> None:
    assert stopped(proxy, origin, _NEIGHBOURS[family]) == []


@pytest.mark.parametrize(("settings", "relayed"), [({}, []), ({"decrypt": "where-needed"}, ["good.test"])])
def test_what_no_rule_could_need_is_relayed(
    tmp_path: Path, origin: Origin, settings: dict[str, object], relayed: list[str]
) -> None:
    names = ["good.test", "ads.test", "path.test", "x.path.test", "full.test", "video.test"]
    with filtering(tmp_path, origin, settings=settings) as proxy:
        assert [name for name in names if relays(proxy, name)] == relayed


def test_what_leaks_is_seen_and_named(tmp_path: Path, origin: Origin) -> None:
    some = (*_FAMILIES["case"][:3], *_FAMILIES["redirects"][:2])
    with filtering(tmp_path, origin, mode="off") as unfiltered:
        assert sweep(unfiltered, origin, some, LONG).leaked == some


def test_everything_that_is_blocked_has_spellings() -> None:
    assert {entry.blocked for entry in ENTRIES} == {*BLOCKED, *SHUT, *KEPT}
    assert len(ways(list(ENTRIES))) >= 1000
    assert len(NEIGHBOURS) >= 100


def test_where_origins_need_them_fields_that_servers_believe_are_decided(tmp_path: Path, origin: Origin) -> None:
    believed = [replace(entry, arrives=()) for entry in _FAMILIES["headers that servers believe"]]
    with filtering(tmp_path, origin, settings={"keep-headers": ["good.test", "path.test"]}) as proxy:
        assert sweep(proxy, origin, believed).leaked == ()
        harmless = [b"Destination: /elsewhere"]
        head = request_head(b"http://path.test/open", b"path.test", method=b"MOVE", headers=harmless)
        with origin.watch() as arrivals:
            assert proxy.send(head, "MOVE").status == 200
    assert [request.headers["destination"] for request in arrivals.requests] == ["/elsewhere"]
