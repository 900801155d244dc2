"""Readers of lists in the filter formats of browsers: Adblock Plus, and Chromium's URLBlocklist and URLAllowlist.

In Adblock Plus, ``||host^`` becomes a rule for the host, and each other filter for requests a rule with a pattern and
options (``network_filter``). What a proxy cannot apply is left out, counted by kind. Lists for name
servers speak another language in the same signs: ``adblock_language`` tells the two apart.

Of Chromium's format, the filters that are a host or a path prefix are taken; others are left out, one by one with the
reason. There ``host/path`` also fits ``host/pathology``; here it fits only the page and the folder of that name.

Spec: https://help.adblockplus.org/hc/en-us/articles/360062733293, How to write filters;
https://adguard-dns.io/kb/general/dns-filtering-syntax/;
https://www.chromium.org/administrators/url-blocklist-filter-format/
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hushlist.core.lists.list_source import LONGEST_REASON, ListDefaults, ProblemReport, block_lines, entries
from hushlist.core.lists.patterns import (
    PLAIN_NAME,
    is_sinkhole,
    may_except,
    one_a_line,
    read_name,
    read_prefix,
    run_of,
    split_plain,
)
from hushlist.core.lists.plain_lists import BLOCKS_NOTHING, OWN_NAMES, SHORTENED
from hushlist.core.match.rule import Action, Expression, Rule, RuleBlock
from hushlist.extensions.adblock.conditions import without_unused
from hushlist.extensions.adblock.filter_reader import parse_filter, split_options
from hushlist.extensions.adblock.head_options import REMOVABLE

# -- Adblock Plus ------------------------------------------------------------------------------------------------

_HEADER = re.compile(r"\[[^\]]*\]")
_COMMENT = re.compile(r"!(?!#)|#+(?:\s|$)")
_COMMENTS = re.compile(rb"^\s*(?:!|\[|#(?=[\s#]|$)).*|(?<=\s)#(?=\s|$).*", re.DOTALL)
# Element hiding and its kin: "##", "#@#", "#?#", "#$#", "#%#" and their combinations; AdGuard's "$$" and "$@$".
_COSMETIC = re.compile(r"#@?[$%?]{0,2}#|\$@?\$")
#: uBlock Origin, Static filter syntax: "a trailing comment" behind white space
_TRAILING = re.compile(r"\s#(?:\s.*)?\Z", re.DOTALL)
_INCLUDED = "a file that the list includes: it is used where the policy names it as a list of its own"
#: options that change nothing of a filter for a whole host, which stops its pages, too
_NOT_NARROWING = frozenset(("all", "match-case"))
#: options of an exception that do not depend on who asks, and what for
_NO_CONTEXT = frozenset(("all", "match-case", "important"))
_NOT_BY_HOST = "an exception for some requests alone, in a list that allows: a client could lie about them"
_NO_HEADS = "a filter about heads, in a list that does not block"
#: uBlock Origin's filters that take a field out of the answers of hosts
_RESPONSE_HEADER = re.compile(r"([\w.,-]*)#(@?)#\^responseheader\(([^()]*)\)")
#: options of exceptions that lift nothing which stops a request
_OF_PAGES = re.compile(r"[$,](?:(?:elem|generic|specific)hide|[egs]hide|redirect(?:-rule)?)(?:[,=]|$)")
#: an option that changes nothing of a filter: why it is there
_REASON = re.compile(r"""([$,])reason=("[^"]*"|'[^']*'|[^,$]*)(?:,|$)""")
#: a filter for a whole host, or for all hosts below it; without "^", it has to look like one
_HOST = re.compile(
    r"\|\|(?:\*\.)?"
    r"(\[[0-9A-Fa-f:.]+\]|[^\s/?#|^*:@]++(?=\^)|(?=[^\s/?#|^*:@][^\s/?#|^*:@.]*+\.)[^\s/?#|^*:@]++(?<![.-]))(?:\^\||\^?\*?)"
)


