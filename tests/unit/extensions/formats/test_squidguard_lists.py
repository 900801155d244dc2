"""squidGuard's lists, some of them real."""

from pathlib import Path

import pytest

from hushlist.core.compile.policy_compiler import Compiled, compile_policy
from hushlist.core.errors import SourceError
from hushlist.extensions.formats.squidguard_lists import (
    read_squidguard_domains,
    read_squidguard_expressions,
    read_squidguard_urls,
)
from support.engines import rules_in
from support.readings import ListReader, read_rules
from unit.rows import each_row


@each_row(
    ("text", "rules"),
    [
        ("a.example/x", ["1:a.example/x", "1:a.example/x/"]),
        ("a.example/x/\r\n# x\n\nb.example", ["1:a.example/x/", "4:b.example/"]),
        ("192.0.2.1/~x http://other.example/", ["1:192.0.2.1/~x", "1:192.0.2.1/~x/"]),
        ("a.example/x?y=1", ["1:a.example/x?y=1"]),
    ],
)
def test_an_entry_of_urls_is_a_page_and_what_lies_below_it(text: str, rules: list[str]) -> None:
    assert read_rules(read_squidguard_urls, text) == (rules, [])


def test_a_domain_may_have_a_redirection_behind_it() -> None:
    text = "a.example\nb.example http://other.example/%u\n.C.Example\tx y\nd/e f\n"
    rules, warnings = read_rules(read_squidguard_domains, text)
    assert rules == ["1:a.example/", "2:b.example/", "3:c.example/"]
    assert warnings == ["4: d/e: left out: a domain has neither user nor path"]


@pytest.mark.parametrize("reader", [read_squidguard_domains, read_squidguard_urls])
def test_a_file_of_another_format_is_noticed(reader: ListReader) -> None:
    text = "0.0.0.0 a.example\n0 b.example\n::1 localhost # x\nc.example CNAME .\nd.example 60 IN A 0.0.0.0"
    hosts, zone = "left out: it is a line of a hosts file", "left out: it is a line of a zone (rpz)"
    assert read_rules(reader, text) == (
        [],
        [
            f"1: 0.0.0.0 a.example: {hosts}",
            f"2: 0 b.example: {hosts}",
            f"3: ::1 localhost: {hosts}",
            f"4: c.example CNAME .: {zone}",
            f"5: d.example 60 IN A 0.0.0.0: {zone}",
        ],
    )
    # a redirection is no name
    assert read_rules(reader, "127.0.0.1 http://other.example/")[0][0] == "1:127.0.0.1/"


def test_expressions_are_reported_with_their_number() -> None:
    assert read_rules(read_squidguard_expressions, "# x\na|b\n\nc+") == (
        [],
        ["2: a|b: left out: a regular expression (the first of 2)"],
    )


def folder_policy(folder: Path, entry: str) -> Compiled:
    (folder / "policy.yaml").write_text(f"layers:\n- name: l\n  lists:\n  - {entry}\n")
    return compile_policy(folder / "policy.yaml")


@pytest.mark.parametrize("first", [0, 1])
def test_a_folder_s_files_may_be_cut_into_parts(tmp_path: Path, first: int) -> None:
    folder = tmp_path / "games"
    folder.mkdir()
    for number in range(first, 12):
        (folder / f"domains.{number}").write_text(f"h{number}.example\n")
    (folder / "urls").write_text("b.example/x/\n")
    (folder / "urls.0").write_text("b.example/y/\n")
    (folder / "domains.db").write_text("x\n")
    compiled = folder_policy(tmp_path, "games")
    rules = [str(rule.pattern) for rule in rules_in(compiled.policy.layers[0])]
    assert rules == [*(f"h{number}.example/" for number in range(first, 12)), "b.example/x/", "b.example/y/"]
    # the next part is noticed when it comes
    assert compiled.policy.files[folder / "domains.12"] is None


@pytest.mark.parametrize("entry", ["games", "games/", "{file: games, format: squidguard}"])
def test_a_folder_is_a_list(tmp_path: Path, entry: str) -> None:
    folder = tmp_path / "games"
    folder.mkdir()
    (folder / "domains").write_text("a.example\n")
    (folder / "urls").write_text("b.example/x\n")
    (folder / "expressions").write_text("x|y\n")
    compiled = folder_policy(tmp_path, entry)
    rules = rules_in(compiled.policy.layers[0])
    assert [(rule.terms.list, Path(rule.terms.source).name, str(rule.pattern)) for rule in rules] == [
        ("games", "domains", "a.example/"),
        ("games", "urls", "b.example/x"),
        ("games", "urls", "b.example/x/"),
    ]
    assert [Path(problem.source).name for problem in compiled.report.warnings] == ["expressions"]
    there = {path.name for path, seen in compiled.policy.files.items() if seen is not None}
    assert there == {"policy.yaml", "domains", "urls", "expressions"}


@pytest.mark.parametrize("entry", ["empty", "{file: policy.yaml, format: squidguard}"])
def test_a_folder_without_lists_is_an_error(tmp_path: Path, entry: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="there is no folder with domains or urls or expressions"):
        folder_policy(tmp_path, entry)
