"""The engine decides every request. The proxy, the command line and the audits all call it.

    request -> names x path interpretations -> canonical URLs -> matches by layer -> the strictest decision

What rules say about a whole host is kept (``known_hosts``). If no other rule can fit a request, one look-up decides it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain, product
from math import inf
from time import time
from typing import TYPE_CHECKING, Self

from hushlist.core.decide.decision import (
    STOPPING,
    Decision,
    EffectivePolicy,
    decide_unread,
    is_strictest,
    own_categories,
    strictest,
)
from hushlist.core.decide.known_hosts import GroupHosts, KnownHost, KnownHosts, may_change, stops
from hushlist.core.errors import Excess, UrlError
from hushlist.core.match.checks import Check, CheckedRequest, may_fail
from hushlist.core.match.context import is_third_party
from hushlist.core.match.index import Index, find_checks
from hushlist.core.match.index_file import ALLOWING, CATEGORIZED
from hushlist.core.match.matcher import RequestMatcher
from hushlist.core.match.rule import Action, Anything, Ordered, Rule, Terms
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.groups import NOBODY, Client, Group
from hushlist.core.policy.pass_through import WITHOUT_PAGES
from hushlist.core.policy.policy_file import Policy
from hushlist.core.url.comparison import RedirectMemory, is_slash_redirect, slash_twin
from hushlist.core.url.hashed_uri import StringMemo, Target
from hushlist.core.url.host import is_address
from hushlist.core.url.parts import DEFAULT_PORTS, Parts, split_web_authority
from hushlist.core.url.path_interpretations import FormBudget
from hushlist.core.url.request import (
    LONGEST_TARGET,
    MOST_HOSTS,
    PLAIN_URL,
    WEB,
    WEBSOCKET,
    Forms,
    Request,
    Told,
    canonical_forms,
    cut,
    is_plain_target,
    number_of_names,
    plain_target,
    request_of,
    target_forms,
)

if TYPE_CHECKING:
    from hushlist.extensions.safe_browsing.confirmations import Confirmations
    from hushlist.extensions.safe_browsing.confirming import RequestOrUrl
    from hushlist.extensions.unblock.admin_blocks import AdminBlock
    from hushlist.extensions.unblock.grants import Grant
    from hushlist.extensions.unblock.overrides import Overrides

#: the layer of a decision by an administrator's block, and what its rules are called
BLOCKS_LAYER = "blocks"


class Engine:
    """Decides by one policy. Only its caches and what it learns change, so one engine can replace another."""

    def __init__(
        self,
        policy: Policy,
        index: Index,
        redirect_memory: RedirectMemory | None = None,
        overrides: Overrides | None = None,
        confirmations: Confirmations | None = None,
    ) -> None:
        """``overrides``: temporary exceptions; the engine calls only ``covering`` and ``blocks_at``. Without
        ``confirmations``, nobody confirms a prefix that fits."""
        self.policy = policy
        self.index = index
        index.unseal(policy.seals)
        self._redirect_memory = redirect_memory
        self._overrides = overrides
        #: what confirms prefixes that fit
        self.confirmations = confirmations
        self._is_settled = False
        self._checks = tuple(rule for layer in policy.layers for rule in layer.checks)
        #: whether a check looks at a request's ``media``
        self.asks_media = any(isinstance(rule.pattern, Check) and rule.pattern.asks_media for rule in self._checks)
        self._hosts = KnownHosts(policy, index, overrides)
        #: whether no rule depends on more than checks do, and on the URL's canonical forms
        self._is_simple = not index.has_urls and redirect_memory is None
        #: whether host, path and query of a plain URL decide it
        self._asks_little = self._is_simple and not (self._checks or index.has_uris or index.filters)
        if index.filters:
            is_third_party(b"a.example", b"b.example")  # reads the public suffixes, so that no request waits for it

    def decide(
        self,
        request: Request,
        now: datetime | None = None,
        client: Client = NOBODY,
        group: Group | None = None,
        budget: FormBudget | None = None,
    ) -> Decision:
        """The decision for a request. ``now`` has a time zone; the default is the present. Never raises.

        The engine decides each of the request's hosts, and the strictest decision holds. The policy's ``unparsable``
        decides a request that cannot be read; one that is too long, or takes more than the ``budget``, is blocked.
        ``group`` is the client's, if it is known.
        """
        if request.others:
            return self._by_every_target(request, now, client, group)
        group_hosts = self._hosts.of_group(client, now, group)
        hosts = request.hosts
        forms: Forms | None = None
        filtered: list[RequestMatcher] = []
        if len(hosts) == 1 and request.fault is None:
            try:
                known = group_hosts.known[hosts[0]]
            except UrlError as error:
                return self._unparsable(request, error.reason)
            decision = known.decision
            if (
                decision is not None
                and (self._overrides is None or decision.action not in STOPPING)
                and (not self._checks or self._is_harmless(request, known))
            ):
                return decision.of(request)
            form: Parts | None = None
            budget = budget or FormBudget()
            filtered = self._filtered(request, budget) if known.has_filters else []
            if request.scheme in WEB and (plain := plain_target(request.target)):
                if not filtered and self._is_simple and self._is_plain(request, known):
                    decision = self._by_plain(request, known, plain, now).of(request)
                    return decision if self._overrides is None else self._apply_grants(decision, known, client, now)
                form = Parts(request.scheme, None, b"h", None, *plain)
            else:
                forms = target_forms(request.scheme, request.target, number_of_names(hosts), budget)
                if len(forms.forms) == 1 and forms.fault is None:
                    form = forms.forms[0]
            if form is not None and known.tunnelled is None:
                decision = self._by_form(request, hosts[0], known, form, now, filtered)
                return self._apply_grants(decision.of(request), known, client, now)
        budget = budget or FormBudget()
        every = forms or target_forms(request.scheme, request.target, number_of_names(hosts), budget)
        return self._by_every_form(
            group_hosts, request, every, filtered or self._filtered(request, budget), now, client
        )

    def _by_every_target(self, request: Request, now: datetime | None, client: Client, group: Group | None) -> Decision:
        """The strictest of the decisions for a request's target, and for what else it names, within one budget."""
        alone, budget = replace(request, others=()), FormBudget()
        faults = (own.fault for own in request.others if own.fault is not None)
        fault = request.fault or next((fault for fault in faults if self._stops(fault)), None)
        if fault is not None and self._stops(fault):
            return self.decide(replace(alone, fault=fault), now, client, group, budget)
        decisions = list[Decision]()
        for one in (alone, *request.others):
            decisions.append(self.decide(one, now, client, group, budget))
            if is_strictest(decisions[-1]):
                break
        return strictest(decisions)

    def decide_host(
        self, request: Request, now: datetime | None = None, client: Client = NOBODY, group: Group | None = None
    ) -> Decision:
        """The decision for a connection, of which only the hosts and the port are known. Never raises.

        Rules for whole hosts and addresses decide, and checks do. Rules for paths and URIs do not.
        """
        group_hosts = self._hosts.of_group(client, now, group)
        port = None if request.port == DEFAULT_PORTS.get(request.scheme) else b"%d" % request.port

        def whole(host: bytes, known: KnownHost) -> Iterator[Decision]:
            failed = list(find_checks(self._checks, _asked(request, host)))
            url = Parts(request.scheme, None, known.canonical, port, b"/").join()
            yield self._by_matches(known, failed, now)._replace(canonical=url)

        return self._by_names(group_hosts, request, whole, now, client)

    def has_paths(self, host: bytes, client: Client = NOBODY) -> bool:
        """Whether there are rules in the clear for paths on a host or its domain; they need the path to be known."""
        try:
            return self._hosts.of_group(client, None).known[host].has_pages
        except UrlError:
            return True

    def why_inside(self, host: bytes, client: Client) -> str | None:
        """Why requests to a host have to be seen though an app refuses that, for people; ``None`` if no rule is about
        what is on the host."""
        if self.has_paths(host, client):
            return "there are rules for its paths"
        known = self._hosts.of_group(client, None).known[host]
        return "there are filters for it" if known.is_named else known.why_decrypt

    def why_decrypt(self, request: Request, now: datetime | None = None, client: Client = NOBODY) -> str | None:
        """Why a TLS connection has to be decrypted, for people; ``None`` if its inside cannot change what is done.

        ``request`` has all names of the connection, as for ``decide_host``. Without a reason, ``decide_host`` decides
        as ``decide`` would for each request in it, if that goes by these names and can be read. When in doubt, there
        is a reason. Of the group's ``decrypt``, only ``without-pages`` counts; its mode does not. Never raises.
        """
        group_hosts = self._hosts.of_group(client, now)
        try:
            known = [group_hosts.known[host] for host in request.hosts]
            known += [group_hosts.known[host.tunnelled] for host in known if host.tunnelled is not None]
        except UrlError as error:
            return f"it cannot be read: {error.reason}"
        decision = self.decide_host(request, now, client)
        if request.fault is not None or decision.fault is not None:
            return f"it cannot be read: {request.fault or decision.fault}"
        if decision.action is Action.WARN or (
            decision.action is Action.BLOCK and group_hosts.view.group.settings.decrypt != WITHOUT_PAGES
        ):
            return f"the page is to be shown: {decision.action.value}"
        if decision.grant is not None:
            return "a temporary unblock may be for less than its host"
        if group_hosts.needs_all is not None:
            return group_hosts.needs_all
        if is_address(known[0].canonical):
            return "it goes to an address: a request in it may name any host"
        return next((why for host in known if (why := host.why_decrypt) is not None), None)

    def decide_url(
        self, url: bytes, now: datetime | None = None, client: Client = NOBODY, told: Told | None = None
    ) -> Decision:
        """The decision for the request that a browser would make for a URL. Never raises.

        The policy's ``unparsable`` decides a URL that no browser can request. ``told``: who asks, and what for.
        """
        # Where there are filters that name no host, no host decides alone.
        plain = PLAIN_URL.match(url) if len(url) <= LONGEST_TARGET and not self.index.has_general_filters else None
        if plain is not None:
            group_hosts = self._hosts.of_group(client, now)
            try:
                known = group_hosts.known[plain[2]]
                decision = known.decision if not self._checks else None
                if decision is not None and (self._overrides is None or decision.action not in STOPPING):
                    return decision.of(url)
                target = plain_target(url, plain.end()) if self._asks_little else None
                if target:
                    below = self.index.find_paths(known.host, *target)
                    decision = self._by_matches(known, below, now, (url, told))
                    return self._apply_grants(decision.of(url), known, client, now)
            except UrlError:
                pass  # reported below
        try:
            return self.decide(request_of(url, told), now, client)
        except UrlError as error:
            return decide_unread(self.policy.unparsable, cut(url), error.reason)

    @property
    def is_timeless(self) -> bool:
        """Whether only the date can change a decision: a rule expires when a day of UTC ends."""
        has_memory = self._redirect_memory is not None or self.policy.confirmers
        return self._hosts.only is not None and self._overrides is None and not has_memory

    def decide_plain(self, host: bytes) -> Decision | None:
        """The decision for each plain URL of a host, for every client at every moment, without the URL.

        ``None`` if the rest of the URL, the client or the moment may change it, or if the host is not valid.
        """
        only = self._hosts.only
        if only is None or self._overrides is not None or self._checks:
            return None
        try:
            return only.known[host].decision
        except UrlError:
            return None

    def allows_below(self, host: bytes, client: Client = NOBODY) -> bool:
        """Whether a rule in the clear may allow part of a host, so that it must not be blocked as a whole."""
        group_hosts = self._hosts.of_group(client, None)
        try:
            bits = group_hosts.known[host].host.bits
        except UrlError:
            return False
        return bool(bits & ALLOWING) or (bool(bits & CATEGORIZED) and group_hosts.view.allows_categories)

    def view(self, client: Client = NOBODY, now: datetime | None = None) -> EffectivePolicy:
        """The effective policy for a client's group at a moment."""
        return self._hosts.of_group(client, now).view

    def state(self) -> tuple[object, ...]:
        """What decisions go by now: not equal to an earlier one if a schedule has begun or ended, or a rule expired.

        Rules expire when a day of UTC ends.
        """
        now = datetime.now(UTC)
        return (now.date(), *(self._hosts.of_group(NOBODY, now, group).view for group in self.policy.all_groups))

    def group(self, client: Client) -> Group:
        return self._hosts.group(client)

    def _apply_grants(self, decision: Decision, known: KnownHost, client: Client, now: datetime | None) -> Decision:
        """The decision for one form and one host; it becomes ``allow`` if grants cover every rule that would stop it.

        A grant for a host or a URL covers every rule that stops it. A grant for a category covers only rules of that
        category: a site that is also blocked for another reason stays blocked. A click on a warning covers only
        warnings. A covered warning allows: rules behind it no longer count. Any grant also overrides the policy's
        default action. Before that, an administrator's block stops; only a grant that was made later covers it.

        No grant covers a check or a request that cannot be read. These are about how a request is made, not where it
        goes: a person who unblocks a site does not mean to open all its ports, or to let smuggled requests through.
        """
        if self._overrides is None:
            return decision
        moment, names = time() if now is None else now.timestamp(), (*client.names, f"group:{known.view.group.name}")
        if known.view.blocks:
            blocks, host = known.view.blocks, known.canonical
            url = decision.url if blocks.has_pages(host) else b""  # what is not needed takes time
            own = tuple(map(_match_of, blocks.find(names, host, url, own_categories(decision), moment)))
            if own:
                decision = decision._replace(action=Action.BLOCK, matches=(*own, *decision.matches), winner=own[0])
        if decision.action not in STOPPING:
            return decision
        lifted: Grant | None = None
        for match in decision.matches:
            pattern, terms, _ = match.rule
            if terms.action is Action.TAG:
                continue
            if terms.action is Action.ALLOW or (lifted is not None and isinstance(pattern, Anything)):
                break
            is_warning = terms.action is Action.WARN
            categories = () if terms.category is None else (terms.category,)
            since = pattern.made if isinstance(pattern, Ordered) else -inf
            grant = None
            if not isinstance(pattern, Check):
                grant = self._overrides.covering(
                    names, known.canonical, decision.url, categories, moment, is_warning=is_warning, since=since
                )
            if grant is None:
                return decision._replace(action=terms.action, winner=match)
            lifted = lifted or grant
            if is_warning:
                break
        return decision if lifted is None else decision._replace(action=Action.ALLOW, grant=lifted)

    def _by_every_form(
        self,
        group_hosts: GroupHosts,
        request: Request,
        forms: Forms,
        filtered: Sequence[RequestMatcher],
        now: datetime | None,
        client: Client,
    ) -> Decision:
        """The strictest of the decisions for each name of a request with each form of its target."""
        memo: StringMemo = {}

        def by_forms(host: bytes, known: KnownHost) -> Iterator[Decision]:
            told: list[Decision] = []
            for place, form in enumerate(forms.forms):
                own = filtered if known.has_filters else ()
                decision = self._by_form(request, host, known, form, now, own, memo, is_first=not place)
                if self._overrides is None or not (decision.action in STOPPING or known.view.blocks):
                    if any(decision is other for other in told):
                        continue  # the rules for the whole host decide, as for an earlier form
                    told.append(decision)
                yield decision._replace(canonical=form._replace(host=known.canonical).join())

        return self._by_names(group_hosts, request, by_forms, now, client, forms.fault)

    def _by_names(
        self,
        group_hosts: GroupHosts,
        request: Request,
        decide: Callable[[bytes, KnownHost], Iterable[Decision]],
        now: datetime | None,
        client: Client,
        fault: str | None = None,
    ) -> Decision:
        """The strictest of the decisions for each name of a request and for each fault in it.

        It ends with the first that no other could make stricter. A fault that stops it is enough: beside it, only one
        name and one form are decided, as they would be without it, for the rule that the block page tells.
        """
        hosts = tuple(dict.fromkeys(request.hosts))
        faults = [wrong for wrong in (request.fault, fault) if wrong is not None]
        if not hosts:
            faults.insert(0, "the request goes by no host")
        elif len(hosts) > MOST_HOSTS:
            faults.insert(0, Excess(f"the request goes by more than {MOST_HOSTS} hosts"))
        is_stopped = any(map(self._stops, faults))
        decisions = list[Decision]()
        for host in hosts[: 1 if is_stopped else MOST_HOSTS]:
            try:
                known = group_hosts.known[host]
            except UrlError as error:
                decisions.append(self._unparsable(request, error.reason))
                if is_strictest(decisions[-1]):
                    break
                continue
            for decision in decide(host, known):
                granted = self._apply_grants(decision, known, client, now)
                decisions.append(granted if host != request.destination else _of_rules(granted))
                if is_stopped or is_strictest(decisions[-1]):
                    break
            if is_stopped or is_strictest(decisions[-1]):
                break
            if known.tunnelled is not None:
                beneath = group_hosts.known[known.tunnelled]
                for decision in decide(known.tunnelled, beneath):
                    decisions.append(_of_rules(self._apply_grants(decision, beneath, client, now)))
                    if is_strictest(decisions[-1]):
                        return strictest(decisions)
        decisions += [self._unparsable(request, wrong) for wrong in faults]
        return strictest(decisions)

    def _unparsable(self, request: Request, fault: str) -> Decision:
        return decide_unread(self.policy.unparsable, request.url, fault)

    def _stops(self, fault: str) -> bool:
        """Whether a request is blocked that has this fault."""
        return self.policy.unparsable is Action.BLOCK or isinstance(fault, Excess)

    def _is_harmless(self, request: Request, known: KnownHost) -> bool:
        """Whether a request has only one form, and no check can find anything in it."""
        return is_plain_target(request.target) and not may_fail(request, request.hosts[0], known.canonical)

    def _is_plain(self, request: Request, known: KnownHost) -> bool:
        """Whether a request has a plain name and nothing beside it, and no check can find anything in it."""
        is_bare = known.is_name and request.userinfo is None and request.fragment is None
        return is_bare and not (self._checks and may_fail(request, known.canonical, known.canonical))

    def _by_plain(self, request: Request, known: KnownHost, plain: Target, now: datetime | None) -> Decision:
        """``_by_form``, faster, for the one form of most requests, without filters and rules for whole URLs."""
        index = self.index
        below = index.find_paths(known.host, *plain)
        if index.has_uris:
            query = request.target[len(plain[0]) + 1 :] if plain[1] else plain[1]
            sent = plain if query == plain[1] else (plain[0], query)
            targets = (plain,) if sent is plain else (plain, sent)
            found = index.find_web_uris(request.scheme, known.canonical, request.port, targets, sent)
            if found:
                below += _without_allows(known, found, is_first=True)
        return self._by_matches(known, below, now, request)

    def _by_form(
        self,
        request: Request,
        host: bytes,
        known: KnownHost,
        form: Parts,
        now: datetime | None,
        filtered: Sequence[RequestMatcher],
        memo: StringMemo | None = None,
        *,
        is_first: bool = True,
    ) -> Decision:
        """The decision for one form of the target on one host."""
        if known.decision is not None and not self._checks:
            return known.decision
        matches = self.index.find_paths(known.host, form.path, form.query)
        if self.index.has_urls and is_first:
            # What fits the URL as sent says nothing about other path interpretations: there, other rules decide.
            matches += self.index.find_urls(known.host, request.url_by(host))
        if self.index.has_uris:
            matches += self._find_uris(request, host if is_first else None, known, form, memo, is_first=is_first)
        if is_first and self._checks and may_fail(request, host, known.canonical):
            matches += find_checks(self._checks, _asked(request, host))
        if self._redirect_memory is not None:
            matches += self._by_redirect(self._redirect_memory, request, known, form, matches, memo, is_first=is_first)
        if filtered:
            return self._by_filters(filtered, form, request, known, matches, now, is_first=is_first)
        return self._by_matches(known, matches, now, request)

    def _filtered(self, request: Request, budget: FormBudget) -> list[RequestMatcher]:
        """The request as each extension's filters see it."""
        if not self.index.filters or (request.scheme not in WEB and request.scheme not in WEBSOCKET):
            return []
        may_guess = self.policy.unknown_context is Action.BLOCK
        return [filters.of_request(request, budget, may_guess=may_guess) for filters in self.index.filters.values()]

    def _by_filters(
        self,
        filtered: Sequence[RequestMatcher],
        form: Parts,
        request: Request,
        known: KnownHost,
        own: Sequence[Match],
        now: datetime | None,
        *,
        is_first: bool,
    ) -> Decision:
        """The same with filters: the strictest decision of the URLs that they may be compared with.

        Where the filters of a list would take too long, and no layer above it decides, the request is blocked.
        """
        is_stopped = known.is_stopped or len(filtered) > 1 or (bool(own) and stops(own))
        how = {"is_first": is_first, "is_named": known.is_named, "is_stopped": is_stopped}
        decisions: list[Decision] = []
        for found in product(*(filters.matches(known.canonical, form, **how) for filters in filtered)):
            decisions.append(self._by_matches(known, [*own, *chain.from_iterable(found)], now, request))
        for name, layer in chain.from_iterable(filters.spent for filters in filtered):
            if not all(known.view.is_decided_before(layer, decision) for decision in decisions):
                fault = f"too many filters of {name} would have to be compared with it, for its length"
                decisions.append(self._unparsable(request, Excess(fault)))
        return strictest(decisions)

    def _by_matches(
        self, known: KnownHost, below: Sequence[Match], now: datetime | None, asked: RequestOrUrl = None
    ) -> Decision:
        """The decision by the rules for a whole host, and by other matches."""
        if not below and known.alone is not None:
            return known.alone
        found: Sequence[Match] = (*known.host.matches, *below)
        return (
            self._by_changing(known.view, found, now, asked)
            if any(map(may_change, found))
            else known.view.decide(found)
        )

    def _by_changing(
        self, view: EffectivePolicy, found: Iterable[Match], now: datetime | None, asked: RequestOrUrl
    ) -> Decision:
        """The same where some may have expired, or have to be confirmed."""
        moment = (now or datetime.now(UTC)).astimezone(UTC)
        found = [match for match in found if match.rule.terms.holds_at(moment)]
        if any(match.rule.terms.confirmer for match in found):
            from hushlist.extensions.safe_browsing.confirming import decide_confirmed  # few policies need it

            return decide_confirmed(
                view, found, asked, self.policy.confirmers, self.confirmations, is_settled=self._is_settled
            )
        return view.decide(found)

    @cached_property
    def settled(self) -> Self:
        """The engine once all that a decision needs was asked: what is not known then, and through no fault of the
        server, was beyond a client's share, and counts as if it were confirmed."""
        other = copy(self)
        other._is_settled = True
        return other

    def unconfirmed(self, decision: Decision) -> Iterator[str]:
        """What of a decision nobody has confirmed or denied, and why, for people."""
        for service, prefix, _ in decision.unconfirmed:
            why = None if self.confirmations is None else self.confirmations.fault(service)
            yield f"sha256:{prefix.hex()} is not confirmed: {why or f'{service.server} was not asked'}"

    def _find_uris(
        self,
        request: Request,
        host: bytes | None,
        known: KnownHost,
        form: Parts,
        memo: StringMemo | None,
        *,
        is_first: bool,
    ) -> list[Match]:
        """The hashed URIs that fit one form of the target; as requested, too, by a host.

        They have their own canonical form. One that fits only another path interpretation must not allow the request.
        """
        if known.is_name and request.userinfo is None and request.fragment is None and request.scheme in WEB:
            targets = _targets(request, host, form)
            sent = None if host is None else _sent_target(request)
            found = self.index.find_web_uris(request.scheme, known.canonical, request.port, targets, sent)
        else:
            uris = () if host is None else _sent_uris(request, host, known.canonical)
            found = self.index.find_uris(_uris(request, known.canonical, form, uris), memo, uris)
        return _without_allows(known, found, is_first=is_first)

    def learn(self, request: Request, location: bytes) -> None:
        """Remember a permanent redirect if it changes only a trailing slash and the request has one name.

        It holds for the path with any query: "the common conventions" are about the path alone.
        """
        if self._redirect_memory is None:
            return
        try:
            (host,) = set(request.hosts)
            (form,) = canonical_forms(request, host)
            if is_slash_redirect(request.url, location):
                self._redirect_memory.learn((request.scheme, form.host or b"", request.port), form.path)
        except ValueError:  # several forms, or a UrlError: nothing is certain
            return

    def _by_redirect(
        self,
        memory: RedirectMemory,
        request: Request,
        known: KnownHost,
        form: Parts,
        own: Sequence[Match],
        memo: StringMemo | None,
        *,
        is_first: bool,
    ) -> list[Match]:
        """Further matches of the path with or without its slash, if the origin has redirected between the two."""
        twin = (
            slash_twin(form.path) if memory.knows((request.scheme, known.canonical, request.port), form.path) else None
        )
        if twin is None:
            return []
        rules = {match.rule for match in (*known.host.matches, *own)}
        twins = [*self.index.find_paths(known.host, twin, form.query)]
        if self.index.has_uris:
            twins += self._find_uris(request, None, known, form._replace(path=twin), memo, is_first=is_first)
        return [match._replace(via=_VIA) for match in twins if match.rule not in rules]


