"""Feeds of threats in JSON.

    feodo       Feodo Tracker's servers that command botnets: the ``ip_address`` of each
    phishtank   PhishTank's sites: the ``url`` of each
    spamhaus    Spamhaus's DROP lists as JSON lines: the ``cidr`` of each; lists of networks by their numbers have none
    urlhaus     URLhaus's URLs of malware: the dumps, and the answers of its API
    threatfox   ThreatFox's indicators: URLs, domains, and addresses with a port, which a rule does not look at
    misp        MISP's events and answers: names, URLs, addresses of attributes that are for detection (``to_ids``)
    stix        STIX 2.1 bundles: indicators whose pattern is one name, URL or address, or alternatives of them

A rule of STIX holds until the last day that its indicator is valid. Patterns that want several things at once are left
out, and so is whatever else a bundle has.

Spec: https://feodotracker.abuse.ch/blocklist/; https://phishtank.org/developer_info.php, Downloadable databases;
https://www.spamhaus.org/faqs/do-not-route-or-peer-drop/; https://urlhaus.abuse.ch/api/;
https://threatfox.abuse.ch/export/; https://www.misp-project.org/datamodels/; draft-dulaunoy-misp-core-format;
https://docs.oasis-open.org/cti/stix/v2.1/stix-v2.1.html, 4.7 Indicator, 9 STIX Patterning
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date

from hushlist.core.lists.yaml_nodes import YamlNode
from hushlist.core.match.rule import Rule, Terms
from hushlist.extensions.formats.json_shape import fields_of, read_address, read_json, read_url, text_of
from hushlist.extensions.formats.numbered_lists import without_port
from hushlist.extensions.formats.rule_maker import RuleMaker

read_feodo = read_json({"*/ip_address": read_address})
read_phishtank = read_json({"*/url": read_url})
read_spamhaus = read_json({"cidr": read_address})
read_urlhaus = read_json({"*/*/url": read_url})


def _read_indicator(maker: RuleMaker, record: YamlNode) -> Iterator[Rule]:
    fields = fields_of(record)
    node = fields.get("ioc_value") or fields.get("ioc") or record
    kind, value = text_of(fields.get("ioc_type")), text_of(node)
    if kind == "url":
        return maker.url(value, node.line)
    if kind in ("domain", "ip:port"):
        return maker.host(without_port(value), node.line)
    return maker.kind(value, node.line, f"an indicator of the type {kind[:40]!r}")


read_threatfox = read_json({"*/*": _read_indicator})

_ATTRIBUTES: dict[str, Callable[[RuleMaker, str, int], Iterator[Rule]]] = {
    **dict.fromkeys(("domain", "hostname", "domain|ip", "hostname|port"), RuleMaker.name),
    **dict.fromkeys(("url", "uri"), RuleMaker.url),
    **dict.fromkeys(("ip-dst", "ip-src", "ip-dst|port", "ip-src|port"), RuleMaker.address),
}


def _read_attribute(maker: RuleMaker, attribute: YamlNode) -> Iterator[Rule]:
    fields = fields_of(attribute)
    kind, value = text_of(fields.get("type")), text_of(fields.get("value"))
    if kind not in _ATTRIBUTES:
        return maker.kind(value, attribute.line, f"an attribute of the type {kind[:40]!r}")
    if text_of(fields.get("to_ids")) in ("false", "0"):
        return maker.kind(value, attribute.line, "an attribute that is not for detection")
    return _ATTRIBUTES[kind](maker, value.partition("|")[0], attribute.line)


_EVENTS = ("Event", "*/Event", "response/*/Event", "response")
read_misp = read_json(
    {
        f"{event}/{attribute}": _read_attribute
        for event in _EVENTS
        for attribute in ("Attribute/*", "Object/*/Attribute/*")
    }
)

_OBSERVABLES: dict[str, Callable[[RuleMaker, str, int, Terms | None], Iterator[Rule]]] = {
    "domain-name": RuleMaker.name,
    "url": RuleMaker.url,
    "ipv4-addr": RuleMaker.address,
    "ipv6-addr": RuleMaker.address,
}
_OBSERVABLE = "|".join(_OBSERVABLES)
_COMPARISON = re.compile(rf"[\s\[]*({_OBSERVABLE}):value\s*(?:=|ISSUBSET)\s*'((?:[^'\\]|\\.)*+)'[\s\]]*")


def _read_object(maker: RuleMaker, thing: YamlNode) -> Iterator[Rule]:
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
        for rule in _OBSERVABLES[what](maker, re.sub(r"\\(.)", r"\1", value), thing.line, terms)
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


read_stix = read_json({"objects/*": _read_object})
