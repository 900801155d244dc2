"""No spelling of the corpus arrives at the origin; every neighbour does, and without the filter, the spellings, too.

The same holds where only what a rule could need is decrypted, but for what the inside of TLS alone tells.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.origin import Origin
from e2e.proxy import Proxy
from evasion.corpus import ENTRIES, FRONTED, NEIGHBOURS, families, ways
from evasion.driver import LONG, SHORT, SILENCE, arrives_unfiltered, filtering, relays, stopped, sweep
from evasion.entries import BLOCKED, OPAQUE, SHUT

_FAMILIES, _NEIGHBOURS = families(ENTRIES), families(NEIGHBOURS)

#: which TLS is decrypted, and in which process it is tested
_DECRYPTED = [
    pytest.param({}, id="all", marks=pytest.mark.xdist_group("evasion")),
    pytest.param(
        {"decrypt": "where-needed"},
        id="where-needed",
        marks=[pytest.mark.xdist_group("evasion, where-needed"), pytest.mark.slow],
    ),
]


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origin]:
    with Origin(tmp_path_factory.mktemp("origin")) as running:
        yield running


@pytest.fixture(scope="module")
def settings(request: pytest.FixtureRequest) -> dict[str, object]:
    """What the policy says of which TLS is decrypted."""
    return request.param


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory, origin: Origin, settings: dict[str, object]) -> Iterator[Proxy]:
    with filtering(tmp_path_factory.mktemp("evasion"), origin, settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def unfiltered(tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> Iterator[Proxy]:
    with filtering(tmp_path_factory.mktemp("evasion"), origin, mode="off") as running:
        yield running


@pytest.mark.parametrize("settings", _DECRYPTED, indirect=True)
@pytest.mark.parametrize("family", _FAMILIES)
def test_no_spelling_of_what_is_blocked_arrives(
    proxy: Proxy, origin: Origin, settings: dict[str, object], family: str
) -> None:
    entries = _FAMILIES[family]
    if settings:
        seen = [entry for entry in entries if not (entry.is_fronted or entry.blocked in OPAQUE)]
        # whether to decrypt is asked in tunnels alone: of all else, one is enough to see that it is stopped
        entries = [entry for entry in seen if entry.tunnel] or seen[:1]
    assert sweep(proxy, origin, entries).leaked == ()


@pytest.mark.parametrize("settings", _DECRYPTED, indirect=True)
@pytest.mark.parametrize("family", _NEIGHBOURS)
def test_a_harmless_neighbour_arrives(proxy: Proxy, origin: Origin, family: str) -> None:
    assert stopped(proxy, origin, _NEIGHBOURS[family]) == []


@pytest.mark.parametrize("settings", _DECRYPTED, indirect=True)
def test_what_no_rule_could_need_is_relayed(proxy: Proxy, settings: dict[str, object]) -> None:
    names = ["good.test", "ads.test", "path.test", "x.path.test", "full.test", "video.test"]
    assert [name for name in names if relays(proxy, name)] == (["good.test"] if settings else [])


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{"decrypt": "where-needed", "always-decrypt": ["good.test"]}], ids=["always"], indirect=True
)
@pytest.mark.xdist_group("evasion, where-needed")
def test_what_the_inside_of_tls_alone_tells_is_stopped_where_it_is_always_decrypted(
    proxy: Proxy, origin: Origin
) -> None:
    assert len(FRONTED) > 30
    assert sweep(proxy, origin, FRONTED).leaked == ()


@pytest.mark.xdist_group("evasion, unfiltered")
@pytest.mark.parametrize("family", _FAMILIES)
def test_without_the_filter_spellings_arrive(unfiltered: Proxy, origin: Origin, family: str) -> None:
    same = ways(_FAMILIES[family])
    assert any(arrives_unfiltered(unfiltered, origin, one, silence) for silence in (SHORT, SILENCE) for one in same)


@pytest.mark.xdist_group("evasion, unfiltered")
def test_what_leaks_is_seen_and_named(unfiltered: Proxy, origin: Origin) -> None:
    some = (*_FAMILIES["case"][:3], *_FAMILIES["redirects"][:2])
    assert sweep(unfiltered, origin, some, LONG).leaked == some


def test_everything_that_is_blocked_has_spellings() -> None:
    assert {entry.blocked for entry in ENTRIES} == {*BLOCKED, *SHUT}
    assert len(ways(list(ENTRIES))) >= 1000
    assert len(NEIGHBOURS) >= 100
