"""The one way from a request to a decision.

    request -> names x readings -> canonical URLs -> matches by layer -> decision, the strictest of all

What fits a whole host is remembered by host; where nothing else can decide, that is all that a request costs.

The proxy, the command line and the audits are faces of it, and never decide anything themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import time

from hushlist.errors import UrlError
from hushlist.match.checks import Asked, Check
from hushlist.match.index import Host, Index, Match, find_checks
from hushlist.match.index_file import ALLOWING, CATEGORIZED
from hushlist.match.learned import Learned
from hushlist.match.recent import Recent
from hushlist.match.rule import Action, Anything, Terms
from hushlist.policy.compile import compile_policy
from hushlist.policy.decision import STOPPING, Decision, strictest
from hushlist.policy.grants import Grant
from hushlist.policy.groups import NOBODY, Client, Settings, group_of
from hushlist.policy.overrides import Overrides
from hushlist.policy.policy import Policy
from hushlist.policy.view import View
from hushlist.url.parts import DEFAULT_PORTS, Parts
from hushlist.url.protocol import is_slash_redirect, slash_twin
from hushlist.url.request import (
    MOST_HOSTS,
    PLAIN_URL,
    Request,
    canonical_forms,
    canonical_host,
    plain_target,
    request_of,
    target_forms,
)

#: hosts that are remembered, for each group of clients
_MOST_KNOWN = 1 << 14
_MOST_CLIENTS = 1 << 12


@dataclass(slots=True)  # not frozen: it is made for every new host
class _Known:
    """What is known of a host, as requests spell it."""

    canonical: bytes
    host: Host
    #: the decision where nothing but what fits the whole host fits, always; its URL is still to be told
    alone: Decision | None
    #: the same where nothing else can fit
    decision: Decision | None


class _Sight:
    """A group's view, and what is known of hosts in it."""

    def __init__(self, view: View, know: Callable[[View, bytes], _Known]) -> None:
        self.view = view
        self.known = Recent(partial(know, view), _MOST_KNOWN)


def load_engine(path: Path, learned: Learned | None = None) -> Engine:
    """An engine for a policy file, whose lists are compiled if the cache does not have them.

    Raises:
        PolicyError: with every problem of every file.
    """
    compiled = compile_policy(path).let_go()
    return Engine(compiled.policy, compiled.index, learned)


