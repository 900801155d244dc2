"""Reader of dnsmasq's configuration: the names that it answers with nothing.

Spec: dnsmasq(8), --address, --server, --local
"""

from __future__ import annotations

from hushlist.lists.foreign import is_sinkhole, name_rules
from hushlist.lists.source import Defaults, Report, entries
from hushlist.match.rule import Rule

_WITH_NAMES = ("address", "server", "local")


def read_dnsmasq(octets: bytes, defaults: Defaults, report: Report) -> list[Rule]:
    """Lines such as ``address=/a.example/b.example/0.0.0.0``; other directives are counted by kind.

    >>> report = Report("f")
    >>> rules = read_dnsmasq(b"local=/a.example/\\ncache-size=9\\naddress=/b.example/192.0.2.1", Defaults(), report)
    >>> [str(rule.pattern) for rule in rules]
    ['a.example/']
    >>> print(*report.warnings, sep="\\n")
    f:2: cache-size=9: left out: a directive 'cache-size'
    f:3: address=/b.example/192.0.2.1: left out: an address that is given to names: it blocks nothing
    """
    rules = []
    for line, entry in entries(octets, report, is_foreign=True):
        directive, _, value = entry.partition("=")
        directive, value = directive.strip(), value.strip()
        if directive not in _WITH_NAMES:
            report.tally(line, entry, f"a directive {directive[:40]!r}")
            continue
        if not value.startswith("/"):
            report.tally(line, entry, f"'{directive}' without a name")
            continue
        *names, target = value[1:].split("/")
        if not names:
            report.leave_out(line, entry, "expected a '/' behind the last name")
        elif target and directive != "address":
            report.tally(line, entry, "a server that is asked for names: it blocks nothing")
        # "--address=/#/... a domain specification of # matches any domain"; as an address, "#" is 0.0.0.0 and ::
        elif target and target != "#" and not is_sinkhole(target):
            report.tally(line, entry, "an address that is given to names: it blocks nothing")
        else:
            for name in names:
                rules += _name_rules(name, entry, line, defaults, report)
    return rules


def _name_rules(name: str, entry: str, line: int, defaults: Defaults, report: Report) -> list[Rule]:
    if name == "#":
        report.leave_out(line, entry, "no rule fits every host")
        return []
    if not name:
        report.leave_out(line, entry, "no rule fits every name without a dot")
        return []
    return name_rules(name, line, defaults, report)
