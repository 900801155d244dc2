"""README.md's tables of the seeds: every sentence that prescribes is in one, and what they name exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib import import_module
from inspect import getsource, isfunction
from itertools import chain
from pathlib import Path

import pytest

from conformance.readme import section, sections, table
from shared import SHARED

TESTS = Path(__file__).parents[1]
DOCUMENTS = ("000", "001", "002", "003", "004")
#: the one in Hindi is quoted in English
QUOTED = ("000", "001", "003", "004")

needs_seeds = pytest.mark.skipif(
    not (SHARED / "seeds").is_dir(), reason="no seeds beside the checkout; HUSHLIST_SHARED may name another place"
)


def rows(kind: str) -> list[list[str]]:
    """The rows of all documents' tables of a kind, the document in front."""
    return [
        [heading[:3], *cells]
        for heading in sections()
        if re.match(r"\d{3}, ", heading) and heading.endswith(f": {kind}")
        for cells in table(section(heading))
    ]


IMPLEMENTED, NOT_NEEDED = rows("implemented"), rows("not needed")


#: what stands between two pages, once white space is single
_PAGE_BREAK = re.compile(
    r"Feather \[Page \d+\] INTERNET DRAFT The Hashed URI 17 September 2002 "
    r"|(Masinter & Duerst|Stickler) Expires [^\[]* \[Page \d+\] Internet-Draft .{9,22} (August|January) 20\d\d "
)


@cache
def seed(document: str) -> str:
    """A seed's text in one line, without the lines between its pages."""
    (path,) = (SHARED / "seeds").glob(f"{document}_*")
    return _PAGE_BREAK.sub("", " ".join(path.read_text("utf-8").split()))


def quotes(document: str) -> list[str]:
    """What the tables quote of a document."""
    cells = (row[2] for row in chain(IMPLEMENTED, NOT_NEEDED) if row[0] == document)
    return [quote for cell in cells for quote in cell.split(" ... ")]


_SENTENCE_END = re.compile(r"(?<=[a-z)\">\]A-Z0-9])[.;]\)? ?(?=[A-Z\"(<])|(?<=[.;]) (?=[A-Z\"(<])")
_PRESCRIBES = re.compile(r"\b(must|should|requires|required|not allowed|recommended)\b", re.IGNORECASE)


@needs_seeds
@pytest.mark.parametrize("document", QUOTED)
def test_the_tables_quote_the_seeds(document: str) -> None:
    assert [quote for quote in quotes(document) if quote not in seed(document)] == []


@needs_seeds
@pytest.mark.parametrize("document", QUOTED)
def test_every_sentence_that_prescribes_is_in_a_table(document: str) -> None:
    sentences = [text for text in _SENTENCE_END.split(seed(document)) if text and _PRESCRIBES.search(text)]
    assert sentences
    missing = [text for text in sentences if not any(quote in text or text in quote for quote in quotes(document))]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_seed_has_its_tables(document: str) -> None:
    assert document in {row[0] for row in IMPLEMENTED}
    assert document in {row[0] for row in NOT_NEEDED}


def test_every_row_is_complete() -> None:
    assert {len(row) for row in IMPLEMENTED} == {6}
    assert {len(row) for row in NOT_NEEDED} == {4}
    assert all(all(row) for row in chain(IMPLEMENTED, NOT_NEEDED))


def names(column: int) -> list[str]:
    """What a column of the tables names, each once."""
    return sorted({name for row in IMPLEMENTED for name in re.findall("`([^`]+)`", row[column])})


def test_what_implements_a_sentence_exists() -> None:
    for name in names(3):
        path, _, attribute = name.partition(":")
        module = import_module("hushlist." + path.removesuffix(".py").replace("/", "."))
        assert path.endswith(".py"), name
        assert not attribute or hasattr(module, attribute), name


@cache
def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_test_of_a_sentence_exists() -> None:
    named = [name.split("::") for name in names(4)]
    assert [(path, function) for path, function in named if function not in functions(TESTS / path)] == []


SETTLED = (TESTS.parent / "addon" / "readings.md").read_text("utf-8").partition("\n## Settled readings\n")[2]


def deviations(source: str) -> list[str]:
    """The numbers of the readings that the deviations in a source quote; empty for one that quotes none."""
    found = re.findall(r"Deviation:.*?(?=\n\n|\n *\"\"\"|\n *[^#\s]+ = )", source, re.DOTALL)
    return [number[1] if (number := re.search(r"reading (\d+)", text)) else "" for text in found]


def results(row: list[str]) -> list[str]:
    """The numbers of the readings that a row has for its result."""
    return [] if row[5] == "holds" else [text.removeprefix("reading ") for text in row[5].split(", ")]


def test_every_result_is_that_the_sentence_holds_or_a_settled_reading() -> None:
    assert [row for row in IMPLEMENTED if not all(f"\n{number}. " in SETTLED for number in results(row))] == []


def test_every_deviation_of_the_package_quotes_its_settled_reading_and_is_the_result_of_a_sentence() -> None:
    sources = [path.read_text("utf-8") for path in (TESTS.parent / "addon" / "hushlist" / "core" / "url").glob("*.py")]
    quoted = {number for source in sources for number in deviations(source)}
    assert quoted
    assert quoted <= {number for row in IMPLEMENTED for number in results(row)}


def test_what_deviates_does_not_hold() -> None:
    for name in names(3):
        path, _, attribute = name.partition(":")
        own = getattr(import_module("hushlist." + path.removesuffix(".py").replace("/", ".")), attribute, None)
        numbers = set(deviations(getsource(own))) if isfunction(own) else set()
        told = [results(row) for row in IMPLEMENTED if f"`{name}`" in row[3]]
        assert all(numbers <= {*row} for row in told), name


def test_every_row_names_a_module_and_a_test() -> None:
    assert [row for row in IMPLEMENTED if "`" not in row[3] or "::" not in row[4]] == []
