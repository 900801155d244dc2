"""Writes an index file, in three steps that processes can share:

1. ``RunCollector`` (``rule_collector``) turns the rules of one part of the sources into rows, in one sorted *run* for
   each table (``sorted_runs``).
2. ``merge_runs`` merges the rows of all runs in one range of keys into one *piece* of a table.
3. ``assemble`` writes the pieces in order, with the fan-out, as an index file.

A step needs memory for one part or one piece, not for all rules. Its result can be in files.

A *duplicate* repeats a rule of the same list, with the same pattern and the same terms. It is left out. So is
a rule for a host that an Adblock list has, and that a ``badfilter`` of any Adblock list in its layer takes back.
"""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial, reduce
from itertools import accumulate, compress, count, islice
from operator import eq, or_
from pathlib import Path
from struct import Struct
from typing import BinaryIO, NamedTuple

from hushlist.core.match.expressions import DEEPEST_HOST, DEEPEST_PATH
from hushlist.core.match.index_file import (
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
    decode_terms,
    duplicates_section,
    key_length,
)
from hushlist.core.match.index_table import MARKS, PLACE, Shape, bits_for, filter_length
from hushlist.core.match.matcher import matcher_of
from hushlist.core.match.rule import FINAL
from hushlist.core.match.rule_collector import CollectedPart
from hushlist.core.match.sorted_runs import OCTETS, SortedRun, Stored, key_ranges, load, rows_in_range, store, unspill

#: octets of a row's part, behind its key
_PART = 2
_ALIGNMENT = 64


