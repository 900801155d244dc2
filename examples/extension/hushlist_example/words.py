"""Words that no path may have: a list format, its pattern, and the matcher that finds it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar

from hushlist.core.lists.list_source import ListDefaults, ProblemReport, entries
from hushlist.core.match.matcher import Placed, PlacesOf, Sections
from hushlist.core.match.rule import FilterPattern, Rule
from hushlist.core.match.rule_match import Match
from hushlist.core.url.parts import Parts


@dataclass(frozen=True)
class Word(FilterPattern):
    """A word, in small letters."""

    word: str
    extension: ClassVar[str] = "example"
    is_exception: bool = False

    def __str__(self) -> str:
        return self.word

    @property
    def digest(self) -> bytes:
        return sha256(self.word.encode()).digest()

    def placed(self, line: int) -> Placed:
        return Placed(self.word, host=b"")

    def why_broad(self, breadth: object) -> None:
        return None


def read_words(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """A rule for each line."""
    for line, entry in entries(octets, report):
        yield Rule(Word(entry.lower()), defaults.terms(report.source), line)


class WordMatcher:
    """Finds words in the canonical forms of a path."""

    spent = ()

    def __init__(
        self, section: Callable[[str], memoryview], places_of: PlacesOf, lists: Sequence[tuple[str, str]], source: str
    ) -> None:
        self._words = [Word(word) for word in bytes(section("words")).decode().split("\n")]
        self._places_of = places_of

    @staticmethod
    def sections(lists: Sequence[Sequence[str]]) -> Sections:
        words = sorted({word for of_list in lists for word in of_list})
        return Sections({"words": "\n".join(words).encode()}, [[] for _ in lists])

    def on_host(self, name: bytes) -> list[Match]:
        return []

    def of_request(self, request: object, budget: object, **_: bool) -> "WordMatcher":
        return self

    def matches(self, host: bytes, form: Parts, **_: Any) -> list[list[Match]]:
        found = [word for word in self._words if word.word.encode() in form.path.lower()]
        rules = (Rule(word, terms, line) for word in found for terms, line in self._places_of(word.digest))
        return [[Match(rule, b"http://" + host + form.path, (1, 0)) for rule in rules]]
