"""What lint finds in a policy itself, and in a chunk of a list alone: unreadable, broad, dead, expired, odd lines.

A dead rule is one that no request can fit. No request of a browser, to a name that can be resolved, has its canonical
form.

>>> why_unmatchable(Expression(b"256.1.2.3/"))
'a name that ends in a number is no address and cannot be resolved: browsers refuse it'

An odd entry is read as a different rule than it seems to be: it has parts that no request has.

>>> [why for _, why in oddities(b"ftp://h.example/a")]
["a proxy is not asked for 'ftp:': the rule fits http and https"]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import NamedTuple

from hushlist.core.compile.list_chunks import LoadedChunk, collect_rules
from hushlist.core.errors import UrlError
from hushlist.core.lists.list_formats import CORE_FORMATS
from hushlist.core.lists.patterns import canonicalize_expression
from hushlist.core.match.expressions import full_hash
from hushlist.core.match.overbroad import BreadthTest, breadth_test
from hushlist.core.match.rule import Expression, ExpressionHash, Pattern, Rule, WholeUrl
from hushlist.core.match.rule_collector import CollectedPart
from hushlist.core.match.seal import SealKey
from hushlist.core.match.sorted_runs import Stored
from hushlist.core.policy.groups import uses_of
from hushlist.core.policy.policy_file import Policy
from hushlist.core.url.hashed_uri import ALGORITHMS, HashedUri
from hushlist.core.url.host import parse_ipv4
from hushlist.extensions.adblock.network_filter import NetworkFilter
from hushlist.tools.audit.filter_findings import why_never
from hushlist.tools.audit.shadowed import store_candidates
from hushlist.tools.reference.iri_text import DIRECTION_MARKS


class FindingKind(StrEnum):
    #: the list cannot be used
    ERROR = "error"
    #: no rule could be made from it
    REFUSED = "refused"
    #: the same rule is there already
    DUPLICATE = "duplicate"
    #: a broader rule does the same
    COVERED = "covered"
    #: another rule of the same key in the same list always beats it
    BEATEN = "beaten"
    #: it covers more than its author probably means to block
    BROAD = "broad"
    #: no real URL can fit it
    DEAD = "dead"
    #: it is read as a different rule than it seems to be
    SPELLING = "spelling"
    #: hashes so short, and in such numbers, that they fit other URLs by chance
    SHORT_HASH = "short-hash"
    #: its last day has passed
    EXPIRED = "expired"
    #: it would cost too much on every request, and is left out
    COSTLY = "costly"


class Finding(NamedTuple):
    """One problem; findings sort by line."""

    #: from 1; 0 for the file as a whole
    line: int
    kind: FindingKind
    #: the rule or the entry; empty for the line as written
    what: str
    why: str


def lint_chunk(
    chunk: LoadedChunk, popular: tuple[bytes, ...], key: SealKey | None, now: datetime, folder: Path
) -> tuple[CollectedPart, list[Stored], list[Finding]]:
    """Look at one chunk; ``key`` is that of sealed hashes, and ``now`` is in UTC.

    Its rules, and those that broader ones may cover, are collected, for comparisons with rules of other chunks.
    """
    is_raw = chunk.file.format == CORE_FORMATS["safebrowsing-raw"]
    odd = {} if is_raw else odd_lines(chunk.octets, chunk.report.first_line)
    findings: list[Finding] = []
    looked_at = _looked_at(chunk.rules, odd, now, breadth_test(popular), key, findings)
    candidates = list[Stored]()
    part, broad = collect_rules(chunk, store_candidates(looked_at, candidates, folder), popular, folder)
    findings += (Finding(rule.line, FindingKind.BROAD, str(rule.pattern), why) for rule, why in broad)
    return part, candidates, findings


def _looked_at(
    rules: Iterable[Rule],
    odd: dict[int, bytes],
    now: datetime,
    breadth: BreadthTest,
    key: SealKey | None,
    findings: list[Finding],
) -> Iterator[Rule]:
    """The rules; adds the problems of single rules to the findings."""
    for rule in rules:
        pattern, terms, line = rule
        if why := why_unmatchable(pattern):
            findings.append(Finding(line, FindingKind.DEAD, str(pattern), why))
        if isinstance(pattern, ExpressionHash) and (why := breadth.of_hash(pattern, key)):
            findings.append(Finding(line, FindingKind.BROAD, str(pattern), why))
        if terms.expires is not None and not terms.holds_at(now):
            findings.append(Finding(line, FindingKind.EXPIRED, str(pattern), f"its last day was {terms.expires}"))
        if line in odd and isinstance(pattern, Expression):
            whys = dict.fromkeys(why for made, why in oddities(odd[line]) if made == pattern)
            findings += (Finding(line, FindingKind.SPELLING, "", why) for why in whys)
        yield rule


# -- dead rules --------------------------------------------------------------------------------------------------------

#: Spec: RFC 1035, 2.3.4: "labels: 63 octets or less; names: 255 octets or less", of which two are not written
_LONGEST_LABEL, _LONGEST_NAME = 63, 253

# One search shows for nearly every rule that it is fine.
_is_suspect = re.compile(rb"[^/]{64}|[^/\[]*[%<>:\[\]^|]|(?:[^/]*\.)?(?:[0-9]+|0[xX][0-9A-Fa-f]*)/").match
_ENDS_IN_NUMBER = re.compile(rb"(?:.*\.)?(?:[0-9]+|0[xX][0-9A-Fa-f]*)", re.DOTALL)
_FORBIDDEN = re.compile(rb"[<>:\[\]^|]")


def why_unmatchable(pattern: Pattern) -> str | None:
    """Why no real URL can fit a pattern, for a person; ``None`` if one may."""
    match pattern:
        case Expression(value):
            return _host(value[: value.find(b"/")]) if _is_suspect(value) else None
        case WholeUrl(value):
            return why_unmatchable(canonicalize_expression(value.decode()))
        case ExpressionHash(value, ""):
            return _NOTHING if value == _OF_NOTHING[: len(value)] else None
        case HashedUri(key, digest):
            return _NOTHING if digest == ALGORITHMS[key.algorithm](b"") else None
        case NetworkFilter():
            return why_never(pattern) or (_host(pattern.guide) if pattern.guide else None)
        case IPv4Network() | IPv6Network() as network:
            return "all its addresses are for multicast: no site has one" if network.is_multicast else None
    return None


_OF_NOTHING = full_hash(b"")
_NOTHING = "it is the hash of nothing, not of an expression"


def _host(host: bytes) -> str | None:
    if host.startswith(b"["):
        return None
    if b"%" in host:
        return "there is an escape in the host: browsers refuse it"
    if refused := _FORBIDDEN.search(host):
        return f"there is {refused[0].decode()!r} in the host: browsers refuse it"
    # Spec: URL Standard, host parsing: a host that "ends in a number" is an IPv4 address, or failure
    if _ENDS_IN_NUMBER.fullmatch(host):
        if parse_ipv4(host) is None:
            return "a name that ends in a number is no address and cannot be resolved: browsers refuse it"
        return None
    longest = max(map(len, host.split(b".")))
    if longest > _LONGEST_LABEL:
        return f"a label has {longest} octets: a name that is resolved has at most {_LONGEST_LABEL} in each"
    if len(host) > _LONGEST_NAME:
        return f"the host has {len(host)} octets: a name that is resolved has at most {_LONGEST_NAME}"
    return None


# -- odd entries -------------------------------------------------------------------------------------------------------

_WEB = ("http", "https", "ws", "wss")
#: a line that may have an odd entry
_ODD = re.compile(
    rb"[^\s#]#[^\s]|@|(?<![a-z0-9+.-])(?!(?:https?|wss?)://)[a-z][a-z0-9+.-]*://|:(?:0+|[0-9]{5,})(?=[/?#\s\"']|\Z)"
    rb"|(?:\A|[\s\"']|//)[^/?#\s\"'%]*+%(?:2[3f]|3[af]|40|5c)|\xe2\x80[\x8e\x8f\xaa-\xae]",
    re.IGNORECASE,
)
_MAY_BE_ODD = re.compile(rb"[^\s]#|@|://|:[0-9]|%|\xe2\x80[\x8e\x8f\xaa-\xae]")
_ENCODED_DELIMITER = re.compile("[^/?#]*%(?:2[3Ff]|3[AaFf]|40|5[Cc])")
_BETWEEN = re.compile(r"[\s\"',{}]+")
_ENTRY = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://)?(?:(?P<user>[^/?#@\\]*)@)?(?P<host>\[[^\]]*\]|[^/?#:\\]*)(?::(?P<port>[0-9]+))?"
    r"[^#]*(?:#(?P<fragment>.*))?",
    re.DOTALL,
)


def odd_lines(octets: bytes, first: int) -> dict[int, bytes]:
    """The lines, by number, that may have an odd entry; ``first`` is the number of the octets' first line."""
    if not _MAY_BE_ODD.search(octets):
        return {}
    return {number: line for number, line in enumerate(octets.split(b"\n"), first) if _ODD.search(line)}


