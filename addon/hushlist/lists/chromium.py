"""Reader of lists in the filter format of Chromium's policies URLBlocklist and URLAllowlist.

    [scheme://][.]host[:port][/path][@query]

A rule never fits more than its filter: in Chromium, ``host/path`` also fits ``host/pathology``; here it fits only the
page and the folder of that name.

Spec: https://www.chromium.org/administrators/url-blocklist-filter-format/
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hushlist.lists.list_source import ListDefaults, ProblemReport, entries
from hushlist.lists.patterns import read_prefix
from hushlist.match.rule import Rule

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://|([A-Za-z][A-Za-z0-9+-]*):\*$")
#: "Supported standard schemes", except those of requests to a proxy, which look like a host with a port; and others
#: that lists have
_NO_HOST = re.compile(r"(?:about|blob|chrome|cid|data|file|filesystem|javascript|mailto|view-source):", re.IGNORECASE)
_PORT = re.compile(r":[0-9]*$")
_OTHER_SCHEME = "no request to a proxy has this scheme"


def read_chromium(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """One filter a line; a filter that no rule can express is left out with the reason.

    >>> report = ProblemReport("f")
    >>> rules = list(read_chromium(b"site.example/en\\n.exact.example", ListDefaults(), report))
    >>> [str(rule.pattern) for rule in rules]
    ['site.example/en', 'site.example/en/']
    >>> print(*report.warnings)
    f:2: .exact.example: left out: a rule fits the hosts below its own, too; a leading dot excludes them
    """
    terms = defaults.terms(report.source)
    for line, entry in entries(octets, report, is_foreign=True):
        # "If a reference separator '#' is present, it is ignored along with everything that appears after it."
        text = entry.partition("#")[0]
        why = _refuse(text)
        if why:
            report.leave_out(line, entry, why)
            continue
        authority, slash, path = text.partition("/")
        # "user:pass fields can be included but will be ignored"
        host = authority.rpartition("@")[2].removesuffix(":*")
        # A filter is a prefix anyway, so a final "*" changes nothing.
        for expression in read_prefix(host + slash + path.removesuffix("*"), line, report):
            yield Rule(expression, terms, line)


def _refuse(text: str) -> str:
    """Why a filter cannot be a rule, or nothing."""
    scheme = _SCHEME.match(text)
    if scheme:
        is_web = (scheme[1] or scheme[2]).lower() in ("http", "https", "ws", "wss")
        return "a rule fits every scheme, not one alone" if is_web else _OTHER_SCHEME
    if _NO_HOST.match(text):
        return _OTHER_SCHEME
    authority, _, path = text.partition("/")
    user, _, host = authority.rpartition("@")
    if user and ":" not in user:
        return "'@' may stand behind a user or in front of a query"
    if host.startswith("*") and not host.startswith("*."):
        return "no rule fits every host"
    if host.startswith("*"):
        return "'*' is no part of a host"
    if host.startswith("."):
        return "a rule fits the hosts below its own, too; a leading dot excludes them"
    if _PORT.search(host):
        return "a rule fits every port, not one alone"
    if "?" in path or "@" in path or "?" in host:
        return "a rule fits a query as a whole, not some of its tokens"
    return ""
