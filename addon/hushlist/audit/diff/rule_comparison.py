"""The steps of a diff that other processes run: read rules, compare those of one pattern, find rules that cover others.

Each step is a function of one task. Its result is small, or in files of a folder. A rule can be covered by the
``broader`` patterns: each fits all that the rule fits, and more.

>>> [str(own) for own in broader(Expression(b"x.h.example/a?q"), Grain())]
['x.h.example/a', 'x.h.example/', 'h.example/a?q', 'h.example/a', 'h.example/']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from hushlist.audit.diff.rule_change import ChangeKind, RuleMeaning, meaning_of
from hushlist.jobs.digest_runs import DigestRange, DigestRow, digest_of, pack, rows_by_digest
from hushlist.jobs.list_chunks import LoadedChunk
from hushlist.match.expressions import FULL_LENGTH, full_hash, host_suffixes, path_prefixes
from hushlist.match.index_writer import SortedRun, Stored, sorted_run, spill, unspill
from hushlist.match.overbroad import breadth_test
from hushlist.match.rule import Expression, ExpressionHash, Pattern
from hushlist.url.hashed_uri import HashedUri
from hushlist.url.host import parse_address


class Grain(NamedTuple):
    """The lengths of the patterns that may cover others."""

    #: lengths of hash prefixes, in octets
    prefixes: frozenset[int] = frozenset()
    #: (IP version, bits of the prefix) of address ranges
    ranges: frozenset[tuple[int, int]] = frozenset()

    def joined(self, other: Grain) -> Grain:
        """The lengths of both."""
        return Grain(self.prefixes | other.prefixes, self.ranges | other.ranges)


def grain_of(pattern: Pattern) -> Grain:
    """A pattern's own length."""
    match pattern:
        case ExpressionHash(value) if len(value) < FULL_LENGTH:
            return Grain(prefixes=frozenset({len(value)}))
        case IPv4Network() | IPv6Network():
            return Grain(ranges=frozenset({(pattern.version, pattern.prefixlen)}))
    return Grain()


def broader(pattern: Pattern, grain: Grain) -> Iterator[Pattern]:
    """The patterns that cover one, the closest first."""
    match pattern:
        case Expression(value):
            yield from _of_expression(value, grain)
        case ExpressionHash(value):
            yield from _prefixes(value, grain)
        case IPv4Network() | IPv6Network():
            yield from _ranges(pattern, grain, least=pattern.prefixlen)


def expressions_above(value: bytes) -> list[bytes]:
    """The expressions in the clear that cover one, the closest first.

    >>> expressions_above(b"x.h.example/")
    [b'h.example/']
    """
    host, _, rest = value.partition(b"/")
    hosts = host_suffixes(host, deepest=host.count(b".") + 1)
    if not rest:
        return [suffix + b"/" for suffix in hosts[1:]]
    page, mark, query = rest.partition(b"?")
    paths = path_prefixes(b"/" + page, query if mark else None, deepest=page.count(b"/") + 1)
    return [expression for suffix in hosts for path in paths if (expression := suffix + path) != value]


def _of_expression(value: bytes, grain: Grain) -> Iterator[Pattern]:
    yield from _prefixes(full_hash(value), grain)
    for expression in expressions_above(value):
        yield Expression(expression)
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
    """The pattern of a rule."""
    return Expression(kept[1]) if isinstance(kept[1], bytes) else kept[1]


# -- reading -----------------------------------------------------------------------------------------------------------


class ReadChunk(NamedTuple):
    """The result of reading a chunk."""

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


#: what became of a rule, and its place in OLD and in NEW
RuleEvent = tuple[ChangeKind, RulePlace | None, RulePlace | None]


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
        for kind, old, new in _pairs(olds, news, names):
            counts[kind] += 1
            if kind is not ChangeKind.UNCHANGED and (kind is not ChangeKind.MOVED or tells_moved):
                events.append((kind, old and old[:2], new and new[:2]))
    return Compared(counts, numbers[0], numbers[1], spill(events, folder))


def _pairs(
    olds: dict[int, DigestRow], news: dict[int, DigestRow], names: Sequence[str]
) -> list[tuple[ChangeKind, DigestRow | None, DigestRow | None]]:
    """The rules of one pattern, paired: first those of equal meaning, then as many of the others as make pairs.

    Empties the dictionaries.
    """
    found: list[tuple[ChangeKind, DigestRow | None, DigestRow | None]] = []
    for meaning in olds.keys() & news.keys():
        old, new = olds.pop(meaning), news.pop(meaning)
        is_moved = old[2] != new[2] or names[old[0]] != names[new[0]]
        found.append((ChangeKind.MOVED if is_moved else ChangeKind.UNCHANGED, old, new))
    if olds or news:
        for before, after in zip_longest(olds.values(), news.values()):
            kind = ChangeKind.ADDED if before is None else ChangeKind.REMOVED if after is None else ChangeKind.CHANGED
            found.append((kind, before, after))
    return found


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
