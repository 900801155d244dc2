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
from hushlist.extensions.adblock.network_filter import Asked, Names, NetworkFilter

_BEGINNINGS = (b"http://", b"https://", b"ws://", b"wss://")
_CAPITAL = re.compile(rb"[^/^*:?]*[A-Z]")


def why_never(own: NetworkFilter) -> str | None:
    """Why no request can fit a filter, for people; ``None`` if one may."""
    left, _, pieces = shape_of(own.pattern) if not own.is_regex else ("", False, ())
    first = pieces[0] if pieces else b""
    if not own.kinds:
        return "its options exclude every type"
    is_of_url = left == "|" and not own.of_names
    if is_of_url and not any(first.lower().startswith(one) or one.startswith(first.lower()) for one in _BEGINNINGS):
        return "no URL that a proxy is asked for begins like that"
    if own.match_case and left == "||" and _CAPITAL.match(first):
        return "no host has capital letters, and they count with 'match-case'"
    for name, names in (("domain", own.pages), ("to", own.hosts)):
        if names and names.only and names.only <= names.but:
            return f"'{name}' names only what it excludes"
    if own.guide and own.hosts and own.hosts.only and not _may_be_below(own.guide.decode(), own.hosts):
        return "'to' names no host below the one of the pattern"
    return None


def _may_be_below(host: str, names: Names) -> bool:
    return any(own.endswith((".*", f".{host}")) or own == host or host.endswith(f".{own}") for own in names.only)


def covers(wide: NetworkFilter, own: NetworkFilter) -> bool:
    """Whether whatever one filter fits, another one fits, too; when in doubt, it is not."""
    if wide.of_names is not own.of_names or wide.same_host is not own.same_host:
        return False
    if wide.is_badfilter or wide.is_exception is not own.is_exception or wide.is_important is not own.is_important:
        return False
    if own.kinds & ~wide.kinds or own.parties & ~wide.parties or (wide.match_case and not own.match_case):
        return False
    pairs = ((wide.pages, own.pages), (wide.hosts, own.hosts), (wide.methods, own.methods))
    return all(its is None or its == other for its, other in pairs) and _is_part(wide, own)


def _is_part(wide: NetworkFilter, own: NetworkFilter) -> bool:
    if wide.is_regex or own.is_regex or wide.pattern == own.pattern:
        return wide.is_regex is own.is_regex and wide.pattern == own.pattern
    its, other = shape_of(wide.pattern), shape_of(own.pattern)
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
        own = parse_stored(text)
        url = _example(own)
        host = url.split(b"/")[2].partition(b":")[0]
        asked = Asked(url, host, Context(), may_guess=True)
        if own.is_exception or own.is_regex or not (host and own.fits(asked)):
            continue
        below = index.on_host(host)
        is_named = below.bits & FILTERED != 0
        found = [*below.matches, *filters.find(asked, is_named=is_named, is_stopped=False)]
        for match in found:
            if match.rule.pattern == own:
                cover = next((other for other in found if _is_cover(other.rule, match.rule, own)), None)
                if cover:
                    yield match.rule, cover


def _is_cover(other: Rule, rule: Rule, own: NetworkFilter) -> bool:
    terms = other.terms
    if terms.source != rule.terms.source or terms.layer != rule.terms.layer or terms.action is not rule.terms.action:
        return False
    if isinstance(other.pattern, NetworkFilter):
        return other.pattern != own and covers(other.pattern, own)
    return bool(own.guide) and not own.is_important and terms == rule.terms


def _example(own: NetworkFilter) -> bytes:
    """A URL that a filter probably fits."""
    left, _, pieces = shape_of(own.pattern)
    text = b"".join(pieces).replace(b"^", b"/")
    if own.of_names:
        return b"http://" + text.strip(b"/.") + b"/"
    if left == "|":
        return text if text.startswith(_BEGINNINGS) else b"http://a.invalid/"
    return b"http://" + text + b"/" * (b"/" not in text) if left == "||" else b"http://a.invalid/" + text
