"""What the rules say of one form of a request's target on one host, and the decision for it.

host's rules, paths, names, whole URLs, hashed URIs, checks, redirects, filters -> matches -> decision
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from hushlist.core.decide.decision import Decision, decide_unread, strictest
from hushlist.core.decide.effective_policy import EffectivePolicy
from hushlist.core.decide.known_hosts import GroupHosts, KnownHost, may_change, stops
from hushlist.core.decide.verdict import Confirmations
from hushlist.core.errors import Excess
from hushlist.core.match.checks import Check, CheckedRequest, may_fail
from hushlist.core.match.index import Index, find_checks
from hushlist.core.match.matcher import RequestMatcher
from hushlist.core.match.rule import Action, Rule, Terms
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.groups import Client
from hushlist.core.policy.policy_file import Policy
from hushlist.core.url.comparison import RedirectMemory, slash_twin
from hushlist.core.url.hashed_uri import StringMemo, Target
from hushlist.core.url.parts import DEFAULT_PORTS, Parts, split_web_authority
from hushlist.core.url.path_interpretations import FormBudget
from hushlist.core.url.request import WEB, WEBSOCKET, Request

#: schemes of requests that filters may fit
_WITH_FILTERS = (*WEB, *WEBSOCKET)


class Case(NamedTuple):
    """What is decided, and what all its names and forms share."""

    request: Request
    hosts: GroupHosts
    client: Client
    now: datetime | None
    #: whether only hosts and port are known
    is_connection: bool
    #: whether all was asked that it needs
    is_settled: bool
    budget: FormBudget
    memo: StringMemo
    #: the request as the filters of each extension see it, once these are needed
    filters: list[RequestMatcher]
    #: of an address inside another request: the canonical hosts that carry it, the outermost first; and whether a rule
    #: with some terms says anything of it (``None``: every rule does)
    carriers: tuple[bytes, ...] = ()
    counts: Callable[[Terms], bool] | None = None


class FormDecider:
    """Decides one form of a target on one host, by all rules that fit."""

    def __init__(
        self,
        policy: Policy,
        index: Index,
        checks: Sequence[Rule],
        redirect_memory: RedirectMemory | None,
        confirmations: Confirmations | None,
    ) -> None:
        self._index, self._checks, self._redirect_memory = index, checks, redirect_memory
        self._confirmers, self._confirmations = policy.confirmers, confirmations
        self._unparsable, self._may_guess = policy.unparsable, policy.unknown_context is Action.BLOCK
        #: whether a check is an extension's, which no quick look leaves out
        self._has_foreign_checks = any(
            rule.pattern.row is not None for rule in checks if isinstance(rule.pattern, Check)
        )

    def decide(self, case: Case, host: bytes, known_host: KnownHost, form: Parts, *, is_first: bool) -> Decision:
        """The decision for one form of the target on one host, by all rules that fit."""
        request, index = case.request, self._index
        if case.is_connection:
            checks = () if case.carriers else self._checks
            return self.by_matches(case, known_host, [*find_checks(checks, _checked_request(request, host))])
        if known_host.decision is not None and not self._checks:
            return known_host.decision
        matches = index.find_paths(known_host.host, form.path, form.query)
        if known_host.readers:
            matches += self._by_names(case, known_host, form, matches)
        if index.has_urls and is_first:
            # What fits the URL as sent says nothing about other path interpretations: there, other rules decide.
            matches += index.find_urls(known_host.host, request.url_by(host))
        if index.has_uris:
            matches += self._find_uris(case, host if is_first else None, known_host, form, is_first=is_first)
        if is_first and self._checks and not case.carriers and self.may_fail(request, host, known_host):
            matches += find_checks(self._checks, _checked_request(request, host))
        if self._redirect_memory is not None:
            matches += self._by_redirect(self._redirect_memory, case, known_host, form, matches, is_first=is_first)
        filters = self._filters(case) if known_host.has_filters else ()
        if not filters:
            return self.by_matches(case, known_host, matches)
        is_stopped = known_host.is_stopped or len(filters) > 1 or (bool(matches) and stops(matches))
        canonical, is_named = known_host.canonical, known_host.is_named
        by_url: list[list[Match]] = [matches]
        for matcher in filters:
            by_matcher = matcher.matches(canonical, form, is_first=is_first, is_named=is_named, is_stopped=is_stopped)
            if any(by_matcher):
                by_url = [before + more for before in by_url for more in by_matcher]
        # of the URLs that filters may be compared with, the strictest decision holds
        decisions = [self.by_matches(case, known_host, by_matcher) for by_matcher in by_url]
        for matcher in filters:
            for name, layer in matcher.spent:
                # where the filters of a list take too long, and no layer above it decides, the request is blocked
                if not all(known_host.view.is_decided_before(layer, decision) for decision in decisions):
                    fault = f"too many filters of {name} would have to be compared with it, for its length"
                    decisions.append(decide_unread(self._unparsable, request.url, Excess(fault)))
        return strictest(decisions)

    def _by_names(self, case: Case, known_host: KnownHost, form: Parts, matches: Sequence[Match]) -> list[Match]:
        """Further matches: of rules for paths by which others name what is asked for. They are as specific as rules for
        the request's host."""
        rules, others = {match.rule for match in matches}, list[Match]()
        for reader in known_host.readers:
            by_names, fitting, queries = list[Match](), list[Match](), dict[bytes, list[bytes]]()
            for name in reader.names(form._replace(host=known_host.canonical), case.request.target):
                if name.path == b"/" and name.query and name.host is not None:  # there may be many of them
                    queries.setdefault(name.host, []).append(name.query)
                else:
                    host = case.hosts.by_name[name.host or b""].host
                    fitting += self._index.find_paths(host, name.path, name.query)
            for named, every in queries.items():
                fitting += self._index.find_queries(case.hosts.by_name[named].host, every)
            for match in fitting:
                if match.rule not in rules:
                    rules.add(match.rule)
                    octets = max(len(known_host.canonical), match.specificity[0])
                    by_names.append(match._replace(via=reader.via, specificity=(octets, match.specificity[1])))
            others += reader.counted([match for match in by_names if known_host.view.counts(match.rule.terms)])
        return others

    def _filters(self, case: Case) -> Sequence[RequestMatcher]:
        """The request as each extension's filters see it."""
        if not case.filters:
            request = case.request
            for filters in self._index.filters.values() if request.scheme in _WITH_FILTERS else ():
                case.filters.append(filters.of_request(request, case.budget, may_guess=self._may_guess))
        return case.filters

    def by_matches(self, case: Case, known_host: KnownHost, below: Sequence[Match]) -> Decision:
        """The decision by the rules for a whole host, and by other matches."""
        if not below and known_host.alone is not None:
            return known_host.alone
        matches: Sequence[Match] = (*known_host.host.matches, *below)
        if not any(map(may_change, matches)):
            return known_host.view.decide(matches)
        moment = (case.now or datetime.now(UTC)).astimezone(UTC)
        matches = [match for match in matches if match.rule.terms.holds_at(moment)]
        if any(match.rule.terms.confirmer for match in matches):
            return self._by_confirmed(case, known_host.view, matches)
        return known_host.view.decide(matches)

    def _by_confirmed(self, case: Case, view: EffectivePolicy, matches: Iterable[Match]) -> Decision:
        """The decision where some matches only suspect, by what is known of them.

        Where what is not known could change nothing, nobody has to be asked.
        """
        sure, assumed, doubtful, questions = list[Match](), list[Match](), list[Match](), []
        request = None if case.is_connection else case.request
        for match in matches:
            confirmer = self._confirmers.get(match.rule.terms.confirmer)
            if confirmer is None:
                sure.append(match)
                continue
            said = confirmer.confirmed(match, request, self._confirmations, is_settled=case.is_settled)
            sure += said.sure
            assumed += said.assumed
            doubtful += said.possible
            questions += [] if said.question is None else [said.question]
        decision = view.decide([*sure, *assumed])
        if doubtful and view.decide([*sure, *doubtful]).winner != view.decide(sure).winner:
            return decision._replace(unconfirmed=tuple(questions))
        return decision

    def may_fail(self, request: Request, host: bytes, known_host: KnownHost) -> bool:
        """Whether a check may find something in a request by a host."""
        return self._has_foreign_checks or may_fail(request, host, known_host.canonical)

    def _find_uris(
        self, case: Case, host: bytes | None, known_host: KnownHost, form: Parts, *, is_first: bool
    ) -> list[Match]:
        """The hashed URIs that fit one form of the target; as requested, too, by a host.

        They have their own canonical form. One that fits only another path interpretation must not allow the request.
        """
        request = case.request
        if known_host.is_name and request.userinfo is None and request.fragment is None and request.scheme in WEB:
            canonical, sent = (form.path, form.query), None if host is None else _sent_target(request)
            targets = (canonical,) if sent is None or sent == canonical else (canonical, sent)
            matches = self._index.find_web_uris(request.scheme, known_host.canonical, request.port, targets, sent)
        else:
            uris = () if host is None else _sent_uris(request, host, known_host.canonical)
            matches = self._index.find_uris(_uris(request, known_host.canonical, form, uris), case.memo, uris)
        return _without_allows(known_host, matches, is_first=is_first) if matches else matches

    def _by_redirect(
        self,
        memory: RedirectMemory,
        case: Case,
        known_host: KnownHost,
        form: Parts,
        matches: Sequence[Match],
        *,
        is_first: bool,
    ) -> list[Match]:
        """Further matches of the path with or without its slash, if the origin has redirected between the two."""
        request = case.request
        twin = (
            slash_twin(form.path)
            if memory.knows((request.scheme, known_host.canonical, request.port), form.path)
            else None
        )
        if twin is None:
            return []
        rules = {match.rule for match in (*known_host.host.matches, *matches)}
        twins = [*self._index.find_paths(known_host.host, twin, form.query)]
        if self._index.has_uris:
            twins += self._find_uris(case, None, known_host, form._replace(path=twin), is_first=is_first)
        return [match._replace(via=_VIA) for match in twins if match.rule not in rules]


