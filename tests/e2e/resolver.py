"""A real DNS server on loopback with a log of all that it is asked, and a client for another."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from e2e.origin import LOOPBACK, free_ports
from e2e.proxy import PATIENCE

A, NS, CNAME, SOA, PTR, MX, TXT, AAAA, SVCB, HTTPS, ANY = 1, 2, 5, 6, 12, 15, 16, 28, 64, 65, 255
_HEADER = struct.Struct("!HHHHHH")
_RECORD = struct.Struct("!HHIH")


def pack_name(name: bytes) -> bytes:
    """A name on the wire; a dot that is part of a label is written as \\xff."""
    labels = [label.replace(b"\xff", b".") for label in name.split(b".") if label]
    return b"".join(bytes((len(label),)) + label for label in labels) + b"\0"


def read_name(message: bytes, at: int) -> tuple[bytes, int]:
    """A name, compressed or not, and where it ends."""
    labels, end = [], 0
    while length := message[at]:
        if length >= 0xC0:
            end, at = end or at + 2, int.from_bytes(message[at : at + 2]) & 0x3FFF
            continue
        labels.append(message[at + 1 : at + 1 + length])
        at += 1 + length
    return b".".join(labels), end or at + 1


def query(
    *questions: tuple[bytes, int], number: int = 7, flags: int = 0x0100, class_: int = 1, additional: bytes = b""
) -> bytes:
    """A message that asks."""
    body = b"".join(pack_name(name) + struct.pack("!HH", kind, class_) for name, kind in questions)
    return _HEADER.pack(number, flags, len(questions), 0, 0, 1 if additional else 0) + body + additional


@dataclass
class Reply:
    """An answer, as a client reads it."""

    number: int
    flags: int
    questions: list[tuple[bytes, int]] = field(default_factory=list)
    #: name, type, TTL, data
    answers: list[tuple[bytes, int, int, bytes]] = field(default_factory=list)

    @property
    def code(self) -> int:
        return self.flags & 0xF


def read_reply(message: bytes) -> Reply:
    number, flags, questions, answers, *_ = _HEADER.unpack_from(message)
    reply, at = Reply(number, flags), _HEADER.size
    for _ in range(questions):
        name, at = read_name(message, at)
        reply.questions.append((name, int.from_bytes(message[at : at + 2])))
        at += 4
    for _ in range(answers):
        name, at = read_name(message, at)
        kind, _, ttl, length = _RECORD.unpack_from(message, at)
        at += _RECORD.size + length
        reply.answers.append((name, kind, ttl, message[at - length : at]))
    return reply


def ask_udp(port: int, message: bytes, server: str = LOOPBACK) -> Reply:
    """What a server answers; the test's own port is another each time."""
    with socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM) as connection:
        connection.settimeout(PATIENCE)
        connection.connect((server, port))
        connection.send(message)
        return read_reply(connection.recv(65535))


def ask_tcp(port: int, *messages: bytes, server: str = LOOPBACK) -> list[Reply]:
    """What a server answers to messages over one connection, each after the answer to the one before it."""
    replies = []
    with socket.create_connection((server, port), PATIENCE) as connection, connection.makefile("rb") as stream:
        for message in messages:
            connection.sendall(len(message).to_bytes(2) + message)
            replies.append(read_reply(stream.read(int.from_bytes(stream.read(2)))))
    return replies


class Resolver:
    """Answers what ``records`` has, and every other name with an address; use as a context manager.

    It listens at ``address``, by default on a free port.
    """

    def __init__(self, address: str = LOOPBACK, port: int = 0) -> None:
        #: name, type -> types and data, each of the name that was asked for
        self.records: dict[tuple[bytes, int], Sequence[tuple[int, bytes]]] = {}
        #: those that a name has from its second answer on; and seconds for which those of a name hold, if not 300
        self.changes: dict[tuple[bytes, int], Sequence[tuple[int, bytes]]] = {}
        self.lives: dict[bytes, int] = {}
        #: names whose answers by UDP come after so many seconds; infinite: never
        self.delays: dict[bytes, float] = {}
        #: all that was asked for, in order
        self.questions: list[tuple[bytes, int]] = []
        (self.port,) = (port,) if port else free_ports(1)
        self._tcp = socket.create_server((address, self.port))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind((address, self.port))

    def __enter__(self) -> Resolver:
        for serve in (self._serve_udp, self._serve_tcp):
            threading.Thread(target=serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for listening in (self._udp, self._tcp):
            listening.close()

    def _serve_udp(self) -> None:
        try:
            while True:
                message, peer = self._udp.recvfrom(65535)
                if len(message) < _HEADER.size:
                    continue  # no question: anybody may send to a port, or the socket has just been closed
                answer = self._answer(message)
                delay = self.delays.get(self.questions[-1][0], 0.0) if self.delays else 0.0
                if delay == 0:
                    self._udp.sendto(answer, peer)
                elif delay != inf:
                    threading.Timer(delay, self._udp.sendto, (answer, peer)).start()
        except OSError:
            return  # it is closed

    def _serve_tcp(self) -> None:
        try:
            while True:
                connection, _ = self._tcp.accept()
                threading.Thread(target=self._serve_connection, args=(connection,), daemon=True).start()
        except OSError:
            return

    def _serve_connection(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while length := stream.read(2):
                answer = self._answer(stream.read(int.from_bytes(length)))
                connection.sendall(len(answer).to_bytes(2) + answer)

    def _answer(self, message: bytes) -> bytes:
        number, _, questions, *_ = _HEADER.unpack_from(message)
        at, entries = _HEADER.size, []
        for _ in range(questions):
            name, at = read_name(message, at)
            entries.append((name, int.from_bytes(message[at : at + 2])))
            at += 4
        self.questions += entries
        records = self._records(*entries[0]) if entries else []
        head = _HEADER.pack(number, 0x81A0, questions, len(records), 0, 0)
        life = self.lives.get(entries[0][0], 300) if entries else 0
        body = b"".join(b"\xc0\x0c" + _RECORD.pack(kind, 1, life, len(data)) + data for kind, data in records)
        return head + message[_HEADER.size : at] + body

    def _records(self, name: bytes, kind: int) -> Sequence[tuple[int, bytes]]:
        default = {A: [(A, bytes((198, 51, 100, 7)))], AAAA: [(AAAA, bytes.fromhex("20010db8") + bytes(12))]}
        records = self.records.get((name, kind), default.get(kind, [(kind, b"\x03abc")] if kind == TXT else []))
        if (name, kind) in self.changes:
            self.records[name, kind] = self.changes.pop((name, kind))
        return records
