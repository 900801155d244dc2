"""Readers of lists in the filter formats of browsers: Adblock Plus, and Chromium's URLBlocklist and URLAllowlist.

Both readers take the filters that are a host or a path prefix. Others are left out: in Adblock Plus counted by kind, in
Chromium's format one by one with the reason.

A rule never fits more than its filter, except hosts below the filter's host. In both formats ``host/path`` also fits
``host/pathology``; here it fits only the page and the folder of that name.

Spec: https://help.adblockplus.org/hc/en-us/articles/360062733293, How to write filters;
https://www.chromium.org/administrators/url-blocklist-filter-format/
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hushlist.lists.list_source import ListDefaults, ProblemReport, entries, numbered_lines
from hushlist.lists.patterns import EXCEPTION, may_except, read_prefix
from hushlist.match.rule import Rule

# -- Adblock Plus ------------------------------------------------------------------------------------------------

_HEADER = re.compile(r"\[[^\]]*\]")
_COMMENT = re.compile(r"!(?!#)|#+(?:\s|$)")
# Element hiding and its kin: "##", "#@#", "#?#", "#$#", "#%#" and their combinations; AdGuard's "$$" and "$@$".
_COSMETIC = re.compile(r"#@?[$%?]{0,2}#|\$@?\$")
_CONDITION = re.compile(r"!#(?:if|else)\b")
_UNASKED = "a condition: the filters that it is about are used in any case"
_OPTION = re.compile(r"[~\w]")
#: options that do not narrow a filter. "document" means the whole site, and so is one of them; "popup" means only the
#: site's windows, and is not
_PAGES = frozenset(("document", "doc"))
_WITH_PAGES = _PAGES | {"all"}
_NOT_NARROWING = _PAGES | {"important", "all", "match-case"}
_HOST = re.compile(r"[^\s/?#|^*:@]+")
_ADDRESS = re.compile(r"\|https?://(?=[^/])")


def read_adblock(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """Blocking filters and exceptions.

    >>> report = ProblemReport("f")
    >>> lines = b"! ads\\n||ads.example^\\n@@||ads.example/fine/\\n##.ad\\n/banner/*/img"
    >>> [(str(rule.pattern), str(rule.terms.action)) for rule in read_adblock(lines, ListDefaults(), report)]
    [('ads.example/', 'block'), ('ads.example/fine/', 'allow')]
    >>> print(*report.warnings, sep="\\n")
    f:4: ##.ad: left out: cosmetic
    f:5: /banner/*/img: left out: a wildcard
    """
    terms, exception = defaults.terms(report.source), defaults.terms(report.source, EXCEPTION)
    for line, text in numbered_lines(octets, report, is_foreign=True):
        entry = text.strip()
        if not entry or (entry[0] in "!#[" and (_COMMENT.match(entry) or _HEADER.fullmatch(entry))):
            continue
        kind, rest = _kind(entry)
        is_exception = entry.startswith("@@")
        if is_exception and not kind:
            if not may_except(defaults):
                kind = "an exception, in a list that does not block"
            elif not entry.startswith("@@||"):
                kind = "an exception for one host and scheme alone"
        if kind:
            report.tally(line, entry, kind)
            continue
        for expression in read_prefix(rest, line, report):
            yield Rule(expression, exception if is_exception else terms, line)


def _kind(entry: str) -> tuple[str, str]:
    """``(kind, "")`` of a filter that cannot be a rule, or ``("", expression)``."""
    if entry.startswith("!#"):
        return _UNASKED if _CONDITION.match(entry) else "a preprocessor directive", ""
    if ("#" in entry or "$" in entry) and _COSMETIC.search(entry):
        return "cosmetic", ""
    is_exception = entry.startswith("@@")
    pattern = entry.removeprefix("@@")
    if pattern.startswith("/") and (pattern.endswith("/") or "/$" in pattern) and len(pattern) > 2:
        return "a regular expression", ""
    head, dollar, options = pattern.rpartition("$")
    if dollar and _OPTION.match(options):
        names = {option.strip() for option in options.split(",")}
        if "badfilter" in names:
            return "badfilter: the filter that it takes back stays", ""
        # "@@||site^$document" switches the blocker off for everything on the site's pages; "all" includes it.
        if names - _NOT_NARROWING or (is_exception and names & _WITH_PAGES):
            return "options", ""
        pattern = head
    return _anchored(pattern)


def _anchored(pattern: str) -> tuple[str, str]:
    """The same, for a filter without its options."""
    if pattern.startswith("||"):
        rest = pattern[2:]
    elif address := _ADDRESS.match(pattern):
        rest = pattern[address.end() :]
    else:
        return ("a wildcard" if "*" in pattern.strip("*") else "a plain substring"), ""
    rest = rest.removesuffix("*")
    host = _HOST.match(rest)
    behind = rest[host.end() :] if host else rest
    kind = ""
    if "*" in rest:
        kind = "a wildcard"
    elif rest.endswith("|"):
        kind = "an end"
    elif "^" in rest.removesuffix("^"):
        kind = "a separator"
    elif host is None or (not behind and (host[0][-1] in ".-" or "." not in host[0])) or behind.startswith("@"):
        kind = "a part of a host"
    elif behind.startswith(":"):
        kind = "a port"
    elif "?" in rest:
        kind = "a query"
    elif "#" in rest:
        kind = "a fragment"
    return (kind, "") if kind else ("", rest.removesuffix("^"))


# -- Chromium ----------------------------------------------------------------------------------------------------

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://|([A-Za-z][A-Za-z0-9+-]*):\*$")
#: "Supported standard schemes", except those of requests to a proxy, which look like a host with a port; and others
#: that lists have
_NO_HOST = re.compile(r"(?:about|blob|chrome|cid|data|file|filesystem|javascript|mailto|view-source):", re.IGNORECASE)
_PORT = re.compile(r":[0-9]*$")
_OTHER_SCHEME = "no request to a proxy has this scheme"


def read_chromium(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """One filter a line: ``[scheme://][.]host[:port][/path][@query]``.

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
        why = _why_not(text)
        if why:
            report.leave_out(line, entry, why)
            continue
        authority, slash, path = text.partition("/")
        # "user:pass fields can be included but will be ignored"
        host = authority.rpartition("@")[2].removesuffix(":*")
        # A filter is a prefix anyway, so a final "*" changes nothing.
        for expression in read_prefix(host + slash + path.removesuffix("*"), line, report):
            yield Rule(expression, terms, line)


def _why_not(text: str) -> str:
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
