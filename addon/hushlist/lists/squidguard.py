"""Readers of squidGuard's lists: a folder with ``domains``, ``urls`` and ``expressions``.

Deviation: squidGuard compares an entry of ``urls`` with the beginning of a URL's text, in lower case and without a
"www", "web" or "ftp" in front of the host; so ``site.example/en`` also fits ``site.example/english``, and no other host
below ``site.example``. Here it fits the page ``en`` and all in the folder ``en/``, as they are written, on all hosts
below, too.

Spec: squidGuard, Configuration, The database
"""

from __future__ import annotations

from hushlist.lists.foreign import prefix_rules
from hushlist.lists.plain import read_domains
from hushlist.lists.source import Defaults, Report, entries
from hushlist.match.rule import Rule


def read_squidguard_urls(octets: bytes, defaults: Defaults, report: Report) -> list[Rule]:
    """One URL a line without its scheme; what stands behind it says where to redirect to, and is not used.

    >>> rules = read_squidguard_urls(b"site.example/en\\n", Defaults(), Report("f"))
    >>> [str(rule.pattern) for rule in rules]
    ['site.example/en', 'site.example/en/']
    """
    rules = []
    for line, entry in entries(octets, report, is_foreign=True):
        rules += prefix_rules(entry.split(maxsplit=1)[0], line, defaults, report)
    return rules


def read_squidguard_expressions(octets: bytes, defaults: Defaults, report: Report) -> list[Rule]:
    """Regular expressions: no rule, but a warning with their number."""
    for line, entry in entries(octets, report, is_foreign=True):
        report.tally(line, entry, "a regular expression")
    return []


#: the files of a folder, each of which may be missing
SQUIDGUARD_FILES = {
    "domains": read_domains,
    "urls": read_squidguard_urls,
    "expressions": read_squidguard_expressions,
}
