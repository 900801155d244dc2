"""What one of several proxies takes from its parent, and asks the others."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from pathlib import Path
from threading import Thread

import pytest
from mitmproxy.proxy.mode_specs import ProxyMode

from hushlist.extensions.workers.shared_ports import SharedPorts
from hushlist.proxy.service import siblings
from hushlist.proxy.service.shared_listening import fault_of_mode
from hushlist.proxy.service.siblings import BEGIN, LONGEST_MESSAGE, SERVES, VARIABLE, SharedServer, Siblings
from unit.rows import each_row

pytestmark = pytest.mark.posix

LOOPBACK = "127.0.0.1"


class Parent:
    """Hands ports to proxies, as ``hushlist proxy`` does."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ports = folder, SharedPorts()
        self.heard: list[list[object]] = []
        #: whether proxies may begin as soon as they could
        self.lets_begin = True
        self._threads: list[Thread] = []
        self._siblings: list[Siblings] = []

    def sibling(self, number: int) -> Siblings:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._threads.append(Thread(target=self._answer, args=(ours,)))
        self._threads[-1].start()
        self._siblings.append(Siblings(theirs, number, self.folder))
        return self._siblings[-1]

    def close(self) -> None:
        for each in self._siblings:
            each.close()
        for thread in self._threads:
            thread.join()
        self.ports.close()

    def _answer(self, channel: socket.socket) -> None:
        with channel, suppress(ConnectionError):  # a proxy may end with something unread
            self._answer_all(channel)

    def _answer_all(self, channel: socket.socket) -> None:
        while said := channel.recv(LONGEST_MESSAGE):
            word, *rest = json.loads(said)
            self.heard.append([word, *rest])
            if word == SERVES and self.lets_begin:
                with suppress(BrokenPipeError):  # it has ended
                    channel.send(BEGIN)
            if word == "listen":
                try:
                    sockets, answer = self.ports.of(*rest), [0, ""]
                except OSError as error:
                    sockets, answer = [], [error.errno, str(error.strerror)]
                socket.send_fds(channel, [json.dumps(answer).encode()], [each.fileno() for each in sockets])


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[Parent]:
    with closing(Parent(tmp_path)) as parent:
        yield parent


