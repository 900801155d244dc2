"""The rules of a part are collected, and what else is to be known of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushlist.core.match import rule_collector
from hushlist.core.match.rule_collector import RunCollector
from hushlist.core.match.sorted_runs import load
from support.engines import rules_of


def test_rules_that_fit_whole_hosts_and_ranges_are_shown() -> None:
    shown: list[str] = []
    rules = rules_of(
        "rules: [example, h.example, www.h.example, h.example/x, {address: 10.0.0.0/8}, {sha256: '01020304'},"
        " 'hashed:md5=be96302a0468481aca954431cf293e05']"
    )
    collector = RunCollector(0, "lists")
    collector.add(rules, lambda hosts: shown.extend(map(bytes.decode, hosts)) or [b"h.example/"])
    assert shown == ["example/", "h.example/", "www.h.example/"]
    assert [str(rule.pattern) for rule in collector.broad] == ["h.example/", "10.0.0.0/8"]


def test_of_many_rules_the_rows_are_put_into_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = ", ".join(f"www.h{number}.example, h{number}.example/x, {{sha256: '{number:08x}'}}" for number in range(9))
    parts, rules = [], rules_of(f"rules: [{hosts}, {{address: 10.0.0.0/8}}]")
    for folder in (None, tmp_path):
        collector = RunCollector(0, "lists", folder)
        collector.add(rules)
        parts.append(collector.finish())
        monkeypatch.setattr(rule_collector, "MOST_IN_MEMORY", 4)
    whole, in_files = parts
    assert {name: (load(run.rows), run.starts) for name, run in in_files.runs.items()} == {
        name: (run.rows, run.starts) for name, run in whole.runs.items()
    }
    assert all(isinstance(run.rows, Path) for run in in_files.runs.values())
