"""mitmproxy's commands: what the filter says and does, from the console, from mitmweb and from scripts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from mitmproxy import command, exceptions, flow, http

from hushlist.decide.engine import Engine
from hushlist.errors import UrlError, logger_of, printable
from hushlist.lists.list_formats import FORMATS
from hushlist.match.rule import Action
from hushlist.policy.rule_edit import EditError, add_rule
from hushlist.proxy.flow_outcome import SAFE_SEARCH
from hushlist.proxy.flow_request import client_of_flow, request_of_flow
from hushlist.proxy.policy_watch import PolicyWatch
from hushlist.proxy.runtime import Runtime
from hushlist.system.files import LONGEST_DOCUMENT, read_regular, replace_file
from hushlist.url.host import is_address
from hushlist.url.request import canonical_host

logger = logger_of(__name__)

#: the layer that an administrator's own rules are in
_OVERRIDES = "overrides"


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
        return "\n".join(_explain(engine, one) for one in flows if isinstance(one, http.HTTPFlow))

    @command.command("hushlist.allow")
    def allow(self, flows: Sequence[flow.Flow]) -> None:
        """Allow the hosts of flows for good: a rule for each is added to the administrator's own."""
        self._add(flows, Action.ALLOW)

    @command.command("hushlist.block")
    def block(self, flows: Sequence[flow.Flow]) -> None:
        """Block the hosts of flows for good: a rule for each is added to the administrator's own."""
        self._add(flows, Action.BLOCK)

    def _engine(self) -> Engine:
        if self._runtime.engine is None:
            raise exceptions.CommandError("the filter has no policy that it can use")
        return self._runtime.engine

    def _add(self, flows: Sequence[flow.Flow], action: Action) -> None:
        path = own_list(self._engine())
        hosts = dict.fromkeys(_host(one) for one in flows if isinstance(one, http.HTTPFlow))
        try:
            text = read_regular(path, LONGEST_DOCUMENT).decode("utf-8")  # whose ends of lines stay
            for host in hosts:
                reason = f"by the command hushlist.{action.value}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
                text = add_rule(text, {"expression": f"{host}/", "action": action.value, "reason": reason})
            replace_file(path.resolve(), text.encode("utf-8"))
        except (OSError, UnicodeError, EditError) as error:
            raise exceptions.CommandError(printable(f"{path} cannot be changed: {error}")) from error
        logger.info("hushlist: %s: added %s for %s", path, action.value, ", ".join(hosts))


def own_list(engine: Engine) -> Path:
    """The file of the administrator's rules: the first YAML list of the layer ``overrides``.

    Raises:
        CommandError: the policy has no such list.
    """
    for layer in engine.policy.layers:
        for file in layer.lists if layer.name == _OVERRIDES else ():
            if file.format is FORMATS["yaml"]:
                return file.path
    raise exceptions.CommandError(f"the policy has no YAML list in a layer {_OVERRIDES!r}")


def _host(one: http.HTTPFlow) -> str:
    """The host that a person sees; for a client that connects by address, the name that it asks for."""
    try:
        hosts = [canonical_host(host) for host in request_of_flow(one).hosts]
        return next((host for host in hosts if not is_address(host)), hosts[0]).decode("ascii")
    except (UrlError, LookupError, UnicodeError) as error:
        raise exceptions.CommandError(printable(f"the flow has no host that a rule can name: {error}")) from error


def _explain(engine: Engine, one: http.HTTPFlow) -> str:
    decision = engine.decide(request_of_flow(one, with_media=engine.asks_media), client=client_of_flow(one))
    lines = [f"{decision.action.value} {decision.url.decode('ascii', 'backslashreplace')} {decision}".rstrip()]
    for match in decision.matches:
        decides = "  <- decides" if match == decision.winner else ""
        lines.append(f"  layer {match.rule.terms.layer}: {match.rule.terms.action.value} {match}{decides}")
    if SAFE_SEARCH in one.metadata:
        lines.append(f"  safe search: {one.metadata[SAFE_SEARCH]}")
    return "\n".join(map(printable, lines))
