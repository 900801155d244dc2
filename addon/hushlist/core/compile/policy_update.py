"""Compiles a policy of which few lines of lists have changed, from the index that is in use: only these are read.

    the lines that differ -> their rules before and now -> an index from the one before (``core/match/index_update``)

What an update cannot do exactly as reading all lists would, it leaves to that: ``NotByUpdate`` says why. How many rules
broader ones cover is not counted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from hushlist.core.compile.compile_report import SECTION as REPORT
from hushlist.core.compile.compile_report import CompileReport, ListReport
from hushlist.core.compile.list_chunks import ChunkedList, LoadedChunk, is_raw
from hushlist.core.errors import Problem
from hushlist.core.lists.line_changes import changes_between, numbered
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.packed_lists import open_list
from hushlist.core.match.index import Index
from hushlist.core.match.index_file import GUIDE, Directory, IndexFileError, decode_terms, key_length
from hushlist.core.match.index_table import PLACE
from hushlist.core.match.index_update import ListUpdate, NotByUpdate, update_index
from hushlist.core.match.line_numbers import LineRuns
from hushlist.core.match.rule_collector import CollectedPart
from hushlist.core.match.sorted_runs import SortedRun, load
from hushlist.core.policy.policy_file import ListFile

#: the section of an index that says what it was made of
SECTION = "sources"
#: updates after which everything is read again
MOST_UPDATES = 64
#: terms of a list's rules that are looked through
_MOST_TERMS = 1 << 12
#: the line of a list from which on nothing depends on what is before it
_SECOND = 2

#: reads the rules of a chunk, with warnings
Collect = Callable[[LoadedChunk], CollectedPart]
#: the file with the content of a list that has a digest
CopyOf = Callable[[ListFile, str], Path | None]


class Sources(NamedTuple):
    """What an index was made of."""

    #: the code, and what else all lists depend on
    by: Any
    #: of each list: its name, its format, its defaults, what is doubted, the digest of its content
    lists: list[Any]
    #: the list of each part
    of_parts: list[int]
    #: the problems of each list
    reports: list[dict[str, Any]]
    #: warnings of filters that were left out
    left_out: list[dict[str, Any]]
    #: how many updates made it, since everything was read
    updates: int = 0

    def to_json(self) -> bytes:
        return json.dumps(self._asdict()).encode()

    @classmethod
    def of(cls, index: Index) -> Sources:
        """What an index says; ``NotByUpdate`` if nothing."""
        try:
            return cls(**json.loads(index.section(SECTION)))
        except (LookupError, TypeError, ValueError, RecursionError) as error:
            raise NotByUpdate("it does not say what it was made of") from error


def described(lists: Sequence[ChunkedList]) -> list[Any]:
    """What ``Sources`` has of lists."""
    files = [(chunked.file, chunked.digest) for chunked in lists]
    return [
        (file.source, file.format.reader, file.defaults, file.detected, file.doubt, digest) for file, digest in files
    ]


class Update(NamedTuple):
    """An index that an update has written; the report is still to be added to it."""

    directory: Directory
    lists: list[ChunkedList]
    rows: list[ListReport]
    left_out: list[Problem]
    sources: Sources


class _Change(NamedTuple):
    """The change of a list: its rules that are gone, those that came, and its report now."""

    update: ListUpdate
    gone: CollectedPart
    report: ProblemReport


def update_policy(
    target: Path, before: Path, by: Any, lists: Sequence[ChunkedList], copy_of: CopyOf, collect: Collect
) -> Update:
    """Write an index from the one before, which was made ``by`` the same.

    Raises:
        NotByUpdate: everything has to be read.
        OSError: a file cannot be read or written.
    """
    try:
        index = Index.open(before)
        index.verify()
        rows = CompileReport.of(index).lists
    except IndexFileError as error:
        raise NotByUpdate(str(error)) from error
    sources = Sources.of(index)
    now_by, described_now = json.loads(json.dumps((by, described(lists))))
    was, now = (
        ([entry[:-1] for entry in some], [entry[-1] for entry in some]) for some in (sources.lists, described_now)
    )
    if was[0] != now[0] or now_by != sources.by:
        raise NotByUpdate("something else has changed than lines of lists")
    if sources.updates >= MOST_UPDATES:
        raise NotByUpdate("there were too many updates")
    reports = list(map(ProblemReport.of_plain, sources.reports))
    changes = list[_Change]()
    for at, digest in enumerate(was[1]):
        if digest != now[1][at]:
            part = len(sources.of_parts) + len(changes)
            changes.append(
                _change_of(lists[at], at, part, copy_of(lists[at].file, digest), digest, reports[at], collect)
            )
            reports[at] = changes[-1].report
            _check(index, sources, changes[-1], rows[at])
    if not changes:
        raise NotByUpdate("nothing has changed")
    updates = [change.update for change in changes]
    with target.open("wb") as file:
        updated = update_index(file, index, sources.of_parts, updates, (SECTION, REPORT))
    layers = [chunked.file.defaults.layer or "" for chunked in lists]
    for change in changes:
        row = rows[change.update.number]
        row.opaque += change.update.came.opaque - change.gone.opaque
    for at, row in enumerate(rows):
        row.kept += updated.kept[at]
        row.duplicates += updated.duplicates[at]
        row.refused = reports[at].refused
        row.read = row.kept + row.duplicates + row.refused
        updated.directory.rules[layers[at]] += updated.kept[at]
    return Update(
        updated.directory,
        [replace(chunked, report=report) for chunked, report in zip(lists, reports, strict=True)],
        rows,
        [Problem(**problem) for problem in sources.left_out],
        sources._replace(
            lists=described_now,
            of_parts=[*sources.of_parts, *(update.number for update in updates)],
            reports=[report.to_plain() for report in reports],
            updates=sources.updates + 1,
        ),
    )


def _change_of(
    chunked: ChunkedList, at: int, part: int, copy: Path | None, digest: str, report: ProblemReport, collect: Collect
) -> _Change:
    """What has changed in a list since its copy, whose content has the digest."""
    file = chunked.file
    if copy is None or chunked.report.errors or not file.format.is_by_line or file.format.conditions or is_raw(file):
        raise NotByUpdate(f"{file.source}: it cannot be compared line by line")
    changes = changes_between(copy, digest, file.read_from, chunked.digest)
    if not changes or changes[0].new <= _first_entry(file):
        raise NotByUpdate(f"{file.source}: it is another one, or its beginning is")
    moved = LineRuns.of(
        chain([(1, 1)], ((change.old + len(change.gone), change.new + len(change.came)) for change in changes))
    )
    (gone, gone_report), (came, came_report) = (_read(file, part, *some, collect) for some in numbered(changes))
    if gone_report.errors or came_report.errors:
        raise NotByUpdate(f"{file.source}: it has errors")
    now = report.changed(gone_report, came_report, moved.now)
    if now is None:
        raise NotByUpdate(f"{file.source}: it has more problems than are kept")
    gone_lines: dict[str, dict[bytes, set[int]]] = {}
    for name, run in gone.runs.items():
        for key, line in _keys(name, run):
            gone_lines.setdefault(name, {}).setdefault(key, set()).add(line)
    return _Change(ListUpdate(at, moved, gone_lines, came), gone, now)


def _first_entry(file: ListFile) -> int:
    """The first line in which there is something: by it a web page, or what is in another encoding, is told."""
    with open_list(file.read_from) as lines:
        return next((number for number, line in enumerate(lines, 1) if line.strip()), sys.maxsize)


def _read(
    file: ListFile, part: int, lines: Sequence[bytes], numbers: Sequence[int], collect: Collect
) -> tuple[CollectedPart, ProblemReport]:
    """The rules of some lines, with their numbers, and their problems."""
    octets = b"".join(line if line.endswith(b"\n") else line + b"\n" for line in lines)
    report = ProblemReport(file.source, first_line=_SECOND, keeps_all=True)
    collected = collect(LoadedChunk(part, file, octets, report))
    for name, run in collected.runs.items():
        width = key_length(name) + PLACE.size
        rows = bytearray(load(run.rows))
        for at in range(width - PLACE.size, len(rows), width):
            of_part, line, terms = PLACE.unpack_from(rows, at)
            if terms == GUIDE:
                raise NotByUpdate(f"{file.source}: rules for less than a host have changed")
            PLACE.pack_into(rows, at, of_part, numbers[line - _SECOND], terms)
        collected.runs[name] = run._replace(rows=bytes(rows))
    return collected, report.renumbered(lambda line: numbers[line - _SECOND] if line else 0)


def _keys(name: str, run: SortedRun) -> Iterator[tuple[bytes, int]]:
    """The keys and lines of a run."""
    size, rows = key_length(name), load(run.rows)
    for at in range(0, len(rows), size + PLACE.size):
        yield rows[at : at + size], PLACE.unpack_from(rows, at + size)[1]


def _check(index: Index, sources: Sources, change: _Change, row: ListReport) -> None:
    """Check that no other kinds of rules have come, or are gone; ``NotByUpdate`` otherwise."""
    came, gone = change.update.came, change.gone
    for part in (came, gone):
        if part.ranges or part.filters or part.taken_back or part.below_hosts:
            raise NotByUpdate("other rules have changed than names of hosts and hashes")
    of_list = [part for part, at in enumerate(sources.of_parts) if at == change.update.number]
    terms = chain.from_iterable(map(index.terms_of_part, of_list)), map(decode_terms, (*came.terms, *gone.terms))
    some = list(islice(chain(*terms), _MOST_TERMS + 1))
    if len({(is_clear, rule_terms.action) for is_clear, rule_terms in some}) != 1 or len(some) > _MOST_TERMS:
        raise NotByUpdate("its rules do different things")
    if row.kept + row.duplicates <= gone.rules or (row.opaque > 0) != (row.opaque + came.opaque > gone.opaque):
        raise NotByUpdate("all of its rules are other ones")
