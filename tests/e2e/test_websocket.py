"""A WebSocket is decided about when it is opened, and again when a schedule begins."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from e2e.origin import Origin
from e2e.proxy import PATIENCE, Proxy
from e2e.test_relayed_connections import DAY, NIGHT, at, policy_of


def echo(proxy: Proxy, url: str, message: str | bytes) -> str | bytes:
    """What comes back over a WebSocket for one message.

    (Not by the library's threaded client: over TLS it now and then reads and writes at once, and hangs.)
    """

    async def send_and_receive() -> str | bytes:
        tls: dict[str, Any] = {"ssl": proxy.tls()} if url.startswith("wss:") else {}
        async with connect(url, proxy=proxy.url, open_timeout=PATIENCE, max_size=None, **tls) as websocket:
            await websocket.send(message)
            return await asyncio.wait_for(websocket.recv(), PATIENCE)

    return asyncio.run(send_and_receive())


@pytest.mark.parametrize("scheme", ["ws", "wss"])
class TestWebSocket:
    @pytest.mark.parametrize("message", ["hello", b"\x00\xff"], ids=["text", "bytes"])
    def test_an_allowed_one_carries_messages(
        self, proxy: Proxy, origin: Origin, scheme: str, message: str | bytes
    ) -> None:
        with origin.watch() as arrived:
            assert echo(proxy, f"{scheme}://path.test/chat", message) == message
        assert [(request.scheme, request.target) for request in arrived.requests] == [(scheme, b"/chat")]

    @pytest.mark.parametrize("address", ["ads.test/", "path.test/secret/chat", "prefix.test/chat?room=1"])
    def test_a_blocked_one_gets_a_plain_403_and_no_connection(
        self, proxy: Proxy, origin: Origin, scheme: str, address: str
    ) -> None:
        with origin.watch() as arrived, pytest.raises(InvalidStatus) as refused:
            echo(proxy, f"{scheme}://{address}", "hello")
        response = refused.value.response
        assert response.status_code == 403
        assert response.headers["Content-Type"].startswith("text/plain")
        assert response.headers["Cache-Control"] == "no-store"
        assert arrived.connections == 0


LONG = 15 << 20


@pytest.mark.parametrize("scheme", ["ws", "wss"])
@pytest.mark.thorough
def test_a_long_message_passes_and_costs_some_times_its_length(start: Callable[..., Proxy], scheme: str) -> None:
    proxy = start()
    assert echo(proxy, f"{scheme}://good.test/", b"a") == b"a"
    before = peak_of(proxy)
    for number in range(6):
        message = bytes([number]) * LONG
        assert echo(proxy, f"{scheme}://good.test/", message) == message
    assert peak_of(proxy) - before < 20 * LONG


def peak_of(proxy: Proxy) -> int:
    """The most memory that the proxy has had so far, in octets."""
    try:
        status = Path(f"/proc/{proxy.process.pid}/status").read_text()
    except OSError:
        pytest.skip("the system does not tell what a process takes")
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) << 10  # type: ignore[index]


def test_short_messages_are_read_as_fast_as_they_are_handled(start: Callable[..., Proxy]) -> None:
    """mitmproxy would keep all that a client sends meanwhile: a gigabyte in three seconds."""
    proxy = start()
    assert echo(proxy, "ws://good.test/", b"a") == b"a"
    before, frames = peak_of(proxy), b"\x82\x81\0\0\0\0a" * 10_000
    head = b"GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    head += b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    with socket.create_connection(("127.0.0.1", proxy.port), PATIENCE) as client:
        client.sendall(head)
        assert client.recv(1 << 12).startswith(b"HTTP/1.1 101 ")
        client.setblocking(False)
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            with suppress(BlockingIOError):
                client.send(frames)
        assert peak_of(proxy) - before < 64 << 20


@pytest.mark.parametrize(("limit", "passes"), [("16m", False), pytest.param("32m", True, marks=pytest.mark.thorough)])
def test_how_long_a_message_may_be_is_an_option(start: Callable[..., Proxy], limit: str, passes: bool) -> None:
    proxy, message = start(options={"hushlist_longest_message": limit}), bytes(20 << 20)
    if passes:
        assert echo(proxy, "ws://good.test/", message) == message
        return
    with pytest.raises(ConnectionClosed) as closed:
        echo(proxy, "ws://good.test/", message)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009


def test_an_open_one_ends_when_a_schedule_begins_and_another_goes_on(
    start: Callable[..., Proxy], tmp_path: Path
) -> None:
    proxy = start(policy=policy_of(tmp_path / "own", decrypt="all"), scripts=["clock.py"])
    at(proxy, DAY)

    async def talk() -> None:
        async with (
            connect("wss://video.test/", proxy=proxy.url, ssl=proxy.tls(), open_timeout=PATIENCE) as blocked,
            connect("ws://good.test/", proxy=proxy.url, open_timeout=PATIENCE) as other,
        ):
            for websocket in (blocked, other):
                await websocket.send("by day")
                assert await websocket.recv() == "by day"
            await asyncio.to_thread(at, proxy, NIGHT)
            with pytest.raises(ConnectionClosed):
                await asyncio.wait_for(blocked.recv(), PATIENCE)
            await other.send("by night")
            assert await asyncio.wait_for(other.recv(), PATIENCE) == "by night"

    asyncio.run(talk())
