"""Writes an index file, in three steps that processes can share:

1. ``RunCollector`` turns the rules of one part of the sources into rows, in one sorted *run* for each table.
2. ``merge_runs`` merges the rows of all runs in one range of keys into one *piece* of a table.
3. ``assemble`` writes the pieces in order, with the fan-out, as an index file.

A step needs memory for one part or one piece, not for all rules. Its result can be in files.

A *duplicate* repeats a rule of the same list, with the same pattern and the same terms. It is left out.
"""

from __future__ import annotations

import pickle
import zlib
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from io import BytesIO
from ipaddress import IPv4Network, IPv6Network
from itertools import accumulate, groupby
from pathlib import Path
from struct import Struct
from tempfile import NamedTemporaryFile
from typing import Any, BinaryIO, NamedTuple

from hushlist.match.checks import Check
from hushlist.match.expressions import DEEPEST_HOST, DEEPEST_PATH, full_hash
from hushlist.match.index import Index
from hushlist.match.index_file import (
    ALLOWING,
    CATEGORIZED,
    CRC,
    EXPRESSIONS,
    GUIDE,
    HEADER,
    MAGIC,
    NUMBER,
    OFFSET,
    SECTIONS_AT,
    VERSION,
    Directory,
    FileSection,
    encode_terms,
    key_length,
    table_key,
)
from hushlist.match.index_table import PLACE, Shape, bits_for
from hushlist.match.rule import FINAL, Action, Anything, Expression, ExpressionHash, Rule, Terms

#: rows number parts with 16 bits; the last number means no part
MOST_PARTS = (1 << 16) - 1
#: a table with fewer rows than this is merged as one piece
FEW_ROWS = 1 << 17
_OCTETS = 256
_ALIGNMENT = 64

#: octets, or the file that has them
Stored = bytes | Path


def store(octets: bytes, folder: Path | None) -> Stored:
    """Put octets into a new file of a folder; without a folder, give them back."""
    if folder is None:
        return octets
    with NamedTemporaryFile(dir=folder, delete=False) as file:
        file.write(octets)
    return Path(file.name)


def load(stored: Stored, start: int = 0, end: int | None = None) -> bytes:
    """Stored octets, from ``start`` to before ``end``."""
    if isinstance(stored, bytes):
        return stored[start:end]
    with stored.open("rb") as file:
        file.seek(start)
        return file.read(-1 if end is None else end - start)


def spill(thing: Any, folder: Path | None) -> Stored:
    """Store an object."""
    return store(pickle.dumps(thing), folder)


def unspill(stored: Stored) -> Any:
    """The object that was stored."""
    return pickle.loads(load(stored))  # noqa: S301  we wrote it, into a folder of our own


# -- 1: collecting -----------------------------------------------------------------------------------------------------


class SortedRun(NamedTuple):
    """The sorted rows of one table and one part."""

    rows: Stored
    #: for each octet, how many rows come before those whose keys begin with it; then the number of all rows
    starts: array[int]


def sorted_run(rows: list[bytes], folder: Path | None) -> SortedRun:
    """Sort the rows of one table and one part, and store them in a file of the folder, if one is given."""
    rows.sort()
    starts = array("I", (bisect_left(rows, bytes((octet,))) for octet in range(_OCTETS)))
    starts.append(len(rows))
    return SortedRun(store(b"".join(rows), folder), starts)


def key_ranges(count: int) -> list[tuple[int, int]]:
    """Ranges of the keys' first octets, from and to before, that divide so many rows; keys are evenly spread."""
    pieces = 1
    while count // pieces > FEW_ROWS and pieces < _OCTETS:
        pieces *= 2
    step = _OCTETS // pieces
    return [(first, first + step) for first in range(0, _OCTETS, step)]


def rows_in_range(runs: Iterable[SortedRun], width: int, first: int, last: int) -> list[bytes]:
    """The rows of all runs in a range of the keys' first octets, sorted."""
    octets = b"".join([load(run.rows, run.starts[first] * width, run.starts[last] * width) for run in runs])
    rows = [octets[at : at + width] for at in range(0, len(octets), width)]
    rows.sort()  # runs are sorted, so that this merges them
    return rows


#: a rule in the clear that a broader one may cover: its expression, line and action
Candidate = tuple[bytes, int, Action]


@dataclass(slots=True)
class CollectedPart:
    """The rows and terms of one part."""

    number: int
    layer: str
    runs: dict[str, SortedRun]
    #: the terms of its rules, as written to the file, by number
    terms: list[bytes]
    #: how many rules, duplicates included
    rules: int
    deepest_host: int
    deepest_path: int
    has_hashes: bool
    ranges: set[tuple[int, int]] = field(default_factory=set)
    actions: set[Action] = field(default_factory=set)
    #: the collector's candidates, and its rules for address ranges
    candidates: Stored = b""


