"""Who loses connections when files run out; ``tests/e2e/test_open_files.py`` lets them run out."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace

import pytest
from mitmproxy import connection, ctx

from hushlist.proxy.addon import Hushlist
from hushlist.proxy.connections import open_files
from hushlist.proxy.connections.open_files import OpenFiles
from support.mitmproxied import mitmproxied


@pytest.mark.parametrize("has_file", [True, False])
@pytest.mark.parametrize(
    ("addresses", "allowed", "ended"),
    [
        (["10.0.0.1", "10.0.0.2", "10.0.0.2"], 1, ["10.0.0.2"]),
        (["10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2"], 1, ["10.0.0.1"]),
        (
            ["10.0.0.1", "10.0.0.1", "2001:db8::1", "2001:db8::2%eth0", "2001:db8::3"],
            1,
            ["2001:db8::1", "2001:db8::2%eth0"],
        ),
        (["10.0.0.1", "10.0.0.1"], 1 << 16, []),
        (["10.0.0.1", "10.0.0.1"], 0, []),  # it is not known
    ],
)
def test_the_client_with_the_most_connections_loses_the_quietest_of_them(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str], allowed: int, ended: list[str], *, has_file: bool
) -> None:
    closed: list[connection.Connection] = []
    handlers = []
    for number, address in enumerate(addresses):
        client = connection.Client(
            peername=(address, 1), sockname=("10.0.0.9", 2), state=connection.ConnectionState.OPEN
        )
        watchdog, io = SimpleNamespace(last_activity=number), SimpleNamespace(handler=object(), writer=None)
        handlers.append(
            SimpleNamespace(
                client=client, timeout_watchdog=watchdog, transports={client: io}, close_connection=closed.append
            )
        )
    proxyserver = SimpleNamespace(name="proxyserver", connections={one.client.id: one for one in handlers})
    files, newest = OpenFiles(), handlers[-1].client

    async def connect_again() -> None:
        files.connected(newest, newest)
        files.connected(newest, newest)  # what ends is not closed yet
        assert [one.peername[0] for one in closed] == ended
        await asyncio.sleep(0)
        files.connected(newest, newest)
        assert len(closed) == 2 * len(ended)

    with socket.socket() as own, mitmproxied(Hushlist()):
        ctx.master.addons.add(proxyserver)
        if has_file:  # what comes out of a tunnel has none
            monkeypatch.setattr(open_files, "file_of", lambda *_: own.fileno())
        monkeypatch.setattr(open_files, "most_files", lambda: allowed)
        asyncio.run(connect_again())


@pytest.mark.parametrize(
    ("servers", "allowed", "ended"),
    [
        ([1, 1, 1, 1], 6, []),
        ([1, 1, 1, 1], 5, ["10.0.0.2:2", "10.0.0.2:3"]),
        ([1, 0, 1, 1], 5, []),  # what has ended keeps no file, though mitmproxy waits whether more comes
        ([1, 0, 1, 1], 3, ["10.0.0.2:3"]),
    ],
)
def test_files_of_datagrams_are_counted(
    monkeypatch: pytest.MonkeyPatch, servers: list[int], allowed: int, ended: list[str]
) -> None:
    closed: list[str] = []
    handlers = []
    for number, count in enumerate(servers, 1):
        address = "10.0.0.1" if number == 1 else "10.0.0.2"
        client = connection.Client(
            peername=(address, number), sockname=("10.0.0.9", 53), state=connection.ConnectionState.OPEN
        )
        client.transport_protocol = "udp"
        ends = [client, *(connection.Server(address=None) for _ in range(count))]
        handlers.append(
            SimpleNamespace(
                client=client,
                timeout_watchdog=SimpleNamespace(last_activity=number),
                transports={end: SimpleNamespace(handler=object(), writer=None) for end in ends},
                layer=SimpleNamespace(context=SimpleNamespace()),
            )
        )
    proxyserver = SimpleNamespace(name="proxyserver", connections={one.client.id: one for one in handlers})

    async def connect() -> None:
        OpenFiles().connected(handlers[-1].client, handlers[-1].client)

    with mitmproxied(Hushlist()):
        ctx.master.addons.add(proxyserver)
        monkeypatch.setattr(open_files, "most_files", lambda: allowed)
        monkeypatch.setattr(
            open_files, "end_connection", lambda own: closed.append(f"{own.peername[0]}:{own.peername[1]}")
        )
        asyncio.run(connect())
    assert closed == ended
