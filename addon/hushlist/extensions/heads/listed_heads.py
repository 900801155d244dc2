"""Filters about heads of Adblock lists (``adblock/head_options.py``), as rules for heads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from hushlist.core.decide.decision import Decision
from hushlist.core.match.rule import Action
from hushlist.core.match.rule_match import Match
from hushlist.core.url.header_names import as_read
from hushlist.extensions.adblock.head_options import SILENT, Cookies, HeadEffect, value_test
from hushlist.extensions.adblock.network_filter import NetworkFilter
from hushlist.extensions.heads.head_rules import HeadRule


class ListedHead(NamedTuple):
    """A filter about heads that fits a request."""

    match: Match
    filter: NetworkFilter
    effect: HeadEffect
    #: the exception that lifts it; ``None``: it holds
    lifted_by: Match | None = None

    def is_lifted_by(self, other: ListedHead) -> bool:
        """Whether an exception of the same layer lifts it."""
        is_of_layer = other.match.rule.terms.layer == self.match.rule.terms.layer
        is_above = other.filter.is_important or not self.filter.is_important
        return is_of_layer and is_above and self.effect.is_lifted_by(other.effect)


def listed_heads(decision: Decision) -> list[ListedHead]:
    """The filters about heads that fit a request, no exceptions; none behind the rule that allows it."""
    matches: Iterable[Match] = decision.matches
    if decision.action is Action.ALLOW and decision.winner in decision.matches:
        matches = decision.matches[: decision.matches.index(decision.winner)]
    # a filter may fit several names and readings of one request
    by_rule = {match.rule: match for match in reversed([*matches])}
    every = [
        ListedHead(match, pattern, pattern.head)
        for match in reversed(by_rule.values())
        if isinstance(pattern := match.rule.pattern, NetworkFilter) and pattern.head is not None
    ]
    return [
        head._replace(lifted_by=next((other.match for other in every if head.is_lifted_by(other)), None))
        for head in every
        if not head.effect.lifts
    ]


def listed_rules(decision: Decision) -> Iterator[HeadRule]:
    """The filters about heads that hold for a request, as rules."""
    if not decision.matches:
        return
    for head in listed_heads(decision):
        if head.lifted_by is None:
            yield from rules_of(head, _spared(head, decision))


def _spared(head: ListedHead, decision: Decision) -> tuple[Cookies, ...]:
    """The cookies that exceptions of the same layer name, which no filter for other cookies touches."""
    if head.effect.option != "cookie" or head.filter.is_important:
        return ()
    layer = head.match.rule.terms.layer
    effects = (
        match.rule.pattern.head
        for match in decision.matches
        if isinstance(match.rule.pattern, NetworkFilter) and match.rule.terms.layer == layer
    )
    return tuple(Cookies.of(each.value) for each in effects if each and each.lifts and each.option == "cookie")


def rules_of(head: ListedHead, spared: tuple[Cookies, ...] = ()) -> Iterator[HeadRule]:
    """The rules that a filter means."""
    terms, (option, value, _, header) = head.match.rule.terms, head.effect
    name, colon, text = header.partition(":")
    rule = HeadRule(
        terms.source,
        head.match.rule.line,
        has=as_read(name.encode()),
        value=value_test(text) if colon and text else None,
        listed=head.match,
    )
    if option == "header":
        yield replace(rule, blocks=True)
    elif option == "removeheader":
        way = "request" if value.startswith("request:") else "answer"
        yield replace(rule, way=way, remove=frozenset({as_read(value.removeprefix("request:").encode())}))
    elif option == "cookie":
        for way in ("request", "answer"):
            yield replace(rule, way=way, cookies=Cookies.of(value), spared=spared)
    elif option == "referrerpolicy":
        pair = ("Referrer-Policy", value)
        yield replace(rule, set=(pair,)) if value in SILENT else replace(rule, before=(pair,))
    else:
        field = "Content-Security-Policy" if option == "csp" else "Permissions-Policy"
        yield replace(rule, add=((field, value),))
