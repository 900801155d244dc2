"""A client's port is heard again when a connection of it has ended; an end in a tunnel is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import mitmproxy_rs
import pytest
from mitmproxy import ctx
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.proxy.mode_servers import ProxyConnectionHandler
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.test import taddons

from hushlist.proxy.bounds import bounded_streams
from hushlist.proxy.bounds.bounded_input import bound_input
from hushlist.proxy.bounds.bounded_streams import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    Port,
    TunnelledStream,
    Turn,
    close_ports,
)


class Stream:
    """What mitmproxy_rs makes of a port: datagrams wait until they are read, each by the one who has asked first."""

    def __init__(self, *datagrams: bytes) -> None:
        self._queue = asyncio.Queue[bytes]()
        self.written: list[bytes] = []
        self.is_closed = False
        for datagram in datagrams:
            self.comes(datagram)

    def comes(self, datagram: bytes) -> None:
        self._queue.put_nowait(datagram)

    async def read(self, _: int) -> bytes:
        return await self._queue.get()

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.is_closed = True
        self.comes(b"")

    def get_extra_info(self, name: str, default: object = None) -> object:
        return "udp" if name == "transport_protocol" else default


def served(
    monkeypatch: pytest.MonkeyPatch, stream: Stream, serve: Callable[[Turn], Awaitable[None]]
) -> Awaitable[None]:
    """A port that is served until it is over; mitmproxy itself serves the first connection."""
    mode = ProxyMode.parse("dns")

    async def handle_stream(turn: Turn, writer: Turn) -> None:
        assert turn is writer
        await serve(turn)

    class Servers(list[Any]):
        def __getitem__(self, asked: Any) -> Any:
            assert asked is mode
            return next(iter(self))

    servers = Servers([SimpleNamespace(mode=mode, handle_stream=handle_stream)])
    found = SimpleNamespace(get={"proxyserver": SimpleNamespace(servers=servers)}.get)
    monkeypatch.setattr(ctx, "master", SimpleNamespace(addons=found), raising=False)
    port = Port(stream)

    async def first() -> None:
        turn, bounded_streams._PORTS[port] = Turn(port), None
        await serve(turn)
        await bounded_streams._serve_on(port, turn, mode)

    return first()


@pytest.fixture
def is_of_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turn, "is_of_questions", True)


@pytest.mark.usefixtures("is_of_questions")
def test_each_connection_begins_with_what_comes_next(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        stream = Stream(b"one", b"two", b"three", b"")

        async def serve(turn: Turn) -> None:
            turn.write(b"to " + await turn.read(1))
            turn.close()
            assert turn.is_closing()
            assert await turn.read(1) == b""
            with pytest.raises(OSError, match="closed"):
                turn.write(b"late")

        await served(monkeypatch, stream, serve)
        assert stream.written == [b"to one", b"to two", b"to three"]
        assert stream.is_closed

    asyncio.run(main())


@pytest.mark.usefixtures("is_of_questions")
def test_a_datagram_is_not_lost_to_whoever_was_ended_while_waiting_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        stream, heard = Stream(b"one"), list[bytes]()

        async def serve(turn: Turn) -> None:
            heard.append(await turn.read(1))
            waiting = asyncio.create_task(turn.read(1))
            await asyncio.sleep(0)
            stream.comes(b"two" if len(heard) == 1 else b"")
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

        await served(monkeypatch, stream, serve)
        assert heard == [b"one", b"two"]

    asyncio.run(main())


def test_what_was_refused_is_looked_at_again_after_a_while_that_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_streams, "FIRST_PAUSE", 0.05)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        stream, begun = Stream(b"one"), list[float]()

        async def refuse(turn: Turn) -> None:
            begun.append(loop.time())
            await turn.read(1)

        async def send() -> None:
            while len(begun) < 4:
                stream.comes(b"again")
                await asyncio.sleep(0.005)
            stream.comes(b"")

        await asyncio.gather(served(monkeypatch, stream, refuse), send())
        pauses = [later - earlier for earlier, later in pairwise(begun)]
        for pause, least in zip(pauses, (0.05, 0.1, 0.2), strict=True):
            assert pause >= least * 0.9

    asyncio.run(main())


@pytest.mark.usefixtures("is_of_questions")
def test_silent_ports_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_streams, "MOST_PORTS", 2)

    async def main() -> None:
        async def serve(turn: Turn) -> None:
            await turn.read(1)

        streams, serving = [Stream(b"one") for _ in range(4)], list[asyncio.Future[None]]()
        for stream in streams:
            serving.append(asyncio.ensure_future(served(monkeypatch, stream, serve)))
            for _ in range(9):
                await asyncio.sleep(0)
        assert [stream.is_closed for stream in streams] == [True, True, False, False]
        closing = close_ports()
        assert closing is not None
        await closing
        assert all(stream.is_closed for stream in streams)
        assert close_ports() is None
        await asyncio.gather(*serving)

    asyncio.run(main())


def test_mitmproxy_makes_one_connection_after_another_of_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a server that is mitmproxy's own, and was there before the bounds."""
    heard = list[bytes]()

    async def serve(handler: ProxyConnectionHandler) -> None:
        (io,) = handler.transports.values()
        assert isinstance(io.reader, Turn)
        assert io.reader is io.writer
        heard.append(await io.reader.read(1))
        io.reader.write(heard[-1])

    async def main() -> None:
        server = Proxyserver()
        with taddons.context(server):
            mode = ProxyMode.parse("dns@127.0.0.1:0")
            await server.servers.update([mode])
            bound_input()
            monkeypatch.setattr(ProxyConnectionHandler, "handle_client", serve)
            monkeypatch.setattr(Turn, "is_of_questions", True)
            (udp,) = (one for one in server.servers[mode]._servers if not isinstance(one, asyncio.Server))
            asking = await mitmproxy_rs.udp.open_udp_connection(*udp.getsockname())
            for question in (b"one", b"two", b"three"):
                asking.write(question)
                assert await asking.read(1) == question
            asking.close()
            await server.servers.update([])
            await udp.wait_closed()  # type: ignore[union-attr]

    asyncio.run(main())
    assert heard == [b"one", b"two", b"three"]


