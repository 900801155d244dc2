"""Audits sources in several processes, in bounded memory, and merges their tallies.

    sources -> chunks -> a free worker -> its tally;  in the end: one tally

A file with one record a line is cut into ranges of octets, unless it is compressed. The parent reads other lines, and
hands them out in blocks. A file of another format is one chunk, which a worker reads as it decides. All workers map the
same compiled index. Each keeps one tally until no chunk is left; the numbers do not depend on who gets which chunk.
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

from hushlist.audit.replay.auditor import Auditor, ReplayMoment
from hushlist.audit.replay.tally import AuditTally, RecordCounter, TallyT
from hushlist.audit.sources.compression import HEAD, Stream, decompressed, fault_of, is_compressed
from hushlist.audit.sources.line_sources import LONGEST_LINE, read_lines
from hushlist.audit.sources.recorded_request import BrokenRecord, ReadRecord
from hushlist.audit.sources.source_formats import FORMATS, SourceFormat, source_format_of
from hushlist.decide.engine import Engine
from hushlist.errors import HushlistError
from hushlist.jobs.worker_processes import end_with_parent, process_context
from hushlist.match.index import Index
from hushlist.policy.policy_file import Policy
from hushlist.system.files import open_regular

#: octets of lines in one chunk
_BLOCK = 1 << 22
#: records in one chunk
_BATCH = 5_000
#: with fewer octets than this in all sources, other processes are not worth their start
_FEW = 1 << 22
#: records between two reports of progress
_STEP = 20_000
#: new objects between two searches for reference cycles
_COLLECTED = 200_000

STANDARD_INPUT = "-"

#: called with the number of decided records, of octets read, and of all octets
ReplayProgress = Callable[[int, int, int], object]


class WorkError(HushlistError):
    """A worker failed."""


# -- chunks ------------------------------------------------------------------------------------------------------------


class _SourceChunk(NamedTuple):
    """A worker's next input: a range of a file, or lines or records that the parent has read."""

    source: str
    format: str
    #: octets of the file that it accounts for
    octets: int
    #: its offset in the file, and the number of its first line; a file that is not read by line is read whole
    offset: int = 0
    first: int = 1
    lines: bytes | None = None
    records: tuple[ReadRecord, ...] | None = None


def _source_chunks(sources: Sequence[str], named: SourceFormat | None) -> Iterator[_SourceChunk]:
    """All chunks of all sources."""
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
    return io.BufferedReader(open_regular(Path(source)).detach(), HEAD)


class _Unbuffered(io.RawIOBase):
    """Standard input, so that octets already peeked at are not lost."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: object) -> int:
        """Fill the buffer unless the input ends: the octets that show a format may come one by one."""
        view = memoryview(cast(bytearray, buffer))
        octets = self._stream.read(len(view))
        view[: len(octets)] = octets
        return len(octets)


def _failed(source: str, named: SourceFormat | None, why: str) -> _SourceChunk:
    return _SourceChunk(source, named.name if named else "", 0, records=(BrokenRecord(source, 0, why),))


def _size(source: str) -> int:
    try:
        return 0 if source == STANDARD_INPUT else Path(source).stat().st_size
    except (OSError, ValueError):
        return 0


def _pieces_of(source: str, file: Stream, named: SourceFormat | None, size: int) -> Iterator[_SourceChunk]:
    compressed = is_compressed(file.peek(8))
    stream = decompressed(file)
    known = named or source_format_of(stream.peek(HEAD)[:HEAD])
    is_file = source != STANDARD_INPUT and size > 0
    if known.read_line is not None:
        if is_file and not compressed:
            yield from _stretches(source, known, stream)
        else:
            yield from _blocks(source, known, stream, size)
    elif known.read_file is not None and (compressed or not is_file):
        yield _failed(source, known, "a database is read from a file that is not compressed")
    elif is_file:
        yield _SourceChunk(source, known.name, size)
    else:
        yield from _batches(source, known, stream)


def _stretches(source: str, known: SourceFormat, stream: Stream) -> Iterator[_SourceChunk]:
    """The chunks of a file; each begins with a line."""
    offset, line = 0, 1
    while octets := stream.read(_BLOCK):
        length, ends = len(octets), octets.count(b"\n")
        while not octets.endswith(b"\n") and (octets := stream.readline(LONGEST_LINE)):
            length, ends = length + len(octets), ends + octets.endswith(b"\n")
        yield _SourceChunk(source, known.name, length, offset, line)
        offset, line = offset + length, line + ends


def _blocks(source: str, known: SourceFormat, stream: Stream, size: int) -> Iterator[_SourceChunk]:
    """Lines that the parent has read; the last block accounts for all of the file's octets."""
    line = 1
    block = _block(stream)
    while True:
        following = _block(stream)
        yield _SourceChunk(source, known.name, 0 if following else size, 0, line, block)
        line += block.count(b"\n")
        block = following
        if not block:
            break
    _check_end(stream)