def read_adblock(
    octets: bytes, defaults: ListDefaults, report: ProblemReport, *, has_hosts: bool = False, of_names: bool = False
) -> Iterator[Rule | RuleBlock]:
    """Blocking filters and exceptions; ``has_hosts`` and ``of_names``: as the other two readers.

    >>> from hushlist.core.match.rule import each_rule
    >>> report = ProblemReport("f")
    >>> lines = b"! ads\\n||ads.example^\\n@@||ads.example/fine/\\n##.ad\\n/banner/*/img$script"
    >>> [(str(rule.pattern), str(rule.terms.action)) for rule in each_rule(read_adblock(lines, ListDefaults(), report))]
    [('ads.example/', 'block'), ('@@||ads.example/fine/', 'allow'), ('/banner/*/img$script', 'block')]
    >>> print(*report.warnings, sep="\\n")
    f:4: ##.ad: left out: cosmetic
    """
    plain_terms, exception = defaults.terms(report.source), defaults.terms(report.source, Action.ALLOW)
    has_heads = not of_names and defaults.action not in (Action.ALLOW, Action.TAG)
    octets = without_unused(octets, defaults.conditions, report)

    def read(lines: bytes, first: int) -> Iterator[Rule]:
        for line, text in block_lines(lines, first, report, is_foreign=True, comments=_COMMENTS):
            entry = text.strip()
            if not entry or (entry[0] in "!#[" and (_COMMENT.match(entry) or _HEADER.fullmatch(entry))):
                continue
            if "#" in entry and (comment := _TRAILING.search(entry)):
                entry = entry[: comment.start()].rstrip()
            if hosts := _hosts_of(entry):
                if not has_hosts:
                    report.tally(line, entry, _MAYBE_HOSTS)
                elif is_sinkhole(SHORTENED.get(hosts[0], hosts[0])) is False and len(hosts) > 1:
                    report.tally(line, entry, BLOCKS_NOTHING)
                else:
                    names = hosts[1:] or hosts
                    expressions = (read_name(host, line, report) for host in names if host not in OWN_NAMES)
                    yield from (Rule(expression, plain_terms, line) for expression in expressions if expression)
                continue
            is_exception, terms = entry.startswith("@@"), plain_terms
            if "#^responseheader(" in entry and has_heads:
                try:
                    yield from [Rule(parse_filter(removal), plain_terms, line) for removal in _removals(entry)]
                except ValueError as error:
                    report.tally(line, entry, str(error))
                continue
            kind = _no_filter(entry)
            if "reason=" in entry and not kind and (reason_option := _REASON.search(entry)):
                entry = (entry[: reason_option.start()] + reason_option[1] + entry[reason_option.end() :]).rstrip("$,")
                reason = reason_option[2].strip("\"'")
                kind = "a reason that is too long" if len(reason) > LONGEST_REASON else kind
                terms = defaults.terms(report.source, reason=reason)
            if not kind and is_exception and not may_except(defaults):
                if defaults.action is Action.ALLOW:
                    # what it lets pass is what the whole list is for; a client may lie about what is asked for
                    entry, is_exception = entry[2:], False
                    terms = exception
                    kind = _NOT_BY_HOST if not of_names and set(split_options(entry)[1]) - _NO_CONTEXT else ""
                else:
                    kind = "an exception, in a list that does not block"
            if not kind and (host := _host_of(entry)):
                yield from (Rule(expression, terms, line) for expression in read_prefix(host, line, report))
                continue
            if not kind:
                try:
                    network_filter = parse_filter(entry, of_names=of_names)
                    filter_terms = (
                        exception if network_filter.is_exception and not network_filter.is_badfilter else terms
                    )
                    if network_filter.decides or has_heads:
                        yield Rule(network_filter, filter_terms, line)
                        continue
                    kind = _NO_HEADS
                except ValueError as error:
                    kind = str(error)
            is_missed = is_exception and not _OF_PAGES.search(entry)
            (report.tally_exception if is_missed else report.tally)(line, entry, kind)

    return split_plain(octets, plain_terms, report, (_SITES_AND_HOSTS if has_hosts else _SITES, _names_of), read)


def read_adblock_hosts(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule | RuleBlock]:
    """The rules of an Adblock list in which a host, or a line of a hosts file, means that host, as for uBlock Origin.

    >>> from hushlist.core.match.rule import each_rule
    >>> rules = read_adblock_hosts(b"||a.example^\\nb.example\\n0 c.example", ListDefaults(), ProblemReport("f"))
    >>> [str(rule.pattern) for rule in each_rule(rules)]
    ['a.example/', 'b.example/', 'c.example/']
    """
    return read_adblock(octets, defaults, report, has_hosts=True)