def _match_of(block: AdminBlock) -> Match:
    """An administrator's block as a match."""
    category = block.target if block.scope == "category" else None
    terms = Terms(Action.BLOCK, "administrators", "overrides.sqlite", category, block.reason, layer=BLOCKS_LAYER)
    until = None if block.until is None else datetime.fromtimestamp(block.until, UTC)
    rule = Rule(Ordered(block.target, block.client, block.made), terms, block.id)
    return Match(rule, block.target.encode("ascii", "replace"), (0, 0), until=until)


def _of_rules(decision: Decision) -> Decision:
    """The decision without the policy's default action."""
    if decision.winner is None or not isinstance(decision.winner.rule.pattern, Anything):
        return decision
    matches = tuple(match for match in decision.matches if not isinstance(match.rule.pattern, Anything))
    if not matches:
        return decision._replace(action=Action.PASS, matches=(), winner=None, grant=None)
    return decision._replace(action=Action.TAG, matches=matches, winner=matches[0], grant=None)


_VIA = "rung protocol: its origin redirects between this path with and without a trailing slash"


def _asked(request: Request, host: bytes) -> CheckedRequest:
    names = request.hosts
    if request.destination is not None:
        names = tuple(name for name in names if name != request.destination)
    return CheckedRequest(request.scheme, host, request.port, request.target, request.userinfo, request.media, names)


