"""The engine decides every request. The proxy, the command line and the audits all call it.

    request -> names x path interpretations -> canonical URLs -> matches by layer -> the strictest decision

The engine caches what rules say about a whole host. If no other rule can fit a request, one look-up there decides it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import time

from hushlist.compiling.policy_compiler import compile_policy
from hushlist.decide.decision import STOPPING, Decision, strictest
from hushlist.decide.effective_policy import EffectivePolicy
from hushlist.errors import UrlError
from hushlist.match.checks import Check, CheckedRequest
from hushlist.match.index import Host, Index, Match, find_checks
from hushlist.match.index_file import ALLOWING, CATEGORIZED
from hushlist.match.rule import Action, Anything
from hushlist.policy.groups import NOBODY, Client, Group, group_of
from hushlist.policy.policy_file import Policy
from hushlist.system.memory import BoundedCache
from hushlist.unblock.grants import Grant
from hushlist.unblock.overrides import Overrides
from hushlist.url.parts import DEFAULT_PORTS, Parts
from hushlist.url.redirects import RedirectMemory, is_slash_redirect, slash_twin
from hushlist.url.request import (
    LONGEST_TARGET,
    MOST_HOSTS,
    PLAIN_URL,
    Forms,
    Request,
    canonical_forms,
    canonical_host,
    cut,
    plain_target,
    request_of,
    target_forms,
)

#: hosts in the cache of each group of clients
MOST_KNOWN = 1 << 14
_MOST_CLIENTS = 1 << 12


@dataclass(slots=True)  # not frozen: that is slow to make, and every new host makes one
class _HostMatches:
    """What the rules say about one spelling of a host."""

    canonical: bytes
    host: Host
    #: the decision, without a URL, if only rules for the whole host fit; ``None`` if one of these expires
    alone: Decision | None
    #: the same, but ``None`` if other rules may fit too
    decision: Decision | None


class _GroupCache:
    """A group's effective policy, and its cache of hosts."""

    def __init__(self, view: EffectivePolicy, know: Callable[[EffectivePolicy, bytes], _HostMatches]) -> None:
        self.view = view
        self.known = BoundedCache(partial(know, view), MOST_KNOWN)


def load_engine(path: Path, redirect_memory: RedirectMemory | None = None) -> Engine:
    """An engine for a policy file; compiles the lists if the cache does not have them.

    Raises:
        PolicyError: with every problem of every file.
    """
    compiled = compile_policy(path).let_go()
    return Engine(compiled.policy, compiled.index, redirect_memory)