class RunCollector:
    """Turns the rules of one part into rows; a part has one layer."""

    def __init__(self, number: int, layer: str = "") -> None:
        """``number``: the part's number in the order of the sources, below ``MOST_PARTS``."""
        self._part = CollectedPart(number, layer, {}, [], 0, DEEPEST_HOST, DEEPEST_PATH, has_hashes=False)
        self._rows: dict[str, list[bytes]] = {EXPRESSIONS: []}
        #: host -> bits of the rules below it
        self._guides: dict[bytes, int] = {}
        self._numbers: dict[tuple[Terms, bool], int] = {}
        self.candidates: list[Candidate] = []
        #: broad rules for whole hosts, and all rules for address ranges
        self.broad: list[Rule] = []

    def add(self, rules: Iterable[Rule], is_broad: Callable[[bytes], object] = lambda _: False) -> None:
        """Add rules; those for whole hosts for which ``is_broad`` is true go to ``broad``, too.

        Compiling spends most of its time in this loop, so it calls few functions.
        """
        part, rows, candidates = self._part, self._rows[EXPRESSIONS], self.candidates
        pack, of_part = PLACE.pack, part.number
        own_terms, number, bits = None, 0, 0
        deepest_host, deepest_path = part.deepest_host, part.deepest_path
        for rule in rules:
            pattern, terms, line = rule
            part.rules += 1
            if type(pattern) is not Expression:
                self._add_other(rule)
                continue
            if terms is not own_terms:
                own_terms, number, bits = terms, self._number_of(terms, is_clear=True), _bits_of(terms)
            value = pattern.value
            rows.append(sha256(value).digest() + pack(of_part, line, number))
            end = value.find(b"/")
            labels = value.count(b".", 0, end) + 1
            # "the index records the deepest host and path among clear rules"
            if labels > deepest_host:
                deepest_host = labels
            if end + 1 == len(value):
                if is_broad(value):
                    self.broad.append(rule)
                if labels > 2:
                    candidates.append((value, line, terms.action))
            else:
                deepest_path = max(deepest_path, value.count(b"/") - 1)
                host = value[: end + 1]
                self._guides[host] = self._guides.get(host, 0) | bits
                candidates.append((value, line, terms.action))
        part.deepest_host, part.deepest_path = deepest_host, deepest_path

    def _add_other(self, rule: Rule) -> None:
        pattern, terms, line = rule
        assert not isinstance(pattern, Check | Anything), "it is no part of an index"
        if isinstance(pattern, ExpressionHash):
            self._part.has_hashes = True
        elif isinstance(pattern, IPv4Network | IPv6Network):
            self._part.ranges.add((pattern.version, pattern.prefixlen))
            self.broad.append(rule)
        table, key = table_key(pattern)
        row = key + PLACE.pack(self._part.number, line, self._number_of(terms, is_clear=False))
        self._rows.setdefault(table, []).append(row)

    def _number_of(self, terms: Terms, *, is_clear: bool) -> int:
        number = self._numbers.setdefault((terms, is_clear), len(self._numbers))
        if number == len(self._part.terms):
            self._part.terms.append(encode_terms(terms, is_clear=is_clear))
            self._part.actions.add(terms.action)
        return number

    def finish(self, folder: Path | None = None) -> CollectedPart:
        """The part with its sorted runs and candidates, which go to files of the folder if one is given."""
        guides = (full_hash(host) + PLACE.pack(MOST_PARTS, bits, GUIDE) for host, bits in self._guides.items())
        self._rows[EXPRESSIONS] += guides
        self._part.runs = {name: sorted_run(rows, folder) for name, rows in self._rows.items()}
        ranges = [rule for rule in self.broad if isinstance(rule.pattern, IPv4Network | IPv6Network)]
        self._part.candidates = spill((self.candidates, ranges), folder)
        return self._part


def _bits_of(terms: Terms) -> int:
    """The bits that a guide gets from a rule below it."""
    if terms.action is Action.ALLOW:
        return ALLOWING
    return CATEGORIZED if terms.category is not None and terms.action is not Action.TAG else 0


# -- 2: merging --------------------------------------------------------------------------------------------------------


class TablePiece(NamedTuple):
    """A table's rows in one range of keys; ``store`` has the rows, then their tails, then the keys in each bucket."""

    store: Stored
    rows: int
    buckets: int
    #: part -> how many of its rules are left out
    duplicates: Counter[int]


