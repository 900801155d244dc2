"""Categories of which the policy says something, and no rule is."""

from pathlib import Path

import pytest

from hushlist.core.compile.compile_report import ineffective_schedules, unused_categories
from hushlist.core.compile.index_cache import IndexCache
from hushlist.core.compile.policy_compiler import Compiled, compile_policy
from unit.rows import each_row

LISTS = "name: a\n  lists: [{file: l.yaml, category: 'hrn://c.example/web/games'}]\n"
HAVE = "the lists have hrn://c.example/ads, hrn://c.example/web/games"


def compiled_of(folder: Path, policy: str, rules: str) -> Compiled:
    (folder / "l.yaml").write_text(rules)
    (folder / "policy.yaml").write_text(f"layers:\n- {LISTS}{policy}")
    return compile_policy(folder / "policy.yaml", cache=IndexCache(folder / "cache"))


def warnings_of(folder: Path, policy: str, rules: str) -> list[str]:
    compiled = compiled_of(folder, policy, rules)
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


NIGHT = "schedules: {night: {times: '20:00-06:00'}, day: {times: '06:00-20:00'}}"
GAMES = "hrn://c.example/web/games"


@each_row(
    ("action", "rules", "is_told"),
    [
        ("{action: block, during: night}", RULES, True),
        ("{action: warn, during: night}", "rules: [{expression: a.example, action: warn}]", True),
        ("{action: block, during: night, otherwise: pass}", RULES, False),
        ("{action: warn, during: night}", RULES, False),
        ("{action: pass, during: night}", RULES, False),
        ("block", RULES, False),
        ("{action: block, during: night}", "rules: [{expression: a.example, action: tag}]", False),
        ("{action: block, during: night}\n  hrn://c.example/web: pass", RULES, False),
    ],
)
def test_a_schedule_that_says_what_the_lists_say_anyway_is_told(
    tmp_path: Path, action: str, rules: str, is_told: bool
) -> None:
    compiled = compiled_of(tmp_path, f"{NIGHT}\ncategories:\n  {GAMES}: {action}", rules)
    found = [str(problem) for problem in ineffective_schedules(compiled.policy, compiled.index)]
    place = f"{tmp_path / 'policy.yaml'}:6: {GAMES}: it changes nothing: while night is off, the lists"
    does = "warn" if "warn" in action else "block"
    assert found == [f"{place} {does} it, too; to let it pass then, add 'otherwise: pass'"] * is_told


def test_a_group_that_says_so_for_everybodys_category_is_not_told(tmp_path: Path) -> None:
    groups = f"groups: [{{name: g, users: [jo], categories: {{'{GAMES}': {{action: block, during: night}}}}}}]"
    compiled = compiled_of(tmp_path, f"{NIGHT}\ncategories: {{'{GAMES}': pass}}\n{groups}", RULES)
    assert not list(ineffective_schedules(compiled.policy, compiled.index))
    compiled = compiled_of(tmp_path, f"{NIGHT}\n{groups}", RULES)
    assert len(list(ineffective_schedules(compiled.policy, compiled.index))) == 1
