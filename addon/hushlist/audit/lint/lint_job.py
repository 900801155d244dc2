"""``hushlist lint``: finds problems of each list alone, and of all lists together.

    list the chunks -> lint each chunk -> compare rules of the same key -> index -> find shadowed rules -> report

The steps are those of compiling, in as many processes, and with as little memory: findings wait in files.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from heapq import merge as in_order
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hushlist.audit.lint import redundant
from hushlist.audit.lint.findings import Finding, FindingKind, FindingSpool, LintedChunk, LintTask, lint_chunk
from hushlist.audit.lint.redundant import Duplicates, duplicate_tasks, find_duplicates
from hushlist.errors import Problem, SourceError
from hushlist.jobs.list_chunks import Chunk, ChunkedList, chunk_list, read_chunk
from hushlist.jobs.worker_processes import Parallel, Progress, processes, silent, watched
from hushlist.lists.hash_lists import read_safebrowsing_raw
from hushlist.lists.list_source import ProblemReport, without_comment
from hushlist.lists.rpz import read_rpz
from hushlist.match.index_writer import MOST_PARTS, Merged, assemble, merge_runs, merge_tasks
from hushlist.match.overbroad import Prefixes
from hushlist.policy.policy_file import ListFile

#: with fewer octets than this in all lists, other processes are not worth their start
_FEW = 1 << 21
#: most characters of a line that are shown
_LONGEST = 120


@dataclass(slots=True)
class Linted:
    """The numbers of rules and findings."""

    lists: int = 0
    rules: int = 0
    counts: Counter[FindingKind] = field(default_factory=Counter)
    prefixes: list[Prefixes] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """The same as plain types, for JSON."""
        return {
            "lists": self.lists,
            "rules": self.rules,
            "counts": {kind.value: self.counts[kind] for kind in FindingKind if self.counts[kind]},
            "prefixes": [own.as_dict() for own in self.prefixes],
        }


def lint(
    files: Sequence[ListFile],
    found: Callable[[str, Finding], object],
    now: datetime,
    *,
    popular: Sequence[bytes] = (),
    jobs: int | None = None,
    progress: Progress = silent,
) -> Linted:
    """Lint lists; ``found`` is called with a file's name and a finding, in the order of files and lines.

    ``now`` is in UTC; ``popular`` are canonical hosts, the most popular first.

    Raises:
            SourceError: a file cannot be read, there are too many rules, or a process ended too early.
    """
    surveys = [chunk_list(file) for file in files]
    if errors := [problem for survey in surveys for problem in survey.report.errors]:
        raise SourceError(errors)
    if sum(len(survey.pieces) for survey in surveys) >= MOST_PARTS:
        raise SourceError(
            [Problem("lint", 0, "lists", f"there are more than {MOST_PARTS - 1} files and pieces of files")]
        )
    is_small = sum(survey.length for survey in surveys) < _FEW
    try:
        with TemporaryDirectory() as name, processes(1 if is_small else jobs or os.cpu_count() or 1) as parallel:
            return _Lint(surveys, Path(name), parallel, progress).run(found, now, tuple(popular))
    except BrokenExecutor as error:
        raise _error("a process ended before it had done its part") from error


def _error(why: str) -> SourceError:
    return SourceError([Problem("lint", 0, "lists", why)])


class _LintedPart(NamedTuple):
    """A linted chunk of a file."""

    file: int
    chunk: Chunk
    looked: LintedChunk


class _Lint:
    """One run."""

    def __init__(self, surveys: Sequence[ChunkedList], folder: Path, parallel: Parallel, progress: Progress) -> None:
        self._surveys, self._folder, self._parallel, self._progress = surveys, folder, parallel, progress
        self._names = [str(survey.file.path) for survey in surveys]
        self._spool = FindingSpool(folder)
        self._linted = Linted(lists=len(surveys))

    def run(self, found: Callable[[str, Finding], object], now: datetime, popular: tuple[bytes, ...]) -> Linted:
        parts = list(self._look(now, popular))
        self._linted.rules = sum(part.looked.part.rules for part in parts)
        self._compare(parts)
        self._cover(parts)
        for number in range(len(self._surveys)):
            self._tell(number, [(at, part) for at, part in enumerate(parts) if part.file == number], found)
        return self._linted

    def _look(self, now: datetime, popular: tuple[bytes, ...]) -> Iterator[_LintedPart]:
        """Lint each chunk alone."""
        stretches = [(file, chunk) for file, survey in enumerate(self._surveys) for chunk in survey.pieces]
        numbers = count()
        pieces = (
            LintTask(next(numbers), self._surveys[file].file, chunk, popular, now, self._folder)
            for file, chunk in stretches
        )
        results = watched("read", self._parallel(lint_chunk, pieces), len(stretches), self._progress)
        for (file, chunk), looked in zip(stretches, results, strict=True):
            self._surveys[file].report.merge(looked.report)
            self._spool.add(looked.part.number, looked.findings)
            yield _LintedPart(file, chunk, looked._replace(findings=[]))

    def _compare(self, parts: Sequence[_LintedPart]) -> None:
        """Find duplicate rules."""
        own = list(duplicate_tasks([part.looked.part for part in parts], [part.file for part in parts], self._names))
        prefixes: Counter[tuple[int, int]] = Counter()
        lines: dict[tuple[int, int], int] = {}
        results: Iterator[Duplicates] = watched(
            "compared", self._parallel(find_duplicates, own), len(own), self._progress
        )
        for repeated in results:
            for part, findings in repeated.findings.items():
                self._spool.add(part, findings)
            prefixes += repeated.prefixes
            for at, line in repeated.first_lines.items():
                lines[at] = min(line, lines.get(at, line))
        self._linted.prefixes = [
            Prefixes(self._names[file], octets, number, lines[file, octets])
            for (file, octets), number in sorted(prefixes.items())
        ]

    def _cover(self, parts: Sequence[_LintedPart]) -> None:
        """Find rules that broader ones cover, with an index of all rules."""
        by_table = merge_tasks([part.looked.part for part in parts])
        target = self._folder / "index"
        every = [task for own in by_table.values() for task in own]
        pieces = watched(
            "sorted", self._parallel(partial(merge_runs, folder=self._folder), every), len(every), self._progress
        )
        merged = {name: Merged(own[0].shape, [next(pieces) for _ in own]) for name, own in by_table.items()}
        with target.open("wb") as file:
            assemble(file, [part.looked.part for part in parts], merged)
        own = [
            redundant.ShadowTask(target, at, self._names[part.file], part.looked.part.layer, part.looked.candidates)
            for at, part in enumerate(parts)
        ]
        of_parts = watched("covered", self._parallel(redundant.lint_shadowed, own), len(own), self._progress)
        for at, findings in enumerate(of_parts):
            self._spool.add(at, findings)

    def _tell(
        self, file: int, parts: Sequence[tuple[int, _LintedPart]], found: Callable[[str, Finding], object]
    ) -> None:
        """All findings of a file, in order."""
        survey, counts = self._surveys[file], self._linted.counts
        short = [
            Finding(own.line, FindingKind.SHORT_HASH, f"hashes of {own.octets} octets", str(own))
            for own in self._linted.prefixes
            if own.source == self._names[file] and own.is_short
        ]
        counts[FindingKind.REFUSED] += survey.report.refused
        of_parts = (finding for at, part in parts for finding in self._of_part(at, part, survey.file))
        for finding in in_order(_of_report(survey.report), of_parts, sorted(short)):
            if finding.kind is not FindingKind.REFUSED:  # findings of the same kind are reported together
                counts[finding.kind] += 1
            found(self._names[file], finding)

    def _of_part(self, at: int, part: _LintedPart, file: ListFile) -> Iterator[Finding]:
        """Findings of a part: fills in the text of the line, and leaves out "covered" for a duplicate.

        An entry that means both a page and the folder of that name is reported once.
        """
        findings = self._spool.of(at)
        duplicates = {finding.line for finding in findings if finding.kind is FindingKind.DUPLICATE}
        page: tuple[int, str] | None = None
        lines: list[bytes] = []
        if any(not finding.what for finding in findings):
            lines = read_chunk(file, part.chunk)[0].split(b"\n")
        for finding in findings:
            if finding.kind is FindingKind.COVERED:
                if finding.line in duplicates or (finding.line, finding.what) == page:
                    continue
                page = finding.line, f"{finding.what}/"
            if not finding.what:
                if file.format.read is read_safebrowsing_raw:
                    what = f"hash {finding.line}"
                else:
                    what = _shown(lines, finding.line - part.chunk.first_line)
                if file.format.read is read_rpz and finding.kind is FindingKind.DUPLICATE and what.startswith("*."):
                    continue  # a name server needs both: there, "*.h.example" does not cover "h.example"
                finding = finding._replace(what=what)
            yield finding


def _shown(lines: Sequence[bytes], number: int) -> str:
    """A line as written, without its comment."""
    text = " ".join(without_comment(lines[number].decode(errors="replace")).split()) if number < len(lines) else ""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _of_report(report: ProblemReport) -> list[Finding]:
    """The problems that the reader of a list reports."""
    errors = [Finding(problem.line, FindingKind.ERROR, problem.what, problem.why) for problem in report.errors]
    warnings = [Finding(problem.line, _kind_of(problem), problem.what, problem.why) for problem in report.warnings]
    return sorted((*errors, *warnings))


def _kind_of(problem: Problem) -> FindingKind:
    """A reader says so first if an entry makes no rule; otherwise the rule is for a fragment, which no proxy sees."""
    return FindingKind.REFUSED if problem.why.startswith(("left out:", "skipped:")) else FindingKind.DEAD
