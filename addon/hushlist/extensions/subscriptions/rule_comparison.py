"""Compares two states of lists, rule by rule: for the gate, and for ``hushlist diff``.

    ``TwoStates`` of collected parts -> ``compare_rules`` of each range of keys -> ``find_covers``

A rule can be covered by the ``broader`` patterns: each fits all that the rule fits, and more.

>>> [str(own) for own in broader(Expression(b"h.example/a?q"), Grain())]
['h.example/a', 'h.example/', 'example/a?q', 'example/a', 'example/']

Rows, events and covers wait in files, so memory grows neither with the lists nor with the number of changes.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from hashlib import sha256
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import chain, groupby, zip_longest
from operator import itemgetter
from pathlib import Path
from struct import Struct
from tempfile import mkdtemp
from typing import Generic, NamedTuple, TypeVar, cast
from zlib import crc32

from hushlist.core.compile.list_chunks import Chunk, ChunkedList, load_chunk
from hushlist.core.compile.worker_processes import Workers
from hushlist.core.errors import Problem, SourceError
from hushlist.core.match import index_file, sorted_runs
from hushlist.core.match.checks import Check
from hushlist.core.match.expressions import FULL_LENGTH, full_hash, path_prefixes, suffixes_with_top_level
from hushlist.core.match.index_table import PLACE
from hushlist.core.match.rule import (
    Anything,
    Expression,
    ExpressionHash,
    Ordered,
    Pattern,
    Terms,
)
from hushlist.core.match.rule_collector import CollectedPart
from hushlist.core.policy.policy_file import ListFile
from hushlist.core.url.host import parse_address

Thing = TypeVar("Thing")

# -- rules that came, went or changed ----------------------------------------------------------------------------------


class ChangeKind(StrEnum):
    """What became of a rule. Each rule has one kind, but can also be the other rule of several changes."""

    REMOVED = "removed"
    #: removed, but an added rule covers all that it fits, and more
    BROADENED = "broadened"
    ADDED = "added"
    #: added, and fits a part of what a removed rule fits
    NARROWED = "narrowed"
    #: the same pattern with other terms
    CHANGED = "changed"
    #: only its place has changed
    MOVED = "moved"
    UNCHANGED = "unchanged"


class RulePlace(NamedTuple):
    """Where a rule is, and what finds it there again; within a part they sort by line."""

    line: int
    table: str
    key: bytes
    part: int
    #: the number of its terms in the part
    terms: int


#: the place of a rule (of the new one, where there are two), what became of it, and the place of the old one
RuleEvent = tuple[RulePlace, ChangeKind, RulePlace | None]


@dataclass(frozen=True, slots=True)
class TwoStates:
    """The rows of two states of lists, and what the rules of each part and terms mean, as four octets."""

    runs: Sequence[Mapping[str, sorted_runs.SortedRun]]
    #: this part and all after it are NEW's
    border: int
    #: part and terms, as rows end with them -> what rules mean; without an entry, they count as none
    meanings: Mapping[bytes, bytes]

    @classmethod
    def of(
        cls, parts: Sequence[CollectedPart], border: int, meaning: Callable[[bool, Terms], object | None]
    ) -> TwoStates:
        """``meaning``: what rules in the clear or hashed, with these terms, mean; ``None``: they count as none."""
        numbers: dict[object, bytes] = {}
        meanings: dict[bytes, bytes] = {}
        for part in parts:
            for number, terms in enumerate(part.terms):
                if (meant := meaning(*index_file.decode_terms(terms))) is not None:
                    meanings[_WHOSE.pack(part.number, number)] = numbers.setdefault(meant, _NUMBER.pack(len(numbers)))
        return cls([part.runs for part in parts], border, meanings)

    def rules(self, table: str, keys: tuple[int, int], *, is_new: bool) -> dict[bytes, bytes]:
        """The first row of each key and meaning of a side."""
        parts = self.runs[self.border :] if is_new else self.runs[: self.border]
        size, meanings = index_file.key_length(table), self.meanings
        behind = size + 2
        rows = sorted_runs.rows_in_range([runs[table] for runs in parts if table in runs], size + PLACE.size, *keys)
        return {
            row[:size] + meaning: row
            for row in reversed(rows)
            if (meaning := meanings.get(row[size:behind] + row[-4:])) is not None
        }


_WHOSE, _NUMBER = Struct(">HI"), Struct(">I")


class Compared(NamedTuple):
    """How many rules are of each kind, how many each side has, and what has changed."""

    counts: Counter[ChangeKind]
    #: rules, duplicates not counted
    old: int
    new: int
    #: a list of ``RuleEvent``
    events: sorted_runs.Stored


def compare_rules(
    keys: tuple[int, int],
    states: TwoStates,
    folder: Path,
    names: Sequence[str] | None = None,
    *,
    tells_moved: bool = False,
) -> Compared:
    """Compare the rules whose keys begin with an octet from the first to before the last.

    By part, ``names`` has the name of its file; without names, moved rules count as unchanged. ``tells_moved``: whether
    each moved rule is an event.
    """
    counts: Counter[ChangeKind] = Counter()
    events, numbers = list[RuleEvent](), (0, 0)
    for table in sorted({name for runs in states.runs for name in runs}):
        size, place = index_file.key_length(table), partial(_place, table)
        old, new = (states.rules(table, keys, is_new=is_new) for is_new in (False, True))
        numbers = (numbers[0] + len(old), numbers[1] + len(new))
        both = old.keys() & new.keys()
        moved = [] if names is None else [key for key in both if _is_moved(old[key], new[key], size, names)]
        counts[ChangeKind.MOVED] += len(moved)
        counts[ChangeKind.UNCHANGED] += len(both) - len(moved)
        events += ((place(new[key]), ChangeKind.MOVED, place(old[key])) for key in moved if tells_moved)
        alone: dict[bytes, tuple[list[RulePlace], list[RulePlace]]] = {}
        for side, rows in enumerate((old, new)):
            for row in sorted(rows[key] for key in rows.keys() - both):
                alone.setdefault(row[:size], ([], []))[side].append(place(row))
        for was, now in chain.from_iterable(zip_longest(*sides) for sides in alone.values()):
            kind = ChangeKind.REMOVED if now is None else ChangeKind.ADDED if was is None else ChangeKind.CHANGED
            counts[kind] += 1
            events.append((now or was, kind, None if now is None else was))
    return Compared(+counts, *numbers, sorted_runs.spill(events, folder))


def _place(table: str, row: bytes) -> RulePlace:
    part, line, terms = PLACE.unpack_from(row, len(row) - PLACE.size)
    return RulePlace(line, table, row[: -PLACE.size], part, terms)


def _is_moved(old: bytes, new: bytes, size: int, names: Sequence[str]) -> bool:
    (before, line, _), (after, other, _) = PLACE.unpack_from(old, size), PLACE.unpack_from(new, size)
    return bool(line != other or names[before] != names[after])


def ranges_of(parts: Iterable[CollectedPart]) -> list[tuple[int, int]]:
    """Ranges of keys that together cover all rows, for tasks of about the same size."""
    return sorted_runs.key_ranges(sum(run.starts[-1] for part in parts for run in part.runs.values()))


# -- what covers a rule ------------------------------------------------------------------------------------------------


class Grain(NamedTuple):
    """The lengths of the patterns that may cover others."""

    #: lengths of hash prefixes, in octets
    prefixes: frozenset[int] = frozenset()
    #: (IP version, bits of the prefix) of address ranges
    ranges: frozenset[tuple[int, int]] = frozenset()


def grain_of(parts: Sequence[CollectedPart]) -> Grain:
    """The lengths of the patterns of parts."""
    tables = {name for part in parts for name in part.runs if is_of_hashes(name)}
    ranges = frozenset(chain.from_iterable(part.ranges for part in parts))
    return Grain(frozenset(map(index_file.key_length, tables - {index_file.EXPRESSIONS})), ranges)


def is_of_hashes(table: str) -> bool:
    """Whether the keys of a table are SHA-256 of expressions, or begin one."""
    return table.startswith(index_file.EXPRESSION_TABLE) and not index_file.seal_of(table)


def broader(pattern: Pattern, grain: Grain) -> Iterator[Pattern]:
    """The patterns that cover one, the closest first."""
    match pattern:
        case Expression(value):
            yield from _of_expression(value, grain)
        case ExpressionHash(value, ""):
            yield from _prefixes(value, grain)
        case IPv4Network() | IPv6Network():
            yield from _ranges(pattern, grain, least=pattern.prefixlen)


def expressions_above(value: bytes) -> list[bytes]:
    """The expressions in the clear that cover one, the closest first.

    >>> expressions_above(b"x.h.example/")
    [b'h.example/', b'example/']
    """
    host, _, rest = value.partition(b"/")
    hosts = suffixes_with_top_level(host, deepest=host.count(b".") + 1)
    if not rest:
        return [suffix + b"/" for suffix in hosts[1:]]
    page, mark, query = rest.partition(b"?")
    paths = path_prefixes(b"/" + page, query if mark else None, deepest=page.count(b"/") + 1)
    return [expression for suffix in hosts for path in paths if (expression := suffix + path) != value]


def _of_expression(value: bytes, grain: Grain) -> Iterator[Pattern]:
    yield from _prefixes(full_hash(value), grain)
    for expression in expressions_above(value):
        yield Expression(expression)
        if b"." in expression.partition(b"/")[0]:  # a hash of a top-level name fits nothing below it
            yield from _prefixes(full_hash(expression), grain)
    address = parse_address(value.partition(b"/")[0]) if grain.ranges else None
    if address is not None:
        yield from _ranges(ip_network(address), grain, least=address.max_prefixlen + 1)


def _prefixes(digest: bytes, grain: Grain) -> Iterable[ExpressionHash]:
    lengths = sorted((length for length in grain.prefixes if length < len(digest)), reverse=True)
    return (ExpressionHash(digest[:length]) for length in lengths)


def _ranges(network: IPv4Network | IPv6Network, grain: Grain, least: int) -> Iterable[IPv4Network | IPv6Network]:
    """The networks that contain this one and have a prefix shorter than ``least`` bits."""
    lengths = sorted(
        (bits for version, bits in grain.ranges if version == network.version and bits < least), reverse=True
    )
    return (network.supernet(new_prefix=bits) for bits in lengths)


#: a row of what covers or is covered: a digest, whose end is a checksum of action and layer; part; the rule's number in
#: the task, its line, and its rank: the smaller, the closer
_ROW, _SUM = Struct(">HIII"), 4
_NONE = Grain()
#: covered rule, rank, covering rule: parts, and numbers in their tasks
Cover = tuple[tuple[int, int], int, tuple[int, int]]


class PartSource(NamedTuple):
    """Where the rules of a part are read."""

    file: ListFile
    chunk: Chunk

    def patterns(self, places: Iterable[RulePlace] | None = None) -> dict[tuple[int, str, bytes], Pattern]:
        """The patterns of some rules, or of all: by line, table and key.

        Raises:
            SourceError: one is not there any more.
        """
        wanted = None if places is None else {place[:3] for place in places}
        lines = None if wanted is None else {line for line, _, _ in wanted}
        by_place = {
            (line, *index_file.table_key(pattern)): pattern  # type: ignore[arg-type]  # a list has neither checks nor orders
            for pattern, _, line in load_chunk(0, self.file, self.chunk).rules
            if lines is None or line in lines
        }
        if wanted is not None and not wanted <= by_place.keys():
            raise self.changed
        return by_place

    @property
    def changed(self) -> SourceError:
        return SourceError([Problem(self.file.source, 0, self.file.path.name, "it changed while it was read")])


def sources_of(lists: Iterable[ChunkedList]) -> list[PartSource]:
    """The sources of all parts of lists."""
    return [PartSource(chunked.file, chunk) for chunked in lists for chunk in chunked.chunks]


class ReachTask(NamedTuple):
    """A task: rules of a part that may be covered, or may cover others."""

    part: CollectedPart
    source: PartSource
    #: ``None``: all rules that never expire
    places: Sequence[RulePlace] | None
    #: lengths of the rules that may cover these; ``None`` if these rules are to cover others
    grain: Grain | None


def reach(task: ReachTask, folder: Path) -> sorted_runs.SortedRun:
    """Rows of what the rules fit, if they may cover others; otherwise rows of all patterns that would cover them.

    Only a rule of the same action in the same layer covers another.
    """
    part, source, places, grain = task
    terms = [index_file.decode_terms(octets)[1] for octets in part.terms]
    sums = [_NUMBER.pack(crc32(f"{rule_terms.action} {rule_terms.layer}".encode())) for rule_terms in terms]
    rows: list[bytes] = []
    patterns = {} if grain is None else source.patterns(places)
    for number, place in enumerate(_lasting(part, terms) if places is None else places):
        if grain is None:
            digests = [digest_of_key(place.table, place.key)]
        else:
            pattern = patterns[place[:3]]
            if grain == _NONE and type(pattern) is Expression:
                digests = [sha256(expression).digest() for expression in expressions_above(pattern.value)]
            else:
                digests = [digest_of(cover) for cover in broader(pattern, grain)]
        for rank, digest in enumerate(digests):
            rows.append(digest[:-_SUM] + sums[place.terms] + _ROW.pack(part.number, number, place.line, rank))
    return sorted_runs.sorted_run(rows, folder)


def digest_of_key(table: str, key: bytes) -> bytes:
    """The digest by which patterns are compared, 32 octets; one in the clear and its full hash have the same."""
    return key if table == index_file.EXPRESSIONS else sha256(table.encode() + b" " + key).digest()


def digest_of(pattern: Pattern) -> bytes:
    if isinstance(pattern, Check | Anything | Ordered):
        return sha256(f"{type(pattern).__name__} {pattern}".encode()).digest()
    return digest_of_key(*index_file.table_key(pattern))


def _lasting(part: CollectedPart, terms: Sequence[Terms]) -> Iterator[RulePlace]:
    """The rules of a part that may cover others: they are for everybody, and never expire."""
    for table, run in part.runs.items():
        if is_of_hashes(table) or table == index_file.RANGES:
            for row in sorted_runs.rows_in_range(
                [run], index_file.key_length(table) + PLACE.size, 0, sorted_runs.OCTETS
            ):
                place = _place(table, row)
                rule_terms = None if place.terms == index_file.GUIDE else terms[place.terms]
                if rule_terms is not None and rule_terms.is_lasting:
                    yield place


def find_covers(
    tasks: Iterable[ReachTask], border: int, folder: Path, workers: Workers, *, covers_old: bool = True
) -> Iterator[Cover]:
    """Find rules that others cover. The parts from ``border`` on are NEW's; ``covers_old``: NEW's cover OLD's."""
    runs = [run for run in workers.apply(partial(reach, folder=folder), tasks) if run.starts[-1]]
    search = partial(_search_covers, runs=runs, border=border, folder=folder, covers_old=covers_old)
    for stored in workers.map("covered", search, sorted_runs.key_ranges(sum(run.starts[-1] for run in runs))):
        yield from sorted_runs.unspill(stored)


