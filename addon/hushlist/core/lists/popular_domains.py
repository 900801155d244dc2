"""Reads popular domains, the most popular first, such as Tranco and Umbrella publish.

They are not rules: the compiler warns of rules that block one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from hushlist.core.errors import UrlError
from hushlist.core.lists.list_source import ProblemReport, entries, read_octets
from hushlist.core.lists.patterns import parse_expression
from hushlist.core.url.host import is_plain_name


def read_popular(octets: bytes, report: ProblemReport) -> Iterator[bytes]:
    """The canonical hosts of a file, in its order; a line is a domain, or "rank,domain".

    A line that cannot be read is left out with a warning.

    >>> list(read_popular("1,Google.com\\n2,bücher.example\\n".encode(), ProblemReport("f")))
    [b'google.com', b'xn--bcher-kva.example']
    """
    for line, entry in entries(octets, report, is_foreign=True):
        try:
            ranked = _RANKED.fullmatch(entry)
            yield _host(ranked[1].strip(' \t"') if ranked else entry)
        except UrlError as error:
            report.leave_out(line, entry, error.reason)


def read_popular_file(path: Path | None, report: ProblemReport) -> tuple[bytes, ...]:
    """The same of a file, if there is one; none, with an error in the report, if it cannot be read."""
    octets = None if path is None else read_octets(path, report)
    return () if octets is None else tuple(read_popular(octets, report))


#: "1,google.com"; fields may be in quotes
_RANKED = re.compile(r'[ \t"]*[0-9]+[ \t"]*,(.*)', re.DOTALL)


def _host(text: str) -> bytes:
    octets = text.encode()
    if is_plain_name(octets):  # nearly all are already canonical, and these lists have a million
        return octets
    if "," in text:
        raise UrlError(text, "expected a domain, or its rank and a domain")
    host, _, path = parse_expression(text).value.partition(b"/")
    if path:
        raise UrlError(text, "a domain has no path")
    return host
