"""STIX 2.1 bundles: indicators whose pattern is one name, URL or address, or alternatives of them.

A rule holds until the last day that its indicator is valid. Patterns that want several things at once are left out, and
so is whatever else a bundle has.

Spec: https://docs.oasis-open.org/cti/stix/v2.1/stix-v2.1.html, 4.7 Indicator, 9 STIX Patterning
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date

from hushlist.core.lists.yaml_nodes import YamlNode
from hushlist.core.match.rule import Rule, Terms
from hushlist.extensions.formats.json_shape import fields_of, read_json, text_of
from hushlist.extensions.formats.rule_maker import RuleMaker

_KINDS: dict[str, Callable[[RuleMaker, str, int, Terms | None], Iterator[Rule]]] = {
    "domain-name": RuleMaker.name,
    "url": RuleMaker.url,
    "ipv4-addr": RuleMaker.address,
    "ipv6-addr": RuleMaker.address,
}
_KIND = "|".join(_KINDS)
_COMPARISON = re.compile(rf"[\s\[]*({_KIND}):value\s*(?:=|ISSUBSET)\s*'((?:[^'\\]|\\.)*+)'[\s\]]*")


def _read(maker: RuleMaker, thing: YamlNode) -> Iterator[Rule]:
    fields = fields_of(thing)
    kind, pattern = text_of(fields.get("type")), text_of(fields.get("pattern"))
    if kind != "indicator":
        return maker.kind(kind, thing.line, f"an object of the type {kind[:40]!r}")
    if text_of(fields.get("revoked")) == "true":
        return maker.kind(pattern, thing.line, "an indicator that is revoked")
    if text_of(fields.get("pattern_type")) not in ("", "stix") or not (values := _values(pattern)):
        return maker.kind(pattern, thing.line, "a pattern of more than names, URLs and addresses")
    until = text_of(fields.get("valid_until"))[:10]
    expires = (
        date.fromisoformat(until) if re.fullmatch(r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:[01][0-9]|2[0-8])", until) else None
    )
    terms = maker.defaults.terms(maker.report.source, expires=expires)
    return (
        rule
        for what, value in values
        for rule in _KINDS[what](maker, re.sub(r"\\(.)", r"\1", value), thing.line, terms)
    )


def _values(pattern: str) -> list[tuple[str, str]]:
    """The alternatives of a pattern, each a kind and its value; none, if it is anything else."""
    alternatives, place = list[tuple[str, str]](), 0
    while match := _COMPARISON.match(pattern, place):
        alternatives.append((match[1], match[2]))
        if match.end() == len(pattern):
            return alternatives
        if not pattern.startswith("OR", match.end()):
            break
        place = match.end() + 2
    return []


read_stix = read_json({"objects/*": _read})
