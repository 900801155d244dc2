"""``hushlist compile``, ``check``, ``explain`` and ``helper``: what a policy has, and what it does with URLs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hushlist.cli.command_options import add_who_and_when, open_engine, who_and_when
from hushlist.cli.common import (
    FOUND,
    GOOD,
    Command,
    Commands,
    add_command,
    add_policy,
    add_urls_command,
    checked,
    complain,
    each,
    print_json,
    print_line,
    print_lines,
    print_warnings,
    readable,
    shown_progress,
    urls_of,
)
from hushlist.compiling.compile_report import unused_categories
from hushlist.compiling.policy_compiler import compile_policy
from hushlist.decide.decision import STOPPING, Decision
from hushlist.decide.trace import Trace, trace
from hushlist.errors import UrlError
from hushlist.match.rule import Action
from hushlist.policy import shipped_policy
from hushlist.squid import PLACEHOLDERS, AccessList, Redirector, SquidHelper, serve


def add_to(commands: Commands) -> None:
    """Add the commands."""
    text = "decide by a policy: what is done, with which URL, by which rule"
    check = _add_deciding(commands, "check", run_check, text)
    check.add_argument("--json", action="store_true", help="print one JSON object a line")
    _add_deciding(commands, "explain", run_explain, "show every step from a URL to its decision")
    text = "compile the lists of a policy into the cache, where the proxy finds them, and report what became of them"
    compiler = add_command(commands, "compile", run_compile, text)
    add_policy(compiler)
    compiler.add_argument(
        "--popular",
        type=Path,
        metavar="FILE",
        help="popular domains, one a line or as rank,domain: rules that cover one get a warning "
        "(the index is then another than the proxy's)",
    )
    compiler.add_argument(
        "--json", action="store_true", help="print the report as a JSON object, with the file of the index"
    )
    text = "answer Squid: a line on standard output for each on standard input, until that ends"
    helper = add_command(commands, "helper", help_squid, text)
    add_policy(helper)
    protocol = helper.add_mutually_exclusive_group(required=True)
    protocol.add_argument(
        "--acl",
        action="store_true",
        help="as external_acl_type with the format %%#>ru: OK is what has to be blocked",
    )
    placeholders = "; ".join(f"{name} is {meaning}" for name, meaning in PLACEHOLDERS.items())
    protocol.add_argument(
        "--redirect",
        type=checked(Redirector),
        metavar="URL",
        help="as url_rewrite_program: where to send whoever asks for what is blocked; in its path, query and "
        f"fragment, percent-encoded: {placeholders}".replace("%", "%%"),
    )


def _add_deciding(commands: Commands, name: str, command: Command, text: str) -> argparse.ArgumentParser:
    parser = add_urls_command(commands, name, command, text)
    add_policy(parser)
    add_who_and_when(parser)
    return parser


# -- compile -----------------------------------------------------------------------------------------------------------


def run_compile(arguments: argparse.Namespace) -> int:
    """Print the report; warnings go to standard error, and so does progress, if that is a terminal."""
    with shown_progress() as progress:
        compiled = compile_policy(
            arguments.policy or shipped_policy(), popular=arguments.popular, progress=progress, may_do_without=False
        )
    print_warnings([*unused_categories(compiled.policy, compiled.index), *compiled.report.warnings])
    if arguments.json:
        index = compiled.index
        about = {"index": index.source, "octets": index.octets, "hot_octets": index.hot_octets, "rules": len(index)}
        print_json({**about, **compiled.report.as_dict()})
    else:
        print_lines(compiled.report.table())
    return GOOD


# -- check -------------------------------------------------------------------------------------------------------------


def run_check(arguments: argparse.Namespace) -> int:
    """Decide each URL; empty lines of standard input are skipped."""
    engine = open_engine(arguments)
    moment, client = who_and_when(arguments, engine)
    mode = engine.group(client).settings.mode
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


# -- helper ------------------------------------------------------------------------------------------------------------


def help_squid(arguments: argparse.Namespace) -> int:
    """Answer Squid's lines until they end."""
    engine = open_engine(arguments)
    if arguments.redirect is not None:
        decision = engine.decide_url(arguments.redirect.base)
        if decision.action is Action.BLOCK:  # the redirected client asks for the page through Squid, too
            _tell_operator(f"warning: the page to redirect to is blocked itself: {decision}")
    helper = SquidHelper(engine, arguments.redirect or AccessList(), _tell_operator)
    serve(helper.answer, sys.stdin.fileno(), sys.stdout.fileno())
    return GOOD


def _tell_operator(what: str) -> None:
    with suppress(OSError):  # nobody may read it
        complain(what)
