"""What lint finds: a kind and a text at a line. Findings wait in files until they are in order.

``lint_chunk`` looks at one chunk of a list alone: for lines that are unreadable, broad, dead, expired or oddly spelled.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import NamedTuple

from hushlist.audit.lint.unmatchable import odd_lines, oddities, why_unmatchable
from hushlist.jobs.list_chunks import Chunk, read_chunk
from hushlist.lists.hash_lists import read_safebrowsing_raw
from hushlist.lists.list_source import ProblemReport
from hushlist.match.index_writer import CollectedPart, RunCollector, Stored, store
from hushlist.match.overbroad import BreadthTest
from hushlist.match.rule import Expression, Rule
from hushlist.policy.policy_file import ListFile


class FindingKind(StrEnum):
    """The kind of a problem."""

    #: the list cannot be used
    ERROR = "error"
    #: no rule could be made from it
    REFUSED = "refused"
    #: the same rule is there already
    DUPLICATE = "duplicate"
    #: a broader rule does the same
    COVERED = "covered"
    #: another rule of the same key in the same list always beats it
    BEATEN = "beaten"
    #: it covers more than its author probably means to block
    BROAD = "broad"
    #: no real URL can fit it
    DEAD = "dead"
    #: it is read as a different rule than it seems to be
    SPELLING = "spelling"
    #: hashes so short, and in such numbers, that they fit other URLs by chance
    SHORT_HASH = "short-hash"
    #: its last day has passed
    EXPIRED = "expired"


class Finding(NamedTuple):
    """One problem; findings sort by line."""

    #: from 1; 0 for the file as a whole
    line: int
    kind: FindingKind
    #: the rule or the entry; empty for the line as written
    what: str
    why: str


#: most findings in memory
_MOST = 1 << 15


class FindingSpool:
    """Findings by part of the sources, in any order; all but a few are in files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: dict[int, list[Finding]] = {}
        self._number = 0

    def add(self, part: int, findings: Iterable[Finding]) -> None:
        """Add findings of a part."""
        own = self._waiting.setdefault(part, [])
        before = len(own)
        own.extend(findings)
        self._number += len(own) - before
        if self._number > _MOST:
            self._write()

    def _write(self) -> None:
        for part, findings in self._waiting.items():
            with self._path(part).open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(finding) + "\n" for finding in findings)
        self._waiting.clear()
        self._number = 0

    def _path(self, part: int) -> Path:
        return self._folder / f"{part}.findings"

    def of(self, part: int) -> list[Finding]:
        """All findings of a part, in order, without duplicates."""
        return sorted({*self._written(part), *self._waiting.get(part, ())})

    def _written(self, part: int) -> Iterator[Finding]:
        path = self._path(part)
        if path.exists():
            with path.open(encoding="utf-8") as file:
                for text in file:
                    line, kind, what, why = json.loads(text)
                    yield Finding(line, FindingKind(kind), what, why)


class LintTask(NamedTuple):
    """A task: a chunk of a list to look at, and where to put what is collected from it."""

    number: int
    file: ListFile
    chunk: Chunk
    popular: tuple[bytes, ...]
    now: datetime
    folder: Path


class LintedChunk(NamedTuple):
    """The findings of a chunk, and data for comparing its rules with rules of other chunks."""

    part: CollectedPart
    report: ProblemReport
    findings: list[Finding]
    #: pickled: the collector's candidates, and the rules for address ranges
    candidates: Stored


def lint_chunk(piece: LintTask) -> LintedChunk:
    """Look at one chunk."""
    number, file, chunk, popular, now, folder = piece
    text, report = read_chunk(file, chunk)
    odd = {} if file.format.read is read_safebrowsing_raw else odd_lines(text, chunk.first_line)
    findings: list[Finding] = []
    collector = RunCollector(number, file.defaults.layer or "")
    breadth = _breadth(popular)
    rules = _looked_at(file.format.read(text, file.defaults, report), odd, now, findings)
    collector.add(rules, breadth.of_expression)
    for rule in collector.broad:
        if why := breadth.of_rule(rule):
            findings.append(Finding(rule.line, FindingKind.BROAD, str(rule.pattern), why))
    ranges = [rule for rule in collector.broad if isinstance(rule.pattern, IPv4Network | IPv6Network)]
    candidates = store(pickle.dumps((collector.candidates, ranges)), folder)
    return LintedChunk(collector.finish(folder), report, findings, candidates)


@lru_cache(maxsize=1)
def _breadth(popular: tuple[bytes, ...]) -> BreadthTest:
    return BreadthTest(popular)


def _looked_at(rules: Iterable[Rule], odd: dict[int, bytes], now: datetime, findings: list[Finding]) -> Iterator[Rule]:
    """The rules; adds the problems of single rules to the findings."""
    for rule in rules:
        pattern, terms, line = rule
        if why := why_unmatchable(pattern):
            findings.append(Finding(line, FindingKind.DEAD, str(pattern), why))
        if terms.expires is not None and not terms.holds_at(now):
            findings.append(Finding(line, FindingKind.EXPIRED, str(pattern), f"its last day was {terms.expires}"))
        if line in odd and isinstance(pattern, Expression):
            whys = dict.fromkeys(why for made, why in oddities(odd[line]) if made == pattern)
            findings += (Finding(line, FindingKind.SPELLING, "", why) for why in whys)
        yield rule
