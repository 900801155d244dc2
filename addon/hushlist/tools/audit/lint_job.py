"""``hushlist lint``: finds problems of each list alone, and of all lists together.

    list the chunks -> lint each chunk -> compare rules of the same key -> index -> find shadowed rules -> report

The steps are those of compiling, in as many processes, and with as little memory: findings wait in files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import partial
from heapq import merge as in_order
from ipaddress import IPv4Network, IPv6Network
from itertools import chain, groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hushlist.core.compile import list_chunks
from hushlist.core.compile.worker_processes import Progress, Workers
from hushlist.core.lists.list_formats import CORE_FORMATS, FORMATS
from hushlist.core.lists.list_source import ProblemReport, without_comment
from hushlist.core.match.expressions import FULL_LENGTH
from hushlist.core.match.index import Index
from hushlist.core.match.index_file import EXPRESSION_TABLE, GUIDE, decode_terms, key_length, seal_of
from hushlist.core.match.index_table import PLACE
from hushlist.core.match.index_writer import MergeTask, assemble, merge_all, merge_tasks, sorted_rows
from hushlist.core.match.rule import FINAL, Action, ExpressionHash, Rule, Scope, Terms
from hushlist.core.match.rule_collector import CollectedPart
from hushlist.core.match.rule_match import Match
from hushlist.core.match.seal import SealKey
from hushlist.core.match.sorted_runs import Stored, unspill
from hushlist.core.policy.policy_file import ListFile
from hushlist.extensions.subscriptions.rule_comparison import SpillByPart
from hushlist.tools.audit.filter_findings import covered_filters
from hushlist.tools.audit.findings import Finding, FindingKind, lint_chunk
from hushlist.tools.audit.shadowed import find_shadowed
from hushlist.tools.publish.false_positives import Prefixes

#: most characters of a line that are shown
_LONGEST = 120


@dataclass(slots=True)
class Linted:
    """The numbers of rules and findings."""

    lists: int
    rules: int
    counts: Counter[FindingKind] = field(default_factory=Counter)
    prefixes: list[Prefixes] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """The same as plain types, for JSON."""
        return {
            "lists": self.lists,
            "rules": self.rules,
            "counts": {kind.value: self.counts[kind] for kind in FindingKind if self.counts[kind]},
            "prefixes": [prefixes.as_dict() for prefixes in self.prefixes],
        }


def lint(
    files: Sequence[ListFile],
    report: Callable[[str, Finding], object],
    now: datetime,
    *,
    popular: Sequence[bytes] = (),
    key: SealKey | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Linted:
    """Lint lists; ``report`` is called with a file's name and a finding, in the order of files and lines.

    ``now`` is in UTC; ``popular`` are canonical hosts, the most popular first; ``key`` is that of sealed hashes.

    Raises:
            SourceError: a file cannot be read, or there are too many rules.
            WorkerError: a process ended too early.
    """
    lists = list_chunks.chunk_lists(files, "lint")
    with TemporaryDirectory() as name, list_chunks.list_workers(lists, jobs, progress) as workers:
        return _Lint(lists, Path(name), workers).run(report, now, tuple(popular), key)


class _Lint:
    def __init__(self, lists: Sequence[list_chunks.ChunkedList], folder: Path, workers: Workers) -> None:
        self._lists, self._folder, self._workers = lists, folder, workers
        self._names = [chunked.file.source for chunked in lists]
        self._chunks = [chunk for chunked in lists for chunk in chunked.chunks]
        self._findings: SpillByPart[Finding] = SpillByPart(folder)
        self._linted = Linted(len(lists), 0)
        self._parts: list[CollectedPart] = []
        #: by part: its rules that broader ones may cover
        self._candidates: list[list[Stored]] = []
        #: by part: the number of its file
        self._files: list[int] = []

    def run(
        self,
        report: Callable[[str, Finding], object],
        now: datetime,
        popular: tuple[bytes, ...],
        key: SealKey | None,
    ) -> Linted:
        look = partial(lint_chunk, popular=popular, key=key, now=now, folder=self._folder)
        for file, (part, candidates, findings) in list_chunks.read_lists(self._lists, self._workers, look):
            self._files.append(file)
            self._parts.append(part)
            self._candidates.append(candidates)
            self._findings.add(part.number, *findings)
        self._linted.rules = sum(part.rules for part in self._parts)
        self._compare()
        self._cover()
        for number in range(len(self._lists)):
            self._tell(number, report)
        return self._linted

    def _compare(self) -> None:
        prefixes: Counter[tuple[int, int]] = Counter()
        lines: dict[tuple[int, int], int] = {}
        search = DuplicateSearch(self._parts, self._files, self._names)
        tasks = [(table, task) for table, tasks_of_table in merge_tasks(self._parts).items() for task in tasks_of_table]
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

    def _cover(self) -> None:
        """Find rules that broader ones cover, with an index of all rules."""
        target = self._folder / "index"
        merged = merge_all(self._parts, partial(self._workers.map, "sorted"), self._folder)
        with target.open("wb") as file:
            assemble(file, self._parts, merged)
        for at, collected in enumerate(self._parts):
            self._findings.add(
                at, *(Finding(line, FindingKind.COSTLY, text, why) for line, text, why in collected.left_out)
            )
        tasks = zip(self._parts, self._candidates, (self._names[file] for file in self._files), strict=True)
        look = partial(_shadowed, file=target)
        for part, findings in enumerate(self._workers.map("covered", look, list(tasks))):
            self._findings.add(part, *findings)

    def _tell(self, file: int, report_finding: Callable[[str, Finding], object]) -> None:
        """All findings of a file, in order."""
        report, counts = self._lists[file].report, self._linted.counts
        short = [
            Finding(item.line, FindingKind.SHORT_HASH, f"hashes of {item.octets} octets", str(item))
            for item in self._linted.prefixes
            if item.source == self._names[file] and item.is_short
        ]
        counts[FindingKind.REFUSED] += report.refused
        parts = (part for part, item in enumerate(self._files) if item == file)
        of_parts = (finding for part in parts for finding in self._of_part(part, self._lists[file].file))
        for finding in in_order(_of_report(report), of_parts, sorted(short)):
            if finding.kind is not FindingKind.REFUSED:  # findings of the same kind are reported together
                counts[finding.kind] += 1
            report_finding(self._names[file], finding)

    def _of_part(self, part: int, file: ListFile) -> Iterator[Finding]:
        """Findings of a part: fills in the text of the line, and leaves out "covered" for a duplicate.

        An entry that means both a page and the folder of that name is reported once.
        """
        findings = sorted({*self._findings.of(part)})
        duplicates = {finding.line for finding in findings if finding.kind is FindingKind.DUPLICATE}
        page: tuple[int, str] | None = None
        lines: list[bytes] = []
        if any(not finding.what for finding in findings):
            lines = list_chunks.load_chunk(part, file, self._chunks[part]).octets.split(b"\n")
        for finding in findings:
            if finding.kind is FindingKind.COVERED:
                if finding.line in duplicates or (finding.line, finding.what) == page:
                    continue
                page = finding.line, f"{finding.what}/"
            if not finding.what:
                if file.format == CORE_FORMATS["safebrowsing-raw"]:
                    what = f"hash {finding.line}"
                else:
                    what = _shown(lines, finding.line - self._chunks[part].first_line)
                if file.format == FORMATS["rpz"] and finding.kind is FindingKind.DUPLICATE and what.startswith("*."):
                    continue  # a name server needs both: there, "*.h.example" does not cover "h.example"
                finding = finding._replace(what=what)
            yield finding


def _shown(lines: Sequence[bytes], number: int) -> str:
    """A line as written, without its comment."""
    text = " ".join(without_comment(lines[number].decode(errors="replace")).split()) if number < len(lines) else ""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _of_report(report: ProblemReport) -> list[Finding]:
    """The problems that the reader of a list reports.

    A warning begins so if an entry makes no rule; otherwise the rule is for a fragment, which no proxy sees.
    """
    findings = [Finding(problem.line, FindingKind.ERROR, problem.what, problem.why) for problem in report.errors]
    every = [listed.problem for listed in report.every() if listed.kind != "error"] if report.keeps_all else None
    for problem in report.warnings if every is None else every:
        kind = FindingKind.REFUSED if problem.why.startswith(("left out:", "skipped:")) else FindingKind.DEAD
        findings.append(Finding(problem.line, kind, problem.what, problem.why))
    return sorted(findings)


# -- duplicates, in one list or in several -----------------------------------------------------------------------------


class TermsMeaning(NamedTuple):
    """What a rule does, compared among rules of the same expression, hash or range."""

    action: Action
    #: a policy may treat different categories differently
    category: str | None
    expires: date | None
    scope: Scope | None
    is_lasting: bool


class Duplicates(NamedTuple):
    """Findings by part; and (file, octets) -> how many different prefixes, and the line of the first."""

    findings: dict[int, list[Finding]]
    prefixes: Counter[tuple[int, int]]
    first_lines: dict[tuple[int, int], int]


class _TermsPlace(NamedTuple):
    part: int
    line: int
    meaning: TermsMeaning


class DuplicateSearch:
    """Searches sorted rows for rules of the same key."""

    def __init__(self, parts: Sequence[CollectedPart], files: Sequence[int], names: Sequence[str]) -> None:
        """``files``: the number of each part's file; ``names``: those of the files in findings."""
        self._files, self._names = files, names
        self._meanings = [[_meaning(terms) for terms in part.terms] for part in parts]

    def find(self, task: tuple[str, MergeTask]) -> Duplicates:
        """Search the rows of one task, which are of the named table."""
        table, rows_of = task
        size = rows_of.shape.key
        duplicates = Duplicates({}, Counter(), {})
        is_prefix = table.startswith(EXPRESSION_TABLE) and key_length(table) < FULL_LENGTH
        for key, rows in groupby(sorted_rows(rows_of), lambda row: row[:size]):
            first, *others = rows
            if not (others or is_prefix):
                continue
            places = list(self._places([first, *others], size))
            if is_prefix:
                for file in {self._files[place.part] for place in places}:
                    duplicates.prefixes[file, size] += 1
                for place in places:
                    at = self._files[place.part], size
                    duplicates.first_lines[at] = min(place.line, duplicates.first_lines.get(at, place.line))
            what = str(ExpressionHash(key, seal_of(table))) if is_prefix else ""
            for place, finding in self._compare(places, what):
                duplicates.findings.setdefault(place.part, []).append(finding)
        return duplicates

    def _places(self, rows: Sequence[bytes], size: int) -> Iterator[_TermsPlace]:
        for row in rows:
            part, line, terms = PLACE.unpack_from(row, size)
            if terms != GUIDE:
                yield _TermsPlace(part, line, self._meanings[part][terms])

    def _compare(self, places: Sequence[_TermsPlace], what: str) -> Iterator[tuple[_TermsPlace, Finding]]:
        """The findings for rules of the same key."""
        firsts: dict[TermsMeaning, _TermsPlace] = {}
        for place in places:
            first = firsts.setdefault(place.meaning, place)
            if first is not place and (first.part, first.line) != (place.part, place.line):
                yield place, Finding(place.line, FindingKind.DUPLICATE, what, f"first in {self._where(first, place)}")
        if len(firsts) > 1:
            for place in places:
                if winner := self._winner(place, firsts.values()):
                    why = f"{self._where(winner, place)} has the same rule with {winner.meaning.action}, which beats it"
                    yield place, Finding(place.line, FindingKind.BEATEN, what, why)

    def _winner(self, place: _TermsPlace, others: Iterable[_TermsPlace]) -> _TermsPlace | None:
        """A rule of the same list that always beats this one; a rule of another list may be in another layer."""
        rank = FINAL.get(place.meaning.action)
        for other in others:
            severity = FINAL.get(other.meaning.action, 0)
            is_same = self._files[other.part] == self._files[place.part]
            if rank and severity > rank and is_same and other.meaning.is_lasting:
                return other
        return None

    def _where(self, place: _TermsPlace, seen_from: _TermsPlace) -> str:
        file = self._files[place.part]
        return f"line {place.line}" if file == self._files[seen_from.part] else f"{self._names[file]}:{place.line}"


