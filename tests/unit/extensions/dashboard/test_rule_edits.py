"""An administrator's own list: rules are added and removed, and everything else in the file stays as it is."""

from __future__ import annotations

import pytest

from hushlist.core.routes import ActionError
from hushlist.extensions.dashboard.rule_edits import rule_text, with_rule, without_rule, written_rules
from unit.rows import each_row

RULE = {"expression": "new.example/", "action": "allow"}
ITEM = '{expression: "new.example/", action: "allow"}'
LINE = f"- {ITEM}"


EDITS = [
    ("rules:\n- a.example\n", f"rules:\n- a.example\n{LINE}\n"),
    ("rules:\n- a.example", f"rules:\n- a.example\n{LINE}\n"),
    ("rules:\n    - a.example  # mine\n", f"rules:\n    - a.example  # mine\n    {LINE}\n"),
    (
        "# all\nrules:  # mine\n\n  # first\n  - a.example\n",
        f"# all\nrules:  # mine\n\n  # first\n  - a.example\n  {LINE}\n",
    ),
    ("rules: []\n", f"rules:\n  {LINE}\n"),
    ("rules: []", f"rules:\n  {LINE}\n"),
    ("rules: [ ]   # none yet\n", f"rules:   # none yet\n  {LINE}\n"),
    ("rules: []\ntitle: own\n", f"rules:\n  {LINE}\ntitle: own\n"),
    ("rules:\n- a.example\n\n\ntitle: own\n", f"rules:\n- a.example\n{LINE}\n\n\ntitle: own\n"),
    ("rules:\r\n  - a.example\r\n\r\ntitle: own\r\n", f"rules:\r\n  - a.example\r\n  {LINE}\r\n\r\ntitle: own\r\n"),
    ("rules: []\r\n", f"rules:\r\n  {LINE}\r\n"),
    (
        "rules:\n  - expression: a.example\n    reason: |\n      - one\n      rules:\n  - b.example\n",
        f"rules:\n  - expression: a.example\n    reason: |\n      - one\n      rules:\n  - b.example\n  {LINE}\n",
    ),
    ("rules:\n- é.example\n", f"rules:\n- é.example\n{LINE}\n"),
    # comments behind the last rule belong to what follows, or to nobody
    (
        "rules:\n- a.example  # 1\n# 2\n\n# 3\ntitle: own\n",
        f"rules:\n- a.example  # 1\n{LINE}\n# 2\n\n# 3\ntitle: own\n",
    ),
    ("rules:  # 1\n  # 2\n  []  # 3\n", f"rules:  # 1\n  # 2  # 3\n  {LINE}\n"),
    # rules of several lines
    (
        "rules:\n- {expression: a.example,\n   action: allow}  # 1\n",
        f"rules:\n- {{expression: a.example,\n   action: allow}}  # 1\n{LINE}\n",
    ),
    (
        "rules:\n- expression: a.example\n  reason: long\n    and longer\n",
        f"rules:\n- expression: a.example\n  reason: long\n    and longer\n{LINE}\n",
    ),
    (
        "rules:\n- expression: a.example\n  reason: |\n    # none\n\ntitle: own",
        f"rules:\n- expression: a.example\n  reason: |\n    # none\n{LINE}\n\ntitle: own",
    ),
    ("rules:\n-   expression:  a.example\n", f"rules:\n-   expression:  a.example\n{LINE}\n"),
    # in brackets
    ("rules: [a.example]\n", f"rules: [a.example, {ITEM}]\n"),
    (
        "rules:\n  [ a.example ,\n    b.example,  # mine\n  ]\ntitle:  own\n",
        f"rules:\n  [ a.example ,\n    b.example, {ITEM},  # mine\n  ]\ntitle:  own\n",
    ),
    ("rules: [\n  # none yet\n]\n", f"rules: [{ITEM}\n  # none yet\n]\n"),
    ("{rules: []}\n", f"{{rules: [{ITEM}]}}\n"),
    ("rules: [{expression: a.example}]\n", f"rules: [{{expression: a.example}}, {ITEM}]\n"),
    # however the key is written
    ('"rules":\n- a.example\n', f'"rules":\n- a.example\n{LINE}\n'),
    ("? rules\n: - a.example\n", f"? rules\n: - a.example\n  {LINE}\n"),
    ("---\n  title: own\n  rules: []\n...\n", f"---\n  title: own\n  rules:\n    {LINE}\n...\n"),
    ("title: own\nrules:    []\nreason: a\n", f"title: own\nrules:\n  {LINE}\nreason: a\n"),
    ("\ufeffrules:\n- é.example\n", f"\ufeffrules:\n- é.example\n{LINE}\n"),
    ("rules:\t# mine\n- a.example\t# x\n", f"rules:\t# mine\n- a.example\t# x\n{LINE}\n"),
]


