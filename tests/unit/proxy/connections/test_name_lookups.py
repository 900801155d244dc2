"""Names that nobody answers for keep nobody waiting but the client that asks for them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from threading import Event

import pytest
from mitmproxy import connection
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from mitmproxy.test import taddons, tflow

from hushlist.proxy.addon import Hushlist
from hushlist.proxy.connections import name_lookups
from hushlist.proxy.connections.name_lookups import MOST_LOOKUPS, MOST_OF_CLIENT, NameLookups


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names that a thread looks up; those that begin with ``slow`` until the test ends."""
    found, is_over = list[str](), Event()

    def look_up(host: str, port: int, *_: int, **__: int) -> list[object]:
        found.append(host)
        if host.startswith("slow"):
            is_over.wait(30)
        if host.startswith("none"):
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [host, port]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield found
    is_over.set()


def client(address: str) -> connection.Client:
    made = tflow.tclient_conn()
    made.peername = (address, 1)
    return made


async def ask(lookups: NameLookups, address: str, name: str) -> list[object]:
    """As a task of mitmproxy that connects to a server for a client."""
    lookups.note(client(address))
    return await asyncio.get_running_loop().getaddrinfo(name, 80, type=socket.SOCK_STREAM)


async def settled(answered: list[str], number: int) -> None:
    """Wait until so many names are looked up, and no more are."""
    while len(answered) < number:
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.05)
    assert len(answered) == number


def test_each_client_has_a_share(answered: list[str]) -> None:
    lookups = NameLookups()

    async def all_of_it() -> None:
        lookups.run()
        greedy = [asyncio.ensure_future(ask(lookups, "10.0.0.1", f"slow{number}")) for number in range(40)]
        await settled(answered, MOST_OF_CLIENT)
        assert await ask(lookups, "10.0.0.2", "quick") == ["quick", 80]
        with pytest.raises(socket.gaierror):
            await ask(lookups, "10.0.0.2", "none")
        for one in greedy:  # as mitmproxy does when the client goes away
            one.cancel()
        await asyncio.gather(*greedy, return_exceptions=True)
        again = asyncio.ensure_future(ask(lookups, "::ffff:10.0.0.1", "slow again"))
        await settled(answered, MOST_OF_CLIENT + 2)  # its threads are still taken
        again.cancel()

    asyncio.run(all_of_it())
    assert MOST_OF_CLIENT * 8 == MOST_LOOKUPS
    lookups.close()


def test_the_addon_looks_names_up_for_the_client_that_asks(
    context: taddons.context, hushlist: Hushlist, answered: list[str]
) -> None:
    async def connect(address: str, name: str) -> list[object]:
        hushlist.server_connect(ServerConnectionHookData(connection.Server(address=(name, 80)), client(address)))
        return await asyncio.get_running_loop().getaddrinfo(name, 80)

    async def all_of_it() -> None:
        hushlist.running()
        greedy = [asyncio.ensure_future(connect("10.0.0.1", f"slow{number}")) for number in range(MOST_OF_CLIENT + 1)]
        await settled(answered, MOST_OF_CLIENT)
        assert await connect("10.0.0.2", "quick") == ["quick", 80]
        for one in greedy:
            one.cancel()
        hushlist.done()

    asyncio.run(all_of_it())


def test_a_turn_is_given_back(answered: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_lookups, "MOST_OF_CLIENT", 1)
    lookups = NameLookups()

    async def all_of_it() -> None:
        lookups.run()
        for name in ("none", "quick", "none"):
            await asyncio.gather(ask(lookups, "10.0.0.1", name), return_exceptions=True)
        assert await ask(lookups, "10.0.0.1", "last") == ["last", 80]
        lookups.close()
        for _ in range(2):
            with pytest.raises(OSError, match="no name can be looked up"):
                await lookups.look_up("quick", 80)
        assert await ask(lookups, "10.0.0.1", "quick") == ["quick", 80]  # by the event loop itself

    asyncio.run(all_of_it())
    assert answered == ["none", "quick", "none", "last", "quick"]
