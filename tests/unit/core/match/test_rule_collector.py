"""The rules of a part are collected, and what else is to be known of them."""

from __future__ import annotations

from hushlist.core.match.rule import Action
from hushlist.core.match.rule_collector import RunCollector
from support.engines import rules_of


def test_rules_that_fit_whole_hosts_and_ranges_are_shown_and_those_that_may_be_covered_kept() -> None:
    shown: list[str] = []
    rules = rules_of(
        "rules: [example, h.example, www.h.example, h.example/x, {address: 10.0.0.0/8}, {sha256: '01020304'},"
        " 'hashed:md5=be96302a0468481aca954431cf293e05']"
    )
    collector = RunCollector(0, "lists")
    collector.add(rules, lambda hosts: shown.extend(map(bytes.decode, hosts)) or [b"h.example/"])
    assert shown == ["example/", "h.example/", "www.h.example/"]
    assert [str(rule.pattern) for rule in collector.broad] == ["h.example/", "10.0.0.0/8"]
    assert collector.candidates == [(Action.BLOCK, [b"www.h.example/", b"h.example/x"], [1, 1])]
