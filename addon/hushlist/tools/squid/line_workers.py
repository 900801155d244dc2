"""Processes that answer lines, behind one process that hands out the lines and puts the answers in the lines' order.

    lines -> blocks of whole lines -> a worker each -> one answer for each line -> in the order of the blocks

Workers are forks of this process: they share what it has in memory, and an index that it has mapped. Whatever a worker
knows when it starts, all know; none outlives this process, since its lines end then.

A worker that dies is replaced, and the next one gets the lines that were not answered, one by one. A line at which two
workers die is answered by ``failed``, so that no line stays without an answer, and none can stop the others.
"""

from __future__ import annotations

import gc
import os
import select
import signal
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NoReturn

#: octets of one read
CHUNK = 64 * 1024
#: blocks that a worker has at most, so that it never waits for the next
_AHEAD = 2

#: answers the lines of one file descriptor on another, until they end
Serve = Callable[[int, int], object]


@dataclass(slots=True)
class _Block:
    """Whole lines with their ends, and the answers that are there."""

    lines: bytes
    number: int
    answers: bytearray = field(default_factory=bytearray)
    answered: int = 0
    #: how many workers died at the first line without an answer
    deaths: int = 0

    def unanswered(self) -> bytes:
        """The lines that have no answer yet."""
        return self.lines.split(b"\n", self.answered)[-1]


class _Worker:
    """A process that answers blocks, one after another."""

    def __init__(self, serve: Serve, others: list[_Worker]) -> None:
        asked, self.ask = os.pipe()
        self.told, tell = os.pipe()
        self.blocks: deque[_Block] = deque()
        self.unsent = bytearray()
        #: lines that are handed out one by one, each after the answer to the one before: so a death tells the line
        self.held = bytearray()
        self.is_careful = False
        self.process = os.fork()
        if not self.process:
            for other in others:  # an end that stays open here would keep another worker's lines from ending
                other.close()
            os.close(self.ask)
            os.close(self.told)
            _work(serve, asked, tell)
        os.close(asked)
        os.close(tell)
        os.set_blocking(self.ask, False)
        os.set_blocking(self.told, False)

    def close(self) -> None:
        """Close this process's ends."""
        os.close(self.ask)
        os.close(self.told)

    def send(self, lines: bytes) -> None:
        """Hand lines to the worker, as far as it takes them now."""
        if self.is_careful:
            self.held += lines
        else:
            self.unsent += lines
        with suppress(BlockingIOError, BrokenPipeError):  # where it has died, its answers end
            while self.unsent:
                del self.unsent[: os.write(self.ask, self.unsent)]

    def send_next(self) -> None:
        """Hand over the next of the lines that are held back; if there is none, lines are no longer held back."""
        end = self.held.find(b"\n") + 1
        self.unsent += self.held[:end]
        del self.held[:end]
        self.is_careful = end > 0
        self.send(b"")

    def take(self, octets: bytes) -> None:
        """Take answers for the blocks, in their order."""
        while octets:
            block = next(own for own in self.blocks if own.answered < own.number)
            missing, number = block.number - block.answered, octets.count(b"\n")
            own, of_next = octets, b""
            if number >= missing:  # otherwise all of it is the block's, which is found faster
                number, of_next = missing, octets.split(b"\n", missing)[-1]
                own = octets.removesuffix(of_next)
            block.answers += own
            if number:
                block.answered += number
                block.deaths = 0
            octets = of_next


def _work(serve: Serve, asked: int, tell: int) -> NoReturn:
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends, and with it the lines
        serve(asked, tell)
        code = 0
    finally:
        os._exit(code)


