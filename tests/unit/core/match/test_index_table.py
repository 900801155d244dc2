"""A table, against a dictionary."""

from array import array
from collections.abc import Sequence
from hashlib import sha256
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.match.index_table import (
    MOST_BITS,
    PLACE,
    IndexTable,
    Shape,
    TableRow,
)
from unit.core.match.plain_index import STEADY
from unit.rows import each_row


class Reads:
    """Reads of a file, and how long each was."""

    def __init__(self, octets: bytes) -> None:
        self.octets, self.lengths = octets, list[int]()

    def __call__(self, offset: int, length: int) -> bytes:
        self.lengths.append(length)
        return self.octets[offset : offset + length]


def table_of(rows: Sequence[TableRow], key: int, bits: int) -> tuple[IndexTable, Reads]:
    """A table of rows, and the reads that it makes; one octet, and rubbish, stands before each of its sections."""
    rows = sorted(rows)
    shape = Shape(len(rows), key, bits)
    starts = [int.from_bytes(row.key[:4], "big") >> (32 - bits) for row in rows]
    fan = array("I", (sum(start < bucket for start in starts) for bucket in range((1 << bits) + 1))).tobytes()
    tails = b"".join(row.key[shape.tail_at : shape.tail_at + shape.tail] for row in rows)
    whole = b"".join(row.key + PLACE.pack(*row[1:]) for row in rows)
    assert tuple(map(len, (fan, tails, whole))) == shape.lengths
    octets, offsets = b"", []
    for section in (fan, tails, whole):
        octets += b"\0" * 4
        offsets.append(len(octets))
        octets += section
    read = Reads(octets + b"\0" * 4)
    return IndexTable(read.octets, read, shape, offsets), read


def plainly(rows: Sequence[TableRow], digest: bytes) -> list[TableRow]:
    return [row for row in sorted(rows) if digest.startswith(row.key)]


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[TableRow], int, int, list[bytes]]:
    """Rows, the length of their keys, bits, and digests to look for: of few octets, so that they begin alike."""
    key = draw(st.integers(4, 32))
    bits = draw(st.integers(0, 12))
    octet = st.sampled_from([0, 0, 1, 127, 128, 255])
    keys = st.lists(octet, min_size=key, max_size=key).map(bytes)
    rows = draw(
        st.lists(st.builds(TableRow, keys, st.integers(0, 65535), st.integers(0, 9), st.integers(0, 9)), max_size=30)
    )
    others = draw(st.lists(keys, max_size=5))
    digests = [own + bytes(32 - key) for own in [*(row.key for row in rows), *others]]
    return rows, key, bits, digests


@STEADY
@given(tables())
def test_finds_the_rows_whose_key_a_digest_begins_with(given: tuple[list[TableRow], int, int, list[bytes]]) -> None:
    rows, key, bits, digests = given
    table, _ = table_of(rows, key, bits)
    assert len(table) == len(rows)
    assert table.is_consistent
    assert [table.find(digest) for digest in digests] == [plainly(rows, digest) for digest in digests]


@pytest.mark.slow
@each_row(("key", "bits"), [*product((4, 5, 16, 20, 31, 32), (0, 1, 7, 8, 9, 12)), (4, 16), (32, 16)])
def test_finds_what_there_is_at_any_number_of_bits(key: int, bits: int) -> None:
    rows = [TableRow(sha256(b"%d" % number).digest()[:key], 0, number, 0) for number in range(200)]
    table, _ = table_of(rows, key, bits)
    for row in rows:
        assert table.find(row.key + bytes(32 - key)) == [row]
    assert not any(table.find(sha256(b"no %d" % number).digest()) for number in range(200))


@each_row("count", [1, 63, 64, 65, 128, 129, 1000])
@each_row("alike", [0, 4, 8, 27])
def test_many_keys_that_begin_alike_are_searched_by_halves(count: int, alike: int) -> None:
    keys = [b"\x77" * alike + number.to_bytes(4, "big") + bytes(28 - alike) for number in range(0, 2 * count, 2)]
    rows = [TableRow(key, 0, number, 0) for number, key in enumerate(keys)]
    table, read = table_of(rows, 32, 2)
    for number, key in enumerate(keys):
        assert table.find(key) == [rows[number]]
        absent = b"\x77" * alike + (2 * number + 1).to_bytes(4, "big") + bytes(28 - alike)
        assert table.find(absent) == []
    assert table.find(bytes(32) if alike else b"\xff" * 32) == []
    width = 32 + PLACE.size
    assert len(read.lengths) <= 2 * count * (count.bit_length() + 2)
    assert max(read.lengths) <= 64 * width


@each_row("alike", [1, 63, 64, 65, 200])
def test_all_rows_of_one_key_are_found_in_the_order_of_their_rules(alike: int) -> None:
    key, before, behind = b"\x10" * 32, b"\x10" * 31 + b"\x0f", b"\x10" * 31 + b"\x11"
    own = [TableRow(key, part, line, 1) for part in (0, 2, 1) for line in range(alike)]
    others = [TableRow(other, 0, line, 0) for other in (before, behind) for line in range(100)]
    table, _ = table_of([*own, *others], 32, 4)
    assert table.find(key) == sorted(own)
    assert len(table.find(before)) == len(table.find(behind)) == 100


@each_row(("bits", "key"), [(-1, 32), (MOST_BITS + 1, 32), (1 << 40, 32), (24, 3), (0, 0)])
def test_a_table_that_cannot_be_is_refused(bits: int, key: int) -> None:
    with pytest.raises(ValueError, match="bits for keys of"):
        IndexTable(bytes(64), Reads(bytes(64)), Shape(0, key, bits), (0, 0, 0))


@pytest.mark.parametrize("counts", [(1, 1), (0, 0), (0, 2)])
def test_a_fan_out_that_does_not_count_the_keys_is_noticed(counts: tuple[int, int]) -> None:
    octets = array("I", counts).tobytes() + bytes(64)
    assert not IndexTable(octets, Reads(octets), Shape(1, 32, 0), (0, 8, 12)).is_consistent


def test_all_rows_are_given_by_their_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hushlist.core.match.index_table.MANY", 3)
    rows = [TableRow(sha256(b"%d" % number).digest(), number, 2 * number, 3 * number) for number in range(10)]
    assert [*table_of(rows, 32, 4)[0]] == sorted(rows)
    assert [*table_of([], 32, 0)[0]] == []
