"""Readers of plain lists: one domain, URL or hosts-file entry a line.

Such lists come from third parties and are long. A line that cannot be read is left out with a warning.

squidGuard's lists are a folder with ``domains``, ``urls`` and ``expressions``.

Deviation: squidGuard compares an entry of ``urls`` with the beginning of a URL's text, in lower case and without a
"www", "web" or "ftp" before the host. So ``site.example/en`` also fits ``site.example/english``, but no other host
below ``site.example``. Here it fits the page ``en`` and everything in the folder ``en/``, as written, also on all hosts
below ``site.example``.

Spec: squidGuard, Configuration, The database

``read_popular`` reads popular domains, the most popular first, such as Tranco and Umbrella publish. They are not
rules: the compiler warns of rules that block one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import count, repeat

from hushlist.errors import UrlError
from hushlist.lists.list_source import LONGEST_LINE, ListDefaults, ProblemReport, block_entries, blocks, entries
from hushlist.lists.patterns import is_sinkhole, parse_expression, plain_names, read_expression, read_name, read_prefix
from hushlist.match.rule import Expression, Rule, Terms
from hushlist.url.host import is_plain_name


def read_domains(
    octets: bytes, defaults: ListDefaults, report: ProblemReport, *, more_may_follow: bool = False
) -> Iterator[Rule]:
    """One domain a line; a leading dot or "*." changes nothing.

    With ``more_may_follow``, text after white space is ignored.
    """
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
                report.tally(line, entry, "an address that is given to names: it blocks nothing")
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


def read_squidguard_domains(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """One domain a line; the redirect target after it is ignored.

    >>> rules = read_squidguard_domains(b"site.example http://other.example/\\n", ListDefaults(), ProblemReport("f"))
    >>> [str(rule.pattern) for rule in rules]
    ['site.example/']
    """
    return read_domains(octets, defaults, report, more_may_follow=True)


def read_squidguard_urls(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """One URL a line without its scheme; the redirect target after it is ignored.

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


def read_popular(octets: bytes, report: ProblemReport) -> Iterator[bytes]:
    """The canonical hosts of a file, in its order; a line is a domain, or "rank,domain".

    A line that cannot be read is left out with a warning.

    >>> list(read_popular("1,Google.com\\n2,bücher.example\\n".encode(), ProblemReport("f")))
    [b'google.com', b'xn--bcher-kva.example']
    """
    for line, entry in entries(octets, report, is_foreign=True):
        try:
            yield _host(_without_rank(entry))
        except UrlError as error:
            report.leave_out(line, entry, error.reason)


def _without_rank(entry: str) -> str:
    """The domain of "1,google.com"; fields may be in quotes."""
    rank, comma, domain = entry.partition(",")
    return domain.strip(_AROUND) if comma and _is_number(rank.strip(_AROUND)) else entry


_AROUND = ' \t"'


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


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
