"""Rules of proxies, ``TYPE,VALUE,POLICY``: of Clash and Mihomo (classical), Surge and its kin, and Quantumult X.

A rule without a policy, as in a set of rules, is one to block: such a set is named for what is done with it. One whose
policy is another than to reject blocks nothing here.

Spec: https://wiki.metacubex.one/en/config/rules/; https://manual.nssurge.com/rule/domain-based.html;
https://github.com/crossutility/Quantumult-X/blob/master/sample.conf
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from hushlist.core.match.rule import Rule
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
