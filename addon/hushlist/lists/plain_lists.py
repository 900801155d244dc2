"""Readers of plain lists: one domain, URL, hosts-file entry, dnsmasq directive, address range or hash a line.

Such lists come from third parties and are long. A line that cannot be read is left out with a warning; only in a list
of hashed URIs it is an error. Safe Browsing's raw hash prefixes have no lines.

``read_popular`` reads popular domains, the most popular first, such as Tranco and Umbrella publish. They are not
rules: the compiler warns of rules that block one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, summarize_address_range
from itertools import islice
from pathlib import Path

from hushlist.errors import SourceError, UrlError
from hushlist.lists.list_source import (
    ListDefaults,
    ProblemReport,
    block_entries,
    entries,
    numbered_lines,
    read_octets,
    reason_at,
)
from hushlist.lists.patterns import (
    ONLY_FULL,
    PLAIN_HOST,
    PLAIN_URL,
    is_sinkhole,
    may_be_rule,
    one_a_line,
    parse_address_range,
    parse_expression,
    parse_expression_hash,
    read_expression,
    read_name,
    read_prefix,
    run_of,
    split_plain,
)
from hushlist.match.expressions import FULL_LENGTH, SHORTEST_PREFIX
from hushlist.match.rule import ExpressionHash, Rule, RuleBlock, each_rule
from hushlist.url.hashed_uri import HashedUri, UnknownAlgorithmError, parse_hashed_uri
from hushlist.url.host import is_plain_name

# -- names and URLs ----------------------------------------------------------------------------------------------


def read_domains(
    octets: bytes, defaults: ListDefaults, report: ProblemReport, *, more_may_follow: bool = False
) -> Iterator[Rule]:
    """One domain a line; a dot or "*." in front, or a slash behind, changes nothing.

    ``more_may_follow``: ignore text after white space.
    """
    return each_rule(split_domains(octets, defaults, report, more_may_follow=more_may_follow))


def split_domains(
    octets: bytes, defaults: ListDefaults, report: ProblemReport, *, more_may_follow: bool = False
) -> Iterator[Rule | RuleBlock]:
    """The same in blocks."""
    terms = defaults.terms(report.source)

    def read(lines: bytes, first: int) -> Iterator[Rule]:
        for line, entry in block_entries(lines, first, report):
            name = _before_redirect(entry, line, report) if more_may_follow else entry
            if name and (expression := read_name(name.removesuffix("/"), line, report)):
                yield Rule(expression, terms, line)

    return split_plain(octets, terms, report, (_NAMES, one_a_line), read)


_NAMES = run_of(PLAIN_HOST)


def read_urls(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """One URL or expression a line; the scheme may be missing."""
    return each_rule(split_urls(octets, defaults, report))


def split_urls(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule | RuleBlock]:
    """The same in blocks."""
    terms = defaults.terms(report.source)

    def read(lines: bytes, first: int) -> Iterator[Rule]:
        for line, entry in block_entries(lines, first, report):
            if expression := read_expression(entry, line, report, defaults.fragments):
                yield Rule(expression, terms, line)

    return split_plain(octets, terms, report, (_URLS, _pages), read)


_URLS = run_of(PLAIN_URL)


def _pages(urls: bytes, first: int) -> tuple[Sequence[bytes], Sequence[int]]:
    # a plain URL has "//" only behind its scheme
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
_GIVEN = "an address that is given to names: it blocks nothing"
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
    return each_rule(split_hosts(octets, defaults, report))


def split_hosts(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule | RuleBlock]:
    """The same in blocks."""
    terms = defaults.terms(report.source)

    def read(lines: bytes, first: int) -> Iterator[Rule]:
        for line, entry in block_entries(lines, first, report):
            # hosts(5): "Text from a "#" character until the end of the line is a comment"
            address, *named = entry.partition("#")[0].split()
            is_nowhere = is_sinkhole(_SHORTENED.get(address, address))
            given = [name for name in named if name.lower() not in _OWN_NAMES]
            if not named or is_nowhere is None:
                report.leave_out(line, entry, "expected an address and a name")
            elif given and not is_nowhere:
                report.tally(line, entry, _GIVEN)
            else:
                for name in given:
                    if expression := read_name(name, line, report):
                        yield Rule(expression, terms, line)

    return split_plain(octets, terms, report, (_SUNK, _named), read)


def _named(lines: bytes, first: int) -> tuple[Sequence[bytes], Sequence[int]] | None:
    expressions, numbers = one_a_line(b"\n".join(lines.split()[1::2]) + b"\n", first)
    return (expressions, numbers) if _OWN_EXPRESSIONS.isdisjoint(expressions) else None


# -- dnsmasq -----------------------------------------------------------------------------------------------------

_WITH_NAMES = ("address", "server", "local")
_NO_NAMES = {"#": "no rule fits every host", "": "no rule fits every name without a dot"}


def read_dnsmasq(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """Lines such as ``address=/a.example/b.example/0.0.0.0``; other directives are counted by kind.

    Spec: dnsmasq(8), --address, --server, --local

    >>> report = ProblemReport("f")
    >>> octets = b"local=/a.example/\\ncache-size=9\\naddress=/b.example/192.0.2.1"
    >>> [str(rule.pattern) for rule in read_dnsmasq(octets, ListDefaults(), report)]
    ['a.example/']
    >>> print(*report.warnings, sep="\\n")
    f:2: cache-size=9: left out: a directive 'cache-size'
    f:3: address=/b.example/192.0.2.1: left out: an address that is given to names: it blocks nothing
    """
    terms = defaults.terms(report.source)
    for line, entry in entries(octets, report, is_foreign=True):
        directive, _, value = entry.partition("=")
        directive, value = directive.strip(), value.strip()
        if " " in directive or "\t" in directive:
            report.leave_out(line, entry, "expected a directive such as address=/NAME/")
            continue
        if directive not in _WITH_NAMES:
            report.tally(line, entry, f"a directive {directive[:40]!r}")
            continue
        if not value.startswith("/"):
            report.tally(line, entry, f"'{directive}' without a name")
            continue
        *names, target = value[1:].split("/")
        if not names:
            report.leave_out(line, entry, "expected a '/' behind the last name")
        elif target and directive != "address":
            report.tally(line, entry, "a server that is asked for names: it blocks nothing")
        # "--address=/#/... a domain specification of # matches any domain"; as an address, "#" is 0.0.0.0 and ::
        elif target and target != "#" and not is_sinkhole(target):
            report.tally(line, entry, _GIVEN)
        else:
            for name in names:
                if why := _NO_NAMES.get(name):
                    report.leave_out(line, entry, why)
                elif expression := read_name(name, line, report):
                    yield Rule(expression, terms, line)


# -- squidGuard --------------------------------------------------------------------------------------------------

# A list is a folder with ``domains``, ``urls`` and ``expressions``. Spec: squidGuard, Configuration, The database


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
        kind = "a hosts file" if is_sinkhole(_SHORTENED.get(first, first)) else "a zone (rpz)"
        if kind == "a hosts file" or _IN_ZONES.fullmatch(more[0]):
            report.leave_out(line, entry, f"it is a line of {kind}")
            return None
    return first


def read_squidguard_domains(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """One domain a line; the redirect target after it is ignored."""
    return each_rule(split_squidguard_domains(octets, defaults, report))


def split_squidguard_domains(
    octets: bytes, defaults: ListDefaults, report: ProblemReport
) -> Iterator[Rule | RuleBlock]:
    """The same in blocks."""
    return split_domains(octets, defaults, report, more_may_follow=True)


def read_squidguard_urls(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """One URL a line without its scheme; the redirect target after it is ignored.

    Deviation: squidGuard compares an entry with the beginning of a URL's text, in lower case and without a "www", "web"
    or "ftp" before the host. So ``site.example/en`` also fits ``site.example/english``, but no other host below
    ``site.example``. Here it fits the page ``en`` and everything in the folder ``en/``, as written, also on all hosts
    below ``site.example``.

    >>> rules = read_squidguard_urls(b"site.example/en\\n", ListDefaults(), ProblemReport("f"))
    >>> [str(rule.pattern) for rule in rules]
    ['site.example/en', 'site.example/en/']
    """
    return each_rule(split_squidguard_urls(octets, defaults, report))


def split_squidguard_urls(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule | RuleBlock]:
    """The same in blocks."""
    terms = defaults.terms(report.source)

    def read(lines: bytes, first: int) -> Iterator[Rule]:
        for line, entry in block_entries(lines, first, report):
            if url := _before_redirect(entry, line, report):
                for expression in read_prefix(url, line, report, defaults.fragments):
                    yield Rule(expression, terms, line)

    return split_plain(octets, terms, report, (_URLS, _prefixes), read)


def _prefixes(urls: bytes, first: int) -> tuple[Sequence[bytes], Sequence[int]]:
    expressions, lines = list[bytes](), list[int]()
    for page, line in zip(*_pages(urls, first), strict=True):
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


# -- addresses ---------------------------------------------------------------------------------------------------

_ADDRESS_COMMENT = re.compile(r"[#;].*", re.DOTALL)
_NO_ADDRESS = "it is no address, and no range of them"
_LONGEST_RANGE = 100  # characters; two IPv6 addresses have fewer
#: networks that a range becomes: any of IPv4 has 62 at most
_MOST_NETWORKS = 64


def read_addresses(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """One address, range in CIDR notation, or first and last address a line; a comment begins with "#" or ";".

    A range from a first to a last address becomes the fewest networks that cover it exactly.

    >>> rules = read_addresses(b"192.0.2.4 - 192.0.2.9 # x\\n2001:db8::/32", ListDefaults(), ProblemReport("f"))
    >>> [str(rule.pattern) for rule in rules]
    ['192.0.2.4/30', '192.0.2.8/31', '2001:db8::/32']
    """
    terms = defaults.terms(report.source)
    for line, text in numbered_lines(octets, report, is_foreign=True):
        entry = _ADDRESS_COMMENT.sub("", text).strip()
        if not entry:
            continue
        try:
            networks = list(_networks(entry))
        except ValueError as error:
            report.leave_out(line, entry, str(error))
        else:
            for network in networks:
                yield Rule(network, terms, line)


def _networks(entry: str) -> Iterable[IPv4Network | IPv6Network]:
    if len(entry) > _LONGEST_RANGE or "%" in entry:
        raise ValueError(_NO_ADDRESS)
    first, dash, last = entry.partition("-")
    for network in _covering(first.strip(), last.strip()) if dash else (entry,):
        try:
            yield parse_address_range(str(network))
        except ValueError as error:
            raise ValueError(_reason(error)) from error


def _covering(first: str, last: str) -> Iterable[IPv4Network | IPv6Network]:
    try:
        low, high = ip_address(first), ip_address(last)
    except ValueError as error:
        raise ValueError(_NO_ADDRESS) from error
    if low.version == high.version and int(low) <= int(high):
        found: list[IPv4Network | IPv6Network] = []
        found += islice(summarize_address_range(low, high), _MOST_NETWORKS + 1)
        if len(found) > _MOST_NETWORKS:
            raise ValueError(f"a range that is more than {_MOST_NETWORKS} networks")
        return found
    raise ValueError("a range goes from a lower to a higher address of one kind")


def _reason(error: ValueError) -> str:
    """The reason without the entry, so that equal faults are counted together."""
    text = str(error)
    if "host bits set" in text:
        return "bits are set behind the prefix"
    return text if text.startswith("addresses that stand") else _NO_ADDRESS


# -- hashes ------------------------------------------------------------------------------------------------------


def read_hashed_uris(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """All rules of a list with "#" comments; if the report has errors, those that could be read."""
    terms = defaults.terms(report.source)
    for line, entry in entries(octets, report):
        if uri := read_hashed_uri(entry, line, defaults, report):
            yield Rule(uri, terms, line)


def read_hashed_uri(text: str, line: int, defaults: ListDefaults, report: ProblemReport) -> HashedUri | None:
    """One hashed URI, or ``None`` with an error; if only its algorithm is unknown, with a warning."""
    try:
        uri = parse_hashed_uri(text, defaults.variant or "n")
    except UnknownAlgorithmError as error:
        report.skip(line, text, error.reason)
        return None
    except UrlError as error:
        report.error(line, text, reason_at(error))
        return None
    if uri.key.fragment:
        report.warn(line, text, "a proxy never sees a fragment: '+frag' can match only where a source keeps them")
    return uri


#: the first entry of a list of sealed hashes
_SEAL = re.compile(rb"(?:\xef\xbb\xbf)?(?:(?>[ \t\r]*+(?:#[^\n]*+)?\n))*+[ \t]*+seal:[ \t]*+([0-9a-f]{16})\s")


def seal_in_head(octets: bytes) -> str | None:
    """The fingerprint that the first entry of a list gives; the chunks behind it do not have it."""
    found = _SEAL.match(octets)
    return found and found[1].decode()


def read_sha256(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    r"""One expression's SHA-256, or its prefix, in hexadecimal on each line.

    In a list that begins with ``seal: FINGERPRINT``, they are sealed with that key.

    >>> rules = read_sha256(b"seal: f87dde256ef1fd9a\nba7816bf", ListDefaults(), ProblemReport("f"))
    >>> [str(rule.pattern) for rule in rules]
    ['sealed:ba7816bf']
    """
    terms, seal, is_first = defaults.terms(report.source), defaults.seal or "", report.first_line == 1
    for line, entry in entries(octets, report, is_foreign=True):
        is_seal = entry.startswith("seal:")
        if is_seal or is_first:
            seal = defaults.check_seal(line, entry.removeprefix("seal:").strip() if is_seal else None, report)
            is_first = False
        if is_seal:
            continue
        try:
            pattern = parse_expression_hash(entry, seal)
        except ValueError as error:
            report.leave_out(line, entry, str(error).partition(", not")[0])
        else:
            if may_be_rule(pattern, terms.action):
                yield Rule(pattern, terms, line)
            else:
                report.leave_out(line, entry, ONLY_FULL)


def read_safebrowsing_raw(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """Raw prefixes without separators, of the list's ``prefix-length``; a rule's line is the prefix's number.

    If they are not sorted, reading stops there, with an error in the report.

    Spec: Safe Browsing v4, Update API, RawHashes: "the hashes, in binary format, concatenated into one long string.
    Hashes are sorted in lexicographic order."

    >>> report = ProblemReport("f")
    >>> rules = read_safebrowsing_raw(b"aaaaabcd", ListDefaults(prefix_length=4), report)
    >>> [(rule.line, str(rule.pattern)) for rule in rules]
    [(1, 'sha256:61616161'), (2, 'sha256:61626364')]
    """
    length = defaults.prefix_length
    if length is None or not SHORTEST_PREFIX <= length <= FULL_LENGTH:
        why = f"a binary list needs the length of its prefixes, {SHORTEST_PREFIX} to {FULL_LENGTH} octets"
        report.error(0, "prefix-length", why)
        return
    if len(octets) % length:
        report.error(0, "prefix-length", f"{len(octets)} octets are no whole number of prefixes of {length}")
        return
    terms = defaults.terms(report.source)
    before = b""
    for number, start in enumerate(range(0, len(octets), length), 1):
        value = octets[start : start + length]
        if value < before:
            # Read with the wrong length, hardly any list is sorted.
            report.error(number, f"sha256:{value.hex()}", "the prefixes are not sorted: is their length right?")
            return
        before = value
        pattern = ExpressionHash(value)
        if may_be_rule(pattern, terms.action):
            yield Rule(pattern, terms, number)
        else:
            report.leave_out(number, value.hex(), ONLY_FULL)


# -- popular domains ---------------------------------------------------------------------------------------------


def read_popular(octets: bytes, report: ProblemReport) -> Iterator[bytes]:
    """The canonical hosts of a file, in its order; a line is a domain, or "rank,domain".

    A line that cannot be read is left out with a warning.

    >>> list(read_popular("1,Google.com\\n2,bücher.example\\n".encode(), ProblemReport("f")))
    [b'google.com', b'xn--bcher-kva.example']
    """
    for line, entry in entries(octets, report, is_foreign=True):
        try:
            ranked = _RANKED.fullmatch(entry)
            yield _host(ranked[1].strip(' \t"') if ranked else entry)
        except UrlError as error:
            report.leave_out(line, entry, error.reason)


def read_popular_file(path: Path, report: ProblemReport) -> tuple[bytes, ...]:
    """The same of a file; ``SourceError`` if it cannot be read."""
    octets = read_octets(path, report)
    if octets is None:
        raise SourceError(report.errors)
    return tuple(read_popular(octets, report))


#: "1,google.com"; fields may be in quotes
_RANKED = re.compile(r'[ \t"]*[0-9]+[ \t"]*,(.*)', re.DOTALL)


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
