"""``hushlist check`` and ``explain``: what a policy does with URLs, and why."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from datetime import datetime

from hushlist.cli.asking import add_who_and_when, open_engine, who_and_when
from hushlist.cli.common import (
    FOUND,
    GOOD,
    Command,
    Commands,
    add_policy,
    add_urls_command,
    complain,
    each,
    print_lines,
    readable,
    urls_of,
)
from hushlist.engine import Engine
from hushlist.errors import UrlError
from hushlist.match.expressions import expressions
from hushlist.match.hashing import full_hash
from hushlist.match.rule import Action
from hushlist.policy.decision import STOPPING, Decision
from hushlist.policy.groups import Client
from hushlist.url.request import canonical_forms, request_of
from hushlist.url.safebrowsing import SAFEBROWSING


def add_to(commands: Commands) -> None:
    """Add the commands."""
    checked = _add(commands, "check", check, "decide by a policy: what is done, with which URL, by which rule")
    checked.add_argument("--json", action="store_true", help="print one JSON object a line")
    _add(commands, "explain", explain, "show every step from a URL to its decision")


def _add(commands: Commands, name: str, command: Command, text: str) -> argparse.ArgumentParser:
    parser = add_urls_command(commands, name, command, text)
    add_policy(parser)
    add_who_and_when(parser)
    return parser


# -- check -------------------------------------------------------------------------------------------------------------


def check(arguments: argparse.Namespace) -> int:
    """Decide each URL; empty lines are none."""
    engine = open_engine(arguments)
    moment, client = who_and_when(arguments, engine)
    mode = engine.settings(client).mode
    show = _print_json if arguments.json else _print_text
    code = GOOD
    for url in filter(None, urls_of(arguments)):
        decision = engine.decide_url(url, moment, client)
        show(readable(url), decision, mode)
        if decision.fault is not None:
            code = complain(UrlError(url, decision.fault))
        elif decision.action in STOPPING and mode == "block":
            code = max(code, FOUND)
    return code


def _print_json(url: str, decision: Decision, mode: str) -> None:
    print(json.dumps({"url": url, "mode": mode, **decision.as_dict()}))


def _print_text(url: str, decision: Decision, mode: str) -> None:
    passes = f" (it passes: mode {mode})" if decision.action in STOPPING and mode != "block" else ""
    print(f"{decision.action.value:<5}  {url}  {decision}{passes}".rstrip())


# -- explain -----------------------------------------------------------------------------------------------------------


def explain(arguments: argparse.Namespace) -> int:
    """Every step, for a person to read."""
    engine = open_engine(arguments)
    moment, client = who_and_when(arguments, engine)
    return each(urls_of(arguments), lambda url: print_lines(_explanation(engine, url, moment, client)))


def _explanation(engine: Engine, url: bytes, moment: datetime, client: Client) -> Iterator[str]:
    request = request_of(url)
    yield f"URL          {readable(url)}"
    yield from _steps(url)
    decision = engine.decide(request, moment, client)
    if decision.fault is None:
        for form in canonical_forms(request, request.hosts[0]):
            yield f"\nCanonical    {form.join().decode('ascii')}"
            yield "Expressions and their SHA-256, the most specific first"
            yield from (f"  {full_hash(found).hex()}  {found.decode('ascii')}" for found in expressions(form))
    yield "\nMatches" if decision.matches else "\nMatches      none"
    for found in decision.matches:
        pattern, terms, _ = found.rule
        won = "  <- decides" if found == decision.winner else ""
        category = f" [{terms.category}]" if terms.category else ""
        yield f"  layer {terms.layer}: {terms.action.value} {found}{category}{won}"
        yield f"    rule as written: {pattern}"
    yield from _layers_asked(engine, decision, moment, client)
    yield f"Decision     {decision.action.value}" + (f" ({decision.fault})" if decision.fault else "")


def _layers_asked(engine: Engine, decision: Decision, moment: datetime, client: Client) -> Iterator[str]:
    """For whom and when, and the layers in their order, to the one that decided."""
    view = engine.view(client, moment)
    until = "" if view.until is None else f", until {view.until.astimezone(engine.policy.zone):%Y-%m-%d %H:%M %Z}"
    mode = view.group.settings.mode
    yield f"Group        {view.group.name}{until}" + ("" if mode == "block" else f", mode {mode}")
    checks = {layer.name: len(layer.checks) for layer in engine.policy.layers}
    decided = decision.winner is not None and decision.action is not Action.TAG
    for name in view.layers:
        rules = checks.get(name, 0) + engine.index.directory.rules.get(name, 0)
        fit = sum(found.rule.terms.layer == name for found in decision.matches)
        stops = decided and decision.winner is not None and decision.winner.rule.terms.layer == name
        if name in checks:
            yield f"Layer        {name}: {rules} rules, {fit} fit{'  <- decides' if stops else ''}"
        elif stops:
            yield f"Layer        {name}: what no layer decides  <- decides"
        if stops:
            return


def _steps(url: bytes) -> Iterator[str]:
    """The profile's steps that changed something."""
    before = url
    for name, after in SAFEBROWSING.trace(url):
        if after != before:
            yield f"  {name:<22} {readable(after)}"
        before = after
