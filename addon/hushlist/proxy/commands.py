"""mitmproxy's commands: what the filter says and does, from the console, from mitmweb and from scripts.

A rule is added to a list that a person keeps: everything else in the file stays as it is, to the octet. Only the
brackets of an empty list are removed, since its first rule takes a line of its own. YAML's parser tells where the rules
are, and the new one is inserted there into the text. A library that writes the whole document, even one that keeps
comments, would wrap lines differently and lose comments inside brackets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from mitmproxy import command, exceptions, flow, http

from hushlist.decide.decision import original_url
from hushlist.decide.engine import Engine
from hushlist.errors import HushlistError, UrlError, logger_of, printable
from hushlist.lists.list_formats import FORMATS
from hushlist.lists.list_source import ListDefaults, ProblemReport
from hushlist.lists.yaml_nodes import LOADER
from hushlist.lists.yaml_rules import read_yaml
from hushlist.match.rule import Action, Rule
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
            if file.format is FORMATS["yaml"] and file.url is None:
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
    request = request_of_flow(one, with_media=engine.asks_media)
    decision = engine.decide(request, client=client_of_flow(one))
    lines = [f"{decision.action.value} {decision.url.decode('ascii', 'backslashreplace')} {decision}".rstrip()]
    for match in decision.matches:
        decides = "  <- decides" if match == decision.winner else ""
        lines.append(f"  layer {match.rule.terms.layer}: {match.rule.terms.action.value} {match}{decides}")
    original = original_url(decision, request)
    if original is not None:
        lines.append(f"  as sent: {original.decode('ascii', 'backslashreplace')}")
    if SAFE_SEARCH in one.metadata:
        lines.append(f"  safe search: {one.metadata[SAFE_SEARCH]}")
    return "\n".join(map(printable, lines))


# -- adding a rule -----------------------------------------------------------------------------------------------------


class EditError(HushlistError):
    """A rule cannot be added; says why."""


def add_rule(text: str, rule: Mapping[str, str]) -> str:
    """The text of a YAML list with one more rule, behind the others; the same text where it has that rule already.

    >>> print(add_rule("rules:\\n  - a.example  # mine\\n", {"expression": "b.example/", "action": "allow"}), end="")
    rules:
      - a.example  # mine
      - {expression: "b.example/", action: "allow"}

    Raises:
        EditError: the file or the rule cannot be read, or the rule would change nothing.
    """
    before = _read(text)
    fields = ", ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in rule.items())
    (wanted,) = _read(f"rules: [{{{fields}}}]")
    for other in before:
        if other.pattern == wanted.pattern and other.terms.expires is None:
            if other.terms.action is wanted.terms.action:
                return text
            if other.terms.action is Action.ALLOW:  # "at the same expression allow beats block"
                raise EditError(f"line {other.line} allows {wanted.pattern}; remove that first")
    body = text.removeprefix("\ufeff")  # the parser does not count a byte order mark
    added = text[: len(text) - len(body)] + _insert(body, f"{{{fields}}}")
    after = _read(added)
    is_kept = [one.terms for one in after[:-1]] == [one.terms for one in before]
    if not is_kept or [one.pattern for one in after] != [one.pattern for one in (*before, wanted)]:
        raise EditError("its rules are written in a way that none can be added to")
    return added


def _insert(text: str, item: str) -> str:
    """The text with one more item in its list of rules; the text is a list that can be read."""
    document: Any = yaml.compose(text, LOADER)
    rules = next(value for key, value in document.value if key.value == "rules")
    start, end, indent = rules.start_mark.index, _end(rules), rules.start_mark.column
    if rules.flow_style and (rules.value or document.flow_style or "#" in text[start:end]):
        place = _end(rules.value[-1]) if rules.value else start + 1
        return f"{text[:place]}{', ' if rules.value else ''}{item}{text[place:]}"
    if rules.flow_style:  # an empty list: the brackets go, and the rules begin on a line of their own
        head = text[:start].rstrip()
        text, end, indent = head + text[end:], len(head), document.start_mark.column + 2
    place = len(text[:end].rstrip())
    place += len(re.split("\r?\n", text[place:], maxsplit=1)[0])  # behind a comment
    line_end = "\r\n" if "\r\n" in text else "\n"
    return f"{text[:place]}{line_end}{' ' * indent}- {item}{text[place:] or line_end}"


def _end(node: Any) -> int:
    """The index behind a node; the parser's own mark of a block collection is behind the comments that follow it."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(last[1] if isinstance(last, tuple) else last)


def _read(text: str) -> list[Rule]:
    """The rules that there are.

    Raises:
        EditError: the text is no list.
    """
    report = ProblemReport("list")
    rules = list(read_yaml(text.encode("utf-8", "backslashreplace"), ListDefaults(), report))
    if report.errors:
        raise EditError(f"line {report.errors[0].line}: {report.errors[0].what}: {report.errors[0].why}")
    return rules
