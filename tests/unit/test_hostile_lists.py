"""A list by somebody else makes the filter read no other file, and forges no line of a log or a terminal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hushlist.core.compile.index_cache import IndexCache
from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.errors import Problem
from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.match.rule import Action, Expression, Rule, Terms
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.policy_file import PolicyError
from unit.rows import each_row

INCLUDES = [
    ("dnsmasq", "conf-file={secret}\naddress=/a.example/0.0.0.0\n"),
    ("dnsmasq", "addn-hosts={secret}\naddress=/a.example/0.0.0.0\n"),
    ("dnsmasq", "conf-dir={folder}\naddress=/a.example/0.0.0.0\n"),
    ("rpz", "$TTL 1\n$INCLUDE {secret}\na.example CNAME .\n"),
    ("adblock", "!#include {secret}\n||a.example^\n"),
    ("hosts", "include {secret}\n0.0.0.0 a.example\n"),
    ("domains", "@{secret}\na.example\n"),
    ("domains", "file://{secret}\na.example\n"),
]


@each_row(("form", "text"), INCLUDES)
def test_what_would_include_another_file_is_left_out_and_reported(tmp_path: Path, form: str, text: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("0.0.0.0 secret.example\n")
    report = ProblemReport("list")
    octets = text.format(secret=secret, folder=tmp_path).encode()
    rules = list(FORMATS[form].read(octets, ListDefaults(), report))
    assert [str(rule.pattern) for rule in rules] == ["a.example/"]
    assert len(report.warnings) + len(report.errors) >= 1


def test_a_link_out_of_a_folder_of_lists_is_an_error_and_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret.example\n")
    (tmp_path / "ads").mkdir()
    (tmp_path / "ads" / "domains").symlink_to(tmp_path / "secret")
    (tmp_path / "policy.yaml").write_text("layers:\n- name: a\n  lists: [ads]\n")
    with pytest.raises(PolicyError) as caught:
        compile_policy(tmp_path / "policy.yaml", cache=IndexCache(tmp_path / "cache"))
    assert str(caught.value) == (
        f"{tmp_path / 'policy.yaml'}:3: ads: domains in it is a link that leads out of the folder"
    )


def test_a_list_that_is_a_pipe_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.hosts")
    (tmp_path / "policy.yaml").write_text("layers:\n- name: a\n  lists: [a.hosts]\n")
    with pytest.raises(PolicyError, match=r"a\.hosts: it is no regular file"):
        compile_policy(tmp_path / "policy.yaml", cache=IndexCache(tmp_path / "cache"))


def test_no_text_of_a_list_is_so_long_that_its_rules_multiply_it(tmp_path: Path) -> None:
    rules = "".join(f"- {{expression: x{number}.example, reason: {number}}}\n" for number in range(200))
    for key in ("title", "reason"):
        (tmp_path / "list.yaml").write_text(f"{key}: |\n" + " much\n" * 10_000 + f"rules:\n{rules}")
        (tmp_path / "policy.yaml").write_text("layers: [{name: a, lists: [list.yaml]}]")
        with pytest.raises(PolicyError, match=rf"list\.yaml:1: {key}: it has 50,000 characters"):
            compile_policy(tmp_path / "policy.yaml", cache=IndexCache(tmp_path / "cache"))


FORGED = "x\n2026-01-01 hushlist: all is well\r\x1b[2J\u202e\u2028\x9b31m\x00"


def test_no_problem_begins_a_line_or_steers_a_terminal() -> None:
    assert str(Problem(FORGED, 1, FORGED, FORGED)).isprintable()


def test_no_match_begins_a_line_or_steers_a_terminal() -> None:
    terms = Terms(Action.BLOCK, "list", FORGED, reason=FORGED, title=FORGED)
    match = Match(Rule(Expression(b"a.example/"), terms, 1), b"a.example/", (0, 0), via=FORGED)
    assert str(match).isprintable()


@each_row("form", [*FORMATS])
def test_no_warning_of_a_list_begins_a_line_or_steers_a_terminal(form: str) -> None:
    report = ProblemReport("list")
    octets = FORGED.replace("\n", " ").encode("utf-8", "surrogatepass") + b"\n\x1b]0;title\x07 \x85 \xe2\x80\xa8\n"
    list(FORMATS[form].read(octets, ListDefaults(), report))
    assert all(str(problem).isprintable() for problem in (*report.errors, *report.warnings))