def _targets(request: Request, host: bytes | None, form: Parts) -> Sequence[Target]:
    """Path and query that a list's author may have hashed: canonical; as requested, by a host."""
    own = form.path, form.query
    if host is None or (own[0] == request.target and own[1] is None):
        return (own,)
    sent = _sent_target(request)
    return (own,) if own == sent else (own, sent)


def _sent_target(request: Request) -> Target:
    path, mark, query = request.target.partition(b"?")
    return path, query if mark else None


def _sent_uris(request: Request, host: bytes, canonical: bytes) -> Sequence[Parts]:
    """The URIs of a request as it was sent, by a host as it was sent and by its canonical name."""
    path, query = _sent_target(request)
    own, port = split_web_authority(host)[1], _port(request)
    names = (own,) if own == canonical else (own, canonical)
    uris = [Parts(request.scheme, None, name, port, path, query, request.fragment) for name in names]
    return uris if request.userinfo is None else [*uris, *(uri._replace(userinfo=request.userinfo) for uri in uris)]


def _port(request: Request) -> bytes | None:
    return None if request.port == DEFAULT_PORTS.get(request.scheme.lower(), 0) else b"%d" % request.port


def _uris(request: Request, canonical: bytes, form: Parts, sent: Sequence[Parts]) -> list[Parts]:
    """The URIs that a list's author may have hashed, with the request's port: canonical; as they were sent."""
    own = Parts(form.scheme, None, canonical, _port(request), form.path, form.query, request.fragment)
    uris = [own] if request.userinfo is None else [own, own._replace(userinfo=request.userinfo)]
    return [*uris, *(uri for uri in sent if uri not in uris)]


def _without_allows(known: KnownHost, found: list[Match], *, is_first: bool) -> list[Match]:
    """Hashed URIs without those that allow, but fit only another path interpretation, or the URL as it was sent: what
    a canonical form blocks, no other spelling opens (reading 32)."""
    if is_first and all(match.via is None for match in found):
        return found
    return [match for match in found if (is_first and match.via is None) or not known.view.allows(match)]