class Engine:
    """Decides by one policy. Only its caches and what it learns change, so one engine can replace another."""

    def __init__(
        self,
        policy: Policy,
        index: Index,
        redirect_memory: RedirectMemory | None = None,
        overrides: Overrides | None = None,
    ) -> None:
        """``overrides``: temporary exceptions; the engine calls only ``covering``."""
        self.policy = policy
        self.index = index
        self._redirect_memory = redirect_memory
        self._overrides = overrides
        self._checks = tuple(rule for layer in policy.layers for rule in layer.checks)
        #: whether a check looks at a request's ``media``
        self.asks_media = any(isinstance(rule.pattern, Check) and rule.pattern.asks_media for rule in self._checks)
        #: whether checks or hashed URIs need the whole request, so that the host alone never decides
        self._asks_more = bool(self._checks) or index.has_uris
        self._groups = BoundedCache(partial(group_of, policy.all_groups), _MOST_CLIENTS)
        #: by the group's name
        self._caches: dict[str, _GroupCache] = {}
        #: the one cache, if the policy is the same for everybody at every moment
        self._only: _GroupCache | None = None
        if not policy.groups:
            only = self._cache(NOBODY, None)
            self._only = only if only.view.is_timeless else None

    def decide(
        self, request: Request, now: datetime | None = None, client: Client = NOBODY, group: Group | None = None
    ) -> Decision:
        """The decision for a request. ``now`` has a time zone; the default is the present. Never raises.

        The engine decides each of the request's hosts, and the strictest decision holds. The policy's ``unparsable``
        decides a request that cannot be read, or is too large to be read. ``group`` is the client's, if it is known.
        """
        group_cache = self._only or self._cache(client, now, group)
        hosts = request.hosts
        forms: Forms | None = None
        if len(hosts) == 1 and request.fault is None:
            try:
                known = group_cache.known[hosts[0]]
            except UrlError as error:
                return self._unparsable(request, error.reason)
            decision = known.decision
            if decision is not None and (self._overrides is None or decision.action not in STOPPING):
                return decision.of(request)
            forms = target_forms(request.scheme, request.target)
            if len(forms.forms) == 1 and forms.fault is None:
                decision = self._by_form(group_cache.view, request, hosts[0], known, forms.forms[0], now)
                return self._apply_grants(decision.of(request), known, client, now)
        every, fault = forms or target_forms(request.scheme, request.target)

        def by_forms(host: bytes, known: _HostMatches) -> Iterator[Decision]:
            for place, form in enumerate(every):
                decision = self._by_form(group_cache.view, request, host, known, form, now, is_first=not place)
                yield decision._replace(canonical=form._replace(host=known.canonical).join())

        return self._by_names(group_cache, request, by_forms, now, client, fault)

    def decide_host(
        self, request: Request, now: datetime | None = None, client: Client = NOBODY, group: Group | None = None
    ) -> Decision:
        """The decision for a connection, of which only the hosts and the port are known. Never raises.

        Rules for whole hosts and addresses decide, and checks do. Rules for paths and URIs do not.
        """
        group_cache = self._cache(client, now, group)
        port = None if request.port == DEFAULT_PORTS.get(request.scheme) else b"%d" % request.port

        def whole(host: bytes, known: _HostMatches) -> Iterator[Decision]:
            matches = [*known.host.matches, *find_checks(self._checks, _asked(request, host))]
            url = Parts(request.scheme, None, known.canonical, port, b"/").join()
            yield _by_matches(group_cache.view, matches, now)._replace(canonical=url)

        return self._by_names(group_cache, request, whole, now, client)

    def has_paths(self, host: bytes, client: Client = NOBODY) -> bool:
        """Whether there are rules in the clear for paths on a host or its domain; they need the path to be known."""
        try:
            return any(is_guided for _, is_guided, _ in self._cache(client, None).known[host].host.deeper)
        except UrlError:
            return True

    def decide_url(self, url: bytes, now: datetime | None = None, client: Client = NOBODY) -> Decision:
        """The decision for the request that a browser would make for a URL. Never raises.

        The policy's ``unparsable`` decides a URL that no browser can request.
        """
        plain = PLAIN_URL.match(url) if len(url) <= LONGEST_TARGET else None
        if plain is not None:
            group_cache = self._only or self._cache(client, now)
            try:
                known = group_cache.known[plain[2]]
                decision = known.decision
                if decision is not None and (self._overrides is None or decision.action not in STOPPING):
                    return decision.of(url)
                target = plain_target(url, plain.end())
                if target and not self._asks_more and self._redirect_memory is None:
                    return self._apply_grants(
                        self._by_path(group_cache.view, known, *target, now).of(url), known, client, now
                    )
            except UrlError:
                pass  # reported below
        try:
            return self.decide(request_of(url), now, client)
        except UrlError as error:
            return Decision(self.policy.unparsable, cut(url), fault=error.reason)

    def allows_below(self, host: bytes, now: datetime | None = None, client: Client = NOBODY) -> bool:
        """Whether a rule in the clear may allow part of a host, so that it must not be blocked as a whole."""
        group_cache = self._cache(client, now)
        try:
            bits = group_cache.known[host].host.bits
        except UrlError:
            return False
        return bool(bits & ALLOWING) or (bool(bits & CATEGORIZED) and group_cache.view.allows_categories)

    def view(self, client: Client = NOBODY, now: datetime | None = None) -> EffectivePolicy:
        """The effective policy for a client's group at a moment."""
        return self._cache(client, now).view

    def group(self, client: Client) -> Group:
        """The client's group."""
        return self._only.view.group if self._only else self._groups[client]

    def _cache(self, client: Client, now: datetime | None, group: Group | None = None) -> _GroupCache:
        group = group or self._groups[client]
        group_cache = self._caches.get(group.name)
        if group_cache is None or not group_cache.view.holds_at(now or datetime.now(UTC)):
            group_cache = self._caches[group.name] = _GroupCache(
                EffectivePolicy(group, now or datetime.now(UTC)), self._know
            )
        return group_cache

    def _apply_grants(self, decision: Decision, known: _HostMatches, client: Client, now: datetime | None) -> Decision:
        """The decision for one form and one host; it becomes ``allow`` if grants cover every rule that would stop it.

        A grant for a host or a URL covers every rule that stops it. A grant for a category covers only rules of that
        category: a site that is also blocked for another reason stays blocked. A click on a warning covers only
        warnings. A covered warning allows: rules behind it no longer count. Any grant also overrides the policy's
        default action.

        No grant covers a check or a request that cannot be read. These are about how a request is made, not where it
        goes: a person who unblocks a site does not mean to open all its ports, or to let smuggled requests through.
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
            is_warning = terms.action is Action.WARN
            categories = () if terms.category is None else (terms.category,)
            grant = None
            if not isinstance(pattern, Check):
                grant = self._overrides.covering(
                    client.names, known.canonical, decision.url, categories, moment, is_warning=is_warning
                )
            if grant is None:
                return decision._replace(action=terms.action, winner=match)
            lifted = lifted or grant
            if is_warning:
                break
        return decision if lifted is None else decision._replace(action=Action.ALLOW, grant=lifted)

    def _by_names(
        self,
        group_cache: _GroupCache,
        request: Request,
        decide: Callable[[bytes, _HostMatches], Iterable[Decision]],
        now: datetime | None,
        client: Client,
        fault: str | None = None,
    ) -> Decision:
        """The strictest of the decisions for each name of a request and for each fault in it."""
        hosts = tuple(dict.fromkeys(request.hosts))
        decisions = []
        for host in hosts[:MOST_HOSTS]:
            try:
                known = group_cache.known[host]
            except UrlError as error:
                decisions.append(self._unparsable(request, error.reason))
                continue
            for decision in decide(host, known):
                granted = self._apply_grants(decision, known, client, now)
                decisions.append(granted if host != request.destination else _of_rules(granted))
        if not 0 < len(hosts) <= MOST_HOSTS:
            number = f"more than {MOST_HOSTS} hosts" if hosts else "no host"
            decisions.append(self._unparsable(request, f"the request goes by {number}"))
        decisions += (self._unparsable(request, wrong) for wrong in (request.fault, fault) if wrong is not None)
        return strictest(decisions)

    def _unparsable(self, request: Request, fault: str) -> Decision:
        return Decision(self.policy.unparsable, request.url, fault=fault)

    def _know(self, view: EffectivePolicy, host: bytes) -> _HostMatches:
        """What the rules say about a host.

        Raises:
            UrlError: it is not a valid host.
        """
        canonical = canonical_host(host)
        found = self.index.on_host(canonical)
        if not found.matches:
            alone: Decision | None = view.nothing
        else:
            alone = None if any(map(_expires, found.matches)) else view.decide(found.matches)
        return _HostMatches(canonical, found, alone, None if found.deeper or self._asks_more else alone)

    def _by_form(
        self,
        view: EffectivePolicy,
        request: Request,
        host: bytes,
        known: _HostMatches,
        form: Parts,
        now: datetime | None,
        *,
        is_first: bool = True,
    ) -> Decision:
        """The decision for one form of the target on one host."""
        if known.decision is not None:
            return known.decision
        twin = self._twin(request, known.canonical, form)
        if twin is None and not self._asks_more:
            return self._by_path(view, known, form.path, form.query, now)
        matches = [*known.host.matches, *self.index.find_paths(known.host, form.path, form.query)]
        if self._asks_more:
            form = form._replace(host=known.canonical)
            matches += self._more(view, request, host, form, is_first=is_first)
        if twin is not None:
            matches += _by_redirect(matches, self.index.find_paths(known.host, twin, form.query))
        return _by_matches(view, matches, now)

    def _by_path(
        self, view: EffectivePolicy, known: _HostMatches, path: bytes, query: bytes | None, now: datetime | None
    ) -> Decision:
        """The decision if only expressions and address ranges can fit."""
        below = self.index.find_paths(known.host, path, query)
        if not below and known.alone is not None:
            return known.alone
        return _by_matches(view, [*known.host.matches, *below], now)

    def _more(
        self, view: EffectivePolicy, request: Request, host: bytes, form: Parts, *, is_first: bool
    ) -> Iterator[Match]:
        """Rules that fit the request as a whole: hashed URIs and checks."""
        if self.index.has_uris:
            for match in self.index.find_uris(tuple(_uris(request, host, form, is_first=is_first))):
                # Hashed URIs have their own canonical form. One that fits only another path interpretation must not
                # allow the request.
                if is_first or not view.allows(match):
                    yield match
        if is_first and self._checks:
            yield from find_checks(self._checks, _asked(request, host))

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

    def _twin(self, request: Request, host: bytes, form: Parts) -> bytes | None:
        """The path with or without its trailing slash, if the origin has redirected between the two."""
        if self._redirect_memory is None or not self._redirect_memory.knows(
            (request.scheme, host, request.port), form.path
        ):
            return None
        return slash_twin(form.path)


def _by_matches(view: EffectivePolicy, matches: Sequence[Match], now: datetime | None) -> Decision:
    if not matches:
        return view.nothing
    now = (now or datetime.now(UTC)).astimezone(UTC)
    return view.decide([match for match in matches if match.rule.terms.holds_at(now)])


def _of_rules(decision: Decision) -> Decision:
    """The decision without the policy's default action."""
    if decision.winner is None or not isinstance(decision.winner.rule.pattern, Anything):
        return decision
    matches = tuple(match for match in decision.matches if not isinstance(match.rule.pattern, Anything))
    if not matches:
        return decision._replace(action=Action.PASS, matches=(), winner=None, grant=None)
    return decision._replace(action=Action.TAG, matches=matches, winner=matches[0], grant=None)


def _by_redirect(own: Sequence[Match], twins: Iterable[Match]) -> Iterator[Match]:
    """The twin's matches that the request does not have itself."""
    rules = {match.rule for match in own}
    return (match._replace(via=_VIA) for match in twins if match.rule not in rules)


_VIA = "rung protocol: its origin redirects between this path with and without a trailing slash"


def _expires(match: Match) -> bool:
    return match.rule.terms.expires is not None


def _asked(request: Request, host: bytes) -> CheckedRequest:
    names = request.hosts
    if request.destination is not None:
        names = tuple(name for name in names if name != request.destination)
    return CheckedRequest(request.scheme, host, request.port, request.target, request.userinfo, request.media, names)


def _uris(request: Request, host: bytes, form: Parts, *, is_first: bool) -> Iterator[Parts]:
    """The URIs that a list's author may have hashed, with the request's port: canonical, and as requested."""
    port = str(request.port).encode()
    yield form._replace(port=port, fragment=request.fragment)
    if is_first:
        path, mark, query = request.target.partition(b"?")
        asked = Parts(request.scheme, None, host, port, path, query if mark else None, request.fragment)
        yield asked
        if host != form.host:
            yield asked._replace(host=form.host)
