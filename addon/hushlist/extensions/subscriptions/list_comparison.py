"""Compares a list with what it was before: how many of its rules it loses and takes back, and what it newly covers.

    read both -> compare the rules of each range of keys -> where many are lost: do broader ones stand in their place?

A rule is lost if no rule of the new list has its pattern and its action, or covers it. One that has expired is none. A
new exception, rule that allows, or ``badfilter`` takes rules back: it counts as one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import NamedTuple

from hushlist.core.compile.list_chunks import ChunkedList, LoadedChunk, collect_rules, read_lists
from hushlist.core.compile.worker_processes import Workers
from hushlist.core.match.index_file import decode_terms
from hushlist.core.match.overbroad import BreadthTest, breadth_test
from hushlist.core.match.rule import Action, Expression, Rule, RuleBlock
from hushlist.core.match.rule_collector import CollectedPart
from hushlist.core.match.sorted_runs import unspill
from hushlist.extensions.adblock.network_filter import NetworkFilter
from hushlist.extensions.subscriptions import rule_comparison
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
    sides = before, now = _Side([], [], set()), _Side([], [], set())
    collect = partial(_collect, popular=kinds.popular, folder=folder)
    for at, (part, rules, badfilters) in read_lists([old, new], workers, collect):
        sides[at].parts.append(part)
        sides[at].broad.extend(rules)
        sides[at].badfilters.update(badfilters)
    if new.report.errors:
        return None
    parts = [*before.parts, *now.parts]
    moment = datetime.now(UTC)
    states = rule_comparison.TwoStates.of(
        parts, len(before.parts), lambda _, terms: terms.action if terms.holds_at(moment) else None
    )
    compared, came, suspects = (
        list[rule_comparison.Compared](),
        Counter[tuple[int, int]](),
        list[tuple[rule_comparison.RulePlace, bytes]](),
    )
    compare = partial(_compare, states=states, popular=kinds.popular, folder=folder)
    for of_range, new_ones, hashed in workers.map("compared", compare, rule_comparison.ranges_of(parts)):
        compared.append(of_range)
        came += new_ones
        suspects += hashed
    counts = sum((of_range.counts for of_range in compared), Counter[rule_comparison.ChangeKind]())
    of_old, of_new = sum(of_range.old for of_range in compared), sum(of_range.new for of_range in compared)
    lost, opened = counts[rule_comparison.ChangeKind.REMOVED] + counts[rule_comparison.ChangeKind.CHANGED], 0
    terms = [[decode_terms(octets) for octets in part.terms] for part in parts]
    if new.file.defaults.action is not Action.ALLOW:
        opened = sum(number for (part, index), number in came.items() if terms[part][index][1].action is Action.ALLOW)
        opened += len(now.badfilters - before.badfilters)
    if of_new and (lost + opened) * 100 > most_lost * of_old:
        lost -= _covered(compared, parts, rule_comparison.sources_of([old, new]), len(before.parts), folder, workers)
    breadth = breadth_test(kinds.popular)
    broad = [
        BroadRule(place.line, f"sha256:{place.key.hex()}", f"the hash of {expression.decode()}: {why}")
        for place, expression in suspects
        if not terms[place.part][place.terms][0] and (why := kinds.why(breadth, expression))
    ]
    broad = sorted([*broad, *_newly_broad(now.broad, before.broad, kinds)])
    action = new.file.defaults.action or Action.BLOCK
    effect = effect_of_parts(before.parts, action), effect_of_parts(now.parts, action)
    return ListChange(of_old, of_new, lost, broad[:_MOST_BROAD], opened, *effect)


def _compare(
    keys: tuple[int, int], states: rule_comparison.TwoStates, popular: tuple[bytes, ...], folder: Path
) -> tuple[rule_comparison.Compared, Counter[tuple[int, int]], list[tuple[rule_comparison.RulePlace, bytes]]]:
    """Compare rules; also how many are new, by part and terms, and those that may be the hashes of broad ones."""
    compared, breadth = rule_comparison.compare_rules(keys, states, folder), breadth_test(popular)
    new = [place for place, kind, _ in unspill(compared.events) if kind is not rule_comparison.ChangeKind.REMOVED]
    hashes = ((place, breadth.hashed(place.key)) for place in new if rule_comparison.is_of_hashes(place.table))
    suspects = [(place, expression) for place, expression in hashes if expression]
    return compared, Counter((place.part, place.terms) for place in new), suspects


def _covered(
    compared: Iterable[rule_comparison.Compared],
    parts: Sequence[CollectedPart],
    sources: Sequence[rule_comparison.PartSource],
    border: int,
    folder: Path,
    workers: Workers,
) -> int:
    """How many rules are lost, with a broader one in their place."""
    lost: rule_comparison.SpillByPart[rule_comparison.RulePlace] = rule_comparison.SpillByPart(folder)
    for of_range in compared:
        for place, kind, old in unspill(of_range.events):
            if gone := place if kind is rule_comparison.ChangeKind.REMOVED else old:
                lost.add(gone.part, gone)
    grain = rule_comparison.grain_of(parts[border:])
    tasks = (
        rule_comparison.ReachTask(
            part, source, *((sorted(lost.of(part.number)), grain) if part.number < border else (None, None))
        )
        for part, source in zip(parts, sources, strict=True)
    )
    return len({covered for covered, *_ in rule_comparison.find_covers(tasks, border, folder, workers)})


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
    old = {(rule.pattern, rule.terms.action) for rule in before}
    breadth = breadth_test(kinds.popular)
    for rule in now:
        pattern, why = rule.pattern, None
        if isinstance(pattern, Expression):
            why = kinds.why(breadth, pattern.value)
        elif isinstance(pattern, NetworkFilter):
            is_asked = kinds.suffixes or breadth.is_popular(pattern.host + b"/")
            why = pattern.why_broad(breadth) if is_asked else None
        elif isinstance(pattern, IPv4Network | IPv6Network) and kinds.suffixes:
            why = breadth.of_range(pattern)
        if why and (pattern, rule.terms.action) not in old:
            yield BroadRule(rule.line, str(pattern), why)
