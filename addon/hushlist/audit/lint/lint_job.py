"""``hushlist lint``: finds problems of each list alone, and of all lists together.

    list the chunks -> lint each chunk -> compare rules of the same key -> index -> find shadowed rules -> report

The steps are those of compiling, in as many processes, and with as little memory: findings wait in files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from heapq import merge as in_order
from pathlib import Path
from tempfile import TemporaryDirectory

from hushlist.audit.lint.findings import Finding, FindingKind, lint_chunk
from hushlist.audit.lint.redundant import DuplicateSearch, ShadowTask, lint_shadowed
from hushlist.errors import Problem
from hushlist.jobs.digest_runs import SpillByPart
from hushlist.jobs.list_chunks import ChunkedList, chunk_lists, list_workers, load_chunk, read_lists
from hushlist.jobs.worker_processes import Progress, Workers
from hushlist.lists.hash_lists import read_safebrowsing_raw
from hushlist.lists.list_source import ProblemReport, without_comment
from hushlist.lists.rpz import read_rpz
from hushlist.match.index_writer import CollectedPart, assemble, merge_all, merge_tasks
from hushlist.match.overbroad import Prefixes
from hushlist.policy.policy_file import ListFile

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
    progress: Progress | None = None,
) -> Linted:
    """Lint lists; ``found`` is called with a file's name and a finding, in the order of files and lines.

    ``now`` is in UTC; ``popular`` are canonical hosts, the most popular first.

    Raises:
            SourceError: a file cannot be read, or there are too many rules.
            WorkerError: a process ended too early.
    """
    lists = chunk_lists(files, "lint")
    with TemporaryDirectory() as name, list_workers(lists, jobs, progress) as workers:
        return _Lint(lists, Path(name), workers).run(found, now, tuple(popular))


class _Lint:
    """One run."""

    def __init__(self, lists: Sequence[ChunkedList], folder: Path, workers: Workers) -> None:
        self._lists, self._folder, self._workers = lists, folder, workers
        self._names = [str(own.file.path) for own in lists]
        self._chunks = [chunk for own in lists for chunk in own.chunks]
        self._findings: SpillByPart[Finding] = SpillByPart(folder, "findings")
        self._linted = Linted(lists=len(lists))

    def run(self, found: Callable[[str, Finding], object], now: datetime, popular: tuple[bytes, ...]) -> Linted:
        #: by part: the number of its file
        files: list[int] = []
        parts: list[CollectedPart] = []
        look = partial(lint_chunk, popular=popular, now=now, folder=self._folder)
        for file, (part, findings) in read_lists(self._lists, self._workers, look):
            files.append(file)
            parts.append(part)
            self._findings.add(part.number, *findings)
        self._linted.rules = sum(part.rules for part in parts)
        self._compare(parts, files)
        self._cover(parts, files)
        for number in range(len(self._lists)):
            self._tell(number, [at for at, file in enumerate(files) if file == number], found)
        return self._linted

    def _compare(self, parts: Sequence[CollectedPart], files: Sequence[int]) -> None:
        """Find duplicate rules."""
        prefixes: Counter[tuple[int, int]] = Counter()
        lines: dict[tuple[int, int], int] = {}
        search = DuplicateSearch(parts, files, self._names)
        tasks = [(table, task) for table, own in merge_tasks(parts).items() for task in own]
        for repeated in self._workers.map("compared", search.find, tasks):
            for part, findings in repeated.findings.items():
                self._findings.add(part, *findings)
            prefixes += repeated.prefixes
            for at, line in repeated.first_lines.items():
                lines[at] = min(line, lines.get(at, line))
        self._linted.prefixes = [
            Prefixes(self._names[file], octets, number, lines[file, octets])
            for (file, octets), number in sorted(prefixes.items())
        ]

    def _cover(self, parts: Sequence[CollectedPart], files: Sequence[int]) -> None:
        """Find rules that broader ones cover, with an index of all rules."""
        target = self._folder / "index"
        merged = merge_all(parts, partial(self._workers.map, "sorted"), self._folder)
        with target.open("wb") as file:
            assemble(file, parts, merged)
        tasks = [ShadowTask(own.number, self._names[files[own.number]], own.layer, own.candidates) for own in parts]
        of_parts = self._workers.map("covered", partial(lint_shadowed, file=target), tasks)
        for part, findings in enumerate(of_parts):
            self._findings.add(part, *findings)

    def _tell(self, file: int, parts: Sequence[int], found: Callable[[str, Finding], object]) -> None:
        """All findings of a file, in order."""
        report, counts = self._lists[file].report, self._linted.counts
        short = [
            Finding(own.line, FindingKind.SHORT_HASH, f"hashes of {own.octets} octets", str(own))
            for own in self._linted.prefixes
            if own.source == self._names[file] and own.is_short
        ]
        counts[FindingKind.REFUSED] += report.refused
        of_parts = (finding for part in parts for finding in self._of_part(part, self._lists[file].file))
        for finding in in_order(_of_report(report), of_parts, sorted(short)):
            if finding.kind is not FindingKind.REFUSED:  # findings of the same kind are reported together
                counts[finding.kind] += 1
            found(self._names[file], finding)

    def _of_part(self, part: int, file: ListFile) -> Iterator[Finding]:
        """Findings of a part: fills in the text of the line, and leaves out "covered" for a duplicate.

        An entry that means both a page and the folder of that name is reported once.
        """
        findings = sorted({*self._findings.of(part)})
        duplicates = {finding.line for finding in findings if finding.kind is FindingKind.DUPLICATE}
        page: tuple[int, str] | None = None
        lines: list[bytes] = []
        if any(not finding.what for finding in findings):
            lines = load_chunk(part, file, self._chunks[part]).octets.split(b"\n")
        for finding in findings:
            if finding.kind is FindingKind.COVERED:
                if finding.line in duplicates or (finding.line, finding.what) == page:
                    continue
                page = finding.line, f"{finding.what}/"
            if not finding.what:
                if file.format.read is read_safebrowsing_raw:
                    what = f"hash {finding.line}"
                else:
                    what = _shown(lines, finding.line - self._chunks[part].first_line)
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
