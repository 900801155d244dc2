"""Prefixes that fit a request count only where somebody confirms them.

``decide_confirmed`` decides by what is known, and never waits. ``ConfirmingEngine`` asks, and waits for answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from hushlist.core.decide.decision import Decision, EffectivePolicy
from hushlist.core.decide.engine import Engine
from hushlist.core.match.context import Telling
from hushlist.core.match.expressions import full_hash
from hushlist.core.match.rule import ExpressionHash, Rule
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.groups import NOBODY, Client, Group
from hushlist.core.url.path_interpretations import FormBudget
from hushlist.core.url.request import WEB, Request, Told, request_of
from hushlist.extensions.safe_browsing.confirmations import Confirmations, Question, Verdict
from hushlist.extensions.safe_browsing.threat_lists import ThreatList

#: a request, a URL with what is told of it, or ``None`` for a connection
RequestOrUrl = Request | tuple[bytes, Told | None] | None


def decide_confirmed(
    view: EffectivePolicy,
    found: Iterable[Match],
    asked: RequestOrUrl,
    confirmers: Mapping[str, ThreatList],
    confirmations: Confirmations | None,
    *,
    is_settled: bool,
) -> Decision:
    """The decision where prefixes fit: those count that are confirmed, and others as the policy says for no answer.

    ``confirmers``: by the name that rules have for it, who confirms them. ``is_settled``: all was asked that is needed.
    Where what is not known could change nothing, nobody has to be asked.
    """
    sure, assumed, doubtful, questions = list[Match](), list[Match](), list[Match](), list[Question]()
    for match in found:
        named = confirmers.get(match.rule.terms.confirmer)
        if named is None:
            sure.append(match)
            continue
        service = named.service
        if service.is_google and not _is_of_frame(asked):
            continue  # Google's terms: what is no page "should not be checked"
        assert isinstance(match.rule.pattern, ExpressionHash)
        question = Question(service, match.rule.pattern.value, full_hash(match.expression))
        verdict = None if confirmations is None else confirmations.verdict(question)
        if verdict is not None:
            sure += _confirmed(match, named, verdict, asked)
            continue
        questions.append(question)
        doubtful += (possible := [*_possible(match, named)])
        if service.blocks_unanswered:
            via = f"nobody has confirmed it, and no-answer is block: {service.server}"
        elif is_settled and confirmations is not None and confirmations.fault(service) is None:
            via = f"it was not asked about in time, as too much was asked: {service.server}"
        else:
            continue
        assumed += (own._replace(via=via, confirmed_by="") for own in possible)
    decision = view.decide([*sure, *assumed])
    if doubtful and view.decide([*sure, *doubtful]).winner != view.decide(sure).winner:
        return decision._replace(unconfirmed=tuple(questions))
    return decision


def _confirmed(match: Match, named: ThreatList, verdict: Verdict, asked: RequestOrUrl) -> Iterator[Match]:
    """What a verdict makes of a prefix that fits: a match for each threat, of its category.

    As in Chromium, threats count of which the list is that has the prefix.
    """
    (pattern, terms, line), *_ = match
    service = named.service
    for threat in verdict.threats:
        if named.threat not in (None, threat.kind):
            continue
        if not threat.is_frame_only or _is_of_frame(asked):
            told = verdict.told(threat, service)
            own = replace(terms, category=service.category_of(threat.kind) or terms.category)
            yield match._replace(rule=Rule(pattern, own, line), via=told, confirmed_by=service.server)


def _possible(match: Match, named: ThreatList) -> Iterator[Match]:
    """A prefix that fits, by each category that a server may give it."""
    yield match
    if named.threat is None:
        terms = match.rule.terms
        for category in dict.fromkeys(category for _, category in named.service.categories):
            if category != terms.category:
                yield match._replace(rule=match.rule._replace(terms=replace(terms, category=category)))


def _is_of_frame(asked: RequestOrUrl) -> bool:
    """Whether a page or a frame is loaded, as far as the client tells; a connection may be for anything."""
    if asked is None:
        return False
    request = asked if isinstance(asked, Request) else request_of(*asked)
    return request.scheme in WEB and Telling(request).said_kind in ("document", "subdocument", "")


class ConfirmingEngine(Engine):
    """An engine that asks whoever has to confirm a prefix, and waits: for commands and helpers, never for a proxy."""

    def decide(
        self,
        request: Request,
        now: datetime | None = None,
        client: Client = NOBODY,
        group: Group | None = None,
        budget: FormBudget | None = None,
    ) -> Decision:
        """As ``Engine.decide``, but it waits for answers."""
        return self._decide(Engine.decide, request, now, client, group, budget)

    def decide_host(
        self, request: Request, now: datetime | None = None, client: Client = NOBODY, group: Group | None = None
    ) -> Decision:
        """As ``Engine.decide_host``, but it waits for answers."""
        return self._decide(Engine.decide_host, request, now, client, group)

    def decide_url(
        self, url: bytes, now: datetime | None = None, client: Client = NOBODY, told: Told | None = None
    ) -> Decision:
        """As ``Engine.decide_url``, but it waits for answers."""
        return self._decide(Engine.decide_url, url, now, client, told)

    def _decide(self, decide: Callable[..., Decision], *asked: object) -> Decision:
        decision = decide(self, *asked)
        if decision.unconfirmed and self.confirmations is not None and not self._is_settled:
            self.confirmations.ask(decision.unconfirmed)
            decision = decide(self.settled, *asked)
        return decision
