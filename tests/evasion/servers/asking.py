"""Asks a server for many targets, fast: exactly these octets, over connections that stay open."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

LOOPBACK = "127.0.0.1"
#: seconds without an octet after which a server is taken to give no answer
SILENCE = 3.0

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection:[ \t]*close", re.IGNORECASE)
_KEPT = re.compile(rb"\r\nconnection:[ \t]*keep-alive", re.IGNORECASE)
_READING = re.compile(rb"\r\nx-served-?([a-z-]*):[ \t]*([^\r\n]*)", re.IGNORECASE)
_IN_BODY = b"served:"

#: a target that every server serves, and as what
PLAIN = b"/secret/x"

#: what a server took a target for: the name of the reading -> a path, unescaped as far as the reading does
ServerReading = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs."""

    name: str
    port: int
    #: requests that it may be sent without waiting for an answer
    at_once: int


class _EndedError(Exception):
    """The connection ended before an answer was complete."""


@dataclass(slots=True)
class _Connection:
    socket: socket.socket
    received: bytes = b""

    def more(self) -> None:
        chunk = self.socket.recv(1 << 18)
        if not chunk:
            raise _EndedError
        self.received += chunk

    def taken(self, length: int) -> bytes:
        while len(self.received) < length:
            self.more()
        taken, self.received = self.received[:length], self.received[length:]
        return taken

    def taken_until(self, end: bytes) -> bytes:
        start = 0
        while (place := self.received.find(end, start)) < 0:
            start = max(0, len(self.received) - len(end))
            self.more()
        return self.taken(place + len(end))

    def rest(self) -> bytes:
        with suppress(_EndedError, OSError):
            while True:
                self.more()
        return self.taken(len(self.received))

    def answer(self) -> tuple[ServerReading, bool]:
        """What the next answer tells, and whether it is the connection's last."""
        head = self.taken_until(b"\r\n\r\n")
        status = _STATUS.match(head)
        if status is None:
            raise _EndedError
        if status[1].startswith(b"1"):
            return self.answer()
        is_last = bool(_CLOSE.search(head)) or (head.startswith(b"HTTP/1.0") and not _KEPT.search(head))
        if status[1] in (b"204", b"304"):
            body = b""
        elif _CHUNKED.search(head):
            body = b""
            while size := int(self.taken_until(b"\r\n").split(b";")[0], 16):
                body += self.taken(size + 2)[:-2]
            self.taken_until(b"\r\n")
        elif length := _LENGTH.search(head):
            body = self.taken(int(length[1]))
        else:
            body, is_last = self.rest(), True
        told = {name.decode().lower(): unquote_to_bytes(path) for name, path in _READING.findall(head)}
        if body.startswith(_IN_BODY):
            told["body"] = body[len(_IN_BODY) :]
        return told, is_last


def read_told(raw: socket.socket) -> ServerReading:
    """What one answer tells; nothing where there is none."""
    raw.settimeout(SILENCE)
    with suppress(OSError, _EndedError):
        return _Connection(raw).answer()[0]
    return {}


def is_secret(served: bytes) -> bool:
    return served.startswith(b"/secret/")


def ask_all(server: Server, targets: Sequence[bytes], host: bytes = b"path.test") -> list[ServerReading]:
    """What a server tells of each target; nothing of those that it does not answer."""
    found: list[ServerReading] = []
    at_once = server.at_once
    while len(found) < len(targets):
        before = len(found)
        with suppress(OSError, _EndedError), socket.create_connection((LOOPBACK, server.port), SILENCE) as raw:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _ask_some(_Connection(raw), targets, found, at_once, host)
        if len(found) > before:
            at_once = server.at_once
        elif at_once > 1:
            at_once = 1  # it may be one of the others that it does not like
        else:
            found.append({})
    return found


def _ask_some(
    connection: _Connection, targets: Sequence[bytes], found: list[ServerReading], at_once: int, host: bytes
) -> None:
    """Ask until the connection ends."""
    while len(found) < len(targets):
        some = targets[len(found) : len(found) + at_once]
        connection.socket.sendall(b"".join(b"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (one, host) for one in some))
        for _ in some:
            told, is_last = connection.answer()
            found.append(told)
            if is_last:
                return