@each_row(("before", "after"), EDITS)
def test_a_rule_is_added_and_everything_else_stays_as_a_person_wrote_it(before: str, after: str) -> None:
    assert with_rule(before, RULE) == after


@each_row(
    ("text", "why"),
    [
        # lines that the last reason keeps, and that would be behind the new rule
        ("rules:\n- expression: a.example\n  reason: |+\n    x\n\n\n", "none can be added to"),
        ("rules:\n", "line 1: rules"),
        ("rules:\n- a.example\n- colour: red\n", "line 3: colour"),
        ("- a.example\n", "line 1"),
        ("", "line 1"),
        ("rules: [\n", "line 2"),
    ],
)
def test_what_cannot_be_changed_with_care_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ActionError, match=why.replace("[", r"\[")):
        with_rule(text, RULE)


@pytest.mark.parametrize("expression", ["a b.example/", "", "http://"])
def test_what_is_no_rule_is_refused(expression: str) -> None:
    with pytest.raises(ActionError):
        with_rule("rules: []\n", {"expression": expression, "action": "allow"})


@each_row("reason", ['by "me"', "a: b # c", "- x\ny", "'", "\\", "é \u202e", "{}", "%", "[", "*a"])
def test_no_value_becomes_anything_else(reason: str) -> None:
    text = with_rule("rules: []\n", {**RULE, "reason": reason})
    assert text.count("\n") == 2
    assert with_rule(text, {**RULE, "expression": "b.example/"}).startswith(text)


def test_a_rule_that_is_there_is_not_added_again() -> None:
    text = with_rule("rules: []\n", RULE)
    assert with_rule(text, {**RULE, "reason": "again"}) == text


def test_a_block_that_an_allowance_would_beat_is_refused_with_its_line() -> None:
    with pytest.raises(ActionError, match=r"line 2 allows new\.example/; remove that first"):
        with_rule(with_rule("rules: []\n", RULE), {**RULE, "action": "block"})
    both = with_rule(with_rule("rules: []\n", {**RULE, "action": "block"}), RULE)
    assert both.count("new.example") == 2


@each_row(("before", "after"), EDITS)
def test_a_rule_is_removed_again_and_only_that(before: str, after: str) -> None:
    found = without_rule(after, ITEM)
    with_comment = without_rule(after.replace(LINE, f"{LINE}  # by jo: because"), ITEM)
    if "[" not in before and before.endswith("\n"):
        assert found == before
        assert with_comment == before
    assert with_rule(found, RULE).count(ITEM) == 1
    assert found.count(ITEM) == 0


def test_of_equal_rules_the_last_one_is_removed_and_one_that_was_changed_is_not() -> None:
    text = f"rules:\n{LINE}\n- a.example\n{LINE}  # two\n- b.example\n"
    assert without_rule(text, ITEM) == f"rules:\n{LINE}\n- a.example\n- b.example\n"
    for changed in ("rules: []\n", "rules:\n- a.example\n", text.replace("allow", "block")):
        with pytest.raises(ActionError, match="not there any more"):
            without_rule(changed, ITEM)


def test_a_comment_says_who_and_why_where_the_rule_has_a_line_of_its_own() -> None:
    assert with_rule("rules: []\n", RULE, "jo: why") == f"rules:\n  {LINE}  # jo: why\n"
    assert with_rule("rules: [a.example]\n", RULE, "jo: why") == f"rules: [a.example, {ITEM}]\n"
    assert rule_text(RULE) == ITEM


@each_row("text", [text for text, _ in EDITS])
def test_every_rule_is_removed_by_its_text_and_brought_back_by_its_keys(text: str) -> None:
    for own in written_rules(text):
        if text.startswith("? "):  # no line of its own
            with pytest.raises(ActionError, match="none can be removed from"):
                without_rule(text, own.item)
            continue
        without = without_rule(text, own.item)
        assert own.id not in [other.id for other in written_rules(without)]
        back = written_rules(with_rule(without, own.keys, own.comment))[-1].rule
        assert (back.pattern, back.terms) == (own.rule.pattern, own.rule.terms)


def test_the_comment_behind_a_rule_is_its_own() -> None:
    text = "rules:\n- a.example  # one\n# none\n- b.example\n  # nor this\n- expression: c.example\n  reason: x # y"
    assert [own.comment for own in written_rules(text)] == ["one", "", "y"]
    assert [own.comment for own in written_rules("rules: [a.example, # one\n b.example] # list\n")] == ["one", ""]


def test_where_rules_are_left_out_none_can_be_told_from_the_others() -> None:
    text = "rules:\n- a.example\n- hashed:sha9=0\n"
    assert [(str(own.rule.pattern), own.id, own.comment) for own in written_rules(text)] == [("a.example/", "", "")]
    with pytest.raises(ActionError, match="none can be removed from"):
        without_rule(text, "a.example")
