"""Where names lead, by a real name server: aliases, rebinding, chains without end, silence."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address
from math import inf

import pytest

from e2e.origin import Origin
from e2e.policies import replace, write_list
from e2e.proxy import Proxy, mitmdump
from e2e.resolver import AAAA, CNAME, A, Resolver, pack_name
from hushlist.extensions.resolution.resolver import LONGEST_WAIT

POLICY = """layers:
- {name: checks, checks: {private-answer: {action: block, names: [own.example.com]}}}
- {name: names, lists: [names.yaml]}
"""


def lead(resolver: Resolver, name: str, *addresses: str, alias: str = "") -> None:
    """Have a name lead to addresses, or by an alias to another."""
    to = [(CNAME, pack_name(alias.encode()))] if alias else [(A, IPv4Address(own).packed) for own in addresses]
    resolver.records[name.encode(), A] = to
    resolver.records[name.encode(), AAAA] = to if alias else []


@pytest.fixture(scope="module")
def resolver() -> Iterator[Resolver]:
    with Resolver() as running:
        lead(running, "good.example.com", "8.8.8.8")
        lead(running, "blocked.example.com", "8.8.4.9")
        lead(running, "rebind.example.com", "8.8.8.8", "192.168.1.1")
        lead(running, "nas.own.example.com", "192.168.1.1")
        lead(running, "cloak.example.com", alias="a.tracker.example.net")
        lead(running, "a.tracker.example.net", "8.8.8.8")
        lead(running, "fine.example.com", alias="good.example.com")
        for number in range(1000):
            lead(running, f"n{number}.example.com", alias=f"n{number + 1}.example.com")
        running.delays[b"silent.example.com"] = inf
        yield running


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory, origin: Origin, resolver: Resolver) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("resolution")
    write_list(folder / "names.yaml", "tracker.example.net/", {"address": "8.8.4.0/24"})
    policy = replace(folder / "policy.yaml", POLICY)
    options = {"upstream_dns": resolver.port, "dns_name_servers": "127.0.0.1", "dns_use_hosts_file": "false"}
    with mitmdump(folder, origin, policy=policy, scripts=["resolver.py"], options=options) as running:
        yield running


@pytest.mark.parametrize("scheme", [pytest.param("http", marks=pytest.mark.thorough), "https"])
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("good", ""),
        ("fine", ""),
        ("nas.own", ""),
        ("blocked", "8.8.4.9"),
        ("cloak", "tracker.example.net/"),
        ("rebind", "rebind.example.com leads to 192.168.1.1"),
    ],
)
def test_what_a_name_leads_to_decides(proxy: Proxy, origin: Origin, scheme: str, name: str, why: str) -> None:
    with origin.watch() as arrived:
        answer = proxy.get(f"{scheme}://{name}.example.com/")
    assert (answer.status_code, len(arrived.requests)) == ((403, 0) if why else (200, 1))
    assert why in answer.text


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("second", ["8.8.4.9", "192.168.1.1"])
def test_an_answer_that_changes_cannot_lead_elsewhere_than_it_was_decided(
    proxy: Proxy, origin: Origin, resolver: Resolver, scheme: str, second: str
) -> None:
    name = f"{scheme}-{second.replace('.', '-')}.example.com"
    lead(resolver, name, "8.8.8.8")
    resolver.lives[name.encode()] = 0
    resolver.changes[name.encode(), A] = [(A, IPv4Address(second).packed)]
    with origin.watch() as arrived:
        first = proxy.get(f"{scheme}://{name}/")
        if scheme == "http":
            assert (first.status_code, resolver.questions.count((name.encode(), A))) == (200, 1)
        else:  # the tunnel was decided before, and the request is decided by what is said then
            assert (first.status_code, second in first.text) == (403, True)
        refused = proxy.get(f"{scheme}://{name}/")
    assert (refused.status_code, second in refused.text) == (403, True)
    assert len(arrived.requests) == (scheme == "http")


def test_a_chain_without_end_is_too_much(proxy: Proxy, origin: Origin, resolver: Resolver) -> None:
    before = len(resolver.questions)
    with origin.watch() as arrived:
        answer = proxy.get("http://n0.example.com/")
    assert (answer.status_code, arrived.requests) == (403, [])
    assert "leads on through more than" in answer.text
    assert len(resolver.questions) - before < 40


def test_a_name_server_that_is_silent_keeps_nobody_else_waiting(proxy: Proxy, origin: Origin) -> None:
    begun = time.monotonic()
    with ThreadPoolExecutor() as threads, origin.watch() as arrived:
        slow = threads.submit(proxy.get, "http://silent.example.com/")
        assert proxy.get("http://good.example.com/").status_code == 200
        assert not slow.done()
        assert slow.result().status_code in (403, 502)
    assert LONGEST_WAIT / 2 < time.monotonic() - begun < LONGEST_WAIT * 3
    assert [request.host for request in arrived.requests] == ["good.example.com"]
