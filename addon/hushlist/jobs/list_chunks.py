"""Long lists are cut into chunks of whole lines, which worker processes read one by one.

    chunk_lists -> list_workers -> read_lists

Lint and diff begin so. Compiling and leak call ``chunk_list`` for each list, and handle errors themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from hushlist.errors import Problem, SourceError
from hushlist.jobs.worker_processes import Progress, Workers
from hushlist.lists.list_source import LONGEST_LINE, ProblemReport
from hushlist.match.index_writer import MOST_PARTS, CollectedPart, RunCollector
from hushlist.match.overbroad import breadth_test
from hushlist.match.rule import Rule
from hushlist.policy.policy_file import ListFile
from hushlist.system.files import check_length, open_regular

#: octets of a source that one process reads at a time
PIECE = 1 << 21
#: with fewer octets than this in all lists, starting other processes takes longer than it saves
FEW = 1 << 21

Result = TypeVar("Result")


# -- cutting -----------------------------------------------------------------------------------------------------------


class LineBlock(NamedTuple):
    """Whole lines of a stream; of a last line that is too long, only the beginning."""

    octets: bytes
    #: where it begins in the stream, and where the next one begins
    start: int
    end: int
    #: the number of its first line, from 1
    first_line: int


def line_blocks(
    stream: BinaryIO, size: int, longest: int, seen: Callable[[bytes], object] = len
) -> Iterator[LineBlock]:
    """Cut a stream into blocks of at least ``size`` octets.

    If a block ends within a line, ``longest`` octets more of that are kept: that shows that the line is too long.
    ``seen`` is called with all octets, also those that are not kept.
    """
    start, line = 0, 1
    while octets := stream.read(size):
        if not octets.endswith(b"\n"):
            octets += stream.readline(longest)
        seen(octets)
        end, after, last = start + len(octets), line + octets.count(b"\n"), octets
        while not last.endswith(b"\n") and (last := stream.readline(longest)):
            seen(last)
            end += len(last)
            after += last.endswith(b"\n")
        yield LineBlock(octets, start, end, line)
        start, line = end, after


class Chunk(NamedTuple):
    """A chunk of a file: offset and length in octets, and the number of its first line."""

    offset: int
    length: int
    first_line: int


@dataclass(frozen=True, slots=True)
class ChunkedList:
    """A file, the digest of its content in hexadecimal, its chunks, and what is wrong with it."""

    file: ListFile
    report: ProblemReport
    digest: str
    chunks: tuple[Chunk, ...]

    @property
    def length(self) -> int:
        """The length of all chunks, in octets."""
        return sum(chunk.length for chunk in self.chunks)


def chunk_list(file: ListFile) -> ChunkedList:
    """Cut a file into chunks; if it cannot be read, the report has an error."""
    report = ProblemReport(str(file.path))
    digest = hashlib.sha256()
    chunks: list[Chunk] = []
    longest, end = file.format.longest, 0
    try:
        with open_regular(file.path, longest) as stream:
            for octets, start, end, line in line_blocks(stream, PIECE, LONGEST_LINE + 1, digest.update):
                chunks.append(Chunk(start, len(octets), line))
                check_length(end, longest, file.path)  # the file may grow
    except (OSError, ValueError) as error:  # ValueError: no file can have that name
        report.error(0, file.path.name, getattr(error, "strerror", None) or str(error))
        return ChunkedList(file, report, "", ())
    if not file.format.is_by_line or not chunks:
        chunks = [Chunk(0, end, 1)]
    return ChunkedList(file, report, digest.hexdigest(), tuple(chunks))


def chunk_lists(files: Iterable[ListFile], command: str) -> list[ChunkedList]:
    """Cut files into chunks.

    Raises:
        SourceError: some cannot be read, or there are too many; names the command.
    """
    lists = [chunk_list(file) for file in files]
    raise_errors(lists)
    if too_many := too_many_chunks(lists):
        raise SourceError([Problem(command, 0, "lists", f"there are {too_many}")])
    return lists


def raise_errors(lists: Iterable[ChunkedList]) -> None:
    """Raise the lists' errors.

    Raises:
        SourceError: there are some.
    """
    if errors := [problem for own in lists for problem in own.report.errors]:
        raise SourceError(errors)


def too_many_chunks(lists: Iterable[ChunkedList]) -> str:
    """What lists are that have more chunks than can be numbered; empty if they have not."""
    if sum(len(own.chunks) for own in lists) < MOST_PARTS:
        return ""
    return f"more than {MOST_PARTS - 1} files and pieces of files"


# -- reading -----------------------------------------------------------------------------------------------------------


class LoadedChunk(NamedTuple):
    """A chunk that a worker reads."""

    #: counts the chunks of all lists, from 0
    number: int
    file: ListFile
    octets: bytes
    #: knows the chunk's first line
    report: ProblemReport

    @property
    def rules(self) -> Iterable[Rule]:
        """Its rules, once; their problems go to the report."""
        return self.file.format.read(self.octets, self.file.defaults, self.report)


def load_chunk(number: int, file: ListFile, chunk: Chunk) -> LoadedChunk:
    """Load a chunk; if the file is gone, it has no octets, and the report has an error."""
    report = ProblemReport(str(file.path), first_line=chunk.first_line)
    octets = b""
    try:
        with open_regular(file.path) as stream:
            stream.seek(chunk.offset)
            octets = stream.read(chunk.length)
    except OSError as error:
        report.error(0, file.path.name, error.strerror or str(error))
    return LoadedChunk(number, file, octets, report)


def list_workers(lists: Sequence[ChunkedList], jobs: int | None, progress: Progress | None) -> Workers:
    """Workers to read lists; if these are short, this process alone."""
    is_small = sum(own.length for own in lists) < FEW
    return Workers(1 if is_small else jobs, progress)


def read_lists(
    lists: Sequence[ChunkedList], workers: Workers, read: Callable[[LoadedChunk], Result]
) -> Iterator[tuple[int, Result]]:
    """For each chunk, in order: the number of its list, and what ``read`` makes of it.

    Problems of a chunk go to the report of its list.
    """
    places = [(at, chunk) for at, own in enumerate(lists) for chunk in own.chunks]
    tasks = ((number, lists[at].file, chunk) for number, (at, chunk) in enumerate(places))
    done, total = 0, sum(own.length for own in lists)
    results = workers.apply(partial(_read, read), tasks)
    for (at, chunk), (result, report) in zip(places, results, strict=True):
        lists[at].report.merge(report)
        done += chunk.length
        workers.show("read", done, total)
        yield at, result


def collect_rules(
    chunk: LoadedChunk,
    rules: Iterable[Rule],
    popular: tuple[bytes, ...],
    folder: Path,
    tell_broad: Callable[[Rule, str], object],
) -> CollectedPart:
    """Collect a chunk's rules for an index, in files of a folder.

    ``tell_broad`` is called with each overly broad rule, and why it is; ``popular`` are domains that none may cover.
    """
    collector = RunCollector(chunk.number, chunk.file.defaults.layer or "")
    breadth = breadth_test(popular)
    collector.add(rules, breadth.of_expression)
    for rule in collector.broad:
        if why := breadth.of_rule(rule):
            tell_broad(rule, why)
    return collector.finish(folder)


def _read(read: Callable[[LoadedChunk], Result], task: tuple[int, ListFile, Chunk]) -> tuple[Result, ProblemReport]:
    chunk = load_chunk(*task)
    return read(chunk), chunk.report
