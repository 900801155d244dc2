"""The policies of the two filters."""

from pathlib import Path

import pytest

from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.errors import SourceError
from hushlist.core.match.rule import Action
from hushlist.tools.visit.signals import RuleUse
from hushlist.tools.visit.visit_policy import VisitPolicies

URL = b"http://ads.example/a.js"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (
        ("ads.txt", "[Adblock Plus 2.0]\n! a\n||ads.example^\n"),
        ("names.hosts", "0.0.0.0 ads.example\n"),
        ("mine.yaml", "rules: [{expression: good.ads.example/, action: allow}, bad.example/]\n"),
    ):
        (tmp_path / name).write_text(text)
    (tmp_path / "policy.yaml").write_text(
        "log: on\nlayers:\n- {name: mine, lists: [mine.yaml]}\n"
        "- {name: lists, lists: [{file: ads.txt, format: adblock}]}\n"
    )
    (tmp_path / "made").mkdir()
    return tmp_path


def action(policy: Path, url: bytes = URL) -> Action:
    return load_engine(policy).decide_url(url).action


def test_only_one_side_has_the_list(folder: Path) -> None:
    policies = VisitPolicies(folder / "made", [(folder / "ads.txt", "adblock")], None)
    assert (action(policies.without()), action(policies.with_lists())) == (Action.PASS, Action.BLOCK)


def test_a_policy_stands_above_the_list_and_loses_it_on_the_other_side(folder: Path) -> None:
    policies = VisitPolicies(folder / "made", [(folder / "ads.txt", "adblock")], folder / "policy.yaml")
    without, with_list = policies.without(), policies.with_lists()
    good, bad = b"http://good.ads.example/", b"http://bad.example/"
    assert [action(one, good) for one in (without, with_list)] == [Action.ALLOW] * 2
    assert [action(one, bad) for one in (without, with_list)] == [Action.BLOCK] * 2
    assert [action(one) for one in (without, with_list)] == [Action.PASS, Action.BLOCK]


@pytest.mark.parametrize(
    ("name", "form", "rule", "line"),
    [
        ("ads.txt", "adblock", RuleUse("", 3, "", "ads.example/", ()), "@@||ads.example^"),
        (
            "names.hosts",
            "hosts",
            RuleUse("", 1, "", "ads.example/", ()),
            '- {"expression": "ads.example/", "action": "allow"}',
        ),
    ],
)
def test_an_exception_is_what_is_printed(folder: Path, name: str, form: str, rule: RuleUse, line: str) -> None:
    policies = VisitPolicies(folder / "made", [(folder / name, form)], None)
    written = policies.as_written(rule._replace(source=str(folder / name)))
    assert policies.exception_for(written) == line
    assert action(policies.with_lists([written])) in (Action.PASS, Action.ALLOW)
    assert action(policies.with_lists()) is Action.BLOCK


def test_a_rule_of_a_copy_is_told_by_the_list_that_was_named(folder: Path) -> None:
    policies = VisitPolicies(folder / "made", [(folder / "ads.txt", "adblock")], None)
    rule = policies.as_written(RuleUse(str(folder / "ads.txt"), 3, "", "ads.example/", ()))
    policies.with_lists([rule])
    (copy,) = (path for path in (folder / "made").iterdir() if path.suffix == ".txt")
    assert policies.as_written(rule._replace(source=str(copy), text="")) == rule


def test_a_policy_with_mistakes_is_refused(folder: Path) -> None:
    (folder / "policy.yaml").write_text("layers: 7\n")
    with pytest.raises(SourceError, match="layers"):
        VisitPolicies(folder / "made", [], folder / "policy.yaml")
