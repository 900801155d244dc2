"""ThreatFox's indicators in JSON: URLs, domains, and addresses with a port, which a rule does not look at.

Spec: https://threatfox.abuse.ch/export/ and https://threatfox.abuse.ch/api/
"""

from __future__ import annotations

from collections.abc import Iterator

from hushlist.core.lists.yaml_nodes import YamlNode
from hushlist.core.match.rule import Rule
from hushlist.extensions.formats.json_shape import fields_of, read_json, text_of
from hushlist.extensions.formats.numbered_lists import without_port
from hushlist.extensions.formats.rule_maker import RuleMaker


def _read(maker: RuleMaker, record: YamlNode) -> Iterator[Rule]:
    fields = fields_of(record)
    node = fields.get("ioc_value") or fields.get("ioc") or record
    kind, value = text_of(fields.get("ioc_type")), text_of(node)
    if kind == "url":
        return maker.url(value, node.line)
    if kind in ("domain", "ip:port"):
        return maker.host(without_port(value), node.line)
    return maker.kind(value, node.line, f"an indicator of the type {kind[:40]!r}")


read_threatfox = read_json({"*/*": _read})
