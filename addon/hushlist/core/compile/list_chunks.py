"""Long lists are cut into chunks of whole lines, which worker processes read one by one.

    chunk_lists -> list_workers -> read_lists

Lint and diff begin so. Compiling and leak call ``chunk_list`` for each list, and handle errors themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from hushlist.core.compile.worker_processes import Progress, Workers
from hushlist.core.errors import Problem, SourceError
from hushlist.core.extension import load
from hushlist.core.lists.hash_lists import seal_in_head
from hushlist.core.lists.list_formats import CORE_FORMATS
from hushlist.core.lists.list_source import LONGEST_LINE, ListedProblem, ProblemReport
from hushlist.core.lists.packed_lists import open_list, unpacked
from hushlist.core.lists.patterns import of_hosts
from hushlist.core.match.overbroad import breadth_test
from hushlist.core.match.rule import Rule, RuleBlock, each_rule
from hushlist.core.match.rule_collector import MOST_PARTS, CollectedPart, RunCollector
from hushlist.core.policy.policy_file import ListFile
from hushlist.core.system.files import check_length, open_regular, reason_of

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
    #: of Adblock lists: the conditions in which it begins
    conditions: tuple[str, ...] = ()


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
    report = ProblemReport(file.source, keeps_all=file.tells_all)
    if file.doubt:
        report.warn(0, "list", file.doubt)
    digest = hashlib.sha256()
    chunks: list[Chunk] = []
    longest, end = file.format.longest, 0
    conditions = load(file.format.conditions)() if file.format.conditions else None
    try:
        with open_regular(file.read_from, longest) as raw:
            packed = None if is_raw(file) else unpacked(raw, file.read_from)
            if packed is not None:
                digest = hashlib.file_digest(raw, "sha256")
            stream, seen = (raw, digest.update) if packed is None else (BytesIO(packed), len)
            for octets, start, end, line in line_blocks(stream, PIECE, LONGEST_LINE + 1, seen):
                if not chunks and file.defaults.seal is None and file.format == CORE_FORMATS["sha256"]:
                    file = file._replace(defaults=file.defaults._replace(seal=seal_in_head(octets)))
                chunks.append(Chunk(start, len(octets), line, () if conditions is None else conditions.open))
                if conditions is not None:
                    conditions.read(octets)
                check_length(end, longest, file.path)  # the file may grow
    except (OSError, ValueError) as error:  # ValueError: no file can have that name
        report.error(0, file.path.name, reason_of(error))
        return ChunkedList(file, report, "", ())
    if not file.format.is_by_line or not chunks or packed is not None:  # it would be unpacked for each
        chunks = [Chunk(0, end, 1)]
    return ChunkedList(file, report, digest.hexdigest(), tuple(chunks))


def is_raw(file: ListFile) -> bool:
    """Whether a list is octets that may begin in any way, so that nothing tells that they are packed."""
    return file.defaults.prefix_length is not None


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
    if errors := [problem for chunked in lists for problem in chunked.report.errors]:
        raise SourceError(errors)


def too_many_chunks(lists: Iterable[ChunkedList]) -> str:
    """What lists are that have more chunks than can be numbered; empty if they have not."""
    if sum(len(chunked.chunks) for chunked in lists) < MOST_PARTS:
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
        return each_rule(self.rule_blocks)

    @property
    def rule_blocks(self) -> Iterable[Rule | RuleBlock]:
        """The same, in blocks where the format's reader can."""
        defaults, form = self.file.defaults, self.file.format
        blocks = form.read_blocks(self.octets, defaults, self.report)
        # the reader of YAML sees to "covers" itself, since a list's own head may say it, too
        return of_hosts(blocks, self.report) if defaults.covers is not None and not form.is_document else blocks


def load_chunk(number: int, file: ListFile, chunk: Chunk) -> LoadedChunk:
    """Load a chunk; if the file is gone, it has no octets, and the report has an error."""
    report = ProblemReport(file.source, first_line=chunk.first_line, keeps_all=file.tells_all)
    octets = b""
    try:
        with open_regular(file.read_from) if is_raw(file) else open_list(file.read_from) as stream:
            stream.seek(chunk.offset)
            octets = stream.read(chunk.length)
    except OSError as error:
        report.error(0, file.path.name, reason_of(error))
    if chunk.conditions:
        file = file._replace(defaults=file.defaults._replace(conditions=chunk.conditions))
    return LoadedChunk(number, file, octets, report)


def list_workers(lists: Sequence[ChunkedList], jobs: int | None, progress: Progress | None) -> Workers:
    """Workers to read lists; if these are short, this process alone."""
    is_small = sum(chunked.length for chunked in lists) < FEW
    return Workers(1 if is_small else jobs, progress)


def read_lists(
    lists: Sequence[ChunkedList],
    workers: Workers,
    read: Callable[[LoadedChunk], Result],
    *,
    longest_first: bool = False,
) -> Iterator[tuple[int, Result]]:
    """For each chunk, in order: the number of its list, and what ``read`` makes of it.

    Problems of a chunk go to the report of its list. ``longest_first``: no process is left alone with a long chunk in
    the end; but results wait in memory.
    """
    places = [(at, chunk) for at, chunked in enumerate(lists) for chunk in chunked.chunks]
    order = sorted(range(len(places)), key=lambda number: -places[number][1].length * longest_first)
    tasks = ((number, lists[places[number][0]].file, places[number][1]) for number in order)
    done, total, turn = 0, sum(chunked.length for chunked in lists), 0
    waiting: dict[int, tuple[Result, ProblemReport]] = {}
    for number, outcome in zip(order, workers.apply(partial(_read, read), tasks), strict=True):
        waiting[number] = outcome
        done += places[number][1].length
        workers.show("read", done, total)
        while turn in waiting:
            at, (result, report) = places[turn][0], waiting.pop(turn)
            lists[at].report.merge(report)
            yield at, result
            turn += 1


def every_problem(files: Iterable[ListFile], jobs: int | None, progress: Progress | None) -> Iterator[ListedProblem]:
    """Every problem of lists, one by one, list by list; the lists are read for it."""
    lists = [chunk_list(file._replace(tells_all=True)) for file in files]
    with list_workers(lists, jobs, progress) as workers:
        for _ in read_lists(lists, workers, _only_read):
            pass
    for chunked in lists:
        yield from chunked.report.every()


def _only_read(chunk: LoadedChunk) -> None:
    for _ in chunk.rule_blocks:
        pass


def collect_rules(
    chunk: LoadedChunk, rules: Iterable[Rule | RuleBlock], popular: tuple[bytes, ...], folder: Path | None
) -> tuple[CollectedPart, list[tuple[Rule, str]]]:
    """Collect a chunk's rules for an index, in files of a folder if one is given; also the broad ones, and why each is.

    ``popular`` are domains that no rule may cover.
    """
    is_of_filters = bool(chunk.file.format.conditions)
    collector = RunCollector(chunk.number, chunk.file.defaults.layer or "", folder, is_of_filters=is_of_filters)
    breadth = breadth_test(popular)
    collector.add(rules, breadth.suspects)
    broad = [(rule, why) for rule in collector.broad if (why := breadth.of_rule(rule))]
    return collector.finish(), broad


def _read(read: Callable[[LoadedChunk], Result], task: tuple[int, ListFile, Chunk]) -> tuple[Result, ProblemReport]:
    chunk = load_chunk(*task)
    return read(chunk), chunk.report
