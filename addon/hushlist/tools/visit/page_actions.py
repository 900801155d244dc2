"""What a visitor does on a page: scripts of actions in YAML, each a list of one-key mappings.

- consent            # click the button that agrees
- scroll: 3          # so many screens
- click: "#menu"     # what a CSS selector names
- type: {into: "input[name=q]", text: shoes, enter: true}
- play               # start the first video
- wait: 1.5          # seconds
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from hushlist.core.errors import Problem, SourceError
from hushlist.core.system.files import read_regular, source_errors

#: octets of a script
_LONGEST = 1 << 16
#: screens, and seconds
_MOST_SCREENS, _MOST_SECONDS = 50, 30.0

_ACTIONS = "consent, scroll: SCREENS, click: SELECTOR, type: {into, text, enter}, play, wait: SECONDS"

_CONSENT = r"""
const agrees = new RegExp("^\\s*(yes,? )?(i )?(" + [
  "accept|agree|allow|ok(ay)?|got it|continue|alle akzeptieren|akzeptieren|zustimmen|einverstanden",
  "tout accepter|accepter|j'accepte|aceptar|accetta|aceitar|godkänn|zgadzam",
].join("|") + ")( all| cookies| and (close|continue)| alle| todo| tutto)*( cookies)?\\W*$", "i");
const buttons = [...document.querySelectorAll("button, [role=button], a, input[type=button], input[type=submit]")];
const one = buttons.find((button) => button.checkVisibility() && agrees.test(button.innerText || button.value || ""));
if (one) one.click();
return Boolean(one);
"""
_SCROLL = "const before = scrollY; scrollBy(0, innerHeight); return scrollY > before || document.body.scrollHeight > 0"
_CLICK = "const one = document.querySelector(arguments[0]); if (one) one.click(); return Boolean(one)"
_TYPE = """
const [selector, text, enter] = arguments, one = document.querySelector(selector);
if (!one) return false;
one.focus();
one.value = text;
for (const kind of ["input", "change"]) one.dispatchEvent(new Event(kind, { bubbles: true }));
if (enter) {
  one.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
  if (one.form) one.form.requestSubmit();
}
return true;
"""
_PLAY = """
const one = document.querySelector("video, audio");
if (!one) return false;
one.muted = true;
one.play().catch(() => {});
return true;
"""


class Action(NamedTuple):
    """One step, and what it is done with."""

    name: str
    value: Any = None

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name} {self.value}"

    def act(self, driver: Any) -> bool:
        """Do it; whether there was anything to do it with."""
        match self.name:
            case "wait":
                time.sleep(self.value)
                return True
            case "scroll":
                for _ in range(self.value):
                    driver.execute_script(_SCROLL)
                    time.sleep(0.1)
                driver.execute_script("scrollTo(0, 0)")
                return True
            case "consent":
                return bool(driver.execute_script(_CONSENT))
            case "play":
                return bool(driver.execute_script(_PLAY))
            case "click":
                return bool(driver.execute_script(_CLICK, self.value))
            case _:
                return bool(driver.execute_script(_TYPE, *self.value))


def _is_selector(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 500


def _typed(value: object) -> tuple[str, str, bool] | None:
    if not isinstance(value, Mapping) or not {"into", "text"} <= {*value} <= {"into", "text", "enter"}:
        return None
    into, text, enter = value["into"], value["text"], value.get("enter", False)
    good = _is_selector(into) and isinstance(text, str) and isinstance(enter, bool)
    return (into, text, enter) if good else None


def parse_actions(text: str, source: str) -> tuple[Action, ...]:
    """The actions of a script; ``SourceError`` says which of them cannot be understood."""
    try:
        steps = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 0
        raise SourceError([Problem(source, line, "actions", "it is no YAML")]) from error
    if not isinstance(steps, list):
        raise SourceError([Problem(source, 0, "actions", "it is no list of actions")])
    actions, problems = [], []
    for number, step in enumerate(steps, 1):
        action = _action(step)
        if action is None:
            why = f"it is none of {_ACTIONS}"
            problems.append(Problem(source, 0, f"action {number}", why))
        else:
            actions.append(action)
    if problems:
        raise SourceError(problems)
    return tuple(actions)


def _action(step: object) -> Action | None:
    name, value = next(iter(step.items())) if isinstance(step, Mapping) and len(step) == 1 else (step, None)
    if name in ("consent", "play"):
        return Action(name) if value is None else None
    if name == "scroll":
        screens = 1 if value is None else value
        return Action(name, screens) if isinstance(screens, int) and 0 < screens <= _MOST_SCREENS else None
    if name == "wait" and isinstance(value, int | float) and not isinstance(value, bool):
        return Action(name, float(value)) if 0 < value <= _MOST_SECONDS else None
    if name == "click" and _is_selector(value):
        return Action(name, value)
    if name == "type" and (typed := _typed(value)) is not None:
        return Action(name, typed)
    return None


def read_actions(path: Path) -> tuple[Action, ...]:
    """The actions of a file."""
    with source_errors(path, "actions"):
        text = read_regular(path, _LONGEST).decode()
    return parse_actions(text, str(path))
