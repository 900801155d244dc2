"""Audits sources in several processes, in bounded memory, and merges what each of them has counted.

    sources -> pieces -> a worker that is free -> its tally;  in the end: one tally

A file with a record a line is cut by octets, if it is not compressed; other lines are read by the parent, and handed
out in blocks. A file of another format is one piece, which a worker reads as it decides. Each worker maps the same
compiled index, and keeps one tally until there is nothing left; which worker has which piece changes no number.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from hushlist.audit.auditor import Auditor, Moment
from hushlist.audit.counting import Counting, TallyT
from hushlist.audit.record import Broken, Read
from hushlist.audit.sources.compression import HEAD, Stream, decompressed, fault_of, is_compressed
from hushlist.audit.sources.formats import FORMATS, Format, format_of
from hushlist.audit.sources.lines import LONGEST_LINE, read_lines
from hushlist.audit.tally import Tally
from hushlist.engine import Engine
from hushlist.errors import HushlistError
from hushlist.match.index import Index
from hushlist.policy.policy import Policy
from hushlist.policy.processes import end_with_parent, process_context

#: octets of lines that a worker gets at a time
_BLOCK = 1 << 22
#: records that a worker gets at a time
_BATCH = 5_000
#: with fewer octets than this in all sources, other processes are not worth their start
_FEW = 1 << 22
#: records between two reports of progress
_STEP = 20_000
#: objects that are made between two searches for cycles of them
_COLLECTED = 200_000

STANDARD_INPUT = "-"

#: is called with how many records were decided, and with how many octets of how many were read
Progress = Callable[[int, int, int], object]


class WorkError(HushlistError):
    """A worker has failed."""


# -- pieces ------------------------------------------------------------------------------------------------------------


class _Piece(NamedTuple):
    """What one worker reads at a time: of a file, or what the parent has read of it."""

    source: str
    format: str
    #: of the file, that this stands for
    octets: int
    #: where in the file it begins, and the number of its first line; a file that is not read by line is read whole
    offset: int = 0
    first: int = 1
    lines: bytes | None = None
    records: tuple[Read, ...] | None = None


def _pieces(sources: Sequence[str], named: Format | None) -> Iterator[_Piece]:
    """All pieces of all sources."""
    for source in sources:
        size = _size(source)
        try:
            if source == STANDARD_INPUT:
                stream = io.BufferedReader(_Unbuffered(sys.stdin.buffer), HEAD)
                yield from _pieces_of(source, stream, named, size)
            else:
                with _open(source) as file:
                    yield from _pieces_of(source, file, named, size)
        except (OSError, ValueError) as error:  # ValueError: no file can have that name
            yield _failed(source, named, getattr(error, "strerror", None) or str(error))


def _open(source: str) -> Stream:
    return io.BufferedReader(io.FileIO(source), HEAD)


class _Unbuffered(io.RawIOBase):
    """Standard input, so that what was peeked at is not lost."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: object) -> int:
        """As many octets as there is room for, but at the end: what a format is told by may come in pieces."""
        view = memoryview(cast(bytearray, buffer))
        octets = self._stream.read(len(view))
        view[: len(octets)] = octets
        return len(octets)


def _failed(source: str, named: Format | None, why: str) -> _Piece:
    return _Piece(source, named.name if named else "", 0, records=(Broken(source, 0, why),))


def _size(source: str) -> int:
    try:
        return 0 if source == STANDARD_INPUT else Path(source).stat().st_size
    except (OSError, ValueError):
        return 0


def _pieces_of(source: str, file: Stream, named: Format | None, size: int) -> Iterator[_Piece]:
    compressed = is_compressed(file.peek(8))
    stream = decompressed(file)
    known = named or format_of(stream.peek(HEAD)[:HEAD])
    is_file = source != STANDARD_INPUT and size > 0
    if known.read_line is not None:
        if is_file and not compressed:
            yield from _stretches(source, known, stream)
        else:
            yield from _blocks(source, known, stream, size)
    elif known.read_file is not None and (compressed or not is_file):
        yield _failed(source, known, "a database is read from a file that is not compressed")
    elif is_file:
        yield _Piece(source, known.name, size)
    else:
        yield from _batches(source, known, stream)


