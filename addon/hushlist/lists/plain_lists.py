"""Readers of plain lists: one domain, URL or hosts-file entry a line.

Such lists come from third parties and are long. A line that cannot be read is left out with a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hushlist.lists.list_source import ListDefaults, ProblemReport, block_entries
from hushlist.lists.patterns import (
    PLAIN_HOST,
    PLAIN_URL,
    is_sinkhole,
    one_a_line,
    read_expression,
    read_name,
    run_of,
    split_plain,
)
from hushlist.match.rule import Rule, RuleBlock

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


#: lines that are plain URLs
URLS = run_of(PLAIN_URL)


def pages(urls: bytes, first: int) -> tuple[Sequence[bytes], Sequence[int]]:
    """``PlainLines`` for lines that are plain URLs: these have "//" only behind their schemes."""
    plain = urls.replace(b"https://", b"").replace(b"http://", b"").split(b"\n")
    plain.pop()
    return [url if b"/" in url else url + b"/" for url in plain], range(first, first + len(plain))


#: names that hosts files give to the machine itself and to its network
_OWN_NAMES = frozenset(
    (
        *("localhost", "localhost.localdomain", "local", "broadcasthost", "0.0.0.0"),  # noqa: S104
        *(f"ip6-{name}" for name in ("localhost", "loopback", "localnet", "mcastprefix")),
        *("ip6-allnodes", "ip6-allrouters", "ip6-allhosts"),
    )
)
_OWN_EXPRESSIONS = frozenset(f"{name}/".encode() for name in _OWN_NAMES)
_SUNK = run_of(rb"(?:0\.0\.0\.0|127\.0\.0\.1|::1?|0)[ \t]++%b[ \t]*+" % PLAIN_HOST)
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
        for line, entry in block_entries(lines, first, report):
            # hosts(5): "Text from a "#" character until the end of the line is a comment"
            address, *named = entry.partition("#")[0].split()
            is_nowhere = is_sinkhole(SHORTENED.get(address, address))
            given = [name for name in named if name.lower() not in _OWN_NAMES]
            if not named or is_nowhere is None:
                report.leave_out(line, entry, "expected an address and a name")
            elif given and not is_nowhere:
                report.tally(line, entry, BLOCKS_NOTHING)
            else:
                for name in given:
                    if expression := read_name(name, line, report):
                        yield Rule(expression, terms, line)

    return split_plain(octets, terms, report, (_SUNK, _named), read)


def _named(lines: bytes, first: int) -> tuple[Sequence[bytes], Sequence[int]] | None:
    expressions, numbers = one_a_line(b"\n".join(lines.split()[1::2]) + b"\n", first)
    return (expressions, numbers) if _OWN_EXPRESSIONS.isdisjoint(expressions) else None