def _search_covers(
    keys: tuple[int, int], runs: Sequence[sorted_runs.SortedRun], border: int, folder: Path, *, covers_old: bool
) -> sorted_runs.Stored:
    """A list of ``Cover``."""
    unpack = cast(Callable[[bytes, int], tuple[int, int, int, int]], _ROW.unpack_from)
    pairs: list[Cover] = []
    for _, same in groupby(
        sorted_runs.rows_in_range(runs, FULL_LENGTH + _ROW.size, *keys), itemgetter(slice(FULL_LENGTH))
    ):
        rows = [unpack(row, FULL_LENGTH) for row in same]
        covers = [row for row in rows if (row[0] >= border) is covers_old]
        if covers and len(covers) < len(rows):
            cover = covers[0][:2]
            pairs += ((row[:2], row[3], cover) for row in rows if (row[0] >= border) is not covers_old)
    return sorted_runs.spill(pairs, folder)


# -- objects by part ---------------------------------------------------------------------------------------------------

#: objects that are kept in memory
MOST_KEPT = 1 << 16


class SpillByPart(Generic[Thing]):
    """Objects by part, in the order in which they are added; many of them wait in files."""

    def __init__(self, folder: Path) -> None:
        self._folder = Path(mkdtemp(dir=folder))
        self._waiting: dict[int, list[Thing]] = {}
        self._number = 0
        self.parts: set[int] = set()

    def add(self, part: int, *things: Thing) -> None:
        self._waiting.setdefault(part, []).extend(things)
        self.parts.add(part)
        self._number += len(things)
        if self._number > MOST_KEPT:
            self._write()

    def _write(self) -> None:
        for part, things in self._waiting.items():
            with self._path(part).open("ab") as file:
                pickle.dump(things, file)
        self._waiting.clear()
        self._number = 0

    def _path(self, part: int) -> Path:
        return self._folder / f"{part}"

    def of(self, part: int) -> Iterable[Thing]:
        """A part's objects, in the order in which they were added."""
        path = self._path(part)
        if part in self.parts and path.exists():
            with path.open("rb") as file:
                while file.peek(1):
                    yield from pickle.load(file)  # noqa: S301  we wrote it, into a folder of our own
        yield from self._waiting.get(part, ())
