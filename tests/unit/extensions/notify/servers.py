"""Servers of one connection for the tests: HTTP, and SMTP with or without TLS."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

LOOPBACK, PATIENCE = "127.0.0.1", 60


@contextmanager
def listening(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port at which the first client is talked to, by a thread that has ended when the block has."""
    from threading import Thread

    with socket.create_server((LOOPBACK, 0)) as server:
        server.settimeout(PATIENCE)

        def serve() -> None:
            with suppress(OSError):  # the client may go at any time
                connection, _ = server.accept()
                connection.settimeout(PATIENCE)
                with connection:
                    talk(connection)

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(PATIENCE)


class HttpServer:
    """Hears one request, and gives one answer."""

    def __init__(
        self,
        answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._answer, self._context = answer, context
        self.head, self.body = b"", b""

    def __call__(self, connection: socket.socket) -> None:
        if self._context is not None:
            connection = self._context.wrap_socket(connection, server_side=True)
        with connection, connection.makefile("rb") as lines:
            while not self.head.endswith(b"\r\n\r\n"):
                self.head += lines.readline()
            length = self.head.lower().partition(b"content-length: ")[2].split()[0]
            self.body = lines.read(int(length))
            connection.sendall(self._answer)


class SmtpServer:
    """Takes one mail; with a context, by TLS from the first octet or after STARTTLS."""

    def __init__(
        self, context: ssl.SSLContext | None = None, *, is_wrapped: bool = False, refuses: bytes = b""
    ) -> None:
        self._context, self._is_wrapped, self._refuses = context, is_wrapped, refuses
        #: the commands, each with a mark that says whether it came by TLS
        self.commands: list[tuple[bool, bytes]] = []
        self.mail = b""

    def __call__(self, connection: socket.socket) -> None:
        if self._is_wrapped:
            connection = self._wrap(connection)
        connection.sendall(b"220 ready\r\n")
        self._talk(connection, is_secret=self._is_wrapped)

    def _talk(self, connection: socket.socket, *, is_secret: bool) -> None:
        with connection, connection.makefile("rb") as lines:
            while line := lines.readline():
                self.commands.append((is_secret, line.strip()))
                verb = line.split()[0].upper()
                if self._refuses and line.upper().startswith(self._refuses):
                    connection.sendall(b"535 secret words of the server\r\n")
                elif verb == b"EHLO":
                    starttls = b"250-STARTTLS\r\n" if self._context and not is_secret else b""
                    connection.sendall(b"250-hello\r\n" + starttls + b"250 AUTH PLAIN\r\n")
                elif verb == b"STARTTLS":
                    connection.sendall(b"220 go on\r\n")
                    self._talk(self._wrap(connection), is_secret=True)
                    return
                elif verb == b"AUTH":
                    connection.sendall(b"235 welcome\r\n")
                elif verb == b"DATA":
                    connection.sendall(b"354 go on\r\n")
                    self._read_mail(lines)
                    connection.sendall(b"250 taken\r\n")
                else:
                    connection.sendall(b"221 bye\r\n" if verb == b"QUIT" else b"250 good\r\n")

    def _wrap(self, connection: socket.socket) -> ssl.SSLSocket:
        assert self._context is not None
        return self._context.wrap_socket(connection, server_side=True)

    def _read_mail(self, lines: BinaryIO) -> None:
        while (line := lines.readline()) not in (b".\r\n", b""):
            self.mail += line