class MergeTask(NamedTuple):
    """A task for ``merge_runs``; it can go to another process."""

    runs: tuple[SortedRun, ...]
    #: shape of the whole table; its count may include duplicates
    shape: Shape
    #: the range of the keys' first octets: from, to before
    first: int
    last: int
    #: for every part, an identity for each of its terms; equal terms of one list have the same identity
    identities: tuple[array[int], ...]


def merge_tasks(parts: Sequence[CollectedPart]) -> dict[str, list[MergeTask]]:
    """The tasks of each table, in the order of the keys."""
    known: dict[bytes, int] = {}
    identities = tuple(array("I", (known.setdefault(own, len(known)) for own in part.terms)) for part in parts)
    names = sorted({EXPRESSIONS, *(name for part in parts for name in part.runs)})
    found: dict[str, list[MergeTask]] = {}
    for name in names:
        runs = tuple(part.runs[name] for part in parts if name in part.runs)
        count = sum(run.starts[-1] for run in runs)
        shape = Shape(count, key_length(name), bits_for(count))
        # A piece begins and ends where a bucket does.
        found[name] = [MergeTask(runs, shape, first, last, identities) for first, last in key_ranges(count)]
    return found


def sorted_rows(task: MergeTask) -> list[bytes]:
    """A task's rows, duplicates included, sorted by key; rows of one key keep the order of the sources."""
    return rows_in_range(task.runs, task.shape.width, task.first, task.last)


def merge_runs(task: MergeTask, folder: Path | None = None) -> TablePiece:
    """Merge a task's rows into a piece, in a file of the folder if one is given."""
    _, shape, first, last, identities = task
    size = shape.key
    rows = sorted_rows(task)
    keys = [row[:size] for row in rows]
    duplicates: Counter[int] = Counter()
    for position in reversed(list(_duplicates(rows, keys, identities))):
        part, _, terms = PLACE.unpack_from(rows.pop(position), size)
        duplicates[part] += terms != GUIDE
        del keys[position]
    start, end = shape.tail_at, shape.tail_at + shape.tail
    tails = b"".join([key[start:end] for key in keys])
    shift = 32 - shape.bits
    begin = (first << 24) >> shift
    buckets = array("I", bytes(4 * (max(1, (last << 24) >> shift) - begin)))
    for number in Struct(f">{len(keys)}I").unpack(b"".join([key[:4] for key in keys])):
        buckets[(number >> shift) - begin] += 1
    return TablePiece(store(b"".join((*rows, tails, buckets.tobytes())), folder), len(rows), len(buckets), duplicates)


def _duplicates(rows: Sequence[bytes], keys: Sequence[bytes], identities: Sequence[array[int]]) -> Iterator[int]:
    """The positions of rows that repeat the key and identity of an earlier row."""
    last = -1
    seen: set[int] = set()
    for position, is_same in enumerate(map(bytes.__eq__, keys, keys[1:]), 1):
        if is_same:
            if position - 1 != last:
                seen = {_identity(rows[position - 1], identities)}
            last = position
            identity = _identity(rows[position], identities)
            if identity in seen:
                yield position
            seen.add(identity)


def _identity(row: bytes, identities: Sequence[array[int]]) -> int:
    part, line, terms = PLACE.unpack_from(row, len(row) - PLACE.size)
    assert isinstance(line, int)
    return -1 - line if terms == GUIDE else identities[part][terms]


class Merged(NamedTuple):
    """A table and its merged pieces."""

    shape: Shape
    pieces: Sequence[TablePiece]


def merge_all(
    parts: Sequence[CollectedPart],
    apply: Callable[[Callable[[MergeTask], TablePiece], Sequence[MergeTask]], Iterable[TablePiece]] = map,
    folder: Path | None = None,
) -> dict[str, Merged]:
    """Merge the runs of all parts; ``apply`` applies a function to tasks, perhaps in other processes."""
    by_table = merge_tasks(parts)
    tasks = [task for own in by_table.values() for task in own]
    pieces = iter(apply(partial(merge_runs, folder=folder), tasks))
    return {name: Merged(own[0].shape, [next(pieces) for _ in own]) for name, own in by_table.items()}


# -- 3: assembling -----------------------------------------------------------------------------------------------------


