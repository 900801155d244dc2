"""Handles a request: decide, log, and pass it, change it or answer it in place of its origin."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Coroutine
from contextlib import suppress
from functools import partial
from itertools import repeat
from operator import call
from time import monotonic
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

from mitmproxy import http
from mitmproxy.net.http.url import hostport

from hushlist.core.decide.decision import STOPPING, Judgement
from hushlist.core.errors import UrlError, logger_of, printable
from hushlist.core.match.rule import Action
from hushlist.core.url.header_names import believed_names
from hushlist.core.url.http_head import decides_believed, sends_form
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
    """A decided request: the flow's data that it was made from, the judgement, the number of the policy, and the time
    on a monotonic clock."""

    seen: Seen
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
                and decided.seen == seen_of_flow(flow, with_media=runtime.asks_media)
                and not self._loops.is_loop(flow.client_conn, flow.server_conn)
            ):
                return None
        except Exception:  # noqa: S110  of what an addon has made of it: ``filter`` refuses it
            pass
        return self.filter(flow, again=False)

    def filter(self, flow: http.HTTPFlow, *, again: bool) -> Awaitable[None] | None:
        """Decide a request, and act. Only where somebody has to be asked is there something to wait for: then nothing
        goes on until then.

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
            if (confirming := self._decide(flow, again=again)) is not None:
                return begin(confirming)
        else:
            self._leave(flow, is_form=self._is_claimed(flow.request))
        if self._loops.is_loop(flow.client_conn, flow.server_conn):
            refuse(flow, block_response.loop_response)
        return None

    def _decide(self, flow: http.HTTPFlow, *, again: bool) -> Coroutine[Any, Any, None] | None:
        """Decide a request, and act, or return what has to be done first."""
        is_form = False
        try:
            runtime = self._runtime
            is_form = flow.request.data.method != b"GET" and self._is_claimed(flow.request)
            before, seen = None if again else self._decided.get(flow), seen_of_flow(flow, with_media=runtime.asks_media)
            if before is None or before.seen != seen:
                request = self.request_of(flow)
                is_same = before is not None and before.judgement.request == request
            else:
                request, is_same = before.judgement.request, True
            if before is not None and is_same and not self._is_late(flow, before):
                return None
            judgement = runtime.judge(request, client_of_flow(flow))
            may_wait = judgement is not None and (judgement.decision.unconfirmed or runtime.asks_leads)
            if may_wait and (is_open(flow) or not flow.live):
                return self._confirm(flow, judgement, seen, is_form=is_form, is_same=is_same)
            self._act(flow, judgement, seen, is_form=is_form, is_same=is_same)
        except Exception as error:
            self._fail(flow, error, is_blocked=is_form)
        return None

    async def _confirm(
        self, flow: http.HTTPFlow, judgement: Judgement | None, seen: Seen, *, is_form: bool, is_same: bool
    ) -> None:
        """Wait for whoever has to be asked, and act."""
        runtime = self._runtime
        try:
            judgement = await runtime.confirmed(judgement)
            if (now := seen_of_flow(flow, with_media=runtime.asks_media)) != seen:
                # meanwhile another addon has changed it, or another policy asks for more of it
                seen, is_same = now, False
                judged = runtime.judge(self.request_of(flow), client_of_flow(flow), is_settled=True)
                judgement = await runtime.confirmed(judged)
            self._act(flow, judgement, seen, is_form=is_form, is_same=is_same, was_open=True)
        except Exception as error:
            self._fail(flow, error, is_blocked=is_form)
        if self._loops.is_loop(flow.client_conn, flow.server_conn):
            refuse(flow, block_response.loop_response)

    def _act(
        self,
        flow: http.HTTPFlow,
        judgement: Judgement | None,
        seen: Seen,
        *,
        is_form: bool,
        is_same: bool,
        was_open: bool = False,
    ) -> None:
        """Carry a judgement out, and log it unless it is the one before; ``None``: the filter is off for the client.

        ``was_open``: somebody was asked, and nobody had answered the request before.
        """
        is_blocked = is_form
        try:
            if judgement is None:
                self._leave(flow, is_form=is_form)
                return
            runtime, data = self._runtime, flow.request.data
            is_blocked = is_form or judgement.stops
            if data.method != b"GET" and not is_blocked and sends_form(data) and (keys := self._form_keys(judgement)):
                decide_form(flow.request, keys)
            self._decided[flow] = _DecidedRequest(seen, judgement, runtime.policies, monotonic())
            if judgement.decision.grant is not None:
                self.note_grant(flow, judgement)
            if is_same and not is_blocked:
                return  # unchanged: do not log it again
            recorded, can_answer = judgement, is_open(flow)
            if is_form:  # nobody browsed to it
                recorded = judgement.recorded(None)
            elif can_answer or was_open or not flow.live:
                # otherwise as mitmproxy itself does with 407: it goes nowhere, and nobody knows yet who asks
                recorded = runtime.record(judgement, flow.request.method, is_live=flow.live)
            flow_outcome.annotate(flow, recorded)
            if is_blocked:
                if refuse(flow, partial(self._respond, recorded)):
                    self._refused(flow, recorded)
            elif can_answer:
                self._let_through(flow, recorded)
        except Exception as error:
            self._fail(flow, error, is_blocked=is_blocked)

    def _let_through(self, flow: http.HTTPFlow, judgement: Judgement) -> None:
        """Make a request that passes what was decided, and change it as extensions do."""
        if judgement.request.destination is not None:
            self._ask_the_name(flow, judgement.request)
        if "host" not in flow.request.headers:
            self._name_the_host(flow)
        if names := believed_names(judgement.request.fields):
            self._take_out(flow, judgement, names)
        for change in self._parts.change:
            if change(flow, judgement):
                self._keep(flow)
        for passed in self._parts.passed:
            passed(flow, flow.client_conn, judgement)

    def _fail(self, flow: http.HTTPFlow, error: Exception, *, is_blocked: bool) -> None:
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

    def _respond(self, judgement: Judgement, request: http.Request) -> http.Response:
        """The page that replaces the origin's answer, with what the first part offers that offers something."""
        return stopped_response(self._runtime, request, judgement, self._parts.offered(request, judgement))

    def note_grant(self, flow: http.HTTPFlow, judgement: Judgement) -> None:
        """Note whether a request passes by a temporary unblock."""
        if judgement.decision.grant is not None:
            self._granted.add(flow)

    def request_of(self, flow: http.HTTPFlow) -> Request:
        """The request of a flow, with its fault if the proxy itself has made it."""
        request = request_of_flow(flow, with_media=self._runtime.asks_media, keeps=self._runtime.keeps)
        return request._replace(fault=LOOP) if self._loops.is_loop(flow.client_conn, flow.server_conn) else request

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
        if not (request.authority and (request.is_http2 or request.is_http3)):
            with suppress(UrlError):
                host = canonical_host(to_bytes(request.host)).decode("ascii")
                request.headers.insert(0, "Host", hostport(request.scheme, host, request.port))
                self._keep(flow)

    def _take_out(self, flow: http.HTTPFlow, judgement: Judgement, names: Collection[bytes]) -> None:
        """Take out the fields that servers believe, unless they were decided; a dry run changes nothing."""
        naming = naming_of(flow.client_conn.proxy_mode)
        if judgement.settings.mode != "tag" and not decides_believed(judgement.request, naming, self._runtime.keeps):
            headers = flow.request.headers
            headers.fields = tuple(field for field in headers.fields if field[0] not in names)
            flow.metadata[flow_outcome.TAKEN_OUT] = ", ".join(sorted(map(_shown, names)))
            self._keep(flow)

    def _keep(self, flow: http.HTTPFlow) -> None:
        """Keep the decision for the request as it was changed here."""
        self._decided[flow] = self._decided[flow]._replace(seen=seen_of_flow(flow, with_media=self._runtime.asks_media))


def _shown(name: bytes) -> str:
    return printable(name.decode("latin-1"))
