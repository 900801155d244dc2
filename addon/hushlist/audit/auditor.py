"""Decides records by the engine, and tallies what comes of it.

Records with a URL that was asked for lately cost a look-up: what it counts for is remembered with its decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from time import perf_counter_ns
from typing import TypeVar

from hushlist.audit.counting import Counting
from hushlist.audit.record import Kind, Record
from hushlist.audit.tally import MOST_SLOWEST, POPULAR, Hits, ListKey, RuleKey, Slow, Tally
from hushlist.engine import Engine
from hushlist.errors import UrlError
from hushlist.match.expressions import host_suffixes
from hushlist.match.index import Match
from hushlist.match.public_suffixes import public_suffixes
from hushlist.match.recent import Recent
from hushlist.policy.decision import STOPPING, Decision
from hushlist.policy.groups import Client
from hushlist.url.host import is_plain_name
from hushlist.url.request import PLAIN_URL, Request, canonical_host, request_of

#: URLs whose decisions are remembered
_MOST_URLS = 1 << 15
_MOST_PAGES = 1 << 14


def decide(engine: Engine, asked: bytes | Request, now: datetime | None, client: Client) -> Decision:
    """The engine's decision for what a record asks."""
    if isinstance(asked, bytes):
        return engine.decide_url(asked, now, client)
    return engine.decide(asked, now, client)


@dataclass(frozen=True, slots=True)
class Moment:
    """For whom and when records are decided."""

    at: datetime
    client: Client
    #: each with its own client and time, where it has them
    as_recorded: bool = False

    def of(self, record: Record) -> tuple[datetime, Client]:
        """For a record."""
        if not self.as_recorded:
            return self.at, self.client
        own = record.client
        client = Client(own.address or self.client.address, own.user or self.client.user, own.port or self.client.port)
        return self.at if record.time is None else datetime.fromtimestamp(record.time, UTC), client


@dataclass(slots=True)
class _Verdict:
    """A decision, and what it counts for."""

    decision: Decision
    action: str
    is_stopped: bool
    #: site of the canonical URL, and the popular domain that it is, or is below
    site: str | None
    popular: str | None
    #: hits of rules, lists and categories that fit, that decided, and that alone would stop it
    fits: tuple[Hits, ...]
    decided: tuple[Hits, ...]
    alone: tuple[Hits, ...]
    pairs: tuple[tuple[ListKey, ListKey], ...]
    rules: tuple[RuleKey, ...]
    lists: tuple[ListKey, ...]
    categories: tuple[str, ...]
    #: how long the decision took; 0 once that was seen
    microseconds: int


