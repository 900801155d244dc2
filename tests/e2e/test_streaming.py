"""Bodies go on while they arrive."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest

from e2e.origin import LOOPBACK, PATIENCE, Origin
from e2e.proxy import Proxy, mitmdump

Serve = Callable[[socket.socket], None]


class PlainOrigin:
    """An origin that hands each connection to ``serve``. Use as a context manager."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._listener = socket.create_server((LOOPBACK, 0))
        self.http_port = self.https_port = self._listener.getsockname()[1]

    def __enter__(self) -> PlainOrigin:
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._handle, args=(self._listener.accept()[0],), daemon=True).start()

    def _handle(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE)
        with connection, suppress(OSError):
            self._serve(connection)


@contextmanager
def serving(folder: Path, policy: Path, serve: Serve, **options: Any) -> Iterator[Proxy]:
    with (
        PlainOrigin(serve) as origin,
        mitmdump(folder, cast(Origin, origin), policy=policy, options=options) as proxy,
    ):
        yield proxy


def read_head(connection: socket.socket) -> bytes:
    received = b""
    while not received.endswith(b"\r\n\r\n"):
        received += connection.recv(1)
    return received


@pytest.mark.parametrize("kind", ["text/event-stream", "application/x-ndjson", "audio/mpeg", "text/plain"])
def test_an_answer_without_an_end_arrives_as_it_is_sent(tmp_path: Path, policy: Path, kind: str) -> None:
    has_arrived = threading.Semaphore(0)

    def serve(connection: socket.socket) -> None:
        read_head(connection)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head.encode())
        for number in range(5):
            connection.sendall(b"1\r\n%d\r\n" % number)
            assert has_arrived.acquire(timeout=PATIENCE)

    with (
        serving(tmp_path, policy, serve) as proxy,
        proxy.client() as client,
        client.stream("GET", "http://good.test/") as answer,
    ):
        arriving = answer.iter_raw()
        for number in range(5):
            assert next(arriving) == b"%d" % number
            has_arrived.release()
