"""Reader of tables with a column of URLs, domains or expressions, such as URLhaus and PhishTank export.

Spec: RFC 4180; lines that begin with "#" are comments; the last comment before the records may be the header
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from hushlist.lists.list_source import ListDefaults, ProblemReport, numbered_lines
from hushlist.lists.patterns import read_expression
from hushlist.match.rule import Rule

#: names of the column in a header, the most telling first
_NAMES = ("url", "domain", "host", "indicator", "ioc_value")


def read_csv(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """The column that is named url, domain, host, ...; without such a header, the first column with URLs.

    >>> rules = read_csv(b'id,url\\n1,"http://a.example/x,y"\\n', ListDefaults(), ProblemReport("f"))
    >>> [(rule.line, str(rule.pattern)) for rule in rules]
    [(2, 'a.example/x,y')]
    """
    terms = defaults.terms(report.source)
    column: int | None = None
    for number, (line, record, comment) in enumerate(_records(octets, report)):
        if number == 0:
            column = _named_column(record)
            if column is not None:
                continue
            column = _commented_column(comment, len(record))
        if column is None:
            column = _column_of_urls(record)
        if column is None:
            if number:  # the first may be a header with other names
                report.leave_out(line, ",".join(record), "no column holds a URL")
        elif len(record) <= column or not record[column].strip():
            report.leave_out(line, ",".join(record), f"column {column + 1} is empty")
        elif "\n" in record[column].strip():
            report.leave_out(line, record[column], "it goes over several lines: its quotes may not be closed")
        elif expression := read_expression(_sent(record[column].strip()), line, report, defaults.fragments):
            yield Rule(expression, terms, line)


#: a URL up to its path or query
_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#]+[/?]")
_NEXT_URL = re.compile(r"\s[A-Za-z][A-Za-z0-9+.-]*://")


def _sent(url: str) -> str:
    """A URL as a browser sends it: the spaces in its path and query become escapes.

    >>> _sent("http://a.example/my file"), _sent("my file")
    ('http://a.example/my%20file', 'my file')
    """
    return url.replace(" ", "%20") if " " in url and _AUTHORITY.match(url) and not _NEXT_URL.search(url) else url


def _records(octets: bytes, report: ProblemReport) -> Iterator[tuple[int, list[str], str]]:
    """``(line where it begins, fields, last comment above the first record)`` of every record."""
    first = last = 0  # lines of the record that is being read; 0 before it
    comment = ""

    def lines() -> Iterator[str]:
        """Lines for the csv module, which takes more while a quoted field is open; comments are between records."""
        nonlocal first, last, comment
        for number, text in numbered_lines(octets, report, is_foreign=True):
            if first or (text.strip() and not text.lstrip().startswith("#")):
                first, last = first or number, number
                yield text + "\n"
            elif not last and text.strip("# \t"):
                comment = text

    reader = csv.reader(lines(), skipinitialspace=True)
    while True:
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error:
            report.leave_out(first, f"lines {first} to {last}", "they are no records of a table")
        else:
            if first and record:
                yield first, record, comment
        first = 0


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
