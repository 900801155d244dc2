"""The hashes of a list that a search looks for: by what has to be hashed, and how, to compare with them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from hushlist.match.rule import ExpressionHash, Rule
from hushlist.url.hashed import HashedUri, HashKey


class Table(NamedTuple):
    """Which hashes can be compared with each other."""

    #: of a digest, as it is kept in the list
    octets: int
    #: ``None`` where expressions are hashed by SHA-256
    uri: HashKey | None = None

    def __str__(self) -> str:
        if self.uri is None:
            return f"sha256, {self.octets} octets"
        flags = "+frag" * self.uri.fragment + "+query" * self.uri.query
        return f"hashed:{self.uri.algorithm}{flags}, variant {self.uri.variant}"


@dataclass(slots=True)
class Targets:
    """The hashes of one list; what takes memory is their number."""

    #: digest -> the line of the first rule that has it
    lines: dict[Table, dict[bytes, int]] = field(default_factory=dict)
    #: rules that hide nothing
    clear: int = 0

    @property
    def tables(self) -> tuple[Table, ...]:
        """In the order in which results number them."""
        return tuple(self.lines)

    @property
    def sets(self) -> tuple[tuple[Table, frozenset[bytes]], ...]:
        """What a search needs to know."""
        return tuple((table, frozenset(lines)) for table, lines in self.lines.items())

    def add(self, rules: Iterable[Rule]) -> None:
        """Take in the rules of a list."""
        for pattern, _, line in rules:
            if isinstance(pattern, ExpressionHash):
                self.lines.setdefault(Table(len(pattern.value)), {}).setdefault(pattern.value, line)
            elif isinstance(pattern, HashedUri):
                self.lines.setdefault(Table(len(pattern.digest), pattern.key), {}).setdefault(pattern.digest, line)
            else:
                self.clear += 1
