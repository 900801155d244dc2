"""Dictionaries: what is read of the files that people have, in pieces."""

import gzip
from pathlib import Path

import pytest

from hushlist.tools.audit import guesses
from hushlist.tools.audit.guesses import blocks_of, dictionaries, entries_of
from unit.rows import each_row


def read(path: Path) -> list[str]:
    return [entry.decode() for block in blocks_of(path) for entry in entries_of(block)]


@each_row(
    ("name", "text", "expected"),
    [
        ("names.txt", "a.example\nB.example\r\n\n# c.example\n", ["a.example", "B.example"]),
        ("top.csv", "rank,domain\n1,a.example\n2,b.example\n", ["a.example", "b.example"]),
        ("top.csv", '"1","a.example"\n', ["a.example"]),
        ("system.txt", "0.0.0.0 a.example b.example # x\n", ["a.example", "b.example"]),
        ("urls.txt", "http://a.example/x,y?q=1,2\nhttps://B.example:8080/P#f\n", None),
        ("two.txt", "http://a.example/,http://b.example/\n", ["http://a.example/", "http://b.example/"]),
        ("ads.hosts", "0.0.0.0 a.example\n", ["a.example"]),
        ("domains", "a.example\n*.b.example\n", ["a.example", "b.example"]),
        ("urls", "a.example/x\n", ["a.example/x", "a.example/x/"]),
        ("l.yaml", "rules: [A.example, b.example/x, {address: 192.0.2.0/24}]", ["a.example", "b.example/x"]),
        ("l.adblock", "||a.example^\n##.ad\n", ["a.example"]),
    ],
)
@each_row("is_packed", [False, True])
def test_entries_are_read_of_lists_and_of_texts(
    name: str, text: str, expected: list[str] | None, is_packed: bool, tmp_path: Path
) -> None:
    path = tmp_path / (f"{name}.gz" if is_packed else name)
    path.write_bytes(gzip.compress(text.encode()) if is_packed else text.encode())
    assert read(path) == (text.split() if expected is None else expected)


def test_a_file_that_is_read_at_once_begins_with_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "l.yaml").write_text("rules: [a.example]")
    (block,) = blocks_of(tmp_path / "l.yaml")
    assert (block.first_line, block.done) == (1, 18)


def test_a_dictionary_is_read_in_pieces_that_end_where_lines_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"n{number}.example" for number in range(100)]
    path = tmp_path / "names.txt"
    path.write_text("\n".join(names))
    monkeypatch.setattr(guesses, "BLOCK", 30)
    blocks = list(blocks_of(path))
    assert len(blocks) > 20
    assert [block.done for block in blocks] == sorted({block.done for block in blocks})
    assert blocks[-1].done == path.stat().st_size
    assert [block.first_line for block in blocks[:2]] == [1, 1 + blocks[0].octets.count(b"\n")]
    assert read(path) == names


def test_a_line_without_end_takes_no_memory_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "zeros.gz"
    path.write_bytes(gzip.compress(bytes(1 << 20)))
    monkeypatch.setattr(guesses, "BLOCK", 100)
    assert max(len(block.octets) for block in blocks_of(path)) < 70_000


def test_of_a_squidguard_folder_domains_and_urls_are_read(tmp_path: Path) -> None:
    for name in ("domains", "urls", "expressions", "usage"):
        (tmp_path / name).touch()
    assert [path.name for path in dictionaries([tmp_path, Path("x.txt")])] == ["domains", "urls", "x.txt"]


def test_a_list_that_is_read_as_a_whole_is_not_without_end(tmp_path: Path) -> None:
    path = tmp_path / "l.yaml.gz"
    path.write_bytes(gzip.compress(b"rules: []".ljust(100)))
    assert read(path) == []
    path.write_bytes(gzip.compress(bytes(1 << 25)))
    with pytest.raises(OSError, match="longer than 16,777,216 octets"):
        read(path)
