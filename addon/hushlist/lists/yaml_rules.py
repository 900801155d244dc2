"""Reader of YAML rule lists; ``rules/README.md`` is their reference.

>>> report = ProblemReport("x.yaml")
>>> rules = read_yaml(b"rules: [ads.example, {sha256: ba7816bf}]", ListDefaults(), report)
>>> [str(rule.pattern) for rule in rules]
['ads.example/', 'sha256:ba7816bf']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hushlist.errors import UrlError
from hushlist.lists.hash_lists import read_hashed_uri
from hushlist.lists.list_source import ListDefaults, OwnTerms, ProblemReport, shared_terms
from hushlist.lists.patterns import (
    ONLY_FULL,
    may_be_rule,
    parse_address_range,
    parse_expression_hash,
    parse_written_expression,
)
from hushlist.lists.yaml_nodes import MappingReader, YamlNode, read_document
from hushlist.match.rule import Action, ExpressionHash, Pattern, Rule, Terms
from hushlist.url.hashed_uri import VARIANTS

#: the actions that a rule can have
RULE_ACTIONS = (Action.ALLOW, Action.BLOCK, Action.WARN, Action.TAG)
#: keys that hold for all rules of a list, in the list's head or in the policy
DEFAULTS_KEYS = ("name", "title", "action", "category", "reason", "variant")

_PARSERS: dict[str, Callable[[str], Pattern]] = {
    "expression": parse_written_expression,
    "sha256": parse_expression_hash,
    "address": parse_address_range,
}
_PATTERN_KEYS = (*_PARSERS, "uri")
_RULE_KEYS = (*_PATTERN_KEYS, "action", "category", "reason", "expires")


def read_yaml(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """All rules of a list; if the report has errors, those that could be read."""
    document = read_document(octets, report)
    if document is None:
        return
    fields = MappingReader(document, ("description", *DEFAULTS_KEYS, "rules"), report)
    fields.text("description")
    if isinstance(document.value, dict) and "rules" not in fields:
        report.error(document.line, "rules", "the list has none; an empty one is written 'rules: []'")
    defaults = read_defaults(fields).behind(defaults)
    reader = _RuleListReader(defaults, shared_terms(defaults, report.source), report)
    for node in fields.items("rules"):
        if rule := reader.read(node):
            yield rule


def read_defaults(fields: MappingReader) -> ListDefaults:
    """The defaults that a mapping gives for all rules of a list."""
    return ListDefaults(
        name=fields.name("name"),
        title=fields.text("title"),
        action=fields.choice("action", RULE_ACTIONS),
        category=fields.name("category"),
        reason=fields.text("reason"),
        variant=fields.choice("variant", VARIANTS),
    )


@dataclass(frozen=True, slots=True)
class _RuleListReader:
    """Reads the rules of one list."""

    defaults: ListDefaults
    terms: Callable[[OwnTerms], Terms]
    report: ProblemReport

    def read(self, node: YamlNode) -> Rule | None:
        """A rule, or ``None`` with an error or a warning in the report."""
        if isinstance(node.value, str):
            key = "uri" if node.value.lower().startswith("hashed:") else "expression"
            return self._make(key, node.value, node.line, OwnTerms())
        if not isinstance(node.value, dict):
            why = f"expected an expression, a hashed URI or a mapping, not {node.kind}"
            self.report.error(node.line, "rule", why)
            return None
        fields = MappingReader(node, _RULE_KEYS, self.report)
        own = OwnTerms(
            action=fields.choice("action", RULE_ACTIONS),
            category=fields.name("category"),
            reason=fields.text("reason"),
            expires=fields.day("expires"),
        )
        given = [key for key in _PATTERN_KEYS if key in fields]
        if len(given) != 1:
            what = " and ".join(given) or "rule"
            self.report.error(node.line, what, f"expected exactly one of {', '.join(_PATTERN_KEYS)}")
            return None
        text = fields.text(given[0])
        return None if text is None else self._make(given[0], text, fields.line_of(given[0]), own)

    def _make(self, key: str, text: str, line: int, own: OwnTerms) -> Rule | None:
        terms = self.terms(own)
        if key == "uri":
            uri = read_hashed_uri(text, line, self.defaults, self.report)
            return None if uri is None else Rule(uri, terms, line)
        try:
            pattern = _PARSERS[key](text)
        except ValueError as error:
            self.report.error(line, text, error.reason if isinstance(error, UrlError) else str(error))
            return None
        if isinstance(pattern, ExpressionHash) and not may_be_rule(pattern, terms.action):
            self.report.error(line, text, ONLY_FULL)
            return None
        return Rule(pattern, terms, line)
