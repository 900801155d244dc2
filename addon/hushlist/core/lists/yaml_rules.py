"""Reader of YAML rule lists; ``rules/lists.md`` is their reference.

>>> report = ProblemReport("x.yaml")
>>> rules = read_yaml(b"rules: [ads.example, {sha256: ba7816bf}]", ListDefaults(), report)
>>> [str(rule.pattern) for rule in rules]
['ads.example/', 'sha256:ba7816bf']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from hushlist.core.errors import UrlError
from hushlist.core.lists.category_names import category_named
from hushlist.core.lists.hash_lists import read_hashed_uri
from hushlist.core.lists.list_keys import LIST_KEYS, PATTERN_KEYS, RULE_ACTIONS, RULE_KEYS, read_defaults, read_scope
from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.lists.patterns import (
    ONLY_FULL,
    may_be_rule,
    of_hosts,
    parse_address_range,
    parse_expression_hash,
    parse_sealed_hash,
    parse_whole_url,
    parse_written_expression,
)
from hushlist.core.lists.yaml_documents import read_document
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.match.rule import RUNGS, ExpressionHash, Pattern, Rule, Scope, Terms, each_rule
from hushlist.core.policy.key_types import Reading, names_of, read_values
from hushlist.core.policy.usable_keys import table_of

_PARSERS: dict[str, Callable[[str], Pattern]] = {
    "expression": parse_written_expression,
    "sha256": parse_expression_hash,
    "sealed": parse_expression_hash,
    "address": parse_address_range,
}
_LIST_KEYS, _PATTERN_KEYS, _RULE_KEYS = names_of(LIST_KEYS), names_of(PATTERN_KEYS), names_of(RULE_KEYS)
_OF_EXTENSIONS = table_of().rows("rule")
_NO_RUNG = "only an expression can have it; what says how a hashed URI is compared is its variant"


def read_yaml(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """All rules of a list; if the report has errors, those that could be read."""
    document = read_document(octets, report)
    if document is None:
        return
    fields = MappingReader(document, _LIST_KEYS, report)
    for key in ("description", "version", "issues"):
        fields.text(key)
    seal = defaults.check_seal(fields.line_of("seal"), fields.text("seal"), report)
    fields.require("rules", "rules", "the list has none; an empty one is written 'rules: []'")
    defaults = read_defaults(fields).behind(defaults)
    reader = _RuleListReader(defaults, cache(partial(defaults.terms, report.source)), report, seal)
    rules = (rule for node in fields.items("rules") if (rule := reader.read(node)))
    yield from rules if defaults.covers is None else each_rule(of_hosts(rules, report))


@dataclass(frozen=True, slots=True)
class _RuleListReader:
    defaults: ListDefaults
    #: completes a rule's own terms; equal ones become one object
    terms: Callable[..., Terms]
    report: ProblemReport
    #: the fingerprint of the key of its sealed hashes
    seal: str

    def read(self, node: YamlNode) -> Rule | None:
        """A rule, or ``None`` with an error or a warning in the report."""
        if isinstance(node.value, str):
            key = "uri" if node.value.lower().startswith("hashed:") else "expression"
            return self._make(key, node.value, node.line, self.terms())
        if not isinstance(node.value, dict):
            why = f"expected an expression, a hashed URI or a mapping, not {node.kind}"
            self.report.error(node.line, "rule", why)
            return None
        fields = MappingReader(node, _RULE_KEYS, self.report)
        terms = self.terms(
            action=fields.choice("action", RULE_ACTIONS),
            category=fields.name("category", category_named),
            reason=fields.reason(),
            expires=fields.day("expires"),
            values=tuple(read_values(_OF_EXTENSIONS, fields, Reading(Path(self.report.source), self.report)).items()),
            scope=self._scope(fields),
        )
        keys = [key for key in _PATTERN_KEYS if key in fields]
        if len(keys) != 1:
            what = " and ".join(keys) or "rule"
            self.report.error(node.line, what, f"expected exactly one of {', '.join(_PATTERN_KEYS)}")
            return None
        rung = fields.choice("match", RUNGS)
        if "match" in fields and keys[0] != "expression":
            fields.error("match", _NO_RUNG)
            return None
        text = fields.text(keys[0])
        return None if text is None else self._make(keys[0], text, fields.line_of(keys[0]), terms, rung)

    def _scope(self, fields: MappingReader) -> Scope | None:
        """For whom a rule counts, and when; what it does not say, its list does."""
        scope, of_list = read_scope(fields, self.defaults.scope_names), self.defaults.scope
        if scope is None or of_list is None:
            return scope or of_list
        return Scope(scope.groups or of_list.groups, scope.during or of_list.during)

    def _make(self, key: str, text: str, line: int, terms: Terms, rung: str | None = None) -> Rule | None:
        if key == "uri":
            uri = read_hashed_uri(text, line, self.defaults, self.report)
            return None if uri is None else Rule(uri, terms, line)
        try:
            pattern = _PARSERS[key](text) if rung is None else parse_whole_url(text, rung)
            if key == "sealed":
                pattern = parse_sealed_hash(text, self.seal)
        except ValueError as error:
            self.report.error(line, text, error.reason if isinstance(error, UrlError) else str(error))
            return None
        if isinstance(pattern, ExpressionHash) and not may_be_rule(pattern, terms.action):
            self.report.error(line, text, ONLY_FULL)
            return None
        return Rule(pattern, terms, line)
