"""Reader of lists of addresses: one address, range in CIDR notation, or first and last address a line.

A comment begins with "#" or ";".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, summarize_address_range

from hushlist.lists.list_source import ListDefaults, ProblemReport, numbered_lines
from hushlist.lists.patterns import parse_address_range
from hushlist.match.rule import Rule

_COMMENT = re.compile(r"[#;].*", re.DOTALL)
_NONE = "it is no address, and no range of them"
_LONGEST = 100  # characters; two IPv6 addresses have fewer


def read_addresses(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """All ranges of a list; one from a first to a last address becomes the fewest networks that cover exactly that.

    >>> rules = read_addresses(b"192.0.2.4 - 192.0.2.9 # x\\n2001:db8::/32", ListDefaults(), ProblemReport("f"))
    >>> [str(rule.pattern) for rule in rules]
    ['192.0.2.4/30', '192.0.2.8/31', '2001:db8::/32']
    """
    terms = defaults.terms(report.source)
    for line, text in numbered_lines(octets, report, is_foreign=True):
        entry = _COMMENT.sub("", text).strip()
        if not entry:
            continue
        try:
            networks = list(_networks(entry))
        except ValueError as error:
            report.leave_out(line, entry, str(error))
        else:
            for network in networks:
                yield Rule(network, terms, line)


def _networks(entry: str) -> Iterable[IPv4Network | IPv6Network]:
    if len(entry) > _LONGEST or "%" in entry:
        raise ValueError(_NONE)
    first, dash, last = entry.partition("-")
    texts = [entry]
    if dash:
        texts = [str(network) for network in _covering(first.strip(), last.strip())]
    for text in texts:
        try:
            yield parse_address_range(text)
        except ValueError as error:
            raise ValueError(_reason(error)) from error


def _covering(first: str, last: str) -> Iterable[IPv4Network | IPv6Network]:
    try:
        low, high = ip_address(first), ip_address(last)
    except ValueError as error:
        raise ValueError(_NONE) from error
    if isinstance(low, IPv4Address) and isinstance(high, IPv4Address) and low <= high:
        return summarize_address_range(low, high)
    if isinstance(low, IPv6Address) and isinstance(high, IPv6Address) and low <= high:
        return summarize_address_range(low, high)
    raise ValueError("a range goes from a lower to a higher address of one kind")


def _reason(error: ValueError) -> str:
    """The reason without the entry, so that equal faults are counted together."""
    text = str(error)
    if "host bits set" in text:
        return "bits are set behind the prefix"
    return text if text.startswith("addresses that stand") else _NONE
