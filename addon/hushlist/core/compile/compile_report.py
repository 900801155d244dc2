"""The report of a compilation: counts and warnings for every list.

``unused_categories`` warns of categories in the policy that no rule has: most often a name that is misspelled.
``ineffective_schedules`` warns of lines that say nothing but what the lists say anyway. ``policy_warnings`` has these,
and those of hosts that nobody looks at.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from hushlist.core.errors import Problem, number_of
from hushlist.core.match.index import Index
from hushlist.core.match.index_file import IndexFileError
from hushlist.core.match.rule import Action
from hushlist.core.policy.hidden_hosts import hidden_hosts
from hushlist.core.policy.policy_file import Policy
from hushlist.core.url.hrn import parse_hrn

#: the section of an index file that has the report
SECTION = "report"


class ListReport:
    """The counts of one file; ``read == kept + duplicates + refused``."""

    def __init__(
        self,
        source: str,
        *,
        read: int = 0,
        kept: int = 0,
        duplicates: int = 0,
        refused: int = 0,
        exceptions: int = 0,
        too_broad: Iterable[str] = (),
        detected: str | None = None,
        opaque: int = 0,
        below_hosts: int = 0,
    ) -> None:
        self.source = source
        #: entries
        self.read = read
        #: rules in the index
        self.kept = kept
        #: rules that the file repeats
        self.duplicates = duplicates
        #: entries that could not become rules
        self.refused = refused
        #: exceptions that were left out; and filters that are too broad without them, the first of each exception
        self.exceptions, self.too_broad = exceptions, [*too_broad]
        #: its format, if not its name but its content told it
        self.detected = detected
        #: rules that are hashes which may be of paths, hashed URIs, or network filters that name no host; and rules in
        #: the clear for less than a host; duplicates included
        self.opaque, self.below_hosts = opaque, below_hosts


class CompileReport(NamedTuple):
    """What compiling a policy gave to tell."""

    lists: list[ListReport]
    warnings: list[Problem]

    def to_plain(self) -> dict[str, Any]:
        """What JSON can have of it."""
        return {"lists": [*map(vars, self.lists)], "warnings": [problem._asdict() for problem in self.warnings]}

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
