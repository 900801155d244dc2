"""Starts the workers, keeps them running, restarts them one by one, and ends them.

A worker is a mitmdump of its own. The first one starts alone: it makes the certificate authority where there is none,
and has the policy compiled; if it does not come to serve, nothing is started. A worker that ends unasked is started
again, at once the first time, and after longer and longer pauses if that goes on; the others serve on meanwhile. In the
place of a worker that serves stands a new one only when that serves and is ready.

What a worker and this program say to each other: ``proxy/service/siblings.py``.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic

from hushlist.core.system.package_code import PACKAGE, path_to_package
from hushlist.extensions.workers.shared_ports import SharedPorts
from hushlist.proxy.service.siblings import BEGIN, LONGEST_MESSAGE, SERVES, VARIABLE

assert sys.platform == "linux", "several workers need Linux"

#: what a worker loads
SCRIPT = PACKAGE / "proxy" / "script.py"
#: runs mitmdump; mitmproxy 12 listens before it loads scripts, and by then has to listen by the sockets of the parent.
#: Complaints name the command that people typed.
_MITMDUMP = """
import sys
from mitmproxy.tools.main import mitmdump
from hushlist.proxy.bounds.bounded_input import bound_input
sys.argv[0] = "hushlist proxy"
bound_input()
mitmdump()
"""
#: seconds that a worker has to end after a signal: a mitmdump takes ten for what is open
GRACE = 15.0
#: seconds that a worker has to come to serve: a large policy is compiled in that time
START = 600.0
#: seconds before a worker that ended unasked is started again: at first, and at most; it begins again after a minute
_PAUSE, _LONGEST_PAUSE, _STEADY = 0.5, 30.0, 60.0


class Worker:
    """A mitmdump, and what it has said."""

    def __init__(self, number: int, process: asyncio.subprocess.Process, channel: socket.socket) -> None:
        self.number, self.process, self.channel = number, process, channel
        #: why it is not ready; set when it serves, or has ended
        self.answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self.ended = asyncio.ensure_future(process.wait())
        self.ended.add_done_callback(lambda _: self.tell(None))

    def tell(self, unready: str | None) -> None:
        if not self.answer.done():
            self.answer.set_result(unready)

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    async def end(self, *signals: int) -> None:
        """Have it end, and by force if it does not listen."""
        for number in signals:
            self.signal(number)
        await asyncio.wait([self.ended], timeout=GRACE)
        self.signal(signal.SIGKILL)
        await self.ended

    def how(self) -> str:
        """How it ended, for people."""
        code = self.process.returncode or 0
        return f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"


class Supervisor:
    """The parent of the workers. Only its event loop uses it."""

    def __init__(self, number: int, arguments: Sequence[str], folder: Path, say: Callable[[str], object]) -> None:
        """``arguments`` are mitmdump's; ``folder`` is the workers' alone; ``say`` tells people."""
        self._say = say
        self._numbers, self._arguments, self._folder = range(1, number + 1), arguments, folder
        self._ports = SharedPorts()
        #: the worker of each number that serves
        self._serving: dict[int, Worker] = {}
        self._all: set[Worker] = set()
        self._is_ending = asyncio.Event()
        self._wants_restart = asyncio.Event()
        self._has_terminal = _has_terminal()

    async def run(self) -> bool:
        """Serve until a signal ends it; whether it came to that."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end, number)
        loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        try:
            first = await self._start(1)
            if first is None:
                return self._is_ending.is_set()
            self._serving[1] = first
            tasks = [asyncio.create_task(self._keep(number)) for number in self._numbers]
            tasks.append(asyncio.create_task(self._restart_at_will()))
            await self._is_ending.wait()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            await asyncio.gather(*(worker.end() for worker in set(self._all)))  # they have the signal
            self._ports.close()
        return True

    # -- signals -----------------------------------------------------------------------------------------------------

    def _end(self, number: int) -> None:
        """Hand a signal on to all workers: SIGTERM lets what is open end, SIGINT and a second one do not."""
        self._is_ending.set()
        for worker in self._all:
            worker.signal(number)

    def _hang_up(self) -> None:
        """Restart the workers one by one; end if the terminal is gone."""
        if self._has_terminal and not _has_terminal():
            self._end(signal.SIGTERM)
        else:
            self._wants_restart.set()

    # -- workers -----------------------------------------------------------------------------------------------------

    async def _start(self, number: int) -> Worker | None:
        """A new worker that serves; ``None`` if it does not come to that, which is said."""
        worker = await self._begun(number)
        try:
            async with asyncio.timeout(START):
                unready = await asyncio.shield(worker.answer)
        except TimeoutError:
            unready = f"it does not serve after {START:.0f} seconds"
        except asyncio.CancelledError:
            worker.signal(signal.SIGTERM)
            raise
        if worker.ended.done():
            if not self._is_ending.is_set():
                self._say(f"worker {number} does not start: it ended {worker.how()}")
            return None
        if unready and self._serving:  # alone, it does what its policy's on-failure says
            self._say(f"worker {number} is not ready: {unready}")
            await worker.end(signal.SIGTERM)
            return None
        with suppress(OSError):  # it has ended just now
            worker.channel.send(BEGIN)
        return worker

    async def _begun(self, number: int) -> Worker:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            variable = {VARIABLE: f"{theirs.fileno()} {number} {self._folder}"}
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-c", _MITMDUMP),
                *("-s", str(SCRIPT), *self._arguments),
                env={**os.environ, **path_to_package(), **variable},
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,
            )
        ours.setblocking(False)
        worker = Worker(number, process, ours)
        self._all.add(worker)
        asyncio.get_running_loop().add_reader(ours, self._hear, worker)
        worker.ended.add_done_callback(lambda _: self._forget(worker))
        if self._is_ending.is_set():
            worker.signal(signal.SIGTERM)
        return worker

    def _forget(self, worker: Worker) -> None:
        self._all.discard(worker)
        asyncio.get_running_loop().remove_reader(worker.channel)
        worker.channel.close()

    def _hear(self, worker: Worker) -> None:
        """What a worker says: that it serves, or which port it wants to serve."""
        try:
            said = worker.channel.recv(LONGEST_MESSAGE)
        except OSError:
            said = b""
        if not said:  # it has closed the channel, and ends
            asyncio.get_running_loop().remove_reader(worker.channel)
            return
        word, *rest = json.loads(said)
        if word == SERVES:
            worker.tell(rest[0])
            return
        answer, sockets = [0, ""], []
        try:
            sockets = self._ports.of(*rest)
        except OSError as error:
            answer = [error.errno or 0, error.strerror or str(error)]
        with suppress(OSError):
            socket.send_fds(worker.channel, [json.dumps(answer).encode()], [each.fileno() for each in sockets])

    async def _keep(self, number: int) -> None:
        """Have a worker of this number serve, for ever."""
        pause = 0.0
        while True:
            began = monotonic()
            if (worker := self._serving.get(number)) is None and (worker := await self._start(number)) is not None:
                self._serving[number] = worker
            if worker is not None:
                await asyncio.shield(worker.ended)
                if self._serving.get(number) is not worker:  # another one stands in its place
                    continue
                del self._serving[number]
                self._say(f"worker {number} ended {worker.how()}, and is started again")
            pause = 0.0 if monotonic() - began > _STEADY else min(max(_PAUSE, 2 * pause), _LONGEST_PAUSE)
            await asyncio.sleep(pause)

    # -- restarts ----------------------------------------------------------------------------------------------------

    async def _restart_at_will(self) -> None:
        while True:
            await self._wants_restart.wait()
            self._wants_restart.clear()
            await self._restart()

    async def _restart(self) -> None:
        """Put a new worker in the place of each, one by one; where one does not come to serve, the rest stays."""
        for number in self._numbers:
            if number not in self._serving:  # it is started again anyway
                continue
            new = await self._start(number)
            if new is None:
                self._say("the workers are not restarted: the ones before go on")
                return
            before, self._serving[number] = self._serving.get(number), new
            if before is not None:
                await before.end(signal.SIGTERM)
        self._say(f"all workers are restarted: {len(self._numbers)}")


def _has_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()