def _block(stream: Stream) -> bytes:
    octets = stream.read(_BLOCK)
    if octets and not octets.endswith(b"\n"):
        octets += stream.readline(LONGEST_LINE)
        # A line that is still longer is broken, however it ends.
        while not octets.endswith(b"\n") and (more := stream.readline(LONGEST_LINE)):
            octets += b"\n" if more.endswith(b"\n") else b""
        if fault_of(stream) is not None:  # a cut-off line is not a record
            octets = octets[: octets.rfind(b"\n") + 1]
    return octets


def _check_end(stream: Stream) -> None:
    """Make sure that a stream was read to its end.

    Raises:
            OSError: the rest cannot be unpacked.
    """
    fault = fault_of(stream)
    if fault is not None:
        raise OSError(fault)


def _batches(source: str, known: SourceFormat, stream: Stream) -> Iterator[_SourceChunk]:
    records = _whole(_streamed(source, known, stream), source)
    while batch := tuple(islice(records, _BATCH)):
        yield _SourceChunk(source, known.name, 0, records=batch)


def _read(piece: _SourceChunk) -> Iterator[ReadRecord]:
    """The records of a chunk."""
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


def _streamed(source: str, known: SourceFormat, stream: Stream) -> Iterator[ReadRecord]:
    """The records of a stream.

    Raises:
            OSError: the rest cannot be read.
    """
    assert known.read_stream is not None
    yield from known.read_stream(cast(BinaryIO, stream), source)
    _check_end(stream)


def _whole(records: Iterable[ReadRecord], source: str) -> Iterator[ReadRecord]:
    """The records; if reading fails, a broken record at the end says why."""
    try:
        yield from records
    except OSError as error:
        yield BrokenRecord(source, 0, error.strerror or str(error))


# -- workers -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReplayWork:
    """The sources, and how to replay them."""

    sources: Sequence[str]
    moment: ReplayMoment
    #: the format of all sources; without one, each source shows its own
    format: SourceFormat | None = None
    #: ranks of popular domains
    popular: Mapping[bytes, int] | None = None
    jobs: int = 1


def audit(engine: Engine, work: ReplayWork, progress: ReplayProgress | None = None) -> tuple[AuditTally, int]:
    """The tally of all sources, and the number of processes that counted.

    Raises:
            WorkError: a process ended too early.
    """
    again = partial(_auditor, engine.policy, Path(engine.index.source), work)
    return count_in_processes(Auditor(engine, work.moment, work.popular), again, work, progress)


def _auditor(policy: Policy, index: Path, work: ReplayWork) -> Auditor:
    return Auditor(Engine(policy, Index.open(index)), work.moment, work.popular)


def count_in_processes(
    own: RecordCounter[TallyT],
    again: Callable[[], RecordCounter[TallyT]],
    work: ReplayWork,
    progress: ReplayProgress | None = None,
) -> tuple[TallyT, int]:
    """The tally of all sources, and the number of processes that counted.

    ``own`` counts in this process; ``again`` makes the same counter in other processes, so it must be picklable.

    Raises:
        WorkError: a process ended too early.
    """
    sizes = [_size(source) for source in work.sources]
    total = sum(sizes)
    is_small = STANDARD_INPUT not in work.sources and total < _FEW
    pieces = _source_chunks(work.sources, work.format)
    shown = _ProgressSum(progress, total)
    if work.jobs == 1 or is_small:
        with _rarely_collected():
            for piece in pieces:
                own.add(_told(_read_whole(piece), shown.add_records), piece.source, piece.format)
                shown.add_octets(piece.octets)
        return own.tally, 1
    _in_processes(own.tally, again, work.jobs, pieces, shown)
    return own.tally, work.jobs


class _ProgressSum:
    """Sums up the workers' progress."""

    def __init__(self, progress: ReplayProgress | None, total: int) -> None:
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


def _read_whole(piece: _SourceChunk) -> Iterator[ReadRecord]:
    return _whole(_read(piece), piece.source)


@contextmanager
def _rarely_collected() -> Iterator[None]:
    """Search for reference cycles less often: records have none, and searching takes a third of the time."""
    thresholds = gc.get_threshold()
    gc.set_threshold(_COLLECTED, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def _told(records: Iterable[ReadRecord], tell: Callable[[int], object]) -> Iterator[ReadRecord]:
    number = 0
    for record in records:
        number += 1
        if number == _STEP:
            tell(number)
            number = 0
        yield record
    tell(number)


def _in_processes(
    tally: TallyT,
    again: Callable[[], RecordCounter[TallyT]],
    jobs: int,
    pieces: Iterator[_SourceChunk],
    shown: _ProgressSum,
) -> None:
    context = process_context()
    connections: list[Connection] = []
    for _ in range(jobs):
        ours, theirs = context.Pipe()
        context.Process(target=_serve, args=(theirs, again), daemon=True).start()
        theirs.close()
        connections.append(ours)
    open_ = dict.fromkeys(connections, 0)  # with the number of octets that each is reading
    try:
        while open_:
            for one in wait(list(open_)):
                connection = cast(Connection, one)
                message = connection.recv()
                if message is None:  # the worker is free
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


def _serve(connection: Connection, again: Callable[[], RecordCounter[TallyT]]) -> None:
    """The loop of a worker: asks for a chunk, counts it, and sends its tally when no chunk is left."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it, and ends this process
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
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
