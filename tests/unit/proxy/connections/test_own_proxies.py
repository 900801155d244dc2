"""Connections that would lead to another proxy of the machine, or to the load balancer in front."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from time import time
from types import SimpleNamespace

import pytest
from mitmproxy import connection, ctx
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from hushlist.extensions.fleet.heartbeat import Heartbeat
from hushlist.extensions.fleet.proxy_records import GONE, ProxyRecord
from hushlist.proxy.addon import Hushlist
from hushlist.proxy.connections.own_proxies import OwnProxies
from hushlist.proxy.connections.proxy_protocol import ProxyProtocol
from support.mitmproxied import mitmproxied
from support.parts import part_of
from unit.rows import each_row

OTHER, MORE, GONE_PORT, ELSEWHERE, OWN, FRONT = 8082, 8092, 8083, 8084, 8081, 8080


@pytest.fixture
def proxies(tmp_path: Path) -> Iterator[OwnProxies]:
    hushlist, now, machine = Hushlist(), time(), socket.gethostname()
    part_of(hushlist.runtime, Heartbeat).records = (
        ProxyRecord(f"{machine}:{OTHER}", now, started=now - 60, ports=f"{OTHER} {MORE}"),
        ProxyRecord(f"{machine}:{GONE_PORT}", now - GONE - 60, started=now - 600, ports=str(GONE_PORT)),
        ProxyRecord(f"not-{machine}:{ELSEWHERE}", now, started=now - 60, ports=str(ELSEWHERE)),
        ProxyRecord(f"{machine}:{OWN}", now, started=hushlist.runtime.statistics.started, ports=str(OWN)),
        ProxyRecord(machine, now),
        ProxyRecord(f"{machine}:1", now, ports=f"x \u00b2 {'9' * 5000}"),
    )
    protocol = ProxyProtocol()
    protocol.fronts.add(("192.0.2.1", FRONT))
    with mitmproxied(hushlist):
        yield OwnProxies(hushlist.runtime, protocol)


def is_ended(
    proxies: OwnProxies,
    to: tuple[str, int],
    *,
    by: str = "192.0.2.9",
    mode: str = "regular",
    name: str = "h.example",
    protocol: str = "tcp",
) -> bool:
    server = connection.Server(address=(name, to[1]), peername=to, sockname=(by, 50000))
    server.transport_protocol = protocol  # type: ignore[assignment]
    client = connection.Client(peername=("10.0.0.7", 1), sockname=("10.0.0.1", 2), proxy_mode=ProxyMode.parse(mode))
    ended: list[bool] = []
    transport = SimpleNamespace(abort=lambda: ended.append(True))
    io = SimpleNamespace(writer=SimpleNamespace(transport=transport))
    handler = SimpleNamespace(transports={server: io})
    ctx.master.addons.add(SimpleNamespace(name="proxyserver", connections={client.id: handler}))
    try:
        proxies.connected(ServerConnectionHookData(server, client))
    finally:
        ctx.master.addons.remove(ctx.master.addons.get("proxyserver"))
    return bool(ended)


@each_row(
    ("to", "by"),
    [
        (("192.0.2.1", FRONT), "192.0.2.9"),
        (("::ffff:192.0.2.1", FRONT), "192.0.2.9"),
        (("127.0.0.1", FRONT), "127.0.0.1"),
        (("127.0.0.7", OTHER), "127.0.0.1"),
        (("::1", OTHER), "::1"),
        (("127.0.0.1", MORE), "127.0.0.1"),
        (("192.0.2.9", OTHER), "192.0.2.9"),  # one of the machine's own addresses
    ],
)
def test_what_leads_back_ends(proxies: OwnProxies, to: tuple[str, int], by: str) -> None:
    assert is_ended(proxies, to, by=by)


@each_row(
    "to",
    [
        *(("127.0.0.1", port) for port in (80, GONE_PORT, ELSEWHERE)),
        ("127.0.0.1", OWN),  # the proxy knows it again, and says so
        *(("192.0.2.2", port) for port in (FRONT, OTHER)),
        ("fe80::1%eth0", OTHER),
    ],
)
def test_all_else_goes_on(proxies: OwnProxies, to: tuple[str, int]) -> None:
    assert not is_ended(proxies, to)


@pytest.mark.parametrize("mode", [f"upstream:http://127.0.0.1:{OTHER}", f"reverse:http://127.0.0.1:{OTHER}"])
def test_what_the_administrator_chose_goes_on(proxies: OwnProxies, mode: str) -> None:
    assert not is_ended(proxies, ("127.0.0.1", OTHER), by="127.0.0.1", mode=mode, name="127.0.0.1")
    assert is_ended(proxies, ("127.0.0.1", OTHER), by="127.0.0.1", mode=mode, name="h.example")
