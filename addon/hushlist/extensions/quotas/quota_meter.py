"""Quotas: what a decision that lets pass counts for, and whether the minutes for it are used up.

Only the proxy counts. The engine, and so the audits and ``hushlist check``, decide without quotas.

A minute counts in which a request of the category was let through, unless it is a background request of a page of
another category: ``is_background`` has the definition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from itertools import pairwise

from hushlist.core.decide.decision import STOPPING, Decision, Judgement
from hushlist.core.decide.engine import Engine
from hushlist.core.errors import printable
from hushlist.core.match.context import context_of
from hushlist.core.match.rule import Action, Rule, Terms, TimeLimit
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.groups import Client
from hushlist.core.policy.recurrence import A_DAY, first_moment
from hushlist.core.system.memory import BoundedCache
from hushlist.core.url.hrn import category_levels
from hushlist.core.url.request import Request
from hushlist.extensions.quotas.quotas import Quota
from hushlist.extensions.quotas.use_minutes import UseMinutes
from hushlist.extensions.unblock.grants import WARNING, Grant
from hushlist.extensions.unblock.overrides import Overrides

#: days of which minutes are told one by one
DAYS = 7
#: minutes before the end at which a page warns, once in each period
WARNING_LEFT = 5
#: background requests in a minute of one counter; the next one counts. A page of news asks for some; who says of all
#: requests that they are of another page has more.
MOST_BACKGROUND = 20
#: clients and quotas of which it is known that a page has warned; others may be warned again
_MOST_WARNED = 1 << 14
#: the layer of a decision by a quota
QUOTA_LAYER = "quotas"
_SPECIFICITY = (0, 0)
#: its first minute, the first behind it, and its end
_Period = tuple[int, int, datetime]
#: types that may be of the background
_BACKGROUND = ("image", "script", "stylesheet", "font", "ping", "xmlhttprequest", "other")
#: types of contents that are not of the background, whatever was asked for
_SEEN = ("text/html", "application/xhtml+xml", "application/pdf", "text/event-stream", "multipart/x-mixed-replace")
_SEEN_KINDS = ("audio/", "video/", "application/vnd.apple.mpegurl", "application/x-mpegurl", "application/dash+xml")


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """A quota, and what is used of it in the present period."""

    quota: Quota
    used: int
    #: minutes that were added in this period
    extended: int
    #: whether the present minute is among those used: it may be used to its end
    is_counted: bool
    #: when the period ends, in UTC
    reset: datetime

    @property
    def limit(self) -> int:
        """Minutes, with those that were added."""
        return self.quota.minutes + self.extended

    @property
    def left(self) -> int:
        """Minutes."""
        return max(0, self.limit - self.used)

    @property
    def is_used_up(self) -> bool:
        """Whether nothing more is let through."""
        return not self.left and not self.is_counted

    def told_in(self, zone: tzinfo) -> str:
        """For people, by the clock of a time zone."""
        until = self.reset.astimezone(zone)
        added = f", {self.extended} of them added" if self.extended else ""
        so = ", so that it is blocked" if self.is_used_up else ""
        return printable(
            f"{self.quota.category}: {self.left} of {self.limit} minutes a {self.quota.per} left{added}{so}, "
            f"until {until:%Y-%m-%d %H:%M %Z} ({self.quota.source}:{self.quota.line})"
        )

    def as_dict(self) -> dict[str, object]:
        """Plain types, as JSON needs them; ``reset`` in the policy's time zone."""
        return {
            "category": self.quota.category,
            "per": self.quota.per,
            "shared": self.quota.is_shared,
            "limit": self.limit,
            "extended": self.extended,
            "used": self.used,
            "left": self.left,
            "used_up": self.is_used_up,
            "reset": self.reset.astimezone(self.quota.zone).isoformat(),
            "source": self.quota.source,
            "line": self.quota.line,
        }


def counted_categories(decision: Decision) -> Iterator[str]:
    """The categories of what is let through: those of rules that tag or allow, and of the rule that decided.

    A rule that would stop, and that another one overrules, does not count: what is allowed beside its category has no
    quota of it.
    """
    for match in decision.matches:
        terms = match.rule.terms
        if terms.category is not None and (terms.action not in STOPPING or match is decision.winner):
            yield terms.category


def quotas_of(quotas: Sequence[Quota], decision: Decision) -> list[tuple[Quota, str]]:
    """The quotas that a decision counts for, each with the category of the request that it has."""
    counted: dict[Quota, str] = {}
    for category in counted_categories(decision):
        levels = category_levels(category)
        for quota in quotas:
            if quota.category.encode("ascii") in levels:
                counted.setdefault(quota, category)
    return list(counted.items())


