"""No spelling of the corpus arrives at the origin; every neighbour does, and without the filter, the spellings, too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.origin import Origin
from e2e.proxy import Proxy
from evasion.corpus import ENTRIES, NEIGHBOURS, families, ways
from evasion.driver import arrives_unfiltered, ask, filtering, passes, sweep
from evasion.entries import BLOCKED, SHUT

_FAMILIES, _NEIGHBOURS = families(ENTRIES), families(NEIGHBOURS)


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origin]:
    with Origin(tmp_path_factory.mktemp("origin")) as running:
        yield running


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> Iterator[Proxy]:
    with filtering(tmp_path_factory.mktemp("evasion"), origin) as running:
        yield running


@pytest.fixture(scope="module")
def unfiltered(tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> Iterator[Proxy]:
    with filtering(tmp_path_factory.mktemp("evasion"), origin, mode="off") as running:
        yield running


@pytest.mark.xdist_group("evasion")
@pytest.mark.parametrize("family", _FAMILIES)
def test_no_spelling_of_what_is_blocked_arrives(proxy: Proxy, origin: Origin, family: str) -> None:
    assert sweep(proxy, origin, _FAMILIES[family]).leaked == ()


@pytest.mark.xdist_group("evasion")
@pytest.mark.parametrize("family", _NEIGHBOURS)
def test_a_harmless_neighbour_arrives(proxy: Proxy, origin: Origin, family: str) -> None:
    assert [entry for entry in _NEIGHBOURS[family] if not passes(entry, ask(proxy, origin, entry)[0])] == []


@pytest.mark.xdist_group("evasion, unfiltered")
@pytest.mark.parametrize("family", _FAMILIES)
def test_without_the_filter_spellings_arrive(unfiltered: Proxy, origin: Origin, family: str) -> None:
    assert any(arrives_unfiltered(unfiltered, origin, same) for same in ways(_FAMILIES[family]))


@pytest.mark.xdist_group("evasion, unfiltered")
def test_what_leaks_is_seen_and_named(unfiltered: Proxy, origin: Origin) -> None:
    some = (*_FAMILIES["case"][:3], *_FAMILIES["redirects"][:2])
    assert sweep(unfiltered, origin, some).leaked == some


def test_everything_that_is_blocked_has_spellings() -> None:
    assert {entry.blocked for entry in ENTRIES} == {*BLOCKED, *SHUT}
    assert len(ways(list(ENTRIES))) >= 1000
    assert len(NEIGHBOURS) >= 100
