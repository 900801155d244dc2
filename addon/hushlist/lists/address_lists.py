"""Reads addresses, and ranges of them, one a line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network, ip_address, summarize_address_range
from itertools import islice

from hushlist.lists.list_source import ListDefaults, ProblemReport, numbered_lines
from hushlist.lists.patterns import parse_address_range
from hushlist.match.rule import Rule

_ADDRESS_COMMENT = re.compile(r"[#;].*", re.DOTALL)
_NO_ADDRESS = "it is no address, and no range of them"
_LONGEST_RANGE = 100  # characters; two IPv6 addresses have fewer
#: networks that a range becomes: any of IPv4 has 62 at most
_MOST_NETWORKS = 64


def read_addresses(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """One address, range in CIDR notation, or first and last address a line; a comment begins with "#" or ";".

    A range from a first to a last address becomes the fewest networks that cover it exactly.

    >>> rules = read_addresses(b"192.0.2.4 - 192.0.2.9 # x\\n2001:db8::/32", ListDefaults(), ProblemReport("f"))
    >>> [str(rule.pattern) for rule in rules]
    ['192.0.2.4/30', '192.0.2.8/31', '2001:db8::/32']
    """
    terms = defaults.terms(report.source)
    for line, text in numbered_lines(octets, report, is_foreign=True):
        entry = _ADDRESS_COMMENT.sub("", text).strip()
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
    if len(entry) > _LONGEST_RANGE or "%" in entry:
        raise ValueError(_NO_ADDRESS)
    first, dash, last = entry.partition("-")
    for network in _covering(first.strip(), last.strip()) if dash else (entry,):
        try:
            yield parse_address_range(str(network))
        except ValueError as error:
            raise ValueError(_reason(error)) from error


def _covering(first: str, last: str) -> Iterable[IPv4Network | IPv6Network]:
    try:
        low, high = ip_address(first), ip_address(last)
    except ValueError as error:
        raise ValueError(_NO_ADDRESS) from error
    if low.version == high.version and int(low) <= int(high):
        found: list[IPv4Network | IPv6Network] = []
        found += islice(summarize_address_range(low, high), _MOST_NETWORKS + 1)
        if len(found) > _MOST_NETWORKS:
            raise ValueError(f"a range that is more than {_MOST_NETWORKS} networks")
        return found
    raise ValueError("a range goes from a lower to a higher address of one kind")


def _reason(error: ValueError) -> str:
    """The reason without the entry, so that equal faults are counted together."""
    text = str(error)
    if "host bits set" in text:
        return "bits are set behind the prefix"
    return text if text.startswith("addresses that stand") else _NO_ADDRESS
