"""One of several proxies that ``hushlist proxy`` has started to serve the same ports: its sockets, and what the others
say.

The program that starts the proxies, their parent, binds the ports. All proxies take connections from the same sockets,
a few in each turn of their event loops: who has nothing to do is the first, and what nobody has taken waits for no
proxy that is busy, stands still or has died. What one has taken waits for it.
(By SO_REUSEPORT, each would have a socket, and the kernel would give each a share, whatever it does.) A proxy gives the
sockets up when it stops; the parent keeps them, with the connections that wait there. So a proxy that is started in the
place of another goes on where that stops, and nothing is lost. It takes nothing before the parent knows that it can
decide.

What the proxies ask each other goes by sockets in a folder that is theirs alone.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from hushlist.core.errors import logger_of
from hushlist.proxy.local_sockets import Serve, open_local, receive_sockets, serve_local

logger = logger_of(__name__)

#: by which the parent tells a proxy what it is: a descriptor that leads to the parent, its number, and the folder
VARIABLE = "HUSHLIST_WORKER"
#: octets of a message from or to the parent, and descriptors that come with it
LONGEST_MESSAGE, MOST_SOCKETS = 1 << 12, 250
#: what a proxy tells the parent when it could serve, with why it is not ready if so; and that it may begin
SERVES, BEGIN = "serves", b"begin"
#: seconds that a proxy waits for the parent, and for another proxy
_PATIENCE, _ANSWER = 10.0, 1.0
#: connections that a proxy takes in a turn, at most: one by one, each takes a seventh more of the processor
_MOST_TAKEN = 8
#: why a connection that waits cannot be taken: it waits on, so many seconds
_EXHAUSTED, _REST = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM), 1.0
#: octets of a question and an answer
_LONGEST_QUESTION, _LONGEST_ANSWER = 1 << 12, 1 << 25

#: what a proxy says when another one asks
Answer = Callable[[Any], Awaitable[bytes]]


class SharedServer:
    """Serves a port that all serve, as ``asyncio.Server`` does; what it has accepted is not lost when it is closed."""

    def __init__(self, listener: socket.socket, serve: Serve, limit: int) -> None:
        self._listener, self._serve, self._limit = listener, serve, limit
        #: connections of which the server is not told yet
        self._beginning: set[asyncio.Task[None]] = set()
        self._is_closed = False
        listener.setblocking(False)

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        return () if self._is_closed else (self._listener,)

    @property
    def is_busy(self) -> bool:
        """Whether something was accepted that nobody serves yet."""
        return bool(self._beginning)

    def begin(self) -> None:
        if not self._is_closed:
            asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Accept nothing more; the parent keeps what waits."""
        if not self._is_closed:
            self._is_closed = True
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(_MOST_TAKEN):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:  # no more, or another one was quicker
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    loop.remove_reader(self._listener)
                    loop.call_later(_REST, self.begin)
                return
            task = loop.create_task(self._take(connection))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)

    async def _take(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader(self._limit), self._serve)
        with suppress(OSError):  # the client is gone
            await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, connection)
            await asyncio.sleep(0)  # until it is served


