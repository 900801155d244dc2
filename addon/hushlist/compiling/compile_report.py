"""The report of a compilation: counts and warnings for every list.

``unused_categories`` warns of categories in the policy that no rule has: most often a name that is misspelled.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field

from hushlist.errors import Problem
from hushlist.match.index import Index
from hushlist.match.index_file import IndexFileError
from hushlist.policy.policy_file import Policy
from hushlist.url.hrn import parse_hrn

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
    #: kept rules that a broader rule makes redundant
    covered: int = 0
    #: one of these, and the rule that covers it
    example: str | None = None


@dataclass(slots=True)
class CompileReport:
    """The counts of all lists, and all warnings."""

    lists: list[ListReport] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """Plain types for JSON."""
        return asdict(self)

    def to_json(self) -> bytes:
        """JSON for the index file."""
        return json.dumps(self.as_dict()).encode()

    @classmethod
    def of(cls, index: Index) -> CompileReport:
        """The report in an index.

        Raises:
            IndexFileError: there is no readable report.
        """
        try:
            plain = json.loads(index.section(SECTION))
            lists = [ListReport(**own) for own in plain["lists"]]
            return cls(lists, [Problem(**own) for own in plain["warnings"]])
        except (LookupError, TypeError, ValueError, RecursionError) as error:
            raise IndexFileError(index.source, f"its report cannot be read: {error}") from error

    @property
    def total(self) -> ListReport:
        """All lists together."""
        total = ListReport(f"{len(self.lists)} files")
        for own in self.lists:
            for name in _COLUMNS:
                setattr(total, name, getattr(total, name) + getattr(own, name))
        return total

    @property
    def rules(self) -> dict[str, int]:
        """How many rules each file has, duplicates included."""
        rules = Counter[str]()
        for own in self.lists:
            rules[own.source] += own.kept + own.duplicates
        return rules

    def emptied(self, before: Mapping[str, int]) -> Iterator[Problem]:
        """The files that had rules and have none now; ``before`` gives the former numbers.

        That is hardly intended. Most likely, something else was downloaded in place of the list.
        """
        rules = self.rules
        for source, number in before.items():
            if number and rules.get(source) == 0:
                first = next((own for own in self.warnings if own.source == source and own.line), None)
                found = f" ({first.why})" if first else ""
                why = (
                    f"it had rules ({number:,}), and has none now{found}; to do without them, take it out of the policy"
                )
                yield Problem(source, first.line if first else 1, first.what if first else "list", why)

    def table(self) -> Iterator[str]:
        """Lines for people: the counts of every file, then examples of covered rules."""
        heads = [*_COLUMNS]
        rows = [([f"{getattr(own, name):,}" for name in _COLUMNS], own.source) for own in (*self.lists, self.total)]
        widths = [max(map(len, column)) for column in zip(heads, *(numbers for numbers, _ in rows), strict=True)]
        yield "  ".join(map(str.rjust, heads, widths))
        for numbers, name in rows:
            yield "  ".join((*map(str.rjust, numbers, widths), name))
        for own in self.lists:
            if own.example:
                yield f"covered in {own.source}: {own.example}"


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
