"""``hushlist compile``, ``check`` and ``explain``: what a policy has, and what it does with URLs."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from hushlist.cli import command_options, common
from hushlist.core.compile.compile_report import policy_warnings, unused_categories
from hushlist.core.compile.stat_cache import asking_engine, compile_recorded
from hushlist.core.decide.decision import STOPPING, Decision
from hushlist.core.decide.engine import Engine
from hushlist.core.decide.facts import DecidedByFacts, decide_by_facts
from hushlist.core.errors import HushlistError, UrlError, number_of, printable
from hushlist.core.lists.list_source import ListedProblem
from hushlist.core.policy import default_policy
from hushlist.core.policy.groups import Client, GroupSettings
from hushlist.core.policy.pass_through import ALL, BY_NEED
from hushlist.core.system.files import replace_file, source_errors
from hushlist.core.url.hashed_uri import HashedUri
from hushlist.core.url.parts import split_web
from hushlist.core.url.request import Request, request_of, without_userinfo
from hushlist.extensions.unblock import default_path

if TYPE_CHECKING:
    from hushlist.core.decide.trace import Trace


#: the port of https: the canonical URL of a decision has none
_HTTPS = 443


def add_to(commands: common.Commands) -> None:
    text = "decide by a policy: what is done, with which URL, by which rule"
    check = _add_deciding(commands, "check", run_check, text)
    check.add_argument("--json", action="store_true", help="print one JSON object a line")
    command_options.add_key_file(
        _add_deciding(commands, "explain", run_explain, "show every step from a URL to its decision")
    )
    text = "compile the lists of a policy into the cache, where the proxy finds them, and report what became of them"
    compiler = common.add_command(commands, "compile", run_compile, text)
    common.add_policy(compiler)
    command_options.add_popular(
        compiler, ": rules that cover one get a warning (the index is then another than the proxy's)"
    )
    compiler.add_argument(
        "--problems",
        type=Path,
        metavar="FILE",
        help="write every problem of every list there: file, line, kind, reason and entry, with tabs between them",
    )
    compiler.add_argument(
        "--json", action="store_true", help="print the report as a JSON object, with the file of the index"
    )


def _add_deciding(commands: common.Commands, name: str, command: common.Command, text: str) -> argparse.ArgumentParser:
    parser = common.add_urls_command(commands, name, command, text)
    common.add_policy(parser)
    command_options.add_who_and_when(parser)
    command_options.add_context(parser)
    command_options.add_facts(parser)
    return parser


def _by_facts(
    arguments: argparse.Namespace, engine: Engine, url: bytes, decision: Decision, moment: datetime, client: Client
) -> DecidedByFacts:
    """The decision after the facts in the arguments."""
    facts = command_options.facts_of(arguments)
    if not facts or decision.fault is not None:
        return DecidedByFacts(decision)
    return decide_by_facts(engine, request_of(url, command_options.told_of(arguments)), decision, moment, client, facts)


# -- compile -----------------------------------------------------------------------------------------------------------


def run_compile(arguments: argparse.Namespace) -> int:
    """Print the report; warnings go to standard error, and so does progress, if that is a terminal.

    The exit code is 1 if a list is held back.
    """
    from hushlist.cli.compile_text import by_kind, decrypting, table
    from hushlist.core.compile.list_chunks import every_problem
    from hushlist.core.compile.policy_compiler import compile_policy

    path, popular = arguments.policy or default_policy(), arguments.popular
    with common.shown_progress() as progress:
        compile_lists = partial(compile_policy, path, popular=popular, progress=progress, may_do_without=False)
        compiled = compile_lists() if popular else compile_recorded(path, compile_lists)
        if arguments.problems is not None:
            files = [file for layer in compiled.policy.layers for file in layer.lists]
            with source_errors(arguments.problems, "problems"):
                replace_file(arguments.problems, _problem_table(every_problem(files, None, progress)).encode())
    of_policy = (warn(compiled.policy, compiled.index) for warn in (unused_categories, policy_warnings))
    held = compiled.policy.held_back
    common.print_warnings([*held, *chain.from_iterable(of_policy), *by_kind(compiled.report.warnings)])
    if arguments.json:
        index = compiled.index
        about = {"index": index.source, "octets": index.octets, "hot_octets": index.hot_octets, "rules": len(index)}
        common.print_json(
            {**about, "held_back": {file.source: file.why for file in held}, **compiled.report.to_plain()}
        )
    else:
        common.print_lines(table(compiled.report))
        common.print_lines(decrypting(compiled.policy, compiled.report))
    return common.FINDINGS if held else common.GOOD


def _problem_table(problems: Iterable[ListedProblem]) -> str:
    rows = [("file", "line", "kind", "reason", "entry")]
    for (source, line, what, why), kind in ((listed.problem, listed.kind) for listed in problems):
        rows.append((source, str(line), kind, why, what))
    return "".join("\t".join(map(printable, row)) + "\n" for row in rows)


# -- check -------------------------------------------------------------------------------------------------------------


def run_check(arguments: argparse.Namespace) -> int:
    """Decide each URL; empty lines of standard input are skipped."""
    engine = command_options.open_engine(arguments)
    if arguments.policy is None:
        common.remark(f"decided by {engine.policy.source}; --policy FILE names another policy")
    moment, client = command_options.who_and_when(arguments, engine)
    engine = _with_unblocks(engine, moment)
    settings = engine.group(client).settings
    mode = settings.mode
    code = common.GOOD
    for url in common.urls_of(arguments):
        if not url and "-" in arguments.urls:
            continue
        decision, shown = (
            engine.decide_url(url, moment, client, command_options.told_of(arguments)),
            without_userinfo(url),
        )
        if decision.fault is not None:
            decision = decision._replace(canonical=without_userinfo(decision.url))
        decision, _, more, _ = _by_facts(arguments, engine, url, decision, moment, client)
        if arguments.json:
            common.print_json({"url": common.readable(shown), "mode": mode, **decision.as_dict()})
        else:
            needs = _needs_inside(engine, decision, moment, client)
            doubts = [*engine.unconfirmed(decision), *more]
            _print_text(common.readable(shown), decision, settings, needs, engine.policy.zone, doubts)
        if decision.fault is not None:
            code = common.complain(UrlError(shown, decision.fault))
        elif decision.action in STOPPING and mode == "block":
            code = max(code, common.FINDINGS)
    return code


def _with_unblocks(engine: Engine, moment: datetime) -> Engine:
    """The engine with the temporary unblocks of this user, which the user's proxies know; none for the past."""
    try:
        if moment < datetime.now(UTC) - timedelta(minutes=1) or not (path := default_path()).exists():
            return engine
        from hushlist.extensions.unblock.overrides import Overrides

        return asking_engine(engine.policy, engine.index, overrides=Overrides(path, time.time))
    except (HushlistError, OSError, RuntimeError) as error:
        common.print_warnings([f"temporary unblocks are not looked at: {error}"])
        return engine


