"""Adding a rule to a list that a person keeps: everything else in the file stays as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from hushlist.errors import HushlistError
from hushlist.lists.source import Defaults, Report
from hushlist.lists.yaml_rules import read_yaml
from hushlist.match.rule import Action, Rule


class EditError(HushlistError):
    """A rule cannot be added; says why."""


# The key of the rules at the beginning of a line, with nothing behind it, or an empty list.
_RULES = re.compile(r"^rules:(?:[ \t]*\[[ \t]*\])?(?=[ \t]*(?:[ \t]#[^\r\n]*)?\r?$)", re.MULTILINE)
_ITEM = re.compile(r"^([ ]*)- ", re.MULTILINE)
_NEXT_KEY = re.compile(r"^(?![ #\-\r\n])", re.MULTILINE)


def add_rule(text: str, rule: Mapping[str, str]) -> str:
    """The text of a YAML list with one more rule, behind the others; the same text where it has that rule already.

    >>> print(add_rule("rules:\\n  - a.example  # mine\\n", {"expression": "b.example/", "action": "allow"}), end="")
    rules:
      - a.example  # mine
      - {expression: "b.example/", action: "allow"}

    Raises:
        EditError: the file is not written in the usual way, the rule is none, or would change nothing.
    """
    before = _read(text)
    fields = ", ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in rule.items())
    (wanted,) = _read(f"rules: [{{{fields}}}]")
    for other in before:
        if other.pattern == wanted.pattern and other.terms.expires is None:
            if other.terms.action is wanted.terms.action:
                return text
            if other.terms.action is Action.ALLOW:  # "at the same expression allow beats block"
                raise EditError(f"line {other.line} allows {wanted.pattern}; remove that first")
    key = _RULES.search(text)
    if key is None:
        raise EditError("its rules do not stand below a line 'rules:'")
    after = _NEXT_KEY.search(text, key.end() + 1)
    body = text[key.end() : after.start()] if after else text[key.end() :]
    item = _ITEM.search(body)
    indent = item[1] if item else "  "
    end = "\r\n" if "\r\n" in text else "\n"
    place = key.end() + len(body.rstrip())
    rest = text[place:] if text[place:].strip(" \t") else end
    added = f"{text[: key.start()]}rules:{text[key.end() : place]}{end}{indent}- {{{fields}}}{rest}"
    if [one.pattern for one in _read(added)] != [one.pattern for one in (*before, wanted)]:
        raise EditError("its rules are not written one a line")
    return added


def _read(text: str) -> list[Rule]:
    """The rules that there are.

    Raises:
        EditError: the text is no list.
    """
    report = Report("list")
    rules = list(read_yaml(text.encode("utf-8", "backslashreplace"), Defaults(), report))
    if report.errors:
        raise EditError(f"line {report.errors[0].line}: {report.errors[0].what}: {report.errors[0].why}")
    return rules
