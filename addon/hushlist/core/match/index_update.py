"""Writes an index from an earlier one of which few rules have changed: all other rows are copied as they are.

    the changes of lists -> for each key that they touch: its rows now -> the sections, with these rows in their places

Rules that came are one new part for each list. The numbers of lines in rows stay as they were when these were read:
``LineRuns`` say what became of them. What is found, and in which order, is what an index that is made anew would find.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import accumulate, islice
from operator import sub
from typing import BinaryIO, NamedTuple

from hushlist.core.match.index import Index
from hushlist.core.match.index_file import (
    GUIDE,
    LINES,
    NUMBER,
    OFFSET,
    PIECE,
    Directory,
    FileSection,
    duplicates_section,
)
from hushlist.core.match.index_table import MARKS, PLACE, Shape, filter_length, first_bits
from hushlist.core.match.index_writer import write_directory, write_section, write_start
from hushlist.core.match.line_numbers import LineRuns
from hushlist.core.match.rule_collector import MOST_PARTS, CollectedPart
from hushlist.core.match.sorted_runs import load

#: runs of lines that moved together, of all lists: each look-up that finds a rule looks into them
MOST_RUNS = 1 << 17


class NotByUpdate(Exception):  # noqa: N818  it is no error: the index is made anew
    """An update cannot make this index; says why."""


class ListUpdate(NamedTuple):
    """What has changed in a list."""

    #: counts the lists of all layers, from 0
    number: int
    moved: LineRuns
    #: table -> key -> the lines, as they were, whose rules with that key are gone
    gone: Mapping[str, Mapping[bytes, Set[int]]]
    #: the rules that came, a part behind all others; with the lines as they are now
    came: CollectedPart


class Updated(NamedTuple):
    directory: Directory
    #: list -> how many more rules and duplicates it has
    kept: Counter[int]
    duplicates: Counter[int]


class _Edit(NamedTuple):
    """Rows in the place of those from ``first`` to before ``last``."""

    first: int
    last: int
    rows: list[bytes]


class _Rows:
    """The sorted rows of a section."""

    def __init__(self, octets: memoryview, key: int) -> None:
        self.octets, self._key, self.width = octets, key, key + PLACE.size

    def __len__(self) -> int:
        return len(self.octets) // self.width

    def key(self, place: int) -> bytes:
        at = place * self.width
        return self.octets[at : at + self._key].tobytes()

    def span(self, key: bytes, first: int, last: int) -> tuple[int, int]:
        """The places of a key's rows among those from ``first`` to before ``last``."""
        start = end = first + bisect_left(range(first, last), key, key=self.key)
        while end < last and self.key(end) == key:
            end += 1
        return start, end

    def some(self, first: int, last: int) -> list[bytes]:
        width = self.width
        return [self.octets[at : at + width].tobytes() for at in range(first * width, last * width, width)]


class _Base:
    """The index before, and what has changed."""

    def __init__(self, index: Index, lists: Sequence[int], updates: Iterable[ListUpdate]) -> None:
        self.index = index
        self.updates = {update.number: update for update in updates}
        self.parts = {update.came.number: update.came for update in updates}
        #: the list of each part
        self.lists = [*lists, *self.updates]
        self.of_parts, self.runs = index.line_runs()
        self._firsts = index.mapped("parts").cast("I")
        self._offsets = index.mapped("offsets").cast("Q")
        self._terms = index.mapped("terms")

    def line_before(self, part: int, line: int) -> int:
        """The line of a row as it was in the version before."""
        number = self.of_parts[part] if part < len(self.of_parts) else 0
        return self.runs[number - 1].now(line) if number else line

    def is_gone(self, table: str, row: bytes) -> bool:
        size = len(row) - PLACE.size
        part, line, terms = PLACE.unpack_from(row, size)
        if terms == GUIDE or (update := self.updates.get(self.lists[part])) is None:
            return False
        lines = update.gone.get(table, {}).get(row[:size])
        return lines is not None and self.line_before(part, line) in lines

    def place(self, row: bytes) -> tuple[int, int, int]:
        """By what the rows of a key are sorted: list, line, terms; guides are behind all others."""
        part, line, terms = PLACE.unpack_from(row, len(row) - PLACE.size)
        if terms == GUIDE:
            return MOST_PARTS, line, terms
        if part in self.parts:
            return self.lists[part], line, terms
        number, line = self.lists[part], self.line_before(part, line)
        update = self.updates.get(number)
        return number, line if update is None else update.moved.now(line), terms

    def identity(self, row: bytes) -> bytes:
        """What tells whether a row repeats another one of its key."""
        part, line, terms = PLACE.unpack_from(row, len(row) - PLACE.size)
        if terms == GUIDE:
            return NUMBER.pack(line)
        if part in self.parts:
            return self.parts[part].terms[int(terms)]
        at = self._firsts[part] + terms
        return bytes(self._terms[self._offsets[at] : self._offsets[at + 1]])

    def lists_of(self, rows: Iterable[bytes]) -> Iterator[int]:
        """The list of each row that is a rule."""
        for row in rows:
            part, _, terms = PLACE.unpack_from(row, len(row) - PLACE.size)
            if terms != GUIDE:
                yield self.lists[part]

    @cached_property
    def runs_now(self) -> tuple[array[int], list[LineRuns]]:
        """What ``line_runs`` gives, now."""
        numbers: dict[tuple[int | None, int], int] = {}
        runs, of_parts = list[LineRuns](), array("I")
        for part, of_list in enumerate(self.lists):
            before = 0 if part in self.parts or not self.of_parts else self.of_parts[part]
            update = None if part in self.parts else self.updates.get(of_list)
            number = 0
            if before or update is not None:
                key = (None if update is None else of_list, before)
                if key not in numbers:
                    run = self.runs[before - 1] if before else None
                    after = run if update is None else update.moved if run is None else run.then(update.moved)
                    assert after is not None
                    runs.append(after)
                    numbers[key] = len(runs)
                number = numbers[key]
            of_parts.append(number)
        if sum(len(run.firsts) for run in runs) > MOST_RUNS:
            raise NotByUpdate("too many lines have moved since it was made anew")
        return of_parts, runs