def _print_text(
    url: str,
    decision: Decision,
    settings: GroupSettings,
    needs: str | None,
    zone: tzinfo,
    doubts: Iterable[str],
) -> None:
    passes = f" (it passes: mode {settings.mode})" if decision.action in STOPPING and settings.mode != "block" else ""
    why = decision.told_in(zone)
    more = "".join(
        f" ({note})" for note in (*doubts, *_undecrypted(decision, settings, needs), *_by_fragment(decision))
    )
    common.print_line(
        f"{decision.action.value:<5}  {url}  {(why + passes + more).strip()}".rstrip(), word=decision.action.value
    )


def _needs_inside(engine: Engine, decision: Decision, moment: datetime, client: Client) -> str | None:
    """Why the TLS of the URL that decided is decrypted, by ``decrypt: where-needed``; ``None`` if it is not."""
    host = None if decision.fault is not None else split_web(decision.url).host
    settings = engine.group(client).settings
    if host is None or settings.decrypt not in BY_NEED or settings.pass_through.covers_at(host, _HTTPS):
        return None
    return engine.why_decrypt(Request(b"https", (host,), _HTTPS, b"/"), moment, client)


def _undecrypted(decision: Decision, settings: GroupSettings, needs: str | None) -> Iterator[str]:
    """What is to be said of a host whose TLS is not decrypted; ``needs`` is of ``_needs_inside``."""
    host = None if decision.fault is not None else split_web(decision.url).host
    if host is not None and settings.pass_through.covers_at(host, _HTTPS):
        place = settings.pass_through.place
        yield f"its https is not decrypted, and decided by host and address alone: pass-through in {place}"
    elif host is not None and settings.decrypt != ALL and needs is None:
        yield f"its https is not decrypted, and decided by host and address alone: decrypt: {settings.decrypt}"


def _by_fragment(decision: Decision) -> Iterator[str]:
    """What is to be said of a rule that no request to a proxy fits."""
    pattern = None if decision.winner is None else decision.winner.rule.pattern
    if isinstance(pattern, HashedUri) and pattern.key.fragment:
        yield "its rule needs the fragment, which live traffic does not have"


# -- explain -----------------------------------------------------------------------------------------------------------


