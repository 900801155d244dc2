"""Reader of tables with a column of URLs, domains or expressions, such as URLhaus and PhishTank export.

Fields are separated by commas, semicolons or tabs. The column's name is in the first record, or in a comment above the
records, as in ThreatFox's tables; there, the first record has data already.

Spec: RFC 4180; lines that begin with "#" are comments; the last comment with names before the records is the header
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from hushlist.core.lists.list_source import ListDefaults, ProblemReport, numbered_lines
from hushlist.core.lists.patterns import read_expression
from hushlist.core.match.rule import Rule

#: names of the column in a header, the most telling first
_NAMES = ("url", "domain", "host", "hostname", "indicator", "ioc_value", "ioc", "fqdn")
_COMMENTS = re.compile(rb"^\s*#.*", re.DOTALL)
_SEPARATORS = ",;\t"
#: records by which the separator is told
_FIRST = 10
#: a field that is no name of a column: a URL, a domain or an address, a number, a date
_DATA = re.compile(r".*://.*|[\w-]+(?:(?>\.[\w-]+))++(?::[0-9]+)?(?:/.*)?|[0-9][0-9:/. T+-]*", re.DOTALL)
#: a line that is a URL, in which a ";" may stand
_URL_ALONE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\"]+")
_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\{\s*[\"}]|\[\s*[\[{\"\]])")


def read_csv(
    octets: bytes,
    defaults: ListDefaults,
    report: ProblemReport,
    *,
    separator: str = "",
    column_of: Callable[[list[str]], int | None] | None = None,
) -> Iterator[Rule]:
    """The column that is named url, domain, host, ...; without such a header, the first column with URLs.

    A table that makes no rule is an error: its column is another one, or it is no table. ``separator`` is what stands
    between fields, if nothing has to tell it; ``column_of``: the place of what a record without header is about.

    >>> rules = read_csv(b'id;url\\n1;"http://a.example/x;y"\\n', ListDefaults(), ProblemReport("f"))
    >>> [(rule.line, str(rule.pattern)) for rule in rules]
    [(2, 'a.example/x;y')]
    """
    if _JSON.match(octets):
        report.error(1, octets[:40].decode(errors="replace").strip(), "it begins as JSON does, and is no table")
        return
    terms = defaults.terms(report.source)
    column: int | None = None
    number, rules, separator = -1, 0, separator or _separator(octets)
    for number, (line, record, comment) in enumerate(_records(octets, report, separator)):
        if number == 0:
            column = _commented_column(comment, len(record), separator)
            if column is None and not any(map(_DATA.fullmatch, map(str.strip, record))):
                column = _named_column(record)
                if column is not None:
                    continue
        if column is None:
            column = (column_of or _column_of_urls)(record)
        if column is None:
            if number:  # the first may be a header with other names
                report.leave_out(line, ",".join(record), "no column holds a URL")
        elif len(record) <= column or not record[column].strip():
            report.leave_out(line, ",".join(record), f"column {column + 1} is empty")
        elif "\n" in record[column].strip():
            report.leave_out(line, record[column], "it goes over several lines: its quotes may not be closed")
        elif expression := read_expression(_sent(record[column].strip()), line, report, defaults.fragments):
            rules += 1
            yield Rule(expression, terms, line)
    if not rules and not report.errors:
        if number < 0 or (number == 0 and column is not None and report.left_out == 0):
            report.warn(0, "list", "it has no record, but comments or the names of columns")
        else:
            why = "no record of it could be made a rule: is it a table with a column of URLs, or one that is named"
            report.error(0, "list", f"{why} {', '.join(_NAMES[:-1])} or {_NAMES[-1]}?")


def read_tsv(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """A table whose fields have tabs between them; without a header, the first column with URLs or names of hosts.

    >>> rules = read_tsv(b"1\\ta.example\\tx\\n2\\tb.example\\ty", ListDefaults(), ProblemReport("f"))
    >>> [(rule.line, str(rule.pattern)) for rule in rules]
    [(1, 'a.example/'), (2, 'b.example/')]
    """
    return read_csv(octets, defaults, report, separator="\t", column_of=_column_of_names)


#: a URL up to its path or query
_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#]+[/?]")
_NEXT_URL = re.compile(r"\s[A-Za-z][A-Za-z0-9+.-]*://")


def _sent(url: str) -> str:
    """A URL as a browser sends it: the spaces in its path and query become escapes.

    >>> _sent("http://a.example/my file"), _sent("my file")
    ('http://a.example/my%20file', 'my file')
    """
    return url.replace(" ", "%20") if " " in url and _AUTHORITY.match(url) and not _NEXT_URL.search(url) else url


def _separator(octets: bytes) -> str:
    """What stands between fields: most of the first records have as many of them as the first.

    >>> texts = (b"id;url\\n1;http://a/,b\\n", b"a\\tb\\n1\\t2", b"http://a/x;y\\nhttp://b/", b"a,b;c")
    >>> [_separator(text) for text in texts]
    [';', '\\t', ',', ',']
    """
    quiet = ProblemReport("")
    lines = (text for _, text in numbered_lines(octets[: 1 << 16], quiet, is_foreign=True, comments=_COMMENTS))
    first = list(islice((line for line in lines if line.strip() and line.lstrip()[0] != "#"), _FIRST))
    if first and (match := re.fullmatch(r"sep=([,;\t])", first[0].strip("\r"))):
        return match[1]
    for separator in _SEPARATORS:
        numbers = [len(_fields(text, separator)) for text in first]
        is_url = separator == ";" and all(map(_URL_ALONE.fullmatch, first))
        if first and numbers[0] > 1 and not is_url and numbers.count(numbers[0]) * 10 >= len(numbers) * 8:
            return separator
    return _SEPARATORS[0]


def _fields(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])
    except csv.Error:
        return []


def _records(octets: bytes, report: ProblemReport, separator: str) -> Iterator[tuple[int, list[str], str]]:
    """``(line where it begins, fields, comment above the first record with the names of columns)`` of every record."""
    first = last = 0  # lines of the record that is being read; 0 before it
    comment = ""

    def lines() -> Iterator[str]:
        """Lines for the csv module, which takes more while a quoted field is open; comments are between records."""
        nonlocal first, last, comment
        for number, text in numbered_lines(octets, report, is_foreign=True, comments=_COMMENTS):
            if not last and text.strip().startswith("sep="):
                continue
            if first or (text.strip() and not text.lstrip().startswith("#")):
                first, last = first or number, number
                yield text + "\n"
            elif not last and _named_column(_fields(text.strip("# \t"), separator)) is not None:
                comment = text

    reader = csv.reader(lines(), delimiter=separator, skipinitialspace=True)
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


def _named_column(record: Sequence[str]) -> int | None:
    names = [field.strip().lower() for field in record]
    return next((names.index(name) for name in _NAMES if name in names), None)


def _commented_column(comment: str, number: int, separator: str) -> int | None:
    """The place of the column that a comment names: each of its fields is a name, and a record has the field."""
    names = _fields(comment.strip("# \t"), separator)
    column = _named_column(names)
    is_header = column is not None and column < number and (len(names) > 1 or number == 1)
    return column if is_header and not any(map(_DATA.fullmatch, names)) else None


_NAME = re.compile(r"(?:[\w-]++\.)+[A-Za-z][\w-]*+")


def _column_of_names(record: list[str]) -> int | None:
    column = _column_of_urls(record)
    if column is not None and len(record) > 1:
        return column
    return next((number for number, field in enumerate(record) if _NAME.fullmatch(field.strip())), column)


def _column_of_urls(record: list[str]) -> int | None:
    if len(record) == 1 and "." in record[0]:
        return 0
    return next((number for number, field in enumerate(record) if "://" in field), None)
