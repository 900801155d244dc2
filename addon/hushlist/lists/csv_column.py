"""Reader of tables with a column of URLs, domains or expressions, such as URLhaus and PhishTank export.

Spec: RFC 4180; lines that begin with "#" are comments; the last comment before the records may be the header
"""

from __future__ import annotations

import csv
from collections.abc import Iterator

from hushlist.lists.list_source import ListDefaults, ProblemReport, numbered_lines
from hushlist.lists.patterns import read_expression
from hushlist.match.rule import Rule

#: names of the column in a header, the most telling first
_NAMES = ("url", "domain", "host", "indicator", "ioc_value")


class _CsvLines:
    """Lines for the csv module, which takes more while a quoted field is open; comments are only between records."""

    def __init__(self, octets: bytes, report: ProblemReport) -> None:
        self._lines = numbered_lines(octets, report, is_foreign=True)
        self.first = 0  # line of the record that is being read; 0 before it
        self.last = 0
        self.comment = ""  # the last one above the first record

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        for number, text in self._lines:
            if not self.first and (not text.strip() or text.lstrip().startswith("#")):
                if not self.last and text.strip("# \t"):
                    self.comment = text
                continue
            self.first = self.first or number
            self.last = number
            return text + "\n"
        raise StopIteration


def read_csv(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """The column that is named url, domain, host, ...; without such a header, the first column with URLs.

    >>> rules = read_csv(b'id,url\\n1,"http://a.example/x,y"\\n', ListDefaults(), ProblemReport("f"))
    >>> [(rule.line, str(rule.pattern)) for rule in rules]
    [(2, 'a.example/x,y')]
    """
    terms = defaults.terms(report.source)
    column: int | None = None
    lines = _CsvLines(octets, report)
    for number, (line, record) in enumerate(_records(lines, report)):
        if number == 0:
            column = _named_column(record)
            if column is not None:
                continue
            column = _commented_column(lines.comment, len(record))
        if column is None:
            column = _column_of_urls(record)
        if column is None:
            if number:  # the first may be a header with other names
                report.leave_out(line, ",".join(record), "no column holds a URL")
        elif len(record) <= column or not record[column].strip():
            report.leave_out(line, ",".join(record), f"column {column + 1} is empty")
        elif "\n" in record[column].strip():
            report.leave_out(line, record[column], "it goes over several lines: its quotes may not be closed")
        elif expression := read_expression(record[column].strip(), line, report):
            yield Rule(expression, terms, line)


def _records(lines: _CsvLines, report: ProblemReport) -> Iterator[tuple[int, list[str]]]:
    """``(line where it begins, fields)`` of every record."""
    reader = csv.reader(lines, skipinitialspace=True)
    while True:
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error:
            report.leave_out(lines.first, f"lines {lines.first} to {lines.last}", "they are no records of a table")
        else:
            if lines.first and record:
                yield lines.first, record
        lines.first = 0


def _named_column(record: list[str]) -> int | None:
    names = [field.strip().lower() for field in record]
    return next((names.index(name) for name in _NAMES if name in names), None)


def _commented_column(comment: str, number: int) -> int | None:
    """The same for a comment that has as many fields as a record."""
    try:
        names = next(csv.reader([comment.strip("# \t")], skipinitialspace=True), [])
    except csv.Error:
        return None
    return _named_column(names) if len(names) == number else None


def _column_of_urls(record: list[str]) -> int | None:
    if len(record) == 1 and "." in record[0]:
        return 0
    return next((number for number, field in enumerate(record) if "://" in field), None)
