"""What lint finds: a kind and a text at a line.

``lint_chunk`` looks at one chunk of a list alone: for lines that are unreadable, broad, dead, expired or oddly spelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import NamedTuple

from hushlist.audit.lint.unmatchable import odd_lines, oddities, why_unmatchable
from hushlist.jobs.digest_runs import spill
from hushlist.jobs.list_chunks import LoadedChunk
from hushlist.lists.hash_lists import read_safebrowsing_raw
from hushlist.match.index_writer import CollectedPart, RunCollector, Stored
from hushlist.match.overbroad import breadth_test
from hushlist.match.rule import Expression, Rule


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


class LintedChunk(NamedTuple):
    """The findings of a chunk, and data for comparing its rules with rules of other chunks."""

    part: CollectedPart
    findings: list[Finding]
    #: the collector's candidates, and the rules for address ranges
    candidates: Stored


def lint_chunk(chunk: LoadedChunk, popular: tuple[bytes, ...], now: datetime, folder: Path) -> LintedChunk:
    """Look at one chunk; ``now`` is in UTC, and what is collected goes to files of the folder."""
    file, report = chunk.file, chunk.report
    odd = {} if file.format.read is read_safebrowsing_raw else odd_lines(chunk.octets, report.first_line)
    findings: list[Finding] = []
    collector = RunCollector(chunk.number, file.defaults.layer or "")
    breadth = breadth_test(popular)
    collector.add(_looked_at(chunk.rules, odd, now, findings), breadth.of_expression)
    for rule in collector.broad:
        if why := breadth.of_rule(rule):
            findings.append(Finding(rule.line, FindingKind.BROAD, str(rule.pattern), why))
    ranges = [rule for rule in collector.broad if isinstance(rule.pattern, IPv4Network | IPv6Network)]
    return LintedChunk(collector.finish(folder), findings, spill((collector.candidates, ranges), folder))


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
