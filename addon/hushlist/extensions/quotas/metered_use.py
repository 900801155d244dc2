"""Counts what is let through for quotas, also for as long as it lasts, and ends it when its minutes are used up.

A request counts when it is let through; one of the background, by ``is_background``, only if its answer is a page or a
stream. What lasts longer (a download, a WebSocket, events, a connection that is not decrypted) counts in each later
minute in which octets flow on its client's connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from weakref import WeakKeyDictionary

from mitmproxy import connection, http

from hushlist.core.decide.decision import Judgement
from hushlist.core.errors import logger_of
from hushlist.core.match.rule import TimeLimit
from hushlist.core.policy.groups import Client, Group
from hushlist.core.policy.pass_through import KEEP
from hushlist.core.policy.policy_file import Policy
from hushlist.core.url.request import Request
from hushlist.extensions.quotas.quota_meter import QuotaMeter, QuotaUse, is_passive, quotas_of
from hushlist.extensions.quotas.quotas import Quota
from hushlist.extensions.quotas.shared_minutes import SharedMinutes
from hushlist.extensions.quotas.use_minutes import UseMinutes
from hushlist.extensions.unblock import STORE_FAILS, default_path
from hushlist.extensions.unblock.unblock_handler import overrides_of
from hushlist.proxy.connections.client_connections import end_connection, is_gone, last_activity
from hushlist.proxy.flow_outcome import is_over
from hushlist.proxy.flow_request import client_of_connection
from hushlist.proxy.parts import Part
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)

#: what is asked again before the event loop does something else
AT_ONCE = 100


@dataclass(slots=True)
class _Use:
    """Something that was let through, and may last."""

    client_conn: connection.Client
    request: Request
    client: Client
    group: str
    is_connection: bool
    #: the last minute that it was asked about
    minute: int
    #: when octets flowed on the client's connection
    active: float
    #: quotas for which it is in the background as long as its answer does not say otherwise
    waiting: Sequence[Quota]


class MeteredUse(Part):
    """What has a quota and goes on. Only the event loop uses it; if anything fails here, what is asked about ends."""

    def __init__(self, runtime: Runtime, _: object = None) -> None:
        self._runtime = runtime
        self._uses: WeakKeyDictionary[http.HTTPFlow | connection.Client, _Use] = WeakKeyDictionary()
        #: counts what quotas limit, and what it has counted; ``None`` until a policy has one
        self.meter: QuotaMeter | None = None
        self.minutes: UseMinutes | None = None

    # -- the policy ----------------------------------------------------------------------------------------------

    def prepare(self, policy: Policy) -> None:
        """Read what was counted before; what is in use stays so until the policy is used."""
        if self.minutes is None:
            self.follow(policy)

    def follow(self, policy: Policy) -> None:
        """Count from the first policy on that has quotas, going on from what its store has; may wait for that.

        Without a store, it counts from nothing, with a warning.
        """
        before, place = self.minutes, policy.of("store") or _minutes_path()
        if before is None and not any(group.settings.of("quotas") for group in policy.all_groups):
            return
        if before is not None and before.place == place:
            return
        siblings = self._runtime.siblings
        shared = None if siblings is None else SharedMinutes(siblings.folder)
        minutes = UseMinutes(place, lambda: self._runtime.clock(), shared)
        minutes.start()
        self.minutes, self.meter = minutes, QuotaMeter(minutes, lambda: self._runtime.clock())
        if before is not None:
            with suppress(RuntimeError):  # the machine has no thread left: it stays open
                Thread(target=before.close, name="hushlist: close a store", daemon=True).start()

    def close(self) -> None:
        """Write what was counted."""
        if self.minutes is not None:
            self.minutes.close()
            self.minutes = self.meter = None

    def values(self) -> Iterator[UseMinutes | None]:
        """What was counted."""
        yield self.minutes

    def faults(self) -> Iterator[str]:
        """Why minutes are not kept."""
        if self.minutes is not None and self.minutes.fault is not None:
            yield f"nothing can be unblocked: {self.minutes.fault}"

    def warnings(self) -> Iterator[str]:
        """That minutes are not kept, without the names of files."""
        if any(self.faults()):
            yield STORE_FAILS

    # -- requests ------------------------------------------------------------------------------------------------

    def judged(self, judgement: Judgement, *, may_warn: bool) -> Judgement:
        """The judgement as the quotas of its group have it."""
        if self.meter is None or not judgement.settings.of("quotas"):
            return judgement
        return self.meter.limited(judgement, overrides_of(self._runtime), may_warn=may_warn)

    def passed(
        self,
        used: http.HTTPFlow | connection.Client,
        client: connection.Client,
        judgement: Judgement,
        *,
        goes_on: bool = False,
    ) -> None:
        """Count a request, or a connection that is not decrypted, which is let through.

        A connection counts once: what is known of it first has all its names, and ``look`` counts it further. So does a
        request that ``goes_on``: it was let through before, when there may have been no quota.
        """
        if not judgement.settings.of("quotas"):
            return
        is_request = isinstance(used, http.HTTPFlow)
        if (goes_on or not is_request) and used in self._uses:
            return
        meter, engine, decision = self.meter, self._runtime.engine, judgement.decision
        if meter is None or engine is None or not quotas_of(judgement.settings.of("quotas"), decision):
            return
        waiting = meter.count(judgement, engine, is_request=is_request)
        self._uses[used] = _Use(
            client,
            judgement.request,
            judgement.client,
            decision.group,
            not is_request,
            meter.minute,
            last_activity(client),
            waiting,
        )

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Look at the head of an answer: whatever the request said of itself, a page or a stream is used."""
        meter = self.meter
        use = None if meter is None else self._uses.get(flow)
        if use is None or meter is None or not use.waiting or flow.response is None:
            return
        if not is_passive(flow.response.status_code, flow.response.headers.get("content-type")):
            meter.count_for(use.waiting, use.client, use.group)
            use.waiting = ()

    async def look(self) -> None:
        """Count what goes on in a new minute, and end what is used up; called each second."""
        for number, (used, use) in enumerate(list(self._uses.items())):
            if number % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)
            if _is_over(used, use):
                self._uses.pop(used, None)
                continue
            try:
                self._look_at(used, use)
            except Exception as error:
                if not self._runtime.failure_policy.lets_pass(error, "connection"):
                    self._end(used, use)

    def _look_at(self, used: http.HTTPFlow | connection.Client, use: _Use) -> None:
        meter, engine = self.meter, self._runtime.engine
        active, before = last_activity(use.client_conn), use.active
        use.active = active
        if meter is None or engine is None or active == before or meter.minute == use.minute:
            return
        use.minute = meter.minute
        client = client_of_connection(use.client_conn) if use.is_connection else use.client
        judgement = self._runtime.judge(use.request, client, is_connection=use.is_connection, goes_on=True)
        if judgement is None:
            return
        winner = judgement.decision.winner
        is_limited = winner is not None and isinstance(winner.rule.pattern, TimeLimit)
        if not (judgement.stops and is_limited):
            meter.count(judgement, engine, is_request=False)
        elif not use.is_connection or judgement.settings.relayed != KEEP:
            self._end(used, use)
            self._runtime.record_connection(judgement)

    def _end(self, used: http.HTTPFlow | connection.Client, use: _Use) -> None:
        self._uses.pop(used, None)
        end_connection(use.client_conn)


def _is_over(used: http.HTTPFlow | connection.Client, use: _Use) -> bool:
    return is_gone(use.client_conn) or (isinstance(used, http.HTTPFlow) and is_over(used))


def _minutes_path() -> Path | None:
    with suppress(RuntimeError):  # the user has no home
        return default_path()
    return None


def uses_in(runtime: Runtime, client: Client, group: Group | None = None) -> list[QuotaUse]:
    """What a client has used of the quotas of a group, by default its own, and what is left."""
    metered, engine = runtime.part(MeteredUse), runtime.engine
    if metered is None or metered.meter is None or engine is None:
        return []
    group = group or engine.group(client)
    return metered.meter.uses(group.settings.of("quotas"), client, group.name)


def told_use(runtime: Runtime, use: QuotaUse, client: Client, group: Group) -> dict[str, object]:
    """What people are told of a quota and its use, with the minutes of the last days."""
    metered = runtime.part(MeteredUse)
    meter = None if metered is None else metered.meter
    return {**use.as_dict(), "days": [] if meter is None else meter.by_day(use.quota, client, group.name)}
