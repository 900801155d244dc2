"""The private table of what hashes stand for."""

from pathlib import Path

import pytest

from hushlist.core.errors import SourceError
from hushlist.core.match.rule import Action, ExpressionHash
from hushlist.tools.publish.hidden_list import HiddenRule, HiddenTerms
from hushlist.tools.publish.key_table import KeyEntry, parse_key_table, read_key_table, revealed, write_key_table
from unit.rows import each_row

TERMS = HiddenTerms(Action.BLOCK)
RULES = [
    HiddenRule(ExpressionHash(bytes(4)), TERMS, b"a.example/", "odd\tname\n.txt", 3),
    HiddenRule(ExpressionHash(bytes(5)), TERMS, None, "l.yaml", 1),
]


def test_a_table_is_private_and_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("of before, which everybody can read")
    path.chmod(0o644)
    write_key_table(path, RULES)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_key_table(path) == {"sha256:00000000": KeyEntry("odd\\tname\\n.txt:3", "a.example/")}
    assert [*tmp_path.iterdir()] == [path]


def test_a_table_that_cannot_be_written_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(SourceError, match="key-file"):
        write_key_table(tmp_path / "folder", RULES)
    assert [*tmp_path.iterdir()] == [tmp_path / "folder"]


def test_what_is_no_table_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="keys:2: key-file: expected a hash, a place and a rule"):
        parse_key_table(b"# head\nads.example\n", "keys")
    with pytest.raises(SourceError, match="key-file: No such file"):
        read_key_table(tmp_path / "missing")
    assert read_key_table(None) == {}


@each_row(
    ("text", "expected"),
    [
        ("rule: sha256:00000000", "rule: sha256:00000000 (a.example/, f:1)"),
        ("- {sha256: 00000000, action: tag}", "- {sha256: 00000000 (a.example/, f:1), action: tag}"),
        ("hashed:md5=00+query x", "hashed:md5=00+query (b.example/, f:2) x"),
        ("000000000", "000000000"),
        ("sha256:11111111", "sha256:11111111"),
    ],
)
def test_hashes_in_a_text_are_revealed(text: str, expected: str) -> None:
    table = {"sha256:00000000": KeyEntry("f:1", "a.example/"), "hashed:md5=00+query": KeyEntry("f:2", "b.example/")}
    assert revealed(text, table) == expected
    assert revealed(text, {}) == text
