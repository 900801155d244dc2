"""Reader of plain text lists of hashed URIs, one a line, with "#" comments.

Spec: draft-feather-hashed-uri-03, 4.1
"""

from __future__ import annotations

from collections.abc import Iterator

from hushlist.errors import UrlError
from hushlist.lists.source import Defaults, Report, entries
from hushlist.match.rule import Rule
from hushlist.url.hashed import HashedUri, UnknownAlgorithmError, parse_hashed_uri


def read_hashed_uris(octets: bytes, defaults: Defaults, report: Report) -> Iterator[Rule]:
    """All rules of a list; where the report has errors, those that could be read."""
    terms = defaults.terms(report.source)
    for line, entry in entries(octets, report):
        uri = read_hashed_uri(entry, line, defaults, report)
        if uri is not None:
            yield Rule(uri, terms, line)


def read_hashed_uri(text: str, line: int, defaults: Defaults, report: Report) -> HashedUri | None:
    """One hashed URI, or ``None`` with an error, or with a warning where only its algorithm is not known."""
    try:
        uri = parse_hashed_uri(text, defaults.variant or "n")
    except UnknownAlgorithmError as error:
        report.skip(line, text, error.reason)
        return None
    except UrlError as error:
        at = "" if error.position is None else f" (at character {error.position + 1})"
        report.error(line, text, error.reason + at)
        return None
    if uri.key.fragment:
        report.warn(line, text, "a proxy never sees a fragment: '+frag' can match only where a source keeps them")
    return uri
