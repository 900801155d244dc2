"""Ends what is open as soon as it would no longer be let through: a rule, a schedule or an unblock has changed.

What is relayed is decided once, when the connection begins, and may last for hours. So may a request on a decrypted
connection: a WebSocket, or a download. So both are asked again, by the same names, whenever the effective policy is
another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

from mitmproxy import connection, http

from hushlist.core.decide.decision import Judgement
from hushlist.core.errors import logger_of, printable
from hushlist.core.policy.groups import GroupSettings
from hushlist.core.policy.pass_through import END
from hushlist.core.url.request import Request
from hushlist.proxy.connections.client_connections import end_connection, is_gone
from hushlist.proxy.flow_request import client_of_connection, client_of_flow
from hushlist.proxy.parts import Parts
from hushlist.proxy.request_handler import RequestHandler
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)

#: seconds between two looks at the policy
INTERVAL = 1.0
#: connections that are asked again before the event loop does something else
AT_ONCE = 100

#: why a connection would end if it began now, beside rules, for people; ``None`` if it would not
WhyEnd = Callable[[connection.Client, GroupSettings], str | None]


class _Relayed(NamedTuple):
    #: all names that the connection was decided by
    request: Request
    #: ``None`` for what rules alone speak against
    why_end: WhyEnd | None
    #: whether it passes by a temporary unblock, which may end at any time
    has_grant: bool


#: what goes on, by what it was decided if that is known, and why it would end now beside rules
_Open = tuple[connection.Client | http.HTTPFlow, Request | None, WhyEnd | None]


class RelayedConnections:
    """The connections that pass undecrypted, and the requests that are open. Only the event loop uses it."""

    def __init__(self, runtime: Runtime, parts: Parts, requests: RequestHandler) -> None:
        self._runtime, self._parts, self._requests = runtime, parts, requests
        self._relayed: WeakKeyDictionary[connection.Client, _Relayed] = WeakKeyDictionary()
        #: what the decisions of all connections go by
        self._state: object = None
        self._watcher: asyncio.Task[None] | None = None

    def note(
        self,
        client: connection.Client,
        request: Request,
        judgement: Judgement | None,
        why_end: WhyEnd | None = None,
    ) -> None:
        """Note that a client's connection passes undecrypted; what is noted first has all its names.

        Without a judgement, the filter is off for the client, and may not be so for as long as the connection lasts.
        """
        has_grant = judgement is not None and judgement.decision.grant is not None
        request = request._replace(leads=() if judgement is None else judgement.request.leads)
        self._relayed.setdefault(client, _Relayed(request, why_end, has_grant))
        if judgement is not None:
            for passed in self._parts.passed:
                passed(client, client, judgement)

    def run(self) -> None:
        """Begin to look at the policy; called in the event loop."""
        self._watcher = asyncio.get_running_loop().create_task(self._watch(), name="hushlist: relayed connections")

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            try:
                await self.ask_again()
                for look in self._parts.look:
                    await look()
            except Exception:
                logger.exception("hushlist: connections that are relayed were not asked again")

    async def ask_again(self) -> None:
        """End what would no longer be let through, or be decrypted.

        Without a policy, nothing is known that speaks against a connection; the next policy is asked about it.
        """
        engine = self._runtime.engine
        if engine is None:
            return
        state = engine.state(), self._runtime.mode
        is_other, failed = state != self._state, False
        due: list[_Open] = [
            (client, relayed.request, relayed.why_end)
            for client, relayed in self._relayed.items()
            if is_other or relayed.has_grant
        ]
        due += [(flow, request, None) for flow, request in self._requests.open_requests(by_grant=not is_other)]
        for number, entry in enumerate(due):
            if number % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)
            try:
                await self._ask(*entry)
            except Exception:
                failed = True
                logger.exception("hushlist: a connection was not ended; this is tried again")
        if not failed:
            self._state = state

    async def _ask(
        self, used: connection.Client | http.HTTPFlow, request: Request | None, why_end: WhyEnd | None
    ) -> None:
        is_connection = isinstance(used, connection.Client)
        client = used if isinstance(used, connection.Client) else used.client_conn
        if is_gone(client):
            return
        who = client_of_connection(used) if isinstance(used, connection.Client) else client_of_flow(used)
        judgement, why = None, None
        if request is None:
            assert isinstance(used, http.HTTPFlow)
            request = self._requests.request_of(used)
        try:
            settings = self._runtime.settings(who)
            if settings.relayed != END or settings.mode != "block":
                return
            judgement = self._runtime.judge(request, who, is_connection=is_connection, goes_on=not is_connection)
            judgement = await self._runtime.confirmed(judgement, is_connection=is_connection, goes_on=True)
            stops = judgement is not None and judgement.stops
            if not stops and why_end is not None:
                why = why_end(client, settings)
        except Exception as error:
            stops = not self._runtime.failure_policy.lets_pass(error, "connection")
            judgement = None
        if not stops and why is None:
            if judgement is not None:
                self._goes_on(used, client, judgement)
            return
        end_connection(client)
        self._relayed.pop(client, None)
        if judgement is not None and stops:
            self._runtime.record_connection(judgement)
        else:
            names = printable(b", ".join(request.hosts).decode("ascii", "backslashreplace"))
            reason = why or "the filter failed"
            logger.info("hushlist: ended the connection of %s to %s: %s", who.address, names, reason)

    def _goes_on(
        self, used: connection.Client | http.HTTPFlow, client: connection.Client, judgement: Judgement
    ) -> None:
        """Note what lets it go on: it may have a quota now, or pass by an unblock, where nothing stopped it before."""
        for passed in self._parts.passed:
            passed(used, client, judgement, goes_on=True)
        if isinstance(used, http.HTTPFlow):
            self._requests.note_grant(used, judgement)
        elif (relayed := self._relayed.get(used)) is not None:
            self._relayed[used] = relayed._replace(has_grant=judgement.decision.grant is not None)
