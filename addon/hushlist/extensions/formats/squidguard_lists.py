"""Reads squidGuard's lists: a folder with ``domains``, ``urls`` and ``expressions``.

Spec: squidGuard, Configuration, The database
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hushlist.core.lists.list_source import ListDefaults, ProblemReport, block_entries, entries
from hushlist.core.lists.patterns import is_sinkhole, read_prefix, split_plain
from hushlist.core.lists.plain_lists import SHORTENED, URLS, pages, read_domains
from hushlist.core.match.rule import Rule, RuleBlock

#: the second word of records of a zone: a class, a type, or a time to live
_IN_ZONES = re.compile(r"IN|CNAME|A|AAAA|TXT|NS|SOA|[0-9]+[smhdw]?", re.IGNORECASE)


def _before_redirect(entry: str, line: int, report: ProblemReport) -> str | None:
    """An entry without what stands behind white space; ``None``, with a warning, if it is of another format.

    >>> report = ProblemReport("f")
    >>> [_before_redirect(entry, 1, report) for entry in ("a.example http://b.example/", "0.0.0.0 a.example")]
    ['a.example', None]
    >>> print(*report.warnings)
    f:1: 0.0.0.0 a.example: left out: it is a line of a hosts file
    """
    first, *more = entry.split(maxsplit=2)
    if more and "/" not in more[0]:
        kind = "a hosts file" if is_sinkhole(SHORTENED.get(first, first)) else "a zone (rpz)"
        if kind == "a hosts file" or _IN_ZONES.fullmatch(more[0]):
            report.leave_out(line, entry, f"it is a line of {kind}")
            return None
    return first


def read_squidguard_domains(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule | RuleBlock]:
    """One domain a line; the redirect target after it is ignored."""
    return read_domains(octets, defaults, report, _before_redirect)


def read_squidguard_urls(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule | RuleBlock]:
    """One URL a line without its scheme; the redirect target after it is ignored.

    Deviation: squidGuard compares an entry with the beginning of a URL's text, in lower case and without a "www", "web"
    or "ftp" before the host. So ``site.example/en`` also fits ``site.example/english``, but no other host below
    ``site.example``. Here it fits the page ``en`` and everything in the folder ``en/``, as written, also on all hosts
    below ``site.example``.

    >>> blocks = read_squidguard_urls(b"site.example/en\\n", ListDefaults(), ProblemReport("f"))
    >>> [block.expressions for block in blocks]
    [[b'site.example/en', b'site.example/en/']]
    """
    terms = defaults.terms(report.source)

    def read(lines: bytes, first: int) -> Iterator[Rule]:
        for line, entry in block_entries(lines, first, report):
            if url := _before_redirect(entry, line, report):
                for expression in read_prefix(url, line, report, defaults.fragments):
                    yield Rule(expression, terms, line)

    return split_plain(octets, terms, report, (URLS, _prefixes), read)


def _prefixes(urls: bytes, first: int) -> tuple[Sequence[bytes], Sequence[int]]:
    expressions, lines = list[bytes](), list[int]()
    for page, line in zip(*pages(urls, first), strict=True):
        expressions.append(page)
        lines.append(line)
        if not page.endswith(b"/"):
            expressions.append(page + b"/")
            lines.append(line)
    return expressions, lines


def read_squidguard_expressions(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """Regular expressions: no rules, only a warning with their number."""
    yield from ()
    for line, entry in entries(octets, report, is_foreign=True):
        report.tally(line, entry, "a regular expression")