def _meaning(encoded: bytes) -> TermsMeaning:
    _, terms = decode_terms(encoded)
    return TermsMeaning(terms.action, terms.category, terms.expires, terms.scope, terms.is_lasting)


# -- rules that a broader or stronger rule shadows ---------------------------------------------------------------------


def _shadowed(task: tuple[CollectedPart, list[Stored], str], file: Path) -> list[Finding]:
    """The shadowed rules of one part, which is of a named list; the file is an index with all rules."""
    index, (part, stored, source) = Index.open(file), task
    candidates = chain.from_iterable(map(unspill, stored))
    covered: list[_Covered] = [
        (rule.line, rule.expression.decode(), cover) for rule, cover in find_shadowed(index, part.layer, candidates)
    ]
    covered += _ranges(index, unspill(part.range_rules))
    filters = (entry.text for entry in (unspill(part.filters["adblock"]) if "adblock" in part.filters else ()))
    covered += (
        (rule.line, str(rule.pattern), cover)
        for rule, cover in covered_filters(index, filters)
        if rule.terms.source == source
    )
    return [_finding(line, what, source, cover) for line, what, cover in covered]


#: the line of a rule, what it is, and what covers it
_Covered = tuple[int, str, Match]


def _ranges(index: Index, rules: Iterable[Rule]) -> Iterator[_Covered]:
    for network, terms, line in rules:
        assert isinstance(network, IPv4Network | IPv6Network)
        address = str(network.network_address)
        matches = index.on_host(f"[{address}]".encode() if network.version == 6 else address.encode()).matches
        cover = next(
            (match for match in matches if _covers(match.rule, network) and _same(match.rule.terms, terms)), None
        )
        if cover is not None:
            yield line, str(network), cover


def _covers(rule: Rule, network: IPv4Network | IPv6Network) -> bool:
    """Whether a rule that fits a network's first address fits all of it, and more."""
    pattern = rule.pattern
    return isinstance(pattern, IPv4Network | IPv6Network) and pattern.prefixlen < network.prefixlen


def _same(wide: Terms, narrow: Terms) -> bool:
    return wide.expires is None and (wide.action, wide.category) == (narrow.action, narrow.category)


def _finding(line: int, what: str, source: str, cover: Match) -> Finding:
    rule = cover.rule
    place = f"line {rule.line}" if rule.terms.source == source else f"{rule.terms.source}:{rule.line}"
    return Finding(line, FindingKind.COVERED, what, f"{rule.pattern} covers it ({place})")
