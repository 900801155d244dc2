"""RouterOS's scripts: static names of the DNS that lead nowhere, and lists of addresses.

Spec: https://help.mikrotik.com/docs/spaces/ROS/pages/37748767/DNS, Static; .../pages/130220161/Address-lists
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hushlist.core.match.rule import Rule
from hushlist.extensions.formats.rule_maker import ANSWERED, RuleMaker, leads_nowhere, plain_lines, read_lines

_PATH = re.compile(r"(?::do\s*\{\s*)?(?:/?(?:ip|ipv6)[ /](?:dns static|firewall address-list)\s*)?(.*)")
_VALUE = re.compile(r'(?<![a-z-])([a-z-]++)=(?:"((?:[^"\\]|\\.)*)"|([^\s"}]*))')
_ESCAPE = re.compile(r"\\(.)")


def _read(maker: RuleMaker, entry: str, line: int) -> Iterator[Rule]:
    match = _PATH.fullmatch(entry)
    command = match[1] if match else entry
    if not command:
        return iter(())  # the path that the next lines are about
    if not command.startswith("add "):
        return maker.kind(entry, line, f"a command {command.split()[0][:40]!r}")
    values = {key: _ESCAPE.sub(r"\1", quoted) or plain for key, quoted, plain in _VALUE.findall(command)}
    name, address, kind = values.get("name", ""), values.get("address", ""), values.get("type", "").upper()
    if values.get("disabled") == "yes":
        return maker.kind(entry, line, "an entry that is off")
    if "list" in values and address:
        return maker.host(address, line)
    is_sunk = kind == "NXDOMAIN" or (kind in ("", "A", "AAAA") and leads_nowhere(address))
    if not is_sunk:
        return maker.kind(entry, line, ANSWERED)
    return maker.regex(values["regexp"], line) if "regexp" in values else maker.name(name, line)


_SUNK = rb"(?=[^\n]*(?:address=(?:0\.0\.0\.0|127\.0\.0\.1) |type=NXDOMAIN$))"
_PLAIN = rb'(?:/ip dns static )?add %b(?:address=[0-9.]+ )?name="?' % _SUNK
read_mikrotik = read_lines(plain_lines(_PLAIN, rb'"?(?: type=NXDOMAIN)?'), _read)