def oddities(line: bytes) -> Iterator[tuple[Expression, str]]:
    """For each odd entry of a line: the rule that it makes, and which part of it no request has."""
    for word in _BETWEEN.split(line.decode(errors="replace")):
        if _ODD.search(word.encode()):
            try:
                rule = canonicalize_expression(word)
            except UrlError:
                continue
            for why in _why(word, rule):
                yield rule, why


def _why(word: str, rule: Expression) -> Iterator[str]:
    entry = _ENTRY.fullmatch(word)
    assert entry is not None  # it fits every text
    scheme = (entry["scheme"] or "http").lower()
    if scheme not in _WEB:
        yield f"a proxy is not asked for {scheme + ':'!r}: the rule fits http and https"
    if entry["user"] is not None:
        yield "a user name is no part of a rule: it fits whoever asks"
    if entry["port"] and not 0 < int(entry["port"][:9]) < 1 << 16:
        yield f"no request has the port {entry['port'][:20]}: the rule fits every port"
    if _ENCODED_DELIMITER.match(entry["host"]):
        why = "browsers refuse it, so that nothing they ask for fits, and others may ask for another host"
        yield f"there is an encoded delimiter in the host: {why}"
    if mark := DIRECTION_MARKS.search(word):
        what = f"character {mark.start() + 1} is U+{ord(mark[0]):04X}, which nobody sees"
        yield f"{what}: it changes the direction of writing, and no IRI has it (RFC 3987, 4.1)"
    if entry["fragment"]:
        yield f"what stands behind '#' is never sent: the rule fits all of {rule}"


# -- policies ----------------------------------------------------------------------------------------------------------


def policy_findings(policy: Policy) -> Iterator[Finding]:
    """A finding for each layer that a single group names, as if that made it the group's alone."""
    everybody = {layer.name for layer in policy.layers if not layer.groups}
    apart = [group for group in policy.groups if group.layers != uses_of(policy.layers, group.name)]
    for layer in policy.layers:
        naming = [group.name for group in apart if layer.name in {use.name for use in group.layers}]
        if len(naming) == 1 and layer.name in everybody:
            why = f"the group {naming[0]} names it, and it is for everybody, too; if that is not meant, give it 'for'"
            yield Finding(layer.line, FindingKind.SPELLING, f"layer {layer.name}", why)
