"""One of several proxies that ``hushlist proxy`` has started to serve the same ports: its sockets, and what the others
say.

The program that starts the proxies, their parent, binds the ports: a socket for each proxy, among which the kernel
shares connections. A proxy takes its socket from the parent, and gives it up when it stops; the parent keeps it, with
the connections that wait there. So a proxy that is started in the place of another goes on where that stops, and
nothing is lost. It takes nothing before the parent knows that it can decide. Each has the sockets of the others, too,
and takes what waits there because its proxy has died or stands still.

What the proxies ask each other goes by sockets in a folder that is theirs alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from hushlist.core.errors import logger_of

logger = logger_of(__name__)

#: by which the parent tells a proxy what it is: a descriptor that leads to the parent, its number, and the folder
VARIABLE = "HUSHLIST_WORKER"
#: octets of a message from or to the parent, and descriptors that come with it
LONGEST_MESSAGE, MOST_SOCKETS = 1 << 12, 250
#: what a proxy tells the parent when it could serve, with why it is not ready if so; and that it may begin
SERVES, BEGIN = "serves", b"begin"
#: seconds that a proxy waits for the parent, and for another proxy
_PATIENCE, _ANSWER = 10.0, 1.0
#: seconds between two looks for connections that nobody takes, and how many are taken from a socket at each
_HELP, _MOST = 0.2, 16
#: octets of a question and an answer
_LONGEST_QUESTION, _LONGEST_ANSWER = 1 << 12, 1 << 25

#: what serves a connection
_Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
#: what a proxy says when another one asks
Answer = Callable[[Any], bytes]


class SharedPort(NamedTuple):
    """An address and port that all serve, each by a socket."""

    ours: socket.socket
    others: list[socket.socket]


class _Served(NamedTuple):
    """A port, what serves its connections, and by what."""

    port: SharedPort
    serve: _Serve
    server: asyncio.Server
    limit: int

    def close(self) -> None:
        """Let go of the sockets of the others; the server closes its own."""
        for listener in self.port.others:
            listener.close()


class Siblings:
    """The proxies of one parent, as one of them sees them."""

    def __init__(self, parent: socket.socket, number: int, folder: Path) -> None:
        parent.settimeout(_PATIENCE)
        self._parent, self.number, self.folder = parent, number, folder
        self._path = folder / f"{os.getpid()}.socket"
        self._served: list[_Served] = []
        self._may_serve = False
        #: the ports that all of them serve
        self.ports: set[int] = set()
        #: what the others can ask, by name
        self.answers: dict[str, Answer] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def run(self, unready: str) -> None:
        """Tell the parent that this one could serve, and why it is not ready if so; called in the event loop."""
        loop = asyncio.get_running_loop()
        self._parent.send(json.dumps([SERVES, unready]).encode())
        loop.add_reader(self._parent, self._look_at_parent)
        self._tasks = [
            loop.create_task(own(), name=f"hushlist: {own.__name__}") for own in (self._help, self._be_asked)
        ]

    def close(self) -> None:
        for task in self._tasks:
            task.get_loop().remove_reader(self._parent)
            task.cancel()
        for served in self._served:
            served.close()
        self._served.clear()
        self._parent.close()
        with suppress(OSError):
            self._path.unlink()

    def _look_at_parent(self) -> None:
        """Begin to serve when the parent says so; end, as by SIGTERM, when it is gone."""
        if self._parent.recv(LONGEST_MESSAGE):
            self._may_serve = True
            loop = asyncio.get_running_loop()
            self._tasks += [
                loop.create_task(served.server.start_serving()) for served in self._served if served.server.sockets
            ]
            return
        asyncio.get_running_loop().remove_reader(self._parent)
        logger.warning("hushlist: the program that started this proxy is gone: it ends")
        os.kill(os.getpid(), signal.SIGTERM)

    # -- ports -------------------------------------------------------------------------------------------------------

    def bind(self, host: str, port: int) -> list[SharedPort]:
        """From the parent, the sockets of a host and port, for each of its addresses.

        Raises:
            OSError: it cannot be bound, or the parent is gone.
        """
        self._parent.send(json.dumps(["listen", host, port]).encode())
        said, descriptors, _, _ = socket.recv_fds(self._parent, LONGEST_MESSAGE, MOST_SOCKETS)
        number, fault = json.loads(said) if said else (0, "the program that started this proxy is gone")
        if fault:
            raise OSError(number, fault)
        found, bound = [socket.socket(fileno=descriptor) for descriptor in descriptors], []
        for place in range(0, len(found), number):
            others = found[place : place + number]
            bound.append(SharedPort(others.pop(self.number - 1), others))
            self.ports.add(bound[-1].ours.getsockname()[1])
        return bound

    async def serve(self, port: SharedPort, serve: _Serve, limit: int = 1 << 16) -> asyncio.Server:
        """Serve a port, from when the parent says so until the server is closed."""
        server = await asyncio.start_server(serve, sock=port.ours, limit=limit, start_serving=self._may_serve)
        self._served.append(_Served(port, serve, server, limit))
        return server

    async def _help(self) -> None:
        """Take connections that wait at the sockets of others: a proxy takes its own at once."""
        while True:
            await asyncio.sleep(_HELP)
            for served in list(self._served) if self._may_serve else ():
                if not served.server.sockets:  # it is closed
                    self._served.remove(served)
                    served.close()
                    continue
                for listener in served.port.others:
                    await self._take(listener, served)

    async def _take(self, listener: socket.socket, served: _Served) -> None:
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        for _ in range(_MOST):
            try:
                connection, _ = listener.accept()
            except OSError:  # nothing waits there
                return
            connection.setblocking(False)
            protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader(served.limit), served.serve)
            with suppress(OSError):  # the client is gone
                await loop.connect_accepted_socket(partial(_same, protocol), connection)

    # -- questions ---------------------------------------------------------------------------------------------------

    async def ask(self, name: str, question: object = None) -> list[bytes]:
        """What the other proxies that can be asked say."""
        try:
            others = [path for path in self.folder.glob("*.socket") if path != self._path]
        except OSError:
            return []
        asked = json.dumps([name, question]).encode() + b"\n"
        answers = await asyncio.gather(*(self._ask(path, asked) for path in others))
        return [answer for answer in answers if answer]

    @staticmethod
    async def _ask(path: Path, asked: bytes) -> bytes:
        """What one says; nothing if it has ended, or does not answer in time."""
        try:
            async with asyncio.timeout(_ANSWER):
                reader, writer = await asyncio.open_unix_connection(path)
                try:
                    writer.write(asked)
                    answer = await reader.read(_LONGEST_ANSWER)
                    while answer and (more := await reader.read(_LONGEST_ANSWER)):
                        answer += more
                finally:
                    writer.close()
        except ConnectionRefusedError:  # it was killed
            path.unlink(missing_ok=True)
        except OSError:
            pass
        else:
            return answer
        return b""

    async def _be_asked(self) -> None:
        server = await asyncio.start_unix_server(self._answer, self._path, limit=_LONGEST_QUESTION)
        async with server:
            await server.serve_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_ANSWER):
                name, question = json.loads(await reader.readline())
                writer.write(self.answers[name](question))
                await writer.drain()
        except Exception as error:  # the one that asks does without it
            logger.warning("hushlist: another worker's question is not answered: %r", error)
        finally:
            writer.close()


@cache
def siblings() -> Siblings | None:
    """The proxies that the parent has started with this process; ``None`` for a proxy that was started alone."""
    told = os.environ.pop(VARIABLE, "")  # nothing that this process starts is one of them
    if not told:
        return None
    descriptor, number, folder = told.split(" ", 2)
    os.set_inheritable(int(descriptor), False)
    return Siblings(socket.socket(fileno=int(descriptor)), int(number), Path(folder))


def _same(protocol: asyncio.StreamReaderProtocol) -> asyncio.StreamReaderProtocol:
    return protocol
