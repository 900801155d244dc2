"""What a reader makes of a text, with what it complains about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.lists.yaml_documents import read_document
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.match.rule import Action, Rule, RuleBlock, each_rule
from hushlist.core.policy import key_types, usable_keys
from hushlist.core.policy.policy_reader import policy_rows

Read = TypeVar("Read")
ListReader = Callable[[bytes, ListDefaults, ProblemReport], Iterator[Rule | RuleBlock]]
NO_WILDCARD = "'*' is no wildcard here; a rule fits its host, all hosts below it, and all paths below it"


def as_octets(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def node_of(text: str | bytes, report: ProblemReport | None = None) -> YamlNode:
    """The node of a text that is YAML."""
    node = read_document(as_octets(text), report or ProblemReport("p"))
    assert node is not None
    return node


def read_node(
    reader: Callable[[YamlNode, ProblemReport], Read], text: str | bytes, source: str = "p"
) -> tuple[Read, list[str]]:
    """What a reader of a node makes of a text, and the errors."""
    report = ProblemReport(source)
    read = reader(node_of(text, report), report)
    return read, [str(error) for error in report.errors]


def read_key(name: str, text: str | bytes, source: str = "p") -> tuple[Any, list[str]]:
    """What the row of a policy's key makes of a text, its default in place of nothing, and the errors."""
    report, row = ProblemReport(source), next(row for row in policy_rows(usable_keys.table_of()) if row.name == name)
    fields = MappingReader(YamlNode(1, {name: node_of(text, report)}), (name,), report)
    values = key_types.read_rows((row,), fields, key_types.Reading(Path(source), report))
    return values.get(row.field, row.default), [str(error) for error in report.errors]


def read_list(
    reader: ListReader, text: str | bytes, defaults: ListDefaults | None = None, source: str = "f"
) -> tuple[list[Rule], list[str], list[str]]:
    """``(rules, errors, warnings)`` of a list."""
    report = ProblemReport(source)
    rules = list(each_rule(reader(as_octets(text), defaults or ListDefaults(), report)))
    return rules, [str(error) for error in report.errors], [str(warning) for warning in report.warnings]


def read_rules(*reading: Any) -> tuple[list[str], list[str]]:
    """``(rules, warnings)``: a rule as "line:pattern", with a "+" in front where it allows; there are no errors."""
    rules, errors, warnings = read_list(*reading)
    assert errors == []
    shown = [f"{'+' if rule.terms.action is Action.ALLOW else ''}{rule.line}:{rule.pattern}" for rule in rules]
    return shown, [warning.removeprefix("f:") for warning in warnings]