class Engine:
    """Decides by one policy; it never changes but in what it learns and remembers, so that it can be swapped."""

    def __init__(
        self, policy: Policy, index: Index, learned: Learned | None = None, overrides: Overrides | None = None
    ) -> None:
        """``overrides``: what lets clients pass for a while; ``covering`` is all that is asked of it."""
        self.policy = policy
        self.index = index
        self._learned = learned
        self._overrides = overrides
        self._checks = tuple(rule for layer in policy.layers for rule in layer.checks)
        #: whether a check looks at a request's ``media``
        self.asks_media = any(isinstance(rule.pattern, Check) and rule.pattern.asks_media for rule in self._checks)
        #: whether the host alone can never decide
        self._asks_more = bool(self._checks) or index.has_uris
        self._groups = Recent(partial(group_of, policy.all_groups), _MOST_CLIENTS)
        self._sights: dict[str, _Sight] = {}
        #: what everybody sees always, where there is only that
        self._only: _Sight | None = None
        if not policy.groups:
            only = self._sight(NOBODY, None)
            self._only = only if only.view.is_timeless else None

    def decide(self, request: Request, now: datetime | None = None, client: Client = NOBODY) -> Decision:
        """The decision for a request at a moment (aware; the present one where none is given). Never raises.

        Each host that it goes by is decided, and the strictest decision holds. One that cannot be read is decided by
        the policy's ``unparsable``; so is what is too much to be read.
        """
        sight = self._only or self._sight(client, now)
        hosts = request.hosts
        forms: tuple[Parts, ...] = ()
        if len(hosts) == 1 and request.fault is None:
            try:
                known = sight.known[hosts[0]]
            except UrlError as error:
                return self._unparsable(request, error.reason)
            decision = known.decision
            if decision is not None and (self._overrides is None or decision.action not in STOPPING):
                return decision.of(request)
            forms = target_forms(request.scheme, request.target)
            if len(forms) == 1:
                decision = self._by_form(sight, request, hosts[0], known, forms[0], now)
                return self._lift(decision.of(request), known, client, now)
        forms = forms or target_forms(request.scheme, request.target)
        return self._by_names(request, lambda host: self._by_host(sight, request, host, forms, now, client))

    def decide_host(self, request: Request, now: datetime | None = None, client: Client = NOBODY) -> Decision:
        """The decision for a connection, of which nothing but its hosts and its port are known. Never raises.

        Rules for whole hosts and addresses decide, and checks; none for a path or a URI does.
        """
        sight = self._sight(client, now)
        return self._by_names(request, lambda host: self._whole_host(sight, request, host, now, client))

    def has_paths(self, host: bytes, client: Client = NOBODY) -> bool:
        """Whether rules in the clear are about less than a whole host, or its domain: who sees no path misses them."""
        try:
            return any(is_guided for _, is_guided, _ in self._sight(client, None).known[host].host.deeper)
        except UrlError:
            return True

    def decide_url(self, url: bytes, now: datetime | None = None, client: Client = NOBODY) -> Decision:
        """The decision for the request that a browser would make for a URL. Never raises.

        One that a browser could not ask for is decided by the policy's ``unparsable``.
        """
        plain = PLAIN_URL.match(url)
        if plain is not None:
            sight = self._only or self._sight(client, now)
            try:
                known = sight.known[plain[2]]
                decision = known.decision
                if decision is not None and (self._overrides is None or decision.action not in STOPPING):
                    return decision.of(url)
                target = plain_target(url, plain.end())
                if target and not self._asks_more and self._learned is None:
                    return self._lift(self._by_path(sight.view, known, *target, now).of(url), known, client, now)
            except UrlError:
                pass  # below, it is said what is wrong
        try:
            return self.decide(request_of(url), now, client)
        except UrlError as error:
            return Decision(self.policy.unparsable, url, fault=error.reason)

    def allows_below(self, host: bytes, now: datetime | None = None, client: Client = NOBODY) -> bool:
        """Whether a rule in the clear may allow something on a host, so that it is not blocked as a whole."""
        sight = self._sight(client, now)
        try:
            bits = sight.known[host].host.bits
        except UrlError:
            return False
        return bool(bits & ALLOWING) or (bool(bits & CATEGORIZED) and sight.view.allows_categories)

    def view(self, client: Client = NOBODY, now: datetime | None = None) -> View:
        """What the policy says for a client's group at a moment."""
        return self._sight(client, now).view

    def settings(self, client: Client) -> Settings:
        """What holds for a client's group."""
        return (self._only.view.group if self._only else self._groups[client]).settings

    def _sight(self, client: Client, now: datetime | None) -> _Sight:
        group = self._groups[client]
        sight = self._sights.get(group.name)
        if sight is None or not sight.view.holds_at(now or datetime.now(UTC)):
            sight = self._sights[group.name] = _Sight(View(group, now or datetime.now(UTC)), self._know)
        return sight

    def _lift(self, decision: Decision, known: _Known, client: Client, now: datetime | None) -> Decision:
        """The decision, or that it passes where grants cover all that would stop it: one form, by one host.

        A grant for a host or a URL covers whatever rules stop that; one for a category nothing but rules of the
        category, so that a site which is blocked for something else too stays blocked for that; the click on a warning
        warnings alone. A warning that is covered is as an allowance: what stands behind it is not asked. So is a grant
        to what the policy does where no rule decides.

        No grant covers a check, nor what cannot be read: they are not about where a request goes, but how; whoever
        unblocks a site does not mean to open all its ports, or the tricks by which requests are smuggled.
        """
        if self._overrides is None or decision.action not in STOPPING:
            return decision
        moment = time() if now is None else now.timestamp()
        lifted: Grant | None = None
        for match in decision.matches:
            pattern, terms, _ = match.rule
            if terms.action is Action.TAG:
                continue
            if terms.action is Action.ALLOW or (lifted is not None and isinstance(pattern, Anything)):
                break
            grant = None if isinstance(pattern, Check) else self._grant(decision, terms, known, client, moment)
            if grant is None:
                return decision._replace(action=terms.action, winner=match)
            lifted = lifted or grant
            if terms.action is Action.WARN:
                break
        return decision if lifted is None else decision._replace(action=Action.ALLOW, grant=lifted)

    def _grant(self, decision: Decision, terms: Terms, known: _Known, client: Client, moment: float) -> Grant | None:
        """The grant that covers what a rule stops."""
        assert self._overrides is not None
        categories = () if terms.category is None else (terms.category,)
        is_warning = terms.action is Action.WARN
        return self._overrides.covering(
            client.names, known.canonical, decision.url, categories, moment, is_warning=is_warning
        )

    def _by_names(self, request: Request, decide: Callable[[bytes], Iterable[Decision]]) -> Decision:
        """The strictest decision of those for each of a request's names, and for what is wrong with it."""
        hosts = tuple(dict.fromkeys(request.hosts))
        decisions = [
            decision if host != request.destination else _of_rules(decision)
            for host in hosts[:MOST_HOSTS]
            for decision in decide(host)
        ]
        if not 0 < len(hosts) <= MOST_HOSTS:
            number = f"more than {MOST_HOSTS} hosts" if hosts else "no host"
            decisions.append(self._unparsable(request, f"the request goes by {number}"))
        if request.fault is not None:
            decisions.append(self._unparsable(request, request.fault))
        return strictest(decisions)

    def _whole_host(
        self, sight: _Sight, request: Request, host: bytes, now: datetime | None, client: Client
    ) -> Iterator[Decision]:
        """The decision for one of the hosts as a whole."""
        try:
            known = sight.known[host]
        except UrlError as error:
            yield self._unparsable(request, error.reason)
            return
        matches = [*known.host.matches, *find_checks(self._checks, _asked(request, host))]
        port = None if request.port == DEFAULT_PORTS.get(request.scheme) else b"%d" % request.port
        url = Parts(request.scheme, None, known.canonical, port, b"/").join()
        yield self._lift(_by_matches(sight.view, matches, now)._replace(canonical=url), known, client, now)

    def _unparsable(self, request: Request, fault: str) -> Decision:
        return Decision(self.policy.unparsable, request.url, fault=fault)

    def _by_host(
        self,
        sight: _Sight,
        request: Request,
        host: bytes,
        forms: Sequence[Parts],
        now: datetime | None,
        client: Client,
    ) -> Iterator[Decision]:
        """The decisions for every form of a target, by one of the request's hosts."""
        try:
            known = sight.known[host]
        except UrlError as error:
            yield self._unparsable(request, error.reason)
            return
        for place, form in enumerate(forms):
            decision = self._by_form(sight, request, host, known, form, now, is_first=not place)
            decision = decision._replace(canonical=form._replace(host=known.canonical).join())
            yield self._lift(decision, known, client, now)

    def _know(self, view: View, host: bytes) -> _Known:
        """What there is to know of a host.

        Raises:
            UrlError: it cannot be one.
        """
        canonical = canonical_host(host)
        found = self.index.on_host(canonical)
        if not found.matches:
            alone: Decision | None = view.nothing
        else:
            alone = None if any(map(_expires, found.matches)) else view.decide(found.matches)
        return _Known(canonical, found, alone, None if found.deeper or self._asks_more else alone)

    def _by_form(
        self,
        sight: _Sight,
        request: Request,
        host: bytes,
        known: _Known,
        form: Parts,
        now: datetime | None,
        *,
        is_first: bool = True,
    ) -> Decision:
        """The decision for one form of the target, by one of the hosts."""
        if known.decision is not None:
            return known.decision
        twin = self._twin(request, known.canonical, form)
        if twin is None and not self._asks_more:
            return self._by_path(sight.view, known, form.path, form.query, now)
        matches = [*known.host.matches, *self.index.find_paths(known.host, form.path, form.query)]
        if self._asks_more:
            form = form._replace(host=known.canonical)
            matches += self._more(sight.view, request, host, form, is_first=is_first)
        if twin is not None:
            matches += _by_redirect(matches, self.index.find_paths(known.host, twin, form.query))
        return _by_matches(sight.view, matches, now)

    def _by_path(self, view: View, known: _Known, path: bytes, query: bytes | None, now: datetime | None) -> Decision:
        """The decision where nothing but expressions and address ranges can fit."""
        below = self.index.find_paths(known.host, path, query)
        if not below and known.alone is not None:
            return known.alone
        return _by_matches(view, [*known.host.matches, *below], now)

    def _more(self, view: View, request: Request, host: bytes, form: Parts, *, is_first: bool) -> Iterator[Match]:
        """What fits the request as a whole: hashed URIs and checks."""
        if self.index.has_uris:
            for match in self.index.find_uris(tuple(_uris(request, host, form, is_first=is_first))):
                # A hashed URI is canonical by its own rules: those of another reading of the path are no allowance.
                if is_first or not view.allows(match):
                    yield match
        if is_first and self._checks:
            yield from find_checks(self._checks, _asked(request, host))

    def learn(self, request: Request, location: bytes) -> None:
        """Take note of a permanent redirect, if all it changes is a trailing slash and the request has but one name.

        The path stands for all its queries: "the common conventions" are about the path alone.
        """
        if self._learned is None:
            return
        try:
            (host,) = set(request.hosts)
            (form,) = canonical_forms(request, host)
            if is_slash_redirect(request.url, location):
                self._learned.learn((request.scheme, form.host or b"", request.port), form.path)
        except ValueError:  # more forms than one, or a UrlError: nothing certain is told
            return

    def _twin(self, request: Request, host: bytes, form: Parts) -> bytes | None:
        """The path's other name, where the origin has redirected from one to the other."""
        if self._learned is None or not self._learned.knows((request.scheme, host, request.port), form.path):
            return None
        return slash_twin(form.path)


