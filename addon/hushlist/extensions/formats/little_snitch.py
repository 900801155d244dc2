"""Little Snitch's rule groups (``.lsrules``): what they deny for every program.

Spec: https://help.obdev.at/littlesnitch5/ref-lsrules-file-format
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hushlist.core.lists.yaml_nodes import YamlNode
from hushlist.core.match.rule import Rule
from hushlist.extensions.formats.json_shape import fields_of, read_address, read_json, read_name, text_of, texts_of
from hushlist.extensions.formats.rule_maker import RuleMaker

_KINDS: dict[str, Callable[[RuleMaker, str, int], Iterator[Rule]]] = {
    "remote-domains": RuleMaker.name,
    "remote-hosts": RuleMaker.name,
    "remote-addresses": RuleMaker.address,
}
#: what narrows nothing
_ALSO = {*_KINDS, "action", "process", "notes", "direction", "priority", "disabled"}


def _read(maker: RuleMaker, rule: YamlNode) -> Iterator[Rule]:
    fields = fields_of(rule)
    action, process = text_of(fields.get("action")), text_of(fields.get("process")) or "any"
    narrow = sorted(fields.keys() - _ALSO)
    kind = (
        "a rule for one program"
        if process != "any"
        else "a rule for what comes in"
        if text_of(fields.get("direction")) == "incoming"
        else "a rule that is off"
        if text_of(fields.get("disabled")) == "true"
        else f"a rule with {narrow[0][:40]!r}"
        if narrow
        else ""
        if action in ("deny", "allow")
        else f"a rule to {action[:40]!r}"
    )
    if kind:
        yield from maker.kind("rule", rule.line, kind)
        return
    for key in _KINDS.keys() & fields.keys():
        for listed, line in texts_of(fields[key]):
            for text in map(str.strip, listed.split(",")):
                rules = _KINDS[key](maker, text, line)
                yield from rules if action == "deny" else maker.exception(rules, text, line)


read_little_snitch = read_json(
    {
        "denied-remote-domains/*": read_name,
        "denied-remote-hosts/*": read_name,
        "denied-remote-addresses/*": read_address,
        "denied-remote-addresses": lambda maker, node: iter(()) if node.items != [node] else read_address(maker, node),
        "rules/*": _read,
    }
)
