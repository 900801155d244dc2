"""Conditions in Adblock lists: which hold, and which lines they leave out, wherever a list is cut."""

from pathlib import Path

import pytest

from hushlist.core.compile import list_chunks
from hushlist.core.compile.list_chunks import chunk_list, load_chunk
from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.lists.list_source import ListDefaults
from hushlist.core.policy.policy_file import ListFile
from hushlist.extensions.adblock.conditions import holds
from hushlist.extensions.adblock.filter_lists import read_adblock
from support.readings import read_rules
from unit.rows import each_row


@each_row(
    ("text", "expected"),
    [
        ("ext_ublock", True),
        ("false", False),
        ("!false", True),
        ("adguard", False),
        ("adguard && !adguard_ext_safari", False),
        ("!adguard_app_ios", True),
        ("env_firefox || ext_ublock", True),
        ("env_firefox || env_chromium", False),
        ("(env_mobile || !env_mv3) && !(ext_abp || ext_ubol)", True),
        ("cap_html_filtering", False),
        ("nobody_knows_this", False),
        ("!!ext_ublock", True),
        ("ext_ublock && (false || (true && !false))", True),
    ],
)
def test_a_condition_holds_by_what_this_filter_is(text: str, expected: bool) -> None:
    assert holds(text) is expected


@each_row(
    "text", ["", "a b", "(a", "a)", "a &&", "|| a", "a & b", "!", "()", "!" * 40 + "a", "(" * 40 + "a" + ")" * 40]
)
def test_a_condition_that_cannot_be_read_is_named_and_its_filters_are_not_used(text: str) -> None:
    rules, warnings = read_rules(read_adblock, f"||a.example^\n!#if {text}\n||b.example^\n!#endif\n||c.example^")
    assert rules == ["1:a.example/", "5:c.example/"]
    why = "left out: a condition that cannot be read: the filters within it are not used"
    assert warnings == [f"2: {f'!#if {text}'.strip()}: {why}"]


TEXT = """||a.example^
!#if ext_ublock
||b.example^
!#if env_mobile
||no1.example^
!#if ext_ublock
||no2.example^
!#endif
!#else
||c.example^
/no-matter/
!#endif
||d.example^
!#else
||no3.example^
!#endif
!#endif
||e.example^
!#include other.txt
!#if false
||no4.example^
"""
RULES = ["1:a.example/", "3:b.example/", "10:c.example/", "11:/no-matter/", "13:d.example/", "18:e.example/"]


def test_branches_are_used_as_they_hold_and_one_may_stay_open() -> None:
    rules, warnings = read_rules(read_adblock, TEXT)
    assert rules == RULES
    assert [warning.partition(":")[0] for warning in warnings] == ["4", "19"]
    assert warnings[0].endswith("are not used (the first of 3)")


@pytest.mark.parametrize("size", [1, 20, 60, 150])
def test_a_list_that_is_cut_into_chunks_keeps_its_conditions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(list_chunks, "PIECE", size)
    (tmp_path / "list.adblock").write_text(TEXT)
    chunked = chunk_list(ListFile(tmp_path / "list.adblock", FORMATS["adblock"], ListDefaults()))
    assert len(chunked.chunks) > 1
    chunks = [load_chunk(number, chunked.file, own) for number, own in enumerate(chunked.chunks)]
    assert [f"{rule.line}:{rule.pattern}" for own in chunks for rule in own.rules] == RULES
