"""Compares a list with what it was before: how many of its rules it loses and takes back, and what it newly covers.

    read both -> compare the rules of each range of keys -> where many are lost: do broader ones stand in their place?

A rule is lost if no rule of the new list has its pattern and its action, or is the prefix of a hash that fits it. One
that has expired is none. A new exception, rule that allows, or ``badfilter`` takes rules back: it counts as one.

``count_changes`` and ``shorten`` compare lines only: few of many are other ones, most days.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial, reduce
from ipaddress import IPv4Network, IPv6Network
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from hushlist.core.compile.list_chunks import ChunkedList, LoadedChunk, collect_rules, read_lists
from hushlist.core.compile.worker_processes import Workers
from hushlist.core.lists.line_differences import COMPARED, differing, differing_lines
from hushlist.core.match.index import Index
from hushlist.core.match.index_file import EXPRESSION_TABLE, GUIDE, decode_terms, key_length, seal_of
from hushlist.core.match.index_table import PLACE
from hushlist.core.match.index_writer import assemble, merge_all
from hushlist.core.match.overbroad import BreadthTest, breadth_test
from hushlist.core.match.rule import Action, Expression, ExpressionHash, Rule, RuleBlock
from hushlist.core.match.rule_collector import CollectedPart
from hushlist.core.match.shadowed import find_shadowed
from hushlist.core.match.sorted_runs import key_ranges, rows_in_range, unspill
from hushlist.core.system.files import open_regular
from hushlist.extensions.adblock.network_filter import NetworkFilter
from hushlist.extensions.subscriptions.ordinary_requests import Effect, effect_of_parts

#: broad rules that are told
_MOST_BROAD = 20


class BroadRule(NamedTuple):
    """A rule that covers more than its author probably means."""

    line: int
    what: str
    why: str


class ListChange(NamedTuple):
    """What became of a list; each rule is counted once."""

    old: int
    new: int
    #: old rules that are lost
    lost: int
    #: the first of the new rules that are broad
    broad: list[BroadRule]
    #: new rules that take others back
    opened: int = 0
    #: what the rules did with ordinary requests before, and what they do
    before: Effect = Effect()
    now: Effect = Effect()


class BroadKinds(NamedTuple):
    """Which new rules are too broad: those that cover a public suffix or more, or one of these domains."""

    suffixes: bool
    popular: tuple[bytes, ...]

    def why(self, breadth: BreadthTest, expression: bytes) -> str | None:
        """Why an expression is, for people; ``None`` if it is not."""
        return breadth.of_expression(expression) if self.suffixes or breadth.is_popular(expression) else None


class _Side(NamedTuple):
    """The parts of a list, and its rules that may be broad."""

    parts: list[CollectedPart]
    broad: list[Rule]
    badfilters: set[bytes]


def compare_lists(
    old: ChunkedList, new: ChunkedList, kinds: BroadKinds, most_lost: int, folder: Path, workers: Workers
) -> ListChange | None:
    """Compare; ``None`` if the new one has errors, which are in its report.

    What covers lost rules matters only where these are more than ``most_lost`` of a hundred.
    """
    sides = now, before = _Side([], [], set()), _Side([], [], set())
    collect = partial(_collect, popular=kinds.popular, folder=folder)
    for at, (part, own, badfilters) in read_lists([new, old], workers, collect):
        sides[at].parts.append(part)
        sides[at].broad.extend(own)
        sides[at].badfilters.update(badfilters)
    if new.report.errors:
        return None
    rows = sum(run.starts[-1] for part in (*now.parts, *before.parts) for run in part.runs.values())
    compare = partial(_compare, now=now.parts, before=before.parts, kinds=kinds)
    change = reduce(_joined, workers.map("compared", compare, key_ranges(rows)))
    lost, opened = change.lost, 0
    if new.file.defaults.action is not Action.ALLOW:
        opened = change.opened + len(now.badfilters - before.badfilters)
    if change.new and (lost + opened) * 100 > most_lost * change.old:
        lost -= _covered(now.parts, before.parts, folder, workers)
    broad = sorted([*change.broad, *_newly_broad(now.broad, before.broad, kinds)])
    action = new.file.defaults.action or Action.BLOCK
    effect = effect_of_parts(before.parts, action), effect_of_parts(now.parts, action)
    return ListChange(change.old, change.new, lost, broad[:_MOST_BROAD], opened, *effect)


def _joined(one: ListChange, other: ListChange) -> ListChange:
    broad = [*one.broad, *other.broad]
    return ListChange(one.old + other.old, one.new + other.new, one.lost + other.lost, broad, one.opened + other.opened)


def _collect(
    chunk: LoadedChunk, popular: tuple[bytes, ...], folder: Path
) -> tuple[CollectedPart, list[Rule], list[bytes]]:
    badfilters = list[bytes]()
    part, broad = collect_rules(chunk, _noting(chunk.rule_blocks, badfilters), popular, folder)
    return part, [rule for rule, _ in broad], badfilters


def _noting(rules: Iterable[Rule | RuleBlock], badfilters: list[bytes]) -> Iterator[Rule | RuleBlock]:
    """The rules; the network filters among them that take others back are noted."""
    for rule in rules:
        if isinstance(rule, Rule) and isinstance(rule.pattern, NetworkFilter) and rule.pattern.is_badfilter:
            badfilters.append(rule.pattern.digest)
        yield rule


def _newly_broad(now: Iterable[Rule], before: Iterable[Rule], kinds: BroadKinds) -> Iterator[BroadRule]:
    """The rules in the clear, and for addresses, that were not there before."""
    known = {(rule.pattern, rule.terms.action) for rule in before}
    breadth = breadth_test(kinds.popular)
    for rule in now:
        pattern, why = rule.pattern, None
        if isinstance(pattern, Expression):
            why = kinds.why(breadth, pattern.value)
        elif isinstance(pattern, NetworkFilter):
            is_asked = kinds.suffixes or breadth.is_popular(pattern.host + b"/")
            why = breadth.of_filter(pattern) if is_asked else None
        elif isinstance(pattern, IPv4Network | IPv6Network) and kinds.suffixes:
            why = breadth.of_range(pattern)
        if why and (pattern, rule.terms.action) not in known:
            yield BroadRule(rule.line, str(pattern), why)


def broad_hashes(part: CollectedPart, popular: tuple[bytes, ...]) -> Iterator[BroadRule]:
    """The hashes of public suffixes and popular domains in a part."""
    breadth = breadth_test(popular)
    for name in part.runs if part.has_hashes else ():
        if name.startswith(EXPRESSION_TABLE) and not seal_of(name):
            size, terms = key_length(name), [decode_terms(own) for own in part.terms]
            for row in rows_in_range([part.runs[name]], size + PLACE.size, 0, 256):
                expression = breadth.hashed(row[:size])
                _, line, number = PLACE.unpack_from(row, size)
                if not expression or number == GUIDE or terms[number][0] or terms[number][1].confirmer:
                    continue
                if why := breadth.of_hash(ExpressionHash(row[:size])):
                    yield BroadRule(line, f"sha256:{row[:size].hex()}", why)


#: by table: a rule's key, and an octet for its action -> its line if it is a hash, or -1
_Keys = dict[str, dict[bytes, int]]
_ACTIONS = {action: bytes((number,)) for number, action in enumerate(Action)}
#: how a row ends that is none of a rule
_GUIDE = PLACE.pack(0, 0, GUIDE)[-4:]


def _compare(
    keys: tuple[int, int], now: Sequence[CollectedPart], before: Sequence[CollectedPart], kinds: BroadKinds
) -> ListChange:
    """Compare the rules whose keys begin with an octet from the first to before the last."""
    new, old = (_keys_of(parts, *keys) for parts in (now, before))
    lengths = {name: key_length(name) for name in new if name.startswith(EXPRESSION_TABLE)}
    lost = 0
    for name, own in old.items():
        gone = own.keys() - new.get(name, {}).keys()
        seal = seal_of(name) if name.startswith(EXPRESSION_TABLE) else None
        wider = [(new[of], size) for of, size in lengths.items() if size < key_length(name) and seal_of(of) == seal]
        lost += sum(not any(key[:length] + key[-1:] in hashes for hashes, length in wider) for key in gone)
    breadth, broad = breadth_test(kinds.popular), list[BroadRule]()
    for name, size in lengths.items():
        known = old.get(name, {})
        for key, line in new[name].items():
            hashed = None if line < 0 or key in known or seal_of(name) else breadth.hashed(key[:size])
            if hashed and (why := kinds.why(breadth, hashed)):
                broad.append(BroadRule(line, f"sha256:{key[:size].hex()}", f"the hash of {hashed.decode()}: {why}"))
    numbers = sum(map(len, old.values())), sum(map(len, new.values()))
    has_allowing = any(Action.ALLOW in part.actions for part in now)
    came = chain.from_iterable(own.keys() - old.get(name, {}).keys() for name, own in new.items() if has_allowing)
    return ListChange(*numbers, lost, broad[:_MOST_BROAD], sum(key[-1:] == _ACTIONS[Action.ALLOW] for key in came))


def _keys_of(parts: Sequence[CollectedPart], first: int, last: int) -> _Keys:
    terms = {part.number: [decode_terms(own) for own in part.terms] for part in parts}
    moment = datetime.now(UTC)
    kinds = {(is_clear, said.action, said.holds_at(moment)) for own in terms.values() for is_clear, said in own}
    found: _Keys = {}
    for name in {name for part in parts for name in part.runs}:
        size = key_length(name)
        rows = rows_in_range([part.runs[name] for part in parts if name in part.runs], size + PLACE.size, first, last)
        if len(kinds) == 1 and (True, action := next(iter(kinds))[1], True) in kinds:  # as in most lists
            octet = _ACTIONS[action]
            found[name] = dict.fromkeys([row[:size] + octet for row in rows if row[-4:] != _GUIDE], -1)
            continue
        own = found[name] = {}
        for row in rows:
            part, line, number = PLACE.unpack_from(row, size)
            if number != GUIDE:
                is_clear, said = terms[part][number]
                if said.holds_at(moment):
                    own[row[:size] + _ACTIONS[said.action]] = -1 if is_clear else line
    return found


def _covered(now: Sequence[CollectedPart], before: Sequence[CollectedPart], folder: Path, workers: Workers) -> int:
    """How many old rules in the clear are gone, with a broader one in the clear in their place."""
    target = folder / "now"
    merged = merge_all(now, partial(workers.map, "sorted"), folder)
    with target.open("wb") as file:
        assemble(file, now, merged)
    found = workers.map("covered", partial(_shadowed, path=target), before)
    return len(set[tuple[bytes, Action]]().union(*found))


def _shadowed(part: CollectedPart, path: Path) -> set[tuple[bytes, Action]]:
    """The same for a part: the rules themselves."""
    candidates, _ = unspill(part.candidates)
    index = Index.open(path)
    found = {(value, action) for (value, _, action), _ in find_shadowed(index, part.layer, candidates)}
    rules, _ = index.clear_rules([value for value, _ in found])
    return found - {(value, rule.terms.action) for value, own in rules.items() for rule in own}


# -- line by line ------------------------------------------------------------------------------------------------------

#: of lines that differ, the most that are worth a look of their own; for each, how many of those that both have are
#: looked at with them, and how many at least
_MOST, _TIMES, _LEAST = 1 << 16, 4, 1 << 10


def count_changes(old: Path | None, new: Path) -> tuple[int, int]:
    """How many lines are new, and how many are gone; comments, empty lines and repetitions do not count."""
    added = removed = 0
    for gone, came in differing_lines(old, new, COMPARED):
        added, removed = added + len(came), removed + len(gone)
    return added, removed


def shorten(old: Path, new: Path, folder: Path) -> tuple[Path, Path] | None:
    """Two short files in place of two long ones: the lines that only one has, and some that both have.

    What the short new one loses, it loses of fewer lines than the long one. ``None``: too many lines differ.
    """
    gone, came = set[bytes](), set[bytes]()
    for was, now in differing(old, new, COMPARED):
        gone |= was
        came |= now
        if len(gone) + len(came) > _MOST:
            return None
    number = max(_TIMES * (len(gone) + len(came)), _LEAST)
    with open_regular(old) as file:
        both = list(islice((line for line in map(bytes.strip, file) if line not in gone), number))
    return _written(folder / "before", [*both, *sorted(gone)]), _written(folder / "after", [*both, *sorted(came)])


def _written(path: Path, lines: Iterable[bytes]) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path
