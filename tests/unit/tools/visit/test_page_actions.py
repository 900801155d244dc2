"""Scripts of actions."""

import pytest

from hushlist.core.errors import SourceError
from hushlist.tools.visit.page_actions import Action, parse_actions
from unit.rows import each_row


@each_row(
    "text, expected",
    [
        ("[]", ()),
        ("- consent\n- play\n- scroll", (Action("consent"), Action("play"), Action("scroll", 1))),
        ("- scroll: 3\n- wait: 0.5", (Action("scroll", 3), Action("wait", 0.5))),
        ("- click: '#menu'", (Action("click", "#menu"),)),
        ("- type: {into: input, text: shoes, enter: true}", (Action("type", ("input", "shoes", True)),)),
    ],
)
def test_scripts_that_are_good(text: str, expected: tuple[Action, ...]) -> None:
    assert parse_actions(text, "actions.yaml") == expected


@each_row(
    "text, what",
    [
        ("consent", "it is no list"),
        ("- [", "it is no YAML"),
        ("- dance", "action 1"),
        ("- consent\n- scroll: 0", "action 2"),
        ("- scroll: 51", "action 1"),
        ("- wait: 31", "action 1"),
        ("- wait: true", "action 1"),
        ("- click", "action 1"),
        ("- type: {into: input}", "action 1"),
        ("- type: {into: input, text: a, press: b}", "action 1"),
        ("- {click: a, wait: 1}", "action 1"),
        ("- consent: 1", "action 1"),
    ],
)
def test_scripts_that_are_not(text: str, what: str) -> None:
    with pytest.raises(SourceError, match=what):
        parse_actions(text, "actions.yaml")
