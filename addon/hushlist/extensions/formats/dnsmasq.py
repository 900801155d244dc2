"""Reader of dnsmasq's configuration, as far as it blocks names."""

from __future__ import annotations

from collections.abc import Iterator

from hushlist.core.lists.list_source import ListDefaults, ProblemReport, entries
from hushlist.core.lists.patterns import is_sinkhole, may_except, read_name
from hushlist.core.match.rule import Action, Expression, Rule, Terms
from hushlist.extensions.adblock.filter_reader import parse_filter

_WITH_NAMES = ("address", "server", "local")
_NO_NAMES = {"#": "no rule fits every host", "": "no rule fits every name without a dot"}


def read_dnsmasq(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """Lines such as ``address=/a.example/b.example/0.0.0.0``; other directives are counted by kind.

    "More specific domains take precedence over less specific domains": a server or an address of its own, for a name
    below one that is blocked, is an exception.

    Spec: dnsmasq(8), --address, --server, --local

    >>> report = ProblemReport("f")
    >>> octets = b"local=/a.example/\\ncache-size=9\\nserver=/b.a.example/#\\naddress=/c.a.example/192.0.2.1"
    >>> [str(rule.pattern) for rule in read_dnsmasq(octets, ListDefaults(), report)]
    ['a.example/', '@@||b.a.example^', '@@||c.a.example^']
    >>> print(*report.warnings, sep="\\n")
    f:2: cache-size=9: left out: a directive 'cache-size'
    """
    terms, exception = defaults.terms(report.source), defaults.terms(report.source, Action.ALLOW)
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
        # "--address=/#/... a domain specification of # matches any domain"; as an address, "#" is 0.0.0.0 and ::
        blocks = not target or (directive == "address" and (target == "#" or is_sinkhole(target)))
        if not names:
            report.leave_out(line, entry, "expected a '/' behind the last name")
        elif not blocks and not may_except(defaults):
            report.tally(line, entry, "an exception, in a list that does not block")
        else:
            for name in names:
                if why := _NO_NAMES.get(name):
                    report.leave_out(line, entry, why)
                elif expression := read_name(name, line, report):
                    yield Rule(expression, terms, line) if blocks else _excepted(expression, exception, line)


def _excepted(expression: Expression, terms: Terms, line: int) -> Rule:
    host = expression.value[: expression.value.find(b"/")].decode()
    return Rule(parse_filter(f"@@||{host}^", of_names=True, is_nearest=True), terms, line)
