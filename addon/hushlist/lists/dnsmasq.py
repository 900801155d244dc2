"""Reads dnsmasq's directives; one that cannot be read is left out with a warning."""

from __future__ import annotations

from collections.abc import Iterator

from hushlist.lists.list_source import ListDefaults, ProblemReport, entries
from hushlist.lists.patterns import is_sinkhole, read_name
from hushlist.lists.plain_lists import BLOCKS_NOTHING
from hushlist.match.rule import Rule

_WITH_NAMES = ("address", "server", "local")
_NO_NAMES = {"#": "no rule fits every host", "": "no rule fits every name without a dot"}


def read_dnsmasq(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """Lines such as ``address=/a.example/b.example/0.0.0.0``; other directives are counted by kind.

    Spec: dnsmasq(8), --address, --server, --local

    >>> report = ProblemReport("f")
    >>> octets = b"local=/a.example/\\ncache-size=9\\naddress=/b.example/192.0.2.1"
    >>> [str(rule.pattern) for rule in read_dnsmasq(octets, ListDefaults(), report)]
    ['a.example/']
    >>> print(*report.warnings, sep="\\n")
    f:2: cache-size=9: left out: a directive 'cache-size'
    f:3: address=/b.example/192.0.2.1: left out: an address that is given to names: it blocks nothing
    """
    terms = defaults.terms(report.source)
    for line, entry in entries(octets, report, is_foreign=True):
        directive, _, value = entry.partition("=")
        directive, value = directive.strip(), value.strip()
        if " " in directive or "\t" in directive:
            report.leave_out(line, entry, "expected a directive such as address=/NAME/")
            continue
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
            report.tally(line, entry, BLOCKS_NOTHING)
        else:
            for name in names:
                if why := _NO_NAMES.get(name):
                    report.leave_out(line, entry, why)
                elif expression := read_name(name, line, report):
                    yield Rule(expression, terms, line)
