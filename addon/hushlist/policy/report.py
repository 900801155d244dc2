"""The report of compiling: what became of the rules of every list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from hushlist.errors import Problem
from hushlist.match.index import Index
from hushlist.match.index_file import IndexFileError

#: of an index file, that the report is in
SECTION = "report"


@dataclass(slots=True)
class ListReport:
    """What became of one file; ``read == kept + duplicates + refused``."""

    source: str
    #: entries
    read: int = 0
    #: rules in the index
    kept: int = 0
    #: rules that the file has before
    duplicates: int = 0
    #: entries that no rule could be made of
    refused: int = 0
    #: rules, among those that are kept, without which nothing would change: a broader one does the same
    covered: int = 0
    #: one of these, and what covers it
    example: str | None = None


@dataclass(slots=True)
class CompileReport:
    """See the module."""

    lists: list[ListReport] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """Plain types, as JSON needs them."""
        return asdict(self)

    def to_json(self) -> bytes:
        """For the index file."""
        return json.dumps(self.as_dict()).encode()

    @classmethod
    def of(cls, index: Index) -> CompileReport:
        """The report that an index has in it.

        Raises:
            IndexFileError: it has none.
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

    def table(self) -> Iterator[str]:
        """Lines for a person: the numbers of every file, and behind those of all an example of what is covered."""
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
