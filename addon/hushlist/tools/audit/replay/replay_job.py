"""Audits sources in several processes, in bounded memory, and merges their tallies.

    sources -> chunks -> a free worker -> its tally;  in the end: one tally

A file with one record a line is cut into ranges of octets, unless it is compressed. The parent reads other lines, and
hands them out in blocks. A file of another format is one chunk, which a worker reads as it decides. All workers map the
same compiled index. Each keeps one tally until no chunk is left; the numbers do not depend on who gets which chunk.
"""

from __future__ import annotations

import gc
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from hushlist.core.compile.list_chunks import line_blocks
from hushlist.core.compile.stat_cache import asking_engine
from hushlist.core.compile.worker_processes import Progress, Tell, Workers
from hushlist.core.decide.engine import Engine
from hushlist.core.errors import number_of
from hushlist.core.match.index import Index
from hushlist.core.policy.policy_file import Policy
from hushlist.core.system.compression import HEAD, Stream, decompressed, fault_of, is_compressed
from hushlist.core.system.files import open_regular, reason_of
from hushlist.tools.audit.replay.auditor import Auditor, ReplayMoment
from hushlist.tools.audit.replay.tally import AuditTally, RecordCounter, TallyT
from hushlist.tools.audit.sources.line_sources import LONGEST_LINE, ReadLine, read_lines
from hushlist.tools.audit.sources.recorded_request import BrokenRecord, ReadRecord
from hushlist.tools.audit.sources.source_formats import ReadStream, SourceFormat, list_format_of, source_format_of

#: octets of lines in one chunk
BLOCK = 1 << 22
#: records in one chunk
BATCH = 5_000
#: with fewer octets than this in all sources, other processes are not worth their start
FEW = 1 << 22
#: records between two reports of progress
STEP = 20_000
#: new objects between two searches for reference cycles
_COLLECTED = 200_000

STANDARD_INPUT = "-"


# -- chunks ------------------------------------------------------------------------------------------------------------


class _SourceChunk(NamedTuple):
    """A worker's next input: a range of a file, a whole file, or what the parent has read."""

    source: str
    format: str
    #: octets of the file that it accounts for
    octets: int
    #: gives its records, and can be pickled
    read: Callable[[], Iterator[ReadRecord]]


def _source_chunks(sources: Sequence[str], named: SourceFormat | None) -> Iterator[_SourceChunk]:
    for source in sources:
        size = _size(source)
        try:
            if source == STANDARD_INPUT:
                stream = io.BufferedReader(_Unbuffered(sys.stdin.buffer), HEAD)
                yield from _chunks_of(source, stream, named, size)
            else:
                with _open(source) as file:
                    yield from _chunks_of(source, file, named, size)
        except (OSError, ValueError) as error:  # ValueError: no file can have that name
            yield _failed(source, named, reason_of(error))


def _open(source: str) -> Stream:
    return io.BufferedReader(open_regular(Path(source)).detach(), HEAD)


