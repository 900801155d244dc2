"""A report for the publisher of a list: what they need to find the rule, and nothing of who was stopped.

>>> report = Report("jo", "10.0.0.7", None, "a.example", "http://a.example/x/y?q", "a.example/x/", 3, "Ads", "ads.txt")
>>> print(report_text(report, "path"))
A report of a mistake in a list
<BLANKLINE>
List: Ads (ads.txt)
Rule: a.example/x/ (line 3)
It stops: http://a.example/x/y
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network
from pathlib import PurePath
from urllib.parse import urlsplit

from hushlist.core.errors import printable, without_user
from hushlist.core.match.rule import Expression, ExpressionHash, Pattern
from hushlist.core.url.hashed_uri import HashedUri
from hushlist.extensions.reports.report_book import Report

#: how much of the URL a publisher is told: nothing, the host, the URL without its query, or all of it
NOTHING, HOST, PATH, WHOLE = SHAPES = ("nothing", "host", "path", "whole")
_QUERY = re.compile(r"[?#].*", re.DOTALL)


def shape_for(pattern: Pattern) -> str:
    """What the publisher of a rule has to know of the URL.

    A hash is enough, since the URL would say to all who read the report what nobody else knows of the list.
    """
    if isinstance(pattern, ExpressionHash | HashedUri):
        return NOTHING
    is_of_host = isinstance(pattern, Expression) and pattern.value.find(b"/") == len(pattern.value) - 1
    return HOST if is_of_host or isinstance(pattern, IPv4Network | IPv6Network) else PATH


def shown_url(url: str, shape: str) -> str:
    """As much of a URL as a publisher is told."""
    if shape == NOTHING:
        return ""
    url = str(without_user(url))
    if shape == HOST:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc}/"
    return _QUERY.sub("", url) if shape == PATH else url


def shown_source(source: str) -> str:
    """Where a list is from, without this machine's folders and without what may be a secret in a URL."""
    if "://" in source:
        return _QUERY.sub("", str(without_user(source)))
    return PurePath(source).name


def report_text(report: Report, shape: str) -> str:
    """A report, for a person to read, change and send."""
    return "\n".join(map(printable, _lines(report, shape)))


def _lines(report: Report, shape: str) -> Iterator[str]:
    yield "A report of a mistake in a list"
    yield ""
    source = shown_source(report.source)
    yield f"List: {report.list}{f' ({source})' if source else ''}"
    if report.version:
        yield f"Version: {report.version}"
    if report.digest:
        yield f"SHA-256 of the list: {report.digest}"
    yield f"Rule: {report.rule} (line {report.line})"
    if url := shown_url(report.url, shape):
        yield f"It stops: {url}"
