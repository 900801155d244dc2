"""Lists whose lines have a number beside a name or an address: a rank, a count, or a port.

    1,a.example           ranked-domains: rankings of sites, such as Tranco's and Umbrella's
    192.0.2.1<TAB>7       address-counts: on how many lists an address is, such as IPsum's
    192.0.2.1:443         address-ports: servers of malware; a rule does not look at the port

Spec: https://tranco-list.eu/; https://github.com/stamparm/ipsum; https://threatfox.abuse.ch/export/
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hushlist.core.match.rule import Rule
from hushlist.extensions.formats.rule_maker import RuleMaker, plain_lines, read_lines

_PORT = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\s]+)):[0-9]{1,5}")
_COUNT = re.compile(r"([0-9A-Fa-f.:/]+)[\s,;]+[0-9]+")
_RANK = re.compile(r'"?[0-9]+"? *+[,;\t][ \t]*+"?([^",;\s]+)"?')


def without_port(text: str) -> str:
    """A name or an address without the port behind it.

    >>> without_port("192.0.2.1:443"), without_port("[2001:db8::1]:80"), without_port("2001:db8::1")
    ('192.0.2.1', '2001:db8::1', '2001:db8::1')
    """
    match = _PORT.fullmatch(text)
    return text if match is None else match[1] or match[2]


def _read_port(maker: RuleMaker, entry: str, line: int) -> Iterator[Rule]:
    return maker.host(without_port(entry), line)


def _read_count(maker: RuleMaker, entry: str, line: int) -> Iterator[Rule]:
    match = _COUNT.fullmatch(entry)
    return maker.address(match[1], line) if match else maker.left_out(entry, line, "expected an address and a number")


def _read_rank(maker: RuleMaker, entry: str, line: int) -> Iterator[Rule]:
    match = _RANK.fullmatch(entry)
    return maker.name(match[1], line) if match else maker.left_out(entry, line, "expected a number and a name")


read_address_ports = read_lines(plain_lines(b"", rb":[0-9]{1,5}"), _read_port)
read_address_counts = read_lines(plain_lines(rb"(?!)"), _read_count)
read_ranked_domains = read_lines(plain_lines(rb"[0-9]+,"), _read_rank)
