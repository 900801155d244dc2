"""Prefixes that fit a request count only where their server confirms them."""

from __future__ import annotations

from collections.abc import Iterator

from hushlist.core.decide.verdict import Confirmed
from hushlist.core.match.context import Telling
from hushlist.core.match.expressions import full_hash
from hushlist.core.match.rule import ExpressionHash, Rule
from hushlist.core.match.rule_match import Match
from hushlist.core.url.request import WEB, Request
from hushlist.extensions.safe_browsing.confirmations import Confirmations, Question, Verdict
from hushlist.extensions.safe_browsing.threat_lists import ThreatList


def confirmed(
    named: ThreatList, match: Match, request: Request | None, confirmations: Confirmations | None, *, is_settled: bool
) -> Confirmed:
    """What is known of a prefix that fits: ``Confirmer.confirmed``."""
    service, pattern = named.service, match.rule.pattern
    if service.is_google and not _is_of_frame(request):
        return Confirmed()  # Google's terms: what is no page "should not be checked"
    assert isinstance(pattern, ExpressionHash)
    question = Question(service, pattern.value, full_hash(match.expression))
    verdict = None if confirmations is None else confirmations.verdict(question)
    if verdict is not None:
        return Confirmed([*_confirmed(match, named, verdict, request)])
    possible = [*_possible(match, named)]
    if service.blocks_unanswered:
        via = f"nobody has confirmed it, and no-answer is block: {service.server}"
    elif is_settled and confirmations is not None and confirmations.fault(service) is None:
        via = f"it was not asked about in time, as too much was asked: {service.server}"
    else:
        return Confirmed((), (), possible, question)
    return Confirmed(
        (), [unconfirmed._replace(via=via, confirmed_by="") for unconfirmed in possible], possible, question
    )


def _confirmed(match: Match, named: ThreatList, verdict: Verdict, request: Request | None) -> Iterator[Match]:
    """What a verdict makes of a prefix that fits: a match for each threat, of its category.

    As in Chromium, threats count of which the list is that has the prefix.
    """
    (pattern, terms, line), *_ = match
    service = named.service
    for threat in verdict.threats:
        if named.threat not in (None, threat.kind):
            continue
        if not threat.is_frame_only or _is_of_frame(request):
            via = verdict.via(threat, service)
            confirmed_terms = terms._replace(category=service.category_of(threat.kind) or terms.category)
            yield match._replace(rule=Rule(pattern, confirmed_terms, line), via=via, confirmed_by=service.server)


def _possible(match: Match, named: ThreatList) -> Iterator[Match]:
    """A prefix that fits, by each category that a server may give it."""
    yield match
    if named.threat is None:
        terms = match.rule.terms
        for category in dict.fromkeys(category for _, category in named.service.categories):
            if category != terms.category:
                yield match._replace(rule=match.rule._replace(terms=terms._replace(category=category)))


def _is_of_frame(request: Request | None) -> bool:
    """Whether a page or a frame is loaded, as far as the client tells; a connection may be for anything."""
    if request is None:
        return False
    return request.scheme in WEB and Telling(request).said_kind in ("document", "subdocument", "")
