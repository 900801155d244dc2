"""Categories of which the policy says something, and no rule is."""

from pathlib import Path

import pytest

from hushlist.policy.cache import Cache
from hushlist.policy.compile import compile_policy
from hushlist.policy.unused import unused_categories

LISTS = "name: a\n  lists: [{file: l.yaml, category: 'hrn://c.example/web/games'}]\n"
HAVE = "the lists have hrn://c.example/ads, hrn://c.example/web/games"


def warnings_of(folder: Path, policy: str, rules: str) -> list[str]:
    (folder / "l.yaml").write_text(rules)
    (folder / "policy.yaml").write_text(f"layers:\n- {LISTS}{policy}")
    compiled = compile_policy(folder / "policy.yaml", cache=Cache(folder / "cache"))
    found = unused_categories(compiled.policy, compiled.index)
    return [f"{problem.line}: {problem.what}: {problem.why}" for problem in found]


RULES = "rules: [a.example, {expression: b.example, category: 'hrn://c.example/ads'}]"


@pytest.mark.parametrize("name", ["hrn://c.example/web/games", "hrn://c.example/web", "hrn://C.example/ads"])
def test_a_category_of_rules_or_above_that_of_rules_is_used(tmp_path: Path, name: str) -> None:
    assert warnings_of(tmp_path, f"categories: {{{name}: pass}}", RULES) == []


@pytest.mark.parametrize(
    "name", ["hrn://c.example/web/gmaes", "hrn://c.example/web/games/chess", "hrn://d.example/web"]
)
def test_a_category_that_no_rule_is_of_is_told_with_those_that_rules_are_of(tmp_path: Path, name: str) -> None:
    policy = f"categories:\n  hrn://c.example/ads: pass\n  {name}: pass"
    why = f"no rule is of this category, nor of one below it ({HAVE})"
    assert warnings_of(tmp_path, policy, RULES) == [f"6: {name}: {why}"]


def test_each_line_is_told_once_and_those_of_groups_too(tmp_path: Path) -> None:
    policy = (
        "categories: {hrn://c.example/x: pass}\n"
        "groups:\n"
        "- {name: a, ports: [1], categories: {hrn://c.example/x: warn}}\n"
        "- {name: b, ports: [2], categories: {hrn://c.example/y: warn}}\n"
    )
    found = warnings_of(tmp_path, policy, RULES)
    assert [line.partition(": ")[0] for line in found] == ["4", "6", "7"]


def test_where_the_lists_say_nothing_of_categories_that_is_told(tmp_path: Path) -> None:
    (warning,) = warnings_of(tmp_path, "categories: {hrn://c.example/x: pass}", "rules: []")
    assert warning.endswith("(the lists have none)")