class QuotaMeter:
    """Counts minutes, and applies quotas. Only the event loop uses it, and it waits for nothing."""

    def __init__(self, minutes: UseMinutes, clock: Callable[[], float]) -> None:
        """``clock`` returns seconds since the epoch."""
        self._minutes, self._clock = minutes, clock
        self._periods: dict[Quota, _Period] = {}
        #: client and quota -> the end of the period in which a page has warned
        self._warned: BoundedCache[tuple[str, Quota], list[datetime]] = BoundedCache(lambda _: [], _MOST_WARNED)
        #: the minute of the background requests that were counted, and their numbers
        self._background: dict[tuple[str, Quota], int] = {}
        self._background_minute = 0

    @property
    def minute(self) -> int:
        """The present minute, since the epoch."""
        return int(self._clock() // 60)

    def uses(self, quotas: Iterable[Quota], client: Client, group: str) -> list[QuotaUse]:
        minute = self.minute
        return [self._use(quota, client, group, minute) for quota in quotas]

    def _use(self, quota: Quota, client: Client, group: str, minute: int) -> QuotaUse:
        first, end, reset = self._period(quota, minute)
        name, minutes = counter_name(quota, client, group), self._minutes
        names = (name,) if quota.is_shared else (*client.names, f"group:{group}")
        return QuotaUse(
            quota,
            minutes.used(name, quota.category, first, end),
            minutes.extended(names, quota.category, first, end),
            minutes.used(name, quota.category, minute, minute + 1) > 0,
            reset,
        )

    def by_day(self, quota: Quota, client: Client, group: str) -> list[int]:
        """How many minutes were used on each of the last days, of which today is the last one."""
        name, today = counter_name(quota, client, group), datetime.fromtimestamp(self._clock(), quota.zone).toordinal()
        ends = [
            int(first_moment(day * A_DAY, quota.zone).timestamp() // 60) for day in range(today - DAYS + 1, today + 2)
        ]
        return [self._minutes.used(name, quota.category, first, end) for first, end in pairwise(ends)]

    def _period(self, quota: Quota, minute: int) -> _Period:
        period = self._periods.get(quota)
        if period is None or not period[0] <= minute < period[1]:
            if len(self._periods) > 1 << 10:  # of policies that are no longer in force
                self._periods.clear()
            begin, end = quota.period(datetime.fromtimestamp(60 * minute, UTC))
            period = self._periods[quota] = int(begin.timestamp() // 60), int(end.timestamp() // 60), end
        return period

    def limited(self, judgement: Judgement, overrides: Overrides | None, *, may_warn: bool = True) -> Judgement:
        """The judgement of what would pass, by the quotas of its categories.

        What is used up is blocked until its reset, unless a temporary unblock covers it. Shortly before, a page warns,
        once in each period.
        """
        decision, client = judgement.decision, judgement.client
        if decision.action in STOPPING or _is_unblocked(judgement):
            return judgement
        ending: QuotaUse | None = None
        lifting = None
        for quota, category in quotas_of(judgement.settings.of("quotas"), decision):
            (use,) = self.uses([quota], client, decision.group)
            if use.is_used_up:
                grant = _covering(overrides, judgement, category, self._clock())
                if grant is None:
                    return judgement._replace(decision=_stopped(decision, use, Action.BLOCK))
                lifting = _stopped(decision, use, Action.ALLOW)._replace(grant=grant)
            elif use.left <= WARNING_LEFT < use.limit:
                ending = use
        if lifting is not None:
            return judgement._replace(decision=lifting)
        if ending is not None and may_warn and self._warns(ending, judgement):
            return judgement._replace(decision=_stopped(decision, ending, Action.WARN))
        return judgement

    def _warns(self, use: QuotaUse, judgement: Judgement) -> bool:
        """Whether a page that is opened is to warn: it has not yet, in this period."""
        request = judgement.request
        if request.method != b"GET" or len(request.hosts) != 1:
            return False
        if context_of(request, request.hosts[0]).kind != "document":
            return False
        resets = self._warned[judgement.client.names[-1], use.quota]
        is_first = use.reset not in resets
        resets[:] = [use.reset]
        return is_first

    def count(self, judgement: Judgement, engine: Engine, *, is_request: bool) -> list[Quota]:
        """Count the present minute for what is let through; returns the quotas for which it is in the background.

        ``is_request``: what is used is a request that has just come, so that it may be of the background.
        """
        decision, client, minute = judgement.decision, judgement.client, self.minute
        waiting = []
        for quota, _ in () if _is_unblocked(judgement) else quotas_of(judgement.settings.of("quotas"), decision):
            name = counter_name(quota, client, decision.group)
            if is_request and is_background(judgement, quota, engine) and self._may_wait(name, quota, minute):
                waiting.append(quota)
            else:
                self._minutes.note(name, quota.category, minute)
        return waiting

    def count_for(self, quotas: Iterable[Quota], client: Client, group: str) -> None:
        """Count the present minute for some quotas."""
        for quota in quotas:
            self._minutes.note(counter_name(quota, client, group), quota.category, self.minute)

    def _may_wait(self, name: str, quota: Quota, minute: int) -> bool:
        """Whether there were not too many background requests in this minute."""
        if minute != self._background_minute:
            self._background.clear()
            self._background_minute = minute
        number = self._background[name, quota] = self._background.get((name, quota), 0) + 1
        return number <= MOST_BACKGROUND


def counter_name(quota: Quota, client: Client, group: str) -> str:
    """Whose minutes are counted: a user's, or else an address's; or those of a whole group."""
    return f"group:{group}" if quota.is_shared else client.names[-1]


def is_background(judgement: Judgement, quota: Quota, engine: Engine) -> bool:
    """Whether a request says of itself that it is a part of a page of another category: an image, a script, a style, a
    font, a beacon or a fetch.

    Pages, frames, media, WebSockets and whatever does not tell are used. So is all that a page of the category itself
    asks for. The category of a page is that of its host.
    """
    request, client, host = judgement.request, judgement.client, judgement.host
    if len(set(request.hosts)) != 1 or host is None:
        return False
    context = context_of(request, host)
    page = context.page.encode("ascii", "replace")
    if context.kind not in _BACKGROUND or page in (b"", host):
        return False
    decision = engine.decide_host(Request(request.scheme, (page,), request.port, b"/"), client=client)
    return not quotas_of([quota], decision)


def is_passive(status: int, content_type: str | None) -> bool:
    """Whether an answer may be to a background request: it is no page, no stream, and says what it is.

    >>> is_passive(200, "image/png"), is_passive(200, "text/html; charset=utf-8"), is_passive(200, None)
    (True, False, False)
    """
    if content_type is None:
        return status in (204, 304) or 300 <= status < 400
    kind = content_type.partition(";")[0].strip().lower()
    return kind not in _SEEN and not kind.startswith(_SEEN_KINDS)


def _is_unblocked(judgement: Judgement) -> bool:
    """Whether somebody has let it through: a click on a warning, which anybody can make, is not enough.

    What is let through by one of its names has the quotas of the others.
    """
    grant = judgement.decision.grant
    return isinstance(grant, Grant) and grant.how != WARNING and bool(_only_host(judgement))


def _only_host(judgement: Judgement) -> bytes:
    """The host that decided, if it is the only name that the client has chosen; else nothing."""
    names, host = {*judgement.request.hosts} - {judgement.request.destination}, judgement.host or b""
    return b"" if len(names) > 1 or (names and host == judgement.request.destination) else host


def _covering(overrides: Overrides | None, judgement: Judgement, category: str, now: float) -> Grant | None:
    """The grant that lets through what is used up. One for a host or URL is for requests that go by no other name."""
    if overrides is None:
        return None
    decision, host = judgement.decision, _only_host(judgement)
    names = (*judgement.client.names, f"group:{decision.group}")
    return overrides.covering(names, host, decision.url if host else b"", [category], now)


def _stopped(decision: Decision, use: QuotaUse, action: Action) -> Decision:
    """The decision by a quota."""
    quota = use.quota
    limit = TimeLimit(use.limit, use.used, quota.per)
    until = None if action is Action.WARN else use.reset
    again = f", again from {use.reset.astimezone(quota.zone):%Y-%m-%d %H:%M %Z}"
    reason = f"{use.left} minutes are left" if action is Action.WARN else f"The time for this is used up{again}"
    stops = Action.WARN if action is Action.WARN else Action.BLOCK
    terms = Terms(stops, "policy", quota.source, quota.category, reason, layer=QUOTA_LAYER)
    match = Match(Rule(limit, terms, quota.line), str(limit).encode(), _SPECIFICITY, until=until)
    return decision._replace(action=action, matches=(match, *decision.matches), winner=match)
