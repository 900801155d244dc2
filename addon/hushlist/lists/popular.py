"""Reader of a list of popular domains, the most popular first, such as Tranco and Umbrella publish.

No rules come of it: lists of rules are compared with it, to warn of what blocks a popular site.
"""

from __future__ import annotations

from collections.abc import Iterator

from hushlist.errors import UrlError
from hushlist.lists.patterns import parse_expression
from hushlist.lists.source import Report, entries
from hushlist.url.host import is_plain_name


def read_popular(octets: bytes, report: Report) -> Iterator[bytes]:
    """One domain a line, or "rank,domain": the canonical hosts, in the order of the file.

    What cannot be read is left out with a warning; a host is the same as live traffic's.

    >>> list(read_popular("1,Google.com\\n2,bücher.example\\n".encode(), Report("f")))
    [b'google.com', b'xn--bcher-kva.example']
    """
    for line, entry in entries(octets, report, is_foreign=True):
        try:
            yield _host(_without_rank(entry))
        except UrlError as error:
            report.leave_out(line, entry, error.reason)


def _without_rank(entry: str) -> str:
    """The domain of "1,google.com"; some put their fields in quotes."""
    rank, comma, domain = entry.partition(",")
    return domain.strip(_AROUND) if comma and _is_number(rank.strip(_AROUND)) else entry


_AROUND = ' \t"'


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _host(text: str) -> bytes:
    octets = text.encode()
    if is_plain_name(octets):  # canonical already, as nearly all are; these lists have a million
        return octets
    if "," in text:
        raise UrlError(text, "expected a domain, or its rank and a domain")
    host, _, path = parse_expression(text).value.partition(b"/")
    if path:
        raise UrlError(text, "a domain has no path")
    return host
