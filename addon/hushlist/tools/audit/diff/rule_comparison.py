"""Rules of a diff: what they mean, what became of them, and the steps that other processes run to find that out.

The steps read rules, compare those of one pattern, and find rules that cover others. Each is a function of one task.
Its result is small, or in files of a folder. A rule can be covered by the ``broader`` patterns: each fits all that the
rule fits, and more.

>>> [str(own) for own in broader(Expression(b"h.example/a?q"), Grain())]
['h.example/a', 'h.example/', 'example/a?q', 'example/a', 'example/']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from enum import StrEnum
from hashlib import sha256
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from hushlist.core.compile.list_chunks import DigestRange, DigestRow, LoadedChunk, digest_of, pack, rows_by_digest
from hushlist.core.match.expressions import FULL_LENGTH, full_hash, path_prefixes, suffixes_with_top_level
from hushlist.core.match.overbroad import breadth_test
from hushlist.core.match.rule import Action, Expression, ExpressionHash, Pattern, Terms
from hushlist.core.match.sorted_runs import SortedRun, Stored, sorted_run, spill, unspill
from hushlist.core.url.hashed_uri import HashedUri
from hushlist.core.url.host import parse_address

# -- changes -----------------------------------------------------------------------------------------------------------


class ChangeKind(StrEnum):
    """What became of a rule. Each rule has one kind, but can also be the other rule of several changes."""

    REMOVED = "removed"
    #: removed, but an added rule covers all that it fits, and more
    BROADENED = "broadened"
    ADDED = "added"
    #: added, and fits a part of what a removed rule fits
    NARROWED = "narrowed"
    #: the same pattern with other terms
    CHANGED = "changed"
    #: only its place has changed
    MOVED = "moved"
    UNCHANGED = "unchanged"


class RuleMeaning(NamedTuple):
    """All of a rule but its pattern and its place."""

    action: Action
    category: str | None
    reason: str | None
    expires: date | None
    #: the policy's layer that has its list
    layer: str
    #: whether the list shows in the clear what the rule fits
    is_clear: bool


def meaning_of(terms: Terms, *, is_clear: bool) -> RuleMeaning:
    return RuleMeaning(terms.action, terms.category, terms.reason, terms.expires, terms.layer, is_clear)


class RuleState(NamedTuple):
    """A rule: its place, what it fits, and its meaning; whether it is in the clear shows in what it fits."""

    source: str
    line: int
    rule: str
    action: Action
    category: str | None
    reason: str | None
    expires: date | None
    layer: str


_SIGNS = {ChangeKind.REMOVED: "-", ChangeKind.ADDED: "+", ChangeKind.MOVED: "="}


class RuleChange(NamedTuple):
    kind: ChangeKind
    old: RuleState | None
    new: RuleState | None
    #: what differs in the new rule's meaning
    how: tuple[str, ...]
    #: why it is broad, for a person
    broad: str | None

    def __str__(self) -> str:
        old, new = self.old, self.new
        place = " -> ".join(f"{stand.source}:{stand.line}" for stand in (old, new) if stand is not None)
        rules = " -> ".join(dict.fromkeys(stand.rule for stand in (old, new) if stand is not None))
        kind = "" if self.kind in _SIGNS else f"{self.kind}: "
        asks = ""
        only = new or old
        if (old is None or new is None) and only is not None and only.action is not Action.BLOCK:
            asks = f" ({only.action})"
        how = f" ({'; '.join(self.how)})" if self.how else ""
        broad = f": broad: {self.broad}" if self.broad else ""
        return f"{_SIGNS.get(self.kind, '~')} {place}: {kind}{rules}{asks}{how}{broad}"


def differences(old: RuleMeaning, new: RuleMeaning) -> Iterator[str]:
    """The differences, in words.

    >>> own = RuleMeaning(Action.BLOCK, None, "ads", None, "", is_clear=True)
    >>> [*differences(own, own._replace(action=Action.WARN, is_clear=False))]
    ['action: block -> warn', 'now hashed']
    """
    for name in ("action", "category", "reason", "expires", "layer"):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield f"{name}: {_named(before)} -> {_named(after)}"
    if old.is_clear != new.is_clear:
        yield "now in the clear" if new.is_clear else "now hashed"


def _named(value: object) -> str:
    return "none" if value is None else str(value)


# -- what covers a rule ------------------------------------------------------------------------------------------------


class Grain(NamedTuple):
    """The lengths of the patterns that may cover others."""

    #: lengths of hash prefixes, in octets
    prefixes: frozenset[int] = frozenset()
    #: (IP version, bits of the prefix) of address ranges
    ranges: frozenset[tuple[int, int]] = frozenset()

    def joined(self, other: Grain) -> Grain:
        return Grain(self.prefixes | other.prefixes, self.ranges | other.ranges)


def grain_of(pattern: Pattern) -> Grain:
    """A pattern's own length."""
    match pattern:
        case ExpressionHash(value, "") if len(value) < FULL_LENGTH:
            return Grain(prefixes=frozenset({len(value)}))
        case IPv4Network() | IPv6Network():
            return Grain(ranges=frozenset({(pattern.version, pattern.prefixlen)}))
    return Grain()


