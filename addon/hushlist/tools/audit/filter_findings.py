"""What lint finds in network filters of Adblock lists: those that never fit, and those that another one covers.

A filter covers another one of its list if its text is part of the other's, and its options are not narrower.

>>> from hushlist.extensions.adblock.filter_reader import parse_filter
>>> why_never(parse_filter("||a.example/x$script,~script"))
'its options exclude every type'
>>> own = parse_filter("||a.example/ads/x.js$script")
>>> [covers(parse_filter(text), own) for text in ("||a.example/ads/", "/ads/x.$script,image", "/ads/x.$image")]
[True, True, False]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hushlist.core.match.context import Context
from hushlist.core.match.index import Index
from hushlist.core.match.index_file import FILTERED
from hushlist.core.match.rule import Rule
from hushlist.core.match.rule_match import Match
from hushlist.extensions.adblock.filter_index import FilterIndex
from hushlist.extensions.adblock.filter_patterns import shape_of
from hushlist.extensions.adblock.filter_table import parse_stored
from hushlist.extensions.adblock.network_filter import Names, NetworkFilter, UrlInContext

_BEGINNINGS = (b"http://", b"https://", b"ws://", b"wss://")
_CAPITAL = re.compile(rb"[^/^*:?]*[A-Z]")


def why_never(network_filter: NetworkFilter) -> str | None:
    """Why no request can fit a filter, for people; ``None`` if one may."""
    left, _, pieces = shape_of(network_filter.pattern) if not network_filter.is_regex else ("", False, ())
    first = pieces[0] if pieces else b""
    if not network_filter.kinds:
        return "its options exclude every type"
    is_of_url = left == "|" and not network_filter.of_names
    if is_of_url and not any(
        first.lower().startswith(beginning) or beginning.startswith(first.lower()) for beginning in _BEGINNINGS
    ):
        return "no URL that a proxy is asked for begins like that"
    if network_filter.match_case and left == "||" and _CAPITAL.match(first):
        return "no host has capital letters, and they count with 'match-case'"
    for name, names in (("domain", network_filter.pages), ("to", network_filter.hosts)):
        if names and names.only and names.only <= names.but:
            return f"'{name}' names only what it excludes"
    if (
        network_filter.guide
        and network_filter.hosts
        and network_filter.hosts.only
        and not _may_be_below(network_filter.guide.decode(), network_filter.hosts)
    ):
        return "'to' names no host below the one of the pattern"
    return None


def _may_be_below(host: str, names: Names) -> bool:
    return any(name.endswith((".*", f".{host}")) or name == host or host.endswith(f".{name}") for name in names.only)


def covers(wide: NetworkFilter, narrow: NetworkFilter) -> bool:
    """Whether whatever one filter fits, another one fits, too; when in doubt, it is not."""
    if (wide.of_names, wide.same_host, wide.head) != (narrow.of_names, narrow.same_host, narrow.head):
        return False
    if (
        wide.is_badfilter
        or wide.is_exception is not narrow.is_exception
        or wide.is_important is not narrow.is_important
    ):
        return False
    if narrow.kinds & ~wide.kinds or narrow.parties & ~wide.parties or (wide.match_case and not narrow.match_case):
        return False
    pairs = ((wide.pages, narrow.pages), (wide.hosts, narrow.hosts), (wide.methods, narrow.methods))
    return all(its is None or its == other for its, other in pairs) and _is_part(wide, narrow)


def _is_part(wide: NetworkFilter, narrow: NetworkFilter) -> bool:
    if wide.is_regex or narrow.is_regex or wide.pattern == narrow.pattern:
        return wide.is_regex is narrow.is_regex and wide.pattern == narrow.pattern
    its, other = shape_of(wide.pattern), shape_of(narrow.pattern)
    if len(its.pieces) != 1 or its.right or not other.pieces:
        return False
    (text,) = its.pieces
    pieces = other.pieces if wide.match_case else [piece.lower() for piece in other.pieces]
    if its.left:
        return its.left == other.left != "||*" and pieces[0].startswith(text)
    return any(text in piece for piece in pieces)


def covered_filters(index: Index, texts: Iterable[bytes]) -> Iterator[tuple[Rule, Match]]:
    """The rules with these filters, as the index has them, that another one of the same list covers, with that one."""
    filters = index.filters.get("adblock")
    if not isinstance(filters, FilterIndex):
        return
    for text in texts:
        network_filter = parse_stored(text)
        url = _example(network_filter)
        host = url.split(b"/")[2].partition(b":")[0]
        filter_request = UrlInContext(url, host, Context(), may_guess=True)
        if network_filter.is_exception or network_filter.is_regex or not (host and network_filter.fits(filter_request)):
            continue
        below = index.on_host(host)
        is_named = below.bits & FILTERED != 0
        matches = [*below.matches, *filters.find(filter_request, is_named=is_named, is_stopped=False)]
        for match in matches:
            if match.rule.pattern == network_filter:
                cover = next((other for other in matches if _is_cover(other.rule, match.rule, network_filter)), None)
                if cover:
                    yield match.rule, cover


def _is_cover(other: Rule, rule: Rule, network_filter: NetworkFilter) -> bool:
    terms = other.terms
    if terms.source != rule.terms.source or terms.layer != rule.terms.layer or terms.action is not rule.terms.action:
        return False
    if isinstance(other.pattern, NetworkFilter):
        return other.pattern != network_filter and covers(other.pattern, network_filter)
    return bool(network_filter.guide) and not network_filter.is_important and terms == rule.terms


def _example(network_filter: NetworkFilter) -> bytes:
    """A URL that a filter probably fits."""
    left, _, pieces = shape_of(network_filter.pattern)
    text = b"".join(pieces).replace(b"^", b"/")
    if network_filter.of_names:
        return b"http://" + text.strip(b"/.") + b"/"
    if left == "|":
        return text if text.startswith(_BEGINNINGS) else b"http://a.invalid/"
    return b"http://" + text + b"/" * (b"/" not in text) if left == "||" else b"http://a.invalid/" + text
