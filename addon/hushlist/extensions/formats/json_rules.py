"""Rules of firewalls, resolvers and browsers in JSON.

Little Snitch's rule groups (``.lsrules``): what they deny for every program.

Folders of Control D, as they are exported and imported: rules to block, which may be named with ``*``. A rule that
bypasses is an exception; one that redirects is left out, as is one that is off.

Chromium's policy: ``URLBlocklist``, and ``URLAllowlist``, whose entries are exceptions from it, read as in the format
``chromium``.

Spec: https://help.obdev.at/littlesnitch5/ref-lsrules-file-format;
https://docs.controld.com/docs/folders, Import; the folders of github.com/hagezi/dns-blocklists;
https://chromeenterprise.google/policies/#URLBlocklist; https://support.google.com/chrome/a/answer/9942583
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hushlist.core.lists.yaml_nodes import YamlNode
from hushlist.core.match.rule import Rule
from hushlist.extensions.adblock.filter_lists import chromium_expressions
from hushlist.extensions.formats.json_shape import fields_of, read_address, read_json, read_name, text_of, texts_of
from hushlist.extensions.formats.rule_maker import RuleMaker

_KINDS: dict[str, Callable[[RuleMaker, str, int], Iterator[Rule]]] = {
    "remote-domains": RuleMaker.name,
    "remote-hosts": RuleMaker.name,
    "remote-addresses": RuleMaker.address,
}
#: what narrows nothing
_ALSO = {*_KINDS, "action", "process", "notes", "direction", "priority", "disabled"}


def _read_firewall_rule(maker: RuleMaker, rule: YamlNode) -> Iterator[Rule]:
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
        "rules/*": _read_firewall_rule,
    }
)

_BLOCK, _BYPASS = "0", "1"


def _read_folder_rule(maker: RuleMaker, rule: YamlNode) -> Iterator[Rule]:
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


read_control_d = read_json({"rules/*": _read_folder_rule})


def _blocked(maker: RuleMaker, node: YamlNode) -> Iterator[Rule]:
    return (
        Rule(expression, maker.terms, node.line)
        for expression in chromium_expressions(text_of(node), node.line, maker.report)
    )


def _allowed(maker: RuleMaker, node: YamlNode) -> Iterator[Rule]:
    return maker.exception(_blocked(maker, node), text_of(node), node.line)


read_chromium_policy = read_json({"URLBlocklist/*": _blocked, "URLAllowlist/*": _allowed})
