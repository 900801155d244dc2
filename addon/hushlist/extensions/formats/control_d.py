"""Folders of Control D, as they are exported and imported: rules to block, which may be named with ``*``.

A rule that bypasses is an exception; one that redirects is left out, as is one that is off.

Spec: https://docs.controld.com/docs/folders, Import; the folders of github.com/hagezi/dns-blocklists
"""

from __future__ import annotations

from collections.abc import Iterator

from hushlist.core.lists.yaml_nodes import YamlNode
from hushlist.core.match.rule import Rule
from hushlist.extensions.formats.json_shape import fields_of, read_json, text_of
from hushlist.extensions.formats.rule_maker import RuleMaker

_BLOCK, _BYPASS = "0", "1"


def _read(maker: RuleMaker, rule: YamlNode) -> Iterator[Rule]:
    fields = fields_of(rule)
    name, action = text_of(fields.get("PK")), fields_of(fields.get("action", rule))
    does = text_of(action.get("do")) or _BLOCK
    if text_of(action.get("status")) == "0":
        return maker.kind(name, rule.line, "a rule that is off")
    if does not in (_BLOCK, _BYPASS):
        return maker.kind(name, rule.line, "a rule that leads elsewhere")
    host = name.removeprefix("*.")
    rules = maker.glob(name, rule.line) if "*" in host else maker.name(host, rule.line)
    return rules if does == _BLOCK else maker.exception(rules, name, rule.line)


read_control_d = read_json({"rules/*": _read})
