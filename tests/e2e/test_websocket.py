"""A WebSocket is decided about when it is opened."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from e2e.origin import Origin
from e2e.proxy import PATIENCE, Proxy


def echo(proxy: Proxy, url: str, message: str | bytes) -> str | bytes:
    """What comes back over a WebSocket for one message.

    (Not by the library's threaded client: over TLS it now and then reads and writes at once, and hangs.)
    """

    async def send_and_receive() -> str | bytes:
        tls: dict[str, Any] = {"ssl": proxy.tls()} if url.startswith("wss:") else {}
        async with connect(url, proxy=proxy.url, open_timeout=PATIENCE, **tls) as websocket:
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
