"""Decides records by the engine, and counts the decisions.

Most records cost only a few look-ups, since two things are cached: the counters of each URL, and those of each decision
(other URLs with the same matches share it). Equal cases are counted together, and added to the tally when a chunk ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain, combinations
from time import perf_counter_ns
from typing import TypeAlias, cast

from hushlist.core.decide.decision import STOPPING, Decision
from hushlist.core.decide.engine import Engine
from hushlist.core.decide.facts import DecidedByFacts, decide_by_facts
from hushlist.core.errors import UrlError
from hushlist.core.extension import extensions_named
from hushlist.core.match.expressions import host_suffixes
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.groups import Client
from hushlist.core.system.memory import BoundedCache
from hushlist.core.url.host import is_plain_name
from hushlist.core.url.request import PLAIN_URL, Request, StatedContext, request_of
from hushlist.tools.audit.replay.decryption import DistinctNames, TlsHost, TlsKey, tls_host
from hushlist.tools.audit.replay.tally import (
    MOST_PAGES,
    MOST_SLOWEST,
    POPULAR,
    AuditTally,
    HeavyHitters,
    HitKey,
    Hits,
    ListKey,
    RecordCounter,
    RuleKey,
    SlowDecision,
    is_local,
)
from hushlist.tools.audit.sites import host_of_url, page_name, site_of_host, site_of_url
from hushlist.tools.audit.sources.recorded_request import RecordedRequest, ResourceType, digest
from hushlist.tools.audit.third_parties import Places, places_at, role_at

#: URLs whose decisions are cached
_MOST_URLS = 1 << 15
#: hosts and pages whose sites are cached
_MOST_HOSTS = 1 << 14
#: decisions whose effects are cached
_MOST_EFFECTS = 1 << 14
#: different cases that are counted before they are added to the tally
_MOST_CASES = 1 << 14


def decide_recorded(
    engine: Engine, request: bytes | Request, now: datetime | None, client: Client, context: StatedContext | None = None
) -> Decision:
    """The engine's decision for a record's URL or request; ``told``: who asks for a URL, and what for."""
    if isinstance(request, bytes):
        return engine.decide_url(request, now, client, context)
    return engine.decide(request, now, client)


def decide_seen(
    engine: Engine, record: RecordedRequest, decision: Decision, now: datetime, client: Client
) -> DecidedByFacts:
    """The decision for a record, after that for its request: by its answer, and by each file in its body."""
    doubts, changes = list[str](), list[str]()
    if decision.fault is None:
        request = request_of(record.request, record.context) if isinstance(record.request, bytes) else record.request
        for facts in record.seen:
            if decision.action in STOPPING:
                break
            said = decide_by_facts(engine, request, decision, now, client, facts)
            decision = said.decision
            doubts += said.doubts if decision.action not in STOPPING else ()
            changes += said.changes
    # whoever is stopped gets no answer, whatever its head would be
    changed = () if decision.action in STOPPING else tuple(dict.fromkeys(changes))
    return DecidedByFacts(decision, (), tuple(doubts), changed)


@dataclass(frozen=True, slots=True)
class ReplayMoment:
    """For which client and at which time records are decided."""

    at: datetime
    client: Client
    #: whether to use a record's own client and time, if it has them
    as_recorded: bool = False

    def of(self, record: RecordedRequest) -> tuple[datetime, Client]:
        if not self.as_recorded:
            return self.at, self.client
        recorded = record.client
        client = Client(
            recorded.address or self.client.address,
            recorded.user or self.client.user,
            recorded.port or self.client.port,
        )
        return self.at if record.time is None else datetime.fromtimestamp(record.time, UTC), client


@dataclass(frozen=True, slots=True, eq=False)
class _SiteOfHost:
    #: ``None`` if there is no readable host
    site: str | None
    #: the popular domain that the host is, or is below
    popular: str | None
    #: what there is of third parties that people notice
    parties: Places = ()


@dataclass(slots=True, eq=False)
class _CountedDecision:
    """The counters of a decision, whatever the URL; found by identity, since few decisions come again and again."""

    decision: Decision
    action: str
    is_stopped: bool
    #: hits of rules, lists and categories that fit, that decided, and that alone would stop the request
    fits: tuple[Hits, ...]
    decided: tuple[Hits, ...]
    alone: tuple[Hits, ...]
    pairs: tuple[tuple[ListKey, ListKey], ...]
    #: the keys of all that fits
    keys: tuple[HitKey, ...]
    #: a record with a larger hash cannot be an example of these
    bar: int = 1 << 64

    def is_of(self, decision: Decision) -> bool:
        """Whether that decision certainly has the same effect."""
        counted = self.decision
        return (
            counted.matches is decision.matches
            and counted.winner is decision.winner
            and counted.action is decision.action
            and counted.fault == decision.fault
        )


#: requests of one case are counted alike; with their resource type, whether they break a page, and their https
_Case: TypeAlias = "tuple[_SiteOfHost, _CountedDecision, ResourceType, bool, TlsHost | None]"


class Auditor(RecordCounter[AuditTally]):
    def __init__(self, engine: Engine, moment: ReplayMoment, popular: Mapping[bytes, int] | None = None) -> None:
        """``popular``: ranks of popular domains."""
        super().__init__(AuditTally())
        self._engine, self._moment = engine, moment
        self._popular = popular or {}
        self._looks_at_files = any(each.explainer for each in extensions_named(engine.policy.extensions))
        self._verdicts = BoundedCache(partial(self._decide, now=moment.at, client=moment.client), _MOST_URLS)
        self._pages = BoundedCache(site_of_url, _MOST_HOSTS)
        self._places = BoundedCache(self._place, _MOST_HOSTS)
        #: by names and port
        self._tls = BoundedCache(partial(tls_host, engine, now=moment.at, client=moment.client), _MOST_HOSTS)
        #: each with its page and client; not in the tally yet
        self._connections: set[tuple[TlsHost, bytes | None, str]] = set()
        self._effects: dict[int, _CountedDecision] = {}
        #: how often each case occurred; not in the tally yet
        self._cases: dict[_Case, int] = {}
        #: duration of the last decision in microseconds, and the longest duration that is too short to be kept
        self._took, self._quick = 0, 0

    def _count(self, record: RecordedRequest) -> bool:
        if self._moment.as_recorded or self._engine.index.filters:
            verdict = self._decide(record.request, *self._moment.of(record), record.context)
        else:
            verdict = self._verdicts[record.request]
        if verdict is None:
            return False
        if self._took > self._quick:
            self._see_time(record)
        place, effect, tls = verdict
        if record.seen and not effect.is_stopped and self._looks_at_files:
            said = decide_seen(self._engine, record, effect.decision.of(record.request), *self._moment.of(record))
            self.tally.doubts.update(said.doubts)
            self.tally.changes.update(said.changes)
            effect = effect if said.decision.winner is effect.decision.winner else self._effect(said.decision)
        is_broken = False
        if effect.fits or effect.is_stopped:
            is_broken = effect.is_stopped and self._breaks(record, place.site)
            self._take_examples(record, place, effect, is_broken=is_broken)
            if effect.is_stopped and place.parties:
                self._see_third_party(record, place, effect)
        case = (place, effect, record.kind, is_broken, tls)
        cases = self._cases
        cases[case] = cases.get(case, 0) + 1
        if tls is not None:
            self._connections.add((tls, record.page, record.client.address))
        if max(len(cases), len(self._connections)) >= _MOST_CASES:
            self._settle()
        return True

    def _breaks(self, record: RecordedRequest, site: str | None) -> bool:
        """Whether stopping it breaks a page: it is a document, or a script or style of the page's own site."""
        kind = record.kind
        if kind is ResourceType.DOCUMENT:
            return True
        if kind is not ResourceType.SCRIPT and kind is not ResourceType.STYLE:
            return False
        return record.page is not None and site is not None and self._pages[record.page] == site

    def _see_third_party(self, record: RecordedRequest, place: _SiteOfHost, effect: _CountedDecision) -> None:
        """Count what is stopped of another site that a page is known to use."""
        winner = effect.decision.winner
        if winner is None or record.page is None or record.kind is ResourceType.DOCUMENT:
            return
        role = role_at(place.parties, record.url)
        if role is None or self._pages[record.page] in (None, place.site):
            return
        key = role, rule_of(winner).of_list
        tally = self.tally
        tally.parties[key] += 1
        tally.party_pages.setdefault(key, HeavyHitters(MOST_PAGES)).add(page_name(record.page))
        tally.other_examples.add(key, record.ranked)

    def _take_examples(
        self, record: RecordedRequest, place: _SiteOfHost, effect: _CountedDecision, *, is_broken: bool
    ) -> None:
        tally = self.tally
        is_popular = effect.is_stopped and place.popular is not None
        if is_broken or is_popular:
            example = record.ranked
            if is_broken:
                tally.break_examples.add(record.kind.value, example)
            if is_popular:
                tally.break_examples.add(POPULAR, example)
        if digest(record.url) > effect.bar:
            return
        example = record.ranked
        effect.bar = max((tally.examples_of(key).add(key, example) for key in effect.keys), default=0)

    def _see_time(self, record: RecordedRequest) -> None:
        tally = self.tally
        tally.add_slow([SlowDecision(self._took, record)])
        self._took = 0
        if len(tally.slowest) == MOST_SLOWEST:
            self._quick = tally.slowest[-1].microseconds

    # -- counting --------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        for case, number in self._cases.items():
            self._tally(*case, number)
        self._cases.clear()
        for use in {tls.use for tls, _, _ in self._connections}:
            connections = [(tls, page, client) for tls, page, client in self._connections if tls.use is use]
            hosts = {name for tls, _, _ in connections for name in tls.names}
            self.tally.tls_hosts.setdefault(use, DistinctNames()).add(hosts)
            names = (
                b"%s %d %s %s" % (b" ".join(tls.names), tls.port, page or b"", client.encode("utf-8", "replace"))
                for tls, page, client in connections
            )
            self.tally.tls_connections.setdefault(use, DistinctNames()).add(names)
        self._connections.clear()

    def _tally(
        self,
        place: _SiteOfHost,
        effect: _CountedDecision,
        kind: ResourceType,
        is_broken: bool,
        tls: TlsHost | None,
        number: int,
    ) -> None:
        tally = self.tally
        tally.actions[effect.action] += number
        tally.kinds[kind.value] += number
        if effect.decision.fault is not None:
            tally.faults[effect.decision.fault] += number
        for hits in effect.fits:
            hits.fits += number
        if place.site is not None:
            tally.sites.add(place.site, number)
        if effect.is_stopped:
            tally.stopped_kinds[kind.value] += number
            for hits in effect.alone:
                hits.alone += number
            for pair in effect.pairs:
                tally.overlaps[pair] += number
            if place.site is not None:
                tally.stopped_sites.add(place.site, number)
            if place.popular is not None:
                tally.popular[place.popular] += number
                tally.popular_ranks[place.popular] = self._popular[place.popular.encode()]
        if is_broken:
            tally.breaks[kind.value] += number
            tally.broken_sites.add(place.site or "", number)
        if tls is not None:
            tally.tls_requests[tls.use] += number
            tally.tls_otherwise[tls.use] += number * (tls.is_stopped is not effect.is_stopped)
        for hits in effect.decided:
            hits.decided += number
            hits.stopped += number * effect.is_stopped
            hits.popular += number * (effect.is_stopped and place.popular is not None)
            hits.breaks += number * is_broken

    # -- deciding --------------------------------------------------------------------------------------------------

    def _decide(
        self, request: bytes | Request, now: datetime, client: Client, context: StatedContext | None = None
    ) -> tuple[_SiteOfHost, _CountedDecision, TlsHost | None] | None:
        """Its site, the effect of its decision, and its https; ``None`` if no proxy would see it."""
        place: _SiteOfHost | None = None
        if isinstance(request, bytes):
            plain = PLAIN_URL.match(request)
            if plain is not None and is_plain_name(plain[2]):
                place = self._places[plain[2]]
            elif plain is None and is_local(request):
                return None
        start = perf_counter_ns()
        decision = decide_recorded(self._engine, request, now, client, context)
        self._took = max(1, (perf_counter_ns() - start) // 1000)
        if place is None:
            place = self._places[host_of_url(decision.url)]
        key = _tls_key(request)
        if key is None:
            return place, self._effect(decision), None
        tls = tls_host(self._engine, key, now, client) if self._moment.as_recorded else self._tls[key]
        return place, self._effect(decision), tls

    def _place(self, host: bytes | None) -> _SiteOfHost:
        if host is None:
            return _SiteOfHost(None, None)
        popular = self._most_popular(host) if self._popular else None
        return _SiteOfHost(site_of_host(host), popular, places_at(host))

    def _effect(self, decision: Decision) -> _CountedDecision:
        # Nearly all decisions share their matches, since a host's matches are cached. An effect holds them, so that
        # no other object can get their identity.
        key = id(decision.matches)
        effect = self._effects.get(key)
        if effect is None or not effect.is_of(decision):
            if len(self._effects) >= _MOST_EFFECTS:
                self._effects.clear()
            effect = self._effects[key] = self._new_effect(decision)
        return effect

    def _new_effect(self, decision: Decision) -> _CountedDecision:
        matches, winner = decision.matches, decision.winner
        is_stopped = decision.action in STOPPING
        rows = [_keys_of(match) for match in matches]
        stopping = [row for row, match in zip(rows, matches, strict=True) if match.rule.terms.action in STOPPING]
        columns = [set(column) for column in zip(*stopping, strict=True)] if is_stopped else []
        would_stop = sorted({of_list for _, of_list, _ in stopping}) if is_stopped else []
        self.tally.rule_categories.update((rule, category) for rule, _, category in rows if category)
        keys = tuple(dict.fromkeys(cast(Iterator[HitKey], chain.from_iterable(rows))))
        return _CountedDecision(
            decision,
            decision.action.value,
            is_stopped,
            self._hits(keys),
            () if winner is None else self._hits(rows[matches.index(winner)]),
            self._hits(key for column in columns if len(column) == 1 for key in column),
            tuple(combinations(would_stop, 2)),
            keys,
        )

    def _hits(self, keys: Iterable[HitKey]) -> tuple[Hits, ...]:
        """The numbers for these keys; new ones if there are none."""
        return tuple(self.tally.hits.setdefault(key, Hits()) for key in keys)

    def _most_popular(self, host: bytes) -> str | None:
        """The most popular domain that the host is, or is below."""
        above = (name for name in host_suffixes(host, deepest=host.count(b".") + 1) if name in self._popular)
        best = min(above, key=self._popular.__getitem__, default=None)
        return None if best is None else best.decode("ascii", "backslashreplace")


def rule_of(match: Match) -> RuleKey:
    pattern, terms, line = match.rule
    return RuleKey(terms.list, terms.source, line, str(pattern))


def _keys_of(match: Match) -> tuple[RuleKey, ListKey, str]:
    """What a match is counted for: its rule, list and category."""
    rule = rule_of(match)
    return rule, rule.of_list, match.rule.terms.category or ""


def _tls_key(request: bytes | Request) -> TlsKey | None:
    """The names and the port of https; ``None`` for anything else."""
    if isinstance(request, bytes):
        if (plain := PLAIN_URL.match(request)) is not None:
            port = int(request[plain.end(2) + 1 : plain.end()] or 443)
            return ((plain[2],), port) if plain[1] == b"https://" else None
        try:
            request = request_of(request)
        except UrlError:
            return None
    return (request.hosts, request.port) if request.scheme in (b"https", b"wss") else None
