"""A client that looks up many names, a few at a time, and says which questions nobody has answered."""

from __future__ import annotations

import itertools
import selectors
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from e2e.proxy import Log
from e2e.resolver import AAAA, A, query, read_reply

#: of look-ups that are on their way at once
AT_ONCE = 50


@dataclass
class LookUp:
    """A name that is asked for by A and AAAA at once, from one port."""

    connection: socket.socket
    #: the numbers of the questions that have no answer yet
    missing: set[int]
    latest: float


class Client:
    """Looks up names at one server; a port may be used again and again, each time by another socket."""

    def __init__(self, server: str, port: int = 53, patience: float = 5) -> None:
        self._server, self._port, self._patience = server, port, patience
        self._numbers = itertools.cycle(range(1, 1 << 16))

    def lost(self, ports: Iterable[int]) -> int:
        """How many questions from these ports nobody has answered; the system chooses a port where 0 is given."""
        coming: Iterator[int] = iter(ports)
        lost, is_over = 0, False
        with selectors.DefaultSelector() as selector:
            while not is_over or selector.get_map():
                while not is_over and len(selector.get_map()) < AT_ONCE:
                    port = next(coming, None)
                    if port is None:
                        is_over = True
                    else:
                        look_up = self._begin(port)
                        selector.register(look_up.connection, selectors.EVENT_READ, look_up)
                for key, _ in selector.select(0.1):
                    key.data.missing.discard(read_reply(key.data.connection.recv(65535)).number)
                now = time.monotonic()
                for key in list(selector.get_map().values()):
                    if not key.data.missing or key.data.latest < now:
                        lost += len(key.data.missing)
                        selector.unregister(key.fileobj)
                        key.data.connection.close()
        return lost

    def _begin(self, port: int) -> LookUp:
        connection = socket.socket(socket.AF_INET6 if ":" in self._server else socket.AF_INET, socket.SOCK_DGRAM)
        connection.bind(("", port))
        connection.connect((self._server, self._port))
        look_up = LookUp(connection, set(), time.monotonic() + self._patience)
        for kind in (A, AAAA):
            number = next(self._numbers)
            look_up.missing.add(number)
            connection.send(query((b"n%d.test" % number, kind), number=number))
        return look_up


def lost_when_ports_are_used_again(client: Client, log: Log, ports: Sequence[int]) -> int:
    """How many questions are lost when a client asks from its ports, and again when nothing is open for any of them."""
    before = len(log)
    lost = client.lost(ports)
    for port in ports:
        log.wait_for(rf":{port}\] client disconnect", before)
    return lost + client.lost(ports) + client.lost([0] * len(ports))