class _TableUpdate:
    """The rows of a table that are other ones now."""

    def __init__(self, name: str, base: _Base) -> None:
        self.name, self._base = name, base
        shape = base.index.directory.tables.get(name)
        if shape is None:
            raise NotByUpdate(f"it has no table {name!r}")
        self.shape = shape
        sections = base.index.directory.sections
        self.rows = _Rows(base.index.mapped(f"{name} rows"), shape.key)
        section = duplicates_section(name)
        self.duplicates = _Rows(base.index.mapped(section) if section in sections else memoryview(b""), shape.key)
        self._fan = base.index.mapped(f"{name} fan").cast("I")
        came = defaultdict[bytes, list[bytes]](list)
        for part in base.parts.values():
            for row in self.rows_of(part):
                came[row[: shape.key]].append(row)
        self.came = came.keys()
        self.row_edits, self.duplicate_edits = list[_Edit](), list[_Edit]()
        #: the rows of keys that changed, now and before: of the table, and duplicates
        self._now, self._before = (list[bytes](), list[bytes]()), (list[bytes](), list[bytes]())
        gone = (update.gone.get(name, {}) for update in base.updates.values())
        for key in sorted(set(came).union(*gone)):
            self._update(key, came.get(key, []))
        self.kept, self.repeated = map(self._more, self._now, self._before)

    def rows_of(self, part: CollectedPart) -> Iterator[bytes]:
        if (run := part.runs.get(self.name)) is not None:
            octets, width = load(run.rows), self.shape.width
            yield from (octets[at : at + width] for at in range(0, len(octets), width))

    def _update(self, key: bytes, came: list[bytes]) -> None:
        base = self._base
        bucket = first_bits(key)[0] >> 32 - self.shape.bits
        span = self.rows.span(key, self._fan[bucket], self._fan[bucket + 1])
        repeated = self.duplicates.span(key, 0, len(self.duplicates)) if len(self.duplicates) else (0, 0)
        before, duplicates_before = self.rows.some(*span), self.duplicates.some(*repeated)
        every = [row for row in (*before, *duplicates_before) if not base.is_gone(self.name, row)] + came
        now, duplicates = every, list[bytes]()
        if len(every) > 1:
            now, seen = [], set[bytes]()
            for row in sorted(every, key=base.place):
                identity = base.identity(row)
                (duplicates if identity in seen else now).append(row)
                seen.add(identity)
        for every_row, some in zip(
            (*self._now, *self._before), (now, duplicates, before, duplicates_before), strict=True
        ):
            every_row += some
        if now != before:
            self.row_edits.append(_Edit(*span, now))
        if duplicates != duplicates_before:
            self.duplicate_edits.append(_Edit(*repeated, duplicates))

    def _more(self, now: Iterable[bytes], before: Iterable[bytes]) -> Counter[int]:
        """List -> how many more rules the rows now are."""
        more = Counter(self._base.lists_of(now))
        more.subtract(self._base.lists_of(before))
        return more

    def fan(self) -> bytes:
        fan = self._fan.tolist()
        counts = list(map(sub, islice(fan, 1, None), fan))
        shift = 32 - self.shape.bits
        for first, last, rows in self.row_edits:
            key = rows[0] if rows else self.rows.key(first)
            counts[first_bits(key)[0] >> shift] += len(rows) - (last - first)
        return array("I", accumulate(counts, initial=0)).tobytes()

    def tails(self) -> Iterator[bytes | memoryview]:
        start, length = self.shape.tail_at, self.shape.tail
        edits = [edit._replace(rows=[row[start : start + length] for row in edit.rows]) for edit in self.row_edits]
        return _with_edits(self._base.index.mapped(f"{self.name} tails"), length, edits)

    @property
    def count(self) -> int:
        return len(self.rows) + sum(len(edit.rows) - (edit.last - edit.first) for edit in self.row_edits)


