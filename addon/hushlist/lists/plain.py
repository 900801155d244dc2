"""Readers of the plain lists that people already have: one domain, URL or hosts-file entry a line.

Such lists are other people's, and long: a line that cannot be read is left out with a warning, and the rest is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import count, repeat

from hushlist.lists.foreign import is_sinkhole, read_expression, read_name
from hushlist.lists.patterns import plain_names
from hushlist.lists.source import LONGEST_LINE, Defaults, Report, block_entries, blocks, entries
from hushlist.match.rule import Expression, Rule, Terms


def read_domains(octets: bytes, defaults: Defaults, report: Report, *, more_may_follow: bool = False) -> Iterator[Rule]:
    """One domain a line; a dot or "*." in front means the same as none.

    Where more may follow on the line, behind white space, that is not used.
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


def read_urls(octets: bytes, defaults: Defaults, report: Report) -> Iterator[Rule]:
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
#: what some lists write for an address, to be shorter
_SHORTENED = {"0": "0.0.0.0"}  # noqa: S104


def read_hosts(octets: bytes, defaults: Defaults, report: Report) -> Iterator[Rule]:
    """Lines of a hosts file: an address that leads nowhere and names; the machine's own names are no rules.

    >>> report = Report("f")
    >>> [str(rule.pattern) for rule in read_hosts(b"0.0.0.0 a.example\\n192.0.2.7 b.example", Defaults(), report)]
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


# Millions of lines are read by whole blocks, where these hold nothing but one plain name a line.


def _plain_names(block: bytes) -> list[bytes] | None:
    """The expressions of a block's names, or ``None`` where it holds anything else."""
    if len(block) > LONGEST_LINE:
        return None
    return plain_names(block.removesuffix(b"\r").replace(b"\r\n", b"\n"))


def _without_address(block: bytes) -> bytes:
    """A block of a hosts file without the address that each line begins with; nothing where they are different."""
    address = _ADDRESS.match(block)
    behind = b"\n" + address[0] if address else b"\n"
    if address is None or block.count(b"\n", 0, -1) != block.count(behind) or not is_sinkhole(address[0][:-1].decode()):
        return b""
    return block[address.end() :].replace(behind, b"\n")


def _rules(values: Iterable[bytes], terms: Terms, first: int) -> Iterator[Rule]:
    """Rules of one line each."""
    return map(Rule, map(Expression, values), repeat(terms), count(first))
