"""dnsmasq's configuration, as far as it blocks names.

"More specific domains take precedence over less specific domains": a server or an address of its own, for a name below
one that is blocked, is an exception.

Spec: dnsmasq(8), --address, --server, --local

>>> from hushlist.core.lists.list_source import ListDefaults, ProblemReport
>>> from hushlist.core.match.rule import each_rule
>>> report = ProblemReport("f")
>>> octets = b"local=/a.example/\\ncache-size=9\\nserver=/b.a.example/#\\naddress=/c.a.example/192.0.2.1"
>>> [str(rule.pattern) for rule in each_rule(read_dnsmasq(octets, ListDefaults(), report))]
['a.example/', '@@||b.a.example^', '@@||c.a.example^']
>>> print(*report.warnings, sep="\\n")
f:2: cache-size=9: left out: a directive 'cache-size'
"""

from __future__ import annotations

from collections.abc import Iterator

from hushlist.core.lists.patterns import is_sinkhole
from hushlist.core.match.rule import Rule
from hushlist.extensions.formats.rule_maker import EVERY_HOST, RuleMaker, plain_lines, read_lines

_WITH_NAMES = ("address", "server", "local")
_NO_NAMES = {"#": EVERY_HOST, "": "no rule fits every name without a dot"}


def _read(maker: RuleMaker, entry: str, line: int) -> Iterator[Rule]:
    directive, _, value = entry.partition("=")
    directive, value = directive.strip(), value.strip()
    if " " in directive or "\t" in directive:
        yield from maker.left_out(entry, line, "expected a directive such as address=/NAME/")
        return
    if directive not in _WITH_NAMES:
        yield from maker.kind(entry, line, f"a directive {directive[:40]!r}")
        return
    if not value.startswith("/"):
        yield from maker.kind(entry, line, f"'{directive}' without a name")
        return
    *names, target = value[1:].split("/")
    # "--address=/#/... a domain specification of # matches any domain"; as an address, "#" is 0.0.0.0 and ::
    blocks = not target or (directive == "address" and (target == "#" or is_sinkhole(target)))
    if not names:
        maker.left_out(entry, line, "expected a '/' behind the last name")
    for name in names:
        if why := _NO_NAMES.get(name):
            maker.left_out(entry, line, why)
        else:
            yield from (maker.name if blocks else maker.nearest)(name, line)


read_dnsmasq = read_lines(plain_lines(rb"(?:address|server|local)=/", rb"/"), _read)
