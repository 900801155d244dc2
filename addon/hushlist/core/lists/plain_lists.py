"""Readers of plain lists: one domain, URL, hosts-file entry or address a line.

Such lists come from third parties and are long. A line that cannot be read is left out with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, summarize_address_range
from itertools import islice

from hushlist.core.lists.list_source import ListDefaults, ProblemReport, block_entries, numbered_lines
from hushlist.core.lists.patterns import (
    PLAIN_HOST,
    PLAIN_URL,
    is_sinkhole,
    one_a_line,
    parse_address_range,
    read_expression,
    read_name,
    run_of,
    split_plain,
)
from hushlist.core.match.rule import Rule, RuleBlock

#: the name in an entry, by the entry, its line, and the report; ``None``: there is none
NameOf = Callable[[str, int, ProblemReport], str | None]


def read_domains(
    octets: bytes, defaults: ListDefaults, report: ProblemReport, name_of: NameOf = lambda entry, *_: entry
) -> Iterator[Rule | RuleBlock]:
    """One domain a line; a dot or "*." in front, or a slash behind, changes nothing."""
    terms = defaults.terms(report.source)

    def read(lines: bytes, first: int) -> Iterator[Rule]:
        for line, entry in block_entries(lines, first, report):
            name = name_of(entry, line, report)
            if name and (expression := read_name(name.removesuffix("/"), line, report)):
                yield Rule(expression, terms, line)

    return split_plain(octets, terms, report, (_NAMES, one_a_line), read)


_NAMES = run_of(PLAIN_HOST)


def read_urls(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule | RuleBlock]:
    """One URL or expression a line; the scheme may be missing."""
    terms = defaults.terms(report.source)

    def read(lines: bytes, first: int) -> Iterator[Rule]:
        for line, entry in block_entries(lines, first, report):
            if expression := read_expression(entry, line, report, defaults.fragments):
                yield Rule(expression, terms, line)

    return split_plain(octets, terms, report, (URLS, pages), read)


URLS = run_of(PLAIN_URL)


def pages(urls: bytes, first: int) -> tuple[Sequence[bytes], Sequence[int]]:
    """``PlainLines`` for lines that are plain URLs: these have "//" only behind their schemes."""
    plain = urls.replace(b"https://", b"").replace(b"http://", b"").split(b"\n")
    plain.pop()
    return [url if b"/" in url else url + b"/" for url in plain], range(first, first + len(plain))


#: names that hosts files give to the machine itself and to its network
OWN_NAMES = frozenset(
    (
        *("localhost", "localhost.localdomain", "local", "broadcasthost", "0.0.0.0"),  # noqa: S104
        *(f"ip6-{name}" for name in ("localhost", "loopback", "localnet", "mcastprefix")),
        *("ip6-allnodes", "ip6-allrouters", "ip6-allhosts"),
    )
)
_OWN_EXPRESSIONS = frozenset(f"{name}/".encode() for name in OWN_NAMES)
_SUNK = run_of(rb"(?:0\.0\.0\.0|127\.0\.0\.1|::1?|0)[ \t]++%b[ \t]*+" % PLAIN_HOST)
_HOSTS_COMMENTS = re.compile(rb"#.*", re.DOTALL)
#: why an entry is left out
BLOCKS_NOTHING = "an address that is given to names: it blocks nothing"
#: short forms of an address that some lists use
SHORTENED = {"0": "0.0.0.0"}  # noqa: S104


def read_hosts(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule | RuleBlock]:
    """Lines of a hosts file: a sinkhole address and names; the machine's own names are not rules.

    >>> report = ProblemReport("f")
    >>> [block.expressions for block in read_hosts(b"0.0.0.0 a.example\\n192.0.2.7 b.example", ListDefaults(), report)]
    [[b'a.example/']]
    >>> print(*report.warnings)
    f:2: 192.0.2.7 b.example: left out: an address that is given to names: it blocks nothing
    """
    terms = defaults.terms(report.source)

    def read(lines: bytes, first: int) -> Iterator[Rule]:
        for line, entry in block_entries(lines, first, report, _HOSTS_COMMENTS):
            # hosts(5): "Text from a "#" character until the end of the line is a comment"
            address, *named = entry.partition("#")[0].split()
            is_nowhere = is_sinkhole(SHORTENED.get(address, address))
            others = [name for name in named if name.lower() not in OWN_NAMES]
            if not named or is_nowhere is None:
                report.leave_out(line, entry, "expected an address and a name")
            elif others and not is_nowhere:
                report.tally(line, entry, BLOCKS_NOTHING)
            else:
                for name in others:
                    if expression := read_name(name, line, report):
                        yield Rule(expression, terms, line)

    return split_plain(octets, terms, report, (_SUNK, _named), read)


def _named(lines: bytes, first: int) -> tuple[Sequence[bytes], Sequence[int]] | None:
    expressions, numbers = one_a_line(b"\n".join(lines.split()[1::2]) + b"\n", first)
    return (expressions, numbers) if _OWN_EXPRESSIONS.isdisjoint(expressions) else None


_ADDRESS_COMMENT = re.compile(r"[#;].*", re.DOTALL)
_ADDRESS_COMMENTS = re.compile(rb"[#;].*", re.DOTALL)
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
    for line, text in numbered_lines(octets, report, is_foreign=True, comments=_ADDRESS_COMMENTS):
        entry = _ADDRESS_COMMENT.sub("", text).strip()
        if not entry:
            continue
        try:
            networks = list(parse_networks(entry))
        except ValueError as error:
            report.leave_out(line, entry, str(error))
        else:
            for network in networks:
                yield Rule(network, terms, line)


def parse_networks(entry: str) -> Iterable[IPv4Network | IPv6Network]:
    """The networks of an address, of a range, or of a first and a last address; ``ValueError`` if it is none."""
    if len(entry) > _LONGEST_RANGE or "%" in entry:
        raise ValueError(_NO_ADDRESS)
    first, dash, last = entry.partition("-")
    for network in _covering(first.strip(), last.strip()) if dash else (entry,):
        try:
            # lists of addresses are made from others, whose ranges may have bits behind the prefix; they do not count
            yield parse_address_range(str(network), strict=False)
        except ValueError as error:
            raise ValueError(_reason(error)) from error


def _covering(first: str, last: str) -> Iterable[IPv4Network | IPv6Network]:
    try:
        low, high = ip_address(first), ip_address(last)
    except ValueError as error:
        raise ValueError(_NO_ADDRESS) from error
    if low.version == high.version and int(low) <= int(high):
        networks: list[IPv4Network | IPv6Network] = []
        networks += islice(summarize_address_range(low, high), _MOST_NETWORKS + 1)
        if len(networks) > _MOST_NETWORKS:
            raise ValueError(f"a range that is more than {_MOST_NETWORKS} networks")
        return networks
    raise ValueError("a range goes from a lower to a higher address of one kind")


def _reason(error: ValueError) -> str:
    """The reason without the entry, so that equal faults are counted together."""
    text = str(error)
    return text if text.startswith("addresses that stand") else _NO_ADDRESS
