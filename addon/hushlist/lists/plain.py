"""Readers of the plain lists that people already have: one domain, URL or hosts-file entry a line.

Such lists are other people's, and long: a line that cannot be read is left out with a warning, and the rest is used.
"""

from __future__ import annotations

from hushlist.lists.foreign import expression_rules, name_rules
from hushlist.lists.source import Defaults, Report, entries
from hushlist.match.rule import Rule


def read_domains(octets: bytes, defaults: Defaults, report: Report) -> list[Rule]:
    """One domain a line; a dot or "*." in front means the same as none."""
    rules = []
    for line, entry in entries(octets, report, is_foreign=True):
        rules += name_rules(entry, line, defaults, report)
    return rules


def read_urls(octets: bytes, defaults: Defaults, report: Report) -> list[Rule]:
    """One URL or expression a line; the scheme may be missing."""
    rules = []
    for line, entry in entries(octets, report, is_foreign=True):
        rules += expression_rules(entry, line, defaults, report)
    return rules


#: names that hosts files give to the machine itself and to its network
_OWN_NAMES = frozenset(
    (
        *("localhost", "localhost.localdomain", "local", "broadcasthost", "0.0.0.0"),  # noqa: S104
        *(f"ip6-{name}" for name in ("localhost", "loopback", "localnet", "mcastprefix")),
        *("ip6-allnodes", "ip6-allrouters", "ip6-allhosts"),
    )
)


def read_hosts(octets: bytes, defaults: Defaults, report: Report) -> list[Rule]:
    """Lines of a hosts file: an address and one or more names; the machine's own names are no rules."""
    rules = []
    for line, entry in entries(octets, report, is_foreign=True):
        _, *names = entry.split()
        if not names:
            report.leave_out(line, entry, "expected an address and a name")
        for name in names:
            if name.lower() not in _OWN_NAMES:
                rules += expression_rules(name, line, defaults, report)
    return rules
