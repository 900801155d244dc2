"""Adds rules to an administrator's own list, and removes them again.

Everything else in the file stays as it is, to the octet. Only the brackets of an empty list are removed, since its
first rule takes a line of its own. YAML's parser tells where the rules are, and the new one is inserted there into the
text. A library that writes the whole document, even one that keeps comments, would wrap lines differently and lose
comments inside brackets. Whatever is written is read again before it takes the file's place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.lists.yaml_documents import LOADER
from hushlist.core.lists.yaml_rules import read_yaml
from hushlist.core.match.rule import Action, Rule
from hushlist.core.policy.policy_file import Policy
from hushlist.core.routes import ActionError
from hushlist.core.system.files import LONGEST_DOCUMENT, edit_file
from hushlist.extensions.policy_edits.policy_versions import digest_of
from hushlist.extensions.policy_edits.yaml_edits import end_of, item_text, line_end
from hushlist.extensions.subscriptions.list_store import ListStore, store_of_file

#: the layer that an administrator's own rules are in
_OVERRIDES = "overrides"


class WrittenRule(NamedTuple):
    """A rule, and how it stands in its list."""

    rule: Rule
    #: its text; empty where it cannot be told from those of other rules
    item: str
    keys: Mapping[str, str]
    #: the comment behind it, which says of a rule that somebody added at the live page who and when
    comment: str

    @property
    def id(self) -> str:
        """The digest of its text: another one when the rule is changed."""
        return sha256(self.item.encode("utf-8", "surrogatepass")).hexdigest() if self.item else ""


def overrides_list(policy: Policy) -> Path:
    """The first YAML list of the layer ``overrides``; ``ActionError`` if the policy has none."""
    for layer in policy.layers:
        for file in layer.lists if layer.name == _OVERRIDES else ():
            if file.format is FORMATS["yaml"] and file.url is None:
                return file.path
    raise ActionError(f"the policy has no YAML list in a layer {_OVERRIDES!r}")


def change_list(policy: Policy, path: Path, edit: Callable[[str], str]) -> bool:
    """Replace the text of a policy's list by what ``edit`` makes of it, if it differs; no gate holds that back.

    ``ActionError`` if it cannot be changed.
    """

    def edited(before: bytes) -> bytes:
        after = edit(before.decode("utf-8")).encode("utf-8")  # decoded as it is: ends of lines stay
        if after != before:
            _accept(store_of_file(Path(policy.source), path), before, after)
        return after

    try:
        return edit_file(path, LONGEST_DOCUMENT, edited)
    except (OSError, RuntimeError, UnicodeError, ActionError) as error:
        raise ActionError(f"{path} cannot be changed: {error}") from error


def _accept(store: ListStore, before: bytes, after: bytes) -> None:
    """Have an edit pass the gate, which somebody means; but not what it is an edit of, if that has not passed."""
    current = store.current()
    if current is None or current.digest == digest_of(after):
        return
    with store.locked():
        state, digest = store.state(), digest_of(before)
        if digest == state.held != current.digest:
            raise ActionError(f"it is held back: {'; '.join(state.reasons)}; 'hushlist update' can accept it")
        if digest in (current.digest, state.accepted):
            store.expect(digest_of(after))


def rule_text(rule: Mapping[str, str]) -> str:
    """A rule as it stands in a list.

    >>> rule_text({"expression": "b.example/", "action": "allow"})
    '{expression: "b.example/", action: "allow"}'
    """
    return f"{{{', '.join(f'{name}: {json.dumps(value, ensure_ascii=False)}' for name, value in rule.items())}}}"


def with_rule(text: str, rule: Mapping[str, str], comment: str = "") -> str:
    """The text of a YAML list with one more rule, behind the others; the same text where it has that rule already.

    A comment follows it where it has a line of its own.

    >>> print(with_rule("rules:\\n  - a.example  # mine\\n", {"expression": "b.example/", "action": "allow"}), end="")
    rules:
      - a.example  # mine
      - {expression: "b.example/", action: "allow"}

    Raises:
        ActionError: the file or the rule cannot be read, or the rule would change nothing.
    """
    before = read_rules(text)
    (wanted,) = read_rules(f"rules: [{rule_text(rule)}]")
    for other in before:
        if other.pattern == wanted.pattern and other.terms.is_lasting:
            if other.terms.action is wanted.terms.action:
                return text
            if other.terms.action is Action.ALLOW:  # "at the same expression allow beats block"
                raise ActionError(f"line {other.line} allows {wanted.pattern}; remove that first")
    body = text.removeprefix("\ufeff")  # the parser does not count a byte order mark
    added = text[: len(text) - len(body)] + _insert(body, rule_text(rule), comment)
    after = read_rules(added)
    is_kept = [item.terms for item in after[:-1]] == [item.terms for item in before]
    if not is_kept or [item.pattern for item in after] != [item.pattern for item in (*before, wanted)]:
        raise ActionError("its rules are written in a way that none can be added to")
    return added


def without_rule(text: str, item: str) -> str:
    """The text without the last rule that is written so, as ``rule_text`` writes it; a comment behind it goes, too.

    >>> item = rule_text({"expression": "b.example/"})
    >>> without_rule(f"rules:\\n  - a.example  # mine\\n  - {item}  # by jo\\n", item)
    'rules:\\n  - a.example  # mine\\n'

    Raises:
        ActionError: there is no such rule, or it is written together with others.
    """
    before = read_rules(text)
    body = text.removeprefix("\ufeff")
    nodes = _rules_of(yaml.compose(body, LOADER)).value
    places = [place for place, node in enumerate(nodes) if item_text(body, node) == item]
    if not places:
        raise ActionError("the rule is not there any more, or was changed since")
    place = places[-1]
    removed = text[: len(text) - len(body)] + _remove(body, nodes, place)
    expected = [(rule.pattern, rule.terms) for number, rule in enumerate(before) if number != place]
    try:
        is_kept = len(before) == len(nodes) and [(rule.pattern, rule.terms) for rule in read_rules(removed)] == expected
    except ActionError:
        is_kept = False
    if not is_kept:
        raise ActionError("its rules are written in a way that none can be removed from")
    return removed


def _remove(text: str, nodes: list[Any], place: int) -> str:
    start = nodes[place].start_mark.index
    end = start + len(item_text(text, nodes[place]))
    line_start = text.rfind("\n", 0, start) + 1
    rest = re.match(r"[ \t]*(?:#[^\r\n]*)?(?:\r?\n|$)", text[end:])
    if text[line_start:start].strip() == "-" and rest is not None:
        if len(nodes) == 1:  # an empty list has brackets
            before = text[:line_start].rstrip()
            return (
                f"{before if before.endswith(':') else text[:line_start]} []{line_end(text)}{text[end + rest.end() :]}"
            )
        return text[:line_start] + text[end + rest.end() :]
    if place:
        return text[: end_of(nodes[place - 1])] + text[end:]
    return text[:start] + (text[nodes[1].start_mark.index :] if len(nodes) > 1 else text[end:])


def _insert(text: str, item: str, comment: str) -> str:
    """The text with one more item in its list of rules; the text is a list that can be read."""
    document: Any = yaml.compose(text, LOADER)
    rules = _rules_of(document)
    start, end, indent = rules.start_mark.index, end_of(rules), rules.start_mark.column
    if rules.flow_style and (rules.value or document.flow_style or "#" in text[start:end]):
        place = end_of(rules.value[-1]) if rules.value else start + 1
        return f"{text[:place]}{', ' if rules.value else ''}{item}{text[place:]}"
    if rules.flow_style:  # an empty list: the brackets go, and the rules begin on a line of their own
        head = text[:start].rstrip()
        text, end, indent = head + text[end:], len(head), document.start_mark.column + 2
    place = len(text[:end].rstrip())
    place += len(text[place:].partition("\n")[0].rstrip("\r"))  # behind a comment
    ends, line = line_end(text), f"{item}  # {comment}" if comment else item
    return f"{text[:place]}{ends}{' ' * indent}- {line}{text[place:] or ends}"


def _rules_of(document: Any) -> Any:
    return next(value for key, value in document.value if key.value == "rules")


def written_rules(text: str) -> list[WrittenRule]:
    """The rules of a list in YAML, as they are written.

    >>> [own] = written_rules("rules:\\n- a.example  # jo, yesterday\\n")
    >>> own.item, own.keys, own.comment
    ('a.example', {'expression': 'a.example'}, 'jo, yesterday')

    Raises:
        ActionError: the text is no list.
    """
    rules, body = read_rules(text), text.removeprefix("\ufeff")
    nodes = _rules_of(yaml.compose(body, LOADER)).value
    if len(nodes) != len(rules):
        return [WrittenRule(rule, "", {}, "") for rule in rules]
    return [_written(rule, body, node) for rule, node in zip(rules, nodes, strict=True)]


def _written(rule: Rule, text: str, node: Any) -> WrittenRule:
    if isinstance(node, yaml.ScalarNode):
        keys = {"uri" if node.value.lower().startswith("hashed:") else "expression": node.value}
    else:
        keys = {key.value: value.value for key, value in node.value}
    item = item_text(text, node)
    comment = re.match(r"[ \t]*,?[ \t]+#([^\r\n]*)", text[node.start_mark.index + len(item) :])
    return WrittenRule(rule, item, keys, "" if comment is None else comment[1].strip())


def read_rules(text: str) -> list[Rule]:
    """The rules of a list in YAML; ``ActionError`` if the text is no list."""
    report = ProblemReport("list")
    rules = list(read_yaml(text.encode("utf-8", "backslashreplace"), ListDefaults(), report))
    if report.errors:
        raise ActionError(f"line {report.errors[0].line}: {report.errors[0].what}: {report.errors[0].why}")
    return rules