def _stretches(source: str, known: Format, stream: Stream) -> Iterator[_Piece]:
    """Where the pieces of a file begin: at lines."""
    offset, line = 0, 1
    while octets := stream.read(_BLOCK):
        length, ends = len(octets), octets.count(b"\n")
        while not octets.endswith(b"\n") and (octets := stream.readline(LONGEST_LINE)):
            length, ends = length + len(octets), ends + octets.endswith(b"\n")
        yield _Piece(source, known.name, length, offset, line)
        offset, line = offset + length, line + ends


def _blocks(source: str, known: Format, stream: Stream, size: int) -> Iterator[_Piece]:
    """Lines, as the parent has read them; of the file's octets, the last block has all."""
    line = 1
    block = _block(stream)
    while True:
        following = _block(stream)
        yield _Piece(source, known.name, 0 if following else size, 0, line, block)
        line += block.count(b"\n")
        block = following
        if not block:
            break
    _check_end(stream)


def _block(stream: Stream) -> bytes:
    octets = stream.read(_BLOCK)
    if octets and not octets.endswith(b"\n"):
        octets += stream.readline(LONGEST_LINE)
        # What is longer still is broken, however it ends.
        while not octets.endswith(b"\n") and (more := stream.readline(LONGEST_LINE)):
            octets += b"\n" if more.endswith(b"\n") else b""
        if fault_of(stream) is not None:  # what is not whole is no record
            octets = octets[: octets.rfind(b"\n") + 1]
    return octets


def _check_end(stream: Stream) -> None:
    """Make sure that a stream was read to its end.

    Raises:
        OSError: there was more, which cannot be unpacked.
    """
    fault = fault_of(stream)
    if fault is not None:
        raise OSError(fault)


def _batches(source: str, known: Format, stream: Stream) -> Iterator[_Piece]:
    records = _whole(_streamed(source, known, stream), source)
    while batch := tuple(islice(records, _BATCH)):
        yield _Piece(source, known.name, 0, records=batch)


def _read(piece: _Piece) -> Iterator[Read]:
    """The records of a piece."""
    known = FORMATS.get(piece.format)
    if piece.records is not None or known is None:
        yield from piece.records or ()
    elif known.read_line is not None:
        if piece.lines is not None:
            yield from read_lines(io.BytesIO(piece.lines), piece.source, known.read_line, piece.first)
        else:
            with Path(piece.source).open("rb") as file:
                file.seek(piece.offset)
                yield from read_lines(file, piece.source, known.read_line, piece.first, piece.octets)
    elif known.read_file is not None:
        yield from known.read_file(Path(piece.source), piece.source)
    elif known.read_stream is not None:
        with _open(piece.source) as file:
            yield from _streamed(piece.source, known, decompressed(file))


def _streamed(source: str, known: Format, stream: Stream) -> Iterator[Read]:
    """The records of a stream.

    Raises:
        OSError: there are more, which cannot be read.
    """
    assert known.read_stream is not None
    yield from known.read_stream(cast(BinaryIO, stream), source)
    _check_end(stream)


def _whole(records: Iterable[Read], source: str) -> Iterator[Read]:
    """The records, and behind them why there are no more, where reading fails."""
    try:
        yield from records
    except OSError as error:
        yield Broken(source, 0, error.strerror or str(error))


# -- workers -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done, by whom."""

    sources: Sequence[str]
    moment: Moment
    #: of all sources, where it is not told by each
    format: Format | None = None
    #: ranks of popular domains
    popular: Mapping[bytes, int] | None = None
    jobs: int = 1


