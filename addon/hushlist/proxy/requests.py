"""What is done with a request: decide, note, log, and pass it, change it or answer it in the origin's place."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import replace
from time import monotonic, perf_counter_ns
from typing import NamedTuple
from weakref import WeakKeyDictionary

from mitmproxy import connection, http
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from hushlist.errors import UrlError
from hushlist.match.rule import Action
from hushlist.policy.decision import STOPPING
from hushlist.policy.groups import Settings
from hushlist.policy.safe_search import rewrite
from hushlist.proxy import answer, notes
from hushlist.proxy.explanation import Verdict
from hushlist.proxy.in_force import InForce
from hushlist.proxy.own import OwnConnections
from hushlist.proxy.refusing import is_open, refuse
from hushlist.proxy.unblock import Stopped, Unblocker
from hushlist.proxy.wire import Seen, client_of_flow, name_to_ask, request_of_flow, seen_of_flow
from hushlist.url.parts import to_bytes
from hushlist.url.protocol import PERMANENT
from hushlist.url.request import Request, canonical_host

logger = logging.getLogger(__name__)

#: seconds after which what was decided of a request is asked again
_LATE = 1.0
_LOOP = "the proxy would ask itself for it"


class _Decided(NamedTuple):
    """What was decided: all that the request was made of, the request, and when, by a clock of its own."""

    seen: Seen
    request: Request
    moment: float


class Requests:
    """Decides requests, and acts.

    Whatever fails here, the request is refused, or passes where the policy says so (``failing``); what was blocked
    before is refused all the same.
    """

    def __init__(self, in_force: InForce, own: OwnConnections) -> None:
        self._in_force, self._own = in_force, own
        self._unblocker = Unblocker(in_force, self._answer)
        #: what was decided of each flow
        self._decided: WeakKeyDictionary[http.HTTPFlow, _Decided] = WeakKeyDictionary()
        #: of each client's connection: the host to connect to in place of another
        self._led: WeakKeyDictionary[connection.Client, dict[str, str]] = WeakKeyDictionary()

    def filter(self, flow: http.HTTPFlow, mode: str, *, again: bool) -> None:
        """Decide and act; a request that was decided before only if ``again``, as a replay has to be.

        But one whose body took long to come is decided again before any of it goes on: else whoever has begun it in
        time could end it whenever another rule or schedule holds.
        """
        if mode == "off":
            return
        is_blocked = False
        try:
            seen, before = seen_of_flow(flow), None if again else self._decided.get(flow)
            if before is None or before.seen != seen:
                request = self._request_of(flow)
                is_same = before is not None and before.request == request
            else:
                request, is_same = before.request, True
            if before is not None and is_same and not _is_late(flow, before):
                return
            client = client_of_flow(flow)
            settings = self._in_force.settings(client)
            mode = settings.mode_under(mode)
            if mode == "off":
                return
            start = perf_counter_ns()
            decision = self._in_force.decide(request, client)
            duration = perf_counter_ns() - start
            self._decided[flow] = _Decided(seen, request, monotonic())
            stops = decision.action in STOPPING
            would_block = stops and mode == "tag"
            is_blocked = stops and not would_block
            if is_same and not is_blocked:
                return  # as it was said before
            reference = self._in_force.record(
                decision, client, flow.request.method, would_block=would_block, duration=duration, is_live=flow.live
            )
            notes.annotate(flow, decision, would_block=would_block)
            if is_blocked or self._unblocker.is_sealed(flow.request):
                stopped = Stopped(decision, client, settings.unblocking, reference)
                if refuse(flow, lambda _: self._answer(flow, stopped)):
                    self._unblocker.remember(flow, stopped)
            elif is_open(flow):
                self._ask_the_name(flow, request)
                if settings.safe_search and mode != "tag":
                    self._search_safely(flow, request, settings)
        except Exception as error:
            self._in_force.failing.act(flow, error, is_blocked=is_blocked)

    def _request_of(self, flow: http.HTTPFlow) -> Request:
        request = request_of_flow(flow, with_media=self._in_force.asks_media)
        return replace(request, fault=_LOOP) if self._own.is_loop(flow.client_conn) else request

    def take_form(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """Take the form of a block page, once it is there as a whole; ``None`` for all else."""
        return self._unblocker.take(flow)

    def learn(self, flow: http.HTTPFlow) -> None:
        """Learn from a permanent redirect of the origin itself."""
        response, engine = flow.response, self._in_force.engine
        if response is None or response.status_code not in PERMANENT or not flow.live:
            return
        decided = self._decided.get(flow)
        if decided is not None and engine is not None and flow.server_conn.timestamp_start is not None:
            engine.learn(decided.request, to_bytes(response.headers.get("location", "")))

    def lead(self, data: ServerConnectionHookData) -> None:
        """Connect where a service searches safely.

        Host header and TLS server name stay, as where a CNAME record leads there.
        """
        address = data.server.address
        host = self._led.get(data.client, {}).get(address[0]) if address else None
        if address and host:
            data.server.address = (host, address[1])

    def _answer(self, flow: http.HTTPFlow, stopped: Stopped, message: str | None = None) -> http.Response:
        """The answer in place of the origin's."""
        decision, engine = stopped.decision, self._in_force.engine
        is_failure = engine is None or decision.action not in STOPPING
        kind = Verdict.WARNED if decision.action is Action.WARN else Verdict.BLOCKED
        until = None if decision.winner is None else decision.winner.until
        if until is not None and engine is not None:
            until = until.astimezone(engine.policy.zone)
        explanation = answer.explain(
            decision, kind=Verdict.FAILED if is_failure else kind, until=until, reference=stopped.reference
        )
        return answer.answer(
            flow.request, explanation, self._unblocker.offer(stopped, message), self._in_force.template
        )

    def _ask_the_name(self, flow: http.HTTPFlow, request: Request) -> None:
        """Connect to the name that was decided, not to an address that the client says it has."""
        name = name_to_ask(request, flow.client_conn.sni)
        if name is not None:
            flow.request.data.host = name
            self._decided[flow] = _Decided(seen_of_flow(flow), request, monotonic())

    def _search_safely(self, flow: http.HTTPFlow, request: Request, settings: Settings) -> None:
        """Ask a search engine for safe results, where the policy says so and the client does not.

        Whatever host the client says that it asks, one behind it may be led by any of them.
        """
        data = flow.request.data
        changes = []
        for host in dict.fromkeys(request.hosts):
            with suppress(UrlError):
                change = rewrite(canonical_host(host), data.path, settings.safe_search)
                if change is None:
                    continue
                for name, value in change.headers:
                    flow.request.headers[name.decode("ascii")] = value.decode("ascii")
                data.path = data.path if change.target is None else change.target
                if change.host is not None:
                    self._led.setdefault(flow.client_conn, {})[data.host] = change.host.decode("ascii")
                changes.append(str(change))
        if changes:
            flow.metadata[notes.SAFE_SEARCH] = "; ".join(changes)
            self._decided[flow] = _Decided(seen_of_flow(flow), request, monotonic())


def _is_late(flow: http.HTTPFlow, decided: _Decided) -> bool:
    """Whether a request has not gone on yet, though it was decided a while ago."""
    return monotonic() - decided.moment > _LATE and not flow.request.stream and is_open(flow)
