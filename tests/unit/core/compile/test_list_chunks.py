"""Surveys: how files are cut, and what is too long for them."""

from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.compile import list_chunks
from hushlist.core.compile.list_chunks import LoadedChunk, chunk_list, line_blocks, load_chunk, read_lists
from hushlist.core.compile.worker_processes import Workers
from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.lists.list_source import LONGEST_LINE, ListDefaults
from hushlist.core.policy.policy_file import ListFile
from unit.rows import each_row


def listed(path: Path, form: str = "domains") -> ListFile:
    return ListFile(path, FORMATS[form], ListDefaults())


@each_row("form", FORMATS)
def test_a_file_beyond_the_bound_of_its_format_is_not_read(tmp_path: Path, form: str) -> None:
    path = tmp_path / "list"
    with path.open("wb") as file:
        file.truncate(FORMATS[form].longest + 1)
    (error,) = chunk_list(listed(path, form)).report.errors
    assert str(error) == f"{path}: it is longer than {FORMATS[form].longest:,} octets, the most that are read"


@pytest.mark.slow
@each_row("before", [0, 1000, list_chunks.PIECE])
@each_row("length", [LONGEST_LINE, LONGEST_LINE + 1, 3 * list_chunks.PIECE])
@each_row("behind", [b"", b"\n", b"\nb.example\nc d\n"])
def test_no_more_of_a_line_is_read_than_tells_that_it_is_too_long(
    tmp_path: Path, before: int, length: int, behind: bytes
) -> None:
    path = tmp_path / "list"
    path.write_bytes(b"# x\n".rjust(128) * (before // 128) + b"a ".ljust(length, b"a") + behind)
    found = chunk_list(listed(path))
    assert max(chunk.length for chunk in found.chunks) <= list_chunks.PIECE + LONGEST_LINE + 1
    rules = []
    for chunk in found.chunks:
        loaded = load_chunk(0, found.file, chunk)
        rules += [rule.line for rule in loaded.rules]
        found.report.merge(loaded.report)
    first = before // 128 + 1
    warnings = [(problem.line, problem.why) for problem in found.report.warnings]
    assert rules == ([first + 1] if b"b" in behind else [])
    assert warnings[0][0] == first
    assert (warnings[0][1] == f"left out: it is longer than {LONGEST_LINE} octets") is (length > LONGEST_LINE)
    assert [line for line, _ in warnings[1:]] == ([first + 2] if b"c d" in behind else [])


@pytest.mark.parametrize(("longest_first", "order"), [(False, [0, 1, 2, 3]), (True, [2, 1, 3, 0])])
def test_results_and_problems_are_in_the_order_of_the_lists_whatever_is_read_first(
    tmp_path: Path, longest_first: bool, order: list[int]
) -> None:
    lists = []
    for number, length in enumerate((1, 20, 30, 20)):
        (tmp_path / str(number)).write_text(f"a b\n{'x' * length}.example\n")
        lists.append(chunk_list(listed(tmp_path / str(number))))
    read, steps = list[int](), list[tuple[int, int]]()

    def lines_of(chunk: LoadedChunk) -> list[int]:
        read.append(chunk.number)
        return [rule.line for rule in chunk.rules]

    with Workers(1, lambda _, done, total: steps.append((done, total))) as workers:
        found = list(read_lists(lists, workers, lines_of, longest_first=longest_first))
    assert read == order
    assert found == [(at, [2]) for at in range(4)]
    assert [len(own.report.warnings) for own in lists] == [1] * 4
    assert steps[-1] == (sum(own.length for own in lists),) * 2


@given(
    st.lists(st.sampled_from([b"a\n", b"\n", b"bb\n", b"a" * 7 + b"\n", b"a" * 40 + b"\n", b"end"]), max_size=12),
    st.integers(1, 30),
    st.integers(1, 12),
)
def test_blocks_have_whole_lines_and_the_beginning_of_one_that_is_too_long(
    lines: list[bytes], size: int, longest: int
) -> None:
    octets, seen = b"".join(lines), bytearray()
    blocks = list(line_blocks(BytesIO(octets), size, longest, seen.extend))
    assert bytes(seen) == octets
    place, line = 0, 1
    for block in blocks:
        assert (block.start, block.first_line) == (place, line)
        assert octets[place : block.end].startswith(block.octets)
        assert len(block.octets) <= size + longest
        # what is left out is of one line, of which there is enough to see that it is too long
        left_out = octets[place + len(block.octets) : block.end]
        assert left_out.count(b"\n", 0, -1) == 0
        assert not left_out or len(block.octets.rpartition(b"\n")[2]) > longest
        assert block.end == len(octets) or octets[: block.end].endswith(b"\n")
        line += octets.count(b"\n", place, block.end)
        place = block.end
    assert place == len(octets)
