"""Handles a request: decide, log, and pass it, change it or answer it in place of its origin."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import replace
from itertools import repeat
from operator import call
from time import monotonic
from typing import NamedTuple
from weakref import WeakKeyDictionary, WeakSet

from mitmproxy import http
from mitmproxy.net.http.url import hostport

from hushlist.core.decide.decision import STOPPING, Judgement
from hushlist.core.errors import UrlError, logger_of, printable
from hushlist.core.match.rule import Action
from hushlist.core.url.http_head import names_to_take_out, sends_form
from hushlist.core.url.parts import to_bytes
from hushlist.core.url.request import Request, canonical_host
from hushlist.proxy import flow_outcome
from hushlist.proxy.flow_outcome import is_open, is_over, refuse
from hushlist.proxy.flow_request import (
    Seen,
    SelfConnections,
    client_of_flow,
    decide_form,
    name_to_ask,
    naming_of,
    request_of_flow,
    seen_of_flow,
)
from hushlist.proxy.hook_calls import begin
from hushlist.proxy.page import block_response
from hushlist.proxy.page.block_response import LOOP
from hushlist.proxy.page.pages import Offer, Verdict
from hushlist.proxy.parts import Parts
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)

#: seconds after which a request that has not gone on is decided again
_LATE = 1.0


class _DecidedRequest(NamedTuple):
    """A decided request: the flow's data that it was made from, whether media types are among it, the judgement, the
    number of the policy, and the time on a monotonic clock."""

    seen: Seen
    with_media: bool
    judgement: Judgement
    policy: int
    moment: float


def stopped_response(
    runtime: Runtime, request: http.Request, judgement: Judgement, offer: Offer | None
) -> http.Response:
    """The response that replaces the origin's, with what its page offers."""
    engine, action = runtime.engine, judgement.decision.action
    kind = Verdict.WARNED if action is Action.WARN else Verdict.BLOCKED
    if engine is None or action not in STOPPING:
        kind = Verdict.FAILED
    explanation = block_response.explanation_of(judgement, runtime.zone, kind)
    return block_response.block_response(request, explanation, offer, runtime.template)


