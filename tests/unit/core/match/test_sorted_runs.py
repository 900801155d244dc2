"""Rows are sorted, and stored in memory or in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushlist.core.match.sorted_runs import FEW_ROWS, key_ranges, rows_in_range, sorted_run
from unit.rows import each_row


@pytest.mark.parametrize("in_files", [False, True])
def test_the_rows_of_several_runs_are_sorted_in_each_range(in_files: bool, tmp_path: Path) -> None:
    lists = [b"\xffa", b"\x00b", b"\x7fa", b"\x00a"], [b"\x80a", b"\x00a", b"\xff\xff"], []
    runs = [sorted_run(list(rows), tmp_path if in_files else None) for rows in lists]
    assert [run.starts[-1] for run in runs] == [4, 3, 0]
    assert len(list(tmp_path.iterdir())) == 2 * in_files  # one has no rows
    assert rows_in_range(runs, 2, 0, 256) == sorted(row for rows in lists for row in rows)
    assert rows_in_range(runs, 2, 0, 128) == [b"\x00a", b"\x00a", b"\x00b", b"\x7fa"]
    assert rows_in_range(runs, 2, 128, 255) == [b"\x80a"]
    assert rows_in_range(runs, 2, 1, 2) == []


@each_row(
    ("count", "pieces"),
    [(0, 1), (131_072, 1), (262_144, 2), (262_145, 2), (300_000, 4), (1 << 24, 128), (1 << 25, 256), (1 << 40, 256)],
)
def test_many_rows_are_divided_into_equal_ranges(count: int, pieces: int) -> None:
    ranges = key_ranges(count)
    assert len(ranges) == pieces
    assert [first for first, _ in ranges] == [0, *(end for _, end in ranges[:-1])]
    assert {end - first for first, end in ranges} == {256 // pieces}
    assert count // pieces <= FEW_ROWS or pieces == 256
