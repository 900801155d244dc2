"""SmartDNS's configuration, as far as it blocks names: ``address /NAME/#``, ``domain-rules /NAME/ -address #``.

An address of its own (``/-`` or another) is an exception from less specific names. ``#4`` and ``#6`` refuse one kind of
address alone, and are left out.

Spec: https://pymumu.github.io/smartdns/en/config/domain-rule/ and .../config/domain-block/
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hushlist.core.match.rule import Rule
from hushlist.extensions.formats.rule_maker import RuleMaker, leads_nowhere, plain_lines, read_lines

_ADDRESS = re.compile(r"address\s+/([^/]*)/(\S*)")
_RULES = re.compile(r"domain-rules?\s+/([^/]*)/\s++(?:.*\s)?-a(?:ddress)?\s+(\S+).*")


def _read(maker: RuleMaker, entry: str, line: int) -> Iterator[Rule]:
    match = _ADDRESS.fullmatch(entry) or _RULES.fullmatch(entry)
    if match is None:
        return maker.kind(entry, line, f"a directive {entry.split()[0][:40]!r}")
    name, address = match.groups()
    if name.startswith(("domain-set:", "ruleset:")):
        return maker.kind(entry, line, "a set of domains, which is another file")
    host = name.removeprefix("*.").removeprefix("-.").lstrip(".")
    if address in ("#4", "#6"):
        return maker.kind(entry, line, "a rule for one kind of address")
    is_sunk = address == "#" or all(map(leads_nowhere, address.split(",")))
    return maker.name(host, line) if is_sunk else maker.nearest(host, line)


read_smartdns = read_lines(plain_lines(rb"address /(?:\*\.|-\.)?", rb"/#"), _read, has_trailing_comments=False)