def read_adblock_dns(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule | RuleBlock]:
    """Lists for name servers, as AdGuard Home and Pi-hole read them: each pattern is about the names of hosts.

    >>> from hushlist.core.match.rule import each_rule
    >>> report = ProblemReport("f")
    >>> rules = read_adblock_dns(b".mov|\\n/^stat[0-9]/\\n||a.example^\\n||b.example/ads", ListDefaults(), report)
    >>> [str(rule.pattern) for rule in each_rule(rules)]
    ['.mov|', '/^stat[0-9]/', 'a.example/']
    >>> print(*report.warnings)
    f:4: ||b.example/ads: left out: a pattern that no name of a host can fit
    """
    return read_adblock(octets, defaults, report, has_hosts=True, of_names=True)


_SITES = run_of(rb"\|\|%b\^" % PLAIN_NAME)
_SITES_AND_HOSTS = run_of(rb"(?:\|\|%b\^|(?=[a-z0-9_-]++\.)%b)" % (PLAIN_NAME, PLAIN_NAME))
#: a name; no host begins with "-", and no top-level name is the ending of a file in a page
_BARE_HOST = re.compile(
    r"(?!-|.*\.(?:js|css|php|aspx?|html?|gif|png|jpe?g|webp|svg|json|swf)\Z)[\w-]+(?:(?>\.[\w-]+))++", re.IGNORECASE
)
_MAYBE_HOSTS = "a host on a line of its own: the format 'adblock-hosts' takes it for that host"


def _hosts_of(entry: str) -> list[str]:
    """The host of a line that is only a host, or the address and the hosts of a line of a hosts file; nothing for a
    filter.

    uBlock Origin, Static filter syntax, HOSTS files; AdGuard Home, Hosts blocklists, Domains-only syntax
    """
    if "." not in entry or entry[0] in "|@/":
        return []
    address, *hosts = entry.split()
    if hosts and address != "0" and is_sinkhole(address) is None:
        return []
    if not hosts:
        return [address] if _BARE_HOST.fullmatch(address) else []
    return [address, *hosts] if all(host in OWN_NAMES or _BARE_HOST.fullmatch(host) for host in hosts) else []


def _removals(entry: str) -> list[str]:
    """What a filter for ``responseheader()`` means, as network filters; ``ValueError`` with the reason if it is none.

    >>> _removals("a.example##^responseheader(refresh)")
    ['||a.example^$removeheader=refresh,document,subdocument']
    """
    match = _RESPONSE_HEADER.fullmatch(entry)
    if match is None:
        raise ValueError("responseheader(): hosts in it that are no names")
    hosts, exception, name = match[1].split(","), match[2], match[3].strip().lower()
    if name not in REMOVABLE and (name or not exception):
        raise ValueError("responseheader(): only location, refresh, report-to and set-cookie can be taken out")
    if not all(hosts) and not exception:
        raise ValueError("responseheader(): it names no host")
    pattern = [f"||{host}^" if host else "" for host in hosts]
    removed = f"removeheader={name}" if name else "removeheader"
    return [f"{exception and '@@'}{part}${removed},document,subdocument" for part in pattern]


def _names_of(filters: bytes, first: int) -> tuple[Sequence[bytes], Sequence[int]]:
    return one_a_line(filters.replace(b"|", b"").replace(b"^", b""), first)


def _no_filter(entry: str) -> str:
    """The kind of a line that is no network filter; nothing for one."""
    if entry.startswith("!#include"):
        return _INCLUDED
    if entry.startswith("!#"):
        return "a preprocessor directive"
    return "cosmetic" if ("#" in entry or "$" in entry) and _COSMETIC.search(entry) else ""


def _host_of(entry: str) -> str:
    """The host of a filter that is for it alone; nothing for others, and for exceptions."""
    if not entry.startswith("||"):
        return ""
    pattern, options = split_options(entry)
    host = _HOST.fullmatch(pattern)
    return host[1] if host and _NOT_NARROWING.issuperset(options) else ""


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
        yield from (Rule(expression, terms, line) for expression in chromium_expressions(entry, line, report))


def chromium_expressions(entry: str, line: int, report: ProblemReport) -> tuple[Expression, ...]:
    """The expressions of one filter; none, with a warning, if no rule can say it."""
    # "If a reference separator '#' is present, it is ignored along with everything that appears after it."
    text = entry.partition("#")[0]
    why = _why_not(text)
    if why:
        report.leave_out(line, entry, why)
        return ()
    authority, slash, path = text.partition("/")
    # "user:pass fields can be included but will be ignored"
    host = authority.rpartition("@")[2].removesuffix(":*")
    # A filter is a prefix anyway, so a final "*" changes nothing.
    return read_prefix(host + slash + path.removesuffix("*"), line, report)


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
