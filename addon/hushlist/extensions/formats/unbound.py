"""Unbound's configuration, as far as it blocks names.

A zone that is refused, empty or dropped is a rule, and so are data that lead nowhere; one that is transparent is an
exception from the zones above it. Of a zone of the type ``redirect``, its data say what it does.

Spec: unbound.conf(5), local-zone, local-data
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hushlist.core.match.rule import Rule
from hushlist.extensions.formats.rule_maker import ANSWERED, RuleMaker, leads_nowhere, plain_lines, read_lines

_BLOCKS = (
    *("deny", "refuse", "static", "inform_deny", "always_refuse", "always_nxdomain", "always_nodata", "always_deny"),
    "always_null",
)
_PASSES = ("transparent", "typetransparent", "inform", "always_transparent", "nodefault")
_DIRECTIVE = re.compile(r"([a-z0-9-]+):\s*(.*)")
_ZONE = re.compile(r"(?:\"([^\"]*)\"|'([^']*)'|(\S+))\s+\"?([a-z_]+)\"?")
_DATA = re.compile(r"[\"']\s*(\S+)\s+(?:[0-9]+[smhdw]?\s+)?(?:IN\s+)?(\w+)\s+([^\"'\s]*+)[^\"']*+[\"']", re.IGNORECASE)


def _read(maker: RuleMaker, entry: str, line: int) -> Iterator[Rule]:
    directive = _DIRECTIVE.fullmatch(entry)
    if directive is None:
        return maker.left_out(entry, line, 'expected a line such as local-zone: "NAME" always_nxdomain')
    name, value = directive.groups()
    if name == "server" and not value:
        return iter(())
    if name == "local-zone" and (zone := _ZONE.fullmatch(value)):
        host, kind = zone[1] or zone[2] or zone[3] or "", zone[4]
        if kind in _BLOCKS:
            return maker.name(host, line)
        if kind in _PASSES:
            return maker.nearest(host, line)
        return iter(()) if kind == "redirect" else maker.kind(entry, line, f"a zone of the type {kind[:40]!r}")
    if name == "local-data" and (data := _DATA.fullmatch(value)):
        is_sunk = data[2].upper() in ("A", "AAAA") and leads_nowhere(data[3])
        return maker.name(data[1], line) if is_sunk else maker.kind(entry, line, ANSWERED)
    return maker.kind(entry, line, f"a directive {name[:40]!r}")


read_unbound = read_lines(plain_lines(rb'[ ]*+local-zone: "', rb'\.?" (?:%b)' % "|".join(_BLOCKS).encode()), _read)
