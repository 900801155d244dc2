"""``hushlist diff``: what an update of a list, or another policy, changes; and a gate for updates."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hushlist.audit.diff.diff_inputs import is_policy, policy_at, policy_of, replaced, side_of_list, side_of_policy
from hushlist.audit.diff.diff_job import Diff, DiffOptions, DiffSide, diff
from hushlist.audit.diff.impact import Impact, ImpactCounter
from hushlist.audit.diff.impact_report import ImpactReport, impact_text, report_impact
from hushlist.audit.diff.rule_change import ChangeKind, RuleChange
from hushlist.audit.replay.audit_workers import ReplayWork, count_in_processes
from hushlist.audit.replay.auditor import ReplayMoment
from hushlist.audit.report_codec import encode
from hushlist.audit.sources.source_formats import FORMATS
from hushlist.cli.command_options import (
    add_as_recorded,
    add_jobs,
    add_list_options,
    add_who_and_when,
    popular_domains,
    who_and_when,
)
from hushlist.cli.common import (
    BAD,
    FOUND,
    GOOD,
    Commands,
    add_command,
    complain,
    expand_folders,
    number_of,
    parse_number,
    print_json,
    print_line,
    print_lines,
    shown_progress,
)
from hushlist.compiling.index_cache import IndexCache
from hushlist.compiling.policy_compiler import compile_policy
from hushlist.decide.engine import Engine
from hushlist.lists.list_formats import list_format_of
from hushlist.lists.list_source import ListDefaults
from hushlist.policy.policy_file import Policy


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
    "Exit codes: 0 nothing is more than it may be, whatever has changed; 1 something is; 2 wrong usage, or a list, "
    "policy or source that cannot be used."
)


def add_to(commands: Commands) -> None:
    """Add the command."""
    text = "compare two states of a list, or two policies: their rules, and what is done with recorded requests"
    parser = add_command(commands, "diff", diff_sides, text, _EPILOG)
    for name in ("old", "new"):
        parser.add_argument(name, type=Path, metavar=name.upper(), help="a list, a squidGuard folder, or a policy file")
    add_list_options(parser)
    parser.add_argument(
        "--policy",
        type=Path,
        metavar="FILE",
        help="a policy that has OLD as a list: compare decisions by it, with OLD and with NEW in its place "
        "(default: decisions by the list alone)",
    )
    parser.add_argument(
        "--against", nargs="+", default=[], metavar="SOURCE", help="recorded requests, as 'hushlist audit' reads them"
    )
    parser.add_argument("--source-format", choices=FORMATS, help="of all sources (default: told by what is in each)")
    parser.add_argument(
        "--popular",
        type=Path,
        metavar="FILE",
        help="popular domains, one a line or as rank,domain: new rules that cover one are called out",
    )
    parser.add_argument(
        "--limit",
        type=_limit,
        default=20,
        metavar="N",
        help="of each kind of change, so many are shown (default: 20); 'all' for all",
    )
    parser.add_argument("--moved", action="store_true", help="show rules that have only moved, too")
    add_jobs(parser)
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
    add_who_and_when(parser)
    add_as_recorded(parser)


def _limit(text: str) -> int | None:
    return None if text == "all" else parse_number(text)


# -- sides -------------------------------------------------------------------------------------------------------------


class _Sides(NamedTuple):
    """Both sides, and the policies that use them."""

    old: DiffSide
    new: DiffSide
    old_policy: Policy
    new_policy: Policy
    #: the policy in use, whose index may be in the cache
    is_cached: bool = False


def _sides(arguments: argparse.Namespace) -> _Sides:
    """The sides that the arguments name.

    Raises:
        SourceError: a side cannot be used.
    """
    old, new = arguments.old, arguments.new
    if arguments.policy is not None:
        policy = policy_at(arguments.policy)
        old_side, new_side, new_policy = replaced(policy, old, new)
        return _Sides(old_side, new_side, policy, new_policy, is_cached=True)
    if arguments.format is None and is_policy(old) and is_policy(new):
        old_policy, new_policy = policy_at(old), policy_at(new)
        return _Sides(side_of_policy(old_policy), side_of_policy(new_policy), old_policy, new_policy)
    defaults = ListDefaults(variant=arguments.variant, prefix_length=arguments.prefix_length)
    # A list that was just fetched may have a name without a format; then it has the other side's format.
    forms = [
        arguments.format or list_format_of(path) or ("squidguard" if path.is_dir() else None) for path in (old, new)
    ]
    sides = [
        side_of_list(path, own or forms[0] or forms[1], defaults) for path, own in zip((old, new), forms, strict=True)
    ]
    return _Sides(sides[0], sides[1], policy_of(old, sides[0]), policy_of(new, sides[1]))


# -- the command -------------------------------------------------------------------------------------------------------


def diff_sides(arguments: argparse.Namespace) -> int:
    """Print the changes as they are found, and a summary."""
    if arguments.max_impact is not None and not arguments.against:
        return complain("--max-impact needs --against: the requests to decide")
    sides = _sides(arguments)
    wanted = DiffOptions(arguments.limit, arguments.moved, popular_domains(arguments.popular))
    with shown_progress() as progress:
        found = diff(
            sides.old,
            sides.new,
            _as_json if arguments.json else print_line,
            wanted,
            jobs=arguments.jobs,
            progress=progress,
        )
    if not arguments.json:
        print_lines(_summary(found, wanted))
    impact, report = (None, None) if not arguments.against else _impact(arguments, sides)
    exceeded = list(_exceeded(arguments, found, impact))
    if arguments.json:
        print_json({"summary": {**found.as_dict(), "impact": encode(report), "exceeded": exceeded}})
    elif report is not None:
        print_lines(("", *impact_text(report)))
    for text in exceeded:
        complain(text)
    if impact is not None and _is_useless(arguments, impact):
        return BAD
    return FOUND if exceeded else GOOD


def _impact(arguments: argparse.Namespace, sides: _Sides) -> tuple[Impact, ImpactReport]:
    """The changes for recorded requests."""
    named = FORMATS[arguments.source_format] if arguments.source_format else None
    with TemporaryDirectory() as name, ExitStack() as stack, shown_progress() as show:
        # Not the proxy's own cache: it keeps few indexes, and this one may never be used by the proxy.
        own = IndexCache(Path(name))
        compiled = [
            compile_policy(policy, cache=None if is_cached else own, jobs=arguments.jobs, progress=show)
            for policy, is_cached in ((sides.old_policy, sides.is_cached), (sides.new_policy, False))
        ]
        for one in compiled:
            stack.callback(one.let_go)
        old, new = (Engine(one.policy, one.index) for one in compiled)
        at, client = who_and_when(arguments, new)
        moment = ReplayMoment(at, client, arguments.as_recorded)
        was, is_ = ((one.policy, Path(one.index.source)) for one in compiled)
        work = ReplayWork(expand_folders(arguments.against), moment, named, jobs=arguments.jobs)
        impact, _ = count_in_processes(
            ImpactCounter(old, new, moment), partial(ImpactCounter.open, was, is_, moment), work, show
        )
        return impact, report_impact(impact, old, new, moment, arguments.limit)


def _is_useless(arguments: argparse.Namespace, impact: Impact) -> bool:
    """Whether sources cannot be read; or, if they are to decide about the update, have no request."""
    if any(not broken.number for broken in impact.broken):
        for broken in impact.broken:
            if not broken.number:
                complain(broken)
        return True
    if arguments.max_impact is not None and not impact.requests:
        complain("the sources have no request that could tell the impact")
        return True
    return False


def _exceeded(arguments: argparse.Namespace, found: Diff, impact: Impact | None) -> Iterator[str]:
    """The limits that are exceeded."""
    requests, changed = (0, 0) if impact is None else (impact.requests, impact.changed)
    numbers = [
        ("impact", changed, requests, "request changes", "requests change"),
        ("added", found.added, found.old, "rule came", "rules came"),
        ("removed", found.removed, found.old, "rule is gone", "rules are gone"),
        ("broad", found.broad, found.new, "rule that came is broad", "rules that came are broad"),
    ]
    for name, number, of, one, many in numbers:
        most: Limit | None = getattr(arguments, f"max_{name}")
        if most is not None and most.is_less_than(number, of):
            share = f" ({number / of:.2%} of {of:,})" if of else ""
            yield f"{number_of(number, one, many)}{share}: more than --max-{name} {most.text}"


# -- output ------------------------------------------------------------------------------------------------------------


def _as_json(change: RuleChange) -> None:
    print_json(change.as_dict())


def _summary(found: Diff, wanted: DiffOptions) -> Iterator[str]:
    """Lines for a person."""
    listed = [
        kind
        for kind in ChangeKind
        if kind is not ChangeKind.UNCHANGED and (wanted.moved or kind is not ChangeKind.MOVED)
    ]
    rest = [f"{number:,} {kind}" for kind in listed if (number := found.counts[kind] - found.shown[kind]) > 0]
    if rest:
        yield f"  and {', '.join(rest)} that are not shown (--limit)"
    counts = ", ".join(f"{found.counts[kind]:,} {kind}" for kind in ChangeKind if found.counts[kind])
    yield f"{found.old:,} -> {number_of(found.new, 'rule', 'rules')}: {counts or 'none'}"
    if found.broad:
        yield f"{number_of(found.broad, 'rule that came is', 'rules that came are')} broad"
    if found.old_refused or found.new_refused:
        yield f"entries of which no rule could be made: {found.old_refused:,} -> {found.new_refused:,} (see lint)"
