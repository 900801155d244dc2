"""``hushlist check`` and ``explain``: what a policy does with URLs, and why."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from hushlist.cli.common import (
    FOUND,
    GOOD,
    Command,
    Commands,
    add_policy,
    add_urls_command,
    complain,
    each,
    print_json,
    print_line,
    print_lines,
    readable,
    urls_of,
)
from hushlist.cli.engine_options import add_who_and_when, open_engine, who_and_when
from hushlist.decide.decision import STOPPING, Decision
from hushlist.decide.trace import Trace, trace
from hushlist.errors import UrlError


def add_to(commands: Commands) -> None:
    """Add the commands."""
    checked = _add(commands, "check", run_check, "decide by a policy: what is done, with which URL, by which rule")
    checked.add_argument("--json", action="store_true", help="print one JSON object a line")
    _add(commands, "explain", run_explain, "show every step from a URL to its decision")


def _add(commands: Commands, name: str, command: Command, text: str) -> argparse.ArgumentParser:
    parser = add_urls_command(commands, name, command, text)
    add_policy(parser)
    add_who_and_when(parser)
    return parser


# -- check -------------------------------------------------------------------------------------------------------------


def run_check(arguments: argparse.Namespace) -> int:
    """Decide each URL; empty lines of standard input are skipped."""
    engine = open_engine(arguments)
    moment, client = who_and_when(arguments, engine)
    mode = engine.settings(client).mode
    show = _print_json if arguments.json else _print_text
    code = GOOD
    for url in urls_of(arguments):
        if not url and "-" in arguments.urls:
            continue
        decision = engine.decide_url(url, moment, client)
        show(readable(url), decision, mode)
        if decision.fault is not None:
            code = complain(UrlError(url, decision.fault))
        elif decision.action in STOPPING and mode == "block":
            code = max(code, FOUND)
    return code


def _print_json(url: str, decision: Decision, mode: str) -> None:
    print_json({"url": url, "mode": mode, **decision.as_dict()})


def _print_text(url: str, decision: Decision, mode: str) -> None:
    passes = f" (it passes: mode {mode})" if decision.action in STOPPING and mode != "block" else ""
    print_line(f"{decision.action.value:<5}  {url}  {decision}{passes}".rstrip())


# -- explain -----------------------------------------------------------------------------------------------------------


def run_explain(arguments: argparse.Namespace) -> int:
    """Print every step, for a person."""
    engine = open_engine(arguments)
    moment, client = who_and_when(arguments, engine)
    return each(urls_of(arguments), lambda url: print_lines(_explanation(trace(engine, url, moment, client))))


def _explanation(found: Trace) -> Iterator[str]:
    decision = found.decision
    yield f"URL          {readable(found.url)}"
    yield from (f"  {name:<22} {readable(after)}" for name, after in found.steps)
    for form in found.forms:
        yield ""
        yield f"Canonical    {readable(form.url)}"
        yield "Expressions and their SHA-256, the most specific first"
        yield from (f"  {digest.hex()}  {readable(expression)}" for expression, digest in form.expressions)
    yield ""
    yield "Matches" if decision.matches else "Matches      none"
    for match in decision.matches:
        pattern, terms, _ = match.rule
        won = "  <- decides" if match == decision.winner else ""
        category = f" [{terms.category}]" if terms.category else ""
        yield f"  layer {terms.layer}: {terms.action.value} {match}{category}{won}"
        yield f"    rule as written: {pattern}"
    yield from _layers_asked(found)
    yield f"Decision     {decision.action.value}" + (f" ({decision.fault})" if decision.fault else "")


def _layers_asked(found: Trace) -> Iterator[str]:
    """Client and moment, and the layers in their order, up to the one that decided."""
    until = "" if found.until is None else f", until {found.until:%Y-%m-%d %H:%M %Z}"
    yield f"Group        {found.group}{until}" + ("" if found.mode == "block" else f", mode {found.mode}")
    for layer in found.layers:
        what = "what no layer decides" if layer.rules is None else f"{layer.rules} rules, {layer.fit} fit"
        yield f"Layer        {layer.name}: {what}{'  <- decides' if layer.decides else ''}"
