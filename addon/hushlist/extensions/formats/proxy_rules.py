"""Rules of proxies that choose where a connection goes.

``TYPE,VALUE,POLICY``: of Clash and Mihomo (classical), Surge and its kin, and Quantumult X. A rule without a policy, as
in a set of rules, is one to block: such a set is named for what is done with it. One whose policy is another than to
reject blocks nothing here.

Rule providers of Clash and Mihomo, in YAML (``payload:``) or as text: domains, ranges of addresses, or rules.
``+.a.example`` and ``.a.example`` are a domain with those below it, ``*`` is one label. A whole configuration has rules
under ``rules``.

sing-box's rule sets in their source form (JSON). The names and addresses of a rule are alternatives; whatever else it
has, such as ports or programs, must fit as well, and no rule of a filter can say that: it is left out.

The V2Ray community's lists: ``domain:``, ``full:``, ``keyword:`` and ``regexp:``; without one of them, a domain.
Attributes (``@ads``) and affiliations (``&list``) behind an entry are not used.

Spec: https://wiki.metacubex.one/en/config/rules/; https://manual.nssurge.com/rule/domain-based.html;
https://github.com/crossutility/Quantumult-X/blob/master/sample.conf;
https://wiki.metacubex.one/en/config/rule-providers/content/; /en/handbook/syntax/#domain-wildcards;
https://sing-box.sagernet.org/configuration/rule-set/source-format/ and .../headless-rule/;
https://github.com/v2fly/domain-list-community, Structure of data
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.lists.yaml_documents import read_document
from hushlist.core.lists.yaml_nodes import YamlNode
from hushlist.core.match.rule import Rule
from hushlist.extensions.formats.json_shape import fields_of, read_json, text_of, texts_of
from hushlist.extensions.formats.rule_maker import NO_BLOCK, RuleMaker, plain_lines, read_lines

_KINDS: dict[str, Callable[[RuleMaker, str, int], Iterator[Rule]]] = {
    "DOMAIN": RuleMaker.name,
    "DOMAIN-SUFFIX": RuleMaker.name,
    "DOMAIN-KEYWORD": RuleMaker.pattern,
    "DOMAIN-WILDCARD": RuleMaker.glob,
    "DOMAIN-REGEX": RuleMaker.regex,
    "URL-REGEX": lambda maker, text, line: maker.regex(text, line, of_names=False),
    "IP-CIDR": RuleMaker.address,
    "IP-CIDR6": RuleMaker.address,
}
#: Quantumult's words for them
_ALIASES = {"HOST": "DOMAIN", "IP6-CIDR": "IP-CIDR6"}
_ALIASES |= {f"HOST-{kind}": f"DOMAIN-{kind}" for kind in ("SUFFIX", "KEYWORD", "WILDCARD", "REGEX")}
#: what may stand behind a policy, or in its place
_FLAGS = ("no-resolve", "extended-matching", "pre-matching", "dns-failed", "enhanced-mode")
#: kinds whose value may have commas
_WITH_COMMAS = ("DOMAIN-REGEX", "URL-REGEX")
_WORD = re.compile(r"\s*[\w-]+\s*")


def read_rule(maker: RuleMaker, entry: str, line: int) -> Iterator[Rule]:
    """The rules of one rule of a proxy."""
    written, comma, rest = entry.partition(",")
    kind = _ALIASES.get(written.strip().upper(), written.strip().upper())
    if not comma:
        return maker.left_out(entry, line, "expected TYPE,VALUE")
    if kind not in _KINDS:
        return maker.kind(entry, line, f"a rule of the type {kind[:40]!r}")
    parts, words = rest.split(","), list[str]()
    while len(parts) > 1 and (kind not in _WITH_COMMAS or _WORD.fullmatch(parts[-1])):
        words.append(parts.pop())
    value, words = ",".join(parts), words[::-1]
    policies = [word.strip() for word in words if word.strip() and word.strip().lower() not in _FLAGS]
    if policies and not policies[0].lower().startswith("reject"):
        return maker.kind(entry, line, f"a rule whose policy is {policies[0][:40]!r}: {NO_BLOCK}")
    return _KINDS[kind](maker, value.strip().strip("\"'"), line)


_PLAIN = rb"(?:DOMAIN|DOMAIN-SUFFIX|HOST|HOST-SUFFIX|host|host-suffix),[ ]?"
read_proxy_rules = read_lines(plain_lines(_PLAIN, rb"(?:,[ ]?(?:REJECT|reject))?"), read_rule)


def _read_entry(maker: RuleMaker, entry: str, line: int) -> Iterator[Rule]:
    if "," in entry:
        return read_rule(maker, entry, line)
    name = entry.removeprefix("+.").removeprefix("*.")
    return maker.glob(entry.replace("+.", "*."), line) if "*" in name else maker.host(name.lstrip("."), line)


read_clash_text = read_lines(plain_lines(rb"(?:\+?\.)?"), _read_entry)


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
            yield from _read_entry(maker, entry, item.line)
        elif not (item is listed and item.value is None):
            report.leave_out(item.line, str(item), f"expected text, not {item.kind}")


_SING_BOX_KINDS: dict[str, Callable[[RuleMaker, str, int], Iterator[Rule]]] = {
    "domain": RuleMaker.name,
    "domain_suffix": RuleMaker.name,
    "domain_keyword": RuleMaker.pattern,
    "domain_regex": RuleMaker.regex,
    "ip_cidr": RuleMaker.address,
}


def _read_headless_rule(maker: RuleMaker, rule: YamlNode) -> Iterator[Rule]:
    fields = fields_of(rule)
    others = sorted(fields.keys() - _SING_BOX_KINDS.keys())
    if others:
        yield from maker.kind("rule", rule.line, f"a rule with {others[0][:40]!r}")
        return
    for kind, value in fields.items():
        for text, line in texts_of(value):
            yield from _SING_BOX_KINDS[kind](maker, text, line)


read_sing_box = read_json({"rules/*": _read_headless_rule})

_V2FLY_KINDS: dict[str, Callable[[RuleMaker, str, int], Iterator[Rule]]] = {
    "": RuleMaker.name,
    "domain": RuleMaker.name,
    "full": RuleMaker.name,
    "keyword": RuleMaker.pattern,
    "regexp": RuleMaker.regex,
    "include": lambda maker, text, line: maker.kind(text, line, "a list that it includes: name it in the policy"),
}


def _read_v2fly_line(maker: RuleMaker, entry: str, line: int) -> Iterator[Rule]:
    plain = entry.split(" @")[0].split(" &")[0].strip()
    kind, colon, value = plain.partition(":")
    if not colon:
        kind, value = "", plain
    if kind not in _V2FLY_KINDS:
        return maker.left_out(entry, line, f"expected one of {', '.join(_V2FLY_KINDS)[2:]} in front of ':'")
    return _V2FLY_KINDS[kind](maker, value.strip(), line)


read_v2fly = read_lines(plain_lines(rb"(?:domain:|full:)?", rb"(?:[ ][@&][a-z0-9_!-]++)*+"), _read_v2fly_line)
