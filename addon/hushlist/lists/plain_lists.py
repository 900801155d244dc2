"""Readers of plain lists: one domain, URL, hosts-file entry, dnsmasq directive or address range a line.

Such lists come from third parties and are long. A line that cannot be read is left out with a warning.

``read_popular`` reads popular domains, the most popular first, such as Tranco and Umbrella publish. They are not
rules: the compiler warns of rules that block one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, summarize_address_range
from itertools import count, repeat
from pathlib import Path

from hushlist.errors import SourceError, UrlError
from hushlist.lists.list_source import (
    LONGEST_LINE,
    ListDefaults,
    ProblemReport,
    block_entries,
    blocks,
    entries,
    numbered_lines,
    read_octets,
)
from hushlist.lists.patterns import (
    is_sinkhole,
    parse_address_range,
    parse_expression,
    plain_names,
    read_expression,
    read_name,
    read_prefix,
)
from hushlist.match.rule import Expression, Rule, Terms
from hushlist.url.host import is_plain_name

# -- names and URLs ----------------------------------------------------------------------------------------------


def read_domains(
    octets: bytes, defaults: ListDefaults, report: ProblemReport, *, more_may_follow: bool = False
) -> Iterator[Rule]:
    """One domain a line; a leading dot or "*." changes nothing; ``more_may_follow``: ignore text after white space."""
    terms = defaults.terms(report.source)
    for first, block in blocks(octets, report):
        if names := _plain_names(block):
            yield from _rules(names, terms, first)
            continue
        for line, entry in block_entries(block, first, report):
            name = entry.split(maxsplit=1)[0] if more_may_follow else entry
            if expression := read_name(name, line, report):
                yield Rule(expression, terms, line)


def read_urls(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """One URL or expression a line; the scheme may be missing."""
    terms = defaults.terms(report.source)
    for line, entry in entries(octets, report, is_foreign=True):
        if expression := read_expression(entry, line, report):
            yield Rule(expression, terms, line)


#: names that hosts files give to the machine itself and to its network
_OWN_NAMES = frozenset(
    (
        *("localhost", "localhost.localdomain", "local", "broadcasthost", "0.0.0.0"),  # noqa: S104
        *(f"ip6-{name}" for name in ("localhost", "loopback", "localnet", "mcastprefix")),
        *("ip6-allnodes", "ip6-allrouters", "ip6-allhosts"),
    )
)
_OWN_EXPRESSIONS = frozenset(f"{name}/".encode() for name in _OWN_NAMES)
_ADDRESS = re.compile(rb"[0-9a-f.:]++[ \t]")
_GIVEN = "an address that is given to names: it blocks nothing"
#: short forms of an address that some lists use
_SHORTENED = {"0": "0.0.0.0"}  # noqa: S104


def read_hosts(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """Lines of a hosts file: a sinkhole address and names; the machine's own names are not rules.

    >>> report = ProblemReport("f")
    >>> [str(rule.pattern) for rule in read_hosts(b"0.0.0.0 a.example\\n192.0.2.7 b.example", ListDefaults(), report)]
    ['a.example/']
    >>> print(*report.warnings)
    f:2: 192.0.2.7 b.example: left out: an address that is given to names: it blocks nothing
    """
    terms = defaults.terms(report.source)
    for first, block in blocks(octets, report):
        names = _plain_names(_without_address(block))
        if names and _OWN_EXPRESSIONS.isdisjoint(names):
            yield from _rules(names, terms, first)
            continue
        for line, entry in block_entries(block, first, report):
            # hosts(5): "Text from a "#" character until the end of the line is a comment"
            address, *named = entry.partition("#")[0].split()
            is_nowhere = is_sinkhole(_SHORTENED.get(address, address))
            given = [name for name in named if name.lower() not in _OWN_NAMES]
            if not named or is_nowhere is None:
                report.leave_out(line, entry, "expected an address and a name")
            elif given and not is_nowhere:
                report.tally(line, entry, _GIVEN)
            else:
                for name in given:
                    if expression := read_name(name, line, report):
                        yield Rule(expression, terms, line)


# Blocks with only one plain name a line are read at once; lists have millions of lines.


def _plain_names(block: bytes) -> list[bytes] | None:
    """The expressions of a block's names, or ``None`` if it has anything else."""
    if len(block) > LONGEST_LINE:
        return None
    return plain_names(block.removesuffix(b"\r").replace(b"\r\n", b"\n"))