class Siblings:
    """The proxies of one parent, as one of them sees them."""

    def __init__(self, parent: socket.socket, number: int, folder: Path) -> None:
        parent.settimeout(_PATIENCE)
        self._parent, self.number, self.folder = parent, number, folder
        self._path = folder / f"{os.getpid()}.socket"
        #: each server, and whether it serves to the end
        self._servers: dict[SharedServer, bool] = {}
        self._may_serve = False
        #: the ports that all of them serve
        self.ports: set[int] = set()
        #: what the others can ask, by name
        self.answers: dict[str, Answer] = {}
        self._answering: asyncio.Task[None] | None = None

    def run(self, unready: str) -> None:
        """Tell the parent that this one could serve, and why it is not ready if so; called in the event loop."""
        loop = asyncio.get_running_loop()
        self._parent.send(json.dumps([SERVES, unready]).encode())
        loop.add_reader(self._parent, self._look_at_parent)
        self._answering = loop.create_task(self._be_asked(), name="hushlist: answer other workers")

    def close(self) -> None:
        if self._answering is not None:
            self._answering.get_loop().remove_reader(self._parent)
            self._answering.cancel()
        for server in self._servers:
            server.close()
        self._parent.close()
        with suppress(OSError):
            self._path.unlink()

    def _look_at_parent(self) -> None:
        """Begin to serve when the parent says so; end, as by SIGTERM, when it is gone."""
        if self._parent.recv(LONGEST_MESSAGE):
            self._may_serve = True
            for server in self._servers:
                server.begin()
            return
        asyncio.get_running_loop().remove_reader(self._parent)
        logger.warning("hushlist: the program that started this proxy is gone: it ends")
        os.kill(os.getpid(), signal.SIGTERM)

    # -- ports -------------------------------------------------------------------------------------------------------

    def bind(self, host: str, port: int) -> list[socket.socket]:
        """From the parent, the socket of each address of a host and port.

        Raises:
            OSError: it cannot be bound, or the parent is gone.
        """
        self._parent.send(json.dumps(["listen", host, port]).encode())
        said, sockets = receive_sockets(self._parent, LONGEST_MESSAGE, MOST_SOCKETS)
        number, fault = json.loads(said) if said else (0, "the program that started this proxy is gone")
        if fault:
            raise OSError(number, fault)
        self.ports |= {listener.getsockname()[1] for listener in sockets}
        return sockets

    def serve(
        self, port: socket.socket, serve: Serve, limit: int = 1 << 16, *, to_the_end: bool = False
    ) -> SharedServer:
        """Serve a port, from when the parent says so until the server is closed, or ``stop`` unless ``to_the_end``."""
        server = SharedServer(port, serve, limit)
        self._servers[server] = to_the_end
        if self._may_serve:
            server.begin()
        return server

    def stop(self) -> None:
        """Accept nothing more at ports that are not served to the end."""
        for server in [server for server, to_the_end in self._servers.items() if not to_the_end]:
            server.close()

    @property
    def is_busy(self) -> bool:
        """Whether something was accepted that nobody serves yet."""
        return any(server.is_busy for server in self._servers)

    # -- questions ---------------------------------------------------------------------------------------------------

    async def ask(self, name: str, question: object = None) -> list[bytes]:
        """What the other proxies that can be asked say."""
        try:
            others = [path for path in self.folder.glob("*.socket") if path != self._path]
        except OSError:
            return []
        line = json.dumps([name, question]).encode() + b"\n"
        answers = await asyncio.gather(*(self._ask(path, line) for path in others))
        return [answer for answer in answers if answer]

    @staticmethod
    async def _ask(path: Path, line: bytes) -> bytes:
        """What one says; nothing if it has ended, or does not answer in time."""
        try:
            async with asyncio.timeout(_ANSWER):
                reader, writer = await open_local(path)
                try:
                    writer.write(line)
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
        server = await serve_local(self._answer, self._path, _LONGEST_QUESTION)
        async with server:
            await server.serve_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_ANSWER):
                name, question = json.loads(await reader.readline())
                writer.write(await self.answers[name](question))
                await writer.drain()
        except Exception as error:  # the one that asks does without it
            logger.warning("hushlist: another worker's question is not answered: %r", error)
        finally:
            writer.close()


@cache
def siblings() -> Siblings | None:
    """The proxies that the parent has started with this process; ``None`` for a proxy that was started alone."""
    value = os.environ.pop(VARIABLE, "")  # nothing that this process starts is one of them
    if not value:
        return None
    descriptor, number, folder = value.split(" ", 2)
    os.set_inheritable(int(descriptor), False)
    return Siblings(socket.socket(fileno=int(descriptor)), int(number), Path(folder))
