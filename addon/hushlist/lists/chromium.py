"""Reader of lists in the filter format of Chromium's policies URLBlocklist and URLAllowlist.

    [scheme://][.]host[:port][/path][@query]

A rule never fits more than its filter: ``host/path`` also fits ``host/pathology`` in Chromium, and only the page and
the folder of that name here.

Spec: https://www.chromium.org/administrators/url-blocklist-filter-format/
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hushlist.lists.foreign import read_prefix
from hushlist.lists.source import Defaults, Report, entries
from hushlist.match.rule import Rule

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://|([A-Za-z][A-Za-z0-9+-]*):\*$")
#: "Supported standard schemes", but those of requests to a proxy, which cannot be told from a host with a port; and
#: others that people have in their lists
_NO_HOST = re.compile(r"(?:about|blob|chrome|cid|data|file|filesystem|javascript|mailto|view-source):", re.IGNORECASE)
_PORT = re.compile(r":[0-9]*$")
_OTHER_SCHEME = "no request to a proxy has this scheme"


def read_chromium(octets: bytes, defaults: Defaults, report: Report) -> Iterator[Rule]:
    """One filter a line; what no rule can express is left out with the reason.

    >>> report = Report("f")
    >>> rules = list(read_chromium(b"site.example/en\\n.exact.example", Defaults(), report))
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
        # What stands in front of an ending "*" is a prefix in any case.
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
