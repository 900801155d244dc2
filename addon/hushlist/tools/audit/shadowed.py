"""Rules in the clear that a broader rule makes redundant."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import compress, repeat
from operator import add, itemgetter, mul
from pathlib import Path
from typing import NamedTuple

from hushlist.core.match.index import Index
from hushlist.core.match.rule import FINAL, Action, Expression, Rule
from hushlist.core.match.rule_match import Match
from hushlist.core.match.sorted_runs import Stored, spill
from hushlist.core.url.host import is_address

#: candidates in one batch, and the most octets of all that may be broader than they
_AT_ONCE = 1 << 12
MOST_OCTETS = 1 << 24
#: candidates that are in memory until they are stored
MOST_IN_MEMORY = 1 << 17


class Candidates(NamedTuple):
    """Rules in the clear that broader ones may cover, in the order of a list: expressions and lines."""

    action: Action
    category: str | None
    expressions: list[bytes]
    lines: list[int]


class Shadowed(NamedTuple):
    """A rule that is covered."""

    expression: bytes
    line: int
    action: Action


def store_candidates(rules: Iterable[Rule], stored: list[Stored], folder: Path | None) -> Iterator[Rule]:
    """The rules; when all were taken, ``stored`` has lists of their candidates, in files of the folder."""
    candidates, count = list[Candidates](), 0
    for rule in rules:
        pattern, terms, line = rule
        if isinstance(pattern, Expression) and _is_below_domain(pattern.value):
            if not candidates or candidates[-1][:2] != (terms.action, terms.category):
                candidates.append(Candidates(terms.action, terms.category, [], []))
            candidates[-1].expressions.append(pattern.value)
            candidates[-1].lines.append(line)
            count += 1
            if count == MOST_IN_MEMORY:
                stored.append(spill(candidates, folder))
                candidates, count = [], 0
        yield rule
    stored.append(spill(candidates, folder))


def _is_below_domain(expression: bytes) -> bool:
    """Whether it has a path, or a host of three labels.

    >>> [_is_below_domain(value) for value in (b"h.example/", b"www.h.example/", b"h.example/a")]
    [False, True, True]
    """
    return expression.find(b"/") + 1 < len(expression) or expression.count(b".") > 1


def find_shadowed(index: Index, layer: str, candidates: Iterable[Candidates]) -> Iterator[tuple[Shadowed, Match]]:
    """The covered candidates of a layer, each with the rule that covers it.

    That is the next broader final rule in the clear of the same layer, if it has the same action and category and is
    lasting: a policy may treat different categories differently. If the layer's rules have different actions, a rule
    between the two may act differently. Then a candidate is covered only if there is certainly no such rule.
    """
    is_mixed = layer in index.directory.mixed
    for action, category, expressions, lines in candidates:
        for start in range(0, len(expressions), _AT_ONCE):
            some = expressions[start : start + _AT_ONCE]
            covers, unforked = _covers_of(index, layer, some, is_mixed=is_mixed)
            doubted = is_mixed and covers and _doubted(index, layer, action, covers, unforked)
            rows = zip(some, lines[start : start + _AT_ONCE], strict=True)
            for expression, line in compress(rows, map(covers.__contains__, some)) if covers else ():
                cover = covers[expression]
                terms = cover.rule.terms
                if terms.action is not action or terms.category != category:
                    continue
                shadowed = Shadowed(expression, line, action)
                if not (doubted and expression in doubted and _may_differ(index, layer, shadowed, cover)):
                    yield shadowed, cover


def _doubted(
    index: Index, layer: str, action: Action, covers: Collection[bytes], unforked: Container[bytes]
) -> set[bytes]:
    """Those of the covered expressions at which, or above which, there may be rules with another action.

    Above others there is no path and, if no rule is a hash, nothing but their cover.
    """
    if index.directory.has_hashes:
        return set(covers)
    rules, _ = index.clear_rules([value for value in covers if value in unforked])
    return {
        value
        for value in covers
        if value not in unforked
        or any(
            rule.terms.layer == layer and rule.terms.action in FINAL and rule.terms.action is not action
            for rule in rules[value]
        )
    }


def _covers_of(
    index: Index, layer: str, expressions: Sequence[bytes], *, is_mixed: bool
) -> tuple[dict[bytes, Match], set[bytes]]:
    """For each expression that has one: the next broader final rule in the clear of a layer, unless that expires.

    Where that is ``is_mixed``, also the whole hosts without guides from their parent domain up to that rule.
    """
    hosts, paths = expressions, list[bytes]()
    joined = b"\n".join(expressions) + b"\n"
    if not joined.count(b"/\n") == joined.count(b"/") == len(expressions):
        paths = [value for value in expressions if value.find(b"/") + 1 < len(value)]
        hosts = [value for value in expressions if value.find(b"/") + 1 == len(value)]
    half = len(expressions) // 2
    if half and _octets_above(hosts, paths) > MOST_OCTETS:
        first, second = (
            _covers_of(index, layer, part, is_mixed=is_mixed) for part in (expressions[:half], expressions[half:])
        )
        return first[0] | second[0], first[1] | second[1]
    if not _DIGITS.isdisjoint(map(itemgetter(-2), hosts)):  # nothing is above an address
        hosts = [value for value in hosts if not (value[-2] in _DIGITS and _ADDRESS.fullmatch(value))]
    above = [value.partition(b".")[2] for value in hosts]
    folders = [_folder(value) for value in paths]
    names = {name for name in set(above) if b"." in name}.union(folders)
    #: name -> what is next above it, where that can be a rule
    parents: dict[bytes, bytes] = {}
    every, new = set(names), names
    while new:
        parents_of_new = _parents(new)
        parents |= parents_of_new
        new = set(parents_of_new.values()).difference(every)
        every |= new
    rules, guided = index.clear_rules([*every])
    deciding = dict(_deciding(rules, layer))
    nearest = deciding.copy()
    #: names above which, up to the next rule, a host has a guide: there may be paths between
    forked: set[bytes] = set()
    for name in sorted(parents.keys() - deciding.keys(), key=len) if deciding or paths else ():  # parents come first
        parent = parents[name]
        nearest[name] = nearest.get(parent)
        if parent in forked or (parent in guided and name.find(b"/") == len(name) - 1):
            forked.add(name)
    covers = {
        value: cover
        for value, name in zip([*hosts, *paths], above + folders, strict=True)
        if (cover := nearest.get(name))
    }
    forks = [value for value, name in zip(paths, folders, strict=True) if name in forked]
    chains = [(value, _broader(value, parents, deciding, guided)) for value in forks]
    if chains:
        rules, _ = index.clear_rules([*{value for _, chain in chains for value in chain}.difference(every)])
        deciding.update(_deciding(rules, layer))
    for value, chain in chains:
        covers.pop(value, None)
        if cover := next((deciding[broader] for broader in chain if broader in deciding), None):
            covers[value] = cover
    behind = zip(hosts, above, strict=True) if is_mixed else ()
    return covers, {value for value, name in behind if not (name in guided or name in forked)}


def _octets_above(hosts: Sequence[bytes], paths: Sequence[bytes]) -> int:
    """More octets than all expressions above these have; hostile lists have deep hosts and deep paths."""
    labels = map(add, map(bytes.count, paths, repeat(b".")), repeat(1))
    of_paths: int = sum(map(mul, map(len, paths), map(mul, labels, map(bytes.count, paths, repeat(b"/")))))
    return max(map(len, hosts), default=0) * (b"".join(hosts).count(b".") + len(hosts)) + of_paths


def _folder(expression: bytes) -> bytes:
    """What is next above an expression with a path, of the same host.

    >>> _folder(b"h.example/a/b?q/"), _folder(b"h.example/a/b/"), _folder(b"h.example/a/")
    (b'h.example/a/b', b'h.example/a/', b'h.example/')
    """
    page, mark, _ = expression.partition(b"?")
    return page if mark else page[: page.rfind(b"/", 0, -1) + 1]


def _parents(names: Iterable[bytes]) -> dict[bytes, bytes]:
    """What is next above each: a page, a folder, or the parent domain if that has two labels; others are left out.

    >>> _parents([b"h.example/a", b"a.h.example/", b"h.example/", b"1.2.3.4/"])
    {b'h.example/a': b'h.example/', b'a.h.example/': b'h.example/'}
    """
    parents: dict[bytes, bytes] = {}
    for name in names:
        if name.find(b"/") + 1 < len(name):
            parents[name] = _folder(name)
        elif name.count(b".") > 1 and not (name[-2] in _DIGITS and _is_address(name)):
            parents[name] = name.partition(b".")[2]
    return parents


def _is_address(host: bytes) -> bool:
    return bool(_ADDRESS.fullmatch(host)) or is_address(host[:-1])


_DIGITS = frozenset(b"0123456789")
#: nearly every address in a list
_ADDRESS = re.compile(rb"(?:(?:1[0-9]?|2[0-4]?|[3-9])?[0-9]\.){3}(?:1[0-9]?|2[0-4]?|[3-9])?[0-9]/")


def _broader(
    expression: bytes, parents: Mapping[bytes, bytes], rules: Container[bytes], guided: Container[bytes]
) -> list[bytes]:
    """The expressions above one with a path, the most specific first, up to the first host that is known.

    >>> _broader(b"h.example/a/b?q", {b"h.example/": b""}, (), ())
    [b'h.example/a/b', b'h.example/a/', b'h.example/']
    """
    end = expression.find(b"/")
    host, paths = expression[: end + 1], [expression[end:]]
    while paths[-1] != b"/":
        paths.append(_folder(paths[-1]))
    broader = [host[:-1] + path for path in paths[1:]]
    if paths[0] == paths[1] + b"?":  # "an empty query gives no expression of its own"
        del paths[0]
    while host not in rules and (host := parents.get(host, b"")):
        broader += [host[:-1] + path for path in (paths if host in guided else paths[-1:])]
    return broader


def _deciding(rules: Mapping[bytes, Iterable[Rule]], layer: str) -> Iterator[tuple[bytes, Match | None]]:
    """For each expression with final rules of a layer: the one that decides; ``None`` if it does not always."""
    for expression, rules_of_expression in rules.items():
        final = [rule for rule in rules_of_expression if rule.terms.layer == layer and rule.terms.action in FINAL]
        if final:
            rule = max(final, key=lambda rule: FINAL[rule.terms.action])
            host = expression.index(b"/")
            match = Match(rule, expression, (host, len(expression) - host))
            yield expression, match if rule.terms.is_lasting else None


def _may_differ(index: Index, layer: str, candidate: Shadowed, cover: Match) -> bool:
    """Whether some request that the candidate fits may get another action without it.

    The cause would be a rule at the same expression, or between it and the cover: a hash, or a rule for a path below a
    host between theirs. The index says only that there may be such paths.
    """
    expression, _, action = candidate
    name, _, path = expression.partition(b"/")
    host = index.on_host(name)
    page, mark, query = path.partition(b"?")
    matches = [*host.matches, *(index.find_paths(host, b"/" + page, query if mark else None) if path else ())]
    for match in matches:
        terms = match.rule.terms
        is_final = terms.layer == layer and terms.action in FINAL
        if is_final and terms.action is not action and _precedence(match) > _precedence(cover):
            return True
    end_of_host, least = expression.index(b"/"), cover.expression.index(b"/")
    return any(least <= len(suffix) < end_of_host for suffix in host.suffixes)


def _precedence(match: Match) -> tuple[tuple[int, int], int]:
    return match.specificity, FINAL[match.rule.terms.action]
