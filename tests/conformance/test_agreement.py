"""README.md's tables of agreement against the run; and what keeps evasion out: the text and the request are one URL."""

from __future__ import annotations

from collections import Counter

import pytest

from conformance.agreement import FAMILIES, Family, absolute, canonical, cleaned
from conformance.readme import section, table
from conformance.vectors import Row, needs
from hushlist.core.errors import UrlError
from hushlist.core.url.parts import to_bytes
from hushlist.core.url.request import Request, canonical_forms, request_of
from unit.rows import each_row

pytestmark = [needs(file) for file in sorted({family.file for family in FAMILIES})]

families = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def differing(family: Family) -> list[Row]:
    return [row for row in family.rows() if family.differs(row)]


@families
def test_a_row_that_differs_has_a_class(family: Family) -> None:
    assert [row["input"] for row in differing(family) if family.class_of(row) is None] == []


@families
def test_the_readme_lists_the_classes_of_a_family_with_what_decides(family: Family) -> None:
    run = Counter(family.class_of(row) for row in differing(family))
    listed = table(section(family.name))
    # Every class of the code is looked for, so that one of which no row is left has no count to be listed with.
    assert {name: str(run[name]) for name in family.classes} == {name: count for name, count, _ in listed}
    assert "0" not in {count for _, count, _ in listed}
    assert all(clause for _, _, clause in listed)


def test_the_readme_says_how_many_rows_agree() -> None:
    run = {}
    for family in FAMILIES:
        total, different = len(family.rows()), len(differing(family))
        run[family.name] = [str(total), str(total - different), str(different)]
    assert run == {name: counts for name, *counts in table(section("How many rows agree"))}


# -- what keeps evasion out -----------------------------------------------------------------------------------------

DEMAND = next(family for family in FAMILIES if "asks for, safebrowsing" in family.name)
DEMANDED = DEMAND.rows()


def form(request: Request) -> bytes | None:
    """What the engine decides about first."""
    try:
        return canonical_forms(request, request.hosts[0])[0].join()
    except UrlError:
        return None


def test_the_request_of_a_text_is_the_one_that_a_browser_makes() -> None:
    rows = [row for row in DEMANDED if not DEMAND.differs(row)]
    assert len(rows) > 200
    for row in rows:
        ours, asked = request_of(absolute(row, cleaned(row, to_bytes(row["input"])))), request_of(row["expected"])
        assert (ours.scheme, ours.port) == (asked.scheme, asked.port), row
        assert form(ours) == form(asked) == canonical(to_bytes(row["expected"])), row


@each_row(
    "row",
    [row for row in DEMANDED if DEMAND.differs(row) and "\\" in row["input"] and row["input"].startswith("http")],
)
def test_a_backslash_in_the_path_is_read_as_a_slash_too(row: Row) -> None:
    # So a rule for what the browser asks for decides about the text as well.
    request = request_of(to_bytes(row["input"]))
    forms = canonical_forms(request, request.hosts[0])
    assert canonical(to_bytes(row["expected"])) in [reading.join() for reading in forms]
