"""Writes an index file, in three steps that processes can share:

1. ``RunCollector`` turns the rules of one part of the sources into rows, in one sorted *run* for each table.
2. ``merge_runs`` merges the rows of all runs in one range of keys into one *piece* of a table.
3. ``assemble`` writes the pieces in order, with the fan-out, as an index file.

A step needs memory for one part or one piece, not for all rules. Its result can be in files.

A *duplicate* repeats a rule of the same list, with the same pattern and the same terms. It is left out. So is
a rule for a host that an Adblock list has, and that a ``badfilter`` of any Adblock list in its layer takes back.
"""

from __future__ import annotations

import pickle
import zlib
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from hashlib import sha256
from io import BytesIO
from ipaddress import IPv4Network, IPv6Network
from itertools import accumulate, chain, compress, count, groupby, islice, repeat
from operator import eq, or_
from pathlib import Path
from struct import Struct
from tempfile import NamedTemporaryFile
from typing import Any, BinaryIO, NamedTuple

from hushlist.match.checks import Check
from hushlist.match.expressions import DEEPEST_HOST, DEEPEST_PATH, full_hash
from hushlist.match.filters.filter_table import WordedFilter, table_sections, worded
from hushlist.match.filters.network_filter import NetworkFilter
from hushlist.match.index import Index
from hushlist.match.index_file import (
    ALLOWING,
    CATEGORIZED,
    CRC,
    EXPRESSIONS,
    FILTERED,
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
from hushlist.match.index_table import MARKS, PLACE, Shape, bits_for, filter_length
from hushlist.match.rule import (
    FINAL,
    Action,
    Anything,
    Expression,
    ExpressionHash,
    Ordered,
    Rule,
    RuleBlock,
    Terms,
    WholeUrl,
)
from hushlist.url.hashed_uri import HashedUri
from hushlist.url.parts import split_web
from hushlist.url.request import canonical_url

#: rows number parts with 16 bits; the last number means no part
MOST_PARTS = (1 << 16) - 1
#: a table with fewer rows than this is merged as one piece
FEW_ROWS = 1 << 17
_OCTETS = 256
#: octets of a row's part, behind its key
_PART = 2
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
    by_octet: list[list[bytes]] = [[] for _ in range(_OCTETS)]
    for row in rows:
        by_octet[row[0]].append(row)
    for own in by_octet:  # many short lists are sorted faster than a long one
        own.sort()
    starts = array("I", accumulate(map(len, by_octet), initial=0))
    return SortedRun(store(b"".join(chain.from_iterable(by_octet)), folder), starts)


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
    rows = Struct(f"{width}s" * (len(octets) // width)).unpack(octets)
    return sorted(rows)  # runs are sorted, so that this merges them


class Candidates(NamedTuple):
    """Rules in the clear that broader ones may cover, in the order of a list: expressions and lines."""

    action: Action
    expressions: list[bytes]
    lines: list[int]


#: expressions of whole hosts -> those that may be broad
Suspects = Callable[[Sequence[bytes]], Container[bytes]]
#: rules that are collected at once
_AT_ONCE = 1 << 12
#: all octets but dots and line ends
_NO_DOTS = bytes({*range(256)}.difference(b".\n"))


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
    #: whether a rule in the clear has a host of one label
    has_top_level: bool = False
    #: rules that are hashes which may be of paths, hashed URIs, or filters that name no host; and rules in the clear
    #: for less than a host
    opaque: int = 0
    below_hosts: int = 0
    ranges: set[tuple[int, int]] = field(default_factory=set)
    #: its network filters with their words; whether some may fit on any host
    filters: Stored = b""
    has_general_filters: bool = False
    #: whether its rules for hosts are filters; keys of such rules that its filters take back, in all parts of the layer
    is_of_filters: bool = False
    taken_back: set[bytes] = field(default_factory=set)
    actions: set[Action] = field(default_factory=set)
    #: the collector's candidates, and its rules for address ranges; and how many candidates
    candidates: Stored = b""
    candidates_number: int = 0


class RunCollector:
    """Turns the rules of one part into rows; a part has one layer."""

    def __init__(self, number: int, layer: str = "", *, is_of_filters: bool = False) -> None:
        """``number``: the part's number in the order of the sources, below ``MOST_PARTS``."""
        self._part = CollectedPart(number, layer, {}, [], 0, DEEPEST_HOST, DEEPEST_PATH, has_hashes=False)
        self._part.is_of_filters = is_of_filters
        self._rows: dict[str, list[bytes]] = {EXPRESSIONS: []}
        #: host -> bits of the rules below it
        self._guides: dict[bytes, int] = {}
        self._filters: list[WordedFilter] = []
        self._filter_guides: dict[bytes, int] = {}
        self._numbers: dict[tuple[Terms, bool], int] = {}
        self.candidates: list[Candidates] = []
        #: broad rules for whole hosts, and all rules for address ranges
        self.broad: list[Rule] = []

    def add(self, rules: Iterable[Rule | RuleBlock], suspects: Suspects = lambda _: ()) -> None:
        """Add rules; those for whole hosts that are among the ``suspects`` go to ``broad``, too."""
        expressions, lines, own_terms = list[bytes](), list[int](), None
        for rule in rules:
            if isinstance(rule, Rule) and type(rule.pattern) is not Expression:
                self._add_block(expressions, own_terms, lines, suspects)
                expressions, lines, own_terms = [], [], None
                self._part.rules += 1
                self._add_other(rule)
                continue
            if rule.terms is not own_terms or len(lines) >= _AT_ONCE:
                self._add_block(expressions, own_terms, lines, suspects)
                expressions, lines, own_terms = [], [], rule.terms
            if isinstance(rule, RuleBlock):
                expressions += rule.expressions
                lines += rule.lines
            elif type(rule.pattern) is Expression:
                expressions.append(rule.pattern.value)
                lines.append(rule.line)
        self._add_block(expressions, own_terms, lines, suspects)

    def _add_block(
        self, expressions: Sequence[bytes], terms: Terms | None, lines: Sequence[int], suspects: Suspects
    ) -> None:
        """Add rules in the clear with the same terms. Compiling spends much of its time here: few steps for each."""
        if terms is None:
            return
        part = self._part
        part.rules += len(expressions)
        places = map(PLACE.pack, repeat(part.number), lines, repeat(self._number_of(terms, is_clear=True)))
        self._rows[EXPRESSIONS] += [sha256(own).digest() + place for own, place in zip(expressions, places)]  # noqa: B905
        found = self._candidates_of(terms)
        joined = b"\n".join(expressions) + b"\n"
        if joined.count(b"/\n") == joined.count(b"/") == len(expressions):
            hosts = expressions
            dots = joined.translate(None, _NO_DOTS)  # of each line
            # "the index records the deepest host and path among clear rules"
            while b"." * part.deepest_host in dots:
                part.deepest_host += 1
            if dots.startswith(b"\n") or b"\n\n" in dots:
                part.has_top_level = part.has_top_level or any(map(_is_top_level, expressions))
            has_parent = dots.replace(b".\n", b"\n").split(b"\n")  # an empty line is false
            found.expressions.extend(compress(expressions, has_parent))
            found.lines.extend(compress(lines, has_parent))
        else:
            hosts = self._add_paths(expressions, lines, found, _bits_of(terms))
        if broad := suspects(hosts):
            rules = zip(expressions, lines, strict=True)
            self.broad += [Rule(Expression(value), terms, line) for value, line in rules if value in broad]

    def _add_paths(
        self, expressions: Sequence[bytes], lines: Sequence[int], found: Candidates, bits: int
    ) -> list[bytes]:
        """Note candidates, guides and depths of expressions, some of them with paths; gives those without one."""
        part, hosts = self._part, []
        deepest_host, deepest_path = part.deepest_host, part.deepest_path
        for value, line in zip(expressions, lines, strict=True):
            end = value.find(b"/")
            labels = value.count(b".", 0, end) + 1
            if labels > deepest_host:
                deepest_host = labels
            elif labels == 1:
                part.has_top_level = part.has_top_level or _is_top_level(value)
            if end + 1 == len(value):
                hosts.append(value)
                if labels < 3:
                    continue
            else:
                deepest_path = max(deepest_path, value.partition(b"?")[0].count(b"/") - 1)
                host = value[: end + 1]
                self._guides[host] = self._guides.get(host, 0) | bits
            found.expressions.append(value)
            found.lines.append(line)
        part.deepest_host, part.deepest_path = deepest_host, deepest_path
        part.below_hosts += len(expressions) - len(hosts)
        return hosts

    def _candidates_of(self, terms: Terms) -> Candidates:
        """Where the next candidates with such terms are put."""
        if not self.candidates or self.candidates[-1].action is not terms.action:
            self.candidates.append(Candidates(terms.action, [], []))
        return self.candidates[-1]

    def _add_other(self, rule: Rule) -> None:
        pattern, terms, line = rule
        assert not isinstance(pattern, Check | Anything | Ordered), "it is no part of an index"
        if isinstance(pattern, ExpressionHash):
            self._part.has_hashes = True
            self._part.opaque += not pattern.is_of_host
        elif isinstance(pattern, HashedUri):
            self._part.opaque += 1
        elif isinstance(pattern, WholeUrl):
            host = split_web(canonical_url(pattern.value)).host or b""
            self._part.deepest_host = max(self._part.deepest_host, host.count(b".") + 1)
            self._guides[host + b"/"] = self._guides.get(host + b"/", 0) | _bits_of(terms)
            self._part.below_hosts += 1
        elif isinstance(pattern, NetworkFilter):
            self._add_filter(pattern, terms)
        elif isinstance(pattern, IPv4Network | IPv6Network):
            self._part.ranges.add((pattern.version, pattern.prefixlen))
            self.broad.append(rule)
        table, key = table_key(pattern)
        row = key + PLACE.pack(self._part.number, line, self._number_of(terms, is_clear=False))
        self._rows.setdefault(table, []).append(row)

    def _add_filter(self, pattern: NetworkFilter, terms: Terms) -> None:
        if pattern.is_badfilter:
            if (host := pattern.whole_host) and not (pattern.is_exception or pattern.is_important):
                self._part.taken_back.add(full_hash(host + b"/"))
            return
        self._filters.append(worded(pattern))
        if pattern.is_of_hosts:
            return
        if host := pattern.guide:
            self._part.deepest_host = max(self._part.deepest_host, host.count(b".") + 1)
            self._filter_guides[host + b"/"] = self._filter_guides.get(host + b"/", FILTERED) | _bits_of(terms)
            self._part.below_hosts += 1
        else:
            self._part.has_general_filters = True
            self._part.opaque += 1

    def _number_of(self, terms: Terms, *, is_clear: bool) -> int:
        number = self._numbers.setdefault((terms, is_clear), len(self._numbers))
        if number == len(self._part.terms):
            self._part.terms.append(encode_terms(terms, is_clear=is_clear))
            self._part.actions.add(terms.action)
        return number

    def finish(self, folder: Path | None = None) -> CollectedPart:
        """The part with its sorted runs and candidates, which go to files of the folder if one is given."""
        guides = chain(self._guides.items(), self._filter_guides.items())
        self._rows[EXPRESSIONS] += (full_hash(host) + PLACE.pack(MOST_PARTS, bits, GUIDE) for host, bits in guides)
        self._part.filters = spill(self._filters, folder) if self._filters else b""
        self._part.runs = {name: sorted_run(rows, folder) for name, rows in self._rows.items()}
        ranges = [rule for rule in self.broad if isinstance(rule.pattern, IPv4Network | IPv6Network)]
        self._part.candidates = spill((self.candidates, ranges), folder)
        self._part.candidates_number = sum(len(own.lines) for own in self.candidates)
        return self._part


def _is_top_level(expression: bytes) -> bool:
    """Whether its host has one label, and is no IPv6 address."""
    return b"." not in expression.partition(b"/")[0] and not expression.startswith(b"[")


def _bits_of(terms: Terms) -> int:
    """The bits that a guide gets from a rule below it."""
    if terms.action is Action.ALLOW:
        return ALLOWING
    return CATEGORIZED if terms.category is not None and terms.action is not Action.TAG else 0


# -- 2: merging --------------------------------------------------------------------------------------------------------


class TablePiece(NamedTuple):
    """A table's rows in one range of keys."""

    rows: Stored
    tails: Stored
    #: how many keys each bucket of the fan-out has, as 32 bits each
    buckets: Stored
    #: what it marks of the filter
    marks: Stored
    #: how many rows
    number: int
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
    #: octets of the whole filter
    marks: int
    #: part -> the keys of those of its rules that are taken back
    taken_back: Mapping[int, Set[bytes]]


def merge_tasks(parts: Sequence[CollectedPart]) -> dict[str, list[MergeTask]]:
    """The tasks of each table, in the order of the keys."""
    known: dict[bytes, int] = {}
    identities = tuple(array("I", (known.setdefault(own, len(known)) for own in part.terms)) for part in parts)
    names = sorted({EXPRESSIONS, *(name for part in parts for name in part.runs)})
    runs = {name: tuple(part.runs[name] for part in parts if name in part.runs) for name in names}
    counts = {name: sum(run.starts[-1] for run in own) for name, own in runs.items()}
    marks = filter_length(sum(counts.values()))
    by_layer: dict[str, set[bytes]] = {}
    for part in parts:
        by_layer.setdefault(part.layer, set()).update(part.taken_back)
    taken_back = {part.number: own for part in parts if part.is_of_filters and (own := by_layer[part.layer])}
    found: dict[str, list[MergeTask]] = {}
    for name, rows in counts.items():
        shape = Shape(rows, key_length(name), bits_for(rows))
        task = MergeTask(runs[name], shape, 0, 0, identities, marks, taken_back if name == EXPRESSIONS else {})
        found[name] = [task._replace(first=first, last=last) for first, last in key_ranges(rows)]
    return found


def sorted_rows(task: MergeTask) -> list[bytes]:
    """A task's rows, duplicates included, sorted by key; rows of one key keep the order of the sources."""
    return rows_in_range(task.runs, task.shape.width, task.first, task.last)


def merge_runs(task: MergeTask, folder: Path | None = None) -> TablePiece:
    """Merge a task's rows into a piece, in a file of the folder if one is given."""
    _, shape, first, last, identities, length, taken_back = task
    size = shape.key
    rows = sorted_rows(task)
    column = bytearray(_column(b"".join(rows), shape.width, 0, 4))
    # A piece begins where a bucket does, and an octet of the filter: both are counted from there.
    column[::4] = column[::4].translate(bytes((octet - first) % _OCTETS for octet in range(_OCTETS)))
    firsts = Struct(f">{len(rows)}I").unpack(column)
    duplicates: Counter[int] = Counter()
    kept = bytearray(b"\1") * len(rows)
    for position in chain(_duplicates(rows, firsts, size, identities), _taken_back(rows, size, taken_back)):
        part, _, terms = PLACE.unpack_from(rows[position], size)
        duplicates[part] += kept[position] and terms != GUIDE
        kept[position] = 0
    octets = b"".join(compress(rows, kept))
    buckets = [0] * max(1, (last - first << 24) >> 32 - shape.bits)
    marks = bytearray((last - first) * length >> 8)
    of_bucket, of_mark = 32 - shape.bits, 33 - length.bit_length()
    for own, mark in zip(compress(firsts, kept), octets[3 :: shape.width].translate(MARKS), strict=True):
        buckets[own >> of_bucket] += 1
        marks[own >> of_mark] |= mark
    return TablePiece(
        store(octets, folder),
        store(_column(octets, shape.width, shape.tail_at, shape.tail), folder),
        store(array("I", buckets).tobytes(), folder),
        store(bytes(marks), folder),
        len(octets) // shape.width,
        duplicates,
    )


def _column(octets: bytes, width: int, start: int, length: int) -> bytes:
    """The same few octets of every row.

    >>> _column(b"ab12cd34", 4, 1, 2)
    b'b1d3'
    """
    column = bytearray(len(octets) // width * length)
    for at in range(length):
        column[at::length] = octets[start + at :: width]
    return bytes(column)


def _duplicates(
    rows: Sequence[bytes], firsts: Sequence[int], size: int, identities: Sequence[array[int]]
) -> Iterator[int]:
    """The positions of rows that repeat the key, of so many octets, and the identity of an earlier row.

    ``firsts``: the first 32 bits of each; nearly always, rows that have them in common have the key in common.
    """
    # Where no identity is in two parts, only rows of the same part can repeat each other: these are neighbours.
    is_apart = sum(map(len, identities)) == len(set().union(*identities))
    end = size + _PART if is_apart else size
    unpack, last = PLACE.unpack_from, -1
    seen: set[int] = set()
    for position in compress(count(1), map(eq, firsts, islice(firsts, 1, None))):
        if rows[position - 1][:end] != rows[position][:end]:
            continue
        if position - 1 != last:
            part, line, terms = unpack(rows[position - 1], size)
            seen = {-1 - line if terms == GUIDE else identities[part][terms]}
        last = position
        part, line, terms = unpack(rows[position], size)
        identity = -1 - line if terms == GUIDE else identities[part][terms]
        if identity in seen:
            yield position
        seen.add(identity)


def _taken_back(rows: Sequence[bytes], size: int, taken_back: Mapping[int, Set[bytes]]) -> Iterator[int]:
    """The positions of rows that filters take back."""
    for key in set().union(*taken_back.values()):
        for position in range(bisect_left(rows, key), len(rows)):
            if not rows[position].startswith(key):
                break
            part, _, terms = PLACE.unpack_from(rows[position], size)
            if terms != GUIDE and key in taken_back.get(part, ()):
                yield position


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
        tables[name] = replace(shape, count=sum(piece.number for piece in pieces))
        counts = array("I", b"".join([load(piece.buckets) for piece in pieces]))
        sections[f"{name} fan"] = _write_section(file, [array("I", accumulate(counts, initial=0)).tobytes()])
        sections[f"{name} tails"] = _write_section(file, (load(piece.tails) for piece in pieces))
    sections["filter"] = _write_section(file, [_union(merged)])
    for name, (_, pieces) in merged.items():
        sections[f"{name} rows"] = _write_section(file, (load(piece.rows) for piece in pieces))
    terms = [own for part in parts for own in part.terms]
    firsts = accumulate((len(part.terms) for part in parts), initial=0)
    filters = [own for part in parts if part.filters for own in unspill(part.filters)]
    if filters:
        sections |= {name: _write_section(file, [octets]) for name, octets in table_sections(filters).items()}
    sections["parts"] = _write_section(file, map(NUMBER.pack, firsts))
    sections["offsets"] = _write_section(file, map(OFFSET.pack, accumulate(map(len, terms), initial=0)))
    sections["terms"] = _write_section(file, terms)
    directory = Directory(
        tables=tables,
        sections=sections,
        deepest_host=max((part.deepest_host for part in parts), default=DEEPEST_HOST),
        deepest_path=max((part.deepest_path for part in parts), default=DEEPEST_PATH),
        has_top_level=any(part.has_top_level for part in parts),
        has_hashes=any(part.has_hashes for part in parts),
        ranges=tuple(sorted({own for part in parts for own in part.ranges}, reverse=True)),
        rules=_rules_by_layer(parts, merged),
        mixed=tuple(_mixed_layers(parts)),
        opaque=tuple(dict.fromkeys(part.layer for part in parts if part.opaque)),
        has_general_filters=any(part.has_general_filters for part in parts),
    )
    _write_directory(file, directory)
    return directory


def _union(merged: Mapping[str, Merged]) -> bytes:
    """The filter of all tables: every mark of one of them is 0."""
    marks = [b"".join([load(piece.marks) for piece in own.pieces]) for own in merged.values()]
    every = reduce(or_, (int.from_bytes(own, "little") for own in marks))
    length = max(map(len, marks))
    return ((1 << 8 * length) - 1 - every).to_bytes(length, "little")


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