def audit(engine: Engine, work: Work, progress: Progress | None = None) -> tuple[Tally, int]:
    """The tally of all sources, and how many processes have counted.

    Raises:
        WorkError: one ended before it had done its part.
    """
    again = partial(_auditor, engine.policy, Path(engine.index.source), work)
    return count(Auditor(engine, work.moment, work.popular), again, work, progress)


def _auditor(policy: Policy, index: Path, work: Work) -> Auditor:
    return Auditor(Engine(policy, Index.open(index)), work.moment, work.popular)


def count(
    own: Counting[TallyT], again: Callable[[], Counting[TallyT]], work: Work, progress: Progress | None = None
) -> tuple[TallyT, int]:
    """What is counted of all sources, and how many processes have counted.

    ``own`` counts in this process; ``again`` makes others that count in the same way in other processes, and has to be
    one that can go there.

    Raises:
        WorkError: one ended before it had done its part.
    """
    sizes = [_size(source) for source in work.sources]
    total = sum(sizes)
    is_small = STANDARD_INPUT not in work.sources and total < _FEW
    pieces = _pieces(work.sources, work.format)
    shown = _Shown(progress, total)
    if work.jobs == 1 or is_small:
        with _rarely_collected():
            for piece in pieces:
                own.add(_told(_read_whole(piece), shown.add_records), piece.source, piece.format)
                shown.add_octets(piece.octets)
        return own.tally, 1
    _in_processes(own.tally, again, work.jobs, pieces, shown)
    return own.tally, work.jobs


class _Shown:
    """Sums up what is done."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total = progress, total
        self._records, self._octets = 0, 0

    def add_records(self, number: int) -> None:
        self._records += number
        self._show()

    def add_octets(self, number: int) -> None:
        self._octets += number
        self._show()

    def _show(self) -> None:
        if self._progress is not None:
            self._progress(self._records, self._octets, self._total)


def _read_whole(piece: _Piece) -> Iterator[Read]:
    return _whole(_read(piece), piece.source)


@contextmanager
def _rarely_collected() -> Iterator[None]:
    """Within it, cycles of objects are looked for seldom: records make none, and looking takes a third of the time."""
    thresholds = gc.get_threshold()
    gc.set_threshold(_COLLECTED, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def _told(records: Iterable[Read], tell: Callable[[int], object]) -> Iterator[Read]:
    number = 0
    for record in records:
        number += 1
        if number == _STEP:
            tell(number)
            number = 0
        yield record
    tell(number)


def _in_processes(
    tally: TallyT, again: Callable[[], Counting[TallyT]], jobs: int, pieces: Iterator[_Piece], shown: _Shown
) -> None:
    context = process_context()
    connections: list[Connection] = []
    for _ in range(jobs):
        ours, theirs = context.Pipe()
        context.Process(target=_serve, args=(theirs, again), daemon=True).start()
        theirs.close()
        connections.append(ours)
    open_ = dict.fromkeys(connections, 0)  # with the octets that each is at
    try:
        while open_:
            for one in wait(list(open_)):
                connection = cast(Connection, one)
                message = connection.recv()
                if message is None:  # it is free
                    shown.add_octets(open_[connection])
                    piece = next(pieces, None)
                    open_[connection] = piece.octets if piece else 0
                    connection.send(piece)
                elif isinstance(message, int):
                    shown.add_records(message)
                else:
                    tally.merge(message)
                    del open_[connection]
    except (EOFError, OSError) as error:
        raise WorkError("a process of the audit ended before it had done its part") from error
    finally:
        for connection in connections:
            connection.close()


def _serve(connection: Connection, again: Callable[[], Counting[TallyT]]) -> None:
    """What a worker does: asks for a piece, counts it, and gives its tally where there is none left."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent sees it, and its end is ours
    own = again()
    with _rarely_collected():
        while True:
            connection.send(None)
            piece = connection.recv()
            if piece is None:
                break
            own.add(_told(_read_whole(piece), connection.send), piece.source, piece.format)
    connection.send(own.tally)


def default_jobs() -> int:
    """As many processes as there are cores for this one."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