class _Unbuffered(io.RawIOBase):
    """Standard input, so that octets already peeked at are not lost."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        """Fill the buffer unless the input ends: the octets that show a format may come one by one."""
        view = memoryview(cast(bytearray, buffer))
        octets = self._stream.read(len(view))
        view[: len(octets)] = octets
        return len(octets)


def _failed(source: str, named: SourceFormat | None, why: str) -> _SourceChunk:
    return _SourceChunk(source, named.name if named else "", 0, partial(iter, (BrokenRecord(source, 0, why),)))


def _size(source: str) -> int:
    try:
        return 0 if source == STANDARD_INPUT else Path(source).stat().st_size
    except (OSError, ValueError):
        return 0


def _chunks_of(source: str, file: Stream, named: SourceFormat | None, size: int) -> Iterator[_SourceChunk]:
    is_plain_file = source != STANDARD_INPUT and size > 0 and not is_compressed(file.peek(8))
    stream = decompressed(file)
    form = named or source_format_of(stream.peek(HEAD)[:HEAD])
    may_be_list = named is None and source != STANDARD_INPUT and form.name == "urls"
    if may_be_list and (list_form := list_format_of(Path(source))):
        yield _failed(source, form, f"it is a list ({list_form}), and no recorded requests: name it with --list")
        return
    chunk = partial(_SourceChunk, source, form.name)
    if form.read_line is not None:
        for block in line_blocks(stream, BLOCK, LONGEST_LINE):
            if is_plain_file:
                length = block.end - block.start
                yield chunk(length, partial(_read_range, source, form.read_line, block.start, block.first_line, length))
                continue
            lines = block.octets
            if fault_of(stream) is not None:  # a cut-off line is not a record
                lines = lines[: lines.rfind(b"\n") + 1]
            yield chunk(0, partial(read_lines, io.BytesIO(lines), source, form.read_line, block.first_line))
        if not is_plain_file:
            yield chunk(size, partial(iter, ()))
            _check_end(stream)
    elif form.read_file is not None:
        if is_plain_file:
            yield chunk(size, partial(form.read_file, Path(source), source))
        else:
            yield _failed(source, form, "a database is read from a file that is not compressed")
    elif form.read_stream is not None:
        if size:
            yield chunk(size, partial(_read_file, source, form.read_stream))
            return
        records = _whole(_read_stream(stream, source, form.read_stream), source)
        while batch := tuple(islice(records, BATCH)):
            yield chunk(0, partial(iter, batch))


def _check_end(stream: Stream) -> None:
    """Make sure that a stream was read to its end; ``OSError`` if the rest cannot be unpacked."""
    fault = fault_of(stream)
    if fault is not None:
        raise OSError(fault)


def _read_range(source: str, read: ReadLine, start: int, first_line: int, length: int) -> Iterator[ReadRecord]:
    """The records of so many octets of a file."""
    with Path(source).open("rb") as file:
        file.seek(start)
        yield from read_lines(file, source, read, first_line, length)


def _read_file(source: str, read: ReadStream) -> Iterator[ReadRecord]:
    with _open(source) as file:
        yield from _read_stream(decompressed(file), source, read)


def _read_stream(stream: Stream, source: str, read: ReadStream) -> Iterator[ReadRecord]:
    """The records of a stream; ``OSError`` if the rest cannot be read."""
    yield from read(cast(BinaryIO, stream), source)
    _check_end(stream)


def _whole(records: Iterable[ReadRecord], source: str) -> Iterator[ReadRecord]:
    """The records; if reading fails, a broken record at the end says why."""
    try:
        yield from records
    except OSError as error:
        yield BrokenRecord(source, 0, reason_of(error))


# -- workers -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReplayWork:
    sources: Sequence[str]
    moment: ReplayMoment
    #: the format of all sources; without one, each source shows its own
    format: SourceFormat | None = None
    #: ranks of popular domains
    popular: Mapping[bytes, int] | None = None
    jobs: int = 1


def audit(engine: Engine, work: ReplayWork, progress: Progress | None = None) -> tuple[AuditTally, int]:
    """The tally of all sources, and how many processes counted; ``WorkerError`` if one ended too early."""
    index = Path(engine.index.source)
    if not index.exists():  # it was not in the cache, and is gone: other processes cannot open it
        work = replace(work, jobs=1)
    again = partial(_auditor, engine.policy, index, work)
    return count_in_processes(Auditor(engine, work.moment, work.popular), again, work, progress)


def _auditor(policy: Policy, index: Path, work: ReplayWork) -> Auditor:
    return Auditor(asking_engine(policy, Index.open(index)), work.moment, work.popular)


def count_in_processes(
    counter: RecordCounter[TallyT],
    again: Callable[[], RecordCounter[TallyT]],
    work: ReplayWork,
    progress: Progress | None = None,
) -> tuple[TallyT, int]:
    """The tally of all sources, and the number of processes that counted.

    ``counter`` counts in this process; ``again`` makes the same counter in other processes, so it must be picklable.
    ``WorkerError`` if a process ended too early.
    """
    total = sum(map(_size, work.sources))
    is_small = STANDARD_INPUT not in work.sources and total < FEW
    records = octets = 0
    with Workers(1 if is_small else work.jobs, progress) as workers:

        def tell(step: tuple[int, int]) -> None:
            nonlocal records, octets
            records, octets = records + step[0], octets + step[1]
            workers.show(number_of(records, "request", "requests"), octets, total)

        tell((0, 0))  # the first chunk may take a while
        make = again if workers.jobs > 1 else lambda: counter
        chunks = _source_chunks(work.sources, work.format)
        tallies = workers.fold(make, _count, _tally_of, chunks, tell)
        tally = next(tallies)
        for other in tallies:
            tally.merge(other)
    return tally, workers.jobs


def _count(counter: RecordCounter[TallyT], chunk: _SourceChunk, tell: Tell) -> None:
    with _rarely_collected():
        records = _whole(chunk.read(), chunk.source)
        counter.add(_progress_of(records, chunk.octets, tell), chunk.source, chunk.format)


def _tally_of(counter: RecordCounter[TallyT]) -> TallyT:
    return counter.tally


@contextmanager
def _rarely_collected() -> Iterator[None]:
    """Search for reference cycles less often: records have none, and searching takes a third of the time."""
    thresholds = gc.get_threshold()
    gc.set_threshold(_COLLECTED, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def _progress_of(records: Iterable[ReadRecord], octets: int, tell: Tell) -> Iterator[ReadRecord]:
    """The records of a chunk; tells their number as they are read, and the chunk's octets in the end."""
    number = 0
    for record in records:
        number += 1
        if number == STEP:
            tell((number, 0))
            number = 0
        yield record
    tell((number, octets))
