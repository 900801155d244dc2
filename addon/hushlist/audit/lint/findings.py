"""What lint finds: a kind and a text at a line.

``lint_chunk`` looks at one chunk of a list alone: for lines that are unreadable, broad, dead, expired or oddly spelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from hushlist.audit.lint.unmatchable import odd_lines, oddities, why_unmatchable
from hushlist.jobs.list_chunks import LoadedChunk, collect_rules
from hushlist.lists.hash_lists import read_safebrowsing_raw
from hushlist.match.index_writer import CollectedPart
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


def lint_chunk(
    chunk: LoadedChunk, popular: tuple[bytes, ...], now: datetime, folder: Path
) -> tuple[CollectedPart, list[Finding]]:
    """Look at one chunk; ``now`` is in UTC. Its rules are collected, for comparisons with rules of other chunks."""
    is_raw = chunk.file.format.read is read_safebrowsing_raw
    odd = {} if is_raw else odd_lines(chunk.octets, chunk.report.first_line)
    findings: list[Finding] = []

    def tell_broad(rule: Rule, why: str) -> None:
        findings.append(Finding(rule.line, FindingKind.BROAD, str(rule.pattern), why))

    return collect_rules(chunk, _looked_at(chunk.rules, odd, now, findings), popular, folder, tell_broad), findings


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