class LineWorkers:
    """Answers lines by several processes."""

    def __init__(
        self,
        number: int,
        serve: Serve,
        failed: Callable[[bytes], bytes],
        complain: Callable[[str], object],
        longest: int,
    ) -> None:
        """``failed`` answers a line that kills workers; of lines over ``longest`` octets, one octet more is kept."""
        self._serve, self._failed, self._complain, self._longest = serve, failed, complain, longest
        self._number = number
        self._workers: list[_Worker] = []
        #: all blocks that are not written, in their order
        self._blocks: deque[_Block] = deque()

    def serve(self, source: int, sink: int) -> None:
        """Answer the lines of one file descriptor on another, until the lines end or nobody reads the answers."""
        gc.freeze()  # a collection would write to the memory that the workers share
        try:
            with suppress(ConnectionError):
                self._run(source, sink)
        finally:
            for worker in self._workers:
                worker.close()
            for worker in self._workers:
                os.waitpid(worker.process, 0)

    def _run(self, source: int, sink: int) -> None:
        begun, is_open = b"", True
        while is_open or self._blocks:
            is_asked = is_open and len(self._blocks) < _AHEAD * self._number
            ready = self._wait(source if is_asked else None)
            if source in ready:
                octets = os.read(source, CHUNK)
                is_open = bool(octets)
                lines, end, begun = (begun + octets).rpartition(b"\n") if octets else (begun, begun and b"\n", b"")
                begun = begun[: self._longest + 1]
                if end:
                    self._hand_out(lines + end)
            for worker in list(self._workers):
                if worker.ask in ready:
                    worker.send(b"")
                if worker.told in ready:
                    self._read(worker)
            while self._blocks and self._blocks[0].answered == self._blocks[0].number:
                answers = memoryview(self._blocks.popleft().answers)
                while answers:
                    answers = answers[os.write(sink, answers) :]

    def _wait(self, source: int | None) -> set[int]:
        """The file descriptors that can be read from or written to now, or that have ended."""
        poll = select.poll()
        if source is not None:
            poll.register(source, select.POLLIN)
        for worker in self._workers:
            poll.register(worker.told, select.POLLIN)
            if worker.unsent:
                poll.register(worker.ask, select.POLLOUT)
        return {descriptor for descriptor, _ in poll.poll()}

    def _hand_out(self, lines: bytes) -> None:
        """Give lines to the worker that has the fewest blocks; one that died without any is replaced only now."""
        while len(self._workers) < self._number:
            self._workers.append(_Worker(self._serve, self._workers))
        block = _Block(lines, lines.count(b"\n"))
        self._blocks.append(block)
        worker = min(self._workers, key=lambda own: len(own.blocks))
        worker.blocks.append(block)
        worker.send(lines)

    def _read(self, worker: _Worker) -> None:
        try:
            octets = os.read(worker.told, CHUNK)
        except BlockingIOError:
            return
        if octets:
            worker.take(octets)
            if worker.is_careful and b"\n" in octets:
                worker.send_next()
            while worker.blocks and worker.blocks[0].answered == worker.blocks[0].number:
                worker.blocks.popleft()
        else:
            self._replace(worker)

    def _replace(self, worker: _Worker) -> None:
        """Start another worker in place of one that died, with the lines that it has not answered."""
        worker.close()
        _, status = os.waitpid(worker.process, 0)
        self._workers.remove(worker)
        self._complain(f"a worker ended (exit status {os.waitstatus_to_exitcode(status)}), and is replaced")
        if not worker.blocks:
            return
        first = worker.blocks[0]
        del first.answers[first.answers.rfind(b"\n") + 1 :]  # an answer that was not finished
        first.deaths += 1
        if first.deaths > 1:
            self._complain("two workers ended at the same line, which is answered as a failure")
            first.answers += self._failed(first.unanswered().partition(b"\n")[0]) + b"\n"
            first.answered += 1
            first.deaths = 0
        new = _Worker(self._serve, self._workers)
        self._workers.append(new)
        new.blocks.extend(block for block in worker.blocks if block.answered < block.number)
        new.held += b"".join(block.unanswered() for block in new.blocks)
        new.send_next()
