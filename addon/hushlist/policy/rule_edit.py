"""Adding a rule to a list that a person keeps: everything else in the file stays as it is, to the octet.

Only the brackets of an empty list are removed, since its first rule takes a line of its own. YAML's parser tells where
the rules are, and the new one is inserted there into the text. A library that writes the whole document, even one that
keeps comments, would wrap lines differently and lose comments inside brackets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import yaml

from hushlist.errors import HushlistError
from hushlist.lists.list_source import ListDefaults, ProblemReport
from hushlist.lists.yaml_rules import read_yaml
from hushlist.match.rule import Action, Rule


class EditError(HushlistError):
    """A rule cannot be added; says why."""


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def add_rule(text: str, rule: Mapping[str, str]) -> str:
    """The text of a YAML list with one more rule, behind the others; the same text where it has that rule already.

    >>> print(add_rule("rules:\\n  - a.example  # mine\\n", {"expression": "b.example/", "action": "allow"}), end="")
    rules:
      - a.example  # mine
      - {expression: "b.example/", action: "allow"}

    Raises:
        EditError: the file or the rule cannot be read, or the rule would change nothing.
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
    body = text.removeprefix("\ufeff")  # the parser does not count a byte order mark
    added = text[: len(text) - len(body)] + _insert(body, f"{{{fields}}}")
    after = _read(added)
    is_kept = [one.terms for one in after[:-1]] == [one.terms for one in before]
    if not is_kept or [one.pattern for one in after] != [one.pattern for one in (*before, wanted)]:
        raise EditError("its rules are written in a way that none can be added to")
    return added


def _insert(text: str, item: str) -> str:
    """The text with one more item in its list of rules; the text is a list that can be read."""
    document: Any = yaml.compose(text, _LOADER)
    rules = next(value for key, value in document.value if key.value == "rules")
    start, end, indent = rules.start_mark.index, _end(rules), rules.start_mark.column
    if rules.flow_style and (rules.value or document.flow_style or "#" in text[start:end]):
        place = _end(rules.value[-1]) if rules.value else start + 1
        return f"{text[:place]}{', ' if rules.value else ''}{item}{text[place:]}"
    if rules.flow_style:  # an empty list: the brackets go, and the rules begin on a line of their own
        head = text[:start].rstrip()
        text, end, indent = head + text[end:], len(head), document.start_mark.column + 2
    place = len(text[:end].rstrip())
    place += len(re.split("\r?\n", text[place:], maxsplit=1)[0])  # behind a comment
    line_end = "\r\n" if "\r\n" in text else "\n"
    return f"{text[:place]}{line_end}{' ' * indent}- {item}{text[place:] or line_end}"


def _end(node: Any) -> int:
    """The index behind a node; the parser's own mark of a block collection is behind the comments that follow it."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(last[1] if isinstance(last, tuple) else last)


def _read(text: str) -> list[Rule]:
    """The rules that there are.

    Raises:
        EditError: the text is no list.
    """
    report = ProblemReport("list")
    rules = list(read_yaml(text.encode("utf-8", "backslashreplace"), ListDefaults(), report))
    if report.errors:
        raise EditError(f"line {report.errors[0].line}: {report.errors[0].what}: {report.errors[0].why}")
    return rules
