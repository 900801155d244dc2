"""Readers of squidGuard's lists: a folder with ``domains``, ``urls`` and ``expressions``.

Deviation: squidGuard compares an entry of ``urls`` with the beginning of a URL's text, in lower case and without a
"www", "web" or "ftp" in front of the host; so ``site.example/en`` also fits ``site.example/english``, and no other host
below ``site.example``. Here it fits the page ``en`` and all in the folder ``en/``, as they are written, on all hosts
below, too.

Spec: squidGuard, Configuration, The database
"""

from __future__ import annotations

from collections.abc import Iterator

from hushlist.lists.foreign import read_prefix
from hushlist.lists.plain import read_domains
from hushlist.lists.source import Defaults, Report, entries
from hushlist.match.rule import Rule


def read_squidguard_domains(octets: bytes, defaults: Defaults, report: Report) -> Iterator[Rule]:
    """One domain a line; what stands behind it says where to redirect to, and is not used.

    >>> rules = read_squidguard_domains(b"site.example http://other.example/\\n", Defaults(), Report("f"))
    >>> [str(rule.pattern) for rule in rules]
    ['site.example/']
    """
    return read_domains(octets, defaults, report, more_may_follow=True)


def read_squidguard_urls(octets: bytes, defaults: Defaults, report: Report) -> Iterator[Rule]:
    """One URL a line without its scheme; what stands behind it says where to redirect to, and is not used.

    >>> rules = read_squidguard_urls(b"site.example/en\\n", Defaults(), Report("f"))
    >>> [str(rule.pattern) for rule in rules]
    ['site.example/en', 'site.example/en/']
    """
    terms = defaults.terms(report.source)
    for line, entry in entries(octets, report, is_foreign=True):
        for expression in read_prefix(entry.split(maxsplit=1)[0], line, report):
            yield Rule(expression, terms, line)


def read_squidguard_expressions(octets: bytes, defaults: Defaults, report: Report) -> Iterator[Rule]:
    """Regular expressions: no rule, but a warning with their number."""
    yield from ()
    for line, entry in entries(octets, report, is_foreign=True):
        report.tally(line, entry, "a regular expression")
