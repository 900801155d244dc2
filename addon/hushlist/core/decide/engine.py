"""The engine decides every request. The proxy, the command line and the audits all call it.

    request -> names x path interpretations -> canonical URLs -> matches by layer -> the strictest decision

What rules say about a whole host is kept (``known_hosts``). Three early exits are fast, and change nothing: a host that
alone decides, a plain target below it that no rule fits, and any plain target by one host.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from time import time

from hushlist.core.decide.decision import (
    STOPPING,
    Decision,
    decide,
    decide_unread,
    from_inside,
    is_strictest,
    strictest,
    without_default,
)
from hushlist.core.decide.effective_policy import EffectivePolicy
from hushlist.core.decide.form_decider import Case, FormDecider
from hushlist.core.decide.known_hosts import GroupHosts, KnownHost, KnownHosts
from hushlist.core.decide.readings import DEEPEST, HostReader, readings_of
from hushlist.core.decide.verdict import NO_BLOCKS, Confirmations, Verdict
from hushlist.core.errors import Excess, UrlError
from hushlist.core.extension import load
from hushlist.core.match.checks import Check
from hushlist.core.match.context import is_third_party
from hushlist.core.match.index import Index
from hushlist.core.match.rule import Action
from hushlist.core.policy.groups import NOBODY, Client, Group
from hushlist.core.policy.part_needs import asks_leads, checks_leads
from hushlist.core.policy.pass_through import WITHOUT_PAGES
from hushlist.core.policy.policy_file import Policy
from hushlist.core.url.comparison import RedirectMemory, is_slash_redirect
from hushlist.core.url.host import is_address
from hushlist.core.url.parts import DEFAULT_PORTS, Parts
from hushlist.core.url.path_interpretations import FormBudget
from hushlist.core.url.request import (
    LONGEST_TARGET,
    MOST_HOSTS,
    PLAIN_URL,
    WEB,
    Request,
    StatedContext,
    canonical_forms,
    canonical_query,
    cut,
    is_plain_target,
    number_of_names,
    plain_target,
    request_of,
    target_forms,
)


class Engine:
    """Decides by one policy. Only its caches and what it learns change, so one engine can replace another."""

    def __init__(
        self,
        policy: Policy,
        index: Index,
        redirect_memory: RedirectMemory | None = None,
        overrides: Verdict | None = None,
        confirmations: Confirmations | None = None,
        *,
        waits: bool = False,
    ) -> None:
        """``overrides``: temporary exceptions and blocks. Without ``confirmations``, nobody confirms what only
        suspects. ``waits``: ask, and wait for answers; a proxy never does.
        """
        self.policy, self.index = policy, index
        index.unseal(policy.seals)
        self._redirect_memory, self._overrides = redirect_memory, overrides
        self.confirmations, self._waits = confirmations, waits
        self._checks = tuple(rule for layer in policy.layers for rule in layer.checks)
        checks = [rule.pattern for rule in self._checks if isinstance(rule.pattern, Check)]
        #: whether a check looks at a request's ``media``
        self.asks_media = any(check.asks_media for check in checks)
        for row in filter(None, (check.row for check in checks)):
            load(row.find)  # so that no request waits for it
        #: whether a check looks at where the names of a request lead; whether rules do, too
        self.checks_leads = checks_leads(policy)
        self.asks_leads = asks_leads(policy)
        #: what extensions read in requests
        self.readings = readings_of(policy)
        #: what rules say about whole hosts; and what finds the group of a client
        self.hosts = KnownHosts(policy, index, overrides, self.readings)
        self.group = self.hosts.group
        #: the hosts of everybody at every moment, if nobody's differ
        self._of_all = self.hosts.only if overrides is None else None
        self._forms = FormDecider(policy, index, self._checks, redirect_memory, confirmations)
        #: whether no rule depends on more than checks do, and on the canonical forms of a path
        self._is_simple = not (index.has_urls or index.has_uris) and redirect_memory is None
        #: whether there may be hosts that alone decide plain URLs, or with rules for paths
        self._may_know_hosts = not (self._checks or index.has_uris or index.has_general_filters)
        #: the policy's, which every request needs
        self.keeps = policy.keeps
        if index.filters:
            is_third_party(b"a.example", b"b.example")  # reads the public suffixes, so that no request waits for it

    def decide(
        self,
        request: Request,
        now: datetime | None = None,
        client: Client = NOBODY,
        group: Group | None = None,
        *,
        is_settled: bool = False,
    ) -> Decision:
        """The decision for a request. ``now`` has a time zone; the default is the present. Never raises.

        The engine decides each form of the target on each of the request's hosts, and the strictest decision holds.
        The policy's ``unparsable`` decides a request that cannot be read; one that is too long, or takes too much, is
        blocked. ``group`` is the client's, if it is known. ``is_settled``: all was asked that it needs (``Confirmer``).
        """
        hosts = self._of_all or self.hosts.of_group(client, now, group)
        # a hashed URI may fit any request, so that no host decides at once
        is_quick = not (self.index.has_uris or request.others or request.leads)
        decision = self._at_once(request, hosts) if is_quick else None
        return decision or self._strictest(Case(request, hosts, client, now, False, is_settled, FormBudget(), {}, []))

    def decide_host(
        self,
        request: Request,
        now: datetime | None = None,
        client: Client = NOBODY,
        group: Group | None = None,
        *,
        is_settled: bool = False,
    ) -> Decision:
        """The decision for a connection, of which only the hosts and the port are known. Never raises.

        Rules for whole hosts and addresses decide, and checks do. Rules for paths and URIs do not.
        """
        hosts = self.hosts.of_group(client, now, group)
        return self._strictest(Case(request, hosts, client, now, True, is_settled, FormBudget(), {}, []))

    def decide_url(
        self, url: bytes, now: datetime | None = None, client: Client = NOBODY, context: StatedContext | None = None
    ) -> Decision:
        """The decision for the request that a browser would make for a URL. Never raises.

        The policy's ``unparsable`` decides a URL that no browser can request. ``context``: who asks, and what for.
        """
        is_quick = self._may_know_hosts and len(url) <= LONGEST_TARGET and not (context and context.leads)
        plain = PLAIN_URL.match(url) if is_quick else None
        if plain is not None:
            try:
                known_host = (self._of_all or self.hosts.of_group(client, now)).by_name[plain[2]]
                decision = known_host.decision or self._below(known_host, url, plain.end())
                if decision is not None and (self._overrides is None or decision.action not in STOPPING):
                    return decision.of(url)
            except UrlError:
                pass  # it is told below
        try:
            return self.decide(request_of(url, context), now, client)
        except UrlError as error:
            return decide_unread(self.policy.unparsable, cut(url), error.reason)

    def why_decrypt(self, request: Request, now: datetime | None = None, client: Client = NOBODY) -> str | None:
        """Why a TLS connection has to be decrypted, for people; ``None`` if its inside cannot change what is done.

        ``request`` has all names of the connection, as for ``decide_host``. Without a reason, ``decide_host`` decides
        as ``decide`` would for each request in it, if that goes by these names and can be read. When in doubt, there
        is a reason. Of the group's ``decrypt``, only ``without-pages`` counts; its mode does not. Never raises.
        """
        group_hosts = self.hosts.of_group(client, now)
        try:
            known_hosts = [group_hosts.by_name[host] for host in request.hosts]
            known_hosts += [group_hosts.by_name[host.tunnelled] for host in known_hosts if host.tunnelled is not None]
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
        if is_address(known_hosts[0].canonical):
            return "it goes to an address: a request in it may name any host"
        return next(filter(None, map(self.hosts.why_decrypt, known_hosts)), None)

    @property
    def is_timeless(self) -> bool:
        """Whether only the date can change a decision: a rule expires when a day of UTC ends."""
        has_memory = self._redirect_memory is not None or self.policy.confirmers
        return self.hosts.only is not None and self._overrides is None and not has_memory

    def decide_plain(self, host: bytes) -> Decision | None:
        """The decision for each plain URL of a host, for every client at every moment, without the URL.

        ``None`` if the rest of the URL, the client or the moment may change it, or if the host is not valid.
        """
        only = self.hosts.only
        if only is None or self._overrides is not None or self._checks:
            return None
        try:
            return only.by_name[host].decision
        except UrlError:
            return None

    def form_keys(self, request: Request, client: Client = NOBODY) -> frozenset[bytes]:
        """The fields of a form that a request sends, in lower case, which are decided, too."""
        known_hosts = self.hosts.of_group(client, None).by_name
        with suppress(UrlError):
            readers = [reader for host in request.hosts[:MOST_HOSTS] for reader in known_hosts[host].readers]
            forms = target_forms(request.scheme, request.target, 1, FormBudget()).forms if readers else ()
            return frozenset(key for reader in readers for form in forms for key in reader.form_keys(form.path))
        return frozenset()

    def view(self, client: Client = NOBODY, now: datetime | None = None) -> EffectivePolicy:
        """The effective policy for a client's group at a moment."""
        return self.hosts.of_group(client, now).view

    def state(self) -> tuple[object, ...]:
        """What decisions go by now: not equal to an earlier one if a schedule has begun or ended, or a rule expired.

        Rules expire when a day of UTC ends.
        """
        now = datetime.now(UTC)
        return (now.date(), *(self.hosts.of_group(NOBODY, now, group).view for group in self.policy.all_groups))

    # -- the way to a decision ----------------------------------------------------------------------------------------

    def _at_once(self, request: Request, hosts: GroupHosts) -> Decision | None:
        """The decision for one target by one host, where it needs no other rules than those for the whole host."""
        if len(request.hosts) != 1 or request.fault is not None:
            return None
        try:
            known_host = hosts.by_name[request.hosts[0]]
        except UrlError as error:
            return self._unparsable(request, error.reason)
        decision = known_host.decision or self._below(known_host, request.target)
        if decision is None or (self._overrides is not None and decision.action in STOPPING):
            return None
        return None if self._checks and not self._is_harmless(request, known_host) else decision.of(request)

    def _below(self, known_host: KnownHost, target: bytes, start: int = 0) -> Decision | None:
        """The decision without a URL, where no rule fits less than the host; ``None``: all has to be looked at.

        The target begins at ``start``. It holds for a request in which no check can find anything.
        """
        if (
            not self._is_simple
            or known_host.alone is None
            or known_host.has_filters
            or known_host.tunnelled
            or known_host.view.has_blocks
        ):
            return None
        plain = plain_target(target, start, is_sent=True)
        if plain is None or (known_host.readers and known_host.concerns(*plain)):
            return None
        if known_host.host.suffixes and self.index.find_paths(known_host.host, plain[0], canonical_query(plain[1])):
            return None
        return known_host.alone

    def _strictest(self, case: Case) -> Decision:
        """The strictest of all decisions for a case, once what has to be asked was asked, if this engine waits."""
        has_others = bool(case.request.others) and not case.is_connection
        strict = None if has_others or case.is_connection else self._of_plain(case)
        if strict is None:
            decisions: list[Decision] = []
            for decision in self._of_every_target(case) if has_others else self._of_target(case):
                decisions.append(decision)
                if is_strictest(decision):
                    break  # no other could be stricter
            strict = strictest(decisions)
        if strict.unconfirmed and self._waits and self.confirmations is not None and not case.is_settled:
            self.confirmations.ask(strict.unconfirmed)
            return self._strictest(case._replace(is_settled=True, budget=FormBudget(), memo={}, filters=[]))
        return strict

    def _of_plain(self, case: Case) -> Decision | None:
        """The decision for a plain target by one host without a fault, as most have; ``None`` for any other."""
        request = case.request
        if len(request.hosts) != 1 or request.fault is not None or request.leads:
            return None
        try:
            known_host = case.hosts.by_name[request.hosts[0]]
        except UrlError as error:
            return self._unparsable(request, error.reason)
        if known_host.tunnelled is not None or request.destination is not None or request.scheme not in WEB:
            return None
        plain = plain_target(request.target)
        if plain is None or (known_host.readers and known_host.concerns(*plain)):
            return None
        form = Parts(request.scheme, None, b"h", None, *plain)
        decision = None if self._checks else known_host.decision
        decision = decision or self._forms.decide(case, request.hosts[0], known_host, form, is_first=True)
        return self._with_overrides(case, known_host, form, decision)

    def _of_every_target(self, case: Case) -> Iterator[Decision]:
        """The decisions for a request's target, and for what else its header fields name, within one budget."""
        request = case.request
        faults = (other.fault for other in request.others if other.fault is not None)
        fault = request.fault or next((fault for fault in faults if self._stops(fault)), None)
        is_stopped = fault is not None and self._stops(fault)
        alone = request._replace(others=(), fault=fault if is_stopped else request.fault)
        for target in (alone,) if is_stopped else (alone, *request.others):
            decision = self._at_once(target, case.hosts)
            if decision is None:
                yield from self._of_target(case._replace(request=target, memo={}, filters=[]))
            else:
                yield decision

    def _of_target(self, case: Case) -> Iterator[Decision]:
        """The decisions for each name of a request with each form of its target, and for each fault in it.

        A fault that stops it is enough: beside it, only one name and one form are decided, as they would be without it,
        for the rule that the block page tells.
        """
        request, known_hosts = case.request, case.hosts
        hosts = tuple(dict.fromkeys(request.hosts))
        faults = [] if request.fault is None else [request.fault]
        forms: Sequence[Parts] = ()
        if not case.is_connection:
            forms, fault = target_forms(request.scheme, request.target, number_of_names(hosts), case.budget)
            faults += [] if fault is None else [fault]
        if not hosts:
            faults.insert(0, "the request goes by no host")
        elif len(hosts) > MOST_HOSTS:
            faults.insert(0, Excess(f"the request goes by more than {MOST_HOSTS} hosts"))
        is_stopped = any(map(self._stops, faults))
        of_names: list[Decision] = []
        for host in hosts[: 1 if is_stopped else MOST_HOSTS]:
            try:
                known_host = known_hosts.by_name[host]
            except UrlError as error:
                yield self._unparsable(request, error.reason)
                continue
            of_host: list[Decision] = []
            for decision in self._of_host(case, host, known_host, forms):
                of_host.append(decision)
                yield decision if host != request.destination else without_default(decision)
                if is_stopped:
                    break
            if known_host.tunnelled is not None and not is_stopped:
                beneath = known_hosts.by_name[known_host.tunnelled]
                yield from map(without_default, self._of_host(case, known_host.tunnelled, beneath, forms))
            if known_host.readers and not is_stopped:
                yield from self._of_inner(case, known_host, forms, of_host)
            of_names += of_host if host != request.destination or len(hosts) == 1 else ()
        if request.leads and not is_stopped and not all(decision.action is Action.ALLOW for decision in of_names):
            yield from self._of_leads(case, hosts[0])
        for fault in faults:
            yield self._unparsable(request, fault)

    def _of_leads(self, case: Case, host: bytes) -> Iterator[Decision]:
        """The decisions for the names and addresses that the hosts of a request lead to, by the rules for whole hosts.

        What is allowed there opens nothing, and the default action says nothing of them. A grant for the request's host
        covers them.
        """
        request, known_hosts, case = case.request, case.hosts.by_name, case._replace(is_connection=True)
        with suppress(UrlError):  # it is decided, too
            site, (form, *_) = known_hosts[host], canonical_forms(request._replace(target=b"/"), host)
            for lead in dict.fromkeys(request.leads):
                try:
                    led = known_hosts[lead]
                    every = [led] if led.tunnelled is None else [led, known_hosts[led.tunnelled]]
                except UrlError as error:
                    yield self._unparsable(request, error.reason)
                    continue
                via = f"{site.canonical.decode('ascii', 'replace')} leads to {led.canonical.decode('ascii', 'replace')}"
                for led in every:
                    decision = self._with_overrides(
                        case, led, form, without_default(self._forms.by_matches(case, led, ()))
                    )
                    matches = tuple(
                        match._replace(via=", ".join(filter(None, (match.via, via)))) for match in decision.matches
                    )
                    by_rules = decide(led.view.layers, matches, decision.group)
                    if matches and by_rules.action is not Action.ALLOW and decision.grant is None:
                        by_lead = by_rules._replace(unconfirmed=decision.unconfirmed)
                        yield self._with_overrides(case, site, form, by_lead)

    def _of_inner(
        self, case: Case, known_host: KnownHost, forms: Sequence[Parts], decisions: Sequence[Decision]
    ) -> Iterator[Decision]:
        """The decisions for the addresses inside requests to a host, of whose own address these are the ``decisions``.

        What an address allows opens nothing: these decisions are there where they stop, tag, or go by a grant.
        """
        for reader in known_host.readers:
            if not reader.has_inner or all(_is_spared(reader, decision) for decision in decisions):
                continue
            for inner in reader.inner(case.request, forms):
                carriers = (*case.carriers, known_host.canonical)
                if len(carriers) > DEEPEST or not case.budget.takes_inner():
                    yield self._unparsable(case.request, _TOO_MANY_INNER)
                    return
                below = case._replace(
                    request=inner.request, carriers=carriers, counts=inner.counts, memo={}, filters=[]
                )
                for decision in self._of_target(below):
                    if decision.inside:
                        yield decision
                    elif decision.matches or decision.fault is not None:
                        yield decision._replace(inside=carriers)

    def _of_host(self, case: Case, host: bytes, known_host: KnownHost, forms: Sequence[Parts]) -> Iterator[Decision]:
        """The decisions for each form of the target on one host, with what administrators and grants say."""
        request = case.request
        if case.is_connection:
            port = None if request.port == DEFAULT_PORTS.get(request.scheme) else b"%d" % request.port
            forms = (Parts(request.scheme, None, None, port, b"/"),)
        is_only = len(request.hosts) == len(forms) == 1 and host is request.hosts[0] and not case.is_connection
        seen: list[Decision] = []
        for form in forms:
            decision = self._forms.decide(case, host, known_host, form, is_first=form is forms[0])
            if case.carriers:
                decision = from_inside(decision, known_host.view.layers, case.carriers, case.counts)
            if self._overrides is None or not (decision.action in STOPPING or known_host.view.has_blocks):
                if any(decision is other for other in seen):
                    continue  # the rules for the whole host decide, as for an earlier form
                seen.append(decision)
            yield self._with_overrides(case, known_host, form, decision, is_only=is_only)

    def _with_overrides(
        self, case: Case, known_host: KnownHost, form: Parts, decision: Decision, *, is_only: bool = True
    ) -> Decision:
        """The decision by the rules, as temporary exceptions and blocks have it."""
        if is_only:
            decision = decision.of(case.request)
        if not is_only or (self._overrides is not None and decision.action in STOPPING):
            decision = decision._replace(canonical=form._replace(host=known_host.canonical).join())
        if self._overrides is None:
            return decision
        names = (*case.client.names, f"group:{known_host.view.group.name}")
        moment = time() if case.now is None else case.now.timestamp()
        return self._overrides.after(decision, known_host.view.blocks, known_host.canonical, names, moment)

    def past_warning(self, decision: Decision, client: Client) -> Decision:
        """A decision that warns of an answer, as a click on the warning of its address, or a grant for that, has it."""
        if self._overrides is None:
            return decision
        names = (*client.names, f"group:{decision.group}")
        return self._overrides.after(decision, NO_BLOCKS, b"", names, time())

    def unconfirmed(self, decision: Decision) -> Iterator[str]:
        """What of a decision nobody has confirmed or denied, and why, for people."""
        return (question.why_open(self.confirmations) for question in decision.unconfirmed)

    def _unparsable(self, request: Request, fault: str) -> Decision:
        return decide_unread(self.policy.unparsable, request.url, fault)

    def _stops(self, fault: str) -> bool:
        """Whether a request is blocked that has this fault."""
        return self.policy.unparsable is Action.BLOCK or isinstance(fault, Excess)

    def _is_harmless(self, request: Request, known_host: KnownHost) -> bool:
        """Whether a request has only one form, and no check can find anything in it."""
        return is_plain_target(request.target) and not self._forms.may_fail(request, request.hosts[0], known_host)

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


_TOO_MANY_INNER = Excess(f"there are too many addresses in it, or more than {DEEPEST} in each other")


def _is_spared(reader: HostReader, decision: Decision) -> bool:
    """Whether a request is allowed with what is inside it."""
    winner = decision.winner
    return decision.action is Action.ALLOW and winner is not None and reader.spares(winner.rule.terms)
