"""What extensions do with a request that is let through, or with its answer, by facts (``core/extension.py:Fact``)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from hushlist.core.decide.decision import STOPPING, Decision, Judgement
from hushlist.core.decide.engine import Engine
from hushlist.core.extension import Explained, extensions_named, load
from hushlist.core.policy.groups import Client
from hushlist.core.url.request import Request


class DecidedByFacts(NamedTuple):
    """A decision after its facts."""

    decision: Decision
    #: for people
    lines: tuple[str, ...] = ()
    #: what it depends on besides, of which no fact says anything
    doubts: tuple[str, ...] = ()
    #: what is changed, by which rule
    changes: tuple[str, ...] = ()


def decide_by_facts(
    engine: Engine, request: Request, decision: Decision, moment: datetime, client: Client, facts: Mapping[str, str]
) -> DecidedByFacts:
    """The decision for a request that can be read, once extensions have looked at the facts.

    Raises:
        HushlistError: a fact cannot be looked at.
    """
    if decision.action in STOPPING:
        line = "Not asked    the request itself is stopped, so that no file or answer is looked at"
        return DecidedByFacts(decision, (line,))
    judgement = Judgement(request, client, engine.group(client).settings, decision, duration=0)
    lines, doubts, changes = list[str](), list[str](), list[str]()
    for extension in extensions_named(engine.policy.extensions):
        if not extension.explainer or all(fact.name not in facts for fact in extension.facts):
            continue
        said: Explained = load(extension.explainer)(engine, judgement, moment, facts)
        lines += said.lines
        doubts += said.doubts
        changes += said.changes
        if said.match is not None:
            action, matches = said.match.rule.terms.action, (said.match, *decision.matches)
            decision = Decision(action, decision.url, matches, said.match, group=decision.group)
            if action in STOPPING:
                break
    return DecidedByFacts(decision, tuple(lines), tuple(doubts), tuple(changes))
