"""The report of compiling, for people and as JSON."""

import json

import pytest

from hushlist.cli.compile_text import table
from hushlist.core.compile.compile_report import CompileReport, ListReport
from hushlist.core.errors import Problem
from hushlist.core.match.index_file import IndexFileError
from support.engines import index_of


@pytest.fixture
def report() -> CompileReport:
    ads = ListReport("ads.hosts", read=1_234_567, kept=1_234_560, duplicates=5, refused=2)
    own = ListReport("a/folder/own.yaml", read=3, kept=3)
    return CompileReport([ads, own], [Problem("ads.hosts", 7, "a b", "left out: there is white space in it")])


def test_the_table_has_a_line_for_each_file_and_one_for_all(report: CompileReport) -> None:
    assert list(table(report)) == [
        "     read       kept  duplicates  refused",
        "1,234,567  1,234,560           5        2  ads.hosts",
        "        3          3           0        0  a/folder/own.yaml",
        "1,234,570  1,234,563           5        2  2 files",
    ]


def test_an_index_gives_the_report_that_it_holds(report: CompileReport, monkeypatch: pytest.MonkeyPatch) -> None:
    index = index_of([])
    monkeypatch.setattr(type(index), "section", lambda _, name: {"report": json.dumps(report.to_plain())}[name])
    assert CompileReport.of(index).to_plain() == report.to_plain()


def test_a_report_of_other_counts_cannot_be_read(report: CompileReport, monkeypatch: pytest.MonkeyPatch) -> None:
    index, plain = index_of([]), report.to_plain()
    plain["lists"] = [{**row, "covered": 0} for row in plain["lists"]]
    monkeypatch.setattr(type(index), "section", lambda _, name: {"report": json.dumps(plain)}[name])
    with pytest.raises(IndexFileError, match="its report cannot be read"):
        CompileReport.of(index)