def _without_address(block: bytes) -> bytes:
    """A block of a hosts file without the sinkhole address that begins each line; empty if the addresses differ."""
    address = _ADDRESS.match(block)
    behind = b"\n" + address[0] if address else b"\n"
    if address is None or block.count(b"\n", 0, -1) != block.count(behind) or not is_sinkhole(address[0][:-1].decode()):
        return b""
    return block[address.end() :].replace(behind, b"\n")


def _rules(values: Iterable[bytes], terms: Terms, first: int) -> Iterator[Rule]:
    """Rules of one line each."""
    return map(Rule, map(Expression, values), repeat(terms), count(first))


# -- dnsmasq -----------------------------------------------------------------------------------------------------

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
            report.tally(line, entry, _GIVEN)
        else:
            for name in names:
                if why := _NO_NAMES.get(name):
                    report.leave_out(line, entry, why)
                elif expression := read_name(name, line, report):
                    yield Rule(expression, terms, line)


# -- squidGuard --------------------------------------------------------------------------------------------------

# A list is a folder with ``domains``, ``urls`` and ``expressions``. Spec: squidGuard, Configuration, The database


def read_squidguard_domains(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """One domain a line; the redirect target after it is ignored."""
    return read_domains(octets, defaults, report, more_may_follow=True)


def read_squidguard_urls(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """One URL a line without its scheme; the redirect target after it is ignored.

    Deviation: squidGuard compares an entry with the beginning of a URL's text, in lower case and without a "www", "web"
    or "ftp" before the host. So ``site.example/en`` also fits ``site.example/english``, but no other host below
    ``site.example``. Here it fits the page ``en`` and everything in the folder ``en/``, as written, also on all hosts
    below ``site.example``.

    >>> rules = read_squidguard_urls(b"site.example/en\\n", ListDefaults(), ProblemReport("f"))
    >>> [str(rule.pattern) for rule in rules]
    ['site.example/en', 'site.example/en/']
    """
    terms = defaults.terms(report.source)
    for line, entry in entries(octets, report, is_foreign=True):
        for expression in read_prefix(entry.split(maxsplit=1)[0], line, report):
            yield Rule(expression, terms, line)


def read_squidguard_expressions(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """Regular expressions: no rules, only a warning with their number."""
    yield from ()
    for line, entry in entries(octets, report, is_foreign=True):
        report.tally(line, entry, "a regular expression")


# -- addresses ---------------------------------------------------------------------------------------------------

_ADDRESS_COMMENT = re.compile(r"[#;].*", re.DOTALL)
_NO_ADDRESS = "it is no address, and no range of them"
_LONGEST_RANGE = 100  # characters; two IPv6 addresses have fewer


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
    return text if text.startswith("addresses that stand") else _NO_ADDRESS


# -- popular domains ---------------------------------------------------------------------------------------------


def read_popular(octets: bytes, report: ProblemReport) -> Iterator[bytes]:
    """The canonical hosts of a file, in its order; a line is a domain, or "rank,domain".

    A line that cannot be read is left out with a warning.

    >>> list(read_popular("1,Google.com\\n2,bücher.example\\n".encode(), ProblemReport("f")))
    [b'google.com', b'xn--bcher-kva.example']
    """
    for line, entry in entries(octets, report, is_foreign=True):
        try:
            ranked = _RANKED.fullmatch(entry)
            yield _host(ranked[1].strip(' \t"') if ranked else entry)
        except UrlError as error:
            report.leave_out(line, entry, error.reason)


def read_popular_file(path: Path, report: ProblemReport) -> tuple[bytes, ...]:
    """The same of a file that must be readable.

    Raises:
        SourceError: it cannot be read.
    """
    octets = read_octets(path, report)
    if octets is None:
        raise SourceError(report.errors)
    return tuple(read_popular(octets, report))


#: "1,google.com"; fields may be in quotes
_RANKED = re.compile(r'[ \t"]*[0-9]+[ \t"]*,(.*)', re.DOTALL)


def _host(text: str) -> bytes:
    octets = text.encode()
    if is_plain_name(octets):  # nearly all are already canonical, and these lists have a million
        return octets
    if "," in text:
        raise UrlError(text, "expected a domain, or its rank and a domain")
    host, _, path = parse_expression(text).value.partition(b"/")
    if path:
        raise UrlError(text, "a domain has no path")
    return host
