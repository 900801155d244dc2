"""The engine, slow and obvious: nothing is remembered, nothing is left out because it can make no difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from hushlist.engine import MOST_HOSTS
from hushlist.errors import UrlError
from hushlist.match.checks import Asked
from hushlist.match.index import Match, find_checks
from hushlist.match.learned import Learned
from hushlist.match.rule import Action, Rule
from hushlist.policy.decision import Decision, decide, strictest
from hushlist.policy.policy import Policy
from hushlist.url.parts import Parts
from hushlist.url.protocol import slash_twin
from hushlist.url.request import Request, canonical_forms, request_of
from unit.match.plain_index import PlainIndex

#: action, URL, matches, winner, fault
Told = tuple[Action, bytes, tuple[Match, ...], Match | None, str | None]


def told(decision: Decision) -> Told:
    """What a decision tells, however it came by it."""
    return decision.action, decision.url, decision.matches, decision.winner, decision.fault


class PlainEngine:
    """Decides as ``hushlist.engine.Engine`` is to decide."""

    def __init__(self, policy: Policy, rules: Sequence[Rule], learned: Learned | None = None) -> None:
        self._unparsable = policy.unparsable
        self._layers = [layer.name for layer in policy.layers]
        self._checks = [rule for layer in policy.layers for rule in layer.checks]
        self._index = PlainIndex(rules)
        self._learned = learned or Learned()

    def decide_url(self, url: bytes, now: datetime) -> Decision:
        try:
            return self.decide(request_of(url), now)
        except UrlError as error:
            return Decision(self._unparsable, url, fault=error.reason)

    def decide(self, request: Request, now: datetime) -> Decision:
        hosts = list(dict.fromkeys(request.hosts))
        decisions = [decision for host in hosts[:MOST_HOSTS] for decision in self._by_host(request, host, now)]
        if not 0 < len(hosts) <= MOST_HOSTS:
            decisions.append(self._fault(request, f"the request goes by {len(hosts)} hosts"))
        if request.fault is not None:
            decisions.append(self._fault(request, request.fault))
        return strictest(decisions)

    def _fault(self, request: Request, fault: str) -> Decision:
        return Decision(self._unparsable, request.url, fault=fault)

    def _by_host(self, request: Request, host: bytes, now: datetime) -> Iterator[Decision]:
        try:
            forms = canonical_forms(request, host)
        except UrlError as error:
            yield self._fault(request, error.reason)
            return
        for place, form in enumerate(forms):
            found = self._matches(request, host, form, is_first=place == 0)
            holding = [match for match in found if match.rule.terms.holds_at(now)]
            yield decide(self._layers, holding)._replace(canonical=form.join())

    def _matches(self, request: Request, host: bytes, form: Parts, *, is_first: bool) -> Iterator[Match]:
        port = str(request.port).encode()
        own = [*self._index.find(form)]
        uris = [form._replace(port=port, fragment=request.fragment)]
        if is_first:
            path, mark, query = request.target.partition(b"?")
            asked = Parts(request.scheme, None, host, port, path, query if mark else None, request.fragment)
            uris += [asked, asked._replace(host=form.host)]
        found = self._index.find_uris(uris)
        own += [match for match in found if is_first or match.rule.terms.action is not Action.ALLOW]
        if is_first:
            raw = Asked(request.scheme, host, request.port, request.target, request.userinfo)
            own += find_checks(self._checks, raw)
        yield from own
        twin = slash_twin(form.path)
        origin = request.scheme, form.host or b"", request.port
        if twin is not None and self._learned.knows(origin, form.path):
            rules = {match.rule for match in own}
            via = "rung protocol: its origin redirects between this path with and without a trailing slash"
            twins = self._index.find(form._replace(path=twin))
            yield from (match._replace(via=via) for match in twins if match.rule not in rules)
