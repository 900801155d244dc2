"""Rules that are there more than once: duplicates, in one list or across lists, and rules that another always beats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import groupby
from typing import NamedTuple

from hushlist.audit.finding import Finding, Kind
from hushlist.match.compiler import Part, Task, sorted_rows, tasks
from hushlist.match.hashing import FULL_LENGTH
from hushlist.match.index_file import EXPRESSION_TABLE, GUIDE, decode_terms, key_length
from hushlist.match.rule import FINAL, Action
from hushlist.match.table import PLACE


class Meaning(NamedTuple):
    """What a rule does, where it is the same expression, hash or range as another."""

    action: Action
    #: a policy may treat another category in another way
    category: str | None
    expires: date | None


class Look(NamedTuple):
    """A task: rows of one table, in which to look for rules of the same key."""

    task: Task
    table: str
    #: part -> number of its file, and the meaning of each of its terms
    files: tuple[int, ...]
    meanings: tuple[tuple[Meaning, ...], ...]
    #: the files, as findings name them
    names: tuple[str, ...]


class Repeated(NamedTuple):
    """What was found by part; and (file, octets) -> how many different prefixes, and the line of the first."""

    findings: dict[int, list[Finding]]
    prefixes: Counter[tuple[int, int]]
    first_lines: dict[tuple[int, int], int]


def looks(parts: Sequence[Part], files: Sequence[int], names: Sequence[str]) -> Iterator[Look]:
    """The tasks; ``files`` are the numbers of the parts' files."""
    meanings = tuple(tuple(_meaning(terms) for terms in part.terms) for part in parts)
    for table, own in tasks(parts).items():
        for task in own:
            yield Look(task, table, tuple(files), meanings, tuple(names))


def _meaning(encoded: bytes) -> Meaning:
    _, terms = decode_terms(encoded)
    return Meaning(terms.action, terms.category, terms.expires)


class _Place(NamedTuple):
    part: int
    line: int
    meaning: Meaning


def find_repeated(look: Look) -> Repeated:
    """Look at the rows of one task."""
    size = look.task.shape.key
    found = Repeated({}, Counter(), {})
    is_prefix = look.table.startswith(EXPRESSION_TABLE) and key_length(look.table) < FULL_LENGTH
    for key, rows in groupby(sorted_rows(look.task), lambda row: row[:size]):
        first, *others = rows
        if not (others or is_prefix):
            continue
        places = list(_places([first, *others], look))
        if is_prefix:
            for file in {look.files[place.part] for place in places}:
                found.prefixes[file, size] += 1
            for place in places:
                at = look.files[place.part], size
                found.first_lines[at] = min(place.line, found.first_lines.get(at, place.line))
        for place, finding in _compare(places, look, f"sha256:{key.hex()}" if is_prefix else ""):
            found.findings.setdefault(place.part, []).append(finding)
    return found


def _places(rows: Sequence[bytes], look: Look) -> Iterator[_Place]:
    for row in rows:
        part, line, terms = PLACE.unpack_from(row, look.task.shape.key)
        if terms != GUIDE:
            yield _Place(part, line, look.meanings[part][terms])


def _compare(places: Sequence[_Place], look: Look, what: str) -> Iterator[tuple[_Place, Finding]]:
    """What is wrong with rules of the same key."""
    firsts: dict[Meaning, _Place] = {}
    for place in places:
        first = firsts.setdefault(place.meaning, place)
        if first is not place and (first.part, first.line) != (place.part, place.line):
            yield place, Finding(place.line, Kind.DUPLICATE, what, f"first in {_where(first, place, look)}")
    if len(firsts) > 1:
        for place in places:
            if winner := _winner(place, firsts.values(), look):
                why = f"{_where(winner, place, look)} has the same rule with {winner.meaning.action}, which beats it"
                yield place, Finding(place.line, Kind.BEATEN, what, why)


def _winner(place: _Place, others: Iterable[_Place], look: Look) -> _Place | None:
    """A rule of the same list that beats another for good; one of another list may be asked in another layer."""
    rank = FINAL.get(place.meaning.action)
    for other in others:
        own = FINAL.get(other.meaning.action, 0)
        is_same = look.files[other.part] == look.files[place.part]
        if rank and own > rank and is_same and other.meaning.expires is None:
            return other
    return None


def _where(place: _Place, seen_from: _Place, look: Look) -> str:
    file = look.files[place.part]
    return f"line {place.line}" if file == look.files[seen_from.part] else f"{look.names[file]}:{place.line}"
