"""mitmproxy's commands that add a rule to the administrator's list."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from mitmproxy import command, exceptions, flow, http

from hushlist.core.errors import UrlError, logger_of, printable
from hushlist.core.match.rule import Action
from hushlist.core.policy.policy_file import Policy
from hushlist.core.routes import ActionError
from hushlist.core.url.host import is_address
from hushlist.core.url.request import canonical_host
from hushlist.proxy.flow_request import request_of_flow
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)


class RuleCommands:
    """The commands; mitmproxy collects them."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @command.command("hushlist.allow")
    def allow(self, flows: Sequence[flow.Flow]) -> None:
        """Allow the hosts of flows for good: a rule for each is added to the administrator's own."""
        self._add(flows, Action.ALLOW)

    @command.command("hushlist.block")
    def block(self, flows: Sequence[flow.Flow]) -> None:
        """Block the hosts of flows for good: a rule for each is added to the administrator's own."""
        self._add(flows, Action.BLOCK)

    def _add(self, flows: Sequence[flow.Flow], action: Action) -> None:
        from hushlist.extensions.dashboard.rule_edits import change_list, overrides_list, with_rule  # few ask for it

        hosts = dict.fromkeys(_host(candidate) for candidate in flows if isinstance(candidate, http.HTTPFlow))

        def edit(text: str) -> str:
            for host in hosts:
                reason = f"by the command hushlist.{action.value}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
                text = with_rule(text, {"expression": f"{host}/", "action": action.value, "reason": reason})
            return text

        try:
            policy = self._policy()
            path = overrides_list(policy)
            change_list(policy, path, edit)
        except ActionError as error:
            raise exceptions.CommandError(printable(str(error))) from error
        logger.info("hushlist: %s: added %s for %s", path, action.value, ", ".join(hosts))

    def _policy(self) -> Policy:
        if self._runtime.engine is None:
            raise exceptions.CommandError("the filter has no policy that it can use")
        return self._runtime.engine.policy


def _host(http_flow: http.HTTPFlow) -> str:
    """The host that a person sees; for a client that connects by address, the name that it asks for."""
    try:
        hosts = [canonical_host(host) for host in request_of_flow(http_flow).hosts]
        return next((host for host in hosts if not is_address(host)), hosts[0]).decode("ascii")
    except (UrlError, LookupError, UnicodeError) as error:
        raise exceptions.CommandError(printable(f"the flow has no host that a rule can name: {error}")) from error
