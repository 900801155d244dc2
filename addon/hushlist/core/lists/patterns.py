"""Patterns from text: expressions, hashes, address ranges.

The ``parse_...`` functions raise ``UrlError`` or ``ValueError`` with a reason for people; their callers know file and
line. The ``read_...`` functions are for third-party lists: they leave out a bad entry with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from hushlist.core.errors import UrlError
from hushlist.core.lists.category_names import category_named
from hushlist.core.lists.list_source import LONGEST_LINE, ListDefaults, ProblemReport, blocks
from hushlist.core.match.expressions import FULL_LENGTH, SHORTEST_PREFIX, own_expression
from hushlist.core.match.rule import (
    RUNGS,
    Action,
    Expression,
    ExpressionHash,
    Pattern,
    Rule,
    RuleBlock,
    Terms,
    WholeUrl,
)
from hushlist.core.url import safebrowsing
from hushlist.core.url.host import EMBEDDING, parse_address, to_ascii
from hushlist.core.url.parts import as_typed, split_generic, split_web, to_bytes
from hushlist.core.url.request import canonical_url, request_of

_NO_WILDCARD = "'*' is no wildcard here; a rule fits its host, all hosts below it, and all paths below it"
#: text that is never a rule, in any list; compared without the scheme
_NO_RULE = (
    (re.compile(r".*\s.*", re.DOTALL), "there is white space in it"),
    (re.compile(r"[0-9]+"), "a number alone is no host; an address has dots or colons"),
    (re.compile(r"[^/?#]*\*.*"), _NO_WILDCARD),
    (re.compile(r"[^/?#]*[|^].*"), "'|' and '^' have no meaning here"),
)
_TWO_SCHEMES = (re.compile(r"[^/?#]*://.*"), "what stands in front of '://' is no host")
_ANY_PATH = (re.compile(r".*/\*"), _NO_WILDCARD)
_MAIL = (re.compile(r"[^/:@]+@[^/@]+"), "a mail address is no host")
#: text that is most likely a mistake in a rule that a person wrote; a list of URLs that were seen may have it
_MISTAKES = (
    (re.compile(r"[0-9.]+/[0-9]{1,2}"), "an address range is no expression; it is written as 'address: ...'"),
    _ANY_PATH,
    _TWO_SCHEMES,
    (re.compile(r"[^/?#]*/?#.*"), "the whole site would be meant: what stands behind '#' is never sent"),
    (re.compile(r"[^?#]*\\.*"), "a browser sends '/' for '\\'; write that, or %5C for one that it does not change"),
    _MAIL,
)
#: Text without a scheme that is never a URL; with a scheme, each could be one. Lists have URLs such as 192.0.2.16/28,
#: but no site has an address that ends in ".0".
_NO_ENTRY = (
    (re.compile(r"[0-9.]*\.0/[0-9]{1,2}"), "an address range is no URL; the format 'addresses' reads ranges"),
    _MAIL,
)
#: an octet that no host name in the DNS has: the entry is something else, or has several names
_ODD_OCTET = re.compile(rb"[^a-z0-9._%-]")
_IPV6 = re.compile(rb"\[[0-9a-f:]+\]")
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")


# Nearly every entry of a long list is already canonical. A name is, if all its labels are plain and the last begins
# with a letter: then it is not an address or a number. A path is, if no segment is empty or begins with a dot, and
# nothing in it concerns canonicalization, ``_NO_RULE`` or another path interpretation.
_NAME = r"(?:[a-z0-9_-]++\.)*+[a-z][a-z0-9_-]*+"
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_HOST = rf"(?:{_NAME}|{_OCTET}(?:\.{_OCTET}){{3}})"
#: names in the path of a rule, at most: each is one more look-up for each request below the rule's host
_MOST_NAMES = 64
_PATH = rf"(?:/[A-Za-z0-9!$&'()+,:=@_~-][A-Za-z0-9!$&'()+,:=@_~.-]*+){{0,{_MOST_NAMES}}}+/?+"
_is_plain_name = re.compile(_NAME).fullmatch
# A range of addresses looks like the page "/24" of an address.
_plain = re.compile(rf"(?:https?://|(?![0-9.]*\.0/[0-9]{{1,2}}$))({_HOST}{_PATH})").fullmatch


def plain_name(text: str) -> Expression | None:
    """The expression of a host name that is already canonical; ``None`` means only that a closer look is needed."""
    return Expression(text.encode() + b"/") if _is_plain_name(text) else None


def plain_expression(text: str) -> Expression | None:
    """The same for a host with a path, too.

    >>> str(plain_expression("video.example/live")), plain_expression("video.example/a/../live")
    ('video.example/live', None)
    """
    if match := _plain(text):
        plain = match[1]
        return Expression(plain.encode() if "/" in plain else plain.encode() + b"/")
    return None


# The same for octets, many lines at once. Nothing in a line's pattern fits an LF.
PLAIN_NAME = _NAME.encode()
PLAIN_HOST = _HOST.encode()
PLAIN_URL = rf"(?:https?://|(?![0-9.]*\.0/[0-9]{{1,2}}\n)){_HOST}{_PATH}".encode()
#: the expressions that lines stand for, and the line of each; ``None`` means only that a closer look is needed
PlainLines = Callable[[bytes, int], tuple[Sequence[bytes], Sequence[int]] | None]


def split_plain(
    octets: bytes,
    terms: Terms,
    report: ProblemReport,
    plain: tuple[re.Pattern[bytes], PlainLines],
    read: Callable[[bytes, int], Iterable[Rule]],
) -> Iterator[Rule | RuleBlock]:
    """The rules of a third-party list: runs of lines that fit a pattern at once, the others one by one.

    ``plain``: the pattern of a run of lines, and what makes expressions of it; ``read``: the rules of lines, from their
    octets and the number of the first.
    """
    pattern, expressions_of = plain
    for first, block in blocks(octets, report):
        if len(block) > LONGEST_LINE:  # it has a line that is too long
            yield from read(block, first)
            continue
        text = (block.removesuffix(b"\r").replace(b"\r\n", b"\n") if b"\r" in block else block) + b"\n"
        line, start = first, 0
        for run in pattern.finditer(text):
            if start < run.start():
                yield from read(text[start : run.start() - 1], line)
                line += text.count(b"\n", start, run.start())
            if plain_rules := expressions_of(run[0], line):
                yield RuleBlock(plain_rules[0], terms, plain_rules[1])
            else:
                yield from read(run[0][:-1], line)
            line += run[0].count(b"\n")
            start = run.end()
        if start < len(text):
            yield from read(text[start:-1], line)


def run_of(line: bytes) -> re.Pattern[bytes]:
    """The pattern of the longest run of lines that fit a line's pattern.

    Until Python 3.11.4, a possessive repetition goes on where its last try failed, and not where that began: lists
    lost lines by it. An atomic group in it takes what was tried back. Spec: https://github.com/python/cpython/issues/106052
    """
    return re.compile(rb"^(?:(?>%b\n))++" % line, re.MULTILINE)


def one_a_line(names: bytes, first: int) -> tuple[Sequence[bytes], Sequence[int]]:
    """``PlainLines`` for lines that are plain names."""
    expressions = names.replace(b"\n", b"/\n").split(b"\n")
    expressions.pop()  # behind the last LF
    return expressions, range(first, first + len(expressions))


def parse_expression(text: str) -> Expression:
    """An expression in the clear, canonicalized like live traffic; a scheme, a port and the like are dropped.

    >>> str(parse_expression("https://Ads.Example:443/a/../b/"))
    'ads.example/b/'

    Raises ``UrlError`` if it names no host or port that can be, or fits no URL.
    """
    if expression := plain_expression(text):
        return expression
    expression = _with_plain_host(canonicalize_expression(text), text)
    request_of(text)
    return expression


_HRN = re.compile(r"\s*hrn:", re.IGNORECASE)
_WEB_URL = re.compile(r"\s*https?://", re.IGNORECASE)


def canonical_target(scope: str, text: str) -> str:
    """The canonical form of a host, a site, a URL or a category (``scope``) that a person wrote; as for live traffic.

    Where a host is wanted, an address is that of its host, which ``why_whole`` tells.

    >>> canonical_target("host", "HTTPS://Games.Example:443"), canonical_target("url", "http://h.example/a/../b?q#f")
    ('games.example', 'http://h.example/b?q')

    Raises:
        UrlError: it is not a valid target.
    """
    typed = as_typed(text)
    text = typed.decode("utf-8", "surrogateescape")
    if scope != "category" and _HRN.match(text):
        raise UrlError(text, "it is the name of a category: give the scope category")
    if scope in ("host", "site"):
        return str(parse_expression(text)).partition("/")[0]
    if scope == "url":
        if not _WEB_URL.match(text):
            raise UrlError(text, "a URL begins with http:// or https:// here; it is unblocked exactly as it stands")
        url = canonical_url(typed)
        parse_expression((split_web(url).host or b"").decode("ascii"))  # a host that can be
        return url.decode("ascii")
    return category_named(text)


def why_whole(scope: str, text: str) -> str | None:
    """That an order for an address of a page is for its whole host, for people.

    >>> why_whole("host", "https://games.example/play?x"), why_whole("host", "games.example")
    ('it is for all of games.example: the page alone is for the scope url', None)
    """
    if scope not in ("host", "site"):
        return None
    host, _, path = str(parse_expression(as_typed(text).decode("utf-8", "surrogateescape"))).partition("/")
    return f"it is for all of {host}: the page alone is for the scope url" if path else None


def canonicalize_expression(text: str) -> Expression:
    """The expression of text as it is, whatever host and port it has."""
    _refuse(_NO_RULE, text)
    parts = safebrowsing.SAFEBROWSING.apply(safebrowsing.parse(text))
    if b"*" in (parts.host or b""):
        raise UrlError(text, _NO_WILDCARD)
    if parts.path.strip(b"/").count(b"/") >= _MOST_NAMES:
        raise UrlError(text, f"its path has more than {_MOST_NAMES} names: block a folder above")
    return Expression(own_expression(parts))


def parse_written_expression(text: str) -> Expression:
    """An expression that a person wrote as a rule; ``UrlError`` also if its author most likely means something else."""
    plain = text.strip().removeprefix("*.")
    plain = plain.removesuffix("*") if plain.endswith("/*") else plain
    if plain != text.strip() and plain_expression(plain):
        raise UrlError(text, f"{_NO_WILDCARD}: write '{plain}'")
    _refuse(_MISTAKES, text)
    return parse_expression(text)


def parse_whole_url(text: str, rung: str) -> WholeUrl:
    """A whole URL that a person wrote as a rule, and the rung on which requests are compared with it.

    >>> str(parse_whole_url("HTTP://h.example:80/%7Ea", "scheme"))
    'http://h.example/~a (match: scheme)'

    Raises ``UrlError`` if no browser sends a URL that is equal on this rung.
    """
    parse_written_expression(text)
    url = to_bytes(text)
    parts = split_generic(url)
    if (parts.scheme or b"").lower() not in (b"http", b"https") or not parts.host:
        raise UrlError(text, "what 'match' compares is a whole URL; write http:// or https:// in front")
    if parts.userinfo is not None or parts.fragment is not None:
        raise UrlError(text, "'match' compares neither user information nor fragments: leave them out")
    request, profile = request_of(url), RUNGS[rung]
    sent = request.url_by(to_ascii(request.hosts[0]))
    normal = profile.canonicalize(url)
    canonical_url(normal)
    if normal != profile.canonicalize(sent):
        shown = sent.decode("utf-8", "backslashreplace")
        raise UrlError(text, f"with 'match: {rung}' it fits no request: write {shown!r}, or a higher rung")
    return WholeUrl(normal, rung)


def parse_listed_expression(text: str) -> Expression:
    """An expression or a URL of a third-party list; ``UrlError`` also if it is not one URL."""
    if expression := plain_expression(text):
        return expression
    if not _SCHEME.match(text):
        _refuse(_NO_ENTRY, text)
    _refuse((_ANY_PATH, _TWO_SCHEMES), text)
    return _with_plain_host(canonicalize_expression(text), text)


def _with_plain_host(expression: Expression, text: str) -> Expression:
    host = expression.value.partition(b"/")[0]
    if _IPV6.fullmatch(host):
        if parse_address(host) is None:
            raise UrlError(text, "what stands in brackets is no IPv6 address")
    elif odd := _ODD_OCTET.search(host):
        raise UrlError(text, f"no name of a host has {odd[0].decode('ascii', 'backslashreplace')!r} in it")
    return expression


def _refuse(mistakes: Iterable[tuple[re.Pattern[str], str]], text: str) -> None:
    behind_scheme = _SCHEME.sub("", text.strip(), count=1)
    for mistake, why in mistakes:
        if mistake.fullmatch(behind_scheme):
            raise UrlError(text, why)


_HEX = re.compile(r"(?:[0-9A-Fa-f]{2})+")


def parse_expression_hash(text: str, seal: str = "") -> ExpressionHash:
    """The hash of an expression in hexadecimal, or its first 4 to 31 octets; ``ValueError`` for anything else.

    It is a SHA-256, or sealed with the key of the fingerprint ``seal``.
    """
    if not _HEX.fullmatch(text):
        raise ValueError("expected pairs of hexadecimal digits")
    value = bytes.fromhex(text)
    if not SHORTEST_PREFIX <= len(value) <= FULL_LENGTH:
        raise ValueError(f"expected {2 * SHORTEST_PREFIX} to {2 * FULL_LENGTH} hexadecimal digits, not {len(text)}")
    return ExpressionHash(value, seal)


def parse_sealed_hash(text: str, seal: str) -> ExpressionHash:
    """The same of a sealed one; ``ValueError`` also if nothing says which key it is sealed with."""
    if not seal:
        raise ValueError("the list does not say which key it is sealed with, in its head as 'seal: FINGERPRINT'")
    return parse_expression_hash(text, seal)


def parse_address_range(text: str, *, strict: bool = True) -> IPv4Network | IPv6Network:
    """An address or a range in CIDR notation; ``ValueError`` if it is neither, or if ``strict`` and bits are set behind
    the prefix."""
    network = ip_network(text, strict)
    if isinstance(network, IPv6Network) and any(map(network.subnet_of, EMBEDDING)):
        raise ValueError("addresses that stand for IPv4 ones are compared as these: write the range as IPv4")
    return network


def of_hosts(blocks: Iterable[Rule | RuleBlock], report: ProblemReport) -> Iterator[Rule | RuleBlock]:
    """The rules of a list that says ``covers: hosts``: hashes are marked, and a rule for less than a host is an error.

    >>> report = ProblemReport("f")
    >>> rules = [Rule(ExpressionHash(b"1234"), ListDefaults().terms("f"), 1), Rule(Expression(b"h/x"), ..., 2)]
    >>> next(of_hosts(rules, report)).pattern.is_of_host
    True
    >>> print(len(list(of_hosts(rules, report))), *report.errors)
    2 f:2: h/x: the list says 'covers: hosts', and this is for less than a host
    """
    for block in blocks:
        if isinstance(block, RuleBlock):
            listed = zip(block.expressions, block.lines, strict=True)
            _refuse_paths(((Expression(value), line) for value, line in listed), report)
        elif isinstance(block.pattern, ExpressionHash):
            yield block._replace(pattern=ExpressionHash(block.pattern.value, block.pattern.seal, is_of_host=True))
            continue
        else:
            _refuse_paths([(block.pattern, block.line)], report)
        yield block


def _refuse_paths(patterns: Iterable[tuple[Pattern, int]], report: ProblemReport) -> None:
    for pattern, line in patterns:
        is_host = isinstance(pattern, Expression) and pattern.value.find(b"/") + 1 == len(pattern.value)
        if not is_host and not isinstance(pattern, IPv4Network | IPv6Network):
            report.error(line, str(pattern), "the list says 'covers: hosts', and this is for less than a host")


_PATH_OR_QUERY = re.compile(r"[/?#@\\]")


_WHOLE_SITE = "browsers do not send what follows '#': no request fits; 'fragments: drop' makes it a rule for the site"


def read_expression(text: str, line: int, report: ProblemReport, fragments: str | None = None) -> Expression | None:
    """An expression in the clear, or ``None``; a leading "*." changes nothing; ``fragments`` as in ``ListDefaults``."""
    try:
        expression = parse_listed_expression(text.removeprefix("*."))
    except UrlError as error:
        report.leave_out(line, text, error.reason)
        return None
    if fragments is None and text.partition("#")[2] and expression.value.find(b"/") == len(expression.value) - 1:
        report.leave_out(line, text, _WHOLE_SITE)
        return None
    return expression


def read_name(text: str, line: int, report: ProblemReport) -> Expression | None:
    """A domain, or ``None``."""
    if expression := plain_name(text):
        return expression
    if _PATH_OR_QUERY.search(text):
        report.leave_out(line, text, "a domain has neither user nor path")
        return None
    return read_expression(text, line, report)


def read_prefix(text: str, line: int, report: ProblemReport, fragments: str | None = None) -> tuple[Expression, ...]:
    """The expressions of an entry that is the beginning of a URL.

    A path means the page, and the folder of that name.

    >>> [str(expression) for expression in read_prefix("site.example/en", 1, ProblemReport("f"))]
    ['site.example/en', 'site.example/en/']
    """
    page = read_expression(text, line, report, fragments)
    if page is None:
        return ()
    if page.value.endswith(b"/") or page.value.find(b"?") >= 0:  # "find" is faster than "in"
        return (page,)
    return page, Expression(page.value + b"/")


def may_except(defaults: ListDefaults) -> bool:
    """Whether a list may have exceptions: a list that only tags must not allow anything."""
    return defaults.action in (None, Action.BLOCK)


@lru_cache(maxsize=64)  # most lists have only one
def is_sinkhole(text: str) -> bool | None:
    """Whether an address leads nowhere: it is unspecified or loopback.

    ``None`` if the text is not an address.

    >>> is_sinkhole("0.0.0.0"), is_sinkhole("::1"), is_sinkhole("192.0.2.1"), is_sinkhole("x")
    (True, True, False, None)
    """
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return address.is_unspecified or address.is_loopback


ONLY_FULL = "only a full hash of 64 hexadecimal digits can allow, not a prefix of one"


def may_be_rule(pattern: ExpressionHash, action: Action | None) -> bool:
    """Whether a hash can be a rule: "a prefix that an attacker can collide with must never open a door"."""
    return action is not Action.ALLOW or pattern.is_full
