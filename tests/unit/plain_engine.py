"""The engine, slow and obvious: nothing is remembered, nothing is left out because it can make no difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from ipaddress import IPv6Address, ip_address

from hushlist.core.decide.decision import Decision, decide, strictest
from hushlist.core.errors import Excess, UrlError
from hushlist.core.match.checks import Check, CheckedRequest
from hushlist.core.match.index import find_checks
from hushlist.core.match.rule import Action, Anything, ExpressionHash, Rule, Terms
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.groups import NOBODY, Client, Group
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.recurrence import Schedule
from hushlist.core.url.comparison import RedirectMemory, slash_twin
from hushlist.core.url.hashed_uri import HashedUri
from hushlist.core.url.parts import Parts
from hushlist.core.url.request import MOST_HOSTS, Request, canonical_forms, number_of_names, request_of, target_forms
from hushlist.extensions.unblock.grants import Grant
from unit.core.match.plain_index import PlainIndex

#: action, URL, matches, winner, fault, group, grant
DecisionParts = tuple[Action, bytes, tuple[Match, ...], Match | None, str | None, str, Grant | None]


@cache
def next_change(schedule: Schedule, now: datetime) -> datetime | None:
    """Which takes as long as hundreds of decisions."""
    return schedule.next_change(now)


def parts_of(decision: Decision) -> DecisionParts:
    """What a decision tells, however it came by it."""
    found = decision.matches
    return decision.action, decision.url, found, decision.winner, decision.fault, decision.group, decision.grant


def is_in_group(group: Group, client: Client) -> bool:
    """The same as ``Group.fits``, said naively."""
    address = None
    try:
        address = ip_address(client.address.split("%")[0])
        if isinstance(address, IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
    except ValueError:
        pass
    by_network = [address in network for network in group.networks if address is not None]
    return (
        (any(by_network) or not group.networks)
        and (client.user in group.users or not group.users)
        and (client.port in group.ports or not group.ports)
    )


class PlainView:
    """What a policy says for a client at a moment."""

    def __init__(self, policy: Policy, client: Client, now: datetime) -> None:
        self.group = next(group for group in policy.all_groups if is_in_group(group, client))
        self._now = now
        self.layers = [use.name for use in self.group.layers if self._is_on(use.during)] + ["default"]
        self._during = {use.name: use.during for use in self.group.layers}

    def _is_on(self, schedule: Schedule | None) -> bool:
        return schedule is None or schedule.is_on(self._now)

    def _first(self, schedules: Sequence[Schedule | None]) -> datetime | None:
        moments = [next_change(schedule, self._now) for schedule in schedules if schedule is not None]
        return min((moment for moment in moments if moment is not None), default=None)

    def decide(self, matches: Sequence[Match], *, is_first: bool) -> Decision:
        counted = [own for match in matches for own in self._say(match, is_first=is_first)]
        default = self.group.settings.default
        if default is not None:
            action = default.action if self._is_on(default.during) else default.otherwise
            if action in (Action.BLOCK, Action.WARN):
                why = "Only what is allowed passes" + (f" (schedule {default.during.name})" if default.during else "")
                terms = Terms(action, "policy", default.source, reason=why, layer="default")
                counted.append(
                    Match(Rule(Anything(), terms, default.line), b"*", (-2, 0), None, self._first([default.during]))
                )
        return decide(self.layers, counted, self.group.name)

    def _say(self, match: Match, *, is_first: bool) -> Iterator[Match]:
        terms = match.rule.terms
        is_uri = isinstance(match.rule.pattern, HashedUri)
        if terms.layer not in self.layers:
            return
        schedules = [self._during[terms.layer]]
        action, by = terms.action, None
        if terms.category is not None and action in (Action.BLOCK, Action.WARN):
            levels = terms.category.split("/")
            for end in range(len(levels), 2, -1):
                by = self.group.settings.categories.get("/".join(levels[:end]))
                if by is not None:
                    schedules.append(by.during)
                    says = by.action if self._is_on(by.during) else by.otherwise
                    if says is not None:
                        action = says
                        break
                by = None
        if action is Action.ALLOW:
            if by and isinstance(match.rule.pattern, ExpressionHash) and len(match.rule.pattern.value) < 32:
                return
            if is_uri and (not is_first or match.via == "as sent"):
                return
        if action is Action.PASS:
            return
        via = match.via
        if by is not None:
            where = f"category by {by.source}:{by.line}" + (f", schedule {by.during.name}" if by.during else "")
            via = where if via is None else f"{via}, {where}"
        rule = match.rule._replace(terms=terms._replace(action=action))
        yield match._replace(rule=rule, via=via, until=self._first(schedules))


def covering(
    grants: Sequence[Grant], client: Client, host: bytes, url: bytes, match: Match, now: datetime
) -> Grant | None:
    """The grant that covers what a match stops, said naively."""
    terms = match.rule.terms
    fits = []
    for grant in grants:
        target = grant.target.encode()
        for_host = host == target or (b"." in target and not host[-1:].isdigit() and host.endswith(b"." + target))
        in_category = terms.category is not None and (terms.category + "/").startswith(grant.target + "/")
        if (
            {"host": for_host, "url": url == target, "category": in_category}[grant.scope]
            and (grant.client is None or grant.client in client.names)
            and grant.until > now.timestamp()
            and (grant.how != "warning" or terms.action is Action.WARN)
        ):
            fits.append(grant)
    return max(fits, key=lambda grant: (grant.until, -grant.id), default=None)


class PlainEngine:
    """Decides as ``hushlist.core.decide.engine.Engine`` is to decide."""

    def __init__(
        self,
        policy: Policy,
        rules: Sequence[Rule],
        redirect_memory: RedirectMemory | None = None,
        grants: Sequence[Grant] = (),
    ) -> None:
        self._policy = policy
        self._unparsable = policy.unparsable
        self._checks = [rule for layer in policy.layers for rule in layer.checks]
        self._index = PlainIndex(rules)
        self._redirect_memory = redirect_memory or RedirectMemory()
        self._grants = grants

    def decide_url(self, url: bytes, now: datetime, client: Client = NOBODY) -> Decision:
        try:
            return self.decide(request_of(url), now, client)
        except UrlError as error:
            return Decision(self._unparsable, url, fault=error.reason)

    def decide(self, request: Request, now: datetime, client: Client = NOBODY) -> Decision:
        hosts = list(dict.fromkeys(request.hosts))
        view = PlainView(self._policy, client, now)
        forms = target_forms(request.scheme, request.target, number_of_names(hosts))
        faults = [self._fault(request, wrong) for wrong in (request.fault, forms.fault) if wrong is not None]
        if not hosts:
            faults.insert(0, self._fault(request, "the request goes by no host"))
        if len(hosts) > MOST_HOSTS:
            faults.insert(0, self._fault(request, Excess(f"the request goes by more than {MOST_HOSTS} hosts")))
        is_stopped = any(fault.action is Action.BLOCK for fault in faults)
        decisions: list[Decision] = []
        for decision in (own for host in hosts[:MOST_HOSTS] for own in self._by_host(view, request, host, now, client)):
            decisions.append(decision)
            has_reason = decision.fault is not None or decision.winner is not None
            if is_stopped or (decision.action is Action.BLOCK and has_reason):
                break
        return strictest([*decisions, *faults])

    def _fault(self, request: Request, fault: str) -> Decision:
        return Decision(Action.BLOCK if isinstance(fault, Excess) else self._unparsable, request.url, fault=fault)

    def _by_host(
        self, view: PlainView, request: Request, host: bytes, now: datetime, client: Client
    ) -> Iterator[Decision]:
        try:
            forms = canonical_forms(request, host)
        except UrlError as error:
            yield self._fault(request, error.reason)
            return
        for place, form in enumerate(forms):
            found = self._matches(request, host, form, is_first=place == 0)
            holding = [match for match in found if match.rule.terms.holds_at(now.astimezone(UTC))]
            decision = view.decide(holding, is_first=place == 0)._replace(canonical=form.join())
            yield self._apply_grants(view, decision, form.host or b"", now, client)

    def _apply_grants(
        self, view: PlainView, decision: Decision, host: bytes, now: datetime, client: Client
    ) -> Decision:
        """What the decision is where all that grants cover is taken away, one match after the other."""
        rest, first = list(decision.matches), None
        while True:
            asked = decide(view.layers, rest)
            if asked.action not in (Action.BLOCK, Action.WARN):
                break
            assert asked.winner is not None
            if first is not None and isinstance(asked.winner.rule.pattern, Anything):
                break
            grant = covering(self._grants, client, host, decision.url, asked.winner, now)
            if grant is None or isinstance(asked.winner.rule.pattern, Check):
                return decision._replace(action=asked.action, winner=asked.winner)
            first = first or grant
            if asked.action is Action.WARN:
                break
            rest = [match for match in rest if match is not asked.winner]
        return decision if first is None else decision._replace(action=Action.ALLOW, grant=first)

    def _matches(self, request: Request, host: bytes, form: Parts, *, is_first: bool) -> Iterator[Match]:
        port = str(request.port).encode()
        own = [*self._index.find(form), *(self._index.find_urls(request.url_by(host)) if is_first else ())]
        uris, asked_uris = [form._replace(port=port, fragment=request.fragment)], list[Parts]()
        if is_first:
            path, mark, query = request.target.partition(b"?")
            asked = Parts(request.scheme, None, host, port, path, query if mark else None, request.fragment)
            asked_uris = [asked, asked._replace(host=form.host)]
        if request.userinfo is not None:
            uris += [uri._replace(userinfo=request.userinfo) for uri in uris]
            asked_uris += [uri._replace(userinfo=request.userinfo) for uri in asked_uris]
        uris += asked_uris
        has_default = request.port == {b"http": 80, b"https": 443}.get(request.scheme.lower())
        sent = [uri._replace(port=None if has_default else port) for uri in asked_uris]
        own += self._index.find_uris(uris, sent)
        if is_first:
            sent = (request.scheme, host, request.port, request.target, request.userinfo)
            raw = CheckedRequest(*sent, request.media, request.hosts)
            own += find_checks(self._checks, raw)
        yield from own
        twin = slash_twin(form.path)
        origin = request.scheme, form.host or b"", request.port
        if twin is not None and self._redirect_memory.knows(origin, form.path):
            rules = {match.rule for match in own}
            via = "rung protocol: its origin redirects between this path with and without a trailing slash"
            other = form._replace(path=twin)
            twins = [*self._index.find(other)]
            twins += self._index.find_uris([other._replace(port=port, fragment=request.fragment)])
            yield from (match._replace(via=via) for match in twins if match.rule not in rules)
