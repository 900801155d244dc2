"""The report of a compilation: counts and warnings for every list.

``unused_categories`` warns of categories in the policy that no rule has: most often a name that is misspelled.
``ineffective_schedules`` warns of lines that say nothing but what the lists say anyway. ``policy_warnings`` has these,
and those of hosts that nobody looks at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace

from hushlist.core.errors import Problem, number_of, right_aligned
from hushlist.core.match.checks import Check
from hushlist.core.match.index import Index
from hushlist.core.match.index_file import IndexFileError
from hushlist.core.match.rule import Action
from hushlist.core.policy.hidden_hosts import hidden_hosts
from hushlist.core.policy.pass_through import BY_NEED
from hushlist.core.policy.policy_file import Policy
from hushlist.core.url.hrn import parse_hrn

#: the section of an index file that has the report
SECTION = "report"


@dataclass(slots=True)
class ListReport:
    """The counts of one file; ``read == kept + duplicates + refused``."""

    source: str
    #: entries
    read: int = 0
    #: rules in the index
    kept: int = 0
    #: rules that the file repeats
    duplicates: int = 0
    #: entries that could not become rules
    refused: int = 0
    #: kept rules that a broader rule makes redundant; ``None``: not counted, as an update made the index
    covered: int | None = 0
    #: one of these, and the rule that covers it
    example: str | None = None
    #: exceptions that were left out; and filters that are too broad without them, the first of each exception
    exceptions: int = 0
    too_broad: list[str] = field(default_factory=list)
    #: its format, if not its name but its content told it
    detected: str | None = None
    #: rules that are hashes which may be of paths, hashed URIs, or network filters that name no host; and rules in the
    #: clear for less than a host; duplicates included
    opaque: int = 0
    below_hosts: int = 0


@dataclass(slots=True)
class CompileReport:
    lists: list[ListReport]
    warnings: list[Problem]

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def of(cls, index: Index) -> CompileReport:
        """The report in an index; ``IndexFileError`` if there is no readable report."""
        try:
            plain = json.loads(index.section(SECTION))
            lists = [ListReport(**row) for row in plain["lists"]]
            return cls(lists, [Problem(**row) for row in plain["warnings"]])
        except (LookupError, TypeError, ValueError, RecursionError) as error:
            raise IndexFileError(index.source, f"its report cannot be read: {error}") from error

    def brief_warnings(self, command: str) -> Iterator[object]:
        """The warnings for commands that only use the index: one line for lists, where ``command`` prints them all."""
        lists = {row.source for row in self.lists}
        of_lists = [problem for problem in self.warnings if problem.source in lists]
        yield from (problem for problem in self.warnings if problem.source not in lists)
        if len(of_lists) > 1:
            files = number_of(len({problem.source for problem in of_lists}), "list", "lists")
            yield f"compiling gave {len(of_lists):,} warnings of {files}; '{command}' prints them"
        else:
            yield from of_lists

    @property
    def total(self) -> ListReport:
        """All lists together."""
        total = ListReport(number_of(len(self.lists), "file", "files"))
        for row in self.lists:
            for name in _COLUMNS:
                setattr(total, name, getattr(total, name) + (getattr(row, name) or 0))
        return total

    def table(self) -> Iterator[str]:
        """Lines for people: the counts of every file, formats that content told, and examples of covered rules."""
        rows = [(*(f"{getattr(row, name):,}" for name in _COLUMNS), row.source) for row in (*self.lists, self.total)]
        yield from right_aligned((*_COLUMNS, ""), rows)
        for row in self.lists:
            if row.detected:
                yield f"format of {row.source}: {row.detected}, as its content tells"
        for row in self.lists:
            if row.exceptions:
                more = f"; of filters that this makes too broad, {len(row.too_broad)} are named below"
                yield f"exceptions left out of {row.source}: {row.exceptions:,}{more if row.too_broad else ''}"
                yield from (f"  {text}" for text in row.too_broad)
        for row in self.lists:
            if row.example:
                yield f"covered in {row.source}: {row.example}"


#: problems of one kind that are named one by one
_FEW = 3
#: what a reason says of one problem alone, and of how many a problem tells
_ASIDE = re.compile(r" \([^()]*\)(?=[:;]|$)")
_OTHERS, _FIRST_OF = re.compile(r"([0-9][0-9,]{0,15}) more"), re.compile(r" \(the first of ([0-9][0-9,]{0,15})\)$")


def by_kind(problems: Iterable[Problem]) -> Iterator[str]:
    """A line for each kind of problem: the first, how many more there are, and why; of a few, all.

    >>> lines = [Problem("a.txt", line, f"{line}.example", f"too long ({line} octets)") for line in range(1, 6)]
    >>> [*by_kind(lines)], [*by_kind(lines[:2])]
    (['a.txt:1: 1.example, and 4 more: too long'], ['a.txt:1: 1.example, a.txt:2: 2.example: too long'])
    """
    kinds: dict[str, list[Problem]] = {}
    for problem in problems:
        kinds.setdefault(_ASIDE.sub("", problem.why), []).append(problem)
    for kind, (first, *others) in kinds.items():
        yield _line_of(kind, [first, *others]) if others else str(first)


def _line_of(kind: str, same: Sequence[Problem]) -> str:
    number, sources = sum(map(_told_by, same)), len({problem.source for problem in same})
    shown = [*same] if number == len(same) <= _FEW else same[:1]
    places = ", ".join(str(replace(problem, why="")).removesuffix(": ") for problem in shown)
    where = "" if sources == 1 else f" in {sources} lists"
    more = f", and {number - len(shown):,} more{where}" if number > len(shown) else ""
    whole = {problem.why for problem in same}
    return f"{places}{more}: {whole.pop() if len(whole) == 1 else kind}"


def _told_by(problem: Problem) -> int:
    """For how many problems one stands."""
    match = _FIRST_OF.search(problem.why) or (
        _OTHERS.fullmatch(problem.what) if problem.why.endswith(")") and " (the last in line " in problem.why else None
    )
    return 1 if match is None else int(match[1].replace(",", ""))


def decrypting(policy: Policy, report: CompileReport) -> Iterator[str]:
    """Lines for people: what has connections decrypted, if a group decrypts where that is needed."""
    if all(group.settings.decrypt not in BY_NEED for group in policy.all_groups):
        return
    everything = "everything is decrypted where its layer is asked"
    for row in report.lists:
        if row.opaque:
            rules = number_of(row.opaque, "rule", "rules")
            yield f"decrypt: {row.source}: {rules} may be of paths on any host: {everything}"
        elif row.below_hosts:
            rules = number_of(row.below_hosts, "rule", "rules")
            yield f"decrypt: {row.source}: {rules} for less than a host: these hosts are decrypted"
    for layer in policy.layers:
        for rule in layer.checks:
            if isinstance(rule.pattern, Check) and rule.pattern.needs_request:
                yield f"decrypt: the check {rule.pattern.code} in layer {layer.name} needs the requests: {everything}"


_COLUMNS = ("read", "kept", "duplicates", "refused", "covered")


#: how many of the lists' categories are shown
_MOST_SHOWN = 8


def unused_categories(policy: Policy, index: Index) -> Iterator[Problem]:
    """A warning for each line of the policy whose category, with all below it, has no rule.

    The line has no effect now, but a list may have such rules tomorrow.
    """
    said = {
        (timed.source, timed.line, name)
        for group in policy.all_groups
        for name, first in group.settings.categories.items()
        for timed in first.chain()
    }
    if not said:
        return
    names = index.categories()
    used = {name for _, _, name in said}.intersection(
        name for category in names for name in parse_hrn(category).levels()
    )
    shown = sorted(names)[:_MOST_SHOWN] + ["..."] * (len(names) > _MOST_SHOWN)
    have = f"the lists have {', '.join(shown)}" if shown else "the lists have none"
    for source, line, name in sorted(said):
        if name not in used:
            yield Problem(source, line, name, f"no rule is of this category, nor of one below it ({have})")


def policy_warnings(policy: Policy, index: Index) -> Iterator[Problem]:
    """What of a policy does nothing, though all of it can be read."""
    yield from ineffective_schedules(policy, index)
    yield from hidden_hosts(policy)


def ineffective_schedules(policy: Policy, index: Index) -> Iterator[Problem]:
    """A warning for each line of the policy that has a category stopped at times, where the lists always stop it."""
    said = {
        (timed.source, timed.line, name, timed.action, timed.during.name)
        for group in policy.all_groups
        for name, timed in group.settings.categories.items()
        if timed.action in (Action.BLOCK, Action.WARN)
        and timed.during is not None
        and timed.otherwise is None
        and timed.behind is None
        and not any(above in group.settings.categories for above in parse_hrn(name).levels() if above != name)
    }
    stopped = index.categories() if said else {}
    for source, line, name, action, schedule in sorted(said):
        if any(action in actions and name in parse_hrn(category).levels() for category, actions in stopped.items()):
            why = f"it changes nothing: while {schedule} is off, the lists {action.value} it, too"
            yield Problem(source, line, name, f"{why}; to let it pass then, add 'otherwise: pass'")