@pytest.mark.parametrize("speaks", [True, False])
def test_an_end_waits_until_the_client_has_confirmed_the_connection(
    monkeypatch: pytest.MonkeyPatch, speaks: bool
) -> None:
    clock = [100.0]
    monkeypatch.setattr(bounded_streams, "monotonic", lambda: clock[0])

    async def main() -> None:
        loop, stream = asyncio.get_running_loop(), Stream(b"hello")
        later = list[tuple[float, Callable[..., object], Any]]()
        monkeypatch.setattr(loop, "call_later", lambda *asked: later.append(asked))
        own = TunnelledStream(stream)
        if speaks:
            assert await own.read(9) == b"hello"
        clock[0] += 0.25
        own.close()
        assert own.is_closing()
        with pytest.raises(OSError, match="closed"):
            own.write(b"late")
        assert stream.is_closed is speaks
        if not speaks:
            ((seconds, end, argument),) = later
            assert seconds == 0.75
            end(argument)
            assert stream.is_closed
        old = TunnelledStream(quiet := Stream())
        clock[0] += 1
        old.close()
        assert quiet.is_closed

    asyncio.run(main())


def test_a_pause_grows_while_datagrams_come_and_is_short_again_once_none_has_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, pauses, timeout = [1000.0], list[float](), asyncio.timeout
    monkeypatch.setattr(bounded_streams, "monotonic", lambda: now[0])
    monkeypatch.setattr(asyncio, "timeout", lambda seconds: (pauses.append(seconds), timeout(0))[1])

    async def main() -> None:
        datagrams = asyncio.Queue[bytes]()
        port = Port(SimpleNamespace(read=lambda _: datagrams.get()))  # type: ignore[arg-type]
        for silence in (0.0, 0.0, LONGEST_PAUSE, 0.0):
            now[0] += silence
            await port.pause()
            if silence:
                datagrams.put_nowait(b"one")
                await port.read()
        assert pauses == [FIRST_PAUSE, 2 * FIRST_PAUSE, FIRST_PAUSE]

    asyncio.run(main())
