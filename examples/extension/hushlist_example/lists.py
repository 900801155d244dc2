"""Lists with names from their end, ``example.ads``: a name a line, and comments with a semicolon."""

from collections.abc import Iterator

from hushlist.core.lists.list_source import ListDefaults, ProblemReport, entries
from hushlist.core.lists.patterns import read_name
from hushlist.core.match.rule import Rule


def read_backwards(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """A rule for each name; what is no name is a warning with its line."""
    for line, entry in entries(octets, report):
        name = ".".join(reversed(entry.split(".")))
        if expression := read_name(name, line, report):
            yield Rule(expression, defaults.terms(report.source), line)