@asynccontextmanager
async def serving(of: Siblings, name: bytes, port: int = 0) -> AsyncIterator[tuple[int, SharedServer]]:
    """A server that says its name to each client."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(name)
        writer.close()

    (shared,) = of.bind(LOOPBACK, port)
    shared_port: int = shared.getsockname()[1]
    server = of.serve(shared, serve)
    of.run("")
    try:
        yield shared_port, server
    finally:
        server.close()
        of.close()


async def name_at(port: int) -> bytes:
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()


def test_proxies_share_the_connections_of_a_port(parent: Parent) -> None:
    async def run() -> None:
        async with serving(parent.sibling(1), b"one") as (port, _), serving(parent.sibling(2), b"two") as (same, _):
            assert same == port
            assert {*await asyncio.gather(*(name_at(port) for _ in range(40)))} == {b"one", b"two"}
        assert ["serves", ""] in parent.heard

    asyncio.run(run())


def test_a_proxy_that_is_busy_takes_nothing_that_others_can(parent: Parent) -> None:
    async def run() -> None:
        first = parent.sibling(1)
        async with serving(first, b"busy") as (port, busy), serving(parent.sibling(2), b"free"):
            while not first._may_serve:
                await asyncio.sleep(0.01)
            asyncio.get_running_loop().remove_reader(busy._listener)  # it looks at nothing meanwhile
            assert {*await asyncio.gather(*(name_at(port) for _ in range(20)))} == {b"free"}

    asyncio.run(run())


def test_a_proxy_takes_some_of_the_connections_that_wait_and_leaves_others() -> None:
    async def run(listener: socket.socket) -> int:
        server = SharedServer(listener, lambda _reader, writer: writer.close(), 1)
        server._accept()
        taken = len(server._beginning)
        while server.is_busy:
            await asyncio.sleep(0.01)
        return taken

    with socket.create_server((LOOPBACK, 0)) as listener, ExitStack() as clients:
        for _ in range(20):
            clients.enter_context(socket.create_connection(listener.getsockname()))
        assert [asyncio.run(run(listener)) for _ in range(4)] == [8, 8, 4, 0]


def test_what_comes_while_one_stops_and_the_next_begins_waits_for_that(parent: Parent) -> None:
    async def run() -> None:
        async with serving(parent.sibling(1), b"before") as (port, server):
            server.close()
        asked = [asyncio.create_task(name_at(port)) for _ in range(20)]
        await asyncio.sleep(0.05)
        async with serving(parent.sibling(1), b"after"):
            assert set(await asyncio.gather(*asked)) == {b"after"}

    asyncio.run(run())


def test_a_proxy_that_stops_takes_nothing_of_the_others_any_more(parent: Parent) -> None:
    async def run() -> None:
        async with serving(parent.sibling(1), b"one") as (port, server):
            server.close()
            waiting = asyncio.create_task(name_at(port))
            await asyncio.sleep(0.5)
            assert not waiting.done()
            async with serving(parent.sibling(2), b"two"):
                assert await waiting == b"two"

    asyncio.run(run())


def test_a_proxy_takes_nothing_before_its_parent_says_so(parent: Parent) -> None:
    async def run() -> None:
        parent.lets_begin = False
        async with serving(parent.sibling(1), b"one") as (port, _):
            waiting = [asyncio.create_task(name_at(port)) for _ in range(10)]
            await asyncio.sleep(0.5)
            assert not any(each.done() for each in waiting)
            parent.lets_begin = True
            async with serving(parent.sibling(2), b"two"):
                assert {*await asyncio.gather(*waiting)} == {b"two"}

    asyncio.run(run())


def test_what_was_accepted_when_a_server_is_closed_is_served(parent: Parent) -> None:
    async def run() -> None:
        async with serving(parent.sibling(1), b"one") as (port, server):
            asked = [asyncio.create_task(name_at(port)) for _ in range(20)]
            while not server.is_busy:
                await asyncio.sleep(0)
            server.close()
            assert server.sockets == ()
            async with serving(parent.sibling(1), b"one"):
                assert {*await asyncio.gather(*asked)} == {b"one"}
            assert not server.is_busy

    asyncio.run(run())


def test_a_port_of_another_program_is_refused_although_that_shares_it(parent: Parent) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind((LOOPBACK, 0))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            parent.sibling(1).bind(LOOPBACK, taken.getsockname()[1])


def test_all_addresses_of_the_machine_have_the_same_port(parent: Parent) -> None:
    bound = parent.sibling(1).bind("", 0)
    assert len({shared.getsockname()[1] for shared in bound}) == 1
    assert {shared.family for shared in bound} >= {socket.AF_INET}
    for shared in bound:
        shared.close()


def test_proxies_answer_each_other_but_not_one_that_was_killed(parent: Parent) -> None:
    async def run() -> None:
        one, two = parent.sibling(1), parent.sibling(2)
        two._path = parent.folder / "two.socket"

        async def twice(asked: int) -> bytes:
            return str(2 * asked).encode()

        one.answers["twice"] = two.answers["twice"] = twice
        with socket.socket(socket.AF_UNIX) as killed:
            killed.bind(str(parent.folder / "killed.socket"))
        async with serving(one, b"one"), serving(two, b"two"):
            while not two._path.exists():
                await asyncio.sleep(0.01)
            assert await one.ask("twice", 21) == [b"42"]
            assert await one.ask("unknown") == []
        assert [*parent.folder.iterdir()] == []

    asyncio.run(run())


def test_a_proxy_ends_when_its_parent_is_gone(parent: Parent, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = asyncio.Event()
    monkeypatch.setattr(os, "kill", lambda *_: ended.set())

    async def run() -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one = Siblings(theirs, 1, parent.folder)
        one.run("")
        ours.close()
        await asyncio.wait_for(ended.wait(), 10)
        with pytest.raises(OSError, match=r"gone|[Bb]roken|reset"):
            one.bind(LOOPBACK, 0)
        one.close()

    asyncio.run(run())


def test_a_proxy_is_one_of_several_if_its_parent_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    monkeypatch.setenv(VARIABLE, f"{os.dup(theirs.fileno())} 3 {tmp_path} x")
    siblings.siblings.cache_clear()
    found = siblings.siblings()
    try:
        assert found is not None
        assert (found.number, found.folder) == (3, Path(f"{tmp_path} x"))
        assert VARIABLE not in os.environ
    finally:
        siblings.siblings.cache_clear()
        ours.close()
        theirs.close()
        if found is not None:
            found.close()
    assert siblings.siblings() is None


@each_row("mode", ["regular", "transparent", "socks5", "upstream:http://a.example", "reverse:https://a.example"])
def test_modes_over_tcp_are_shared(mode: str) -> None:
    assert fault_of_mode(ProxyMode.parse(mode)) == ""


@each_row(
    "mode", ["wireguard", "dns", "reverse:dns://192.0.2.1", "reverse:udp://192.0.2.1:53", "reverse:quic://a.example"]
)
def test_no_other_mode_is(mode: str) -> None:
    assert fault_of_mode(ProxyMode.parse(mode)).startswith(f"{mode}: several workers cannot share this mode")