def _by_matches(view: View, matches: Sequence[Match], now: datetime | None) -> Decision:
    if not matches:
        return view.nothing
    now = (now or datetime.now(UTC)).astimezone(UTC)
    return view.decide([match for match in matches if match.rule.terms.holds_at(now)])


def _of_rules(decision: Decision) -> Decision:
    """The decision without what is done where no rule decides."""
    if decision.winner is None or not isinstance(decision.winner.rule.pattern, Anything):
        return decision
    matches = tuple(match for match in decision.matches if not isinstance(match.rule.pattern, Anything))
    if not matches:
        return decision._replace(action=Action.PASS, matches=(), winner=None, grant=None)
    return decision._replace(action=Action.TAG, matches=matches, winner=matches[0], grant=None)


def _by_redirect(own: Sequence[Match], twins: Iterable[Match]) -> Iterator[Match]:
    """The matches of the twin that the request does not have itself."""
    rules = {match.rule for match in own}
    return (match._replace(via=_VIA) for match in twins if match.rule not in rules)


_VIA = "rung protocol: its origin redirects between this path with and without a trailing slash"


def _expires(match: Match) -> bool:
    return match.rule.terms.expires is not None


def _asked(request: Request, host: bytes) -> Asked:
    names = request.hosts
    if request.destination is not None:
        names = tuple(name for name in names if name != request.destination)
    return Asked(request.scheme, host, request.port, request.target, request.userinfo, request.media, names)


def _uris(request: Request, host: bytes, form: Parts, *, is_first: bool) -> Iterator[Parts]:
    """The URIs that a hashed URI may have been made of, with the port that was asked: canonical, and as requested."""
    port = str(request.port).encode()
    yield form._replace(port=port, fragment=request.fragment)
    if is_first:
        path, mark, query = request.target.partition(b"?")
        asked = Parts(request.scheme, None, host, port, path, query if mark else None, request.fragment)
        yield asked
        if host != form.host:
            yield asked._replace(host=form.host)