def broader(pattern: Pattern, grain: Grain) -> Iterator[Pattern]:
    """The patterns that cover one, the closest first."""
    match pattern:
        case Expression(value):
            yield from _of_expression(value, grain)
        case ExpressionHash(value, ""):
            yield from _prefixes(value, grain)
        case IPv4Network() | IPv6Network():
            yield from _ranges(pattern, grain, least=pattern.prefixlen)


def expressions_above(value: bytes) -> list[bytes]:
    """The expressions in the clear that cover one, the closest first.

    >>> expressions_above(b"x.h.example/")
    [b'h.example/', b'example/']
    """
    host, _, rest = value.partition(b"/")
    hosts = suffixes_with_top_level(host, deepest=host.count(b".") + 1)
    if not rest:
        return [suffix + b"/" for suffix in hosts[1:]]
    page, mark, query = rest.partition(b"?")
    paths = path_prefixes(b"/" + page, query if mark else None, deepest=page.count(b"/") + 1)
    return [expression for suffix in hosts for path in paths if (expression := suffix + path) != value]


def _of_expression(value: bytes, grain: Grain) -> Iterator[Pattern]:
    yield from _prefixes(full_hash(value), grain)
    for expression in expressions_above(value):
        yield Expression(expression)
        if b"." in expression.partition(b"/")[0]:  # a hash of a top-level name fits nothing below it
            yield from _prefixes(full_hash(expression), grain)
    address = parse_address(value.partition(b"/")[0]) if grain.ranges else None
    if address is not None:
        yield from _ranges(ip_network(address), grain, least=address.max_prefixlen + 1)


def _prefixes(digest: bytes, grain: Grain) -> Iterable[ExpressionHash]:
    lengths = sorted((length for length in grain.prefixes if length < len(digest)), reverse=True)
    return (ExpressionHash(digest[:length]) for length in lengths)


def _ranges(network: IPv4Network | IPv6Network, grain: Grain, least: int) -> Iterable[IPv4Network | IPv6Network]:
    """The networks that contain this one and have a prefix shorter than ``least`` bits."""
    own = sorted((bits for version, bits in grain.ranges if version == network.version and bits < least), reverse=True)
    return (network.supernet(new_prefix=bits) for bits in own)


#: a rule in a part: line, pattern (for one in the clear, the octets of its expression), number of its meaning
KeptRule = tuple[int, Pattern | bytes, int]


def pattern_of(kept: KeptRule) -> Pattern:
    return Expression(kept[1]) if isinstance(kept[1], bytes) else kept[1]


# -- reading -----------------------------------------------------------------------------------------------------------


class ReadChunk(NamedTuple):
    run: SortedRun
    #: a list of ``KeptRule``, in the order of lines
    rules: Stored
    meanings: tuple[RuleMeaning, ...]
    grain: Grain
    #: number of a rule -> why it is broad
    broad: dict[int, str]


def read_rules(chunk: LoadedChunk, border: int, popular: tuple[bytes, ...], folder: Path) -> ReadChunk:
    """Read one chunk; this loop is half of the cost of a diff.

    The chunks from ``border`` on are NEW's; among their rules it looks for broad ones.
    """
    numbers: dict[RuleMeaning, int] = {}
    kept: list[KeptRule] = []
    rows: list[bytes] = []
    broad: dict[int, str] = {}
    grain = Grain()
    breadth = breadth_test(popular)
    part, is_new = chunk.number, chunk.number >= border
    own_terms, clear, said = None, True, 0
    for number, rule in enumerate(chunk.rules):
        pattern, terms, line = rule
        is_clear = type(pattern) is Expression or not isinstance(pattern, ExpressionHash | HashedUri)
        if terms is not own_terms or is_clear is not clear:
            own_terms, clear = terms, is_clear
            said = numbers.setdefault(meaning_of(terms, is_clear=is_clear), len(numbers))
        if type(pattern) is Expression:
            value = pattern.value
            kept.append((line, value, said))
            rows.append(sha256(value).digest() + pack(part, number, line, said))
            if is_new and (why := breadth.of_expression(value)):
                broad[number] = why
        else:
            kept.append((line, pattern, said))
            rows.append(digest_of(pattern) + pack(part, number, line, said))
            grain = grain.joined(grain_of(pattern))
            if is_new and (why := breadth.of_rule(rule)):
                broad[number] = why
    return ReadChunk(sorted_run(rows, folder), spill(kept, folder), tuple(numbers), grain, broad)


# -- comparing ---------------------------------------------------------------------------------------------------------


#: where a rule is: part, and number in it
RulePlace = tuple[int, int]


#: the place of a rule (of the new one, where there are two), what became of it, and the place of the old one
RuleEvent = tuple[RulePlace, ChangeKind, RulePlace | None]


