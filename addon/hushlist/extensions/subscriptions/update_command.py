"""``hushlist update`` and ``lists``: fetch the lists of a policy, accept them or go back; what is known of them."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from hushlist.cli.common import (
    FINDINGS,
    GOOD,
    Commands,
    add_command,
    add_policy,
    complain,
    complain_of,
    print_json,
    print_line,
    print_lines,
    remark,
    shown_progress,
)
from hushlist.core.errors import Problem, SourceError, number_of, right_aligned
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.policy import default_policy
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.policy_reader import read_policy
from hushlist.core.system.files import reason_of
from hushlist.extensions.subscriptions.catalogue import read_catalogue, shipped_catalogue
from hushlist.extensions.subscriptions.catalogue_check import check_entry
from hushlist.extensions.subscriptions.line_differences import share_kept
from hushlist.extensions.subscriptions.list_store import ListState, ListStore, Version, store_of_file
from hushlist.extensions.subscriptions.subscription import NO_COPY, SubscribedList

_EPILOG = "Exit codes: 0 good; 1 a list failed, is held back, or has no copy; 2 wrong usage or bad input."


def add_to(commands: Commands) -> None:
    text = "fetch the lists of a policy that have a url, and say what became of each"
    parser = add_command(commands, "update", run_update, text, _EPILOG)
    add_policy(parser)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--accept", action="store_true", help="use the version of a list that is held back")
    how.add_argument(
        "--rollback", action="store_true", help="go back to the version before; the newer one is held back from now on"
    )
    help_ = "a list's url, or the last part of it, its file, name or title (default: all that have a url)"
    parser.add_argument("lists", nargs="*", metavar="LIST", help=help_)
    text = "show the lists of a policy: rules, age, when each is fetched next, and what is wrong with it"
    parser = add_command(commands, "lists", run_lists, text, _EPILOG)
    add_policy(parser)
    parser.add_argument(
        "--catalogue", action="store_true", help="show well-kept public lists instead, which a policy can name"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="with --catalogue: fetch each, which takes the internet and minutes, and say what is not as it was",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")


@dataclass(frozen=True, slots=True)
class _List:
    source: str
    layer: str
    store: ListStore
    #: ``None``: a file
    subscribed: SubscribedList | None
    #: what people may call it
    names: tuple[str | None, ...]

    def is_called(self, name: str) -> bool:
        return name in self.names or (self.subscribed is None and Path(name).absolute() == Path(self.source).absolute())


def _read(path: Path) -> tuple[Policy, ProblemReport, list[_List]]:
    """A policy, what is wrong with it, and its lists; ``SourceError`` if nothing of it can be read."""
    report = ProblemReport(str(path))
    policy = read_policy(path, report)
    if policy is None:
        raise SourceError(report.errors)
    lists = []
    for subscribed in policy.subscribed:
        url, defaults = subscribed.subscription.url, subscribed.defaults
        names = url, url.rstrip("/").rpartition("/")[2], defaults.name, defaults.title
        lists.append(_List(url, defaults.layer or "", subscribed.store, subscribed, names))
    for file in (file for layer in policy.layers for file in layer.lists if file.url is None):
        defaults, store = file.defaults, store_of_file(path, file.path)
        names = str(file.path), file.path.name, defaults.name, defaults.title
        lists.append(_List(str(file.path), defaults.layer or "", store, None, names))
    return policy, report, lists


def _chosen(policy: Policy, lists: Iterable[_List], names: Iterable[str]) -> list[_List]:
    """The lists that are called so."""
    entries, chosen = tuple(lists), []
    for name in names:
        called = [entry for entry in entries if entry.is_called(name)]
        if not called:
            has = ", ".join(sorted({entry.source for entry in entries})) or "none"
            raise SourceError([Problem(policy.source, 0, name, f"it is none of the policy's lists ({has})")])
        chosen += called
    return chosen


# -- update ------------------------------------------------------------------------------------------------------------


def run_update(arguments: argparse.Namespace) -> int:
    """Fetch, accept or roll back; a line for each list."""
    path = arguments.policy or default_policy()
    policy, report, lists = _read(path)
    chosen = _chosen(policy, lists, arguments.lists)
    if arguments.accept or arguments.rollback:
        if not chosen:
            return complain("name the lists that are to be accepted or rolled back")
        return max(_change(entry, is_back=arguments.rollback) for entry in chosen)
    files = [entry.source for entry in chosen if entry.subscribed is None]
    if files:
        return complain(f"{files[0]}: it is a file, and has no url to fetch it from")
    wanted = {entry.store.folder: entry.subscribed for entry in chosen or lists if entry.subscribed is not None}
    if not wanted and not report.errors:
        remark(f"{policy.source}: none of its lists has a url")
    return _fetch(path, tuple(wanted.values()))


def _fetch(path: Path, wanted: tuple[SubscribedList, ...]) -> int:
    from hushlist.extensions.subscriptions.list_outcome import Outcome
    from hushlist.extensions.subscriptions.list_update import update_lists

    code, failed = GOOD, set()
    with shown_progress() as progress:
        show = None if progress is None else lambda _, done, total: progress("fetch", done, total)
        for update in update_lists(path, wanted, progress=show):
            change = f"+{update.added:,} -{update.removed:,} lines  " if update.outcome is Outcome.UPDATED else ""
            print_line(f"{update.outcome:<9}  {update.url}  {change}{update.why}".rstrip(), word=update.outcome)
            if not update.is_good:
                code = FINDINGS
                failed.add(update.url)
    _, report, _ = _read(path)
    others = [problem for problem in report.errors if problem.what not in failed]
    return max(code, complain_of(others)) if others else code


def _change(entry: _List, *, is_back: bool) -> int:
    """Accept or roll back one list, and say why it was held back: since somebody looked, it may be another version."""
    try:
        with entry.store.locked():
            reasons = () if is_back else entry.store.state().reasons
            version = entry.store.roll_back() if is_back else entry.store.accept()
    except OSError as error:
        return complain(f"{entry.source}: {reason_of(error)}")
    if version is None:
        why = "there is no version before the one in force" if is_back else "no version of it is held back"
        return complain(f"{entry.source}: {why}")
    what = "rolled back to what came into force" if is_back else "accepted; in force since"
    print_line(f"{entry.source}: {what} {time.strftime('%Y-%m-%d %H:%M', time.localtime(version.since))}")
    print_lines([f"    it was held back: {reason}" for reason in reasons])
    return GOOD


# -- lists -------------------------------------------------------------------------------------------------------------


def _show_catalogue(*, as_json: bool) -> int:
    """Show the public lists that a policy can name."""
    for entry in read_catalogue(shipped_catalogue()).values():
        if as_json:
            print_json(entry._asdict())
        else:
            print_line(f"{entry.name:<20}  {entry.purpose}")
            print_line(f"{'':<20}  {entry.publisher}, {entry.licence}: {entry.url}")
    return GOOD


def _check_catalogue(*, as_json: bool) -> int:
    """Fetch the public lists, and say what is not as the catalogue says."""
    code = GOOD
    for entry in read_catalogue(shipped_catalogue()).values():
        wrong = check_entry(entry)
        code = max(code, FINDINGS if wrong else GOOD)
        if as_json:
            print_json({"name": entry.name, "wrong": wrong})
        else:
            print_line(f"{entry.name:<24}  {'; '.join(wrong) or 'good'}", word="block" if wrong else "allow")
    return code


def run_lists(arguments: argparse.Namespace) -> int:
    """Show every list, with a line for each trouble."""
    if arguments.check and not arguments.catalogue:
        return complain("--check is about --catalogue")
    if arguments.check:
        return _check_catalogue(as_json=arguments.json)
    if arguments.catalogue:
        return _show_catalogue(as_json=arguments.json)
    path = arguments.policy or default_policy()
    _, report, lists = _read(path)
    rules = _rules(path) if not report.errors else {}
    command = shlex.join(("hushlist", "update", *(() if arguments.policy is None else ("--policy", str(path)))))
    now, code, rows = time.time(), GOOD, []
    for entry in lists:
        state, versions = entry.store.state(), entry.store.versions()
        trouble = list(_troubles(entry, state, versions, command))
        code = max(code, FINDINGS if trouble else GOOD)
        row = _row(entry, state, versions, rules, now)
        if arguments.json:
            print_json({**row, "troubles": trouble})
        else:
            rows.append((_texts(row, now), entry.source, trouble))
    if rows:
        head, *lines = right_aligned((*_HEADS, "list"), [(*texts, source) for texts, source, _ in rows])
        print_line(head)
        for line, (*_, trouble) in zip(lines, rows, strict=True):
            print_lines([line, *(f"    {text}" for text in trouble)])
    sources = {entry.source for entry in lists}
    others = [problem for problem in report.errors if problem.what not in sources]
    return complain_of(others) if others else code


_HEADS = ("rules", "age", "next try", "versions")


def _rules(path: Path) -> dict[str, int]:
    from hushlist.core.compile.compile_report import CompileReport
    from hushlist.core.compile.stat_cache import load_policy

    try:
        return {summary.source: summary.kept for summary in CompileReport.of(load_policy(path)[1]).lists}
    except SourceError:  # which `hushlist compile` tells
        return {}


def _row(
    entry: _List, state: ListState, versions: tuple[Version, ...], rules: dict[str, int], now: float
) -> dict[str, object]:
    is_url = entry.subscribed is not None
    since = versions[0].since if versions else None
    if not is_url:
        try:
            since = Path(entry.source).stat().st_mtime
        except OSError:
            since = None
    return {
        "list": entry.source,
        "layer": entry.layer,
        "rules": rules.get(entry.source),
        "since": since,
        "checked": state.checked or None,
        "next_try": (now if state.is_due(now) else state.next_try) if is_url else None,
        "versions": len(versions),
        "fault": state.fault or None,
        "held_back": list(state.reasons) if state.held else None,
    }


def _texts(row: dict[str, object], now: float) -> tuple[str, ...]:
    rules, since, following = row["rules"], row["since"], row["next_try"]
    return (
        f"{rules:,}" if isinstance(rules, int) else "-",
        _span(now - since) if isinstance(since, float) else "-",
        "-" if not isinstance(following, float) else "now" if following <= now else _span(following - now),
        str(row["versions"] or "-"),
    )


def _span(seconds: float) -> str:
    """A time, roughly.

    >>> _span(30), _span(4000), _span(200_000)
    ('0m', '1h', '2d')
    """
    minutes = max(int(seconds), 0) // 60
    return f"{minutes // 1440}d" if minutes >= 1440 else f"{minutes // 60}h" if minutes >= 60 else f"{minutes}m"


#: seconds between two versions of a list that is new each day, at most
_NEARLY_DAILY = 2 * 86400.0


def _is_new_each_day(store: ListStore, versions: tuple[Version, ...]) -> bool:
    """Whether each version that is kept had few lines of the one before, and the one that is held back has, too.

    A list that was good until now, and lost most of itself once, is no such list.
    """
    held, times = store.held(), [version.since for version in versions]
    if held is None or len(versions) < 2 or any(new - old > _NEARLY_DAILY for new, old in pairwise(times)):
        return False
    paths = [held, *(version.path for version in versions)]
    with suppress(OSError):
        return all(share_kept(old, new) < _FEW_KEPT for new, old in pairwise(paths))
    return False


#: of the lines of a version, the share that the next one has where lists are new each day
_FEW_KEPT = 0.5


def _troubles(entry: _List, state: ListState, versions: tuple[Version, ...], command: str) -> Iterator[str]:
    if entry.subscribed is not None and not versions:
        yield f"{NO_COPY}: run '{command}'"
    if state.fault:
        yield f"failed {number_of(state.faults, 'time', 'times')}: {state.fault}"
    if state.held:
        yield f"held back: {'; '.join(state.reasons)}"
        if any(reason.startswith("it loses ") for reason in state.reasons) and _is_new_each_day(entry.store, versions):
            yield "if each version has other rules, as of a list that is new each day, write gate: {rolling: true}"
