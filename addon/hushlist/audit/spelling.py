"""Entries that are read as another rule than they look like: what they ask for besides is in no request.

>>> [why for _, why in oddities(b"ftp://h.example/a")]
["a proxy is not asked for 'ftp:': the rule fits http and https"]
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hushlist.errors import UrlError
from hushlist.lists.patterns import parse_expression
from hushlist.match.rule import Expression

_WEB = ("http", "https", "ws", "wss")
#: a line that may have such an entry
_ODD = re.compile(
    rb"[^\s#]#[^\s]|@|(?<![a-z0-9+.-])(?!(?:https?|wss?)://)[a-z][a-z0-9+.-]*://|:(?:0+|[0-9]{5,})(?=[/?#\s\"']|\Z)",
    re.IGNORECASE,
)
_MAY_BE_ODD = re.compile(rb"[^\s]#|@|://|:[0-9]")
_BETWEEN = re.compile(r"[\s\"',{}]+")
_ENTRY = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://)?(?:(?P<user>[^/?#@\\]*)@)?(?:\[[^\]]*\]|[^/?#:\\]*)(?::(?P<port>[0-9]+))?"
    r"[^#]*(?:#(?P<fragment>.*))?",
    re.DOTALL,
)


def odd_lines(octets: bytes, first: int) -> dict[int, bytes]:
    """The lines, by number, that may hold such an entry; the octets begin with the line of that number."""
    if not _MAY_BE_ODD.search(octets):
        return {}
    return {number: line for number, line in enumerate(octets.split(b"\n"), first) if _ODD.search(line)}


def oddities(line: bytes) -> Iterator[tuple[Expression, str]]:
    """For every entry of a line: the rule that it makes, and what of it is in no request."""
    for word in _BETWEEN.split(line.decode(errors="replace")):
        if _ODD.search(word.encode()):
            try:
                rule = parse_expression(word)
            except UrlError:
                continue
            for why in _why(word, rule):
                yield rule, why


def _why(word: str, rule: Expression) -> Iterator[str]:
    entry = _ENTRY.fullmatch(word)
    if entry is None:
        return
    scheme = (entry["scheme"] or "http").lower()
    if scheme not in _WEB:
        yield f"a proxy is not asked for {scheme + ':'!r}: the rule fits http and https"
    if entry["user"] is not None:
        yield "a user name is no part of a rule: it fits whoever asks"
    if entry["port"] and not 0 < int(entry["port"][:9]) < 1 << 16:
        yield f"no request has the port {entry['port'][:20]}: the rule fits every port"
    if entry["fragment"]:
        yield f"what stands behind '#' is never sent: the rule fits all of {rule}"
