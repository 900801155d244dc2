"""MISP's events and answers in JSON: names, URLs and addresses of attributes that are for detection (``to_ids``).

Spec: https://www.misp-project.org/datamodels/; draft-dulaunoy-misp-core-format
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hushlist.core.lists.yaml_nodes import YamlNode
from hushlist.core.match.rule import Rule
from hushlist.extensions.formats.json_shape import fields_of, read_json, text_of
from hushlist.extensions.formats.rule_maker import RuleMaker

_KINDS: dict[str, Callable[[RuleMaker, str, int], Iterator[Rule]]] = {
    **dict.fromkeys(("domain", "hostname", "domain|ip", "hostname|port"), RuleMaker.name),
    **dict.fromkeys(("url", "uri"), RuleMaker.url),
    **dict.fromkeys(("ip-dst", "ip-src", "ip-dst|port", "ip-src|port"), RuleMaker.address),
}


def _read(maker: RuleMaker, attribute: YamlNode) -> Iterator[Rule]:
    fields = fields_of(attribute)
    kind, value = text_of(fields.get("type")), text_of(fields.get("value"))
    if kind not in _KINDS:
        return maker.kind(value, attribute.line, f"an attribute of the type {kind[:40]!r}")
    if text_of(fields.get("to_ids")) in ("false", "0"):
        return maker.kind(value, attribute.line, "an attribute that is not for detection")
    return _KINDS[kind](maker, value.partition("|")[0], attribute.line)


_EVENTS = ("Event", "*/Event", "response/*/Event", "response")
read_misp = read_json(
    {f"{event}/{attribute}": _read for event in _EVENTS for attribute in ("Attribute/*", "Object/*/Attribute/*")}
)