class Compared(NamedTuple):
    """How many rules are of each kind, how many each side has, and where they are."""

    counts: Counter[ChangeKind]
    #: rules, duplicates not counted
    old: int
    new: int
    #: a list of ``RuleEvent``
    events: Stored


def compare_rules(
    digests: DigestRange,
    runs: Sequence[SortedRun],
    border: int,
    names: Sequence[str],
    meanings_by_part: Sequence[tuple[RuleMeaning, ...]],
    folder: Path,
    *,
    tells_moved: bool,
) -> Compared:
    """Compare the rules of some digests.

    The parts from ``border`` on are NEW's. By part, ``names`` has the name of its file, and ``meanings_by_part`` those
    of its rules. ``tells_moved``: whether each moved rule is an event.
    """
    counts: Counter[ChangeKind] = Counter()
    numbers = [0, 0]
    events: list[RuleEvent] = []
    known: dict[RuleMeaning, int] = {}
    #: equal meanings have the same number in all parts
    meanings = [[known.setdefault(meaning, len(known)) for meaning in own] for own in meanings_by_part]
    for rows in rows_by_digest(runs, digests):
        olds: dict[int, DigestRow] = {}
        news: dict[int, DigestRow] = {}
        for row in rows:
            part, _, _, said = row
            (news if part >= border else olds).setdefault(meanings[part][said], row)
        numbers[0] += len(olds)
        numbers[1] += len(news)
        for kind, own, other in _pairs(olds, news, names):
            counts[kind] += 1
            if kind is not ChangeKind.UNCHANGED and (kind is not ChangeKind.MOVED or tells_moved):
                events.append((own[:2], kind, other and other[:2]))
    return Compared(counts, numbers[0], numbers[1], spill(events, folder))


def _pairs(
    olds: dict[int, DigestRow], news: dict[int, DigestRow], names: Sequence[str]
) -> Iterator[tuple[ChangeKind, DigestRow, DigestRow | None]]:
    """The rules of one pattern: first those of equal meaning, then as many of the others as make pairs, then the rest.

    A pair is the new rule and the old one. Empties the dictionaries of rules of equal meaning.
    """
    for meaning in olds.keys() & news.keys():
        old, new = olds.pop(meaning), news.pop(meaning)
        is_moved = old[2] != new[2] or names[old[0]] != names[new[0]]
        yield ChangeKind.MOVED if is_moved else ChangeKind.UNCHANGED, new, old
    yield from ((ChangeKind.CHANGED, new, old) for old, new in zip(olds.values(), news.values(), strict=False))
    yield from ((ChangeKind.REMOVED, old, None) for old in islice(olds.values(), len(news), None))
    yield from ((ChangeKind.ADDED, new, None) for new in islice(news.values(), len(olds), None))


# -- covering ----------------------------------------------------------------------------------------------------------


class ReachTask(NamedTuple):
    """A task: removed or added rules of a part, by number."""

    number: int
    part: ReadChunk
    numbers: Sequence[int]
    #: lengths of the rules that may cover these; ``None`` if these rules are to cover others
    grain: Grain | None


def reach(task: ReachTask, folder: Path) -> SortedRun:
    """Rows of what the rules fit, if they may cover others; otherwise rows of all patterns that would cover them.

    Only a rule of the same action in the same layer covers another.
    """
    kept: list[KeptRule] = unspill(task.part.rules)
    asks = [
        crc32(f"{meaning.action} {meaning.layer}".encode()).to_bytes(_ASKS, "big") for meaning in task.part.meanings
    ]
    rows: list[bytes] = []
    for number in task.numbers:
        line, pattern, said = kept[number]
        if task.grain is None:
            digests = [digest_of(pattern_of(kept[number]))]
        elif isinstance(pattern, bytes) and task.grain == _NONE:
            digests = [sha256(expression).digest() for expression in expressions_above(pattern)]
        else:
            digests = [digest_of(own) for own in broader(pattern_of(kept[number]), task.grain)]
        for rank, digest in enumerate(digests):
            rows.append(digest[:-_ASKS] + asks[said] + pack(task.number, number, line, rank))
    return sorted_run(rows, folder)


#: octets at a digest's end that a checksum of the rule's action and layer replaces
_ASKS = 4
_NONE = Grain()


#: covered rule, rank, covering rule: the smaller the rank, the closer
Cover = tuple[RulePlace, int, RulePlace]


def search_covers(
    digests: DigestRange, runs: Sequence[SortedRun], border: int, folder: Path, *, covers_old: bool
) -> Stored:
    """A list of ``Cover``, from the runs of ``reach``.

    The parts from ``border`` on are NEW's; ``covers_old`` says whether rules of NEW cover, or those of OLD.
    """
    found: list[Cover] = []
    for rows in rows_by_digest(runs, digests):
        covers = [row for row in rows if (row[0] >= border) is covers_old]
        if covers and len(covers) < len(rows):
            cover = covers[0][:2]
            found += ((row[:2], row[3], cover) for row in rows if (row[0] >= border) is not covers_old)
    return spill(found, folder)