def assemble(file: BinaryIO, parts: Sequence[CollectedPart], merged: Mapping[str, Merged]) -> Directory:
    """Write an index file; the caller gives the finished file its name."""
    sections: dict[str, FileSection] = {}
    tables: dict[str, Shape] = {}
    file.write(bytes(SECTIONS_AT))
    for name, (shape, pieces) in merged.items():  # the hot sections are next to each other
        tables[name] = shape = replace(shape, count=sum(piece.rows for piece in pieces))
        sections[f"{name} fan"] = _write_section(file, [_fan(shape, pieces)])
        sections[f"{name} tails"] = _write_section(file, (_tails(shape, piece) for piece in pieces))
    for name, (shape, pieces) in merged.items():
        rows = (load(piece.store, 0, piece.rows * shape.width) for piece in pieces)
        sections[f"{name} rows"] = _write_section(file, rows)
    terms = [own for part in parts for own in part.terms]
    firsts = accumulate((len(part.terms) for part in parts), initial=0)
    sections["parts"] = _write_section(file, map(NUMBER.pack, firsts))
    sections["offsets"] = _write_section(file, map(OFFSET.pack, accumulate(map(len, terms), initial=0)))
    sections["terms"] = _write_section(file, terms)
    directory = Directory(
        tables=tables,
        sections=sections,
        deepest_host=max((part.deepest_host for part in parts), default=DEEPEST_HOST),
        deepest_path=max((part.deepest_path for part in parts), default=DEEPEST_PATH),
        has_hashes=any(part.has_hashes for part in parts),
        ranges=tuple(sorted({own for part in parts for own in part.ranges}, reverse=True)),
        rules=_rules_by_layer(parts, merged),
        mixed=tuple(_mixed_layers(parts)),
    )
    _write_directory(file, directory)
    return directory


def append(file: BinaryIO, directory: Directory, name: str, octets: bytes) -> None:
    """Add a section to a finished index file."""
    directory.sections[name] = _write_section(file, [octets])
    _write_directory(file, directory)


def _write_section(file: BinaryIO, pieces: Iterable[bytes]) -> FileSection:
    file.write(bytes(-file.tell() % _ALIGNMENT))
    offset, crc = file.tell(), 0
    for piece in pieces:
        file.write(piece)
        crc = zlib.crc32(piece, crc)
    return FileSection(offset, file.tell() - offset, crc)


def _write_directory(file: BinaryIO, directory: Directory) -> None:
    text = directory.to_json()
    file.write(text)
    length = file.tell()
    header = HEADER.pack(MAGIC, VERSION, 1, length, len(text), zlib.crc32(text))
    file.seek(0)
    file.write(header + CRC.pack(zlib.crc32(header)))
    file.seek(length)


def _fan(shape: Shape, pieces: Sequence[TablePiece]) -> bytes:
    counts = array("I")
    for piece in pieces:
        start = piece.rows * (shape.width + shape.tail)
        counts.frombytes(load(piece.store, start, start + 4 * piece.buckets))
    return array("I", accumulate(counts, initial=0)).tobytes()


def _tails(shape: Shape, piece: TablePiece) -> bytes:
    start = piece.rows * shape.width
    return load(piece.store, start, start + piece.rows * shape.tail)


def _rules_by_layer(parts: Sequence[CollectedPart], merged: Mapping[str, Merged]) -> dict[str, int]:
    duplicates = duplicates_of(merged)
    rules: Counter[str] = Counter()
    for part in parts:
        rules[part.layer] += part.rules - duplicates[part.number]
    return dict(rules)


def _mixed_layers(parts: Sequence[CollectedPart]) -> Iterator[str]:
    for layer in dict.fromkeys(part.layer for part in parts):
        if len(FINAL.keys() & set().union(*(part.actions for part in parts if part.layer == layer))) > 1:
            yield layer


def duplicates_of(merged: Mapping[str, Merged]) -> Counter[int]:
    """Part -> how many of its rules were left out as duplicates."""
    return sum((piece.duplicates for own in merged.values() for piece in own.pieces), Counter[int]())


# -- all three ---------------------------------------------------------------------------------------------------------


def index_of(rules: Iterable[Rule]) -> Index:
    """An index in memory, for a few rules.

    >>> from hushlist.url.parts import split_web
    >>> rule = Rule(Expression(b"h.example/"), Terms(Action.BLOCK, "list", "file"), 1)
    >>> [match.text for match in index_of([rule]).find(split_web(b"http://www.h.example/x"))]
    ['h.example/']
    """
    parts = []
    for number, (layer, own) in enumerate(groupby(rules, lambda rule: rule.terms.layer)):
        collector = RunCollector(number, layer)
        collector.add(own)
        parts.append(collector.finish())
    file = BytesIO()
    assemble(file, parts, merge_all(parts))
    return Index(file.getvalue())
