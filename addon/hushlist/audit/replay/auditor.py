"""Decides records by the engine, and counts the decisions.

Most records cost only a few look-ups, since two things are cached: the counters of each URL, and those of each decision
(other URLs with the same matches share it). Equal cases are counted together, and added to the tally when a chunk ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from time import perf_counter_ns
from typing import NamedTuple, TypeAlias, TypeVar

from hushlist.audit.replay.tally import (
    MOST_SLOWEST,
    POPULAR,
    AuditTally,
    Hits,
    ListKey,
    RecordCounter,
    RuleKey,
    SlowDecision,
    is_local,
)
from hushlist.audit.sources.recorded_request import RecordedRequest, ResourceType, digest
from hushlist.decide.decision import STOPPING, Decision
from hushlist.decide.engine import Engine
from hushlist.errors import UrlError
from hushlist.match.expressions import host_suffixes
from hushlist.match.index import Match
from hushlist.match.public_suffixes import public_suffixes
from hushlist.policy.groups import Client
from hushlist.system.memory import BoundedCache
from hushlist.url.host import is_plain_name
from hushlist.url.request import PLAIN_URL, Request, canonical_host, request_of

#: URLs whose decisions are cached
_MOST_URLS = 1 << 15
#: hosts and pages whose sites are cached
_MOST_HOSTS = 1 << 14
#: decisions whose effects are cached
_MOST_EFFECTS = 1 << 14
#: different cases that are counted before they are added to the tally
_MOST_CASES = 1 << 14


def decide_recorded(engine: Engine, asked: bytes | Request, now: datetime | None, client: Client) -> Decision:
    """The engine's decision for a record's URL or request."""
    if isinstance(asked, bytes):
        return engine.decide_url(asked, now, client)
    return engine.decide(asked, now, client)


@dataclass(frozen=True, slots=True)
class ReplayMoment:
    """For which client and at which time records are decided."""

    at: datetime
    client: Client
    #: whether to use a record's own client and time, if it has them
    as_recorded: bool = False

    def of(self, record: RecordedRequest) -> tuple[datetime, Client]:
        """Time and client for a record."""
        if not self.as_recorded:
            return self.at, self.client
        own = record.client
        client = Client(own.address or self.client.address, own.user or self.client.user, own.port or self.client.port)
        return self.at if record.time is None else datetime.fromtimestamp(record.time, UTC), client


@dataclass(frozen=True, slots=True, eq=False)
class _SiteOfHost:
    """The site and the popular domain of a host."""

    #: ``None`` if there is no readable host
    site: str | None
    #: the popular domain that the host is, or is below
    popular: str | None


class _MatchKeys(NamedTuple):
    """The keys that a match is counted under."""

    rule: RuleKey
    list: ListKey
    category: str


class _CountedKeys(NamedTuple):
    """The keys that some matches are counted under, each once."""

    rules: tuple[RuleKey, ...]
    lists: tuple[ListKey, ...]
    categories: tuple[str, ...]


_Key = TypeVar("_Key")


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
    names: _CountedKeys
    #: a record with a larger hash cannot be an example of these
    bar: int = 1 << 64

    def is_of(self, decision: Decision) -> bool:
        """Whether that decision certainly has the same effect."""
        own = self.decision
        return (
            own.matches is decision.matches
            and own.winner is decision.winner
            and own.action is decision.action
            and own.fault == decision.fault
        )


#: requests of one case are counted alike; with their resource type, and whether they break a page
_Case: TypeAlias = "tuple[_SiteOfHost, _CountedDecision, ResourceType, bool]"


class Auditor(RecordCounter[AuditTally]):
    """See the module."""

    def __init__(self, engine: Engine, moment: ReplayMoment, popular: Mapping[bytes, int] | None = None) -> None:
        """``popular``: ranks of popular domains."""
        super().__init__(AuditTally())
        self._engine, self._moment = engine, moment
        self._popular = popular or {}
        self._verdicts = BoundedCache(self._verdict, _MOST_URLS)
        self._pages = BoundedCache(site_of_url, _MOST_HOSTS)
        self._places = BoundedCache(self._place, _MOST_HOSTS)
        self._plain_places = BoundedCache(self._plain_place, _MOST_HOSTS)
        self._effects: dict[int, _CountedDecision] = {}
        #: how often each case occurred; not in the tally yet
        self._cases: dict[_Case, int] = {}
        #: duration of the last decision in microseconds, and the longest duration that is too short to be kept
        self._took, self._quick = 0, 0

    def _count(self, record: RecordedRequest) -> bool:
        """Count a record if a proxy would see it."""
        if self._moment.as_recorded:
            verdict = self._decide(record.asked, *self._moment.of(record))
        else:
            verdict = self._verdicts[record.asked]
        if verdict is None:
            return False
        if self._took > self._quick:
            self._see_time(record)
        place, effect = verdict
        is_broken = False
        if effect.fits or effect.is_stopped:
            is_broken = effect.is_stopped and self._breaks(record, place.site)
            self._take_examples(record, place, effect, is_broken=is_broken)
        case = (place, effect, record.kind, is_broken)
        cases = self._cases
        cases[case] = cases.get(case, 0) + 1
        if len(cases) >= _MOST_CASES:
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
        effect.bar = max(
            (
                examples.add(name, example)
                for examples, names in (
                    (tally.rule_examples, effect.names.rules),
                    (tally.list_examples, effect.names.lists),
                    (tally.category_examples, effect.names.categories),
                )
                for name in names
            ),
            default=0,
        )

    def _see_time(self, record: RecordedRequest) -> None:
        tally = self.tally
        tally.add_slow([SlowDecision(self._took, record)])
        self._took = 0
        if len(tally.slowest) == MOST_SLOWEST:
            self._quick = tally.slowest[-1].microseconds

    # -- counting --------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Add all cases to the tally."""
        for (place, effect, kind, is_broken), number in self._cases.items():
            self._tally(place, effect, kind.value, number)
            if effect.is_stopped:
                self._tally_stopped(place, effect, kind.value, number)
            if is_broken:
                self._tally_broken(place, effect, kind.value, number)
        self._cases.clear()

    def _tally(self, place: _SiteOfHost, effect: _CountedDecision, kind: str, number: int) -> None:
        tally = self.tally
        tally.actions[effect.action] += number
        tally.kinds[kind] += number
        if place.site is not None:
            tally.sites.add(place.site, number)
        for hits in effect.fits:
            hits.fits += number
        for hits in effect.decided:
            hits.decided += number
        if effect.decision.fault is not None:
            tally.faults[effect.decision.fault] += number

    def _tally_stopped(self, place: _SiteOfHost, effect: _CountedDecision, kind: str, number: int) -> None:
        tally = self.tally
        tally.stopped_kinds[kind] += number
        for hits in effect.decided:
            hits.stopped += number
        for hits in effect.alone:
            hits.alone += number
        for pair in effect.pairs:
            tally.overlaps[pair] += number
        if place.site is not None:
            tally.stopped_sites.add(place.site, number)
        if place.popular is not None:
            tally.popular[place.popular] += number
            tally.popular_ranks[place.popular] = self._popular[place.popular.encode()]
            for hits in effect.decided:
                hits.popular += number

    def _tally_broken(self, place: _SiteOfHost, effect: _CountedDecision, kind: str, number: int) -> None:
        tally = self.tally
        tally.breaks[kind] += number
        tally.broken_sites.add(place.site or "", number)
        for hits in effect.decided:
            hits.breaks += number

    # -- deciding --------------------------------------------------------------------------------------------------

    def _verdict(self, asked: bytes | Request) -> tuple[_SiteOfHost, _CountedDecision] | None:
        return self._decide(asked, self._moment.at, self._moment.client)

    def _decide(
        self, asked: bytes | Request, now: datetime, client: Client
    ) -> tuple[_SiteOfHost, _CountedDecision] | None:
        """Its site, and the effect of its decision; ``None`` if no proxy would see it."""
        place: _SiteOfHost | None = None
        if isinstance(asked, bytes):
            plain = PLAIN_URL.match(asked)
            if plain is not None:
                place = self._plain_places[plain[2]]
            elif is_local(asked):
                return None
        start = perf_counter_ns()
        decision = decide_recorded(self._engine, asked, now, client)
        self._took = max(1, (perf_counter_ns() - start) // 1000)
        if place is None:
            place = self._places[host_of_url(decision.url)]
        return place, self._effect(decision)

    def _plain_place(self, host: bytes) -> _SiteOfHost | None:
        """The site of a host that is already canonical."""
        return self._place(host) if is_plain_name(host) else None

    def _place(self, host: bytes | None) -> _SiteOfHost:
        if host is None:
            return _SiteOfHost(None, None)
        return _SiteOfHost(_site_of_host(host), self._most_popular(host) if self._popular else None)

    def _effect(self, decision: Decision) -> _CountedDecision:
        """The counters of a decision."""
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
        keys = [_keys_of(match) for match in matches]
        fits = _each(keys)
        stopping = [own for own, match in zip(keys, matches, strict=True) if match.rule.terms.action in STOPPING]
        alone = _each(stopping if is_stopped else [])
        would_stop = sorted(alone.lists)
        self.tally.rule_categories.update((own.rule, own.category) for own in keys if own.category)
        return _CountedDecision(
            decision,
            decision.action.value,
            is_stopped,
            self._hits(fits),
            () if winner is None else self._hits(_each([keys[matches.index(winner)]])),
            self._hits(_CountedKeys(_only(alone.rules), _only(alone.lists), _only(alone.categories))),
            tuple((first, second) for place, first in enumerate(would_stop) for second in would_stop[place + 1 :]),
            fits,
        )

    def _hits(self, some: _CountedKeys) -> tuple[Hits, ...]:
        """The numbers for these keys; new ones if there are none."""
        tally = self.tally
        return (
            *(tally.rules.setdefault(rule, Hits()) for rule in some.rules),
            *(tally.lists.setdefault(own, Hits()) for own in some.lists),
            *(tally.categories.setdefault(category, Hits()) for category in some.categories),
        )

    def _most_popular(self, host: bytes) -> str | None:
        """The most popular domain that the host is, or is below."""
        above = (name for name in host_suffixes(host, deepest=host.count(b".") + 1) if name in self._popular)
        best = min(above, key=self._popular.__getitem__, default=None)
        return None if best is None else best.decode("ascii", "backslashreplace")


def _only(some: tuple[_Key, ...]) -> tuple[_Key, ...]:
    """The only key; empty if there are several."""
    return some if len(some) == 1 else ()


def _each(keys: list[_MatchKeys]) -> _CountedKeys:
    """The rules, lists and categories, each once."""
    rules, lists, categories = zip(*keys, strict=True) if keys else ((), (), ())
    return _CountedKeys(tuple(dict.fromkeys(rules)), tuple(dict.fromkeys(lists)), tuple(dict.fromkeys(categories)))


def rule_of(match: Match) -> RuleKey:
    """The rule of a match."""
    pattern, terms, line = match.rule
    return RuleKey(terms.list, terms.source, line, str(pattern))


def _keys_of(match: Match) -> _MatchKeys:
    rule = rule_of(match)
    return _MatchKeys(rule, rule.of_list, match.rule.terms.category or "")


# -- sites -------------------------------------------------------------------------------------------------------------


def host_of_url(url: bytes) -> bytes | None:
    """The canonical host of a URL, or ``None`` where it names none."""
    plain = PLAIN_URL.match(url)
    if plain is not None and is_plain_name(plain[2]):
        return plain[2]
    try:
        return canonical_host(request_of(url).hosts[0])
    except UrlError:
        return None


def _site_of_host(host: bytes) -> str:
    """The site of a host: the registrable domain, or the address."""
    return public_suffixes().registrable_domain(host).decode("ascii", "backslashreplace")


def site_of_url(url: bytes) -> str | None:
    """The site of a URL, or ``None`` where it names no host."""
    host = host_of_url(url)
    return None if host is None else _site_of_host(host)
