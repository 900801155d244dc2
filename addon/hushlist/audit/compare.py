"""The steps of a diff that other processes take: read, compare what is the same pattern, look for what covers it.

Each is a function of a task; what it gives is small, or in files of a folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from hushlist.audit.broader import Grain, broader, expressions_above, grain_of
from hushlist.audit.change import Kind, Meaning
from hushlist.audit.rows import Row, Task, digest_of, fetch, groups, keep, pack, run_of
from hushlist.lists.source import Report
from hushlist.match.breadth import Breadth
from hushlist.match.compiler import Run, Stored
from hushlist.match.rule import Expression, ExpressionHash, Pattern, Terms
from hushlist.policy.policy import ListFile
from hushlist.policy.survey import Stretch, read_stretch
from hushlist.url.hashed import HashedUri

#: a rule in a part: line, pattern (of one in the clear, the octets of its expression), number of its meaning
Kept = tuple[int, Pattern | bytes, int]


def pattern_of(kept: Kept) -> Pattern:
    """The pattern of a rule."""
    return Expression(kept[1]) if isinstance(kept[1], bytes) else kept[1]


# -- reading -----------------------------------------------------------------------------------------------------------


class Piece(NamedTuple):
    """A task: a piece of a list to be read."""

    number: int
    file: ListFile
    stretch: Stretch
    #: whether to look for what is broad; and popular domains for that
    is_new: bool
    popular: tuple[bytes, ...]
    folder: Path


class Part(NamedTuple):
    """What was read of a piece."""

    run: Run
    #: a list of ``Kept``, in the order of lines
    rules: Stored
    meanings: tuple[Meaning, ...]
    grain: Grain
    #: number of a rule -> what is broad about it
    broad: dict[int, str]
    report: Report


def read(piece: Piece) -> Part:
    """Read one piece; this loop is half of what a diff costs."""
    octets, report = read_stretch(piece.file, piece.stretch)
    numbers: dict[Meaning, int] = {}
    kept: list[Kept] = []
    rows: list[bytes] = []
    broad: dict[int, str] = {}
    grain = Grain()
    breadth = _breadth(piece.popular)
    part, is_new = piece.number, piece.is_new
    own_terms, clear, said = None, True, 0
    for number, rule in enumerate(piece.file.format.read(octets, piece.file.defaults, report)):
        pattern, terms, line = rule
        is_clear = type(pattern) is Expression or not isinstance(pattern, ExpressionHash | HashedUri)
        if terms is not own_terms or is_clear is not clear:
            own_terms, clear = terms, is_clear
            said = numbers.setdefault(_meaning(terms, is_clear=is_clear), len(numbers))
        if type(pattern) is Expression:
            value = pattern.value
            kept.append((line, value, said))
            rows.append(sha256(value).digest() + pack(part, number, line, said))
            if is_new and (why := breadth.of_expression(value)):
                broad[number] = why
        else:
            kept.append((line, pattern, said))
            rows.append(digest_of(pattern) + pack(part, number, line, said))
            grain = grain.joined(grain_of(pattern))
            if is_new and (why := breadth.of_rule(rule)):
                broad[number] = why
    return Part(run_of(rows, piece.folder), keep(kept, piece.folder), tuple(numbers), grain, broad, report)


def _meaning(terms: Terms, *, is_clear: bool) -> Meaning:
    return Meaning(terms.action, terms.category, terms.reason, terms.expires, terms.layer, is_clear)


@lru_cache(maxsize=1)
def _breadth(popular: tuple[bytes, ...]) -> Breadth:
    return Breadth(popular)


# -- comparing ---------------------------------------------------------------------------------------------------------


#: where a rule is: part, and number in it
Place = tuple[int, int]


#: what became of a rule, and where it stands in OLD and in NEW
Event = tuple[Kind, Place | None, Place | None]


class Look(NamedTuple):
    """A task: rows in which to look for those of one pattern."""

    task: Task
    #: the parts from this one on are NEW's
    border: int
    #: by part: what its file is called, and the meanings of its rules
    names: tuple[str, ...]
    meanings: tuple[tuple[Meaning, ...], ...]
    #: whether rules that have moved are told one by one
    tells_moved: bool
    folder: Path


class Compared(NamedTuple):
    """How many rules are of each kind, how many each side has, and where they are."""

    counts: Counter[Kind]
    #: rules; those that are there before do not count
    old: int
    new: int
    #: a list of ``Event``
    events: Stored


def compare(look: Look) -> Compared:
    """Compare the rules of one task."""
    counts: Counter[Kind] = Counter()
    numbers = [0, 0]
    events: list[Event] = []
    border, names, tells_moved = look.border, look.names, look.tells_moved
    known: dict[Meaning, int] = {}
    #: equal meanings have the same number, whatever the part
    meanings = [[known.setdefault(meaning, len(known)) for meaning in own] for own in look.meanings]
    for rows in groups(look.task):
        olds: dict[int, Row] = {}
        news: dict[int, Row] = {}
        for row in rows:
            part, _, _, said = row
            (news if part >= border else olds).setdefault(meanings[part][said], row)
        numbers[0] += len(olds)
        numbers[1] += len(news)
        for kind, old, new in _pairs(olds, news, names):
            counts[kind] += 1
            if kind is not Kind.UNCHANGED and (kind is not Kind.MOVED or tells_moved):
                events.append((kind, old and old[:2], new and new[:2]))
    return Compared(counts, numbers[0], numbers[1], keep(events, look.folder))


def _pairs(
    olds: dict[int, Row], news: dict[int, Row], names: Sequence[str]
) -> list[tuple[Kind, Row | None, Row | None]]:
    """The rules of one pattern, by meaning: those that ask for the same, and of the others as many as there are pairs.

    The dictionaries are used up.
    """
    found: list[tuple[Kind, Row | None, Row | None]] = []
    for meaning in olds.keys() & news.keys():
        old, new = olds.pop(meaning), news.pop(meaning)
        is_moved = old[2] != new[2] or names[old[0]] != names[new[0]]
        found.append((Kind.MOVED if is_moved else Kind.UNCHANGED, old, new))
    if olds or news:
        for before, after in zip_longest(olds.values(), news.values()):
            kind = Kind.ADDED if before is None else Kind.REMOVED if after is None else Kind.CHANGED
            found.append((kind, before, after))
    return found


# -- covering ----------------------------------------------------------------------------------------------------------


class Reach(NamedTuple):
    """A task: rules of a part that are gone, or have come; numbers of rules."""

    number: int
    part: Part
    numbers: Sequence[int]
    #: of the rules that may cover these; ``None`` where these are those
    grain: Grain | None
    folder: Path


def reach(task: Reach) -> Run:
    """Rows of what the rules fit, where they may cover others; or else of all that would cover them.

    Only a rule of the same action in the same layer covers another.
    """
    kept: list[Kept] = fetch(task.part.rules)
    asks = [
        crc32(f"{meaning.action} {meaning.layer}".encode()).to_bytes(_ASKS, "big") for meaning in task.part.meanings
    ]
    rows: list[bytes] = []
    for number in task.numbers:
        line, pattern, said = kept[number]
        if task.grain is None:
            digests = [digest_of(pattern_of(kept[number]))]
        elif isinstance(pattern, bytes) and task.grain == _NONE:
            digests = [sha256(expression).digest() for expression in expressions_above(pattern)]
        else:
            digests = [digest_of(own) for own in broader(pattern_of(kept[number]), task.grain)]
        for rank, digest in enumerate(digests):
            rows.append(digest[:-_ASKS] + asks[said] + pack(task.number, number, line, rank))
    return run_of(rows, task.folder)


#: octets at a digest's end in the place of which stands what a rule asks for
_ASKS = 4
_NONE = Grain()


#: a rule, by its place, that another covers; between them, the smaller the number, the sooner it covers
Cover = tuple[Place, int, Place]


class Search(NamedTuple):
    """A task: rows of ``reach``; the parts from ``border`` on are NEW's."""

    task: Task
    border: int
    #: whether those of NEW may cover
    covers_old: bool
    folder: Path


def search(look: Search) -> Stored:
    """A list of ``Cover``."""
    found: list[Cover] = []
    for rows in groups(look.task):
        covers = [row for row in rows if (row[0] >= look.border) is look.covers_old]
        if covers and len(covers) < len(rows):
            cover = covers[0][:2]
            below = (row for row in rows if (row[0] >= look.border) is not look.covers_old)
            found += ((row[:2], row[3], cover) for row in below)
    return keep(found, look.folder)
