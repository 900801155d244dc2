"""An origin on loopback of which a test says itself what it does with a connection."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Self

from e2e.origin import LOOPBACK, PATIENCE, write_certificate

Serve = Callable[[socket.socket], object]


class PlainOrigin:
    """Hands each connection to ``serve``, in a thread of its own.

    With a ``folder`` for a certificate, or the settings of ``tls``, ``https_port`` is another port, where it is handed
    on decrypted, and where ``protocols`` are offered. Use as a context manager.
    """

    def __init__(
        self,
        serve: Serve,
        folder: Path | None = None,
        protocols: Sequence[str] = (),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._serve, self._tls = serve, tls
        #: how many were ever made
        self.connections = 0
        self._listeners = [socket.create_server((LOOPBACK, 0), backlog=128)]
        if folder is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(*write_certificate(folder))
            self._tls.set_alpn_protocols(list(protocols))
        if self._tls is not None:
            self._listeners.append(socket.create_server((LOOPBACK, 0), backlog=128))
        self.http_port: int = self._listeners[0].getsockname()[1]
        self.https_port: int = self._listeners[-1].getsockname()[1]

    def __enter__(self) -> Self:
        for number, listener in enumerate(self._listeners):
            threading.Thread(target=self._listen, args=(listener, self._tls if number else None), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for listener in self._listeners:
            listener.close()

    def _listen(self, listener: socket.socket, tls: ssl.SSLContext | None) -> None:
        with suppress(OSError):
            while True:
                connection = listener.accept()[0]
                self.connections += 1
                threading.Thread(target=self._handle, args=(connection, tls), daemon=True).start()

    def _handle(self, connection: socket.socket, tls: ssl.SSLContext | None) -> None:
        connection.settimeout(PATIENCE)
        with connection, suppress(OSError):
            if tls is None:
                self._serve(connection)
            else:
                with tls.wrap_socket(connection, server_side=True) as encrypted:
                    self._serve(encrypted)


class PlainHandler(BaseHTTPRequestHandler):
    """Reads requests of HTTP/1.1 from a connection; ``origin`` is whose connection it is."""

    protocol_version = "HTTP/1.1"

    def __init__(self, connection: socket.socket, origin: Any) -> None:
        self.origin = origin
        super().__init__(connection, connection.getpeername(), origin)

    def log_message(self, *_: object) -> None:
        """Print nothing."""