# -- merging -----------------------------------------------------------------------------------------------------------


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
    #: the rows that are left out as duplicates
    duplicate_rows: Stored


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
    numbers: dict[bytes, int] = {}
    identities = tuple(array("I", (numbers.setdefault(terms, len(numbers)) for terms in part.terms)) for part in parts)
    names = sorted({EXPRESSIONS, *(name for part in parts for name in part.runs)})
    runs = {name: tuple(part.runs[name] for part in parts if name in part.runs) for name in names}
    counts = {name: sum(run.starts[-1] for run in runs_of_table) for name, runs_of_table in runs.items()}
    marks = filter_length(sum(counts.values()))
    by_layer: dict[str, set[bytes]] = {}
    for part in parts:
        by_layer.setdefault(part.layer, set()).update(part.taken_back)
    taken_back = {part.number: digests for part in parts if part.is_of_filters and (digests := by_layer[part.layer])}
    tasks: dict[str, list[MergeTask]] = {}
    for name, rows in counts.items():
        shape = Shape(rows, key_length(name), bits_for(rows))
        task = MergeTask(runs[name], shape, 0, 0, identities, marks, taken_back if name == EXPRESSIONS else {})
        tasks[name] = [task._replace(first=first, last=last) for first, last in key_ranges(rows)]
    return tasks


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
    column[::4] = column[::4].translate(bytes((octet - first) % OCTETS for octet in range(OCTETS)))
    firsts = Struct(f">{len(rows)}I").unpack(column)
    duplicates: Counter[int] = Counter()
    kept = bytearray(b"\1") * len(rows)
    duplicate_rows = list[bytes]()
    for position in _taken_back(rows, size, taken_back):
        duplicates[PLACE.unpack_from(rows[position], size)[0]] += kept[position]
        kept[position] = 0
    for position in _duplicates(rows, firsts, size, identities):
        part, _, terms = PLACE.unpack_from(rows[position], size)
        if kept[position] and terms != GUIDE:
            duplicates[part] += 1
            duplicate_rows.append(rows[position])
        kept[position] = 0
    octets = b"".join(compress(rows, kept))
    buckets = [0] * max(1, (last - first << 24) >> 32 - shape.bits)
    marks = bytearray((last - first) * length >> 8)
    of_bucket, of_mark = 32 - shape.bits, 33 - length.bit_length()
    for first_octets, mark in zip(compress(firsts, kept), octets[3 :: shape.width].translate(MARKS), strict=True):
        buckets[first_octets >> of_bucket] += 1
        marks[first_octets >> of_mark] |= mark
    return TablePiece(
        store(octets, folder),
        store(_column(octets, shape.width, shape.tail_at, shape.tail), folder),
        store(array("I", buckets).tobytes(), folder),
        store(bytes(marks), folder),
        len(octets) // shape.width,
        duplicates,
        store(b"".join(duplicate_rows), folder),
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
    tasks = [task for tasks_of_table in by_table.values() for task in tasks_of_table]
    pieces = iter(apply(partial(merge_runs, folder=folder), tasks))
    return {
        name: Merged(tasks_of_table[0].shape, [next(pieces) for _ in tasks_of_table])
        for name, tasks_of_table in by_table.items()
    }


# -- assembling --------------------------------------------------------------------------------------------------------


def assemble(file: BinaryIO, parts: Sequence[CollectedPart], merged: Mapping[str, Merged]) -> Directory:
    """Write an index file; the caller gives the finished file its name."""
    sections: dict[str, FileSection] = {}
    tables: dict[str, Shape] = {}
    write_start(file)
    for name, (shape, pieces) in merged.items():  # the hot sections are next to each other
        tables[name] = Shape(sum(piece.number for piece in pieces), shape.key, shape.bits)
        counts = array("I", b"".join([load(piece.buckets) for piece in pieces]))
        sections[f"{name} fan"] = write_section(file, [array("I", accumulate(counts, initial=0)).tobytes()])
        sections[f"{name} tails"] = write_section(file, (load(piece.tails) for piece in pieces))
    sections["filter"] = write_section(file, [_union(merged)])
    for name, (_, pieces) in merged.items():
        sections[f"{name} rows"] = write_section(file, (load(piece.rows) for piece in pieces))
    for name, (_, pieces) in merged.items():
        if octets := b"".join([load(piece.duplicate_rows) for piece in pieces]):
            sections[duplicates_section(name)] = write_section(file, [octets])
    terms = [stored for part in parts for stored in part.terms]
    firsts = accumulate((len(part.terms) for part in parts), initial=0)
    filter_lists: dict[str, tuple[tuple[str, str], ...]] = {}
    for part in parts:
        part.left_out = []
    for extension in sorted({extension for part in parts for extension in part.filters}):
        filter_sections, filter_lists[extension] = _filters_of(extension, parts)
        sections |= {f"{extension} {name}": write_section(file, [octets]) for name, octets in filter_sections.items()}
    sections["parts"] = write_section(file, map(NUMBER.pack, firsts))
    sections["offsets"] = write_section(file, map(OFFSET.pack, accumulate(map(len, terms), initial=0)))
    sections["terms"] = write_section(file, terms)
    directory = Directory(
        tables=tables,
        sections=sections,
        deepest_host=max((part.deepest_host for part in parts), default=DEEPEST_HOST),
        deepest_path=max((part.deepest_path for part in parts), default=DEEPEST_PATH),
        has_top_level=any(part.has_top_level for part in parts),
        has_hashes=any(part.has_hashes for part in parts),
        ranges=tuple(sorted({network for part in parts for network in part.ranges}, reverse=True)),
        rules=_rules_by_layer(parts, merged),
        mixed=tuple(_mixed_layers(parts)),
        opaque=tuple(dict.fromkeys(part.layer for part in parts if part.opaque)),
        has_general_filters=any(part.has_general_filters for part in parts),
        schedules=tuple(sorted({name for part in parts for name in part.schedules})),
        filter_lists=filter_lists,
    )
    write_directory(file, directory)
    return directory


def _filters_of(
    extension: str, parts: Sequence[CollectedPart]
) -> tuple[Mapping[str, bytes], tuple[tuple[str, str], ...]]:
    """The sections of an extension's filters, and name and layer of each list; notes with parts what is left out."""
    by_list: dict[tuple[str, str], list[CollectedPart]] = {}
    names: dict[tuple[str, str], str] = {}
    for part in parts:
        if extension in part.filters:
            terms = decode_terms(part.terms[0])[1]
            by_list.setdefault((terms.source, part.layer), []).append(part)
            names[terms.source, part.layer] = terms.label
    filters = [
        [(part, row) for part in of_list for row in unspill(part.filters[extension])] for of_list in by_list.values()
    ]
    sections, left_out = matcher_of(extension).sections([[row for _, row in of_list] for of_list in filters])
    for of_list, left in zip(filters, left_out, strict=True):
        for place, line, text, why in left:
            of_list[place][0].left_out.append((line, text, why))
    return sections, tuple((names[key], key[1]) for key in by_list)


def _union(merged: Mapping[str, Merged]) -> bytes:
    """The filter of all tables: every mark of one of them is 0."""
    marks = [b"".join([load(piece.marks) for piece in marks_of_table.pieces]) for marks_of_table in merged.values()]
    every = reduce(or_, (int.from_bytes(marks_of_table, "little") for marks_of_table in marks))
    length = max(map(len, marks))
    return ((1 << 8 * length) - 1 - every).to_bytes(length, "little")


def append(file: BinaryIO, directory: Directory, name: str, octets: bytes) -> None:
    """Add a section to a finished index file."""
    directory.sections[name] = write_section(file, [octets])
    write_directory(file, directory)


def write_start(file: BinaryIO) -> None:
    """Leave room for the header of an index file, which comes with its directory."""
    file.write(bytes(SECTIONS_AT))


def write_section(file: BinaryIO, pieces: Iterable[bytes | memoryview]) -> FileSection:
    """Add a section to an index file, behind the others."""
    file.write(bytes(-file.tell() % _ALIGNMENT))
    offset, crc = file.tell(), 0
    for piece in pieces:
        file.write(piece)
        crc = zlib.crc32(piece, crc)
    return FileSection(offset, file.tell() - offset, crc)


def write_directory(file: BinaryIO, directory: Directory) -> None:
    """Add the directory, and write the header: the file is whole."""
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
    return sum((piece.duplicates for table in merged.values() for piece in table.pieces), Counter[int]())