class Auditor(Counting[Tally]):
    """See the module."""

    def __init__(self, engine: Engine, moment: Moment, popular: Mapping[bytes, int] | None = None) -> None:
        """``popular``: ranks of popular domains."""
        super().__init__(Tally())
        self._engine, self._moment = engine, moment
        self._popular = popular or {}
        self._verdicts = Recent(self._verdict, _MOST_URLS)
        self._pages = Recent(site_of_url, _MOST_PAGES)
        self._sites = Recent(_site_of_host, _MOST_PAGES)

    def _count(self, record: Record) -> None:
        tally = self.tally
        if self._moment.as_recorded:
            verdict = self._decide(record.asked, *self._moment.of(record))
        else:
            verdict = self._verdicts[record.asked]
        if verdict.microseconds:
            self._see_time(record, verdict)
        kind = record.kind.value
        tally.actions[verdict.action] += 1
        tally.kinds[kind] += 1
        if verdict.site is not None:
            tally.sites.add(verdict.site)
        for hits in verdict.fits:
            hits.fits += 1
        for hits in verdict.decided:
            hits.decided += 1
        if verdict.decision.fault is not None:
            tally.faults[verdict.decision.fault] += 1
        if verdict.fits or verdict.is_stopped:
            is_broken = verdict.is_stopped and self._count_stopped(record, verdict, kind)
            self._take_examples(record, verdict, kind if is_broken else None)

    def _count_stopped(self, record: Record, verdict: _Verdict, kind: str) -> bool:
        """Count a request that is stopped; whether that breaks a page."""
        tally = self.tally
        tally.stopped_kinds[kind] += 1
        for hits in verdict.decided:
            hits.stopped += 1
        for hits in verdict.alone:
            hits.alone += 1
        for pair in verdict.pairs:
            tally.overlaps[pair] += 1
        if verdict.site is not None:
            tally.stopped_sites.add(verdict.site)
        if verdict.popular is not None:
            tally.popular[verdict.popular] += 1
            for hits in verdict.decided:
                hits.popular += 1
        page = self._broken_page(record, verdict)
        if page is None:
            return False
        tally.breaks[kind] += 1
        tally.broken_sites.add(page)
        for hits in verdict.decided:
            hits.breaks += 1
        return True

    def _broken_page(self, record: Record, verdict: _Verdict) -> str | None:
        """The site whose page breaks: that of a document, or of a page that has the script or style itself."""
        site = verdict.site
        if record.kind is Kind.DOCUMENT:
            return site or ""
        if record.kind not in (Kind.SCRIPT, Kind.STYLE) or record.page is None or site is None:
            return None
        return site if self._pages[record.page] == site else None

    def _take_examples(self, record: Record, verdict: _Verdict, broken: str | None) -> None:
        tally, example = self.tally, record.ranked
        for rule in verdict.rules:
            tally.rule_examples.add(rule, example)
        for own in verdict.lists:
            tally.list_examples.add(own, example)
        for category in verdict.categories:
            tally.category_examples.add(category, example)
        if broken is not None:
            tally.break_examples.add(broken, example)
        if verdict.is_stopped and verdict.popular is not None:
            tally.break_examples.add(POPULAR, example)

    def _see_time(self, record: Record, verdict: _Verdict) -> None:
        slowest = self.tally.slowest
        if len(slowest) < MOST_SLOWEST or slowest[-1].microseconds < verdict.microseconds:
            self.tally.add_slow([Slow(verdict.microseconds, record)])
        verdict.microseconds = 0

    # -- deciding --------------------------------------------------------------------------------------------------

    def _verdict(self, asked: bytes | Request) -> _Verdict:
        return self._decide(asked, self._moment.at, self._moment.client)

    def _decide(self, asked: bytes | Request, now: datetime, client: Client) -> _Verdict:
        start = perf_counter_ns()
        decision = decide(self._engine, asked, now, client)
        microseconds = (perf_counter_ns() - start) // 1000
        is_stopped = decision.action in STOPPING
        host = host_of(decision.url)
        popular = self._most_popular(host) if is_stopped and host and self._popular else None
        rules = tuple(dict.fromkeys(rule_of(match) for match in decision.matches))
        lists = tuple(dict.fromkeys(_list(match) for match in decision.matches))
        categories = tuple(dict.fromkeys(_category(match) for match in decision.matches))
        stopping = [match for match in decision.matches if match.rule.terms.action in STOPPING] if is_stopped else []
        would_stop = sorted({_list(match) for match in stopping})
        winner = decision.winner
        self._note(decision)
        return _Verdict(
            decision,
            decision.action.value,
            is_stopped,
            None if host is None else self._sites[host],
            popular,
            tuple(self._hits(rules, lists, categories)),
            () if winner is None else tuple(self._hits([rule_of(winner)], [_list(winner)], [_category(winner)])),
            tuple(
                self._hits(
                    _only({rule_of(match) for match in stopping}),
                    _only(would_stop),
                    _only({_category(match) for match in stopping}),
                )
            ),
            tuple((first, second) for place, first in enumerate(would_stop) for second in would_stop[place + 1 :]),
            rules,
            lists,
            categories,
            max(1, microseconds),
        )

    def _hits(self, rules: Iterable[RuleKey], lists: Iterable[ListKey], categories: Iterable[str]) -> Iterator[Hits]:
        """The numbers of these, made where there are none."""
        tally = self.tally
        for rule in rules:
            yield tally.rules.setdefault(rule, Hits())
        for own in lists:
            yield tally.lists.setdefault(own, Hits())
        for category in categories:
            yield tally.categories.setdefault(category, Hits())

    def _note(self, decision: Decision) -> None:
        """Take note of the rules' categories."""
        for match in decision.matches:
            category = match.rule.terms.category
            if category is not None:
                self.tally.rule_categories[rule_of(match)] = category

    def _most_popular(self, host: bytes) -> str | None:
        """The most popular domain that a host is, or is below."""
        above = (name for name in host_suffixes(host, deepest=host.count(b".") + 1) if name in self._popular)
        best = min(above, key=self._popular.__getitem__, default=None)
        return None if best is None else best.decode("ascii", "backslashreplace")


_Thing = TypeVar("_Thing")


def _only(some: Iterable[_Thing]) -> list[_Thing]:
    """The one thing that there is; nothing where there are more."""
    found = list(some)
    return found if len(found) == 1 else []


def rule_of(match: Match) -> RuleKey:
    """The rule that fits."""
    pattern, terms, line = match.rule
    return RuleKey(terms.list, terms.source, line, str(pattern))


def _list(match: Match) -> ListKey:
    terms = match.rule.terms
    return ListKey(terms.list, terms.source)


def _category(match: Match) -> str:
    return match.rule.terms.category or ""


# -- sites -------------------------------------------------------------------------------------------------------------


def host_of(url: bytes) -> bytes | None:
    """The canonical host of a URL, or ``None`` where it names none."""
    plain = PLAIN_URL.match(url)
    if plain is not None and is_plain_name(plain[2]):
        return plain[2]
    try:
        return canonical_host(request_of(url).hosts[0])
    except UrlError:
        return None


def _site_of_host(host: bytes) -> str:
    """What counts as one site: the registrable domain, or the address."""
    return public_suffixes().registrable_domain(host).decode("ascii", "backslashreplace")


def site_of_url(url: bytes) -> str | None:
    """The site of a URL, or ``None`` where it names no host."""
    host = host_of(url)
    return None if host is None else _site_of_host(host)