def _quotas(engine: Engine, decision: Decision, moment: datetime, client: Client) -> Iterator[str]:
    """What is left of the quotas that a decision counts for, as this user's proxies have written it."""
    group = engine.group(client)
    if not group.settings.of("quotas"):
        return
    from hushlist.extensions.quotas.quota_meter import QuotaMeter, quotas_of
    from hushlist.extensions.quotas.use_minutes import UseMinutes

    path = default_path()
    minutes = UseMinutes(path, time.time)
    try:
        if path.exists():
            minutes.exchange()
    except HushlistError as error:
        common.print_warnings([f"what was used is not known: {error}"])
    finally:
        minutes.close()
    counting = [quota for quota, _ in quotas_of(group.settings.of("quotas"), decision)]
    for use in QuotaMeter(minutes, moment.timestamp).uses(counting, client, group.name):
        yield use.told_in(engine.policy.zone)


_WRITTEN = "    rule as written: "


def run_explain(arguments: argparse.Namespace) -> int:
    """Print every step, for a person."""
    from hushlist.core.decide.trace import trace
    from hushlist.tools.publish.key_table import read_key_table, revealed

    table = read_key_table(arguments.key_file)
    engine = command_options.open_engine(arguments)
    moment, client = command_options.who_and_when(arguments, engine)
    engine = _with_unblocks(engine, moment)
    settings = engine.group(client).settings

    def show(url: bytes) -> None:
        traced = trace(engine, url, moment, client, command_options.told_of(arguments))
        common.print_lines(
            revealed(line, table) if line.startswith(_WRITTEN) else line for line in _explanation(traced)
        )
        policy = f"{engine.policy.source}{'' if arguments.policy else ' (--policy names another)'}"
        common.print_line(f"Policy       {policy}")
        common.print_lines(_layers_asked(traced))
        decision, lines, *_ = _by_facts(arguments, engine, url, traced.decision, moment, client)
        common.print_lines(lines)
        needs = _needs_inside(engine, decision, moment, client)
        common.print_lines(f"Leads to     {common.readable(lead)}" for lead in arguments.leads_to)
        if engine.asks_leads and not arguments.leads_to:
            common.print_line(
                "Unresolved   where the name leads may decide, and is not looked up here: say it by --leads-to"
            )
        common.print_lines(f"Unconfirmed  {doubt}" for doubt in engine.unconfirmed(decision))
        common.print_lines(f"Undecrypted  {why}" for why in _undecrypted(decision, settings, needs))
        common.print_lines(f"Decrypted    {why}" for why in filter(None, [needs]))
        common.print_lines(f"Fragment     {why}" for why in _by_fragment(decision))
        common.print_lines(f"Quota        {use}" for use in _quotas(engine, decision, moment, client))
        if decision.grant is not None:
            common.print_line(f"Exception    {decision.grant.told_in(engine.policy.zone)}")
        fault = f" ({decision.fault})" if decision.fault else ""
        common.print_line(f"Decision     {decision.action.value}{fault}", word=decision.action.value)

    return common.each(common.urls_of(arguments), show)


def _explanation(traced: Trace) -> Iterator[str]:
    decision = traced.decision
    yield f"URL          {common.readable(traced.url)}"
    yield from (f"  {name:<22} {common.readable(after)}" for name, after in traced.steps)
    for form in traced.forms:
        yield ""
        yield (
            f"Also         {form.via}: {common.readable(form.url)}"
            if form.via
            else f"Canonical    {common.readable(form.url)}"
        )
        yield "Expressions and their SHA-256, the most specific first"
        yield from (f"  {digest.hex()}  {common.readable(expression)}" for expression, digest in form.expressions)
    yield ""
    yield "Matches" if decision.matches else "Matches      none"
    for match in decision.matches:
        pattern, terms, _ = match.rule
        won = "  <- decides" if match == decision.winner else ""
        category = f" [{terms.category}]" if terms.category else ""
        yield f"  layer {terms.layer}: {terms.action.value} {match}{category}{won}"
        yield f"{_WRITTEN}{pattern}"


def _layers_asked(traced: Trace) -> Iterator[str]:
    """Client and moment, and the layers in their order, up to the one that decided."""
    until = "" if traced.until is None else f", until {traced.until:%Y-%m-%d %H:%M %Z}"
    yield f"Group        {traced.group}{until}" + ("" if traced.mode == "block" else f", mode {traced.mode}")
    for layer in traced.layers:
        what = (
            "what no layer decides"
            if layer.rules is None
            else f"{number_of(layer.rules, 'rule', 'rules')}, {layer.fit} fit"
        )
        yield f"Layer        {layer.name}: {what}{'  <- decides' if layer.decides else ''}"
