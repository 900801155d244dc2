"""What becomes of a file that a rule has decided about: the line in the log, and the page in its place."""

from __future__ import annotations

from weakref import WeakSet

from mitmproxy import http

from hushlist.core.decide.decision import Decision, Judgement
from hushlist.core.match.rule import Action
from hushlist.core.match.rule_match import Match
from hushlist.proxy import flow_outcome
from hushlist.proxy.flow_outcome import refuse
from hushlist.proxy.page import block_response
from hushlist.proxy.request_handler import stopped_response
from hushlist.proxy.runtime import Runtime


class FileOutcome:
    """Records what rules decide about files, and answers in their place."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        #: flows that have ended with a page, though the scan of their file goes on
        self.waited: WeakSet[http.HTTPFlow] = WeakSet()

    def failure_page(self, flow: http.HTTPFlow, what: str, error: Exception) -> http.Response | None:
        """The page in place of a file that could not be looked at, unless it passes by the policy's ``on-failure``."""
        passes = self._runtime.failure_policy.lets_pass(error, what)
        return None if passes else block_response.failure(flow.request)

    def refuse(self, flow: http.HTTPFlow, judgement: Judgement, match: Match | None) -> None:
        if match is not None and (recorded := self.record(flow, judgement, match)) is not None:
            refuse(flow, lambda request: self.respond(request, recorded))

    def stops(self, judgement: Judgement, match: Match) -> bool:
        return self._decided(judgement, match).stops

    def _decided(self, judgement: Judgement, match: Match) -> Judgement:
        """The judgement of a file; who has gone on past a warning of its address is let through."""
        before, action, engine = judgement.decision, match.rule.terms.action, self._runtime.engine
        decision = Decision(action, before.url, (match, *before.matches), match, group=before.group)
        if action is Action.WARN and engine is not None:
            decision = engine.past_warning(decision, judgement.client)
        return judgement._replace(decision=decision)

    def page(self, flow: http.HTTPFlow, judgement: Judgement, match: Match | None) -> http.Response | None:
        """The page in place of a file, and the line in the log; ``None`` if it passes."""
        if match is None:
            return None
        recorded = self.record(flow, judgement, match)
        return None if recorded is None else self.respond(flow.request, recorded)

    def respond(self, request: http.Request, judgement: Judgement) -> http.Response:
        """The page of a file, with what it offers."""
        return stopped_response(self._runtime, request, judgement, self._runtime.parts.offered(request, judgement))

    def record(self, flow: http.HTTPFlow, judgement: Judgement, match: Match) -> Judgement | None:
        """Log what a rule has decided; the judgement if it stops the file."""
        if match.rule.terms.action is Action.ALLOW:
            return None
        is_live = flow.live or flow in self.waited
        recorded = self._runtime.record(self._decided(judgement, match), flow.request.method, is_live=is_live)
        flow_outcome.annotate(flow, recorded)
        return recorded if recorded.stops else None