def _with_edits(octets: memoryview, width: int, edits: Iterable[_Edit]) -> Iterator[bytes | memoryview]:
    some, size, at = list[bytes | memoryview](), 0, 0
    for first, last, rows in edits:
        same = octets[at * width : first * width]
        size += len(same)
        if size > PIECE:
            yield b"".join(some)
            yield from _pieces(same)
            some, size = [], 0
        else:
            some.append(same)
        some += rows
        at = last
    yield b"".join(some)
    yield from _pieces(octets[at * width :])


def _pieces(octets: memoryview) -> Iterator[memoryview]:
    return (octets[at : at + PIECE] for at in range(0, len(octets), PIECE))


def update_index(
    file: BinaryIO, index: Index, lists: Sequence[int], updates: Sequence[ListUpdate], without: Container[str]
) -> Updated:
    """Write the index with these changes; ``lists`` has the number of each part's list.

    Of other sections, those are left out that are in ``without``.

    Raises:
        NotByUpdate: it has to be made anew.
    """
    base = _Base(index, lists, updates)
    if len(base.lists) >= MOST_PARTS:
        raise NotByUpdate("it has too many parts")
    touched = {name for update in updates for name in (*update.gone, *update.came.runs)}
    tables = {name: _TableUpdate(name, base) for name in sorted(touched)}
    shapes = {
        name: Shape(tables[name].count, shape.key, shape.bits) if name in tables else shape
        for name, shape in index.directory.tables.items()
    }
    marks = _marks(index, tables.values(), sum(shape.count for shape in shapes.values()))
    of_parts, runs = base.runs_now
    terms = [stored for part in base.parts.values() for stored in part.terms]
    made: dict[str, Iterable[bytes | memoryview]] = {"filter": [bytes(marks)]}
    for name, table in tables.items():
        made[f"{name} fan"] = [table.fan()]
        made[f"{name} tails"] = table.tails()
        made[f"{name} rows"] = _with_edits(table.rows.octets, table.rows.width, table.row_edits)
        made[duplicates_section(name)] = _with_edits(table.duplicates.octets, table.rows.width, table.duplicate_edits)
    firsts = index.mapped("parts").cast("I")
    sums = accumulate((len(part.terms) for part in base.parts.values()), initial=firsts[-1])
    made["parts"] = [index.mapped("parts")[: -NUMBER.size], array("I", sums).tobytes()]
    offsets = index.mapped("offsets").cast("Q")
    lengths = accumulate(map(len, terms), initial=offsets[-1])
    made["offsets"] = [index.mapped("offsets")[: -OFFSET.size], array("Q", lengths).tobytes()]
    made["terms"] = [index.mapped("terms"), *terms]
    made[LINES] = [of_parts.tobytes()]
    for number, run in enumerate(runs, 1):
        made[f"{LINES} {number}"] = [array("I", run.numbers).tobytes()]
    sections: dict[str, FileSection] = {}
    write_start(file)
    for name in [*index.directory.sections, *(name for name in made if name not in index.directory.sections)]:
        if name in made:
            sections[name] = write_section(file, made[name])
        elif name not in without and not name.startswith(f"{LINES} "):
            sections[name] = write_section(file, _pieces(index.mapped(name)))
    directory = index.directory._replace(
        tables=shapes,
        sections=sections,
        # what is gone may have been the deepest: to look for more than there is finds nothing more
        deepest_host=max(index.directory.deepest_host, *(part.deepest_host for part in base.parts.values())),
        has_top_level=index.directory.has_top_level or any(part.has_top_level for part in base.parts.values()),
        rules=dict(index.directory.rules),
        schedules=tuple(
            sorted({name for part in base.parts.values() for name in part.schedules}.union(index.directory.schedules))
        ),
    )
    write_directory(file, directory)
    kept, duplicates = Counter[int](), Counter[int]()
    for table in tables.values():
        kept.update(table.kept)  # unlike "+", this keeps what is below 0
        duplicates.update(table.repeated)
    return Updated(directory, kept, duplicates)


def _marks(index: Index, tables: Iterable[_TableUpdate], keys: int) -> bytearray:
    """The filter, which has the keys that came; those that are gone may still be in it."""
    marks = bytearray(index.mapped("filter"))
    if len(marks) < filter_length(keys):
        raise NotByUpdate("its filter is too short")
    shift = 33 - len(marks).bit_length()
    for table in tables:
        for key in table.came:
            (first,) = first_bits(key)
            marks[first >> shift] &= ~MARKS[first & 255]
    return marks