class RequestHandler:
    """Decides requests, and carries decisions out.

    If anything fails here, ``failure_policy`` refuses the request or lets it pass, as the policy says. A request that
    was already blocked is refused in any case.
    """

    def __init__(
        self,
        runtime: Runtime,
        loops: SelfConnections,
        parts: Parts,
    ) -> None:
        self._runtime, self._loops, self._parts = runtime, loops, parts
        #: the decided request of each flow
        self._decided: WeakKeyDictionary[http.HTTPFlow, _DecidedRequest] = WeakKeyDictionary()
        #: those that passed by a temporary unblock, and those of whom the filter was off, or failed
        self._granted: WeakSet[http.HTTPFlow] = WeakSet()
        self._undecided: WeakSet[http.HTTPFlow] = WeakSet()

    def filter_again(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """Decide a request once more, unless it is as it was when it was decided, a moment ago and by this policy."""
        try:
            decided, data, runtime = self._decided.get(flow), flow.request.data, self._runtime
            if (
                decided is not None
                and decided.policy == runtime.policies
                and monotonic() - decided.moment <= _LATE
                and runtime.mode != "off"
                and not data.content
                and data.trailers is None
                and decided.with_media == runtime.asks_media
                and decided.seen == seen_of_flow(flow)
                and not self._loops.is_loop(flow.client_conn, flow.server_conn)
            ):
                return None
        except Exception:  # noqa: S110  of what an addon has made of it: ``filter`` refuses it
            pass
        return begin(self.filter(flow, again=False))

    async def filter(self, flow: http.HTTPFlow, *, again: bool) -> None:
        """Decide a request, and act. It waits only where somebody has to be asked: then nothing goes on until then.

        ``again``: in any case, since its head has just arrived, or it is a replay; otherwise only if it is new, changed
        or late. A request whose body took long, or ended under another policy, is decided again before any of it goes
        on: else a client could begin it in time, and end it after a rule or schedule has changed. A request of the
        proxy to itself is answered in every mode and under every policy, since it would loop forever.
        """
        if self._runtime.mode != "off":
            if not again:
                try:
                    flow_outcome.frame(flow)  # a body that was not announced is decided, too
                except Exception as error:
                    self._runtime.failure_policy.act(flow, error)
            await self._filter(flow, again=again)
        else:
            self._leave(flow, is_form=self._is_claimed(flow.request))
        if self._loops.is_loop(flow.client_conn, flow.server_conn):
            refuse(flow, block_response.loop_response)

    async def _filter(self, flow: http.HTTPFlow, *, again: bool) -> None:
        is_blocked = False
        try:
            data = flow.request.data
            is_form = is_blocked = data.method != b"GET" and self._is_claimed(flow.request)
            before = None if again else self._decided.get(flow)
            seen, with_media = seen_of_flow(flow), self._runtime.asks_media
            if before is None or before.seen != seen or before.with_media != with_media:
                request = self.request_of(flow)
                is_same = before is not None and before.judgement.request == request
            else:
                request, is_same = before.judgement.request, True
            if before is not None and is_same and not self._is_late(flow, before):
                return
            judgement = self._runtime.judge(request, client_of_flow(flow))
            # as mitmproxy itself does with 407: the request goes nowhere, and nobody knows yet who asks
            can_answer = is_open(flow)
            is_answered = flow.live and not can_answer
            may_wait = judgement is not None and (judgement.decision.unconfirmed or self._runtime.asks_leads)
            if may_wait and not is_answered:
                judgement = await self._runtime.confirmed(judgement)
                can_answer = is_open(flow)
                if (seen_of_flow(flow), self._runtime.asks_media) != (seen, with_media):
                    # meanwhile another addon has changed it, or another policy asks for more of it
                    seen, with_media, is_same = seen_of_flow(flow), self._runtime.asks_media, False
                    request = self.request_of(flow)
                    judged = self._runtime.judge(request, client_of_flow(flow), is_settled=True)
                    judgement = await self._runtime.confirmed(judged)
            if judgement is None:
                self._leave(flow, is_form=is_form)
                return
            is_blocked = is_blocked or judgement.stops
            if data.method != b"GET" and not is_blocked and sends_form(data) and (keys := self._form_keys(judgement)):
                decide_form(flow.request, keys)
            self._decided[flow] = _DecidedRequest(seen, with_media, judgement, self._runtime.policies, monotonic())
            if judgement.decision.grant is not None:
                self.note_grant(flow, judgement)
            if is_same and not is_blocked:
                return  # unchanged: do not log it again
            recorded = judgement
            if is_form:  # nobody browsed to it
                recorded = judgement.recorded(None)
            elif not is_answered:
                recorded = self._runtime.record(judgement, flow.request.method, is_live=flow.live)
            flow_outcome.annotate(flow, recorded)
            if is_blocked:
                if refuse(flow, lambda answered: self._respond(answered, recorded)):
                    self._refused(flow, recorded)
            elif can_answer:
                if request.destination is not None:
                    self._ask_the_name(flow, request)
                self._name_the_host(flow)
                self._take_out(flow, recorded)
                for change in self._parts.change:
                    if change(flow, recorded):
                        self._keep(flow)
                for passed in self._parts.passed:
                    passed(flow, flow.client_conn, recorded)
        except Exception as error:
            self._runtime.failure_policy.act(flow, error, is_blocked=is_blocked)
            self._undecided.add(flow)  # it may have passed

    def _form_keys(self, judgement: Judgement) -> frozenset[bytes]:
        engine = self._runtime.engine
        return frozenset() if engine is None else engine.form_keys(judgement.request, judgement.client)

    def _is_late(self, flow: http.HTTPFlow, decided: _DecidedRequest) -> bool:
        """Whether a request was decided a while ago, or by another policy, and has not gone on yet."""
        is_old = monotonic() - decided.moment > _LATE or decided.policy != self._runtime.policies
        return is_old and is_open(flow)

    def _leave(self, flow: http.HTTPFlow, *, is_form: bool) -> None:
        """Let a request pass of whom the filter is off; but the form of a block page is not for the origin."""
        self._undecided.add(flow)
        if is_form:
            self._refused(flow, None)

    def _is_claimed(self, request: http.Request) -> bool:
        return any(map(call, self._parts.claims, repeat(request)))

    def _refused(self, flow: http.HTTPFlow, judgement: Judgement | None) -> None:
        for refused in self._parts.refused:
            refused(flow, judgement)

    def _respond(self, request: http.Request, judgement: Judgement) -> http.Response:
        """The page that replaces the origin's answer, with what the first part offers that offers something."""
        return stopped_response(self._runtime, request, judgement, self._parts.offered(request, judgement))

    def note_grant(self, flow: http.HTTPFlow, judgement: Judgement) -> None:
        """Note whether a request passes by a temporary unblock."""
        if judgement.decision.grant is not None:
            self._granted.add(flow)

    def request_of(self, flow: http.HTTPFlow) -> Request:
        """The request of a flow, with its fault if the proxy itself has made it."""
        request = request_of_flow(flow, with_media=self._runtime.asks_media, keeps=self._runtime.keeps)
        return replace(request, fault=LOOP) if self._loops.is_loop(flow.client_conn, flow.server_conn) else request

    def open_requests(self, *, by_grant: bool) -> list[tuple[http.HTTPFlow, Request | None]]:
        """What was let through and is not over, such as a WebSocket or a download; ``by_grant``: by an unblock.

        Of what was not decided, since the filter was off, there is no request.
        """
        flows = list(self._granted if by_grant else self._decided)
        pairs = ((flow, self._decided.get(flow)) for flow in flows)
        passed: list[tuple[http.HTTPFlow, Request | None]] = [
            (flow, decided.judgement.request)
            for flow, decided in pairs
            if decided is not None and not decided.judgement.stops
        ]
        passed += [] if by_grant else [(flow, None) for flow in self._undecided if flow not in self._decided]
        return [(flow, request) for flow, request in passed if flow.live and not is_over(flow)]

    def learn(self, flow: http.HTTPFlow) -> None:
        """Learn from a permanent redirect that the origin sent."""
        response, engine, decided = flow.response, self._runtime.engine, self._decided.get(flow)
        if response is None or not flow.live:
            return
        if decided is not None and engine is not None and flow.server_conn.timestamp_start is not None:
            engine.learn(decided.judgement.request, to_bytes(response.headers.get("location", "")))

    def _ask_the_name(self, flow: http.HTTPFlow, request: Request) -> None:
        """Connect to the name that was decided, not to the address that the client gives for it."""
        name = name_to_ask(request, flow.client_conn.sni)
        if name is not None:
            flow.request.data.host = name
            self._keep(flow)

    def _name_the_host(self, flow: http.HTTPFlow) -> None:
        """Tell the origin who was decided, where the client does not: by itself, it may answer for any of its hosts.

        Spec: RFC 9112, 3.2.2: who forwards a request "MUST generate a new Host field-value"
        """
        request = flow.request
        has_host = b"host" in [name.lower() for name, _ in request.data.headers.fields]
        if not has_host and not (request.authority and (request.is_http2 or request.is_http3)):
            with suppress(UrlError):
                host = canonical_host(to_bytes(request.host)).decode("ascii")
                request.headers.insert(0, "Host", hostport(request.scheme, host, request.port))
                self._keep(flow)

    def _take_out(self, flow: http.HTTPFlow, judgement: Judgement) -> None:
        """Take out the fields that servers believe, and that were not decided; a dry run changes nothing."""
        if judgement.settings.mode == "tag":
            return
        names = names_to_take_out(judgement.request, naming_of(flow.client_conn.proxy_mode), self._runtime.keeps)
        if names:
            headers = flow.request.headers
            headers.fields = tuple(field for field in headers.fields if field[0] not in names)
            flow.metadata[flow_outcome.TAKEN_OUT] = ", ".join(sorted(map(_shown, names)))
            self._keep(flow)

    def _keep(self, flow: http.HTTPFlow) -> None:
        """Keep the decision for the request as it was changed here."""
        self._decided[flow] = self._decided[flow]._replace(seen=seen_of_flow(flow))


def _shown(name: bytes) -> str:
    return printable(name.decode("latin-1"))
