"""``hushlist lint`` prints problems of lists; ``hushlist diff`` prints what an update changes, and can be its gate."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from hushlist.cli import command_options, common
from hushlist.core.compile.index_cache import IndexCache
from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.decide.engine import Engine
from hushlist.core.errors import number_of
from hushlist.core.lists.list_formats import UNTOLD
from hushlist.core.policy.policy_reader import policy_at
from hushlist.extensions.subscriptions.rule_comparison import ChangeKind
from hushlist.tools.audit import diff_job
from hushlist.tools.audit.findings import Finding, FindingKind, policy_findings
from hushlist.tools.audit.impact import Impact, ImpactCounter, ImpactReport, impact_text, report_impact
from hushlist.tools.audit.lint_job import Linted, lint
from hushlist.tools.audit.replay.auditor import ReplayMoment
from hushlist.tools.audit.replay.replay_job import ReplayWork, count_in_processes
from hushlist.tools.audit.report_codec import encode
from hushlist.tools.audit.sources.source_formats import FORMATS
from hushlist.tools.publish.key_table import KeyEntry, read_key_table, revealed

if TYPE_CHECKING:
    from hushlist.tools.audit.alive_job import NameServer

#: questions a second
_USUAL_RATE = 20


def add_to(commands: common.Commands) -> None:
    _add_lint(commands)
    _add_diff(commands)


# -- lint --------------------------------------------------------------------------------------------------------------


def _add_lint(commands: common.Commands) -> None:
    text = "look through lists for what is wrong with them, each for itself and all together"
    epilog = "Exit codes: 0 nothing was found; 1 something was; 2 wrong usage, or a list that cannot be used."
    parser = common.add_command(commands, "lint", lint_lists, text, epilog)
    parser.add_argument(
        "lists",
        nargs="+",
        type=Path,
        metavar="LIST",
        help="a list: a file, or a squidGuard folder; or a policy, with its lists",
    )
    command_options.add_list_options(parser)
    command_options.add_seal(parser)
    command_options.add_popular(parser, ", to warn of")
    command_options.add_key_file(parser)
    parser.add_argument(
        "--all", action="store_true", help="print every entry that makes no rule, not only the first of each kind"
    )
    parser.add_argument(
        "--json", action="store_true", help="print a JSON object a line: each finding, and last a summary"
    )
    alive = parser.add_argument_group("names that are gone, in place of all else")
    alive.add_argument(
        "--alive", action="store_true", help="find names that each resolver denies twice, a day or more apart"
    )
    alive.add_argument(
        "--resolver",
        type=common.checked(_name_server, "is no address such as 192.0.2.53, 192.0.2.53:5353 or [2001:db8::53]:53"),
        action="append",
        default=[],
        metavar="ADDRESS[:PORT]",
        help="a name server to ask; may be given again and again",
    )
    alive.add_argument("--state", type=Path, metavar="FILE", help="keeps what was said, from run to run")
    alive.add_argument(
        "--rate", type=common.parse_number, metavar="N", help=f"questions a second (default: {_USUAL_RATE})"
    )


def _name_server(text: str) -> NameServer:
    from hushlist.tools.audit.alive_job import parse_name_server

    return parse_name_server(text)


def lint_lists(arguments: argparse.Namespace) -> int:
    """Print the findings, and their number by kind."""
    if arguments.alive:
        return _lint_names(arguments)
    if arguments.resolver or arguments.state or arguments.rate:
        return common.complain("--resolver, --state and --rate need --alive")
    key = command_options.seal_key(arguments)
    policies = {path: policy_at(path) for path in arguments.lists if diff_job.is_policy(path)}
    others = command_options.files_of((path for path in arguments.lists if path not in policies), arguments, key)
    of_policies = (file for policy in policies.values() for layer in policy.layers for file in layer.lists)
    by_path = {file.path.absolute(): file._replace(tells_all=arguments.all) for file in (*others, *of_policies)}
    files = list(by_path.values())
    popular = command_options.popular_domains(arguments.popular)
    table = read_key_table(arguments.key_file)
    show = partial(_finding_as_json if arguments.json else _finding_as_text, table)
    of_policy = [(str(path), finding) for path, policy in policies.items() for finding in policy_findings(policy)]
    for source, finding in of_policy:
        show(source, finding)
    with common.shown_progress() as progress:
        linted = lint(files, show, datetime.now(UTC), popular=popular, key=key, progress=progress)
    linted.counts.update(finding.kind for _, finding in of_policy)
    if arguments.json:
        common.print_json({"summary": linted.as_dict()})
    else:
        common.print_lines(_lint_summary(linted))
    return common.BAD if linted.counts[FindingKind.ERROR] else common.FINDINGS if linted.counts.total() else common.GOOD


def _finding_as_text(table: Mapping[str, KeyEntry], source: str, finding: Finding) -> None:
    place = f"{source}:{finding.line}" if finding.line else source
    common.print_line(f"{place}: {finding.kind}: {revealed(finding.what, table)}: {finding.why}")


def _finding_as_json(table: Mapping[str, KeyEntry], source: str, finding: Finding) -> None:
    common.print_json({"source": source, **finding._replace(what=revealed(finding.what, table))._asdict()})


def _lint_summary(linted: Linted) -> Iterator[str]:
    for prefixes in linted.prefixes:
        yield f"{prefixes.source}: {prefixes}"
    counts = [f"{linted.counts[kind]:,} {kind}" for kind in FindingKind if linted.counts[kind]]
    files = f"{number_of(linted.rules, 'rule', 'rules')} in {number_of(linted.lists, 'file', 'files')}"
    yield f"{files}: {', '.join(counts) or 'nothing found'}"


def _lint_names(arguments: argparse.Namespace) -> int:
    """Print the dead names, and the number of others."""
    from hushlist.tools.audit.alive_job import MOST_RESOLVERS, NameSearch, State, Verdict, listed_names

    if not arguments.resolver or arguments.state is None:
        return common.complain("--alive needs --resolver ADDRESS and --state FILE")
    if len(arguments.resolver) > MOST_RESOLVERS:
        return common.complain(f"--alive asks at most {MOST_RESOLVERS} resolvers")
    state = State(arguments.state, int(datetime.now(UTC).timestamp()))
    files = command_options.files_of(arguments.lists, arguments, command_options.seal_key(arguments))
    with common.shown_progress() as progress:
        names, others = listed_names(files, progress)
        search = NameSearch(arguments.resolver, arguments.rate or _USUAL_RATE, lambda: datetime.now(UTC), state)
        outcome = asyncio.run(search.run(list(names), progress))
    for resolver, why in outcome.refused.items():
        common.remark(f"{resolver}: {why}: what it says does not count")
    for resolver, zones in outcome.wildcards.items():
        where = f"{number_of(len(zones), 'zone', 'zones')}, such as {min(zones)}"
        common.remark(f"{resolver}: it answers for every name in {where}: what it says there does not count")
    if len(outcome.refused) == len({*arguments.resolver}):
        return common.complain("no resolver is left whose answers count")
    for name, place in outcome.dead(names):
        if arguments.json:
            common.print_json({"source": place.source, "line": place.line, "name": name})
        else:
            common.print_line(f"{place.source}:{place.line}: dead: {name}")
    counts = outcome.counts
    if arguments.json:
        wildcards = {resolver: sorted(zones) for resolver, zones in outcome.wildcards.items()}
        faults = {"refused": outcome.refused, "wildcards": wildcards}
        common.print_json(
            {"summary": {"names": len(names), "nameless": others, **{each: counts[each] for each in Verdict}, **faults}}
        )
    else:
        numbers = ", ".join(f"{counts[each]:,} {each}" for each in Verdict)
        nameless = f"; {number_of(others, 'rule has', 'rules have')} no name to ask for" if others else ""
        common.print_line(f"{number_of(len(names), 'name', 'names')}: {numbers}{nameless}")
    return common.FINDINGS if counts[Verdict.DEAD] else common.GOOD


# -- diff --------------------------------------------------------------------------------------------------------------


class Limit(NamedTuple):
    """A limit: a number, or a share in percent."""

    text: str
    number: float
    is_share: bool

    def is_less_than(self, number: int, of: int) -> bool:
        """Whether a number, out of so many, exceeds the limit."""
        return number * 100 > self.number * of if self.is_share else number > self.number


def _limit_of(text: str) -> Limit:
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = -1
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor a share such as 0.5%")
    return Limit(text, number, text.endswith("%"))


_EPILOG = (
    "Exit codes: 0 nothing is more than it may be, whatever has changed; 1 something is, or too much is lost of a "
    "list; 2 wrong usage, or a list, policy or source that cannot be used."
)


def _add_diff(commands: common.Commands) -> None:
    text = "compare two states of a list, or two policies: their rules, and what is done with recorded requests"
    parser = common.add_command(commands, "diff", diff_sides, text, _EPILOG)
    for name in ("old", "new"):
        parser.add_argument(name, type=Path, metavar=name.upper(), help="a list, a squidGuard folder, or a policy file")
    command_options.add_list_options(parser)
    command_options.add_seal(parser)
    common.add_policy(
        parser,
        "a policy that has OLD as a list: compare decisions by it, with OLD and with NEW in its place "
        "(default: decisions by the list alone)",
    )
    parser.add_argument(
        "--against",
        nargs="+",
        action="extend",
        default=[],
        metavar="SOURCE",
        help="recorded requests, as 'hushlist audit' reads them",
    )
    parser.add_argument("--source-format", choices=FORMATS, help="of all sources (default: told by what is in each)")
    command_options.add_popular(parser, ": new rules that cover one are called out")
    parser.add_argument(
        "--limit",
        type=_limit,
        default=20,
        metavar="N",
        help="of each kind of change, so many are shown (default: 20); 'all' for all",
    )
    command_options.add_losses(parser)
    parser.add_argument("--moved", action="store_true", help="show rules that have only moved, too")
    command_options.add_jobs(parser)
    parser.add_argument(
        "--json", action="store_true", help="print a JSON object a line: each change, and last a summary"
    )
    gates = parser.add_argument_group("what an update may change: beyond, the exit code is 1")
    for name, what in (
        ("impact", "requests with which something else is done, tags not counted; needs --against"),
        ("added", "rules that came, of those that OLD has"),
        ("removed", "rules that are gone, of those that OLD has"),
        ("broad", "rules that came and cover a public suffix, a popular domain or a whole address range"),
    ):
        gates.add_argument(
            f"--max-{name}", type=_limit_of, metavar="N", help=f"{what}: a number, or a share such as 0.5%%"
        )
    command_options.add_who_and_when(parser)
    command_options.add_as_recorded(parser)


def _limit(text: str) -> int | None:
    return None if text == "all" else common.parse_number(text)


def _sides(arguments: argparse.Namespace) -> tuple[diff_job.DiffSide, diff_job.DiffSide]:
    """The sides that the arguments name; ``SourceError`` if a side cannot be used."""
    old, new = arguments.old, arguments.new
    if arguments.policy is not None:
        return diff_job.replaced(policy_at(arguments.policy), old, new)
    if arguments.format is None and diff_job.is_policy(old) and diff_job.is_policy(new):
        return diff_job.side_of_policy(policy_at(old)), diff_job.side_of_policy(policy_at(new))
    key = command_options.seal_key(arguments)
    defaults = command_options.list_defaults(arguments, key)
    forms = [arguments.format or command_options.told_by_name(path) for path in (old, new)]
    sides = [diff_job.side_of_list(path, form, defaults, key) for path, form in zip((old, new), forms, strict=True)]
    for place, other in ((0, forms[1]), (1, forms[0])):
        # neither the name nor the content of what was just fetched may tell: then it has the other side's format
        if other is not None and any(file.format is UNTOLD for file in sides[place].files):
            sides[place] = diff_job.side_of_list((old, new)[place], other, defaults, key)
    return sides[0], sides[1]


def diff_sides(arguments: argparse.Namespace) -> int:
    """Print the changes as they are found, and a summary."""
    if arguments.max_impact is not None and not arguments.against:
        return common.complain("--max-impact needs --against: the requests to decide")
    old, new = _sides(arguments)
    wanted = diff_job.DiffOptions(arguments.limit, arguments.moved, command_options.popular_domains(arguments.popular))
    show = (lambda change: common.print_json(encode(change))) if arguments.json else common.print_line
    with common.shown_progress() as progress:
        result = diff_job.diff(old, new, show, wanted, jobs=arguments.jobs, progress=progress)
    if not arguments.json:
        common.print_lines(_diff_summary(result, wanted))
    impact, report = (None, None) if not arguments.against else _impact(arguments, (old, new))
    exceeded = list(_exceeded(arguments, result, impact))
    for path, lost, kept in (
        (arguments.old, result.old_refused, result.old),
        (arguments.new, result.new_refused, result.new),
    ):
        if why := command_options.too_many_lost(arguments, lost, kept):
            exceeded.append(f"{path}: {why}")
    if arguments.json:
        common.print_json({"summary": {**result.as_dict(), "impact": encode(report), "exceeded": exceeded}})
    elif report is not None:
        common.print_lines(("", *impact_text(report)))
    for text in exceeded:
        common.complain(text)
    if impact is not None and _is_useless(arguments, impact):
        return common.BAD
    return common.FINDINGS if exceeded else common.GOOD


def _impact(arguments: argparse.Namespace, sides: Sequence[diff_job.DiffSide]) -> tuple[Impact, ImpactReport]:
    with TemporaryDirectory() as name, ExitStack() as stack, common.shown_progress() as show:
        # Not the proxy's own cache, but for a policy in use: it keeps few indexes, and others may never be used again.
        cache = IndexCache(Path(name))
        caches = None if arguments.policy is not None else cache, cache
        compiled = [
            compile_policy(side.policy, cache=kept, jobs=arguments.jobs, progress=show)
            for side, kept in zip(sides, caches, strict=True)
        ]
        for compiled_policy in compiled:
            stack.callback(compiled_policy.let_go)
        old, new = (Engine(compiled_policy.policy, compiled_policy.index) for compiled_policy in compiled)
        at, client = command_options.who_and_when(arguments, new)
        moment = ReplayMoment(at, client, arguments.as_recorded)
        was, is_ = ((compiled_policy.policy, Path(compiled_policy.index.source)) for compiled_policy in compiled)
        work = ReplayWork(
            common.expand_folders(arguments.against), moment, FORMATS.get(arguments.source_format), jobs=arguments.jobs
        )
        impact, _ = count_in_processes(
            ImpactCounter(old, new, moment), partial(ImpactCounter.open, was, is_, moment), work, show
        )
        return impact, report_impact(impact, old, new, moment, arguments.limit)


def _is_useless(arguments: argparse.Namespace, impact: Impact) -> bool:
    """Whether sources cannot be read; or, if they are to decide about the update, have no request."""
    unread = [broken for broken in impact.broken if not broken.number]
    for broken in unread:
        common.complain(broken)
    if not unread and arguments.max_impact is not None and not impact.requests:
        common.complain("the sources have no request that could tell the impact")
        return True
    return bool(unread)


def _exceeded(arguments: argparse.Namespace, result: diff_job.Diff, impact: Impact | None) -> Iterator[str]:
    requests, changed = (0, 0) if impact is None else (impact.requests, impact.changed)
    numbers = [
        ("impact", changed, requests, "request changes", "requests change"),
        ("added", result.added, result.old, "rule came", "rules came"),
        ("removed", result.removed, result.old, "rule is gone", "rules are gone"),
        ("broad", result.broad, result.new, "rule that came is broad", "rules that came are broad"),
    ]
    for name, number, of, singular, many in numbers:
        most: Limit | None = getattr(arguments, f"max_{name}")
        if most is not None and most.is_less_than(number, of):
            share = f" ({number / of:.2%} of {of:,})" if of else ""
            yield f"{number_of(number, singular, many)}{share}: more than --max-{name} {most.text}"


def _diff_summary(result: diff_job.Diff, wanted: diff_job.DiffOptions) -> Iterator[str]:
    listed = [
        kind
        for kind in ChangeKind
        if kind is not ChangeKind.UNCHANGED and (wanted.moved or kind is not ChangeKind.MOVED)
    ]
    rest = [f"{number:,} {kind}" for kind in listed if (number := result.counts[kind] - result.shown[kind]) > 0]
    if rest:
        yield f"  and {', '.join(rest)} that are not shown (--limit)"
    counts = ", ".join(f"{result.counts[kind]:,} {kind}" for kind in ChangeKind if result.counts[kind])
    yield f"{result.old:,} -> {number_of(result.new, 'rule', 'rules')}: {counts or 'none'}"
    if result.broad:
        yield f"{number_of(result.broad, 'rule that came is', 'rules that came are')} broad"
    if result.old_refused or result.new_refused:
        yield f"entries of which no rule could be made: {result.old_refused:,} -> {result.new_refused:,} (see lint)"
