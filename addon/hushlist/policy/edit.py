"""Adding a rule to a list that a person keeps: everything else in the file stays as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from hushlist.errors import HushlistError
from hushlist.lists.source import Defaults, Report
from hushlist.lists.yaml_rules import read_yaml


class EditError(HushlistError):
    """A rule cannot be added; says why."""


# The key of the rules at the beginning of a line, with nothing behind it, or an empty list.
_RULES = re.compile(r"^rules:[ \t]*(?:\[[ \t]*\][ \t]*)?(#.*)?$", re.MULTILINE)
_ITEM = re.compile(r"^([ ]*)- ", re.MULTILINE)
_NEXT_KEY = re.compile(r"^(?![ #\-\r\n])", re.MULTILINE)


def add_rule(text: str, rule: Mapping[str, str]) -> str:
    """The text of a YAML list with one more rule, behind the others.

    >>> print(add_rule("rules:\\n  - a.example  # mine\\n", {"expression": "b.example/", "action": "allow"}), end="")
    rules:
      - a.example  # mine
      - {expression: "b.example/", action: "allow"}

    Raises:
        EditError: the file is not written in the usual way, or the rule is none.
    """
    before = _read(text)
    key = _RULES.search(text)
    if key is None:
        raise EditError("its rules do not stand below a line 'rules:'")
    head = text[: key.start()] + ("rules:" + (f" {key[1]}" if key[1] else ""))
    after = _NEXT_KEY.search(text, key.end() + 1)
    body, tail = text[key.end() : after.start()] if after else text[key.end() :], text[after.start() :] if after else ""
    item = _ITEM.search(body)
    indent = item[1] if item else "  "
    fields = ", ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in rule.items())
    stripped = body.rstrip()
    added = f"{head}{stripped}\n{indent}- {{{fields}}}\n{tail}"
    if _read(added) != before + 1:
        raise EditError("its rules are not written one a line")
    return added


def _read(text: str) -> int:
    """How many rules there are.

    Raises:
        EditError: the text is no list.
    """
    report = Report("list")
    count = sum(1 for _ in read_yaml(text.encode(), Defaults(), report))
    if report.errors:
        raise EditError(f"line {report.errors[0].line}: {report.errors[0].what}: {report.errors[0].why}")
    return count
