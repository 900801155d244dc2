"""What lint looks for in a piece of a list alone: what cannot be read, is broad, dead, expired, or oddly spelled."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import NamedTuple

from hushlist.audit.dead import why_dead
from hushlist.audit.finding import Finding, Kind
from hushlist.audit.spelling import odd_lines, oddities
from hushlist.lists.hashes import read_safebrowsing_raw
from hushlist.lists.source import Report
from hushlist.match.breadth import Breadth
from hushlist.match.compiler import Collector, Part, Stored, store
from hushlist.match.rule import Expression, Rule
from hushlist.policy.policy import ListFile
from hushlist.policy.survey import Stretch, read_stretch


class Piece(NamedTuple):
    """A task: a piece of a list to be looked at, and where to put what is collected of it."""

    number: int
    file: ListFile
    stretch: Stretch
    popular: tuple[bytes, ...]
    now: datetime
    folder: Path


class Looked(NamedTuple):
    """What was found in a piece, and what its rules are compared by with those of the others."""

    part: Part
    report: Report
    findings: list[Finding]
    #: pickled: the collector's candidates, and the rules for address ranges
    candidates: Stored


def look(piece: Piece) -> Looked:
    """Look at one piece."""
    number, file, stretch, popular, now, folder = piece
    text, report = read_stretch(file, stretch)
    odd = {} if file.format.read is read_safebrowsing_raw else odd_lines(text, stretch.first_line)
    findings: list[Finding] = []
    collector = Collector(number, file.defaults.layer or "")
    breadth = _breadth(popular)
    rules = _looked_at(file.format.read(text, file.defaults, report), odd, now, findings)
    collector.add(rules, breadth.of_expression)
    for rule in collector.broad:
        if why := breadth.of_rule(rule):
            findings.append(Finding(rule.line, Kind.BROAD, str(rule.pattern), why))
    ranges = [rule for rule in collector.broad if isinstance(rule.pattern, IPv4Network | IPv6Network)]
    candidates = store(pickle.dumps((collector.candidates, ranges)), folder)
    return Looked(collector.finish(folder), report, findings, candidates)


@lru_cache(maxsize=1)
def _breadth(popular: tuple[bytes, ...]) -> Breadth:
    return Breadth(popular)


def _looked_at(rules: Iterable[Rule], odd: dict[int, bytes], now: datetime, findings: list[Finding]) -> Iterator[Rule]:
    """The rules, when what is wrong with each for itself is among the findings."""
    for rule in rules:
        pattern, terms, line = rule
        if why := why_dead(pattern):
            findings.append(Finding(line, Kind.DEAD, str(pattern), why))
        if terms.expires is not None and not terms.holds_at(now):
            findings.append(Finding(line, Kind.EXPIRED, str(pattern), f"its last day was {terms.expires}"))
        if line in odd and isinstance(pattern, Expression):
            whys = dict.fromkeys(why for made, why in oddities(odd[line]) if made == pattern)
            findings += (Finding(line, Kind.SPELLING, "", why) for why in whys)
        yield rule
