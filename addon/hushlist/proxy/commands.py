"""mitmproxy's commands: what the filter says and does, from the console, from mitmweb and from scripts."""

from __future__ import annotations

from collections.abc import Sequence

from mitmproxy import command, exceptions, flow, http

from hushlist.core.decide.decision import original_url
from hushlist.core.decide.engine import Engine
from hushlist.core.errors import logger_of, printable
from hushlist.proxy.flow_outcome import SAFE_SEARCH, TAKEN_OUT
from hushlist.proxy.flow_request import client_of_flow, request_of_flow
from hushlist.proxy.runtime import Runtime
from hushlist.proxy.service.policy_watch import PolicyWatch

logger = logger_of(__name__)


class Commands:
    """The commands; mitmproxy collects them, and they need no hooks."""

    def __init__(self, runtime: Runtime, policy_watch: PolicyWatch) -> None:
        self._runtime, self._policy_watch = runtime, policy_watch

    @command.command("hushlist.status")
    def status(self) -> str:
        """What is in force: the policy, its rules, and what was wrong with its last change."""
        return self._runtime.status()

    @command.command("hushlist.reload")
    def reload(self) -> None:
        """Read the policy and its lists again, changed or not."""
        self._policy_watch.reload()

    @command.command("hushlist.explain")
    def explain(self, flows: Sequence[flow.Flow]) -> str:
        """What the policy in force does with each flow, and why."""
        engine = self._engine()
        return "\n".join(_explain(engine, exchange) for exchange in flows if isinstance(exchange, http.HTTPFlow))

    def _engine(self) -> Engine:
        if self._runtime.engine is None:
            raise exceptions.CommandError("the filter has no policy that it can use")
        return self._runtime.engine


def _explain(engine: Engine, exchange: http.HTTPFlow) -> str:
    request = request_of_flow(exchange, with_media=engine.asks_media, keeps=engine.policy.keeps)
    decision = engine.decide(request, client=client_of_flow(exchange))
    lines = [f"{decision.action.value} {decision.url.decode('ascii', 'backslashreplace')} {decision}".rstrip()]
    for match in decision.matches:
        decides = "  <- decides" if match == decision.winner else ""
        lines.append(f"  layer {match.rule.terms.layer}: {match.rule.terms.action.value} {match}{decides}")
    original = original_url(decision, request)
    if original is not None:
        lines.append(f"  as sent: {original.decode('ascii', 'backslashreplace')}")
    if SAFE_SEARCH in exchange.metadata:
        lines.append(f"  safe search: {exchange.metadata[SAFE_SEARCH]}")
    if TAKEN_OUT in exchange.metadata:
        lines.append(f"  taken out, as servers believe it: {exchange.metadata[TAKEN_OUT]}")
    return "\n".join(map(printable, lines))
