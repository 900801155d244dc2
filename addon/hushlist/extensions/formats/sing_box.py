"""sing-box's rule sets in their source form (JSON): domains, suffixes, keywords, expressions and ranges of addresses.

The names and addresses of a rule are alternatives; whatever else it has, such as ports or programs, must fit as well,
and no rule of a filter can say that, so that it is left out as a whole.

Spec: https://sing-box.sagernet.org/configuration/rule-set/source-format/ and .../headless-rule/
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hushlist.core.lists.yaml_nodes import YamlNode
from hushlist.core.match.rule import Rule
from hushlist.extensions.formats.json_shape import fields_of, read_json, texts_of
from hushlist.extensions.formats.rule_maker import RuleMaker

_KINDS: dict[str, Callable[[RuleMaker, str, int], Iterator[Rule]]] = {
    "domain": RuleMaker.name,
    "domain_suffix": RuleMaker.name,
    "domain_keyword": RuleMaker.pattern,
    "domain_regex": RuleMaker.regex,
    "ip_cidr": RuleMaker.address,
}


def _read(maker: RuleMaker, rule: YamlNode) -> Iterator[Rule]:
    fields = fields_of(rule)
    others = sorted(fields.keys() - _KINDS.keys())
    if others:
        yield from maker.kind("rule", rule.line, f"a rule with {others[0][:40]!r}")
        return
    for kind, value in fields.items():
        for text, line in texts_of(value):
            yield from _KINDS[kind](maker, text, line)


read_sing_box = read_json({"rules/*": _read})
