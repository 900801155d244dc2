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
from unit.mitmproxied import mitmproxied


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
        (["10.0.0.1", "10.0.0.1"], -1, []),  # no limit
    ],
)
def test_the_client_with_the_most_connections_loses_the_quietest_of_them(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str], allowed: int, ended: list[str]
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
        monkeypatch.setattr(open_files, "file_of", lambda *_: own.fileno())
        monkeypatch.setattr(open_files, "most_files", lambda: allowed)
        asyncio.run(connect_again())
