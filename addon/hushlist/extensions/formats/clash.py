"""Rule providers of Clash and Mihomo, in YAML (``payload:``) or as text: domains, ranges of addresses, or rules.

``+.a.example`` and ``.a.example`` are a domain with those below it, ``*`` is one label. Rules (``DOMAIN-SUFFIX,...``)
are read as in ``proxy_rules``; a whole configuration has them under ``rules``.

Spec: https://wiki.metacubex.one/en/config/rule-providers/content/; /en/handbook/syntax/#domain-wildcards
"""

from __future__ import annotations

from collections.abc import Iterator

from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.lists.yaml_nodes import read_document
from hushlist.core.match.rule import Rule
from hushlist.extensions.formats.json_shape import fields_of, text_of
from hushlist.extensions.formats.proxy_rules import read_rule
from hushlist.extensions.formats.rule_maker import RuleMaker, plain_lines, read_lines


def _read(maker: RuleMaker, entry: str, line: int) -> Iterator[Rule]:
    if "," in entry:
        return read_rule(maker, entry, line)
    name = entry.removeprefix("+.").removeprefix("*.")
    return maker.glob(entry.replace("+.", "*."), line) if "*" in name else maker.host(name.lstrip("."), line)


read_clash_text = read_lines(plain_lines(rb"(?:\+?\.)?"), _read)


def read_clash(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """The entries of a document's ``payload``, or of its ``rules``.

    >>> rules = read_clash(b"payload:\\n- '+.a.example'\\n- DOMAIN,b.example", ListDefaults(), ProblemReport("f"))
    >>> [(rule.line, str(rule.pattern)) for rule in rules]
    [(2, 'a.example/'), (3, 'b.example/')]
    """
    document = read_document(octets, report)
    if document is None:
        return
    fields = fields_of(document)
    listed = fields.get("payload") or fields.get("rules")
    if listed is None:
        report.error(document.line, "payload", "it has neither a payload nor rules")
        return
    maker = RuleMaker(defaults, report)
    for item in listed.items:
        if entry := text_of(item):
            yield from _read(maker, entry, item.line)
        elif not (item is listed and item.value is None):
            report.leave_out(item.line, str(item), f"expected text, not {item.kind}")
