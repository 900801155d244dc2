"""Scripts of actions."""

from types import SimpleNamespace

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


@each_row(
    ("action", "scripts"),
    [
        (Action("wait", 0.5), []),
        (Action("scroll", 2), ["scrollBy", "scrollBy", "scrollTo"]),
        (Action("consent"), ["akzeptieren"]),
        (Action("play"), ["muted"]),
        (Action("click", "#menu"), ["one.click()", "#menu"]),
        (Action("type", ("input", "shoes", True)), ["requestSubmit", "input", "shoes", True]),
    ],
)
@pytest.mark.parametrize("is_there", [True, False])
def test_an_action_says_whether_there_was_anything_to_do_it_with(
    monkeypatch: pytest.MonkeyPatch, action: Action, scripts: list[object], is_there: bool
) -> None:
    ran, slept = list[object](), list[float]()
    monkeypatch.setattr("time.sleep", slept.append)
    driver = SimpleNamespace(execute_script=lambda *words: (ran.extend(words), is_there)[1])
    assert action.act(driver) is (is_there or action.name in ("wait", "scroll"))
    assert all(str(part) in str(whole) for part, whole in zip(scripts, ran, strict=True))
    assert slept == {"wait": [0.5], "scroll": [0.1, 0.1]}.get(action.name, [])