_VIA = "rung protocol: its origin redirects between this path with and without a trailing slash"


def _checked_request(request: Request, host: bytes) -> CheckedRequest:
    names = request.hosts
    if request.destination is not None:
        names = tuple(name for name in names if name != request.destination)
    return CheckedRequest(
        request.scheme, host, request.port, request.target, request.userinfo, request.media, names, request.leads
    )


def _sent_target(request: Request) -> Target:
    """Path and query as they were sent."""
    path, mark, query = request.target.partition(b"?")
    return path, query if mark else None


def _sent_uris(request: Request, host: bytes, canonical: bytes) -> Sequence[Parts]:
    """The URIs of a request as it was sent, by a host as it was sent and by its canonical name."""
    path, query = _sent_target(request)
    sent_name, port = split_web_authority(host)[1], _port(request)
    names = (sent_name,) if sent_name == canonical else (sent_name, canonical)
    uris = [Parts(request.scheme, None, name, port, path, query, request.fragment) for name in names]
    return uris if request.userinfo is None else [*uris, *(uri._replace(userinfo=request.userinfo) for uri in uris)]


def _port(request: Request) -> bytes | None:
    return None if request.port == DEFAULT_PORTS.get(request.scheme.lower(), 0) else b"%d" % request.port


def _uris(request: Request, canonical: bytes, form: Parts, sent: Sequence[Parts]) -> list[Parts]:
    """The URIs that a list's author may have hashed, with the request's port: canonical; as they were sent."""
    as_canonical = Parts(form.scheme, None, canonical, _port(request), form.path, form.query, request.fragment)
    uris = (
        [as_canonical] if request.userinfo is None else [as_canonical, as_canonical._replace(userinfo=request.userinfo)]
    )
    return [*uris, *(uri for uri in sent if uri not in uris)]


def _without_allows(known_host: KnownHost, matches: list[Match], *, is_first: bool) -> list[Match]:
    """Hashed URIs without those that allow, but fit only another path interpretation, or the URL as it was sent: what
    a canonical form blocks, no other spelling opens (reading 32)."""
    if is_first and all(match.via is None for match in matches):
        return matches
    return [match for match in matches if (is_first and match.via is None) or not known_host.view.allows(match)]
