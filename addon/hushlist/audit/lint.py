"""``hushlist lint``: what is wrong with lists, each for itself and all together.

    survey the files -> look at each piece -> compare rules of the same key -> index -> look for covered rules -> report

The steps are those of compiling, on as many processes, and with as little memory: what is found waits in files.
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

from hushlist.audit import covering
from hushlist.audit.chance import Prefixes
from hushlist.audit.finding import Finding, Kind, Spool
from hushlist.audit.pieces import Looked, Piece, look
from hushlist.audit.repeated import Repeated, find_repeated, looks
from hushlist.errors import Problem, SourceError
from hushlist.lists.hashes import read_safebrowsing_raw
from hushlist.lists.rpz import read_rpz
from hushlist.lists.source import Report, without_comment
from hushlist.match.compiler import MOST_PARTS, Merged, assemble, merge, tasks
from hushlist.policy.policy import ListFile
from hushlist.policy.processes import Parallel, Progress, processes, silent, watched
from hushlist.policy.survey import Stretch, Survey, read_stretch, survey_of

#: with fewer octets than this in all lists, other processes are not worth their start
_FEW = 1 << 21
#: characters of a line that are shown
_LONGEST = 120


@dataclass(slots=True)
class Linted:
    """What there was, and how much was found."""

    lists: int = 0
    rules: int = 0
    counts: Counter[Kind] = field(default_factory=Counter)
    prefixes: list[Prefixes] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """Plain types, as JSON needs them."""
        return {
            "lists": self.lists,
            "rules": self.rules,
            "counts": {kind.value: self.counts[kind] for kind in Kind if self.counts[kind]},
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
    """Look through lists; ``found`` is called with a file's name and what is wrong, in the order of files and lines.

    ``now`` is in UTC; ``popular`` are canonical hosts, the most popular first.

    Raises:
        SourceError: a file cannot be read, they are too many, or a process ended before it had done its part.
    """
    surveys = [survey_of(file) for file in files]
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


class _Part(NamedTuple):
    """A piece of a file that was looked at."""

    file: int
    stretch: Stretch
    looked: Looked


class _Lint:
    """One run."""

    def __init__(self, surveys: Sequence[Survey], folder: Path, parallel: Parallel, progress: Progress) -> None:
        self._surveys, self._folder, self._parallel, self._progress = surveys, folder, parallel, progress
        self._names = [str(survey.file.path) for survey in surveys]
        self._spool = Spool(folder)
        self._linted = Linted(lists=len(surveys))

    def run(self, found: Callable[[str, Finding], object], now: datetime, popular: tuple[bytes, ...]) -> Linted:
        parts = list(self._look(now, popular))
        self._linted.rules = sum(part.looked.part.rules for part in parts)
        self._compare(parts)
        self._cover(parts)
        for number in range(len(self._surveys)):
            self._tell(number, [(at, part) for at, part in enumerate(parts) if part.file == number], found)
        return self._linted

    def _look(self, now: datetime, popular: tuple[bytes, ...]) -> Iterator[_Part]:
        """Look at each piece for itself."""
        stretches = [(file, stretch) for file, survey in enumerate(self._surveys) for stretch in survey.pieces]
        numbers = count()
        pieces = (
            Piece(next(numbers), self._surveys[file].file, stretch, popular, now, self._folder)
            for file, stretch in stretches
        )
        results = watched("read", self._parallel(look, pieces), len(stretches), self._progress)
        for (file, stretch), looked in zip(stretches, results, strict=True):
            self._surveys[file].report.merge(looked.report)
            self._spool.add(looked.part.number, looked.findings)
            yield _Part(file, stretch, looked._replace(findings=[]))

    def _compare(self, parts: Sequence[_Part]) -> None:
        """Look for rules that are there more than once."""
        own = list(looks([part.looked.part for part in parts], [part.file for part in parts], self._names))
        prefixes: Counter[tuple[int, int]] = Counter()
        lines: dict[tuple[int, int], int] = {}
        results: Iterator[Repeated] = watched("compared", self._parallel(find_repeated, own), len(own), self._progress)
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

    def _cover(self, parts: Sequence[_Part]) -> None:
        """Look for rules that broader ones cover, with an index of all."""
        by_table = tasks([part.looked.part for part in parts])
        target = self._folder / "index"
        every = [task for own in by_table.values() for task in own]
        pieces = watched(
            "sorted", self._parallel(partial(merge, folder=self._folder), every), len(every), self._progress
        )
        merged = {name: Merged(own[0].shape, [next(pieces) for _ in own]) for name, own in by_table.items()}
        with target.open("wb") as file:
            assemble(file, [part.looked.part for part in parts], merged)
        own = [
            covering.Look(target, at, self._names[part.file], part.looked.part.layer, part.looked.candidates)
            for at, part in enumerate(parts)
        ]
        of_parts = watched("covered", self._parallel(covering.find_covered, own), len(own), self._progress)
        for at, findings in enumerate(of_parts):
            self._spool.add(at, findings)

    def _tell(self, file: int, parts: Sequence[tuple[int, _Part]], found: Callable[[str, Finding], object]) -> None:
        """All findings of a file, in order."""
        survey, counts = self._surveys[file], self._linted.counts
        short = [
            Finding(own.line, Kind.SHORT_HASH, f"hashes of {own.octets} octets", str(own))
            for own in self._linted.prefixes
            if own.source == self._names[file] and own.is_short
        ]
        counts[Kind.REFUSED] += survey.report.refused
        of_parts = (finding for at, part in parts for finding in self._of_part(at, part, survey.file))
        for finding in in_order(_of_report(survey.report), of_parts, sorted(short)):
            if finding.kind is not Kind.REFUSED:  # those that are alike are told together
                counts[finding.kind] += 1
            found(self._names[file], finding)

    def _of_part(self, at: int, part: _Part, file: ListFile) -> Iterator[Finding]:
        """Findings of a part: what is nothing but written in the list is filled in, and a duplicate is not covered.

        An entry that stands for a page and for the folder of that name is told once.
        """
        findings = self._spool.of(at)
        duplicates = {finding.line for finding in findings if finding.kind is Kind.DUPLICATE}
        page: tuple[int, str] | None = None
        lines: list[bytes] = []
        if any(not finding.what for finding in findings):
            lines = read_stretch(file, part.stretch)[0].split(b"\n")
        for finding in findings:
            if finding.kind is Kind.COVERED:
                if finding.line in duplicates or (finding.line, finding.what) == page:
                    continue
                page = finding.line, f"{finding.what}/"
            if not finding.what:
                if file.format.read is read_safebrowsing_raw:
                    what = f"hash {finding.line}"
                else:
                    what = _shown(lines, finding.line - part.stretch.first_line)
                if file.format.read is read_rpz and finding.kind is Kind.DUPLICATE and what.startswith("*."):
                    continue  # a name server needs both: "*.h.example" is not "h.example" there
                finding = finding._replace(what=what)
            yield finding


def _shown(lines: Sequence[bytes], number: int) -> str:
    """A line, as it is written, without its comment."""
    text = " ".join(without_comment(lines[number].decode(errors="replace")).split()) if number < len(lines) else ""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _of_report(report: Report) -> list[Finding]:
    """What the reader of a list says."""
    errors = [Finding(problem.line, Kind.ERROR, problem.what, problem.why) for problem in report.errors]
    warnings = [Finding(problem.line, _kind_of(problem), problem.what, problem.why) for problem in report.warnings]
    return sorted((*errors, *warnings))


def _kind_of(problem: Problem) -> Kind:
    """Of what nothing was made, readers say so first; else there is a rule for a fragment, which no proxy sees."""
    return Kind.REFUSED if problem.why.startswith(("left out:", "skipped:")) else Kind.DEAD
